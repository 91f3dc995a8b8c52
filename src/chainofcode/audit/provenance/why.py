"""The chain from an answer back to the question, as text and as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...reasons import Reason
from ...render import GUTTER, count, cut, fit, paint, plain, shown, what
from ...trace import Answer, Step
from .followed import Provenance

_QUIET = frozenset(["FunctionDef", "AsyncFunctionDef", "ClassDef", "Import", "ImportFrom", "Global", "Nonlocal"])
_DECIDES = "  (decides what runs)"
_MAX_LINES, _MAX_VALUES, _MAX_UNUSED = 24, 3, 4


@dataclass(frozen=True)
class Link:
    """One statement of the chain: how often it counted, its last step, and the values that it requested."""

    statement: int
    line: int
    source: str
    kind: str
    runs: int
    last: Step | None
    values: tuple[Step, ...]
    is_data: bool  # its result is part of the answer; otherwise it only decided what runs
    order: float

    @property
    def by(self) -> str:
        if self.values:
            return self.values[-1].by
        return self.last.by if self.last is not None else "python"


def chain_of(provenance: Provenance) -> list[Link]:
    """The statements that count, the last first."""
    nodes: dict[int, list[int]] = {}
    for index in sorted(provenance.slice.nodes):
        if provenance.lineage.nodes[index].statement >= 0:
            nodes.setdefault(provenance.lineage.nodes[index].statement, []).append(index)
    links = [_link(provenance, statement, own) for statement, own in nodes.items()]
    return sorted(links, key=lambda link: -link.order)


def _link(provenance: Provenance, statement: int, nodes: list[int]) -> Link:
    program, last = provenance.run.program, provenance.lineage.nodes[nodes[-1]]
    steps = [step for index in nodes for step in provenance.steps.get(index, ())]
    python = [step for step in steps if step.is_code]
    return Link(
        statement,
        program.statements[statement].line,
        program.first_line(statement).strip(),
        program.statements[statement].kind,
        len(nodes),
        python[-1] if python else None,
        tuple(step for step in steps if not step.is_code),
        any(index in provenance.slice.by_data for index in nodes),
        max([nodes[-1], *(index + 0.5 for index in last.data)]),  # it comes after what it calls
    )


def why_lines(
    provenance: Provenance, *, width: int = 100, colour: bool = False, all_lines: bool = False
) -> Iterator[str]:
    """Return the chain as text: the answer, what it rests on, each statement, and what did not matter."""
    links = chain_of(provenance)
    yield paint("bold", cut(plain(_head(provenance)), 2000), colour)
    yield f"  rests on {rests_on(provenance)}"
    yield ""
    shown = [link for link in links if all_lines or link.kind not in _QUIET]
    limit = len(shown) if all_lines else _MAX_LINES
    for link in shown[:limit]:
        yield from _link_lines(link, width, colour, all_lines)
    if len(shown) > limit:
        yield paint("dim", f"   ⋮  {len(shown) - limit} more statements (--all shows them)", colour)
    for name in sorted(provenance.slice.inputs):
        yield fit(f"      {paint('bold', 'in', colour)}  {plain(name)}", width).rstrip()
    unused = _unused(provenance)
    if unused:
        yield ""
        yield paint("dim", cut("  did not matter: " + "; ".join(unused), width * 2), colour)


def _head(provenance: Provenance) -> str:
    answer = provenance.run.answer or Answer(Reason.GUEST_DIED)
    if provenance.name is not None:
        return f"{provenance.name} at the end of the program"
    if answer.is_answered:
        return f"answer: {answer.said or answer.text}"
    return f"no answer: {answer.reason}" + (f": {answer.error.message}" if answer.error is not None else "")


def rests_on(provenance: Provenance) -> str:
    """Return how much of the run counts, in one line."""
    found, ran = provenance.slice, provenance.statements
    parts = [f"{len(found.statements & ran)} of {count(len(ran), 'statement')} that ran"]
    for by, word in (("lm", "LM value"), ("tool", "tool value")):
        used = {step.call for step in provenance.values if step.by == by}
        unused = {step.call for step in provenance.unused_values if step.by == by}
        if used or unused:
            parts.append(f"{len(used)} of {count(len(used) + len(unused), word)}")
    parts += ["the question"] if "question" in found.inputs else []
    others = len(found.inputs - {"question"})
    parts += [count(others, "input")] if others else []
    return ", ".join(parts)


def _link_lines(link: Link, width: int, colour: bool, all_lines: bool) -> Iterator[str]:
    room = max(24, min(56, width * 4 // 10))
    rest = max(width - room - 12, 20)
    times = f"  ×{link.runs}" if link.runs > 1 else ""
    source = fit(cut(plain(link.source), room - len(times)) + times, room)
    texts = _texts(link, rest)
    limit = len(texts) if all_lines else _MAX_VALUES
    hidden = f"… {len(texts) - limit} more" if len(texts) > limit else ""
    gutter = paint(link.by, f"{GUTTER[link.by]:<4}", colour)
    first = texts[0] if link.is_data else cut(texts[0], max(rest - len(_DECIDES), 20))
    decides = "" if link.is_data else paint("dim", _DECIDES, colour)
    yield f"{link.line:>4}  {gutter}{source}  {first}{decides}".rstrip()
    for text in [*texts[1:limit], *([hidden] if hidden else [])]:
        yield " " * (room + 12) + text


def _texts(link: Link, width: int) -> list[str]:
    """Return the values that a line requested or, without any, its last step."""
    values = {step.call: step for step in link.values}
    if values:
        return [_value(step, width) for step in values.values()]
    return [what(link.last, width)] if link.last is not None else [""]


def _value(step: Step, width: int) -> str:
    value = f" → {plain(shown(step.value, 60))}" if step.error is None else f" ✗ {plain(step.error)}"
    return cut(plain((step.call or "").replace("\n", "⏎")), max(width - min(len(value), width // 2), 12)) + cut(
        value, width
    )


def _unused(provenance: Provenance) -> list[str]:
    """Return what ran or was requested, but did not matter."""
    program = provenance.run.program
    statements = [
        number
        for number in sorted(provenance.statements - provenance.slice.statements)
        if program.statements[number].kind not in _QUIET
    ]
    parts = [f"line {program.statements[n].line} {plain(cut(program.first_line(n).strip(), 40))}" for n in statements]
    values = {
        step.call: f"{plain(cut(step.call or '', 40))} → {plain(shown(step.value, 60))}"
        for step in provenance.unused_values
    }
    parts = [*values.values(), *parts]
    return parts[:_MAX_UNUSED] + ([f"{len(parts) - _MAX_UNUSED} more"] if len(parts) > _MAX_UNUSED else [])


def why_data(provenance: Provenance) -> dict[str, Any]:
    """Return the chain as data, with each step that counts and the steps that it depends on."""
    answer = provenance.run.answer or Answer(Reason.GUEST_DIED)
    used, unused = provenance.edges(), provenance.edges(counting=False)
    return {
        "name": provenance.name,
        "answer": (answer.said or answer.text) if answer.is_answered else None,
        "reason": answer.reason,
        "same": provenance.difference is None,
        "statements": [
            {
                "statement": link.statement,
                "line": link.line,
                "source": link.source,
                "by": link.by,
                "runs": link.runs,
                "decides_only": not link.is_data,
                "values": [_value_data(step) for step in link.values],
            }
            for link in chain_of(provenance)
        ],
        "inputs": sorted(provenance.slice.inputs),
        "needed": sorted(provenance.slice.statements),
        "steps": {str(number): behind for number, behind in used.behind.items()},
        "unused": {
            "statements": sorted(provenance.statements - provenance.slice.statements),
            "values": [_value_data(step) for step in provenance.unused_values],
            "steps": {str(number): behind for number, behind in unused.behind.items()},
        },
        "whole": used.is_whole and unused.is_whole,  # otherwise the dependencies of further steps are left out
    }


def _value_data(step: Step) -> dict[str, Any]:
    return {"step": step.number, "by": step.by, "call": step.call, "value": step.value, "error": step.error}
