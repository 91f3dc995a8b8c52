"""Random programs that always end: loops, breaks, exceptions, closures, mutation, aliasing, holes at random places."""

from __future__ import annotations

import random

HOLES = {
    "weigh": lambda x: (x * 7 + 3) % 11,
    "is_lucky": lambda x: x % 3 == 0,
    "name_of": lambda x: "abcdefg"[x % 7],
    "pieces": lambda x: [x % 5, (x + 2) % 5],
}


class Generator:
    """Writes one program. Names: numbers a–d, lists xs and ys (often the same object), a dict d0, functions f0…"""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = ["a, b, c, d = 1, 2, 3, 4", "xs = [1, 2]", "ys = xs", "d0 = {}", "d1 = {}", "log = []"]
        self.lines.insert(0, "from collections import defaultdict\nmany = defaultdict(list)")
        self.functions: list[str] = []
        self.depth = 0
        self.loops = 0
        self.in_function = False

    def program(self) -> str:
        for index in range(self.random.randint(0, 2)):
            self.function(index)
        for _ in range(self.random.randint(4, 9)):
            self.statement()
        self.put("answer = (a, b, c, d, xs, ys, xs is ys, sorted(d0.items()), d1, log, dict(many))")
        return "\n".join(self.lines) + "\n"

    def put(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def block(self, statements: int = 2) -> None:
        self.depth += 1
        for _ in range(self.random.randint(1, statements)):
            self.statement()
        self.depth -= 1

    def function(self, index: int) -> None:
        name = f"f{index}"
        kind = self.random.choice(["plain", "closure", "generator", "global", "early", "noting"])
        self.put(f"def {name}(a, b={self.number_literal()}):")
        self.depth += 1
        self.in_function = True
        if kind == "global":
            self.put("global c")
            self.put(f"c = {self.number()}")
        else:
            self.put("c = a")
        self.put(f"d = {self.number()}")
        if kind == "early":
            self.put("for n in (a, 5, 6):")
            self.put("    if is_lucky(n % 30):")
            self.put("        return weigh(n % 20)")
        if kind == "noting":
            self.put("log.append(weigh(a % 20))")
            self.put("print('noted', name_of(a % 30))")
        self.statement()
        if kind == "closure":
            self.put("def inner():")
            self.put("    nonlocal d")
            self.put(f"    d += {self.number_literal()}")
            self.put("    return d")
            self.put("inner()")
        if kind == "generator":
            self.put("def each():")
            self.put("    for n in (a, d):")
            self.put("        yield weigh(n)")
            self.put("d = sum(each())")
        self.put(f"return {self.number()}")
        self.depth -= 1
        self.in_function = False
        self.functions.append(name)

    def statement(self) -> None:
        choices = [self.assign, self.assign, self.mutate, self.augment, self.say]
        if self.depth < 3:
            choices += [self.branch, self.loop, self.attempt, self.wait, self.sweep, self.sweep]
        self.random.choice(choices)()

    def assign(self) -> None:
        name = self.random.choice("abcd")
        self.put(f"{name} = {self.number()}")

    def augment(self) -> None:
        self.put(f"{self.random.choice('abcd')} {self.random.choice(['+=', '-=', '*='])} {self.number()} % 50")

    def mutate(self) -> None:
        self.put(
            self.random.choice(
                [
                    f"xs.append({self.number()})",
                    f"d0[{self.text()}] = {self.number()}",
                    f"ys.extend({self.sequence()}[:3])",
                    "xs[:] = sorted(xs)",
                    f"log.append({self.text()})",
                    f"xs.insert(0, {self.number()})",
                ]
            )
        )

    def say(self) -> None:
        self.put(f"print({self.number()}, {self.text()})")

    def branch(self) -> None:
        self.put(f"if {self.condition()}:")
        self.block()
        if self.random.random() < 0.5:
            self.put(f"elif {self.condition()}:")
            self.block(1)
        if self.random.random() < 0.5:
            self.put("else:")
            self.block(1)

    def loop(self) -> None:
        self.loops += 1
        self.put(f"for n{self.loops} in {self.sequence()}[:4]:")
        self.block()
        if self.random.random() < 0.4:
            self.depth += 1
            self.put(f"if {self.condition()}:")
            self.put(f"    {self.random.choice(['break', 'continue'])}")
            self.depth -= 1
        if self.random.random() < 0.3:
            self.put("else:")
            self.block(1)

    def sweep(self) -> None:
        """A loop of mostly independent iterations, whose calls may be sent ahead."""
        self.loops += 1
        n = f"m{self.loops}"
        head = self.random.choice(
            [
                f"for {n} in range({self.random.randint(2, 7)}):",
                f"for {n} in xs[:5]:",
                f"for i, {n} in enumerate([5, 1, 4, 1, 3]):",
                f"for {n}, i in zip((8, 9, 2), xs):",
                f"for {n} in {{3: 'x', 6: 'y', 7: 'z'}}:",
                f"for {n} in sorted([9, 2, 5], key=lambda k: -weigh(k)):",
                f"for {n} in map(weigh, [2, 3, 4]):",
                f"for {n} in reversed([1, 2, 6]):",
            ]
        )
        self.put(head)
        self.depth += 1
        for _ in range(self.random.randint(1, 3)):
            self.put(
                self.random.choice(
                    [
                        f"log.append(weigh({n}))",
                        f"print(name_of({n}), is_lucky({n} + 1))",
                        f"d1.setdefault(name_of({n}), []).append({n}) if is_lucky({n}) else log.append({n})",
                        f"a = weigh({n}) + weigh(weigh({n}))",
                        f"b = (b + weigh({n})) % 97",
                        f"log.append([weigh(k) for k in pieces({n}) if is_lucky(k + {n})])",
                        f"log.append(max([{n}, {n} + 1, 2], key=weigh))",
                        f"log.append(any(is_lucky(k) for k in range({n}, {n} + 4)))",
                        f"xs.append(weigh({n} % 5)) if len(xs) < 12 else xs.pop()",
                        f"c = weigh((c + {n}) % 13)",
                        f"log.append({{k: name_of(k + {n}) for k in (1, 2)}})",
                        f"log.extend(filter(is_lucky, [{n}, 3, {n} * 3]))",
                        f"log.append(max(enumerate([{n}, 2, 9]), key=lambda p: weigh(p[1])))",
                        "log.sort(key=lambda v: weigh(len(str(v))))",
                        f"many[name_of({n})].append(weigh({n}))",
                        f"k = 0\n{'    ' * self.depth}while k < 3:\n{'    ' * (self.depth + 1)}log.append(weigh(k + {n}))"
                        f"\n{'    ' * (self.depth + 1)}k += 1",
                        f"it = iter([{n}, 4, 6])\n{'    ' * self.depth}log.append([weigh(next(it)), *map(weigh, it)])",
                        f"log.append(f'{{weigh({n})}}-{{name_of({n}):>3}}')",
                    ]
                )
            )
            if self.random.random() < 0.3:
                leave = self.random.choice(["break", "continue", "log.append('hit')", "d = 1 // (weigh(3) - 2)"])
                self.put(f"if {self.random.choice([f'is_lucky({n} + 2)', f'weigh({n}) > 7', f'{n} > 4'])}:")
                self.put(f"    {leave}")
        self.depth -= 1

    def wait(self) -> None:
        self.loops += 1
        counter = f"k{self.loops}"
        self.put(f"{counter} = 0")
        self.put(f"while {counter} < 3 and ({self.condition()}):")
        self.depth += 1
        self.put(f"{counter} += 1")
        self.depth -= 1
        self.block(1)

    def attempt(self) -> None:
        self.put("try:")
        self.block()
        self.depth += 1
        self.put(
            self.random.choice(
                ["d = 1 // (weigh(a % 20) - 5)", "d = xs[weigh(b % 20)]", "d = int(name_of(c))", "d = 1"]
            )
        )
        self.depth -= 1
        self.put(f"except {self.random.choice(['(ZeroDivisionError, IndexError, ValueError)', 'Exception'])}:")
        self.block(1)
        if self.random.random() < 0.4:
            self.put("finally:")
            self.block(1)

    # --- expressions ------------------------------------------------------------------------------------------

    def number_literal(self) -> str:
        return str(self.random.randint(0, 9))

    def number(self) -> str:
        choices = [
            self.number_literal(),
            self.random.choice("abcd"),
            f"weigh({self.random.choice('abcd')} % 20)",
            f"(weigh({self.number_literal()}) + {self.random.choice('abcd')})",
            f"sum(weigh(n) for n in {self.sequence()}[:3])",
            f"({self.random.choice('abcd')} if {self.condition()} else {self.number_literal()})",
            f"max({self.sequence()}[:3] + [0], key=weigh)",
            f"len({self.sequence()})",
            f"(lambda n: weigh(n % 20) - n % 7)({self.random.choice('abcd')})",
        ]
        if self.functions and not self.in_function:
            choices.append(f"{self.random.choice(self.functions)}({self.random.choice('abcd')} % 30)")
        return self.random.choice(choices)

    def condition(self) -> str:
        return self.random.choice(
            [
                f"is_lucky({self.random.choice('abcd')} % 30)",
                f"{self.random.choice('abcd')} % 2 and is_lucky({self.number_literal()})",
                f"not is_lucky({self.number_literal()}) or {self.random.choice('abcd')} > 3",
                f"any(is_lucky(n) for n in {self.sequence()}[:3])",
                f"{self.random.choice('abcd')} < {self.number_literal()} < weigh({self.number_literal()})",
            ]
        )

    def text(self) -> str:
        return self.random.choice(
            [f"name_of({self.random.choice('abcd')} % 30)", "'k'", f"f'{{{self.random.choice('abcd')}}}!'"]
        )

    def sequence(self) -> str:
        return self.random.choice(
            ["xs", "[1, 2, 3]", f"pieces({self.random.choice('abcd')} % 30)", "[n for n in (4, 5, 6) if is_lucky(n)]"]
        )


def program(seed: int) -> str:
    return Generator(seed).program()
