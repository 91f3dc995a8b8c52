"""`coc eval`: run a suite of samples with a model and count what is right."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
from typing import Any

import msgspec

from ..errors import InputError
from ..evals import SUITES, Score, evaluate, load
from ..render import cut, fit, plain
from .ask import add_ways, chosen_ways
from .asking import add_model, chosen_model
from .options import add_sandbox, chosen_sandbox
from .terminal import ANSWERED


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "eval",
        help="run a suite of questions or programs with a model and count what is right",
        description="SUITE is one that comes with the package (emulation: 40 calls whose value is known; questions: 20 "
        "small questions; varied: 300 calls of every type, where any value that fits will do) or a .jsonl file of "
        '{"id": …, "question": …, "targets": […]} or {"id": …, "program": …, "targets": […]}.',
    )
    parser.add_argument("suite", metavar="SUITE", help=f"{', '.join(SUITES)} or a .jsonl file")
    parser.add_argument("--split", metavar="NAME", help="only the samples of one split, such as held-out")
    parser.add_argument("--limit", metavar="N", type=int, help="only the first N samples")
    parser.add_argument("--json", action="store_true", help="one JSON object a sample, and one with the totals")
    add_model(parser)
    add_ways(parser)
    add_sandbox(parser)
    parser.set_defaults(command=lambda given: asyncio.run(_eval(given)))


async def _eval(given: argparse.Namespace) -> int:
    if given.limit is not None and given.limit < 1:
        raise InputError(f"--limit takes 1 or more, not {given.limit}")
    samples = [sample for sample in load(given.suite) if given.split in (None, sample.split)][: given.limit]
    if not samples:
        raise InputError(f"{given.suite} has no such samples")
    scores: list[Score] = []
    with chosen_model(given) as lm, chosen_sandbox(given, spares=1) as sandbox:
        async for score in evaluate(samples, lm, sandbox, chosen_ways(given)):
            scores.append(score)
            if given.json:
                print(json.dumps(msgspec.to_builtins(score), ensure_ascii=False), flush=True)
            _progress(scores, len(samples))
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if given.json:
        print(json.dumps({"suite": given.suite, "model": lm.name, **_totals(scores)}))
    else:
        _print_table(given.suite, lm.name, scores)
    return ANSWERED


def _progress(scores: list[Score], total: int) -> None:
    last, right = scores[-1], sum(score.verdict == "right" for score in scores)
    line = f"{len(scores)}/{total}  {right} right  {plain(last.id)}: {last.verdict}  {last.seconds:.1f} s"
    if sys.stderr.isatty():
        line = cut(line, shutil.get_terminal_size().columns - 1)
        print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)
    elif len(scores) % 10 == 0:
        print(line, file=sys.stderr, flush=True)


def _totals(scores: list[Score]) -> dict[str, Any]:
    return {
        "samples": len(scores),
        **{verdict.replace(" ", "_"): sum(s.verdict == verdict for s in scores) for verdict in _VERDICTS},
        "calls": sum(score.calls for score in scores),
        "retries": sum(score.retries for score in scores),
        "format_failures": sum(score.reason == "emulation failed" for score in scores),
        "seconds": round(sum(score.seconds for score in scores), 1),
    }


_VERDICTS = ("right", "wrong", "no answer")


def _print_table(suite: str, model: str, scores: list[Score]) -> None:
    groups = {"all": scores}
    for key in ("kind", "split"):
        for name in dict.fromkeys(getattr(score, key) for score in scores):
            if name:
                groups[name] = [score for score in scores if getattr(score, key) == name]
    totals = _totals(scores)
    print(f"{plain(suite)} with {plain(model)}: {totals['right']} of {totals['samples']} right")
    print(f"\n{'':<12}{'samples':>8}{'right':>8}{'wrong':>8}{'no answer':>11}{'retries':>9}{'s/sample':>10}")
    for name, group in groups.items():
        counts = _totals(group)
        head = fit(plain(name), 12)
        print(
            f"{head}{counts['samples']:>8}{counts['right']:>8}{counts['wrong']:>8}{counts['no_answer']:>11}"
            f"{counts['retries']:>9}{counts['seconds'] / len(group):>10.1f}"
        )
    for score in scores:
        if score.verdict != "right" or score.retries:
            said = score.answer if score.verdict != "no answer" else f"{score.reason}: {score.error}"
            wanted = f" (wanted {json.dumps(score.targets[0])})" if score.targets and score.verdict != "right" else ""
            again = f" [{score.retries} retried]" if score.retries else ""
            print(f"{fit(plain(score.id), 12)}{score.verdict}: {plain(said[:160] + wanted)}{again}")
