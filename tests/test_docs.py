"""The documents are correct: commands print the output shown, code runs, and generated pages are current."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from conftest import ROOT
from test_traces import without_times

from chainofcode.cli import _parser as command_parser
from chainofcode.notebook import _parser as notebook_parser
from chainofcode.program import Program
from chainofcode.trace import Answer, Call, Header, Step

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples" / "README.md"]
TEXTS = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
BLOCKS = [(page, found[2], found[3]) for page, text in TEXTS.items() for found in BLOCK.finditer(text)]
OTHER_RUNNERS = {
    "docs/protocol.md",
    "docs/clients.md",
}  # only compiled here: tests/test_protocol.py runs the first, the other needs clients and a server
OTHER_OPTIONS = {"--check", "--serve", "--strict"}  # of scripts in docs/ and bench/
GENERATED = {"docs/cli.md", "docs/cli-evaluation.md", "docs/cli-server.md", "docs/http.md"}  # schemas share fields
ATTEMPTS = 3  # `coc verify` tries fewer values if the machine is busy
MAX_PAGE_LINES, MAX_README_LINES = 400, 150


def blocks(language: str) -> list[pytest.ParameterSet]:
    found = [(page, text) for page, kind, text in BLOCKS if kind == language]
    counts: Counter[str] = Counter()
    cases = []
    for page, text in found:
        counts[page] += 1
        cases.append(pytest.param(page, text, id=f"{page}:{counts[page]}"))
    return cases


@pytest.mark.parametrize(("page", "block"), blocks("console"))
def test_console_block(page: str, block: str) -> None:
    command, _, expected = block.partition("\n")
    words = [sys.executable, "-m", "chainofcode", *shlex.split(command.removeprefix("$ coc "))]
    for _ in range(ATTEMPTS):
        done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
        if comparable(done.stdout) == comparable(expected):
            break
    assert comparable(done.stdout) == comparable(expected)


def comparable(text: str) -> str:
    """Remove times, including those in the last column of a table."""
    return re.sub(r"^(all .*) \d+\.\d$", r"\1 N", without_times(text), flags=re.MULTILINE)


@pytest.mark.parametrize(("page", "block"), blocks("python"))
def test_python_block(page: str, block: str) -> None:
    if page in OTHER_RUNNERS:
        compile(block, page, "exec")
        return
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("page", "block"), blocks("json"))
def test_json_block(page: str, block: str) -> None:
    for line in block.splitlines():
        json.loads(line)


@pytest.mark.parametrize(("page", "block"), blocks("bash"))
def test_options_of_commands_exist(page: str, block: str) -> None:
    """Most commands need a model or a file, so they are parsed but not run."""
    for words in commands(block):
        command_parser().parse_args(words)


def test_commands_of_the_readme_name_the_source_of_values() -> None:
    """`coc run` and `coc sql` have no default model."""
    wanted = [words for page, kind, text in BLOCKS if (page, kind) == ("README.md", "bash") for words in commands(text)]
    programs = [command_parser().parse_args(words) for words in wanted if words[0] in ("run", "sql")]
    assert programs and all(given.model or given.emulator or given.values for given in programs)


def commands(block: str) -> Iterator[list[str]]:
    for line in block.replace("\\\n", " ").splitlines():
        for command in " ".join(f"'{word}'" for word in shlex.split(line, comments=True)).split("'&&'"):
            words = shlex.split(command)
            places = [number for number, word in enumerate(words) if word.rpartition("/")[2] == "coc"]
            if places and words[places[-1] + 1 :]:
                yield words[places[-1] + 1 :]


def test_blocks_were_found() -> None:
    counts = Counter(kind for _, kind, _ in BLOCKS)
    assert counts["console"] >= 6
    assert counts["python"] >= 10
    assert sum(len(list(commands(text))) for _, kind, text in BLOCKS if kind == "bash") >= 20
    fences = sum(len(re.findall(r"^ *```", text, re.MULTILINE)) for text in TEXTS.values())
    assert fences == 2 * len(BLOCKS), "a code block has no language or is not closed"


def test_options_in_documents_exist() -> None:
    parsers = [command_parser(), notebook_parser()]
    for action in command_parser()._actions:
        parsers += getattr(action, "choices", None).values() if isinstance(action.choices, dict) else ()
    known = {option for parser in parsers for option in parser._option_string_actions} | OTHER_OPTIONS
    for page, text in TEXTS.items():
        for span in re.findall(r"(?<!`)`((?:coc |--)[^`]*)`", text):
            for option in re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", span):
                assert option in known, f"{page}: {span}"


@pytest.mark.parametrize("page", TEXTS)
def test_links_lead_to_files(page: str) -> None:
    for target in re.findall(r"\]\(([\w./-]+)(?:#[\w-]*)?\)", TEXTS[page]):
        assert ((ROOT / page).parent / target).exists(), target


@pytest.mark.parametrize("page", TEXTS)
def test_pages_are_short(page: str) -> None:
    assert TEXTS[page].count("\n") <= (MAX_README_LINES if page == "README.md" else MAX_PAGE_LINES)


def test_no_text_is_repeated() -> None:
    """No long paragraph, list item or table row occurs twice."""
    places: dict[str, list[str]] = {}
    for page, text in TEXTS.items():
        if page in GENERATED:
            continue
        without_code = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)
        for part in re.split(r"\n\n|\n(?=[-*|] )|\n(?=\d+\. )", without_code):
            words = " ".join(part.split())
            if len(words) > 80 and page != "CHANGELOG.md":
                places.setdefault(words, []).append(page)
    assert not {words: pages for words, pages in places.items() if len(pages) > 1}


def test_the_first_command_and_the_test_command_are_in_the_readme() -> None:
    first = "python3 -m venv .venv && . .venv/bin/activate && pip install -q '.[local]' \\\n  && coc ask "
    assert first in TEXTS["README.md"]
    assert "\npython3 check.py\n" in TEXTS["README.md"]


@pytest.mark.parametrize("script", ["make_reference.py", "make_picture.py"])
def test_generated_files_are_current(script: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("event", [Header, Program, Call, Step, Answer], ids=lambda event: event.__name__)
def test_the_trace_page_has_every_field(event: type[msgspec.Struct]) -> None:
    page = TEXTS["docs/trace.md"]
    rows = page[page.index(f"| `{event.__struct_config__.tag}` | meaning |") :].split("\n\n")[0].splitlines()[2:]
    described = [name for row in rows for name in re.findall(r"`(\w+)`", row.split(" | ")[0])]
    assert sorted(described) == sorted(event.__struct_fields__)


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    """Broken links, missing anchors and pages that the navigation lacks are errors."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'chainofcode[docs]'")
    pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed: pip install 'chainofcode[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # an announcement by the theme
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=quiet)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert (tmp_path / "site" / "index.html").exists()
