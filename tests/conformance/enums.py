# enum: members, aliases, auto, flags, methods, and what is not a member.

import enum
from enum import Enum, Flag, IntEnum, IntFlag, auto, unique


class Planet(Enum):
    MERCURY = (1, "small")
    EARTH = (3, "home")
    WORLD = (3, "home")

    def __init__(self, position, note):
        self.position = position
        self.note = note

    @property
    def title(self):
        return self.name.title()

    @classmethod
    def inner(cls):
        return [p for p in cls if p.position < 3]


assert list(Planet) == [Planet.MERCURY, Planet.EARTH]
assert Planet.WORLD is Planet.EARTH and Planet["WORLD"].name == "EARTH"
assert Planet((1, "small")) is Planet.MERCURY
assert Planet.EARTH.title == "Earth" and Planet.inner() == [Planet.MERCURY]
assert list(Planet.__members__) == ["MERCURY", "EARTH", "WORLD"], "no extra members from the body"
assert isinstance(Planet.EARTH, Planet) and len(Planet) == 2
try:
    Planet(99)
except ValueError as error:
    assert "99" in str(error)
else:
    raise AssertionError
try:
    Planet.EARTH = 1
except AttributeError:
    refused = True
assert refused


class Step(Enum):
    FIRST = auto()
    SECOND = auto()
    TENTH = 10
    NEXT = auto()


assert [m.value for m in Step] == [1, 2, 10, 11]
assert repr(Step.FIRST) == "<Step.FIRST: 1>" and str(Step.FIRST) == "Step.FIRST"
assert {Step.FIRST: "a"}[Step(1)] == "a"
assert Step.FIRST != 1 and Step.FIRST is not Step.SECOND


class Word(str, Enum):
    def _generate_next_value_(name, start, count, last_values):
        return name.lower() + str(count)

    ALPHA = auto()
    BETA = auto()


assert Word.BETA == "beta1" and Word("alpha0") is Word.ALPHA and Word.ALPHA.upper() == "ALPHA0"


class Level(IntEnum):
    LOW = 1
    HIGH = 5


assert Level.LOW < Level.HIGH and Level.HIGH + 1 == 6 and max(Level) is Level.HIGH
assert sorted([Level.HIGH, Level.LOW]) == [Level.LOW, Level.HIGH]


class Permission(Flag):
    READ = auto()
    WRITE = auto()
    RUN = auto()
    ALL = READ | WRITE | RUN


both = Permission.READ | Permission.WRITE
assert Permission.READ in both and Permission.RUN not in both
assert both & ~Permission.READ == Permission.WRITE
assert Permission.ALL.value == 7 and not (Permission.READ & Permission.RUN)
assert list(both) == [Permission.READ, Permission.WRITE]
assert both ^ Permission.READ is Permission.WRITE


class Mask(IntFlag):
    A = 1
    B = 2


assert Mask.A | Mask.B == 3 and isinstance(Mask.A | Mask.B, Mask)

try:
    @unique
    class Twice(Enum):
        ONE = 1
        UNO = 1
except ValueError:
    twice = "refused"
assert twice == "refused"

try:
    class Extended(Step):
        MORE = 12
except TypeError:
    extended = "refused"
assert extended == "refused"

try:
    class Repeated(Enum):
        X = 1
        X = 2
except TypeError:
    repeated = "refused"
assert repeated == "refused"


class Odd(Enum):
    A = 1
    _ignore_ = ["temp"]
    temp = 5
    for temp in (6, 7):
        B = temp
        break

    def describe(self):
        return f"{self.name}={self.value}"

    @classmethod
    def _missing_(cls, value):
        return cls.A if value == "first" else None


assert list(Odd.__members__) == ["A", "B"] and Odd.B.value == 6
assert Odd.A.describe() == "A=1" and Odd("first") is Odd.A and not hasattr(Odd, "temp")

Made = Enum("Made", "X Y Z")
assert [m.value for m in Made] == [1, 2, 3] and Made.Y.name == "Y"
assert enum.EnumMeta is type(Made)

answer = "ok"
