"""What an answer depends on, from the lineage of a run: statements, inputs, values of the LM and of tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from ...languages.python.compiler.computation import STATES
from ...program import Program
from ...sandbox.frames import Lineage, LineageNode
from ...trace import Answer, Step

_SILENT = ("Global", "Nonlocal")  # they have no steps, but apply to their whole function
_STATING = ("Assign", "AnnAssign", "Expr", "Return", "If", "While")
_SINKS = {"variable": "answer", "expression": "$last", "output": "$output"}


@dataclass(frozen=True)
class Slice:
    """The part of a run that something at its end depends on.

    `nodes` are runs of statements, `statements` the numbers of all that are needed; `values` are the steps of the LM
    and of tools, by their place among the requested values; `by_data` are the nodes that are reached through data
    alone, without what decided that a statement ran.
    """

    nodes: frozenset[int]
    core: frozenset[int]  # without those that only prevented an error, or whose value is not used
    by_data: frozenset[int]
    statements: frozenset[int]
    values: frozenset[int]
    inputs: frozenset[str]


def slice_of(lineage: Lineage, program: Program, answer: Answer, name: str | None = None) -> Slice:
    """Return what a variable depends on at the end of a run; without `name`, what the answer or the failure does."""
    graph = Graph(lineage)
    roots = _roots(lineage, answer, name)
    guards = [] if name is not None and answer.is_answered else lineage.guards
    nodes = graph.closure([*roots, *guards])
    by_data = graph.closure(roots, with_control=False)
    parts = [lineage.nodes[index] for index in nodes]
    return Slice(
        nodes,
        graph.closure(roots, stated=_stated(lineage, program)),
        by_data,
        _with_enclosing(_statements_of(parts), program),
        frozenset(value for part in parts for value in part.values),
        frozenset(name for name, index in lineage.inputs.items() if index in nodes),
    )


def _statements_of(parts: Iterable[LineageNode]) -> set[int]:
    return {statement for part in parts for statement in (part.statement, *part.whole)} - {-1}


def _stated(lineage: Lineage, program: Program) -> frozenset[int]:
    """Return the statements whose value is a literal: their other parts, as in `"x" or f(y)`, make no difference."""
    both = enumerate(zip(lineage.works, program.statements, strict=False))
    return frozenset(number for number, (does, place) in both if does == STATES and place.kind in _STATING)


def depends_on(lineage: Lineage, roots: Iterable[int]) -> frozenset[int]:
    """All nodes that the roots depend on, including the roots."""
    return Graph(lineage).closure(roots)


def _roots(lineage: Lineage, answer: Answer, name: str | None) -> Sequence[int]:
    if name is None and not answer.is_answered:
        return lineage.failed
    wanted = name if name is not None else _SINKS.get(answer.source, "")
    return [lineage.ends[wanted]] if wanted in lineage.ends else []


def _with_enclosing(ran: set[int], program: Program) -> frozenset[int]:
    """Add the statements around the kept ones, and the global and nonlocal declarations of kept functions."""
    kept, around = set(ran), list[int]()
    silent: list[tuple[int, int]] = []
    for number, place in enumerate(program.statements):
        start = (place.line, place.column)
        while around and (ends := program.statements[around[-1]]) and (ends.end_line, ends.end_column) <= start:
            around.pop()
        if number in ran:
            kept.update(around)
        if place.kind in _SILENT and around:
            silent.append((number, around[-1]))
        around.append(number)
    return frozenset(kept | {number for number, home in silent if home in kept})


class Graph:
    """Walks a lineage backwards. It comes from a guest, so numbers out of range are ignored."""

    def __init__(self, lineage: Lineage) -> None:
        self._nodes, self._logs = lineage.nodes, lineage.logs

    def closure(
        self, roots: Iterable[int], *, with_control: bool = True, stated: frozenset[int] = frozenset()
    ) -> frozenset[int]:
        """All nodes that the roots depend on, including the roots."""
        seen, pending = set[int](), list(roots)
        walked: dict[tuple[int, int], int] = {}  # how far each log was walked, to walk it only once
        while pending:
            index = pending.pop()
            if index in seen or not 0 <= index < len(self._nodes):
                continue
            seen.add(index)
            node = self._nodes[index]
            if with_control:
                pending += node.control
            if node.statement in stated:
                continue
            pending += node.data
            for log, part, length in self._read(node, with_control):
                start = walked.get((log, part), 0)
                if length > start:
                    pending += self._logs[log][part][start:length]
                    walked[log, part] = length
        return frozenset(seen)

    def next_to(self, index: int) -> Iterator[int]:
        """The direct dependencies of a node, possibly with repetitions."""
        node = self._nodes[index]
        logs = (islice(self._logs[log][part], max(length, 0)) for log, part, length in self._read(node, True))
        for behind in chain(node.data, node.control, *logs):
            if 0 <= behind < len(self._nodes):
                yield behind

    def _read(self, node: LineageNode, with_control: bool) -> Iterator[tuple[int, int, int]]:
        """The logs that a node reads: number, part and length."""
        for log, sure, perhaps in node.read:
            if 0 <= log < len(self._logs):
                yield log, 0, sure
                if with_control:
                    yield log, 1, perhaps


def asked_steps(steps: Iterable[Step]) -> list[Step]:
    """Return the steps of the LM and of tools, in the order in which slices count them."""
    return [step for step in steps if not step.is_code]
