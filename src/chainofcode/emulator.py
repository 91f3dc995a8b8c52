"""The LMulator: a pause in, a typed value out. The value comes from a table, a function or a language model."""

from __future__ import annotations

import ast
import builtins
import difflib
import inspect
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from .errors import EmulationError, InputError
from .guest.values import ValueFormatError, decode
from .lm import LM, Message
from .program import Program
from .trace import Call

_MAX_PARSED_CHARS = 20_000
_BUILTIN_NAMES = sorted({*dir(builtins), *dir(str), *dir(list), *dir(dict), *dir(set)})


@dataclass(frozen=True)
class Pause:
    """A call (or a statement) the program waits for. `text` is the call as values files write it.

    For a statement, `text` is its source, `names` what it may set (`return`: the value to return) and the answer is
    a mapping of names to values; `error` says why Python could not run it.
    """

    kind: Literal["call", "statement"]
    text: str
    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    names: tuple[str, ...]
    line: int
    error: str | None
    program: Program
    question: str | None


@dataclass(frozen=True)
class Answered:
    """What came of a pause: the value and, where a model was asked, the requests it took."""

    value: Any
    calls: tuple[Call, ...] = ()


@runtime_checkable
class Emulator(Protocol):
    """Whoever answers pauses. Raises EmulationError when it has no value."""

    async def answer(self, pause: Pause) -> Answered: ...


Answering = Emulator | LM | Mapping[str, Any] | Callable[[Pause], Any] | None


def as_emulator(given: Answering) -> Emulator:
    """A table of call texts, a plain (or async) function of the pause, a model, or nobody."""
    if given is None:
        return Table([])
    if isinstance(given, Table):
        return given.fresh()
    if isinstance(given, Emulator):
        return given
    if isinstance(given, Mapping):
        return Table(given.items())
    if isinstance(given, LM):
        return Asking(given)
    if callable(given):
        return Function(given)
    raise TypeError(f"cannot emulate with a {type(given).__name__}: give a mapping, a function or a model")


class Table:
    """Values by call text. A call that stands there several times gets its values in turn, then the last one again."""

    def __init__(self, pairs: Iterable[tuple[str, Any]]) -> None:
        self._values: dict[str, list[Any]] = {}
        for text, value in pairs:
            self._values.setdefault(normal_text(text), []).append(value)
        self._taken: dict[str, int] = {}

    def fresh(self) -> Table:
        """The same values for another run: a call that stands there several times starts again with its first."""
        again = Table([])
        again._values = self._values
        return again

    @classmethod
    def read(cls, path: Path) -> Table:
        """Lines of `{"call": "is_fruit('apple')", "value": true}`."""
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
        return cls.parse(lines, str(path))

    @classmethod
    def parse(cls, lines: Iterable[str], name: str = "values") -> Table:
        pairs = []
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    pairs.append(_pair(json.loads(line)))
                except json.JSONDecodeError as error:
                    raise InputError(f"{name}, line {number}: {not_json(error)}") from None
                except (ValueError, RecursionError) as error:
                    raise InputError(f"{name}, line {number}: {error}") from None
        return cls(pairs)

    @classmethod
    def of_records(cls, records: Iterable[Any] | Mapping[str, Any], name: str) -> Table:
        """The same, already read: a list of records, or a mapping of texts to tagged values."""
        if isinstance(records, Mapping):
            records = [{"call": text, "value": value} for text, value in records.items()]
        try:
            return cls([_pair(record) for record in records])
        except ValueError as error:
            raise InputError(f"{name}: {error}") from None

    async def answer(self, pause: Pause) -> Answered:
        for text in _lookups(pause):
            values = self._values.get(text)
            if values is not None:
                turn = self._taken.get(text, 0)
                self._taken[text] = turn + 1
                return Answered(values[min(turn, len(values) - 1)])
        what = "statement" if pause.kind == "statement" else "call"
        raise EmulationError(f"no value for the {what} {pause.text}" + self._near(pause))

    def _near(self, pause: Pause) -> str:
        """What was perhaps meant: another call in the table, or a function that exists."""
        if len(pause.text) < 500 and len(self._values) < 5000:
            known = [text for text in self._values if len(text) < 500]
            if matches := difflib.get_close_matches(pause.text, known, n=1, cutoff=0.8):
                return f"; the values have {matches[0]}"
        if "." in pause.name:
            return ""
        matches = difflib.get_close_matches(pause.name, _BUILTIN_NAMES, n=1, cutoff=0.8)
        return f"; did you mean {matches[0]!r}?" if matches else ""


def not_json(error: json.JSONDecodeError) -> str:
    return f"not JSON at column {error.colno} (JSON writes true, false, null and double quotes): {error.msg}"


def _pair(record: Any) -> tuple[str, Any]:
    if not isinstance(record, dict) or not isinstance(record.get("call"), str) or "value" not in record:
        raise ValueError('expected {"call": "name(…) or a line of prose", "value": …}')
    try:
        return record["call"], decode(record["value"])
    except ValueFormatError as error:
        raise ValueError(f"the value of {record['call']}: {error}") from None


def _lookups(pause: Pause) -> Iterable[str]:
    """The ways a table may write this pause: as it is, with other quotes, a module's function without its module."""
    yield pause.text
    yield normal_text(pause.text)
    if pause.kind == "call":
        short = pause.text[len(pause.name) :]
        if "." in pause.name:
            yield normal_text(pause.name.rpartition(".")[2] + short)


def normal_text(text: str) -> str:
    """A call's text with arguments as Python's repr writes them, so that quotes and spaces do not matter."""
    if len(text) > _MAX_PARSED_CHARS:
        return text
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call):
            return text
        args = [repr(ast.literal_eval(arg)) for arg in call.args]
        pairs = sorted((keyword.arg or "", ast.literal_eval(keyword.value)) for keyword in call.keywords)
        return f"{ast.unparse(call.func)}({', '.join(args + [f'{key}={value!r}' for key, value in pairs])})"
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return text.strip()


class Function:
    """A plain Python function of the pause, sync or async."""

    def __init__(self, function: Callable[[Pause], Any]) -> None:
        self._function = function

    async def answer(self, pause: Pause) -> Answered:
        value = self._function(pause)
        return Answered(await value if inspect.isawaitable(value) else value)


class Asking:
    """A language model, asked for one value at a time."""

    def __init__(self, lm: LM) -> None:
        self._lm = lm

    async def answer(self, pause: Pause) -> Answered:
        prompt = _prompt(pause)
        started = time.monotonic()
        (completion,) = await self._lm.complete([Message("user", prompt)])
        call = Call(prompt, completion.text, self._lm.name, completion.usage, time.monotonic() - started)
        return Answered(parse_value(completion.text, pause), (call,))


def _prompt(pause: Pause) -> str:
    asked = f"Question: {pause.question}\n\n" if pause.question else ""
    what = f"the value that `{pause.text}` returns"
    if pause.kind == "statement":
        what = f"a JSON object with the new values of the names that this statement sets:\n{pause.text}\n"
    return (
        f"{asked}This program calls functions that nobody defined; you emulate them.\n\n{pause.program.source}\n\n"
        f"Line {pause.line} is running. Reply with {what}, as one JSON value and nothing else."
    )


def parse_value(reply: str, pause: Pause) -> Any:
    """A model's reply as data: tagged JSON or a Python literal, never evaluated."""
    text = reply.strip().removeprefix("```json").removeprefix("```python").strip("`").strip()
    try:
        return decode(json.loads(text))
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise EmulationError(f"the reply to {pause.text} is no value: {reply[:200]!r}") from None
