"""A program under construction: lines, fresh names, and random expressions over what is in scope."""

from __future__ import annotations

import itertools
import random
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

Place = Literal["module", "function", "coroutine"]
MOST_DEPTH = 3
MOST_NESTING = 2

# The start of every program. Features rebind these names only at module level, so code anywhere can read them.
START = """\
log = []
state = {'k': 1}
a, b, c, d = 1, 2, 3, 4
xs = [1, 2]
ys = xs
def note(x):
    log.append(x)
    return x
"""
ANSWER = "(a, b, c, d, xs, ys, xs is ys, list(state.items()), log)"


@dataclass
class Scope:
    """The names in scope at a place, by kind."""

    numbers: list[str] = field(default_factory=lambda: list("abcd"))
    functions: list[str] = field(default_factory=list)  # int → int; may have effects
    cheap: list[str] = field(default_factory=lambda: ["note", "weigh"])  # functions that make at most two calls
    sinks: list[str] = field(default_factory=lambda: ["log.append"])  # accept any value; their result is ignored
    iterators: list[str] = field(default_factory=list)  # of ints, shared by all readers

    def copy(self) -> Scope:
        return Scope(self.numbers[:], self.functions[:], self.cheap[:], self.sinks[:], self.iterators[:])


class Writer:
    """Writes one program; features are functions that take a writer."""

    def __init__(self, seed: int, statement: Callable[[Writer], None]) -> None:
        self.random = random.Random(seed)
        self.features: list[str] = []  # by name, in the order in which they were written
        self.scope = Scope()
        self.place: Place = "module"
        self.depth = 0
        self._statement = statement  # writes a random feature
        self._lines: list[str] = []
        self._imports: set[str] = set()
        self._numbers = itertools.count(1)
        self._nesting = 0
        self._later: list[str] = []  # names of this block whose values are not shown yet

    @property
    def source(self) -> str:
        return "\n".join([*sorted(self._imports), START.rstrip(), *self._lines]) + "\n"

    # --- lines ------------------------------------------------------------------------------------------------

    def put(self, text: str) -> None:
        """Write lines at the current indentation."""
        text = textwrap.dedent(text).strip("\n")
        self._lines += textwrap.indent(text, "    " * self.depth).split("\n")

    def need(self, *statements: str) -> None:
        """Import something at the top of the program."""
        self._imports.update(statements)

    def fresh(self, name: str) -> str:
        return f"{name}{next(self._numbers)}"

    @contextmanager
    def indented(self, place: Place | None = None) -> Iterator[None]:
        """Write a block; names bound in it may not exist after it."""
        scope, outer = self.scope, self.place
        later, self._later = self._later, []
        self.scope, self.place = scope.copy(), place or outer
        self.depth += 1
        yield
        self.show()
        self.depth -= 1
        self.scope, self.place, self._later = scope, outer, later

    def body(self, most: int = 2) -> None:
        """Write a block of random features, small ones if it is deeply nested."""
        with self.indented():
            for _ in range(self.random.randint(1, most)):
                self.statement()

    def statement(self) -> None:
        if self.depth >= MOST_DEPTH or self.random.random() < 0.3:
            self.ask()
        else:
            self._statement(self)

    def ask(self) -> None:
        """Write a simple statement with calls."""
        match self.random.randrange(6):
            case 0 | 1:
                self.assign(self.number())
            case 2:
                self.keep(self.text())
            case 3:
                self.keep(f"({self.call()}, {self.call()})")
            case 4:
                self.put(f"{self.sink()}({self.number()})")
            case 5:
                self.keep(f"kind_of({self.any_value()})")

    def assign(self, number: str) -> None:
        """Bind a number to a name: an existing module name, or a new local one."""
        if self.place == "module":
            self.put(f"{self.random.choice('abcd')} = ({number}) % 97")
            return
        name = self.fresh("n")
        self.put(f"{name} = ({number}) % 97")
        self.scope.numbers.append(name)

    def keep(self, value: str) -> None:
        """Make a value part of the program's answer or output, often as the argument of a call."""
        if self.chance(0.5):
            self._keep_later(value)
            return
        self.put(
            self.choose(
                f"log.append({value})",
                f"log.append(({value}, {self.call()}))",
                f"print({value})",
                f"state[{self.text()}] = {value}",
                f"xs.append(len(str({value})))",
                f"log.append(kind_of({value}))",
                f"print(kind_of({value}), {self.call()})",
                f"state['last'] = shout(kind_of({value}))",
            )
        )

    def _keep_later(self, value: str) -> None:
        """Assign a value now, between unrelated calls, and show it at the end of the block."""
        name = self.fresh("r")
        if self.chance(0.5):
            self.put(f"{self.fresh('r')} = {self.call()}")
        self.put(f"{name} = {self.choose(value, f'kind_of({value})', f'shout(kind_of({value}))')}")
        self._later.append(name)
        if self.chance(0.2):
            self.show()

    def show(self) -> None:
        if self._later:
            self.put(f"log.append([{', '.join(self._later)}])")
            self._later = []

    # --- choices ----------------------------------------------------------------------------------------------

    def choose(self, *options: str) -> str:
        return self.random.choice(options)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def _one_of(self, simple: list[Callable[[], str]], more: list[Callable[[], str]]) -> str:
        if self._nesting >= MOST_NESTING:
            return self.random.choice(simple)()
        self._nesting += 1
        try:
            return self.random.choice(simple + more)()
        finally:
            self._nesting -= 1

    # --- expressions ------------------------------------------------------------------------------------------

    def digit(self) -> str:
        return str(self.random.randint(0, 9))

    def name(self) -> str:
        return self.random.choice(self.scope.numbers)

    def call(self) -> str:
        """Return a call whose value is a number."""
        return self.choose(
            f"weigh({self.digit()})",
            f"weigh({self.name()})",
            f"blend({self.digit()}, {self.name()})",
            f"blend({self.name()}, scale={self.digit()})",
            f"weigh(weigh({self.name()}))",
            f"total_of([{self.digit()}, {self.name()}])",
            f"({self.name()} + lucky_number())",
        )

    def number(self) -> str:
        return self._one_of(
            [self.digit, self.name, self.call, self.call],
            [
                lambda: f"({self.number()} + {self.number()})",
                lambda: f"({self.number()} if {self.condition()} else {self.digit()})",
                lambda: f"{self.function()}({self.number()})",
                lambda: f"{self.function()}({self.digit()})",
                lambda: f"weigh({self.number()})",
                lambda: f"blend({self.number()}, {self.call()})",
                lambda: f"sum(map({self.function()}, {self.sequence()}))",
                lambda: f"max({self.sequence()}, key={self.function()}, default=0)",
                lambda: f"len({self.sequence()})",
                lambda: f"next({self.iterator()}, 0)",
                lambda: f"sum({self.function()}(v) for v in {self.sequence()})",
            ],
        )

    def condition(self) -> str:
        return self._one_of(
            [
                lambda: f"is_lucky({self.name()})",
                lambda: f"is_lucky({self.digit()})",
                lambda: f"{self.call()} > {self.digit()}",
                lambda: f"is_short(name_of({self.name()}))",
            ],
            [
                lambda: f"{self.name()} % 2 and {self.condition()}",
                lambda: f"not {self.condition()} or {self.name()} > 3",
                lambda: f"any(is_lucky(v) for v in {self.sequence()})",
                lambda: f"{self.digit()} < {self.number()} < {self.number()}",
                lambda: f"{self.number()} in {self.sequence()}",
                lambda: f"{self.function()}({self.name()}) == {self.digit()}",
            ],
        )

    def text(self) -> str:
        return self._one_of(
            [lambda: f"name_of({self.name()})", lambda: f"name_of({self.digit()})", lambda: f"'k{self.digit()}'"],
            [
                lambda: f"f'{{{self.name()}}}-{{{self.call()}:>3}}'",
                lambda: f"shout({self.text()})",
                lambda: f"'%s!' % {self.text()}",
                lambda: f"'-'.join(map(name_of, {self.sequence()}))",
                lambda: f"({self.text()} if {self.condition()} else 'no')",
            ],
        )

    def sequence(self) -> str:
        """Return a short list of numbers."""
        return self._one_of(
            [
                lambda: f"[{self.digit()}, {self.digit()}, {self.digit()}]",
                lambda: "xs[:3]",
                lambda: f"pieces({self.name()})",
                lambda: f"[{self.name()}, {self.call()}]",
            ],
            [
                lambda: f"[v for v in {self.sequence()} if is_lucky(v)]",
                lambda: f"[{self.function()}(v) for v in (1, {self.digit()})]",
                lambda: f"list(map({self.function()}, {self.sequence()}))",
                lambda: f"list(filter(is_lucky, {self.sequence()}))",
                lambda: f"sorted({self.sequence()}, key={self.function()})",
                lambda: f"list(range({self.random.randint(1, 4)}))",
                lambda: f"list(itertools.islice({self.iterator()}, 2))",
            ],
        )

    def any_value(self) -> str:
        """Return a value of any type that a call accepts."""
        return self.choose(
            self.name(), self.text(), self.condition(), self.sequence(), "None", "1", "True", "1.0", "-0.0", "0.0",
            f"({self.name()}, {self.digit()})", f"{{'k': {self.name()}}}", "xs",
        )  # fmt: skip

    def function(self) -> str:
        """Return a function from number to number; in a function body only cheap ones, because calls multiply."""
        known = self.scope.cheap if self.place == "function" else self.scope.cheap + 3 * self.scope.functions
        if self.chance(0.8):
            return self.random.choice(known)
        return f"(lambda v: {self.random.choice(self.scope.cheap)}(v + {self.digit()}) % 97)"

    def sink(self) -> str:
        return self.random.choice(self.scope.sinks)

    def iterator(self) -> str:
        """Return an iterator of numbers, usually one that others read from, too."""
        self.need("import itertools")
        if self.scope.iterators and self.chance(0.8):
            return self.random.choice(self.scope.iterators)
        return f"map({self.random.choice(self.scope.cheap)}, [{self.digit()}, {self.digit()}])"
