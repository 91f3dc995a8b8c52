"""Where an answer comes from: a trace's last program run again and followed, and the part of it that counts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from ...engine import Result, execute
from ...errors import InputError, TraceError
from ...reasons import Reason
from ...sandbox import Sandbox
from ...sandbox.frames import Lineage
from ...trace import Answer, Step, Trace
from ..replay.differences import Difference, first_difference, last_word
from ..replay.recorded import Recorded, Run, answering, given_of, runs_of
from .slices import Slice, asked_steps, depends_on, slice_of


@dataclass(frozen=True)
class Provenance:
    """A run, followed, and what something at its end depends on: the answer, or the name that was asked for."""

    run: Run
    lineage: Lineage
    name: str | None = None
    difference: Difference | None = None  # where following it did not give what was recorded
    trace: Trace = field(default_factory=Trace)  # as it came out now, which the lineage is of

    @cached_property
    def slice(self) -> Slice:
        return slice_of(self.lineage, self.run.program, self.run.answer or Answer(Reason.GUEST_DIED), self.name)

    @cached_property
    def steps(self) -> dict[int, list[Step]]:
        """The steps of the trace that each node stands for: Python's own, and values that were asked for."""
        python = {(step.statement, step.visit): step for step in self.trace.steps if step.by == "python"}
        asked = asked_steps(self.trace.steps)
        found: dict[int, list[Step]] = {}
        for index, node in enumerate(self.lineage.nodes):
            own = [asked[value] for value in node.values if 0 <= value < len(asked)]
            own += [python[node.statement, visit] for visit in node.visits if (node.statement, visit) in python]
            if own:
                found[index] = own
        return found

    @property
    def values(self) -> list[Step]:
        """The values of the LM and of tools that count, in the order in which they came."""
        asked = asked_steps(self.trace.steps)
        return [asked[value] for value in sorted(self.slice.values) if value < len(asked)]

    @property
    def unused_values(self) -> list[Step]:
        kept = {step.call for step in self.values}
        return [step for step in asked_steps(self.trace.steps) if step.call not in kept]

    @property
    def statements(self) -> frozenset[int]:
        """The statements that ran at all."""
        nodes = self.lineage.nodes
        return frozenset({node.statement for node in nodes} | {one for node in nodes for one in node.whole}) - {-1}

    def behind(self, step: Step) -> list[Step]:
        """The steps that one step depends on, itself included."""
        roots = [index for index, own in self.steps.items() if any(one.number == step.number for one in own)]
        return self._steps_of(depends_on(self.lineage, roots))

    def edges(self, *, counting: bool = True) -> Iterator[tuple[int, list[int]]]:
        """Each step that counts (or does not), by number, with the numbers of those that it depends on itself."""
        for index in sorted(self.steps.keys() & self.slice.nodes if counting else self.steps.keys() - self.slice.nodes):
            around = self._nearest(index)
            for step in self.steps[index]:
                yield step.number, [one.number for one in self._steps_of(around) if one.number != step.number]

    def _nearest(self, index: int) -> set[int]:
        """The nodes with steps that a node depends on, by way of those without."""
        found, pending, seen = set[int](), [index], {index}
        while pending:
            for behind in depends_on(self.lineage, [pending.pop()], only_next=True):
                if behind not in seen:
                    seen.add(behind)
                    (found.add if behind in self.steps else pending.append)(behind)
        return found

    def _steps_of(self, nodes: Iterable[int]) -> list[Step]:
        steps = {step.number: step for index in nodes for step in self.steps.get(index, ())}
        return [steps[number] for number in sorted(steps)]


async def afollow(trace: Trace, name: str | None = None, *, sandbox: Sandbox | str = "auto") -> Provenance:
    """Run a trace's last program again with its recorded values, and note what came from what.

    `name` asks about a variable of the program in place of the answer. Raises InputError where nothing was run, or
    there is no such variable; TraceError where the run cannot be followed.
    """
    runs = runs_of(trace)
    if not runs:
        raise InputError("no program of this trace was run: nothing stands behind its answer but the model's word")
    run = answering(trace, runs)
    options = replace(given_of(trace), follow=True)
    events = [event async for event in execute(run.program, Recorded(run), sandbox=sandbox, options=options)]
    result = Result.of(events)
    now, lineage = result.trace, result.lineage
    difference = first_difference(run, now.events) or last_word(trace, run)
    run = replace(run, program=now.program or run.program)  # the lineage is of that, whatever the trace says
    if lineage is None:
        raise TraceError(f"the run cannot be followed: {_why_not(result.reason)}")
    if name is not None and name not in lineage.ends:
        known = ", ".join(end for end in lineage.ends if not end.startswith("$"))
        raise InputError(f"the program has no variable {name!r} at its end; it has {known or 'none'}")
    return Provenance(run, lineage, name, difference, now)


def _why_not(reason: Reason) -> str:
    if reason in (Reason.ANSWERED, Reason.ERROR):
        return "it is nested too deep, or too large"
    return f"run again, it ended early: {reason}"


def follow(trace: Trace, name: str | None = None, *, sandbox: Sandbox | str = "auto") -> Provenance:
    """`afollow` for code that is not async."""
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        raise TypeError("follow() cannot be used inside a running event loop: await afollow() instead")
    return asyncio.run(afollow(trace, name, sandbox=sandbox))
