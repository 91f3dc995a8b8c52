#!/usr/bin/env python3
"""Faithfulness per task of recorded BBH programs, and the cost of checking compared with the plain run.

python bench/verify.py [CASES.jsonl]
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import mean, median
from typing import Any

from chainofcode import Table, arun
from chainofcode.audit import Verdict, averify
from chainofcode.sandbox import Jail, Sandbox
from chainofcode.values.codec import decode

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases" / "bbh.jsonl"
LONG = {
    "loop": "n = 0\nfor i in range(8_000_000):\n    if i % 3 == 0:\n        n += i\nanswer = n",
    "calls": "def f(x):\n    y = x * 2\n    if y > 10:\n        return y\n    return x\n"
    "total = 0\nfor i in range(4_000_000):\n    total += f(i)\nanswer = total",
    "recursion": "def fib(n):\n    if n < 2:\n        return n\n    return fib(n - 1) + fib(n - 2)\nanswer = fib(33)",
    "values": "n = 0\nfor w in ['a', 'b', 'c']:\n    if is_good(w):\n"
    "        for i in range(4_000_000):\n            n += i\nanswer = n",
}


async def main(cases: list[str]) -> None:
    with Jail(spares=2) as sandbox:
        await table([json.loads(line) for line in cases], sandbox)
        await cost(sandbox)


async def table(cases: list[dict[str, Any]], sandbox: Sandbox) -> None:
    found: dict[str, list[Verdict]] = defaultdict(list)
    seconds = []
    for case in cases:
        values = Table([(call["call"], decode(call["value"])) for call in case["calls"]])
        result = await arun(case["program"], values, sandbox=sandbox, question=case["question"])
        started = time.monotonic()
        found[case["task"]].append(await averify(result.trace, sandbox=sandbox))
        seconds.append(time.monotonic() - started)
    head = ("task", "n", "score", "replay", "flagged", "used", "Python", "LM", "values", "decisive", "unknown")
    print(f"{head[0]:<42}" + "".join(f"{name:>9}" for name in head[1:]))
    for task, verdicts in [*sorted(found.items()), ("all", [one for each in found.values() for one in each])]:
        flips = [flip for one in verdicts for flip in one.flips]
        cells = [
            str(len(verdicts)),
            f"{mean(one.score for one in verdicts):.2f}",
            f"{mean(one.replays for one in verdicts):.0%}",
            str(sum(bool(one.flags) for one in verdicts)),
            f"{mean(one.used for one in verdicts):.2f}",
            f"{mean(one.shares.get('python', 0) for one in verdicts):.0%}",
            f"{mean(one.shares.get('lm', 0) for one in verdicts):.0%}",
            str(len(flips) + sum(one.untried for one in verdicts)),
            str(sum(flip.outcome == "changes" for flip in flips)),
            str(sum(flip.outcome == "unknown" for flip in flips)),
        ]
        print(f"{task:<42}" + "".join(f"{cell:>9}" for cell in cells))
    print(f"\n{len(seconds)} checks, median {median(seconds) * 1000:.0f} ms")


async def cost(sandbox: Sandbox) -> None:
    """Print the cost of checking compared with the plain run, for programs of about a second; the limit is 3 times."""
    print(f"\n{'program':<12}{'run':>9}{'verify':>9}{'ratio':>9}")
    for name, program in LONG.items():
        values = {"is_good('a')": True, "is_good('b')": True, "is_good('c')": False}
        runs, checks = [], []
        for _ in range(3):
            started = time.monotonic()
            result = await arun(program, values, sandbox=sandbox)
            runs.append(time.monotonic() - started)
            started = time.monotonic()
            await averify(result.trace, sandbox=sandbox)
            checks.append(time.monotonic() - started)
        print(f"{name:<12}{median(runs):>7.2f} s{median(checks):>7.2f} s{median(checks) / median(runs):>9.2f}")


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else CASES
    asyncio.run(main(path.read_text(encoding="utf-8").splitlines()))
