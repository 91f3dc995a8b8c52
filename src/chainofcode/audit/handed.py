"""Whether a model was handed the whole question, and whether what it said to that is the answer."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ..emulator import Answered, Pause
from ..errors import EmulationError, InputError, TraceError
from ..guest.values import ValueFormatError, decode
from ..program.works import WORKS
from ..sandbox import Sandbox
from ..trace import Step, Trace
from .changes import Changes
from .provenance import Provenance
from .replay import areplay
from .slices import depends_on

_MIN_QUESTION_CHARS = 20
_MOST_OF_IT = 0.6  # of the words of a question
_MAX_CHARS = 200_000
_MAX_LABEL_CHARS = 60
_NOBODY_SAID = "quince-4711"  # a text that no program holds
_WORD = re.compile(r"[^\W_]+")
_LABEL = re.compile(r"\([A-Z]\)")


def is_handed_all(step: Step, question: str | None) -> bool:
    """Whether a call is handed the whole question, in whatever pieces: then whoever answers it answers that."""
    asked, given = _words((question or "").strip()), _words(step.call or "")
    if len((question or "").strip()) < _MIN_QUESTION_CHARS or not asked:
        return False
    common = Counter(asked) & Counter(given)
    return common.total() >= _MOST_OF_IT * len(asked) or "".join(asked) in "".join(given)


def works_on(found: Provenance, call: str | None) -> bool:
    """Whether Python works something out of what a call gave, beyond choosing by it."""
    works, nodes = found.lineage.works, found.lineage.nodes
    given = {index for index, steps in found.steps.items() if any(step.call == call for step in steps)}
    workers: dict[int, list[int]] = {}
    for index in found.slice.core:
        for statement in {nodes[index].statement, *nodes[index].whole}:
            if 0 <= statement < len(works) and works[statement] == WORKS:
                workers.setdefault(statement, []).append(index)
    return any(given & depends_on(found.lineage, own) for own in workers.values())


def is_looked_up(source: str, lines: Collection[int], question: str | None) -> bool:
    """Whether one of the lines looks up, in a table that the program retypes, what the question names."""
    asked = f" {' '.join(_words(question or ''))} "
    nodes = _nodes(source)
    if not any(isinstance(node, ast.Dict) and len(node.keys) > 1 for node in nodes):
        return False
    for node in nodes:
        match node:
            case ast.Subscript(value=ast.Name() | ast.Subscript(), slice=ast.Constant(value=str() | int() as key)):
                named = " ".join(_words(str(key)))
                is_label = len(named) < 2 and isinstance(key, str)  # to name an option is to answer
                if node.lineno in lines and not is_label and named and f" {named} " in asked:
                    return True
    return False


async def is_handed_on(trace: Trace, found: Provenance, sandbox: Sandbox) -> bool:
    """Whether the answer is word for word what was said to the whole question, and would be whatever was said."""
    answer = found.run.answer
    handed = [
        step for step in found.values if step.by == "lm" and not step.delta and is_handed_all(step, trace.question)
    ]
    texts = {step.call or "": text for step in handed if isinstance(text := _said(step), str)}
    said = {call: text for call, text in texts.items() if answer is not None and _is_same(answer.text, text)}
    if not said:
        return False
    source = found.run.program.source
    for other in _others(next(iter(said.values())), source, trace.question or ""):
        changes = Changes(calls=dict.fromkeys(said, other))
        try:
            done = await areplay(trace, changes=changes, emulator=_AsBefore(found.values), sandbox=sandbox)
        except (InputError, TraceError):
            continue
        now = done.trace.answer
        if now is not None and now.reason == "answered" and _is_same(now.text, other):
            return True
    return False


class _AsBefore:
    """Gives what the function gave before, whatever it is asked now."""

    def __init__(self, values: Sequence[Step]) -> None:
        self._values: Mapping[str, Any] = {(step.call or "").partition("(")[0]: _said(step) for step in values}

    async def answer(self, pause: Pause) -> Answered:
        if pause.name not in self._values:
            raise EmulationError(f"nobody gave a value for {pause.name}")
        return Answered(self._values[pause.name])


def _words(text: str) -> list[str]:
    return _WORD.findall(re.sub(r"\\[nrt]", " ", text[:_MAX_CHARS]).casefold())


def _said(step: Step) -> Any:
    try:
        return decode(step.value) if step.error is None else None
    except ValueFormatError:
        return None


def _is_same(text: str, other: str) -> bool:
    """Whether an answer, as it is shown, is a text, wherever the quotes and brackets are."""
    one, two = ("".join(_words(part)) for part in (text, other))
    return bool(one) and one == two


def _others(said: str, source: str, question: str) -> Iterator[str]:
    """What else could have been said: another label of the program or of the question; what nobody would say."""
    labels = [*_literals(source), *_LABEL.findall(question)]
    yield from [label for label in dict.fromkeys(labels) if len(label) == len(said) and not _is_same(label, said)][:1]
    yield _NOBODY_SAID


def _literals(source: str) -> Iterator[str]:
    for node in _nodes(source):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) <= _MAX_LABEL_CHARS:
            yield node.value


def _nodes(source: str) -> list[ast.AST]:
    try:
        return list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


__all__ = ["is_handed_all", "is_handed_on", "is_looked_up", "works_on"]
