"""SECURITY.md promises only what a test proves: each promise names its tests in a comment, and these tests exist.

Every sentence of the page ends with `<!-- proof: tests/test_x.py::test_a, ::test_b -->` (`::test_b` is in the same
file) or, if it promises nothing, with `<!-- no promise -->`; in a table, the comment of a row's last sentence is in its
last cell. `<!-- no promise -->` may stand for several sentences. No comment is needed in headings, in the first cell of
a row, and in rows and paragraphs that say what is not covered.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest
from conftest import ROOT

PAGE = ROOT / "SECURITY.md"
COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)
NO_PROMISE = "no promise"
NOT_COVERED = "not covered"
SENTENCE_END = re.compile(r"""(?<=[.!?:])["')`*]*\s+(?=["'(`*\[]*[A-Z-])""")


class Block(NamedTuple):
    """A paragraph, a list item, or a row of a table without its first cell."""

    line: int
    text: str
    needs_comments: bool


class Sentence(NamedTuple):
    """What stands before a comment, since the comment before; `comment` is empty at the end of a block."""

    line: int
    text: str
    comment: str


# --- reading the page ---------------------------------------------------------------------------------------------


def read_blocks(page: str) -> Iterator[Block]:
    """Yield what may promise something: neither headings nor the head of a table."""
    rows: list[tuple[int, str]] = []
    text, begin = "", 0
    for number, line in enumerate([*page.splitlines(), ""], 1):
        is_row = line.startswith("|")
        ends_block = not line.strip() or is_row or line.startswith(("#", "- "))
        if text and ends_block:
            yield Block(begin, text, not text.lower().startswith(NOT_COVERED))
            text = ""
        if rows and not is_row:
            yield from read_table(rows)
            rows = []
        if is_row:
            rows.append((number, line))
        elif line.strip() and not line.startswith("#"):
            begin = begin if text else number
            text = f"{text}\n{line}" if text else line.removeprefix("- ")


def read_table(rows: list[tuple[int, str]]) -> Iterator[Block]:
    (_, head), _, *body = rows
    for number, row in body:
        label, *cells = row.strip().strip("|").split("|")
        is_covered = NOT_COVERED not in (split_row(head)[0], label.strip())
        yield Block(number, " | ".join(map(str.strip, cells)), is_covered)


def split_row(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def split_block(block: Block) -> Iterator[Sentence]:
    begin = 0
    for found in COMMENT.finditer(block.text):
        line = block.line + block.text.count("\n", 0, found.start())
        yield Sentence(line, block.text[begin : found.start()].strip(" |\n"), found[1].strip())
        begin = found.end()
    if rest := block.text[begin:].strip(" |\n"):
        yield Sentence(block.line + block.text.count("\n"), rest, "")


def list_proofs(comment: str) -> list[str]:
    """The tests that a comment names; `::test_b` is in the file of the test before."""
    tests, file = [], ""
    for name in comment.removeprefix("proof:").split(","):
        path, _, function = name.strip().partition("::")
        file = path or file
        tests.append(f"{file}::{function}")
    return tests


# --- judging it ---------------------------------------------------------------------------------------------------


def find_faults(page: str) -> Iterator[str]:
    """Each fault of the page, with its line."""
    for block in read_blocks(page):
        for sentence in split_block(block):
            for fault in check_sentence(sentence, block.needs_comments):
                yield f"line {sentence.line}: {fault}: {sentence.text[-90:]!r}"
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("<!--"):
            yield f"line {number}: a comment at the start of a line ends the paragraph; put it after the sentence"


def check_sentence(sentence: Sentence, needs_comment: bool) -> Iterator[str]:
    is_proof = sentence.comment.startswith("proof:")
    if not sentence.text:
        yield "a comment without a sentence"
    elif not sentence.comment and needs_comment:
        yield "no comment names the test that proves this"
    if sentence.comment and not is_proof and sentence.comment != NO_PROMISE:
        yield f"unknown comment {sentence.comment!r} (expected 'proof: …' or {NO_PROMISE!r})"
    if is_proof and needs_comment and SENTENCE_END.search(sentence.text):
        yield "one proof for several sentences"
    if is_proof:
        yield from filter(None, map(check_proof, list_proofs(sentence.comment)))


@cache
def check_proof(name: str) -> str:
    """Why a test proves nothing, or an empty text."""
    file, _, function = name.partition("::")
    path = ROOT / file
    if not (file.startswith("tests/") and path.is_file()):
        return f"there is no file {file!r}"
    module = ast.parse(path.read_text(encoding="utf-8"))
    tests = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    if not function.startswith("test_") or function not in tests:
        return f"there is no test {function!r} in {file}"
    return f"{name} is always skipped" if is_skipped(module, tests[function]) else ""


def is_skipped(module: ast.Module, test: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a test never runs: by a mark without a condition, or because it begins by skipping itself."""
    assigned = [node for node in module.body if isinstance(node, ast.Assign)]
    marks = [node.value for node in assigned if "pytestmark" in map(ast.unparse, node.targets)]
    marks += test.decorator_list
    begin = test.body[1] if len(test.body) > 1 and ast.get_docstring(test) else test.body[0]
    marked = any(re.search(r"mark\.(skip\b|skipif\((True|1)\b)", ast.unparse(mark)) for mark in marks)
    return marked or ast.unparse(begin).startswith(("pytest.skip(", "pytest.xfail("))


# --- the tests ----------------------------------------------------------------------------------------------------


def test_every_promise_names_its_proof() -> None:
    assert list(find_faults(PAGE.read_text(encoding="utf-8"))) == []


def test_page_is_read_whole() -> None:
    """Each row of its tables is a block, and each word outside tables and headings is in a sentence."""
    page = PAGE.read_text(encoding="utf-8")
    blocks = list(read_blocks(page))
    sentences = [sentence for block in blocks for sentence in split_block(block)]
    assert sum(sentence.comment.startswith("proof:") for sentence in sentences) > 100
    lines = COMMENT.sub("", page).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    tables = [line for line in rows if line.startswith("|---")]
    prose = [line for line in lines if not line.startswith(("#", "|"))]
    assert sum(page.splitlines()[block.line - 1].startswith("|") for block in blocks) == len(rows) - 2 * len(tables)
    read = " ".join(sentence.text for sentence in sentences)
    assert not [word for line in prose for word in line.split() if word not in read and word != "-"]


GOOD = "tests/test_security_page.py::test_page_is_read_whole"
FAULTY = {
    "Guests cannot read files.": "no comment names the test",
    f"One is proved. Two is not. <!-- proof: {GOOD} -->": "one proof for several sentences",
    f"One. <!-- proof: {GOOD} --> Two is left.": "no comment names the test",
    f"One. <!-- proof: {GOOD} --> <!-- no promise -->": "a comment without a sentence",
    "It holds. <!-- proof: tests/test_nowhere.py::test_x -->": "there is no file 'tests/test_nowhere.py'",
    "It holds. <!-- proof: tests/test_security_page.py::test_x -->": "there is no test 'test_x'",
    "It holds. <!-- proof: tests/test_security_page.py::split_row -->": "there is no test 'split_row'",
    f"It holds. <!-- proof: {GOOD}, ::test_x -->": "there is no test 'test_x'",
    "It holds. <!-- proof: -->": "there is no file ''",
    "It holds. <!-- todo -->": "unknown comment 'todo'",
    f"It holds.\n<!-- proof: {GOOD} -->": "at the start of a line",
    f"| covered | how |\n|---|---|\n| files | none; never <!-- proof: {GOOD} --> |\n| network | none |": "no comment",
    "- one\n- two <!-- no promise -->": "no comment names the test",
}
FAULTLESS = [
    f"## Heading\n\nOne holds. <!-- proof: {GOOD} --> Two is a definition. So is three. <!-- no promise -->\n",
    f"It spans\ntwo lines <!-- proof:\n{GOOD},\n::test_every_promise_names_its_proof -->",
    f"| covered | how |\n|---|---|\n| x | one. <!-- proof: {GOOD} --> Two | all <!-- no promise --> |",
    f"| not covered | |\n|---|---|\n| x | this. Then that, by a test <!-- proof: {GOOD} --> |",
    "Not covered: all the rest. It has no test.",
    "| | |\n|---|---|\n| not covered | all the rest |",
]


@pytest.mark.parametrize("page", FAULTY)
def test_faulty_page_is_noticed(page: str) -> None:
    assert any(FAULTY[page] in fault for fault in find_faults(page))


@pytest.mark.parametrize("page", FAULTLESS)
def test_faultless_page_is_accepted(page: str) -> None:
    assert list(find_faults(page)) == []


@pytest.mark.parametrize(
    "text",
    [
        "@pytest.mark.skip\ndef test_x(): pass",
        "@pytest.mark.skip(reason='later')\ndef test_x(): pass",
        "@pytest.mark.skipif(True, reason='later')\ndef test_x(): pass",
        "pytestmark = [pytest.mark.alone, pytest.mark.skip]\ndef test_x(): pass",
        "def test_x():\n    'What it does.'\n    pytest.skip('later')",
    ],
)
def test_skipped_proof_is_noticed(text: str) -> None:
    module = ast.parse(text)
    test = module.body[-1]
    assert isinstance(test, ast.FunctionDef) and is_skipped(module, test)


def test_proof_that_is_skipped_on_some_machines_is_accepted() -> None:
    module = ast.parse("@pytest.mark.skipif(not here, reason='x')\ndef test_x():\n    if a:\n        pytest.skip('x')")
    test = module.body[-1]
    assert isinstance(test, ast.FunctionDef) and not is_skipped(module, test)
