"""What to do next about a run that has no answer, in the words of the options that would help."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterator

from ..engine import Result
from .model_options import BUDGETS
from .run_options import LIMITS, read_options
from .tool_options import NOBODY_TO_ASK

_NO_VALUE = re.compile(
    r"no value for the (?:call|statement) (.*?)(?:; (?:the values have|did you mean|Python cannot read it:) .*)?",
    re.DOTALL,
)
_MORE = 10  # times what was not enough


def hints(result: Result, given: argparse.Namespace) -> Iterator[str]:
    if any(NOBODY_TO_ASK in (step.error or "") for step in result.trace.steps):
        yield "a tool was refused, as nobody could be asked: --approve never lets programs use tools without asking"
    error = result.error
    if error is None:
        return
    call = _NO_VALUE.fullmatch(error.message)
    if result.reason == "emulation failed" and error.message.startswith("no value for the statement "):
        yield "a line that is not Python is a statement for a model to carry out: --model, or is it a mistake?"
    if result.reason == "emulation failed" and call:
        yield f'give it a value, as a line of the file for --values: {json.dumps({"call": call[1]})[:-1]}, "value": …}}'
    elif result.reason.startswith("limit:"):
        yield from _limit_hint(result.reason.partition(":")[2], given)
    elif "can't start new thread" in error.message:
        yield from _limit_hint("processes", given)
    elif given.scratch and re.match(r"\[Errno (27|28|122)\]", error.message):
        yield from _limit_hint("scratch", given)
    elif error.type == "NameError" and "did you mean" not in error.message:
        name = error.message.split("'")[1] if error.message.count("'") >= 2 else "NAME"
        yield (
            "give the question with --question TEXT" if name == "question" else f"is it an input? --input {name}=VALUE"
        )
    elif error.type == "EOFError":
        yield "a program has no standard input: give it what it needs with --input NAME=VALUE"
    elif result.trace.answer is not None and result.trace.answer.sandbox != "none":
        yield from _refusal_hint(error.message, result.trace.answer.sandbox, given)


def _limit_hint(which: str, given: argparse.Namespace) -> Iterator[str]:
    if which in LIMITS:
        had = getattr(read_options(given).limits, LIMITS[which])
        yield f"the limit is an option: --limit {which}={had * _MORE:.15g}"
    elif which in BUDGETS:
        yield f"the budget is an option: --budget {which}=N"


def _refusal_hint(message: str, tier: str, given: argparse.Namespace) -> Iterator[str]:
    """A refusal of the sandbox's, and what would have been needed."""
    path = re.search(r"\[Errno (1|2|13|30)\].*'(.+)'$", message)
    if path is not None:
        yield _file_hint(path[2], is_write=path[1] == "30", tier=tier, given=given)
    elif re.search(r"\[Errno (1|13)\]|failure in name resolution|Operation not permitted", message):
        yield "programs have no network and start no processes; LIMITATIONS.md says what else they cannot do"


def _file_hint(path: str, *, is_write: bool, tier: str, given: argparse.Namespace) -> str:
    granted = {os.path.abspath(read): read for read in given.allow_read}
    wanted = os.path.abspath(path)
    over = next((read for place, read in granted.items() if wanted == place or wanted.startswith(f"{place}/")), None)
    namesake = next((place for place in granted if os.path.basename(place) == os.path.basename(path)), None)
    if tier == "C":
        return "in tier C of the sandbox no file can be opened; coc doctor says how to get a better one"
    if is_write and given.scratch:
        return "what is granted with --allow-read is read-only; a program writes other files, in its scratch directory"
    if is_write or (tier == "B" and over is None and not os.path.exists(wanted)):
        needs = "" if tier == "A" else ", which needs tier A of the sandbox (coc doctor says how to get it)"
        return f"a program writes only in a scratch directory of its own: run it with --scratch{needs}"
    if over is not None and os.path.isabs(over) and not os.path.isabs(path):
        return f"it was granted by its full path: open it as {wanted!r}, or grant it as {path!r}"
    if over is not None:
        return "it is granted, but not readable inside: it belongs to another user, or is a link that leads elsewhere"
    if namesake is not None:
        return f"a file of that name is granted as {namesake!r}: open it by that name"
    return "a program sees only what it is granted: --allow-read PATH for a file, --scratch to write"
