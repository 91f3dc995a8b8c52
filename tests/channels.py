"""Programs that pass values through each kind of channel (tests/channels.txt), one at a time and in random mixes."""

from __future__ import annotations

import ast
import random
import re
import textwrap
from pathlib import Path

from chainofcode.languages.python.compiler.analyse import analyse
from chainofcode.languages.python.compiler.channels import Channels

_PLACES = re.compile(r"\b(NEW|X|Y|H|C)\b")


def _ways() -> dict[str, str]:
    parts = (Path(__file__).parent / "channels.txt").read_text(encoding="utf-8").split("=== ")[1:]
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


WAYS = _ways()
NEED_FILES = frozenset(["file", "path", "path exists"])  # a guest has no files unless they are granted
_VALUES = {"NEW": "new", "X": "x", "Y": "y", "H": "weigh(3)", "C": "is_lucky(3)"}


def _is_followed(way: str) -> bool:
    """Whether the analysis follows a program with this channel. If not, it keeps everything, and tests find little."""
    return not Channels(analyse(ast.parse(filled(way, **_VALUES)))).everything


def filled(way: str, **given: str) -> str:
    return _PLACES.sub(lambda found: given[found[0]], WAYS[way])


FOLLOWED = [way for way in WAYS if _is_followed(way)]


def alone(way: str, *, in_function: bool, chance: int) -> str:
    """Return a program with one channel, at module level or in a function; `chance` decides its condition."""
    lines = filled(way, **{**_VALUES, "C": f"is_lucky({chance})"})
    if not in_function:
        return f"x = weigh(1)\ny = weigh(2)\nother = weigh(5)\n{lines}answer = new\n"
    body = textwrap.indent(lines, "    ")
    return f"def work(x, y):\n{body}    return new\nother = weigh(5)\nanswer = work(weigh(1), weigh(2))\n"


class Mix:
    """A program that mixes several channels, some of them in functions, branches, loops and handlers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.ways = FOLLOWED if self.random.random() < 0.9 else [way for way in WAYS if way not in NEED_FILES]
        self.lines: list[str] = []
        self.serial = 0
        self.depth = 0

    def program(self) -> str:
        known = ["v0", "v1", "v2"]
        for name in known:
            self.put(f"{name} = {self.number([])}")
        for _ in range(self.random.randint(2, 5)):
            known = self.part(known)
        if self.random.random() < 0.3:
            self.put(f"extra = {self.number(known)}")
        ends = self.random.sample(known[2:], 1) if self.random.random() < 0.7 else known[-2:]
        self.put(f"answer = ({', '.join(ends)},)")
        return "\n".join(self.lines) + "\n"

    def put(self, text: str) -> None:
        self.lines.append(textwrap.indent(text, "    " * self.depth))

    def number(self, known: list[str]) -> str:
        if known and self.random.random() < 0.3:
            return f"weigh({self.random.choice(known)} % 20)"
        return f"weigh({self.random.randrange(40)})"

    def truth(self, known: list[str]) -> str:
        if known and self.random.random() < 0.3:
            return f"is_lucky({self.random.choice(known)} % 30)"
        return f"is_lucky({self.random.randrange(40)})"

    def part(self, known: list[str]) -> list[str]:
        kind = self.random.choice([self.way, self.way, self.way, self.function, self.branch, self.loop, self.attempt])
        return (kind if self.depth < 3 else self.way)(known)

    def fresh(self) -> str:
        self.serial += 1
        return f"v{self.serial + 2}"

    def way(self, known: list[str]) -> list[str]:
        new = self.fresh() if self.depth < 2 or self.random.random() < 0.7 else self.random.choice(known)
        given = {"NEW": new, "X": self.random.choice(known), "Y": self.random.choice(known)}
        given |= {"H": self.number(known), "C": self.truth(known)}
        self.put(filled(self.random.choice(self.ways), **given).rstrip("\n"))
        return [*known, new] if new not in known else known

    def function(self, known: list[str]) -> list[str]:
        new, name = self.fresh(), f"work{self.serial}"
        taken = self.random.sample(known, min(2, len(known)))
        self.put(f"def {name}({', '.join(taken)}):")
        self.depth += 1
        inner = taken
        for _ in range(self.random.randint(1, 2)):
            inner = self.part(inner)
        self.put(f"return {self.random.choice(inner[-2:])}")
        self.depth -= 1
        self.put(f"{new} = {name}({', '.join(self.random.choices(known, k=len(taken)))})")
        return [*known, new]

    def branch(self, known: list[str]) -> list[str]:
        new = self.fresh()
        self.put(f"{new} = {self.random.choice(known)}")
        self.put(f"if {self.truth(known)}:")
        self.block(known, new)
        if self.random.random() < 0.4:
            self.put("else:")
            self.block(known, new)
        return [*known, new]

    def loop(self, known: list[str]) -> list[str]:
        new = self.fresh()
        self.put(f"{new} = {self.random.choice(known)}")
        self.put(f"for i{self.serial} in range(2):")
        self.block(known, new)
        return [*known, new]

    def attempt(self, known: list[str]) -> list[str]:
        new = self.fresh()
        self.put(f"{new} = {self.random.choice(known)}")
        self.put("try:")
        self.block(known, new)
        self.put(f"    assert {self.truth(known)}")
        self.block(known, new)
        self.put("except AssertionError:")
        self.put(f"    {new} = {self.number(known)}")
        return [*known, new]

    def block(self, known: list[str], new: str) -> None:
        self.depth += 1
        inner = self.part([*known, new])
        self.put(f"{new} = {self.random.choice(inner[-2:])}")
        self.depth -= 1


def mixed(seed: int) -> str:
    return Mix(seed).program()
