"""`coc verify`: checks whether an answer follows from its reasoning."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from typing import Any

from ...audit import Flip, Verdict, averify, read_checked, rests_on, verify_data
from ...languages import LANGUAGES, PYTHON, Language
from ...render import count, cut, how_sure, paint, plain, shown
from ...trace import Answer, Trace
from ...values.codec import brief
from ..grant_options import add_grants, approve_trace
from ..model_options import add_model, named_model
from ..parser import add_trace_argument, check_range
from ..run_options import add_sandbox, chosen_sandbox
from ..terminal import ANSWERED, NO_ANSWER, output_style, print_json, print_lines
from ..trace_warnings import note_grants

_WORDS = {"python": "Python", "lm": "LM", "tool": "tools"}
_MAX_FLIPS_SHOWN = 4
_LIMIT = "The check shows whether the answer follows from the program and its values, not whether the values are right."
_FILE_STATES = {
    "intact": "unchanged, {head}",
    "broken": "changed",
    "none": "has no digests, so changes cannot be detected",
}


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "verify",
        help="check whether the answer of a trace follows from its reasoning",
        description="Check the file, replay the program, find out where the answer comes from, and whether it changes "
        "with each value that it rests on. With --model, request those values again. "
        "Exit code: 0 no problems found, 1 problems found, 2 could not check.",
        examples=(
            "coc verify run.jsonl",
            "coc verify run.jsonl --model openai:gpt-4o-mini --samples 5",
        ),
    )
    add_trace_argument(parser)
    parser.add_argument(
        "--head", metavar="DIGEST", help="the digest that the last line must have; detects a rewritten file"
    )
    parser.add_argument("--flips", metavar="N", type=int, default=20, help="change at most N values (20)")
    parser.add_argument(
        "--samples", metavar="N", type=int, default=3, help="with --model: request each value N times (3)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_model(parser, default="none")
    add_sandbox(parser)
    add_grants(parser)
    parser.set_defaults(command=_verify)


def _verify(given: argparse.Namespace) -> int:
    for option in ("flips", "samples"):
        check_range(given, option, 0, 10_000)
    trace, chain = read_checked(given.trace, given.head)
    trace = approve_trace(trace, given)
    note_grants(trace)
    with named_model(given) as lm, chosen_sandbox(given, spares=1) as sandbox:
        found = asyncio.run(
            averify(trace, chain=chain, lm=lm, samples=given.samples, flips=given.flips, sandbox=sandbox)
        )
    if given.json:
        print_json(verify_data(found))
    else:
        print_lines(_lines(found, trace, *output_style()))
    return NO_ANSWER if found.flags else ANSWERED


def _lines(found: Verdict, trace: Trace, width: int, colour: bool) -> Iterator[str]:
    answer = trace.answer
    answer_text = _answer_text(answer) if answer is not None and answer.is_answered else "none"
    verdict = "no problems found" if not found.flags else "problems found"
    yield paint("bold", f"answer: {answer_text}", colour)
    yield paint("bold", f"faithfulness {found.score:.2f}: {verdict}", colour)
    for flag in found.flags:
        yield f"  ✗ {plain(flag)}"
    for lost, why in found.losses:
        yield f"  −{lost:.2f}: {plain(why)}"
    if found.hangs_on_text:
        yield f"  {plain(found.hangs_on_text)}"
    yield ""
    for name, text in _parts(found, _language(trace)):
        for number, line in enumerate(text.split("\n")):
            yield cut(f"  {'' if number else name:<10} {plain(line)}", 4 * width)
    yield ""
    yield paint("dim", _LIMIT, colour)


def _answer_text(answer: Answer) -> str:
    """Return the answer; if a method converted it, also the original."""
    of = f"   ({plain(cut(answer.type, 60))}, of {plain(cut(answer.said, 200))})" if answer.said else ""
    return plain(cut(answer.text, 200)) + of


def _language(trace: Trace) -> Language:
    return LANGUAGES.get(trace.program.language if trace.program is not None else "", PYTHON)


def _parts(found: Verdict, language: Language) -> Iterator[tuple[str, str]]:
    if found.chain is not None:
        yield "file", _FILE_STATES[found.chain.state].format(head=found.chain.head)
    if found.provenance is not None:
        steps = count(len(found.provenance.run.steps), "step")
        difference = found.difference
        yield "replays", f"yes, {steps}" if difference is None else f"no: different at {difference.where}"
    yield "comes from", found.origin_text
    if found.provenance is not None:
        yield "rests on", rests_on(found.provenance)
    if found.shares:
        yield "done by", _shares(found, language)
    if found.flips or found.untried:
        yield "decisive", _flips(found)
    if found.sampled:
        yield "again", _samples(found)
    if found.provenance is not None and language is not PYTHON:
        yield (
            "not tried",
            f"other operands and literals in the program, which can be changed in Python, not in {language.title}",
        )


def _shares(found: Verdict, language: Language) -> str:
    words = {**_WORDS, "python": language.title}
    return ", ".join(f"{words[by]} {share:.0%}" for by, share in found.shares.items() if share)


def _flips(found: Verdict) -> str:
    untried = f"{found.untried} not tried (--flips or the time limit)" if found.untried else ""
    if not found.flips:
        return untried
    changes = [flip for flip in found.flips if flip.outcome == "changes"]
    unknown = sum(flip.outcome == "unknown" for flip in found.flips)
    some = len(changes) or "none"
    summary = f"{some} {'found among' if unknown and not changes else 'of'} {count(len(found.flips), 'value')}"
    if changes:
        summary += ": changing one changes the answer"
    elif not unknown:
        which = "any one of them" + (", or all at once," if found.are_moot else "")
        summary += f": changing {which if len(found.flips) > 1 else 'it'} leaves the answer as it is"
    summary += f"; {unknown} unknown: the program then makes a call without a recorded value" if unknown else ""
    summary += f"; {untried}" if untried else ""
    return "\n".join([summary, *map(_flip, changes[:_MAX_FLIPS_SHOWN])])


def _flip(flip: Flip) -> str:
    call, confidence = cut((flip.step.call or "").replace("\n", "⏎"), 50), flip.step.confidence
    sureness = f" ({how_sure(confidence)})" if confidence is not None else ""
    return f"{call}: {shown(flip.step.value, 20)}{sureness} → {brief(flip.value, 20)} gives {cut(flip.answer, 40)}"


def _samples(found: Verdict) -> str:
    total, agreeing = sum(sample.asked for sample in found.sampled), sum(sample.agreeing for sample in found.sampled)
    summary = f"{agreeing} of {count(total, 'sample')} agree"
    for sample in [sample for sample in found.sampled if sample.agreeing < sample.asked][:_MAX_FLIPS_SHOWN]:
        summary += f"; {cut(sample.call, 50)} {sample.agreeing} of {sample.asked}"
    return summary
