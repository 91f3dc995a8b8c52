"""The words of the project: documents, help texts, messages and docstrings avoid a list of bad habits.

Plain technical English names the actor and uses the field's own nouns. The list is not complete: it has the most
frequent habits, each with what to write instead.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

from chainofcode.cli import _parser as command_parser

SOURCE = ROOT / "src" / "chainofcode"
HABITS = {
    r"nobody|somebody|anybody|everybody": "name the actor, or use the passive",
    r"whoever": "anyone who, the caller, the client",
    r"whatever": "any, regardless of, even if",
    r"told": "shown, described, given",
    r"said": "returned, stated, printed",
    r"(?:to )?be had": "available",
    r"made good": "added, corrected",
    r"(?:held|holds?) (?:\w+ ){0,3}against": "compared with, checked against",
    r"(?<!there )(?<!tool_choice )(?:is|are) (?-i:none)": "is not a …, is absent",
    r"as it should be": "valid, correct",
    r"not as it was written": "changed",
    r"in vain": "wasted",
    r"of ours": "of this project, or nothing",
    r"beside": "next to",
    r"anew": "again",
    r"by turns": "alternating",
    r"otherwise than": "differently from",
    r"as it stands": "unchanged, or nothing",
    r"what (?:came|becomes?|became|comes) of": "the result of, the outcome of",
    r"work(?:s|ed|ing)? (?:it |them |this |nothing )?out(?! of)": "compute",
    r"tells? of": "report, describe",
    r"as ever": "still",
    r"who (?:asks|answered|it is that)": "the client, the caller, the model",
    r"(?:the|a|an|no|its|their) walls?(?![ -]?(?:clock|time|limit))": "sandbox, isolation",
    r"makes? of it what": "use",
    r"go(?:es)? on|going on": "continue",
    r"for good": "permanently",
    r"as (?:it|they) (?:came|comes?)": "unchanged, in the original order",
    r"(?:comes?|came|coming) out (?:the same|as)": "is equal to, has the result",
    r"(?:takes?|taken|taking|took) away": "remove",
    r"each once": "without duplicates",
    r"(?:at most|after|until|for|with) so (?:many|much)": "this many, the limit",
}
_HABIT = re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in HABITS), re.IGNORECASE)
# How many habits a file may still have. New files have none; the numbers may only go down.
EXCEPTIONS = {
    # prompts, whose results were measured with these words
    "methods/code.py": 2,
    "methods/prompting.py": 2,
    # a user name
    "sandbox/kernel.py": 1,
}


def texts() -> Iterator[tuple[str, str]]:
    """Yield every text with its place: paragraphs of documents, strings and docstrings of the source, help texts."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "examples" / "README.md"]
    for page in sorted(pages):
        without_code = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for paragraph in without_code.split("\n\n"):
            yield str(page.relative_to(ROOT)), " ".join(paragraph.split())
    for path in sorted(SOURCE.rglob("*.py")):
        for text in strings(path):
            yield str(path.relative_to(SOURCE)), text
    for command, parser in commands():
        yield f"coc {command} --help", " ".join(parser.format_help().split())


def strings(path: Path) -> Iterator[str]:
    """Yield strings with a space, without the code in backticks: strings without a space are names, keys and tags."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield re.sub(r"`[^`]*`", "", " ".join(node.value.split()))


def commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in command_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def found() -> dict[str, list[str]]:
    """Return the habits in each file or command, with a few words around each."""
    hits: dict[str, list[str]] = {}
    for place, text in texts():
        for habit in _HABIT.finditer(text):
            around = text[max(habit.start() - 40, 0) : habit.end() + 40]
            hits.setdefault(place, []).append(f"{habit[0]!r} in …{around}…")
    return hits


def advice(hits: list[str]) -> str:
    """Return the hits with what to write instead."""
    used = {pattern: words for pattern, words in HABITS.items() for hit in hits if re.search(pattern, hit, re.I)}
    return "\n".join([*hits, *(f"  {pattern}: {words}" for pattern, words in used.items())])


def test_no_bad_habits() -> None:
    for place, hits in found().items():
        assert len(hits) <= EXCEPTIONS.get(place, 0), f"{place}\n{advice(hits)}"


def test_exceptions_name_files() -> None:
    for place in EXCEPTIONS:
        assert (SOURCE / place).exists(), f"{place} does not exist: remove its exception"


@pytest.mark.parametrize(
    "sentence",
    [
        "The model could not be had",
        "nobody knows what arguments f takes",
        "answers are held against a schema",
        "formats of answers that are none are a 400",
        "the program works it out",
        "no program runs without a wall",
        "the run goes on where it stopped",
    ],
)
def test_habits_are_found(sentence: str) -> None:
    assert _HABIT.search(sentence)


@pytest.mark.parametrize(
    "sentence",
    ["empty if there is none", "besides the one that counts", "a warning is printed", "the wall-clock limit"],
)
def test_plain_english_is_accepted(sentence: str) -> None:
    assert not _HABIT.search(sentence)
