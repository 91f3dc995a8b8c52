"""The cost of watching hole-free JavaScript: the engine's probes, compared with plain QuickJS. Prints the ratios.

    python bench/javascript.py

Both run in this process, one after the other, several times; the fastest run counts. Compiling, which takes some
milliseconds, is not included. A statement is recorded up to 64 times; after that, its probe is one test of a variable.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import _quickjs

from chainofcode.languages.guest.link import GuestLink
from chainofcode.languages.javascript.guest.main import CompiledProgram, GivenVariables, ProgramEngine
from chainofcode.languages.javascript.guest.step_log import StepLog
from chainofcode.languages.javascript.guest.value_requests import ValueRequests

TARGET, _ROUNDS = 1.6, 5
PROGRAMS = {
    "sum": "let s = 0;\nfor (let i = 0; i < 2000000; i++) {\n  s += i % 7;\n}\nanswer = s;",
    "fibonacci": "function fib(n) {\n  if (n < 2) return n;\n  return fib(n - 1) + fib(n - 2);\n}\nanswer = fib(25);",
    "sieve": """const n = 400000, composite = new Array(n + 1).fill(false);
let count = 0;
for (let i = 2; i <= n; i++) {
  if (!composite[i]) {
    count++;
    for (let j = i * 2; j <= n; j += i) composite[j] = true;
  }
}
answer = count;""",
    "words": """const counts = new Map();
for (let i = 0; i < 150000; i++) {
  const word = `w${i % 997}`;
  counts.set(word, (counts.get(word) || 0) + 1);
}
answer = [...counts].sort((a, b) => b[1] - a[1])[0][0];""",
    "objects": """class Point {
  constructor(x, y) { this.x = x; this.y = y; }
  add(other) { return new Point(this.x + other.x, this.y + other.y); }
}
let p = new Point(0, 0);
for (let i = 0; i < 200000; i++) p = p.add(new Point(i, 1));
answer = [p.x, p.y];""",
    "functional": """const list = Array.from({ length: 200000 }, (_, i) => i);
answer = list.map((n) => n * 3).filter((n) => n % 2 === 0).reduce((a, b) => a + b, 0);""",
    "matrix": """const n = 150, a = [], b = [];
for (let i = 0; i < n; i++) {
  a.push([]); b.push([]);
  for (let j = 0; j < n; j++) { a[i].push(i + j); b[i].push(i - j); }
}
const c = [];
for (let i = 0; i < n; i++) {
  c.push([]);
  for (let j = 0; j < n; j++) {
    let sum = 0;
    for (let k = 0; k < n; k++) sum += a[i][k] * b[k][j];
    c[i].push(sum);
  }
}
answer = c[3][4];""",
    "collatz": """let best = 0, at = 0;
for (let i = 1; i < 15000; i++) {
  let n = i, steps = 0;
  while (n !== 1) {
    if (n % 2 === 0) n = n / 2;
    else n = 3 * n + 1;
    steps++;
  }
  if (steps > best) { best = steps; at = i; }
}
answer = [at, best];""",
}


def _plain(program: str) -> Callable[[], Any]:
    context = _quickjs.Context()
    return lambda: context.eval(f"{{{program}\n}}")


def _probed(program: str) -> Callable[[], Any]:
    start = {"source": program, "is_reply": False, "seed": 0, "clock": 0, "question": None, "inputs": {}, "prelude": []}
    given = GivenVariables(start)
    compiled = CompiledProgram(start, given.names)
    link = GuestLink(os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY))
    calls = ValueRequests(link, compiled.places, with_state=False)
    log = StepLog(link, compiled.places, calls)
    engine = ProgramEngine(start, compiled, given)

    def fail(*told: str) -> None:
        print(f"the program failed: {told}")

    engine.load(
        {
            "$ask": calls.ask,
            "$open": calls.open,
            "$step": log.step,
            "$print": log.print,
            "$fail": fail,
            "$finish": lambda told: None,
        }
    )
    main = engine.main()
    return lambda: engine.start(main)


def _seconds(make: Callable[[str], Callable[[], Any]], program: str) -> float:
    best = float("inf")
    for _ in range(_ROUNDS):
        run = make(program)
        started = time.process_time()
        run()
        best = min(best, time.process_time() - started)
    return best


def main() -> None:
    print(f"{'program':<12} {'plain':>9} {'probed':>9}  ratio")
    ratios = []
    for name, program in PROGRAMS.items():
        plain, probed = _seconds(_plain, program), _seconds(_probed, program)
        ratios.append(probed / plain)
        print(f"{name:<12} {plain * 1000:>6.0f} ms {probed * 1000:>6.0f} ms  {probed / plain:.2f}")
    mean, worst = statistics.geometric_mean(ratios), max(ratios)
    print(f"geometric mean {mean:.2f}, worst {worst:.2f}; the target is {TARGET}")


if __name__ == "__main__":
    main()
