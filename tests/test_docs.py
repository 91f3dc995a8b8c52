"""The documents are true: README's commands print what it says, its code runs, every option is documented."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest
from conftest import ROOT
from test_traces import without_times

from chainofcode.cli import _parser as command_parser
from chainofcode.notebook import _parser

README = (ROOT / "README.md").read_text(encoding="utf-8")
CONSOLE = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(r"^    (\w+) ", command_parser().format_help(), re.MULTILINE)
PYTHON = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("block", CONSOLE)
def test_console_block(block: str) -> None:
    command, _, expected = block.partition("\n")
    words = shlex.split(command.removeprefix("$ coc "))
    done = subprocess.run(
        [sys.executable, "-m", "chainofcode", *words], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert comparable(done.stdout) == comparable(expected)


def comparable(text: str) -> str:
    """Without times, be they the last column of a table."""
    return re.sub(r"^(all .*) \d+\.\d$", r"\1 N", without_times(text), flags=re.MULTILINE)


@pytest.mark.parametrize("block", PYTHON)
def test_python_block(block: str) -> None:
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_blocks_were_found() -> None:
    assert len(CONSOLE) == 6
    assert len(PYTHON) == 7


def test_every_command_is_in_the_table() -> None:
    rows = re.findall(r"^\| `coc (\w+)", README, re.MULTILINE)
    assert set(rows) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_what_the_readme_names(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "chainofcode", command, "--help"], capture_output=True, text=True, check=True
    )
    for option in re.findall(r"--[a-z][a-z-]+", done.stdout):
        if option != "--help":
            assert option in README, option


def test_options_that_the_readme_names_exist() -> None:
    told = _parser().format_help() + "".join(
        subprocess.run(
            [sys.executable, "-m", "chainofcode", name, "--help"], capture_output=True, text=True, check=True
        ).stdout
        for name in COMMANDS
    )
    for option in set(re.findall(r"`[^`]*?(--[a-z][a-z-]+)", README)):
        assert option in told, option


def test_files_that_the_documents_name_exist() -> None:
    for document in ROOT.glob("*.md"):
        for target in re.findall(r"\]\(([\w./-]+)\)", document.read_text(encoding="utf-8")):
            assert (ROOT / target).exists(), f"{document.name}: {target}"
