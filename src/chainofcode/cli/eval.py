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
from ..methods import METHODS, Ways
from ..render import cut, fit, plain
from .ask import add_ways, chosen_ways
from .asking import add_model, chosen_model
from .options import add_overlap, add_sandbox, chosen_sandbox, read_overlap
from .terminal import ANSWERED, say_json


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
    parser.add_argument(
        "--methods",
        metavar="A,B",
        help="several methods, or all, on the same samples: one row each (without fallback: each stands for itself)",
    )
    add_model(parser)
    add_ways(parser)
    add_overlap(parser)
    add_sandbox(parser)
    parser.set_defaults(command=lambda given: asyncio.run(_eval(given)))


async def _eval(given: argparse.Namespace) -> int:
    if given.limit is not None and given.limit < 1:
        raise InputError(f"--limit takes 1 or more, not {given.limit}")
    samples = [sample for sample in load(given.suite) if given.split in (None, sample.split)][: given.limit]
    if not samples:
        raise InputError(f"{given.suite} has no such samples")
    ways = _chosen_methods(given)
    scores: list[Score] = []
    with chosen_model(given) as lm, chosen_sandbox(given, spares=1) as sandbox:
        for method, way in ways.items():
            async for score in evaluate(samples, lm, sandbox, way, **read_overlap(given)):
                score = msgspec.structs.replace(score, method=method)
                scores.append(score)
                if given.json:
                    say_json(msgspec.to_builtins(score))
                _progress(scores, len(samples) * len(ways))
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if given.json:
        for method, group in _grouped(scores, "method").items():
            print(json.dumps({"suite": given.suite, "model": lm.name, "method": method, **_totals(group)}))
    else:
        _print_table(given.suite, lm.name, scores)
    return ANSWERED


def _chosen_methods(given: argparse.Namespace) -> dict[str, Ways]:
    if given.methods is None:
        return {given.method: chosen_ways(given)}
    names = list(METHODS) if given.methods == "all" else [name.strip() for name in given.methods.split(",")]
    ways = {}
    for name in names:
        given.method, given.no_fallback = name, True
        ways[name] = chosen_ways(given)
    return ways


def _progress(scores: list[Score], total: int) -> None:
    last, right = scores[-1], sum(score.verdict == "right" for score in scores)
    line = f"{len(scores)}/{total}  {right} right  {last.method} {plain(last.id)}: {last.verdict}  {last.seconds:.1f} s"
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
_COLUMNS = ("samples", *_VERDICTS, "calls", "retries")


def _grouped(scores: list[Score], key: str) -> dict[str, list[Score]]:
    names = dict.fromkeys(getattr(score, key) for score in scores)
    return {name: [score for score in scores if getattr(score, key) == name] for name in names if name}


def _print_table(suite: str, model: str, scores: list[Score]) -> None:
    by_method = _grouped(scores, "method")
    if len(by_method) > 1:
        groups, samples = by_method, len(scores) // len(by_method)
        print(f"{plain(suite)} with {plain(model)}: {len(by_method)} methods on {samples} samples")
    else:
        groups = {"all": scores, **_grouped(scores, "kind"), **_grouped(scores, "split")}
        print(f"{plain(suite)} with {plain(model)}: {_totals(scores)['right']} of {len(scores)} right")
    width = max(12, *(len(name) + 2 for name in groups))
    print("\n" + " " * width + "".join(f"{name:>11}" for name in (*_COLUMNS, "s/sample")))
    for name, group in groups.items():
        counts = _totals(group)
        cells = "".join(f"{counts[column.replace(' ', '_')]:>11}" for column in _COLUMNS)
        print(f"{fit(plain(name), width)}{cells}{counts['seconds'] / len(group):>11.1f}")
    for score in scores:
        if score.verdict != "right" or score.retries:
            said = score.answer if score.verdict != "no answer" else f"{score.reason}: {score.error}"
            wanted = f" (wanted {json.dumps(score.targets[0])})" if score.targets and score.verdict != "right" else ""
            again = f" [{score.retries} retried]" if score.retries else ""
            by = f"{score.method} " if len(by_method) > 1 else ""
            print(f"{fit(plain(by + score.id), width + 8)}{score.verdict}: {plain(said[:160] + wanted)}{again}")
