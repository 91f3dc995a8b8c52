"""Measure the cost of watching on programs of the pyperformance suite: the engine and plain `exec`, interleaved.

    pip install --no-deps --target DIRECTORY pyperformance
    python bench/pyperformance.py DIRECTORY [NAME...]

Measures the Python that runs it; for another version, run `.venv-3.12/bin/python bench/pyperformance.py DIRECTORY`.
Each program is repeated until plain `exec` takes a second. Prints the CPU seconds of the process that runs the program,
so that other load on the machine does not count, and their ratio. Exits 1 if a ratio is above the target. The programs
come from the installed package, with a stub in place of `pyperf`.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

from overhead import run_plainly

from chainofcode import Limits, run

TARGET = 1.15
SECONDS, TIMES = 1.5, 3
NAMES = (
    "chaos", "comprehensions", "coroutines", "deepcopy", "deltablue", "fannkuch", "float", "generators", "go", "hexiom",
    "meteor_contest", "nbody", "nqueens", "raytrace", "richards", "scimark", "spectral_norm", "unpack_sequence",
)  # fmt: skip
PYPERF = """
import argparse, os, time, types
cpu_seconds = -sum(os.times()[:2])
class Runner:
    def __init__(self, *args, **options):
        self.metadata, self.argparser = {{}}, argparse.ArgumentParser()
    def parse_args(self):
        self.args = self.argparser.parse_args([])
        return self.args
    def bench_func(self, name, function, *args, **options):
        for turn in range({loops}):
            function(*args)
    def bench_time_func(self, name, function, *args, **options):
        function({loops}, *args)
pyperf = types.SimpleNamespace(Runner=Runner, perf_counter=time.perf_counter)
"""


def program(directory: Path, name: str, loops: int) -> str:
    path = directory / "pyperformance" / "data-files" / "benchmarks" / f"bm_{name}" / "run_benchmark.py"
    source = path.read_text(encoding="utf-8").replace("import pyperf\n", PYPERF.format(loops=loops), 1)
    return f"{source}\nanswer = cpu_seconds + sum(os.times()[:2])\n"


def plain_seconds(text: str) -> float:
    return float(run_plainly(text, "answer"))


def engine_seconds(text: str) -> float:
    result = run(text, limits=Limits(cpu_seconds=600, run_seconds=600, wall_seconds=600))
    assert isinstance(result.answer, float), result
    return result.answer


def measured(directory: Path, name: str) -> tuple[float, float]:
    """Return the CPU seconds of plain `exec` and of the engine."""
    loops = 1
    while (seconds := plain_seconds(program(directory, name, loops))) < SECONDS / 4:
        loops *= 4
    text = program(directory, name, math.ceil(loops * SECONDS / seconds))
    plain, engine = [], []
    for _ in range(TIMES):
        plain.append(plain_seconds(text))
        engine.append(engine_seconds(text))
    return min(plain), min(engine)


def main(directory: Path, names: tuple[str, ...]) -> int:
    missed = 0
    print(f"Python {sys.version.split()[0]:18} plain s  engine s  ratio  (target: {TARGET})")
    for name in names or NAMES:
        plain, engine = measured(directory, name)
        missed += engine / plain > TARGET
        print(f"{name:25} {plain:7.3f} {engine:9.3f} {engine / plain:6.2f}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), tuple(sys.argv[2:])))
