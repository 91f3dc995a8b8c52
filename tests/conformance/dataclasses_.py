# dataclasses: generated methods, defaults, ordering, freezing, inheritance.

import dataclasses
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import ClassVar

log = []


@dataclass
class Item:
    name: str
    price: float = 1.0
    tags: list = field(default_factory=list)
    made: ClassVar[int] = 0

    def __post_init__(self):
        log.append(self.name)
        type(self).made += 1


a = Item("a")
b = Item("b", 2.5, ["x"])
assert log == ["a", "b"] and Item.made == 2
assert repr(b) == "Item(name='b', price=2.5, tags=['x'])"
assert a == Item("a") and a != b and a.tags is not Item("c").tags
assert [f.name for f in dataclasses.fields(Item)] == ["name", "price", "tags"]
assert list(Item.__annotations__) == ["name", "price", "tags", "made"]
assert Item.__match_args__ == ("name", "price", "tags")
assert dataclasses.asdict(b) == {"name": "b", "price": 2.5, "tags": ["x"]}
assert dataclasses.astuple(b) == ("b", 2.5, ["x"])
try:
    hash(a)
except TypeError:
    log.append("unhashable")
assert log[-1] == "unhashable"


@dataclass(order=True, frozen=True)
class Version:
    major: int
    minor: int = 0
    note: str = field(default="", compare=False, repr=False)


v = sorted([Version(2), Version(1, 5), Version(1, 2, "n")])
assert [(x.major, x.minor) for x in v] == [(1, 2), (1, 5), (2, 0)]
assert Version(1, 2) == Version(1, 2, "other") and hash(Version(1)) == hash(Version(1, 0, "z"))
assert repr(v[0]) == "Version(major=1, minor=2)"
try:
    v[0].major = 9
except dataclasses.FrozenInstanceError:
    log.append("frozen")
assert log[-1] == "frozen" and v[0].major == 1
newer = dataclasses.replace(v[0], minor=7)
assert (newer.major, newer.minor, newer.note) == (1, 7, "n") and v[0].minor == 2


@dataclass
class Shape:
    scale: InitVar[int]
    side: int = 2
    area: int = field(init=False)
    _: KW_ONLY
    label: str = "shape"

    def __post_init__(self, scale):
        self.area = self.side * self.side * scale


@dataclass
class Square(Shape):
    colour: str = "red"


s = Shape(3, label="L")
assert (s.area, s.label) == (12, "L")
q = Square(1, 5, "blue", label="Q")
assert (q.side, q.colour, q.area, q.label) == (5, "blue", 25, "Q")
assert [f.name for f in dataclasses.fields(q)] == ["side", "area", "label", "colour"]
try:
    Shape(1, 2, "positional label")
except TypeError:
    log.append("keyword only")
assert log[-1] == "keyword only"


@dataclass(slots=True)
class Slim:
    x: int
    y: int = 0


slim = Slim(1)
assert not hasattr(slim, "__dict__") and Slim.__slots__ == ("x", "y")
try:
    slim.z = 1
except AttributeError:
    log.append("no z")
assert log[-1] == "no z"

try:
    @dataclass
    class Mutable:
        items: list = []
except ValueError:
    log.append("mutable default refused")
assert log[-1] == "mutable default refused" and "Mutable" not in globals()

try:
    @dataclass
    class Order:
        first: int = 1
        second: str
except TypeError:
    log.append("order refused")
assert log[-1] == "order refused"

Made = dataclasses.make_dataclass("Made", [("n", int), ("m", int, 4)], namespace={"total": lambda self: self.n + self.m})
assert Made(3).total() == 7
assert dataclasses.is_dataclass(Made) and not dataclasses.is_dataclass(int)

answer = "ok"
