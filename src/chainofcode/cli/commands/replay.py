"""`coc replay`: runs a trace again without a model, unchanged or with other values."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec

from ...audit import Chain, Changes, Difference, Replay, read_checked, replay, side_by_side
from ...emulator import asking
from ...errors import InputError
from ...program import Program
from ...render import count, cut, plain
from ...trace import Answer, Trace, as_json, check_place
from ...values.codec import ValueFormatError, brief, decode
from ..grant_options import add_grants, approve_trace
from ..model_options import add_model, named_model
from ..parser import add_list, add_trace_argument
from ..program_files import read_program
from ..run_options import add_sandbox, chosen_sandbox
from ..terminal import (
    ANSWERED,
    NO_ANSWER,
    is_same_file,
    note,
    output_style,
    print_json,
    print_line,
    print_lines,
    print_trace,
    result_data,
)
from ..trace_warnings import warnings

_MAX_SHOWN = 2000


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "replay",
        help="run a trace again with its recorded values and compare, or with other values",
        description="Run the programs of TRACE again, without a model, network or tool. With --set, --edit or --model, "
        "run only the program that gave the answer, with changes; the model answers calls without a recorded value. "
        "Exit code: 0 the same (or, with changes, answered), 1 different (or no answer), 2 could not run.",
        examples=(
            "coc replay run.jsonl",
            "coc replay run.jsonl --set \"is_fruit('kiwi')=False\"",
            "coc replay run.jsonl --edit program.py --model ollama:llama3.2",
        ),
    )
    add_trace_argument(parser)
    add_list(
        parser,
        "--set",
        "WHAT=VALUE",
        "use another value for a call ('is_fruit(\"tomato\")=False'), a step (step:17=False) or an input (NAME=VALUE)",
    )
    parser.add_argument(
        "--edit", metavar="PROGRAM", type=Path, help="run this program instead, with the recorded values"
    )
    parser.add_argument(
        "--head", metavar="DIGEST", help="the digest that the last line must have; detects a rewritten file"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--trace", dest="written", metavar="FILE", type=Path, help="write a trace of the new run to FILE"
    )
    parser.add_argument("--all", action="store_true", help="print every step, not only those that differ")
    add_model(parser, default="none")
    add_sandbox(parser)
    add_grants(parser)
    parser.set_defaults(command=_replay)


def _replay(given: argparse.Namespace) -> int:
    trace, chain = read_checked(given.trace, given.head)
    done = _replayed(trace, chain, given)
    is_what_if = bool(given.set or given.edit or given.model)
    try:
        for text in done.notes:
            note(text)
        show = _print_what_if if is_what_if else _print_verdict
        show(done, chain, given)
    finally:
        if given.written:
            done.trace.write(given.written)
    if given.head and chain.state != "intact":
        return NO_ANSWER
    is_good = done.result.is_answered if is_what_if else done.is_same
    return ANSWERED if is_good else NO_ANSWER


def _replayed(trace: Trace, chain: Chain, given: argparse.Namespace) -> Replay:
    program = read_program(given.edit) if given.edit else None
    changes = Changes.parse(given.set, trace) if given.set else None
    if given.written:
        check_place(given.written)
        if is_same_file(given.written, given.trace):
            raise InputError("--trace must not name the replayed trace: use another file")
    trace = approve_trace(trace, given)
    for warning in warnings(trace, chain):
        note(warning)
    with named_model(given) as lm, chosen_sandbox(given, spares=0) as sandbox:
        emulator = asking(lm) if lm is not None else None
        return replay(trace, changes=changes, program=program, emulator=emulator, sandbox=sandbox)


def _print_what_if(done: Replay, chain: Chain, given: argparse.Namespace) -> None:
    if given.json:
        print_json({**_what_if_data(done), "chain": _chain_data(chain)})
        return
    width, colour = output_style()
    print_lines(side_by_side(done.runs[-1], done.trace, width=width, colour=colour, all_steps=given.all))


def _print_verdict(done: Replay, chain: Chain, given: argparse.Namespace) -> None:
    if given.json:
        print_json({**_verdict_data(done), "chain": _chain_data(chain)})
        return
    found = done.difference
    if found is None:
        print_line(f"the same: {_counted(done)}")
    else:
        print_line(f"different at {found.where}: {found.field}")
        for name, value in (("recorded", found.recorded), ("now", found.now)):
            print_line(f"  {name + ':':<10}{cut(plain(_shown(value, found)), _MAX_SHOWN)}")
    if chain.state != "broken":
        print_line(str(chain))
    if given.all:
        print_trace(done.trace, True, has_numbers=True)


def _counted(done: Replay) -> str:
    facts = _verdict_data(done)
    parts = [count(facts["steps"], "step"), count(facts["lm_values"], "LM value")]
    if len(done.runs) > 1:
        parts.insert(0, count(len(done.runs), "program"))
    if facts["tool_values"]:
        parts.append(count(facts["tool_values"], "tool value"))
    return ", ".join([*parts, _end(done.runs[-1].answer)])


def _end(answer: Answer | None) -> str:
    if answer is None:
        return "interrupted"
    is_answered = answer.is_answered or bool(answer.type)  # the method may have rejected it
    return f"answer {cut(plain(answer.said or answer.text), 500)}" if is_answered else answer.reason


def _shown(value: Any, found: Difference) -> str:
    if value is None and found.field == "step":
        return "no such step"
    if found.field == "value":
        try:
            return brief(decode(value), _MAX_SHOWN)
        except ValueFormatError:
            return "?"
    return value if isinstance(value, str) else as_json(value).decode()


def _verdict_data(done: Replay) -> dict[str, Any]:
    steps, found, answer = done.steps, done.difference, done.runs[-1].answer
    return {
        "same": done.is_same,
        "programs": len(done.runs),
        "steps": len(steps),
        "lm_values": sum(step.by == "lm" and step.how != "shared" for step in steps),
        "tool_values": sum(step.by == "tool" for step in steps),
        "reason": answer.reason if answer is not None else None,
        "answer": (answer.said or answer.text) if answer is not None else None,
        "difference": _difference_data(found),
        "notes": list(done.notes),
    }


def _difference_data(found: Difference | None) -> dict[str, Any] | None:
    if found is None:
        return None
    place = {"program": found.run, "step": found.step, "line": found.line, "field": found.field}
    return place | {"recorded": _plain_data(found.recorded), "now": _plain_data(found.now)}


def _plain_data(value: Any) -> Any:
    return msgspec.json.decode(as_json(value))


def _what_if_data(done: Replay) -> dict[str, Any]:
    before = done.runs[-1].answer
    recorded: dict[str, str | None] = {"answer": None, "reason": None}
    if before is not None:
        recorded = {"answer": before.said or before.text, "reason": before.reason}
    program: Program | None = done.trace.program
    return {
        **result_data(done.result),
        "recorded": recorded,
        "difference": _difference_data(done.difference),
        "program": program.source if program is not None else None,
        "notes": list(done.notes),
    }


def _chain_data(chain: Chain) -> dict[str, Any]:
    return {"state": chain.state, "head": chain.head, "line": chain.line, "why": chain.why}
