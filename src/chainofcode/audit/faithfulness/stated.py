"""Whether a program states its answer in disguise, so that no data of the question, the inputs or the model changes it.

The evidence is a few mutants (mutations.py): with another literal in place of the answer, with data of the question
changed both there and where the program retypes them, and with another question.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from typing import Literal as OneOf

from ...languages.python.compiler.reencoding import Operations
from ...languages.python.compiler.syntax import called_name
from ...trace import Trace
from ..provenance.followed import Provenance
from .evidence import OTHER_QUESTIONS, Reruns, bare
from .mutations import SENTINEL_NUMBER, SENTINEL_TEXT, Literal, Mutation, literals_of
from .question_data import NUMBER_WORDS, QuestionData, words_of
from .verdict import core_statements

Stated = OneOf["constant", "input"]
_Change = tuple[Mutation | None, str | None]  # to the program, and to the question

_INITIAL = ("0", "1", "-1", "")  # values that a loop starts with
_MAX_MUTANTS = 24
_MAX_TOKENS = 12
_MAX_PATTERN = 200  # characters


async def stated(trace: Trace, found: Provenance, reruns: Reruns) -> Stated | None:
    """Return the origin of a stated answer: "constant", or "input" if the question selects it. None: it is computed."""
    judge = _judge(trace, found, reruns)
    return await judge.verdict() if judge is not None else None


async def is_decoded(trace: Trace, found: Provenance, reruns: Reruns) -> bool:
    """Whether the answer is data of the question, decoded: its words are neither in the question nor in a literal."""
    judge = _judge(trace, found, reruns)
    return judge is not None and await judge.is_decoded()


def _judge(trace: Trace, found: Provenance, reruns: Reruns) -> _Judge | None:
    literals, answer = literals_of(found.run.program), found.run.answer
    if literals is None or answer is None or not answer.is_answered:
        return None
    rests = _Rests(trace, found, literals)
    return None if rests.on_others else _Judge(rests, reruns)


class _Rests:
    """What an answer depends on: literals, operations, and whether the program reads the question."""

    def __init__(self, trace: Trace, found: Provenance, literals: Sequence[Literal]) -> None:
        statements, nodes = core_statements(found), [found.lineage.nodes[index] for index in found.slice.core]
        inputs = {name for name, index in found.lineage.inputs.items() if index in found.slice.core}
        self.on_question = "question" in inputs and trace.question is not None
        self.on_others = any(node.values for node in nodes) or bool(inputs - {"question"})
        self.question = trace.question or ""
        self.data = QuestionData(trace.question, trace.inputs)
        self.literals = [literal for literal in literals if literal.statement in statements]
        self.all_literals = literals
        self.operations = Operations(found.run.program.source, statements)

    def retyped(self) -> list[Literal]:
        """Return the literals that are also in the question; for a list, if at least half of it is. Without indexes."""
        return [literal for literal in self.literals if not literal.is_index and self._is_retyped(literal)]

    def _is_retyped(self, literal: Literal) -> bool:
        if not self.data.is_known and self.operations.only_turns and not isinstance(literal.value, bool):
            return False
        whole = [node.value for node in ast.walk(literal.whole) if isinstance(node, ast.Constant)]
        if self.data.has(literal.value):
            return 2 * sum(map(self.data.has, whole)) >= len(whole)
        match literal.parents[:1]:  # the end of a range is one more than a number in the question
            case [ast.Call(args=[end] | [_, end, *_]) as call] if called_name(call) == "range" and end is literal.node:
                if isinstance(literal.value, int) and self.data.has(literal.value - 1):
                    return True
        # A list of words named after the question: `planets = ["Mercury", "Venus", …]`.
        words = {part for part in whole if isinstance(part, str) and len(part) > 2}
        return len(words) == len(whole) > 1 and self.data.has(literal.name.replace("_", " "))


class _Judge:
    def __init__(self, rests: _Rests, reruns: Reruns) -> None:
        self._rests, self._reruns, self._answer = rests, reruns, reruns.answer
        self._left = _MAX_MUTANTS

    async def verdict(self) -> Stated | None:
        literal = await self._literal()
        if literal is None:
            return await self._reencoded()
        if self._rests.on_question:
            return await self._selected_by_question(literal)
        operations = self._rests.operations
        is_counted = _is_number(literal.value) and operations.counts and operations.reencodes
        if is_counted and not operations.calculates:  # `len([0] * 14)`
            return await self._unchanged(self._rests.retyped(), is_counted=True)
        data = self._data(literal)
        is_work = operations.calculates and any(_is_number(datum.value) for datum in data)
        return await self._unchanged(data) if operations.compares_literals and not is_work else None

    async def is_decoded(self) -> bool:
        written = {word for literal in self._rests.all_literals for word in words_of(str(literal.value))}
        if any(word in written or self._rests.data.has(word) for word in words_of(self._answer)):
            return False
        return await self._changes(self._mutations(self._rests.retyped())) is True

    async def _reencoded(self) -> Stated | None:
        """Return "constant" if the answer is a re-encoded literal (reversed, decoded, counted) that no data change."""
        operations = self._rests.operations
        is_number = any(map(str.isdigit, self._answer))
        is_structure = self._answer[:1] in tuple("[({") or self._answer in ("true", "false", "none")
        if not operations.reencodes or (is_number and operations.calculates) or is_structure:
            return None
        kept = await self._unchanged(self._rests.retyped(), is_counted=True)
        if kept is None or not self._rests.on_question:
            return kept
        return None if await self._any_changes((None, other) for other in self._questions()) else kept

    async def _selected_by_question(self, literal: Literal) -> Stated | None:
        """Return "input" if the question's text only selects a literal: by its words, or by not being empty."""
        data = [datum for datum in self._data(literal) if not isinstance(datum.value, bool)]
        if await self._any_changes(self._mutations(data)):
            return None
        if _is_number(literal.value) or not self._rests.operations.cuts:
            return "input"
        return None if await self._any_changes((None, other) for other in self._questions()) else "input"

    async def _unchanged(self, retyped: Sequence[Literal], *, is_counted: bool = False) -> Stated | None:
        if await self._any_changes(self._mutations(retyped, is_counted=is_counted)):
            return None
        return "constant" if self._reruns.kept or not retyped else None  # mutants that fail are no evidence

    def _data(self, literal: Literal) -> list[Literal]:
        return [datum for datum in self._rests.retyped() if datum.value != literal.value]

    async def _literal(self) -> Literal | None:
        """Return the literal that is the answer: replacing it replaces the answer."""
        same = [literal for literal in self._rests.all_literals if bare(str(literal.value)) == self._answer]
        is_initial = self._answer in _INITIAL and (self._rests.operations.loops or not self._rests.on_question)
        if not same or is_initial:
            return None
        others = {literal.place: _sentinel(literal.value) for literal in same}
        self._left -= 1
        now = await self._reruns.answer_with(_replacing(others))
        return same[0] if now in {bare(str(other)) for other in others.values()} else None

    async def _any_changes(self, mutations: Iterable[_Change]) -> bool:
        """Whether some mutant gives another answer, or not all could be tried."""
        return await self._changes(mutations) is not False

    async def _changes(self, mutations: Iterable[_Change]) -> bool | None:
        """Whether some mutant gives another answer; None if not all could be tried. Failed mutants do not count."""
        for mutation, question in mutations:
            if self._left <= 0 or not self._reruns.has_time:
                return None
            self._left -= 1
            if await self._reruns.changes(mutation, question):
                return True
        return False

    def _mutations(self, retyped: Sequence[Literal], *, is_counted: bool = False) -> Iterator[_Change]:
        """Yield mutations that change one datum wherever it is retyped, and in the question if the program reads it."""
        seen = set[Any]()
        for literal in retyped:
            if isinstance(literal.value, bool):
                yield _replacing({literal.place: not literal.value}), None
            elif literal.value not in seen:
                seen.add(literal.value)
                yield from self._changed(literal.value)
            if is_counted and literal.whole is not literal.node:
                yield Mutation(dropped=frozenset([literal.place])), None

    def _changed(self, value: Any) -> Iterator[_Change]:
        is_read = self._rests.on_question
        for other in _others(value, is_same_length=is_read):
            question = _replaced(self._rests.question, value, other) if is_read else None
            if is_read and question == self._rests.question:
                continue  # a literal compared with the question must change with it
            places = {
                literal.place: _in_place_of(literal.value, value, other)
                for literal in self._rests.all_literals
                if not isinstance(literal.value, bool) and _in_place_of(literal.value, value, other) != literal.value
            }
            yield _replacing(places), question

    def _questions(self) -> Iterator[str]:
        """Yield other questions: of other kinds and lengths, and this one with one word shortened."""
        yield from OTHER_QUESTIONS
        question = self._rests.question
        words = list(re.finditer(r"\S+", question))
        for word in words[-1 : -_MAX_TOKENS - 1 : -1]:
            yield question[: word.start()] + word[0][1:] + question[word.end() :]


def _replacing(values: Mapping[int, Any]) -> Mutation:
    return Mutation(replaced={place: repr(value) for place, value in values.items()})


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) or str(value).strip().replace(".", "").isdigit()


def _sentinel(value: Any) -> Any:
    match value:
        case bool() | None:
            return value
        case int() | float():
            return type(value)(SENTINEL_NUMBER)
        case bytes():
            return SENTINEL_TEXT.encode()
    return str(SENTINEL_NUMBER) if _is_number(value) else SENTINEL_TEXT


def _others(value: Any, *, is_same_length: bool) -> list[Any]:
    """Return other data of the same type, and of the same length if required."""
    others: list[Any]
    match value:
        case int() | float():
            digits = len(str(abs(int(value))))
            near = value + 1 if len(str(abs(int(value + 1)))) == digits else value - 1
            others = [near, type(value)(10 ** (digits - 1)), type(value)(10**digits - 1)]
            others += [] if is_same_length else [value * 1000 + 7]
        case str():
            moved = re.sub(r"[A-Za-y]", lambda letter: chr(ord(letter[0]) + 1), value, count=1)
            others = [value[::-1], moved, *([] if is_same_length else [value[:-1], f"zz{value}", f"aa {value}"])]
        case bytes():
            return [value[::-1]]
        case _:
            return []
    return [other for other in dict.fromkeys(others) if other != value]


def _in_place_of(literal: Any, old: Any, new: Any) -> Any:
    """Return a literal with one datum replaced by another: the value itself, or its occurrences in a string."""
    if type(literal) is type(old) and literal == old:
        return new
    if isinstance(literal, str):
        return _replaced(literal, old, new)
    return literal


def _replaced(text: str, old: Any, new: Any) -> str:
    """Replace a datum wherever it occurs as a word; a long text without a pattern, which could backtrack."""
    if isinstance(old, str) and len(old) > _MAX_PATTERN:
        return text.replace(old, str(new))
    names = [str(old), *(word for word, value in NUMBER_WORDS.items() if not isinstance(old, str) and value == old)]
    pattern = "|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in names if name.strip())
    return re.sub(pattern, lambda _: str(new), text, flags=re.IGNORECASE) if pattern else text
