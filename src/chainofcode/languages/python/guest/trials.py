"""Runs a program again and again with one value of it another each time, and tells whether that made a difference.

Its text is itself a program: `counterfactuals.py` puts it before what it wants to know. Standard library only.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import io
import random
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

CHOOSES, WORKS = 2, 4  # as in compiler/works.py
_TURNS = 9  # other values that are tried in one place
_ONCE = ((0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1))  # likewise, at one visit alone: which, and the value's turn
_MAX_SEEN, _MAX_NEAR = 4, 6
_MAX_SHOWN = 2000
_LEAST_SECONDS = 0.05
_NEXT_DIGIT = str.maketrans("0123456789", "1234567892")


class Away(BaseException):
    """A trial that tells nothing: there is no other value, or it takes too long."""


class Said(dict[str, object]):
    """What a model said, if that has parts: those are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(name)


class Trials:
    """The program, and whoever answers in place of the model: with what was recorded, or something else."""

    def __init__(self, spec: dict[str, Any], given: dict[str, Any]) -> None:
        self._spec, self._given = spec, given
        self._code = compile(spec["source"], "<trial>", "exec")
        self._said: dict[str, list[tuple[str, Any]]] = {}
        for name, text, value in spec["said"]:
            self._said.setdefault(name, []).append((text, value))
        self._place, self._turn, self._function = -1, 0, ""
        self._visit: int | None = None  # where not all of them
        self._visits = 0
        self._seen: dict[int, list[Any]] = {}  # place → values that were there
        self._beside = {place: one["leaves"] for one in spec["operations"] for place in one["leaves"]}
        self._counts: dict[str, int] = {}
        self._ends = self._stop = time.monotonic() + spec["seconds"]

    # --- one run ----------------------------------------------------------------------------------------------

    def run(self, place: int = -1, turn: int = 0, function: str = "", visit: int | None = None) -> str | None:
        """What the program gives with another value in one place, or of one function; None where nobody can tell."""
        self._place, self._turn, self._function = place, turn, function
        self._visit, self._visits = visit, 0
        self._counts.clear()
        names: dict[str, Any] = {name: copy.deepcopy(value) for name, value in self._given.items()}
        names |= {"__name__": "__main__", "__vary__": self._vary, "__keep__": self._keep}
        names |= {name: self._function_of(name) for name in self._said}
        random.seed(0)
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(self._code, names)
                return self._answer(names, printed.getvalue())
        except (Exception, SystemExit):
            return None

    def _answer(self, names: dict[str, Any], printed: str) -> str:
        if self._spec["sink"] == "output":
            return next((line.strip() for line in reversed(printed.split("\n")) if line.strip()), "")[:_MAX_SHOWN]
        return repr(names["__last__" if self._spec["sink"] == "expression" else "answer"])[:_MAX_SHOWN]

    def _function_of(self, name: str) -> Callable[..., Any]:
        known = self._said[name]
        by_text = dict(known)

        def said(*args: Any, **kwargs: Any) -> Any:
            parts = [*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())]
            place = self._counts[name] = self._counts.get(name, -1) + 1
            text = f"{name}({', '.join(parts)})"
            value = by_text[text] if text in by_text else known[min(place, len(known) - 1)][1]
            value = _as_said(copy.deepcopy(value))
            return self._other(value, []) if self._function in (name, "*") and self._is_now() else value

        return said

    def _vary(self, place: int, value: Any) -> Any:
        if time.monotonic() > self._stop:
            raise Away
        if (
            self._place < 0
            and type(value) in (int, float, str)
            and len(seen := self._seen.setdefault(place, [])) < _MAX_SEEN
        ):
            seen.append(value)
        if place != self._place or not self._is_now():
            return value
        beside = [one for other in self._beside.get(place, ()) if other != place for one in self._seen.get(other, ())]
        return self._other(value, [*beside, *self._spec["near"][place]])

    def _keep(self, place: int) -> bool:
        return place != self._place or not self._is_now()

    def _is_now(self) -> bool:
        self._visits += 1
        return self._visit is None or self._visit == self._visits - 1

    def _other(self, value: Any, near: list[Any]) -> Any:
        for turn, other in enumerate(others(value, [*near, *self._spec["literals"]])):
            if turn == self._turn:
                return other()
        raise Away

    # --- all of them ------------------------------------------------------------------------------------------

    def report(self) -> dict[str, Any]:
        """Whether any work, any choice, and any value that was asked for, makes a difference."""
        started = time.monotonic()
        try:
            before = self.run()
        except Away:
            before = None
        if before is None:
            return {"before": None}
        self._each = max(_LEAST_SECONDS, 10 * (time.monotonic() - started))
        found: dict[str, Any] = {"before": before, "said": "none"}
        for name, weight in (("works", WORKS), ("chooses", CHOOSES)):
            operations = [one for one in self._spec["operations"] if one["does"] == weight]
            found[name] = self._any(operations, before)
            if name == "works" and found[name] != "yes":
                found["said"] = self._any_said(before)
            if found[name] == "yes":
                break
        return found

    def _any_said(self, before: str) -> str:
        is_known = True
        for function in [*self._said, "*"]:
            told = [self._tried(before, function=function, turn=turn) for turn in range(_TURNS)]
            if "other" in told:
                return "yes"
            is_known &= told.count("error") <= told.count("same")  # where it fails, it does make a difference
        return "none" if is_known else "unknown"

    def _any(self, operations: list[dict[str, Any]], before: str) -> str:
        """`yes`, one makes a difference; `none`, none does; `unknown` where there was no time, or no other value."""
        is_known = True
        outcomes: dict[int, set[str]] = {}
        for one in operations:
            told = set[str]()
            for place in one["leaves"]:
                if place not in outcomes:
                    outcomes[place] = self._outcomes(place, before)
                told |= outcomes[place]
                if "other" in told:
                    return "yes"
            if one["result"] is not None and ("same" not in told or one["is_open"]):
                told |= self._outcomes(one["result"], before)
                if "other" in told:
                    return "yes"
            is_needed = one["is_dropped"] and told == {"error"}  # without the call the program fails
            is_known &= "same" in told or told <= {"not there"} or is_needed
        return "none" if is_known else "unknown"

    def _outcomes(self, place: int, before: str) -> set[str]:
        found = set[str]()
        for turn, visit in [*((turn, None) for turn in range(_TURNS)), *((turn, visit) for visit, turn in _ONCE)]:
            found.add(self._tried(before, place=place, turn=turn, visit=visit))
            if "other" in found or "not there" in found:
                break
        return found - {"not there"} if len(found) > 1 else found

    def _tried(self, before: str, **where: Any) -> str:
        now = time.monotonic()
        if now > self._ends:
            return "late"
        self._stop = min(self._ends, now + self._each)
        try:
            after = self.run(**where)
        except Away:
            return "late"
        if self._visits <= (where.get("visit") or 0):
            return "not there"
        return "error" if after is None else "same" if after == before else "other"


def others(value: Any, near: list[Any]) -> Iterator[Callable[[], Any]]:
    """Other values of the same kind; what can be changed is changed itself, so that whoever holds it sees it."""
    same = [lambda one=one: one for one in near if type(one) is type(value) and one != value][:_MAX_NEAR]
    match value:
        case bool():
            yield from [lambda: not value, lambda: True, lambda: False]
        case int() | float():
            yield from same[:2]
            yield from [lambda n=n: n for n in (value + 1, -value - 1, 0, value * 1000 + 7) if n != value]
        case str():
            if any(map(str.isdecimal, value)):
                yield lambda: value.translate(_NEXT_DIGIT)
            yield from same
            yield from [lambda text=text: text for text in (value[::-1], f"{value} quince", "") if text != value]
        case None:
            yield from [lambda: 1, lambda: "quince"]
        case list() | dict() | set():
            yield from _others_in_place(value, near)
        case tuple() if type(value) is tuple:
            yield lambda: value[::-1]
            yield lambda: tuple(_first(part, near) for part in value)
            yield lambda: ()
        case range():
            yield lambda: range(value.start, value.stop + value.step, value.step)
            yield lambda: range(value.start, value.start, value.step)
        case datetime.date():
            yield lambda: value + datetime.timedelta(days=1)
            yield lambda: value + datetime.timedelta(days=400)
        case datetime.timedelta():
            yield lambda: value + datetime.timedelta(days=1)
        case _ if type(value).__module__ == "__main__" and hasattr(value, "__dict__") and not callable(value):
            yield lambda: _changed(value, near)
        case _ if hasattr(value, "__add__"):
            yield lambda: value + 1


def _others_in_place(value: Any, near: list[Any]) -> Iterator[Callable[[], Any]]:
    def becomes(parts: Any) -> Any:
        parts = list(parts.items()) if isinstance(parts, dict) else list(parts)
        value.clear()
        (value.extend if isinstance(value, list) else value.update)(parts)
        return value

    if isinstance(value, dict):
        kept = list(value.values())
        yield lambda: becomes(dict(zip(value, [*kept[1:], *kept[:1]], strict=True)))
        yield lambda: becomes({key: _first(part, []) for key, part in value.items()})
        yield lambda: becomes({key: _first(part, near) for key, part in value.items()})
        yield lambda: becomes(dict(list(value.items())[1:]))
    else:
        yield lambda: becomes(list(value)[::-1])
        yield lambda: becomes([_first(part, []) for part in value])
        yield lambda: becomes([_first(part, near) for part in value])
        yield lambda: becomes(list(value)[1:])
        yield lambda: becomes(list(value)[:-1])
    yield lambda: becomes([])
    if isinstance(value, list):
        yield lambda: becomes([*value, *copy.deepcopy(value)])
        yield lambda: becomes([*value, "quince"])
    else:
        yield lambda: becomes([*value.items(), ("quince", 1)] if isinstance(value, dict) else [*value, "quince"])


def _first(value: Any, near: list[Any]) -> Any:
    """The first other value that there is; itself where there is none."""
    return next((other() for other in others(value, near)), value)


def _changed(value: Any, near: list[Any]) -> Any:
    for name, part in list(vars(value).items()):
        setattr(value, name, _first(part, near))
    return value


def _as_said(value: Any) -> Any:
    if isinstance(value, dict):
        return Said({key: _as_said(part) for key, part in value.items()})
    return [_as_said(part) for part in value] if isinstance(value, list) else value
