"""Values by call text: from a file, a mapping, a trace."""

from __future__ import annotations

import ast
import builtins
import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import EmulationError, InputError
from ..values.codec import ValueFormatError, decode
from .documents import read_text
from .pause import Answered, Emulator, Pause

_MAX_PARSED_CHARS = 20_000
_BUILTIN_NAMES = sorted({*dir(builtins), *dir(str), *dir(list), *dir(dict), *dir(set)})


class _Missing(EmulationError):
    """A missing value. Its message suggests a near match, which is searched for only when the message is read."""

    def __init__(self, pause: Pause, near: Callable[[], str]) -> None:
        message = f"no value for the {pause.kind} {pause.text}"
        super().__init__(message, code=f"{pause.kind} without value", about=pause.text)
        self._near = near

    def __str__(self) -> str:
        return super().__str__() + self._near()


class Table(Emulator):
    """Values by call text. A call with several values gets them in turn, then the last one again."""

    def __init__(self, pairs: Iterable[tuple[str, Any]]) -> None:
        self._values: dict[str, list[Any]] = {}
        for text, value in pairs:
            self._values.setdefault(normal_text(text), []).append(value)
        self._taken: dict[str, int] = {}
        self.is_ordered = any(len(values) > 1 for values in self._values.values())

    def fresh(self) -> Table:
        """Return the same values for another run: each call starts again with its first."""
        again = Table([])
        again._values, again.is_ordered = self._values, self.is_ordered
        return again

    @classmethod
    def read(cls, path: Path) -> Table:
        """Read lines of `{"call": "is_fruit('apple')", "value": true}`."""
        return cls.parse(read_text(path).split("\n"), str(path))

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
        """Return a table of decoded JSON: a list of records, or a mapping of call texts to tagged values."""
        if isinstance(records, Mapping):
            records = [{"call": text, "value": value} for text, value in records.items()]
        try:
            return cls([_pair(record) for record in records])
        except ValueError as error:
            raise InputError(f"{name}: {error}") from None

    async def answer(self, pause: Pause) -> Answered:
        for text in lookups(pause) if self._values else ():
            values = self._values.get(text)
            if values is not None:
                turn = self._taken.get(text, 0)
                self._taken[text] = turn + 1
                return Answered(values[min(turn, len(values) - 1)], is_once=len(values) > 1)
        raise _Missing(pause, lambda: self._near(pause))

    def _near(self, pause: Pause) -> str:
        """Suggest another call in the table or a built-in function, or say why Python cannot parse a statement."""
        if len(pause.text) < 500 and len(self._values) < 5000:
            known = [text for text in self._values if len(text) < 500]
            if matches := difflib.get_close_matches(pause.text, known, n=1, cutoff=0.8):
                return f"; did you mean {matches[0]}?"
        if pause.kind == "statement":
            return _not_python(pause.text)
        if "." in pause.name:
            return ""
        matches = difflib.get_close_matches(pause.name, _BUILTIN_NAMES, n=1, cutoff=0.8)
        return f"; did you mean {matches[0]!r}?" if matches else ""


def _not_python(text: str) -> str:
    try:
        ast.parse(text[:_MAX_PARSED_CHARS].strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"; Python cannot read it: {error.msg if isinstance(error, SyntaxError) else error}"
    return ""


def not_json(error: json.JSONDecodeError) -> str:
    return f"not JSON at column {error.colno} (JSON writes true, false, null and double quotes): {error.msg}"


def _pair(record: Any) -> tuple[str, Any]:
    if not isinstance(record, dict) or not isinstance(record.get("call"), str) or "value" not in record:
        raise ValueError('expected {"call": "name(…) or a line of prose", "value": …}')
    try:
        return record["call"], decode(record["value"])
    except ValueFormatError as error:
        raise ValueError(f"the value of {record['call']}: {error}") from None


def lookups(pause: Pause) -> Iterable[str]:
    """Yield the texts to look up for a pause: unchanged, with normal quotes, without the name of a module."""
    yield pause.text
    yield normal_text(pause.text)
    if pause.kind == "call":
        short = pause.text[len(pause.name) :]
        if "." in pause.name:
            yield normal_text(pause.name.rpartition(".")[2] + short)


class _JsonNames(ast.NodeTransformer):
    """Replaces `true`, `false` and `null`, as in call texts of JavaScript, by Python's constants."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(_JSON_NAMES[node.id]) if node.id in _JSON_NAMES else node


_JSON_NAMES = {"true": True, "false": False, "null": None}


def normal_text(text: str) -> str:
    """Return a call's text with arguments as `repr` writes them, so that quotes and spaces do not matter."""
    if len(text) > _MAX_PARSED_CHARS:
        return text
    try:
        call = _JsonNames().visit(ast.parse(text.strip(), mode="eval").body)
        if not isinstance(call, ast.Call):
            return text
        args = [repr(ast.literal_eval(arg)) for arg in call.args]
        pairs = sorted((keyword.arg or "", ast.literal_eval(keyword.value)) for keyword in call.keywords)
        return f"{ast.unparse(call.func)}({', '.join(args + [f'{key}={value!r}' for key, value in pairs])})"
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return text.strip()
