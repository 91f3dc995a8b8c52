"""`coc examples`: lists the examples from the table in examples/README.md, or runs one."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ... import __file__ as _PACKAGE
from ...boot import module_path
from ...errors import InputError
from ..terminal import ANSWERED, note, print_json, print_lines, write_lines

_ROW = re.compile(
    r"\| \[(?P<name>[^]]+)\]\([^)]+\) \|(?P<shows>[^|]+)\|(?P<needs>[^|]*)\|"
    r" `(?P<command>[^`]+)` \| `(?P<answer>.+)` \|"
)
_RECORDED = ("--values", "--model")  # options that stand in for a model


class Example(msgspec.Struct, frozen=True):
    name: str
    shows: str
    needs: str  # what to install
    command: str  # with paths from the directory above the examples
    answer: str


def add_to(commands: Any, run: Callable[[Sequence[str]], int]) -> None:
    parser = commands.add_parser(
        "examples",
        help="list the examples, or run one",
        description="Without NAME, list the examples. With NAME, run that example: with the values recorded for it, "
        "which needs no model, or with a model of your choice.",
        examples=(
            "coc examples",
            "coc examples fruit.py",
            "coc examples fruit.py --model ollama:llama3.2",
        ),
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="the example to run, such as fruit.py")
    parser.add_argument("--model", metavar="PROVIDER:MODEL", help="ask this model instead of using recorded values")
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    parser.set_defaults(command=lambda given: _command(given, run))


def _command(given: argparse.Namespace, run: Callable[[Sequence[str]], int]) -> int:
    folder = _folder()
    examples = _examples(folder)
    if given.name is not None:
        return _run(_named(given.name, examples), folder, given.model, run)
    if given.json:
        print_json([msgspec.to_builtins(example) for example in examples])
        return ANSWERED
    width = max(len(example.name) for example in examples)
    print_lines([f"{example.name:<{width}}  {example.shows}{_needs(example)}" for example in examples])
    note(f"coc examples {examples[0].name} runs one; their files are in {folder}")
    return ANSWERED


def _needs(example: Example) -> str:
    return f" (needs {example.needs})" if example.needs else ""


def _folder() -> Path:
    """Return the directory of the examples: part of an installed package, or of a checkout."""
    package = Path(_PACKAGE).parent
    for folder in (package / "examples", package.parents[1] / "examples"):
        if (folder / "README.md").exists():
            return folder
    raise InputError("the examples are not installed; install chainofcode from its wheel or a checkout")


def _examples(folder: Path) -> list[Example]:
    rows = _ROW.finditer((folder / "README.md").read_text(encoding="utf-8"))
    return [Example(**{name: text.strip() for name, text in row.groupdict().items()}) for row in rows]


def _named(name: str, examples: Sequence[Example]) -> Example:
    found = [example for example in examples if name in (example.name, example.name.partition(".")[0])]
    if not found:
        raise InputError(f"unknown example {name[:100]!r} (expected one of: {', '.join(one.name for one in examples)})")
    return found[0]


def _run(example: Example, folder: Path, model: str | None, run: Callable[[Sequence[str]], int]) -> int:
    program, *words = shlex.split(example.command)
    if model is not None:
        words = _with_model(program, words, model)
    words = [re.sub(r"^(scripted:)?examples/", lambda found: f"{found[1] or ''}{folder}/", word) for word in words]
    write_lines([f"$ {shlex.join([program, *words])}"], sys.stderr)
    if program == "coc":
        return run(words)
    variables = {**os.environ, "PYTHONPATH": module_path()}
    return subprocess.run([sys.executable, *words], env=variables, check=False).returncode


def _with_model(program: str, words: list[str], model: str) -> list[str]:
    """Return the words of a command with a model in place of the recorded values."""
    if program != "coc":  # a Python script: its argument is the model
        return [*words, model]
    place = next(place for place, word in enumerate(words) if word in _RECORDED)
    return [*words[:place], "--model", model, *words[place + 2 :]]
