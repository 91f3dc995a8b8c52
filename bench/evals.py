"""The speed of an evaluation of recorded samples, without a model: python bench/evals.py [--samples 10000]

rate     samples per second: half are answered by a recorded program in the sandbox, half by a recorded sentence; each
         writes a row and a trace to disk
cpu      CPU milliseconds per sample, in this process and in the sandbox, and the rate that they allow
memory   peak memory, after a fifth of the samples and after all
report   seconds for `coc report` on all samples
Exits 1 if a target is missed: 100 samples per second, constant memory, a report in 10 s.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from chainofcode import Jail, Message, ScriptedLM
from chainofcode.engine import RunOptions
from chainofcode.evals import EvalJob, Sample, run_jobs
from chainofcode.evals.results import ResultsDirectory
from chainofcode.methods import Ways


def reply(messages: Sequence[Message]) -> str:
    found = re.search(r"question (\d+)\?", messages[-1].content)
    number = int(found.group(1)) if found else 0
    if number % 2:
        return f"So the answer is {number}."
    lines = [f"numbers = list(range({number % 50}))", "total = 0", "for n in numbers:", "    total += n"]
    return "\n".join(["```python", *lines, f"answer = {number} + total * 0", "```"])


def memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def processor() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


async def run(count: int, directory: Path) -> tuple[float, float, list[float], int]:
    jobs = []
    for n in range(count):
        method = "cot" if n % 2 else "coc"
        jobs.append(
            EvalJob(
                Sample(f"q-{n}", f"What is question {n}?", targets=[n], task="recorded"), method, Ways(method=method)
            )
        )
    store, sandbox = ResultsDirectory(directory, {"bench": count}), Jail(spares=os.cpu_count() or 1)
    lm, sizes, done, right = ScriptedLM(reply), [], 0, 0
    began, before = time.perf_counter(), processor()
    jobs = store.plan(jobs)
    try:
        async for score, trace in run_jobs(jobs, lm, sandbox, RunOptions(), at_once=4):
            store.keep(score, trace)
            lm.requests.clear()
            done += 1
            right += score.verdict == "right"
            if done in (count // 5, count):
                sizes.append(memory())
    finally:
        sandbox.close()
    seconds, used = time.perf_counter() - began, processor() - before
    store.close()
    return count / seconds, used / count, sizes, right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=10_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        out = Path(place, "out")
        rate, used, sizes, right = asyncio.run(run(given.samples, out))
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "chainofcode", "report", str(out)], check=True, capture_output=True)
        report = time.perf_counter() - began
    print(f"rate    {rate:6.0f} samples/s, {right} of {given.samples} right")
    print(f"cpu     {used * 1e3:6.1f} ms per sample, {(os.cpu_count() or 1) / used:.0f} samples/s at most")
    print(f"memory  {sizes[0]:6.1f} MB after {given.samples // 5}, {sizes[-1]:.1f} MB after {given.samples}")
    print(f"report  {report:6.1f} s")
    is_met = rate >= 100 and sizes[-1] < sizes[0] * 1.1 + 5 and report < 10 and right == given.samples
    return int(not is_met)


if __name__ == "__main__":
    sys.exit(main())
