"""Programs that exit before endless work."""

from __future__ import annotations

WORK = {
    "sum": "x = sum(range(10**10))",
    "alias_of_sum": "add = sum\nx = add(range(10**10))",
    "sum_of_a_map": "x = sum(map(abs, range(10**10)))",
    "count": "import itertools\nx = max(itertools.count())",
    "loop": "x = 0\nwhile True:\n    x += 1",
    "loop_in_a_key": "def spin(v):\n    while True:\n        v += 1\nx = max([1, 2], key=spin)",
    "sleep": "import time\nwait = time.sleep\nx = [wait(v) for v in (600, 600)]",
    "power": "x = 7 ** 7 ** 9",
    "pattern": "import re\nx = re.match('(a+)+$', 'a' * 60 + 'b')",
    "memory": "x = [[0] * 10**8 for _ in range(99)]",
    "text": "x = ('x' * 10**9).count('y') + len('ab' * 10**9)",
    "membership": "x = -1 in map(abs, range(10**10))",
    "prints": "emit = print\nx = [emit('x' * 1000) for _ in range(10**8)]",
    "lock": "import threading\nlock = threading.Lock()\nx = [lock.acquire() for _ in range(2)]",
    "recursion": "def deep(v):\n    try:\n        return deep(v + 1)\n    finally:\n        deep(v)\nx = deep(0)",
    "generator": "def each():\n    while True:\n        yield 1\nx = sum(each())",
    "threads": "import threading, time\nx = threading.Thread(target=time.sleep, args=(600,))\nx.start()\nx.join()",
}
EXITS = {
    "exit": "if a:\n    sys.exit()",
    "alias_of_exit": "stop = sys.exit\nif a:\n    stop()",
    "exit_in_a_function": "def check(v):\n    if v:\n        sys.exit()\ncheck(a)",
    "exit_in_an_expression": "a and sys.exit()",
    "exit_in_a_comprehension": "[sys.exit() for v in (1,) if a]",
    "exit_in_a_loop": "for v in pieces(3):\n    sys.exit()",
    "exit_in_map": "list(map(sys.exit, [0]))",
    "exit_in_finally": "try:\n    x = 1 // (a - 10)\nfinally:\n    sys.exit()",
    "exit_by_match": "match a:\n    case 10:\n        sys.exit()",
    "exit_by_raise": "if a:\n    raise SystemExit",
    "quit": "quit() if a else None",
}


def endless() -> dict[str, str]:
    """Return programs that exit before endless work: each kind of work after one exit, and one kind after each exit."""
    pairs = {name: (EXITS["exit"], work) for name, work in WORK.items()}
    pairs |= {name: (leave, WORK["sum"]) for name, leave in EXITS.items() if name != "exit"}
    start, end = "import sys\na = weigh(1)\nanswer = a", "b = weigh(2)\nanswer = shout(kind_of(x))"
    return {name: f"{start}\n{leave}\n{work}\n{end}\n" for name, (leave, work) in pairs.items()}
