"""Hints after a run: options that would help."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterator, Sequence

from ..engine import Result
from ..languages import SQL
from ..sandbox import LIMIT_OPTIONS, TIERS
from ..sandbox.frames import Failure
from .model_options import BUDGETS
from .run_options import read_options

_DISK_FULL = {"EFBIG", "ENOSPC", "EDQUOT"}
_REFUSED = {"EPERM", "EACCES"}
_NO_FILE = {"ENOENT", "EROFS", *_REFUSED}
_READS_CLOCK = re.compile(
    r"\b(?:(?:datetime|date|Timestamp|dt)\.(?:now|today|utcnow)"
    r"|time\.(?:time|time_ns|localtime|gmtime|strftime|ctime))\(|\bDate\.now\(|\bnew Date\(\)"
)
_MORE = 10  # the suggested limit, as a multiple of the one that was too low


def hints(result: Result, given: argparse.Namespace) -> Iterator[str]:
    yield from _tier_hint(result, given)
    error = result.error
    if error is None:
        yield from _clock_hint(result, given)
        return
    code = error.code or error.type
    if limit := result.reason.limit or _exceeded_limit(code, given):
        yield from _limit_hint(limit, result, given)
    elif code in _HINTS:
        yield from _HINTS[code](error)
        if code == "call without value" and not (given.model or given.emulator):
            yield "or let a model answer the calls: --model local, or another one (docs/models.md)"
    elif result.trace.answer is not None:
        yield from _refusal_hint(error, result.trace.answer.sandbox, given)


def _tier_hint(result: Result, given: argparse.Namespace) -> Iterator[str]:
    """Yield a note if the sandbox is weaker than the best tier, and the user did not choose it."""
    answer, best = result.trace.answer, TIERS[0]
    if given.sandbox == "auto" and answer is not None and answer.sandbox in TIERS[1:]:
        used = answer.sandbox
        yield f"the program ran in sandbox tier {used}, because tier {best} does not work here: see coc doctor"


def _clock_hint(result: Result, given: argparse.Namespace) -> Iterator[str]:
    program, clock = result.trace.program, result.trace.settings.get("clock")
    if program is None or clock is not None or program.language == SQL.name or getattr(given, "quiet", False):
        return
    if _READS_CLOCK.search(program.source):
        yield "the program reads the clock, which starts at 2025-01-01 in every run; use --clock now for the real time"


def _call_hint(error: Failure) -> Iterator[str]:
    record = json.dumps({"call": error.about})[:-1]
    yield f'to supply the value, write this line to a file and name it with --values: {record}, "value": …}}'


def _statement_hint(error: Failure) -> Iterator[str]:
    yield "a line that is not Python is an instruction for a model: use --model, or correct the line"
    yield from _call_hint(error)


def _exceeded_limit(code: str, given: argparse.Namespace) -> str | None:
    if code == "EAGAIN":
        return "processes"
    return "scratch" if given.scratch and code in _DISK_FULL else None


def _limit_hint(which: str, result: Result, given: argparse.Namespace) -> Iterator[str]:
    if which in LIMIT_OPTIONS:
        limit = getattr(read_options(given).limits, LIMIT_OPTIONS[which])
        yield f"to raise the limit, use --limit {which}={limit * _MORE:.15g}"
    elif which == "method":
        yield f"to allow more time, use --method-seconds {given.method_seconds * _MORE:g}"
    elif which == "money" and result.usage.dollars is None:  # the price is unknown
        yield "to limit tokens instead, use --budget tokens=N"
    elif which in BUDGETS:
        yield f"to raise the budget, use --budget {which}=N"


def _name_hint(error: Failure) -> Iterator[str]:
    if error.about == "question":
        yield "give the question with --question TEXT"
    else:
        yield f"if it is an input, set it with --input {error.about}=VALUE"


def _eof_hint(error: Failure) -> Iterator[str]:
    yield "a program has no standard input: pass values with --input NAME=VALUE"


_HINTS = {
    "call without value": _call_hint,
    "statement without value": _statement_hint,
    "undefined name": _name_hint,
    "EOFError": _eof_hint,
}


def _refusal_hint(error: Failure, tier: str, given: argparse.Namespace) -> Iterator[str]:
    """Yield how to grant what the sandbox refused, if that is possible."""
    if tier == "none":
        return
    if error.code in _NO_FILE and error.about:
        yield _file_hint(error.about, is_write=error.code == "EROFS", tier=tier, given=given)
    elif error.code in _REFUSED or error.type == "gaierror":
        yield "programs have no network and cannot start processes; LIMITATIONS.md lists other restrictions"


def _file_hint(path: str, *, is_write: bool, tier: str, given: argparse.Namespace) -> str:
    if tier == "C":
        return "tier C of the sandbox cannot open files; coc doctor shows how to get a better tier"
    if is_write and given.scratch:
        return "files granted with --allow-read are read-only; a program can write only in its scratch directory"
    grant = _grant_over(path, given.allow_read)
    is_new = tier == "B" and grant is None and not os.path.exists(path)
    if is_write or is_new:
        needs = "" if tier in ("A", "A-") else ", which needs tier A of the sandbox (coc doctor shows how to get it)"
        return f"a program can write only in a scratch directory: use --scratch{needs}"
    return _read_hint(path, grant, given.allow_read)


def _read_hint(path: str, grant: str | None, granted: Sequence[str]) -> str:
    if grant is not None and os.path.isabs(grant) and not os.path.isabs(path):
        return f"it was granted by its full path: open it as {os.path.abspath(path)!r}, or grant it as {path!r}"
    if grant is not None:
        return "it is granted, but the sandbox cannot read it: it belongs to another user, or links to another place"
    for other in map(os.path.abspath, granted):
        if os.path.basename(other) == os.path.basename(path):
            return f"a file of that name is granted as {other!r}: open it by that name"
    return "a program sees only files that you grant: --allow-read PATH to read one, --scratch to write"


def _grant_over(path: str, granted: Sequence[str]) -> str | None:
    """The option --allow-read that covers a path."""
    absolute = os.path.abspath(path)
    for grant in granted:
        place = os.path.abspath(grant)
        if absolute == place or absolute.startswith(f"{place}/"):
            return grant
    return None
