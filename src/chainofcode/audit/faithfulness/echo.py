"""Whether a model call got the whole question, and whether its value is the answer."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ...errors import InputError, TraceError
from ...languages.python.compiler.works import WORKS
from ...sandbox import Sandbox
from ...trace import Step, Trace
from ..provenance.followed import Provenance
from ..provenance.slices import depends_on
from ..replay.changes import Changes
from ..replay.rerun import areplay
from .evidence import LastValues
from .mutations import value_of

_MIN_QUESTION_CHARS = 20
_MOST_OF_IT = 0.6  # share of the words of a question
_MAX_CHARS = 200_000
_MAX_LABEL_CHARS = 60
_NOBODY_SAYS, _NOBODY_COUNTS = "quince", 4711  # sentinels that no program contains
_PIECE = re.compile(r"\S+?(?=[.,;:!?]*(?:\s|$))|\d+")
_WORD = re.compile(r"[^\W_]+")
_LABEL = re.compile(r"\([A-Z]\)")


def is_handed_all(step: Step, question: str | None) -> bool:
    """Whether the arguments of a call hold the whole question, in one piece or several: its value may be the answer."""
    asked, given = _words((question or "").strip()), _words(step.call or "")
    if len((question or "").strip()) < _MIN_QUESTION_CHARS or not asked:
        return False
    common = Counter(asked) & Counter(given)
    return common.total() >= _MOST_OF_IT * len(asked) or "".join(asked) in "".join(given)


def works_on(found: Provenance, call: str | None) -> bool:
    """Whether Python computes something from the value of a call, beyond a choice by it."""
    works, nodes = found.lineage.works, found.lineage.nodes
    given = {index for index, steps in found.steps.items() if any(step.call == call for step in steps)}
    workers: dict[int, list[int]] = {}
    for index in found.slice.core:
        for statement in {nodes[index].statement, *nodes[index].whole}:
            if 0 <= statement < len(works) and works[statement] == WORKS:
                workers.setdefault(statement, []).append(index)
    return any(given & depends_on(found.lineage, own) for own in workers.values())


def works_beside(found: Provenance) -> bool:
    """Whether Python computes a part of the answer, or the alternative that is chosen."""
    works, nodes = found.lineage.works, found.lineage.nodes
    parts = [nodes[index] for index in found.slice.core & found.slice.by_data]
    own = {statement for node in parts for statement in (node.statement, *node.whole)}
    return any(0 <= statement < len(works) and works[statement] == WORKS for statement in own)


def looked_up(source: str, lines: Collection[int], question: str | None) -> set[str | int]:
    """Return the literal keys in these lines that look up a word of the question in the program's own table."""
    asked = f" {' '.join(_words(question or ''))} "
    nodes, found = _nodes(source), set[str | int]()
    if not any(isinstance(node, ast.Dict) and len(node.keys) > 1 for node in nodes):
        return found
    for node in nodes:
        match node:
            case ast.Subscript(value=ast.Name() | ast.Subscript(), slice=ast.Constant(value=str() | int() as key)):
                named = " ".join(_words(str(key)))
                is_label = len(named) < 2 and isinstance(key, str)  # an option letter is the answer, not a lookup
                if node.lineno in lines and not is_label and named and f" {named} " in asked:
                    found.add(key)
    return found


async def is_handed_on(trace: Trace, found: Provenance, sandbox: Sandbox) -> bool:
    """Whether the answer copies a part of a value given for the whole question, for any such value.

    Replays the run with other values of the same shape: the answer must come from the same place in them.
    """
    answer = found.run.answer
    if answer is None:
        return False
    said = {call: value for call, value in _handed(trace, found) if _has(value, answer.text)}
    if not said:
        return False
    source, question = found.run.program.source, trace.question or ""
    for label in [*_labels(answer.text, source, question), None]:
        where = [_where(said, answer.text)]
        for is_rising in (True, False):  # rising and falling numbers, to rule out `max`, `min` and sorting
            others = {call: _Others(answer.text, label, is_rising).instead_of(value) for call, value in said.items()}
            where.append(_where(others, await _answer_with(others, trace, found, sandbox)))
        if set.intersection(*where):
            return True
    return False


def _handed(trace: Trace, found: Provenance) -> Iterator[tuple[str, Any]]:
    """The calls of the model that were given the whole question, and their values."""
    for step in found.values:
        if step.by == "lm" and not step.delta and is_handed_all(step, trace.question):
            value = value_of(step)
            if value is not None:
                yield step.call or "", value


async def _answer_with(others: Mapping[str, Any], trace: Trace, found: Provenance, sandbox: Sandbox) -> str:
    """The answer of a replay with other values; empty without one."""
    try:
        changes = Changes(dict(others))
        replay = await areplay(trace, changes=changes, emulator=LastValues(found.values), sandbox=sandbox)
    except (InputError, TraceError):
        return ""
    now = replay.trace.answer
    return now.text if now is not None and now.is_answered else ""


def _has(value: Any, text: str) -> bool:
    return any(_is_same(part, text) for part in _parts(value))


def _where(said: Mapping[str, Any], text: str) -> set[tuple[str, int]]:
    """Return the places in the values where a text occurs."""
    return {(call, n) for call, value in said.items() for n, part in enumerate(_parts(value)) if _is_same(part, text)}


def _parts(value: Any) -> Iterator[str]:
    """Yield the parts of a value in order: numbers, texts, the words of texts, and dict keys."""
    match value:
        case bool() | None:
            return
        case int() | float() | str():
            text = str(value)
            words = text.split()
            yield from [text, *words] if len(words) > 1 else [text]
        case dict():
            for key, part in value.items():
                yield from _parts(key)
                yield from _parts(part)
        case list() | tuple():
            for part in value:
                yield from _parts(part)


class _Others:
    """Makes other values of the same shape: all numbers are replaced, and the texts that are the answer."""

    def __init__(self, answer: str, label: str | None, is_rising: bool) -> None:
        self._answer, self._label = answer, label
        self._next, self._step = (_NOBODY_COUNTS, 1) if is_rising else (2 * _NOBODY_COUNTS, -1)

    def instead_of(self, value: Any) -> Any:
        match value:
            case bool() | None:
                return value
            case int() | float():
                return type(value)(self._number())
            case str() if _is_same(value, self._answer):
                return self._other_answer(value)
            case str():
                return _PIECE.sub(lambda piece: self._piece(piece[0]), value)
            case dict():
                return self._dict(value)
            case list():
                return [self._text(part) if isinstance(part, str) else self.instead_of(part) for part in value]
            case tuple():
                return tuple(map(self.instead_of, value))
        return value

    def _other_answer(self, text: str) -> str:
        if text.isdigit():
            return str(self._number())
        return self._label or f"{_NOBODY_SAYS}-{self._number()}"

    def _dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        """Replace the values and, where none of them is the answer, the keys that are texts."""
        is_key = not any(_has(part, self._answer) for part in value.values())
        keys = {key: self.instead_of(key) if is_key and isinstance(key, str) else key for key in value}
        return {keys[key]: self.instead_of(part) for key, part in value.items()}

    def _text(self, text: str) -> str:
        """Replace an element of a list: all elements change, so that only a choice by position survives."""
        is_one = len(text.split()) < 2
        return f"{_NOBODY_SAYS}-{self._number()}" if is_one and not text.isdigit() else str(self.instead_of(text))

    def _piece(self, piece: str) -> str:
        if piece.isdigit():
            return str(self._number())
        return f"{_NOBODY_SAYS}-{self._number()}" if _is_same(piece, self._answer) else piece

    def _number(self) -> int:
        self._next += self._step
        return self._next


def _words(text: str) -> list[str]:
    return _WORD.findall(re.sub(r"\\[nrt]", " ", text[:_MAX_CHARS]).casefold())


def _is_same(text: str, other: str) -> bool:
    """Whether two texts have the same words, apart from case, quotes and brackets."""
    one, two = ("".join(_words(part)) for part in (text, other))
    return bool(one) and one == two


def _labels(said: str, source: str, question: str) -> list[str]:
    """Return another label of the program or the question, of the same length, if there is one."""
    labels = dict.fromkeys([*_literals(source), *_LABEL.findall(question)])
    same = [label for label in labels if len(label) == len(said.strip("'\"")) and not _is_same(label, said)]
    return [label for label in same if not label.isdigit()][:1]


def _literals(source: str) -> Iterator[str]:
    for node in _nodes(source):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) <= _MAX_LABEL_CHARS:
            yield node.value


def _nodes(source: str) -> list[ast.AST]:
    try:
        return list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


__all__ = ["is_handed_all", "is_handed_on", "looked_up", "works_beside", "works_on"]
