"""`coc resume`: continues an interrupted run; only values that its trace does not have are requested."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ...audit import check_chain, without_files
from ...audit.replay.resume import OVER, Resumed, check_unfinished, find_given_program
from ...emulator import Toolbox
from ...engine import Result, RunOptions, execute
from ...engine.closing import close_after
from ...engine.journal import read_interrupted
from ...errors import InputError
from ...methods import Ways, ask
from ...trace import Event, Trace, check_place
from ..asked_options import collect_resumed_options, fill_from, leave_open, list_missing_choices
from ..grant_options import add_approval, approve_trace
from ..method_options import (
    add_answer_type,
    add_language,
    add_method,
    add_method_seconds,
    read_answer_type,
    read_language,
    read_method,
)
from ..model_options import (
    add_cache,
    add_emulator,
    add_model,
    add_person,
    chosen_cache,
    chosen_emulator,
    chosen_layer,
    chosen_models,
)
from ..parser import add_list, add_trace_argument
from ..query_options import asked_files
from ..run_options import add_limits, add_overlap, add_sandbox, chosen_sandbox, read_in_flight
from ..terminal import (
    ANSWERED,
    NO_ANSWER,
    note,
    print_json,
    print_trace,
    result_data,
    reusable_events,
    saving_partial_trace,
    write_trace,
)
from ..tool_options import add_tools, chosen_tools, toolbox_of
from ..trace_warnings import note_grants


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "resume",
        help="continue a run that was interrupted, killed, or ended by a limit or budget",
        description="Continue where TRACE ends, reusing its values: nothing is paid for twice, and tools with effects "
        "are not called again. At the end, the complete trace replaces TRACE. Options stay as recorded unless you "
        "change them; give tools, files, keys, addresses, budgets, --examples, --cache, --database and --sandbox "
        "again. Exit code: 0 answered, 1 no answer, 2 could not run.",
        examples=("coc resume run.jsonl --budget money=2",),
    )
    add_trace_argument(parser)
    parser.add_argument(
        "--trace", dest="written", metavar="FILE", type=Path, help="write the complete trace to FILE instead"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the trace")
    parser.add_argument(
        "--all", action="store_true", help="print every step, not only the first three of each statement"
    )
    add_list(parser, "--file", "FILE", "a file that the run used; give each one again")
    add_model(parser, default="as recorded in the trace")
    add_emulator(parser)
    add_cache(parser)
    add_person(parser)
    add_method(parser)
    add_method_seconds(parser)
    add_language(parser)
    add_answer_type(parser)
    add_tools(parser)
    add_overlap(parser)
    add_sandbox(parser)
    add_limits(parser)
    add_approval(parser)
    usual = leave_open(parser)
    parser.set_defaults(command=lambda given: _resume(given, usual))


def _resume(given: argparse.Namespace, usual: dict[str, Any]) -> int:
    trace = read_interrupted(given.trace)
    target: Path = given.written or given.trace
    check_place(target)
    chain = check_chain(given.trace)
    if chain.state == "broken" and (chain.line or 0) <= len(trace.events):  # an incomplete last line is normal
        note(f"the file was changed: {chain.why}")
    check_unfinished(trace)  # before the user approves anything
    trace = _approve(trace, given)
    note_grants(trace)
    resumed = Resumed(trace)
    fill_from(given, trace, usual)
    with chosen_tools(given) as tools:
        result = asyncio.run(_continue(resumed, toolbox_of(tools, given), given, target))
    try:
        _print(result, given)
    finally:
        is_over = result.reason in OVER
        write_trace(result.trace, target, 0 if is_over else _least(trace, given))
    return ANSWERED if result.is_answered else NO_ANSWER


def _approve(trace: Trace, given: argparse.Namespace) -> Trace:
    """Return the trace with its grants approved. The files of a question are those that the user names again."""
    is_question = find_given_program(trace) is None
    if is_question and given.file:
        trace = without_files(trace)
    files: list[str] | None = [] if is_question else None
    return approve_trace(trace, given, files=files, choices=list(list_missing_choices(given, trace)))


async def _continue(resumed: Resumed, tools: Toolbox, given: argparse.Namespace, target: Path) -> Result:
    options = _options(resumed, tools, given)
    with ExitStack() as opened:
        sandbox = opened.enter_context(chosen_sandbox(given, spares=0))
        layer = chosen_layer(given, opened.enter_context(chosen_cache(given)))
        events = opened.enter_context(saving_partial_trace(target, _least(resumed.trace, given)))
        run_events: AsyncIterator[Event]
        if resumed.program is not None:
            answering = opened.enter_context(chosen_emulator(given))
            answering = answering if layer is None else layer.emulator(answering)
            run_events = execute(resumed.program, answering, sandbox=sandbox, options=options)
        else:
            lm, emulator = opened.enter_context(chosen_models(given))
            ways = Ways(**{**read_method(given), "answer_type": read_answer_type(given, sandbox)})
            ways |= Ways(emulator=emulator if emulator is not None else lm, cache=layer)
            options = dataclasses.replace(options, language=read_language(given))
            ways["files"] = await asked_files(given, options, sandbox)
            run_events = ask(resumed.question, resumed.model(lm), sandbox=sandbox, options=options, **ways)
        async with close_after(run_events) as made:
            async for event in made:
                events.append(event)
    return Result.of(events)


def _least(trace: Trace, given: argparse.Namespace) -> int:
    """Return how many reusable events a trace needs to replace the resumed one, so that no values are lost."""
    return 0 if given.written else reusable_events(trace)


def _options(resumed: Resumed, tools: Toolbox, given: argparse.Namespace) -> RunOptions:
    options = resumed.options(tools)
    options = dataclasses.replace(
        options,
        in_flight=read_in_flight(given),
        share=options.share and not given.no_share,
        asked=collect_resumed_options(given, resumed.trace),
    )
    if resumed.program is None and options.prelude:  # their contents were in the prompt
        raise InputError(f"the run had the file {options.prelude[0].path!r}: give it again with --file")
    return options


def _print(result: Result, given: argparse.Namespace) -> None:
    if given.json:
        print_json(result_data(result))
    else:
        print_trace(result.trace, given.all)
    sys.stdout.flush()
