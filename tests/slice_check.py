"""Brute force against slices: remove statements, change values, and check that the answer stays the same."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chainofcode import EmulationError, Limits, Pause, Result, arun
from chainofcode.audit.provenance.slices import Slice, asked_steps, slice_of
from chainofcode.languages.python.compiler.statements import statements
from chainofcode.sandbox import Sandbox

_LIMITS = Limits(run_seconds=2, lm_calls=100_000)


def without(source: str, numbers: Collection[int]) -> tuple[str, list[int]]:
    """Return a program without some of its statements, and the original numbers of those that remain."""
    tree = ast.parse(source)
    order = {node: number for number, node in enumerate(statements(tree.body))}

    class Remover(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            is_gone = isinstance(node, ast.stmt) and order[node] in numbers
            return ast.copy_location(ast.Pass(), node) if is_gone else self.generic_visit(node)

    gone = {inner for node in order if order[node] in numbers for inner in ast.walk(node) if inner is not node}
    kept = [number for node, number in order.items() if node not in gone]
    return ast.unparse(ast.fix_missing_locations(Remover().visit(tree))), kept


def other(value: Any) -> Any:
    """Return another value of the same type."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + "x"
        case list():
            return value[:-1] if value else ["x"]
    return value


@dataclass
class Force:
    """A program and the values of its calls, for runs of its variants."""

    source: str
    answer: Callable[[Pause], Any]
    sandbox: Sandbox | str
    given: Mapping[str, Any]

    async def run(self, source: str, changed: str | None = None, *, follow: bool = False) -> Result:
        def answer(pause: Pause) -> Any:
            try:
                value = self.answer(pause)
            except KeyError:
                raise EmulationError(f"no value for {pause.text}") from None
            return other(value) if pause.text == changed else value

        more: dict[str, Any] = {"follow": True} if follow else {"in_flight": 1}
        return await arun(source, answer, sandbox=self.sandbox, limits=_LIMITS, **self.given, **more)

    async def sliced(self) -> tuple[Result, Slice | None]:
        result = await self.run(self.source, follow=True)
        program, answer = result.trace.program, result.trace.answer
        if result.reason != "answered" or result.lineage is None or program is None or answer is None:
            return result, None
        return result, slice_of(result.lineage, program, answer)

    async def objections(self, first: int = 0) -> list[str]:
        """Find changes outside the slice that change the answer; only statements from `first` on are removed.

        A failure or an endless loop in a statement that is itself outside the slice does not count: removing one
        statement may leave another without the values that it needs.
        """
        result, found = await self.sliced()
        if found is None or result.trace.program is None or result.trace.program.prose:
            return []
        program, wanted = result.trace.program, answer_text(result)
        outside = set(range(len(program.statements))) - found.statements
        trials = {f"without {number}": without(program.source, {number}) for number in outside if number >= first}
        trials["without all of them"] = without(program.source, outside)
        steps = asked_steps(result.trace.steps)
        inside = {steps[value].call for value in found.values if value < len(steps)}
        changes = {step.call for step in steps if step.call is not None and not step.delta} - inside

        async def tried(what: str, source: str, kept: Sequence[int], changed: str | None = None) -> str:
            again = await self.run(source, changed)
            failed = again.error.statement if again.error is not None else None
            is_elsewhere = failed is not None and failed < len(kept) and kept[failed] in outside
            if answer_text(again) == wanted or is_elsewhere or again.reason.startswith("limit:"):
                return ""
            return f"{what}: {answer_text(again)} instead of {wanted} ({again.error})\n{self.source}"

        everything = range(len(program.statements))
        runs = [tried(what, *trial) for what, trial in trials.items()]
        runs += [tried(f"with another {call}", program.source, everything, call) for call in changes if call]
        return [objection for objection in await asyncio.gather(*runs) if objection]


def answer_text(result: Result) -> str:
    return result.trace.answer.text if result.trace.answer is not None else ""
