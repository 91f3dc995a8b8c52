"""Where an answer comes from: the last program of a trace, run again with its lineage, and the part that counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from ...engine import Result, execute
from ...engine.blocking import blocking
from ...errors import InputError, TraceError
from ...reasons import Reason
from ...sandbox import Sandbox
from ...sandbox.frames import Lineage
from ...trace import Answer, Step, Trace
from ..replay.differences import Difference, first_difference, last_word
from ..replay.grants import Grants, approve
from ..replay.recorded import Recorded, Run, answering, recorded_options, runs_of
from .slices import Graph, Slice, asked_steps, slice_of

# Direct dependencies can grow with the square of the steps: this many are listed, plus a multiple of the lineage.
_MANY_EDGES, _EDGES_PER_LINK = 1_000_000, 8
_NO_STEP = -1


class Edges(NamedTuple):
    """The direct dependencies of steps, by number. Not `is_whole` if there are too many to list."""

    behind: dict[int, list[int]]
    is_whole: bool


@dataclass(frozen=True)
class Provenance:
    """A run, its lineage, and what the answer, or the variable `name`, depends on at its end."""

    run: Run
    lineage: Lineage
    name: str | None = None
    difference: Difference | None = None  # between this run and the recorded one
    trace: Trace = field(default_factory=Trace)  # of this run, which the lineage describes

    @cached_property
    def slice(self) -> Slice:
        return slice_of(self.lineage, self.run.program, self.run.answer or Answer(Reason.GUEST_DIED), self.name)

    @cached_property
    def steps(self) -> dict[int, list[Step]]:
        """The steps of the trace that each node stands for: those of Python, and requested values."""
        python = {(step.statement, step.visit): step for step in self.trace.steps if step.is_code}
        requested = asked_steps(self.trace.steps)
        found: dict[int, list[Step]] = {}
        for index, node in enumerate(self.lineage.nodes):
            own = [requested[value] for value in dict.fromkeys(node.values) if value < len(requested)]
            visits = ((node.statement, visit) for visit in dict.fromkeys(node.visits))
            own += [python[visit] for visit in visits if visit in python]
            if own:
                found[index] = own
        return found

    @property
    def values(self) -> list[Step]:
        """The values of the LM and of tools that count, in the order of the run."""
        requested = asked_steps(self.trace.steps)
        return [requested[value] for value in sorted(self.slice.values) if value < len(requested)]

    @property
    def unused_values(self) -> list[Step]:
        kept = {step.call for step in self.values}
        return [step for step in asked_steps(self.trace.steps) if step.call not in kept]

    @property
    def statements(self) -> frozenset[int]:
        """The statements that ran at all."""
        nodes = self.lineage.nodes
        return frozenset({node.statement for node in nodes} | {number for node in nodes for number in node.whole}) - {
            -1
        }

    def edges(self, *, counting: bool = True) -> Edges:
        """The direct dependencies of the steps that count, or of those that do not."""
        graph, steps = Graph(self.lineage), self.steps
        left = _MANY_EDGES + _EDGES_PER_LINK * self.lineage_links
        behind: dict[int, list[int]] = {}
        chosen = sorted(steps.keys() & self.slice.nodes if counting else steps.keys() - self.slice.nodes)
        for index in reversed(chosen):  # those near the answer first
            own, around = {step.number for step in steps[index]}, set[int]()
            for number in _nearest(index, graph, steps):
                left -= len(own)  # each of them depends on this one
                if left < 0:
                    return Edges(dict(reversed(behind.items())), is_whole=False)
                around.add(number)
            around.discard(_NO_STEP)
            behind |= {number: sorted(around - {number}) for number in sorted(own, reverse=True)}
        return Edges(dict(reversed(behind.items())), is_whole=True)

    @property
    def lineage_links(self) -> int:
        """The size of the lineage: nodes, and all references in nodes and logs."""
        nodes = sum(
            1 + len(node.visits) + len(node.values) + len(node.data) + len(node.control) + len(node.read)
            for node in self.lineage.nodes
        )
        return nodes + sum(len(sure) + len(perhaps) for sure, perhaps in self.lineage.logs)


def _nearest(index: int, graph: Graph, steps: Mapping[int, Sequence[Step]]) -> Iterator[int]:
    """Yield the numbers of the steps that a node depends on directly, or through nodes without steps.

    Yields `_NO_STEP` after each link, so that the caller can count the work.
    """
    pending, seen = [index], {index}
    while pending:
        for behind in graph.next_to(pending.pop()):
            own = steps.get(behind, ()) if behind not in seen else ()
            if behind not in seen and not own:
                pending.append(behind)
            seen.add(behind)
            yield from (step.number for step in own)
            yield _NO_STEP


async def afollow(
    trace: Trace, name: str | None = None, *, sandbox: Sandbox | str = "auto", grant_recorded: bool = False
) -> Provenance:
    """Run a trace's last program again with its recorded values, and record what depends on what.

    `name` is a variable of the program to explain instead of the answer. Raises InputError if nothing was run, or there
    is no such variable; TraceError if the run cannot be followed; GrantError if someone else's trace has grants,
    unless `grant_recorded`.
    """
    trace = approve(trace, Grants(recorded=grant_recorded))
    runs = runs_of(trace)
    if not runs:
        raise InputError("no program of this trace was run: the model stated the answer itself")
    run = answering(trace, runs)
    options = replace(recorded_options(trace), follow=True)
    events = [event async for event in execute(run.program, Recorded(run), sandbox=sandbox, options=options)]
    result = Result.of(events)
    now, lineage = result.trace, result.lineage
    difference = first_difference(run, now.events) or last_word(trace, run)
    run = replace(run, program=now.program or run.program)  # the lineage describes this program
    if lineage is None:
        raise TraceError(f"the run cannot be followed: {_why_not(result.reason)}")
    if name is not None and name not in lineage.ends:
        known = ", ".join(end for end in lineage.ends if not end.startswith("$"))
        raise InputError(f"the program has no variable {name!r} at its end; it has {known or 'none'}")
    return Provenance(run, lineage, name, difference, now)


def _why_not(reason: Reason) -> str:
    if reason in (Reason.ANSWERED, Reason.ERROR):
        return "it is nested too deeply, or too large"
    return f"run again, it ended early: {reason}"


def follow(
    trace: Trace, name: str | None = None, *, sandbox: Sandbox | str = "auto", grant_recorded: bool = False
) -> Provenance:
    """`afollow` for code that is not async."""
    return blocking(afollow(trace, name, sandbox=sandbox, grant_recorded=grant_recorded))
