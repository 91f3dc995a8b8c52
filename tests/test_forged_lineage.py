"""A guest reports its own lineage: even if it is forged, reading it takes linear time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from growth import assert_linear

from chainofcode.audit.provenance.followed import Provenance
from chainofcode.audit.provenance.why import why_data, why_lines
from chainofcode.audit.replay.recorded import Run
from chainofcode.program import Program, Statement
from chainofcode.reasons import Reason
from chainofcode.sandbox.frames import FrameError, Lineage, LineageNode, Reader
from chainofcode.sandbox.frames import encode as encode_frame
from chainofcode.trace import Answer, Step, Trace

Logs = list[tuple[list[int], list[int]]]


def node(
    visits: list[int], data: list[int] | None = None, read: list[tuple[int, int, int]] | None = None
) -> LineageNode:
    return LineageNode(0, visits=visits, data=data or [], read=read or [])


def nodes_and_logs(size: int) -> tuple[list[LineageNode], Logs]:
    return [node([number + 1]) for number in range(size)], [([], []) for _ in range(size)]


def all_read_all(size: int) -> tuple[list[LineageNode], Logs]:
    every = list(range(size))
    return [node([number + 1], read=[(0, size, size)]) for number in every], [(every, every)]


def a_chain_without_steps(size: int) -> tuple[list[LineageNode], Logs]:
    chain = [node([], [number - 1]) for number in range(size)]
    return chain + [node([number + 1], [size - 1]) for number in range(size)], []


def one_with_all_steps_before(size: int) -> tuple[list[LineageNode], Logs]:
    every = list(range(1, size + 1))
    return [node(every), *(node([number], [0]) for number in every)], []


def one_with_all_steps_after(size: int) -> tuple[list[LineageNode], Logs]:
    every = list(range(1, size + 1))
    return [*(node([number]) for number in every), node(every, list(range(size)))], []


def many_reads(size: int) -> tuple[list[LineageNode], Logs]:
    return [node([number + 1], read=[(0, 1, 1)] * 20) for number in range(size)], [([0], [0])]


def numbers_out_of_range(size: int) -> tuple[list[LineageNode], Logs]:
    wild = [-1, -size, size * 9, 2**62]
    logs: Logs = [(wild, wild)] * size
    return [node(wild, wild * 5, [(number, 2**62, -1), (-number, -5, 2**62)]) for number in range(size)], logs


FORGERIES = (
    nodes_and_logs,
    all_read_all,
    a_chain_without_steps,
    one_with_all_steps_before,
    one_with_all_steps_after,
    many_reads,
    numbers_out_of_range,
)


def provenance(size: int, forge: Callable[[int], tuple[list[LineageNode], Logs]]) -> Provenance:
    nodes, logs = forge(size)
    program = Program("answer = 1", (Statement(1, 0, 1, 10, "Assign"),))
    steps = [Step(number + 1, "python", 0, 1, visit=number + 1) for number in range(size)]
    run = Run(1, program, tuple(steps), Answer(Reason.ANSWERED, text="1", source="variable"))
    lineage = Lineage(nodes, logs, ends={"answer": len(nodes) - 1})
    return Provenance(run, lineage, trace=Trace(None, {}, {}, [program, *steps]))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("forge", FORGERIES)
def test_reading_a_forged_lineage_takes_linear_time(forge: Callable[[int], tuple[list[LineageNode], Logs]]) -> None:
    def reading_of(size: int) -> Callable[[], object]:
        found = provenance(size, forge)
        return lambda: (why_data(found), list(why_lines(found)))

    assert_linear(reading_of, 10_000)


def test_dependencies_near_the_answer_are_kept_and_omissions_are_marked() -> None:
    few, many = why_data(provenance(100, all_read_all)), why_data(provenance(20_000, all_read_all))
    assert few["whole"]
    assert few["steps"]["100"] == list(range(1, 100))
    assert not many["whole"]
    assert many["steps"]["20000"] == list(range(1, 20_000))
    assert sum(map(len, many["steps"].values())) < 2_000_000


@pytest.mark.parametrize("node", [[999], [0, [], [], [], [], [], [999]]])
def test_lineage_of_an_unknown_statement_breaks_the_protocol(node: list[Any]) -> None:
    reader = Reader(1 << 20, 1 << 20, is_recorded=True)
    ended = {"type": "ended", "reason": "answered", "lineage": {"nodes": [[0], node]}}
    reader.feed(encode_frame(ended))
    with pytest.raises(FrameError, match="statement 999 of"):
        reader.next()
