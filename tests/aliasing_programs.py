"""Random programs with many aliases: objects, handlers, generators, functions passed as arguments, holes.

They always end. Each sets `answer` to one of many values, so many of their statements have no effect on the answer, and
some affect it indirectly.
"""

from __future__ import annotations

import ast
import random

PRELUDE = """from collections import defaultdict, deque
from contextlib import suppress
class Box:
    made = []
    def __init__(self, n):
        self.n = n
        self.rows = []
        self.next = None
        if is_lucky(n % 30):
            Box.made.append(n)
    def add(self, v):
        self.rows.append(v)
        return self
    @property
    def total(self):
        self.n += 1
        return len(self.rows)
    def __iadd__(self, v):
        self.n += v
        return self
    def __contains__(self, v):
        seen.append(v)
        return v in self.rows
class Pile(list):
    def push(self, v):
        super().append(v)
class Held:
    def __init__(self, swallows):
        self.swallows = swallows
    def __enter__(self):
        seen.append("in")
        return self
    def __exit__(self, *error):
        seen.append(error[0] is not None)
        return self.swallows
seen = []
def note(v):
    seen.append(v)
    return v
def last():
    return seen
def each(rows):
    for row in rows:
        got = yield row
        if got is not None:
            seen.append(got)
def counter():
    n = 0
    def up(k=1):
        nonlocal n
        n += k
        return n
    return up
def check(v):
    if is_lucky(v % 30):
        raise ValueError(v)
    return v
def kept(v, memo={}):
    if v not in memo:
        memo[v] = weigh(v % 20)
    return memo[v]
a, b, c = 1, 2, 3
p, q = Box(4), Box(5)
r = p
xs, ys = [1, 2], [[3], [4]]
zs = ys[1:]
d, e = {}, defaultdict(list)
pile, queue = Pile(), deque([1, 2, 3])
up = counter()
down = up
by_name = {"note": note, "up": up}
it = iter([5, 6, 7, 8, 9])
g = each(ys)
add = lambda v: xs.append(v)
"""
ENDS = [
    "a", "b", "c", "p.n", "q.n", "r.rows", "p.rows", "xs", "ys", "zs", "sorted(d.items())", "sorted(e.items())",
    "len(e)", "list(pile)", "list(queue)", "up()", "seen", "len(seen)", "Box.made", "next(it, None)", "kept(1)",
    "[len(row) for row in ys]", "p is r", "(p.next or q).n", "next(g, None)",
]  # fmt: skip
EFFECTS = [
    "xs.append({n})", "ys[0].append({n})", "zs[0].append({n})", "ys[{k}] = xs", "p.add({n})", "r.add({n}).add({m})",
    "q.rows = p.rows", "q += {n}", "p.next = q", "r = q", "r = p", "p.n = {n}", "d[{n}] = {m}", "d['k'] = xs",
    "d.setdefault('k', []).append({n})", "e[{k}].append({n})", "e[{n} % 3]", "a = len(e[{k}])", "pile.push({n})",
    "pile.extend(xs[:2])", "queue.rotate({k})", "queue.append({n})", "a = queue[0]", "a = up()", "b = down({n})",
    "by_name['note']({n})", "by_name['up']()", "h = by_name['note']", "b = next(it, 0)", "c = len(next(g, ()))", "add({n})",
    "list(map(note, xs[:2]))", "list(map(add, [{n}]))", "[row.append({n}) for row in ys]", "a = p.total",
    "b = {n} in p", "last().append({n})", "t = last()", "seen.append({n})", "a, b = b, a", "c = kept({n} % 4)",
    "a = sum(x for x in xs if type(x) is int)", "b = max(map(kept, [1, 2]))", "xs = list(xs)", "xs = ys[0]",
    "print({n})", "setattr(p, 'n', {n})", "vars(q)['n'] = {n}", "a = Box({n}).n", "b = Box({n}).add({m}).rows[0]",
    "c = len(sorted(ys, key=lambda row: len(row) + kept(1)))", "d.update(z={n})", "del xs[1:]", "a += {n}",
    "p.rows += [{n}]", "ys[0] += [{n}]", "a = is_lucky({n} % 30) and note({m})", "xs.append({m}) if a > 2 else None",
    "b = check({n})", "c = 10 // ({n} % 3)", "a = xs[{n} % 5]", "a = int(name_of({n} % 30))",
    "c = len([x for x in [1, 2, 3] if (b := x) and is_lucky(x)])", "a = (lambda v=xs: v.append({n}) or {m})()",
]  # fmt: skip


class Tangle:
    """A generator of one random program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.depth = self.serial = 0

    def program(self) -> str:
        for _ in range(self.random.randint(6, 12)):
            self.statement()
        return PRELUDE + "\n".join([*self.lines, f"answer = {self.random.choice(ENDS)}"]) + "\n"

    def put(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def block(self, most: int = 2) -> None:
        self.depth += 1
        for _ in range(self.random.randint(1, most)):
            self.statement()
        self.depth -= 1

    def number(self) -> str:
        return self.random.choice(
            ["a", "b", "c", "1", "2", "weigh(a % 20)", "weigh(3)", "len(xs)", "p.n", "q.n", "r.n"]
        )

    def condition(self) -> str:
        how = [
            "is_lucky({n} % 30)",
            "not is_lucky({n} % 30)",
            "{n} > {m}",
            "is_lucky(2) or {n}",
            "xs is ys[0]",
            "r is q",
        ]
        return self.filled(self.random.choice(how))

    def filled(self, text: str) -> str:
        numbers = {"n": self.number(), "m": self.number(), "k": self.random.choice("01")}
        return text.format(**numbers)

    def statement(self) -> None:
        if self.depth > 2 or self.random.random() < 0.55:
            self.put(self.effect())
        else:
            self.random.choice(
                [self.branch, self.branch, self.loop, self.attempt, self.swallow, self.function, self.turn]
            )()

    def effect(self) -> str:
        """A statement that raises nothing, unless the exception is caught."""
        while True:
            text = self.random.choice(EFFECTS)
            is_risky = any(word in text for word in ("check(", "//", "xs[{n}", "int(", "rows[0]", "sum(", "queue[0]"))
            if not is_risky or self.guarded:
                return self.filled(text)

    guarded = 0

    def branch(self) -> None:
        self.put(f"if {self.condition()}:")
        self.block()
        if self.random.random() < 0.4:
            self.put("else:")
            self.block(1)

    def loop(self) -> None:
        self.serial += 1
        over = self.random.choice(
            ["xs[:3]", "ys", "range(3)", "list(d)", "[p, q]", "each(ys)", "zip(xs, ys)", "queue.copy()"]
        )
        self.put(f"for i{self.serial} in {over}:")
        self.block()
        if self.random.random() < 0.4:
            self.put(f"    if {self.condition()}:")
            self.put(f"        {self.random.choice(['break', 'continue'])}")
            self.put(f"    {self.effect()}")

    def attempt(self) -> None:
        self.put("try:")
        self.guarded += 1
        self.block(3)
        self.guarded -= 1
        self.put("except Exception:")
        self.block(1)
        if self.random.random() < 0.3:
            self.put("else:")
            self.block(1)
        if self.random.random() < 0.3:
            self.put("finally:")
            self.block(1)

    def swallow(self) -> None:
        self.put(f"with {self.random.choice(['suppress(Exception)', 'Held(True)'])}:")
        self.guarded += 1
        self.block(3)
        self.guarded -= 1

    def function(self) -> None:
        self.serial += 1
        name = f"f{self.serial}"
        self.put(f"def {name}(v):")
        self.depth += 1
        self.put("global a, b, c, r, xs, t, h, q")
        self.statement()
        if self.random.random() < 0.5:
            self.put(f"if {self.condition()}:")
            self.put("    return v")
            self.put(self.effect())
        self.put(f"return {self.number()}")
        self.depth -= 1
        self.put(self.random.choice([f"a = {name}(a)", f"b = {name}(c)", f"h = {name}", f"by_name['up'] = {name}"]))
        if self.lines[-1].endswith(f"'up'] = {name}"):
            self.lines[-1] = self.lines[-1].replace(name, f"lambda: {name}(1)")

    def turn(self) -> None:
        """A Python generator that is advanced in several places."""
        self.serial += 1
        name = f"g{self.serial}"
        self.put(f"{name} = each(xs[:3])")
        self.put(f"next({name}, None)")
        self.put(f"if {self.condition()}:")
        self.put(f"    with suppress(StopIteration): {name}.send({self.number()})")
        self.put(f"c = len(list({name}))")


# The first statement of the prelude that is worth removing: most of those before it are functions and classes.
FIRST = sum(1 for node in ast.walk(ast.parse(PRELUDE)) if isinstance(node, ast.stmt)) - 16


def aliasing_program(seed: int) -> str:
    return Tangle(seed).program()
