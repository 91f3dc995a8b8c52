"""`coc replay`: a trace run again, without a model: the same, or where it differs; or what would be if."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ...audit import Chain, Changes, Difference, Replay, read_checked, replay, side_by_side
from ...emulator import asking
from ...errors import InputError
from ...program import Program
from ...render import cut, plain
from ...trace import Answer, Trace, as_json, check_place
from ...values.codec import ValueFormatError, brief, decode
from ..model_options import add_model, named_model
from ..run_options import add_sandbox, chosen_sandbox
from ..terminal import ANSWERED, NO_ANSWER, page, print_trace, read_text, record, say_json

_MAX_SHOWN = 2000


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "replay",
        help="run a trace again with its recorded values and compare; or with other values: what if",
        description="Run the programs of TRACE again, without a model, network or tool. "
        "Exit code: 0 the same (or, with changes, answered), 1 different (or no answer), 2 could not run.",
    )
    parser.add_argument("trace", metavar="TRACE", type=Path, help="a file that was written with --trace")
    parser.add_argument(
        "--set",
        metavar="WHAT=VALUE",
        action="append",
        default=[],
        help="what if: another value for a call ('is_fruit(\"tomato\")=False'), one step (step:17=False), an input",
    )
    parser.add_argument("--edit", metavar="PROGRAM", type=Path, help="what if: another program with the same values")
    parser.add_argument("--head", metavar="DIGEST", help="the digest that the trace's last line must have")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument("--trace", dest="written", metavar="FILE", type=Path, help="write the new trace as JSON lines")
    parser.add_argument("--all", action="store_true", help="every step, not only those that differ")
    add_model(parser)
    add_sandbox(parser)
    parser.set_defaults(command=_replay)


def _replay(given: argparse.Namespace) -> int:
    trace, chain = read_checked(given.trace, given.head)
    program = read_text(given.edit) if given.edit else None
    changes = Changes.parse(given.set, trace) if given.set else None
    if given.written:
        check_place(given.written)
        if given.written.exists() and given.trace.exists() and given.written.samefile(given.trace):
            raise InputError("--trace names the trace that is replayed: the new one needs a file of its own")
    for warning in warnings(trace, chain):
        print(f"coc: {warning}", file=sys.stderr)
    with named_model(given) as lm, chosen_sandbox(given, spares=0) as sandbox:
        emulator = asking(lm) if lm is not None else None
        done = replay(trace, changes=changes, program=program, emulator=emulator, sandbox=sandbox)
    is_what_if = not (changes is None and program is None and emulator is None)
    try:
        for note in done.notes:
            print(f"coc: {plain(note)}", file=sys.stderr)
        if given.json:
            say_json({**(_what_if(done) if is_what_if else _verdict(done)), "chain": _chain(chain)})
        elif is_what_if:
            width, colour = page()
            for line in side_by_side(done.runs[-1], done.trace, width=width, colour=colour, all_steps=given.all):
                print(line)
        else:
            _print(done, chain, given.all)
    finally:
        if given.written:
            done.trace.write(given.written)
    is_good = done.result.reason == "answered" if is_what_if else done.is_same
    return ANSWERED if is_good and not (given.head and chain.state != "intact") else NO_ANSWER


def warnings(trace: Trace, chain: Chain) -> Iterator[str]:
    """What to know of a trace before it is run again."""
    if chain.state == "broken":
        yield f"the file is not as it was written: {chain.why}"
    if trace.answer is None:
        yield "the trace has no answer: its last lines are missing, or the run was broken off"
    if trace.edited:
        yield f"the trace is a what-if, not a run as it happened: edited: {plain(cut('; '.join(trace.edited), 300))}"
    yield from grants(trace)


def grants(trace: Trace) -> Iterator[str]:
    """What a program may read when it is run again: whoever made the trace says so, not who runs it."""
    reads, files = trace.settings.get("reads"), trace.settings.get("files")
    paths = [*(reads if isinstance(reads, list) else []), *(files.values() if isinstance(files, dict) else [])]
    if paths:
        named = ", ".join(plain(str(path)) for path in paths[:5]) + (", …" if len(paths) > 5 else "")
        yield f"as when it was recorded, the program may read {named}"


def _print(done: Replay, chain: Chain, all_steps: bool) -> None:
    found = done.difference
    if found is None:
        print(f"the same: {_counted(done)}")
    else:
        print(f"different at {found.where}: {found.field}")
        for name, value in (("recorded", found.recorded), ("now", found.now)):
            print(f"  {name + ':':<10}{cut(plain(_shown(value, found)), _MAX_SHOWN)}")
    if chain.state != "broken":
        print(chain)
    if all_steps:
        print_trace(done.trace, True, has_numbers=True)


def _counted(done: Replay) -> str:
    steps, answer = done.steps, done.runs[-1].answer
    counts = [(len(steps), "step"), (sum(step.by == "lm" and step.how != "shared" for step in steps), "LM value")]
    tools = sum(step.by == "tool" for step in steps)
    counts += [(tools, "tool value")] if tools else []
    counts = [(len(done.runs), "program"), *counts] if len(done.runs) > 1 else counts
    parts = [f"{count:,} {what}" + ("" if count == 1 else "s") for count, what in counts]
    return ", ".join([*parts, _end(answer)])


def _end(answer: Answer | None) -> str:
    if answer is None:
        return "broken off"
    is_answered = answer.reason == "answered" or bool(answer.type)  # a method may have thought otherwise of it
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


def _verdict(done: Replay) -> dict[str, Any]:
    steps, found, answer = done.steps, done.difference, done.runs[-1].answer
    return {
        "same": done.is_same,
        "programs": len(done.runs),
        "steps": len(steps),
        "lm_values": sum(step.by == "lm" and step.how != "shared" for step in steps),
        "tool_values": sum(step.by == "tool" for step in steps),
        "reason": answer.reason if answer is not None else None,
        "answer": (answer.said or answer.text) if answer is not None else None,
        "difference": _difference(found),
        "notes": list(done.notes),
    }


def _difference(found: Difference | None) -> dict[str, Any] | None:
    if found is None:
        return None
    told = {"program": found.run, "step": found.step, "line": found.line, "field": found.field}
    return told | {"recorded": _plain_data(found.recorded), "now": _plain_data(found.now)}


def _plain_data(value: Any) -> Any:
    return msgspec.json.decode(as_json(value))


def _what_if(done: Replay) -> dict[str, Any]:
    before = done.runs[-1].answer
    recorded = {"answer": (before.said or before.text) if before else None, "reason": before.reason if before else None}
    program: Program | None = done.trace.program
    told = {**record(done.result), "recorded": recorded, "difference": _difference(done.difference)}
    return {**told, "program": program.source if program is not None else None, "notes": list(done.notes)}


def _chain(chain: Chain) -> dict[str, Any]:
    return {"state": chain.state, "head": chain.head, "line": chain.line, "why": chain.why}
