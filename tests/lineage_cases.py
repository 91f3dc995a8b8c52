"""Programs with known dependencies: the lines that the answer depends on. Brute force checks them, too."""

from __future__ import annotations

from typing import Any

# name: (program, values of its calls, lines that the answer depends on)
CASES: dict[str, tuple[str, dict[str, Any], set[int]]] = {
    "alias": (
        "xs = []\nys = xs\nzs = []\nys.append(f(1))\nzs.append(f(2))\nanswer = xs",
        {"f(1)": 1, "f(2)": 2},
        {1, 2, 4, 6},
    ),
    "mutation through call": (
        "def add(box, v):\n    box.append(v)\na = []\nb = []\nadd(a, f(1))\nadd(b, f(2))\nanswer = a",
        {"f(1)": 1, "f(2)": 2},
        {1, 2, 3, 5, 7},
    ),
    "control not taken": (
        "found = False\nfor x in [1, 2]:\n    if is_match(x):\n        found = True\nanswer = found",
        {"is_match(1)": False, "is_match(2)": False},
        {1, 2, 3, 5},
    ),
    "control taken": (
        "r = 'no'\nif ok(1):\n    r = 'yes'\nother = ok(2)\nanswer = r",
        {"ok(1)": True, "ok(2)": True},
        {2, 3, 5},
    ),
    "comprehension scope": (
        "x = f(0)\nys = [x for x in [1, 2, 3]]\nanswer = ys",
        {"f(0)": 9},
        {2, 3},
    ),
    "comprehension uses": (
        "k = f(0)\nx = f(1)\nys = [x * k for x in [1, 2, 3]]\nanswer = ys",
        {"f(0)": 9, "f(1)": 3},
        {1, 3, 4},
    ),
    "exception caught": (
        "def parse(s):\n"
        "    if bad(s):\n"
        "        raise ValueError(s)\n"
        "    return 1\n"
        "n = 0\n"
        "errors = 0\n"
        "for s in ['a', 'b']:\n"
        "    try:\n"
        "        n += parse(s)\n"
        "    except ValueError:\n"
        "        errors += 1\n"
        "answer = errors",
        {"bad('a')": True, "bad('b')": False},
        {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12},
    ),
    "exception not raised": (
        "def parse(s):\n"
        "    if bad(s):\n"
        "        raise ValueError(s)\n"
        "    return 1\n"
        "errors = 0\n"
        "for s in ['a', 'b']:\n"
        "    try:\n"
        "        parse(s)\n"
        "    except ValueError:\n"
        "        errors += 1\n"
        "answer = errors",
        {"bad('a')": False, "bad('b')": False},
        {1, 2, 4, 5, 6, 7, 8, 11},
    ),
    "break": (
        "best = None\nfor w in ['a', 'b', 'c']:\n    if good(w):\n        best = w\n        break\nanswer = best",
        {"good('a')": False, "good('b')": True},
        {2, 3, 4, 5, 6},
    ),
    "continue": (
        "n = 0\n"
        "m = 0\n"
        "for w in ['a', 'b', 'c']:\n"
        "    m += len(w)\n"
        "    if skip(w):\n"
        "        continue\n"
        "    n += 1\n"
        "answer = n",
        {"skip('a')": False, "skip('b')": True, "skip('c')": False},
        {1, 3, 5, 6, 7, 8},
    ),
    "early return": (
        "def first(ws):\n"
        "    for w in ws:\n"
        "        if good(w):\n"
        "            return w\n"
        "    return None\n"
        "answer = first(['a', 'b'])\n"
        "z = good('z')",
        {"good('a')": False, "good('b')": True, "good('z')": True},
        {1, 2, 3, 4, 6},
    ),
    "keys": (
        "d = {}\nd['a'] = f(1)\nd['b'] = f(2)\nanswer = d['a']",
        {"f(1)": 1, "f(2)": 2},
        {1, 2, 4},
    ),
    "attribute": (
        "class C:\n    def __init__(self):\n        self.a = f(1)\n        self.b = f(2)\nc = C()\nanswer = c.a",
        {"f(1)": 1, "f(2)": 2},
        {1, 2, 3, 5, 6},
    ),
    "closure": (
        "def make():\n"
        "    n = 0\n"
        "    def inc(k):\n"
        "        nonlocal n\n"
        "        n += k\n"
        "        return n\n"
        "    return inc\n"
        "i = make()\n"
        "i(f(1))\n"
        "j = make()\n"
        "j(f(2))\n"
        "answer = i(0)",
        {"f(1)": 1, "f(2)": 2},
        {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
    ),
    "iterator": (
        "it = iter([1, 2, 3])\na = next(it)\nb = next(it)\nanswer = b",
        {},
        {1, 2, 3, 4},
    ),
    "random": (
        "import random\na = random.random()\nb = random.random()\nanswer = b",
        {},
        {1, 2, 3, 4},
    ),
    "generator": (
        "def gen(n):\n    for i in range(n):\n        yield g(i)\nunused = g(9)\nanswer = sum(gen(3))",
        {"g(0)": 1, "g(1)": 2, "g(2)": 3, "g(9)": 1},
        {1, 2, 3, 5},
    ),
    "lambda": (
        "k = f(1)\nf2 = lambda x: x * k\nk = f(2)\nanswer = f2(3)",
        {"f(1)": 1, "f(2)": 2},
        {1, 2, 3, 4},
    ),
    "lambda mutates": (
        "out = []\nadd = lambda x: out.append(x)\nadd(f(1))\nother = []\nother.append(f(2))\nanswer = out",
        {"f(1)": 1, "f(2)": 2},
        {1, 2, 3, 6},
    ),
    "genexpr late": (
        "k = 1\ng = (x * k for x in [1, 2])\nk = f(1)\nanswer = list(g)",
        {"f(1)": 5},
        {1, 2, 3, 4},
    ),
    "printed": (
        "x = f(1)\ny = f(2)\nprint(x)\nprint(y)",
        {"f(1)": 1, "f(2)": 2},
        {2, 4},
    ),
    "last expression": (
        "x = f(1)\ny = f(2)\ny",
        {"f(1)": 1, "f(2)": 2},
        {2, 3},
    ),
    "global": (
        "total = 0\ndef add(n):\n    global total\n    total += n\nadd(f(1))\nz = f(2)\nanswer = total",
        {"f(1)": 1, "f(2)": 2},
        {1, 2, 3, 4, 5, 7},
    ),
    "default mutable": (
        "def f0(x, acc=[]):\n    acc.append(x)\n    return acc\nf0(g(1))\nanswer = f0(g(2))",
        {"g(1)": 1, "g(2)": 2},
        {1, 2, 3, 4, 5},
    ),
    "walrus": (
        "if (n := f(1)) > 0:\n    answer = n\nelse:\n    answer = 0",
        {"f(1)": 3},
        {1, 2},
    ),
    "while": (
        "n = 0\nm = 0\nwhile more(n):\n    n += 1\n    m += 2\nanswer = n",
        {"more(0)": True, "more(1)": True, "more(2)": False},
        {1, 3, 4, 6},
    ),
    "try int": (
        "bad = 0\n"
        "for w in ['a', 'b']:\n"
        "    try:\n"
        "        int(f(w))\n"
        "    except ValueError:\n"
        "        bad += 1\n"
        "answer = bad",
        {"f('a')": "1", "f('b')": "2"},
        {1, 2, 3, 4, 7},
    ),
    "overwritten": (
        "x = f(1)\nx = f(2)\nanswer = x",
        {"f(1)": 1, "f(2)": 2},
        {2, 3},
    ),
    "swap": (
        "a = f(1)\nb = f(2)\na, b = b, a\nanswer = a",
        {"f(1)": 1, "f(2)": 2},
        {1, 2, 3, 4},
    ),
    "nested lists": (
        "rows = [[], []]\nfirst = rows[0]\nsecond = rows[1]\nfirst.append(f(1))\nsecond.append(f(2))\nanswer = rows[0]",
        {"f(1)": 1, "f(2)": 2},
        {1, 2, 4, 6},
    ),
    "set default": (
        "d = {}\nfor w in ['a', 'b']:\n    d.setdefault(kind(w), []).append(w)\nn = kind('z')\nanswer = d",
        {"kind('a')": "x", "kind('b')": "y", "kind('z')": "q"},
        {1, 2, 3, 5},
    ),
    "property": (
        "class C:\n    @property\n    def v(self):\n        return f(1)\nc = C()\nw = f(2)\nanswer = c.v",
        {"f(1)": 1, "f(2)": 2},
        {1, 2, 4, 5, 7},
    ),
    "operator": (
        "class V:\n"
        "    def __init__(self, n):\n"
        "        self.n = n\n"
        "    def __add__(self, o):\n"
        "        return V(self.n + o.n)\n"
        "a = V(f(1))\n"
        "b = V(f(2))\n"
        "c = V(f(3))\n"
        "answer = (a + b).n",
        {"f(1)": 1, "f(2)": 2, "f(3)": 3},
        {1, 2, 3, 4, 5, 6, 7, 9},
    ),
    "sort key": (
        "d = {'a': f(1), 'b': f(2)}\nws = ['a', 'b']\nws.sort(key=lambda w: d[w])\nanswer = ws",
        {"f(1)": 2, "f(2)": 1},
        {1, 2, 3, 4},
    ),
    "match": (
        "match f(1):\n"
        "    case 'x':\n"
        "        answer = 1\n"
        "    case 'y':\n"
        "        answer = 2\n"
        "    case _:\n"
        "        answer = 3\n"
        "z = f(2)",
        {"f(1)": "y", "f(2)": "q"},
        {1, 5},
    ),
    "assert": (
        "x = f(1)\nassert f(2) > 0\nanswer = x",
        {"f(1)": 1, "f(2)": 2},
        {1, 2, 3},
    ),
    "guard raise": (
        "x = f(1)\nif f(2) < 0:\n    raise ValueError\nanswer = x",
        {"f(1)": 1, "f(2)": 2},
        {1, 2, 4},
    ),
    "with": (
        "from contextlib import suppress\nn = 0\nwith suppress(ValueError):\n    int(f(1))\n    n = 1\nanswer = n",
        {"f(1)": "3"},
        {1, 3, 4, 5, 6},
    ),
    "star": (
        "a, *rest = f(1)\nb = f(2)\nanswer = rest",
        {"f(1)": [1, 2, 3], "f(2)": 2},
        {1, 3},
    ),
    "dataclass": (
        "from dataclasses import dataclass, field\n"
        "@dataclass\n"
        "class Box:\n"
        "    items: list = field(default_factory=list)\n"
        "a = Box()\n"
        "b = Box()\n"
        "a.items.append(f(1))\n"
        "b.items.append(f(2))\n"
        "answer = a.items",
        {"f(1)": 1, "f(2)": 2},
        {1, 2, 4, 5, 7, 9},
    ),
    "async": (
        "import asyncio\n"
        "async def one(x):\n"
        "    return f(x)\n"
        "async def main():\n"
        "    a, b = await asyncio.gather(one(1), one(2))\n"
        "    return a\n"
        "answer = asyncio.run(main())",
        {"f(1)": 1, "f(2)": 2},
        {1, 2, 3, 4, 5, 6, 7},
    ),
    "recursion": (
        "def depth(n):\n    if n == 0:\n        return f(0)\n    return 1 + depth(n - 1)\nz = f(1)\nanswer = depth(5)",
        {"f(0)": 1, "f(1)": 2},
        {1, 2, 3, 4, 6},
    ),
    "while counter": (
        "i = 0\n"
        "words = ['a', 'b']\n"
        "hits = 0\n"
        "seen = []\n"
        "while i < len(words):\n"
        "    w = words[i]\n"
        "    i += 1\n"
        "    seen.append(w)\n"
        "    if good(w):\n"
        "        hits += 1\n"
        "answer = hits",
        {"good('a')": True, "good('b')": False},
        {1, 2, 3, 5, 6, 7, 9, 10, 11},
    ),
    "heapq": (
        "import heapq\nh = []\nheapq.heappush(h, f(1))\nheapq.heappush(h, f(2))\nanswer = heapq.heappop(h)",
        {"f(1)": 2, "f(2)": 1},
        {1, 2, 3, 4, 5},
    ),
    "nested function effect": (
        "log = []\n"
        "def note(x):\n"
        "    log.append(x)\n"
        "def work(x):\n"
        "    note(f(x))\n"
        "    return x\n"
        "w = work(1)\n"
        "answer = log",
        {"f(1)": 1},
        {1, 2, 3, 4, 5, 6, 7, 8},
    ),
    "not taken call": (
        "log = []\ndef note(x):\n    log.append(x)\nif ok(1):\n    note(1)\nanswer = len(log)",
        {"ok(1)": False},
        {1, 4, 6},
    ),
    "not taken method": (
        "class B:\n"
        "    def __init__(self):\n"
        "        self.n = 0\n"
        "    def inc(self):\n"
        "        self.n += 1\n"
        "b = B()\n"
        "c = b\n"
        "for w in ['a', 'b']:\n"
        "    if ok(w):\n"
        "        c.inc()\n"
        "answer = b.n",
        {"ok('a')": False, "ok('b')": False},
        {1, 2, 3, 4, 6, 8, 9, 11},
    ),
    "zip": (
        "from itertools import chain\nxs = [f(1)]\nys = [f(2)]\nanswer = list(chain(xs, ys))[0]",
        {"f(1)": 1, "f(2)": 2},
        {1, 2, 3, 4},
    ),
    "eval": (
        "a = f(1)\nb = f(2)\nanswer = eval('a + 1')",
        {"f(1)": 1, "f(2)": 2},
        {1, 3},
    ),
    "exec": (
        "a = f(1)\nexec('b = a + 1')\nanswer = b",
        {"f(1)": 1},
        {1, 2, 3},
    ),
    "for else": (
        "for w in ['a', 'b']:\n"
        "    if hit(w):\n"
        "        break\n"
        "else:\n"
        "    answer = 'none'\n"
        "if 'answer' not in globals():\n"
        "    answer = w",
        {"hit('a')": False, "hit('b')": False},
        {1, 2, 5, 6},
    ),
    "finally": (
        "log = []\ntry:\n    x = f(1)\nfinally:\n    log.append(f(2))\nanswer = log",
        {"f(1)": 1, "f(2)": 2},
        {1, 2, 3, 5, 6},
    ),
    "del": (
        "d = {'a': f(1), 'b': f(2)}\nif drop(1):\n    del d['a']\nanswer = sorted(d)",
        {"f(1)": 1, "f(2)": 2, "drop(1)": False},
        {1, 2, 4},
    ),
    "augmented list": (
        "a = [1]\nb = a\nb += [f(1)]\nanswer = a",
        {"f(1)": 4},
        {1, 2, 3, 4},
    ),
    "string builder": (
        "s = ''\nt = ''\nfor w in ['a', 'b']:\n    s += tag(w)\n    t += w\nanswer = s",
        {"tag('a')": "x", "tag('b')": "y"},
        {1, 3, 4, 6},
    ),
}
