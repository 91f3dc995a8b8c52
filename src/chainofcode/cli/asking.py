"""Shared by `coc ask` and `coc chat`: their options, and answering a question."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..emulator import Tool
from ..engine import Result, RunOptions
from ..engine.closing import close_after
from ..errors import InputError
from ..lm import LM
from ..methods import Files, Ways, ask
from ..methods.presentation import in_words
from ..sandbox import Sandbox
from ..trace import Event
from .artifact_output import keep_artifacts
from .asked_options import asked_options
from .hints import hints
from .live import LiveDisplay
from .method_options import (
    add_answer_type,
    add_language,
    add_method,
    add_method_seconds,
    read_answer_type,
    read_language,
    read_method,
)
from .model_options import add_cache, add_emulator, add_model, add_person, chosen_cache, chosen_layer, chosen_models
from .query_options import asked_files
from .run_options import add_options, chosen_sandbox, read_options
from .terminal import note, print_json, print_result, result_data
from .tool_options import add_tools, toolbox_of

_MAX_QUESTION_CHARS = 100_000


def add_asking(parser: argparse.ArgumentParser) -> None:
    """Add the options that control how questions are answered."""
    add_model(parser)
    add_emulator(parser)
    add_cache(parser)
    add_person(parser)
    add_method(parser)
    add_method_seconds(parser)
    add_language(parser)
    add_answer_type(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the answer")
    parser.add_argument("--quiet", action="store_true", help="print only the answer")
    parser.add_argument(
        "--all", action="store_true", help="print every step, not only the first three of each statement"
    )
    add_tools(parser)
    add_options(parser, has_question=False)


def read_question(text: str) -> str:
    """Return a question without surrounding whitespace. Raises InputError if it is empty or too long."""
    # Bytes that are not UTF-8 are escaped: models do not accept lone surrogates.
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace").strip()
    if not text:
        raise InputError('the question is empty; try: coc ask "How many days are there in March?"')
    if len(text) > _MAX_QUESTION_CHARS:
        raise InputError(f"the question has {len(text):,} characters; the limit is {_MAX_QUESTION_CHARS:,}")
    return text


@dataclasses.dataclass
class Asker:
    """The model, the sandbox and the files for answering questions."""

    live: LiveDisplay
    lm: LM
    sandbox: Sandbox
    options: RunOptions
    ways: Ways

    async def answer(self, question: str, events: list[Event]) -> None:
        """Answer a question; show each event and append it to the list."""
        run = ask(question, self.lm, sandbox=self.sandbox, options=self.options, **self.ways)
        async with close_after(run) as made:
            async for event in made:
                events.append(event)
                self.live.show(event)


@contextmanager
def opened_asker(
    given: argparse.Namespace, tools: Sequence[Tool], wait_for: Callable[[Coroutine[Any, Any, Files]], Files]
) -> Iterator[Asker]:
    """Open the models, sandbox and files that the options name. `wait_for` runs a coroutine."""
    options = dataclasses.replace(read_options(given), language=read_language(given), asked=asked_options(given))
    ways = Ways(**read_method(given))
    live = LiveDisplay(sys.stderr, is_quiet=given.quiet, all_steps=given.all)
    options = dataclasses.replace(options, tools=toolbox_of(tools, given, live.paused))
    with live, chosen_sandbox(given, spares=0) as sandbox:
        ways["answer_type"] = read_answer_type(given, sandbox)
        ways["files"] = wait_for(asked_files(given, options, sandbox))  # before a model is loaded
        with chosen_cache(given) as cache, chosen_models(given, live.progress, live.watch) as (lm, emulator):
            ways |= Ways(emulator=emulator, cache=chosen_layer(given, cache, live.paused))
            yield Asker(live, lm, sandbox, options, ways)


def print_answer(question: str, result: Result, given: argparse.Namespace, live: LiveDisplay) -> None:
    """Print the answer, then the trace."""
    if given.json:
        program = result.trace.program
        source = program.source if program is not None else None
        print_json({"question": question, **result_data(result), "program": source})
    elif result.is_answered:
        print_result(in_words(result))
    live.write_trace()
    keep_artifacts(result, given, is_quiet=given.quiet)
    for hint in hints(result, given):
        note(hint)
