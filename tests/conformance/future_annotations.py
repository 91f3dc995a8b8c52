"""A module with a docstring and a future import: both must stay first."""
# a comment between them
from __future__ import annotations; from __future__ import generator_stop

import typing
from dataclasses import dataclass

assert __doc__.startswith("A module with a docstring")
assert annotations.compiler_flag and generator_stop.optional

log = []


def note(value):
    log.append(value)
    return value


def f(a: note("never"), *, b: NotDefinedAnywhere = 1) -> list[also.not_defined]:
    return a, b


assert log == [] and f(1) == (1, 1)
assert f.__annotations__ == {"a": "note('never')", "b": "NotDefinedAnywhere", "return": "list[also.not_defined]"}

x: note("module") = note("value")
y: Undefined[int]
assert log == ["value"]
assert __annotations__ == {"x": "note('module')", "y": "Undefined[int]"}


class Tree:
    left: Tree | None = None
    right: typing.Optional[Tree] = None
    size: int = 0

    def grow(self) -> Tree:
        child = Tree()
        child.left = self
        child.size = self.size + 1
        return child


assert Tree.__annotations__["left"] == "Tree | None"
assert typing.get_type_hints(Tree)["size"] is int
assert typing.get_type_hints(Tree)["left"] == typing.Optional[Tree]
assert Tree().grow().grow().size == 2


@dataclass
class Point:
    x: int
    y: int = 0
    kind: typing.ClassVar[str] = "point"


assert Point(1) == Point(1, 0) and repr(Point(2, 3)) == "Point(x=2, y=3)"
assert list(Point.__dataclass_fields__) == ["x", "y", "kind"]

# annotations are strings of the code as written, normalised
def g(a: (1 +   2), b: 'quoted', c: lambda v: v, d: {"k": [1, 2]}): return a


assert g.__annotations__ == {"a": "1 + 2", "b": "'quoted'", "c": "lambda v: v", "d": "{'k': [1, 2]}"}

# code compiled by the program inherits the future statement
space = {}
exec("def h(a: undefined_here): return a", space)
assert space["h"].__annotations__ == {"a": "undefined_here"}
exec(compile("def h(a: int): return a", "<text>", "exec", dont_inherit=True), space)
assert space["h"].__annotations__ == {"a": int}

answer = "ok"
