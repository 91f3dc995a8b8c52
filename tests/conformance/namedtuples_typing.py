# namedtuple, typing.NamedTuple, TypedDict, generics and annotations of typing.

import collections
import typing
from typing import Generic, NamedTuple, Optional, TypedDict, TypeVar, Union

Point = collections.namedtuple("Point", "x y", defaults=[0])

p = Point(3)
assert p == (3, 0) and p.x == 3 and p[1] == 0 and len(p) == 2
assert repr(p) == "Point(x=3, y=0)"
x, y = p
assert (x, y) == (3, 0)
assert p._replace(y=4) == Point(3, 4) and p.y == 0
assert p._asdict() == {"x": 3, "y": 0} and Point._fields == ("x", "y")
assert Point._make([8, 9]).y == 9 and {p: 1}[(3, 0)] == 1
try:
    p.x = 1
except AttributeError:
    frozen = True
assert frozen
assert Point.__module__ == __name__, "namedtuple takes the caller's module name"
renamed = collections.namedtuple("R", ["ok", "class", "ok"], rename=True)
assert renamed._fields == ("ok", "_1", "_2")


class Employee(NamedTuple):
    """An employee."""
    name: str
    pay: float = 10.0

    def raise_by(self, percent):
        return self._replace(pay=self.pay * (100 + percent) / 100)

    @property
    def shout(self):
        return self.name.upper()


e = Employee("ann")
assert e == ("ann", 10.0) and e.raise_by(50).pay == 15.0 and e.shout == "ANN"
assert Employee._field_defaults == {"pay": 10.0}
assert typing.get_type_hints(Employee) == {"name": str, "pay": float}
assert Employee.__doc__ == "An employee." and Employee.__module__ == __name__


class SubPoint(Point):
    __slots__ = ()

    def __add__(self, other):
        return type(self)(self.x + other.x, self.y + other.y)


assert SubPoint(1, 2) + SubPoint(3, 4) == (4, 6)
assert type(SubPoint(1, 2) + Point(0, 0)) is SubPoint
assert Point(1, 2) < Point(1, 3) < Point(2, 0)


class Movie(TypedDict, total=False):
    title: str
    year: int


m = Movie(title="T")
assert m == {"title": "T"} and type(m) is dict
assert Movie.__annotations__.keys() == {"title", "year"} and Movie.__total__ is False
assert Movie.__optional_keys__ == {"title", "year"}

T = TypeVar("T")


class Stack(Generic[T]):
    def __init__(self):
        self.items: list[T] = []

    def push(self, item: T) -> "Stack[T]":
        self.items.append(item)
        return self


assert Stack[int]().push(1).push(2).items == [1, 2]
assert Stack.__parameters__ == (T,) and T.__name__ == "T"
assert typing.get_origin(Stack[int]) is Stack and typing.get_args(Stack[int]) == (int,)
assert typing.get_origin(dict[str, int]) is dict
assert Optional[int] == Union[int, None]
assert int | None == Optional[int] and isinstance(3, int | str)


def annotated(a: int, *rest: "str", flag: Optional[bool] = None) -> list[int]:
    return [a, len(rest)]


assert annotated(1, "b") == [1, 1]
assert annotated.__annotations__ == {"a": int, "rest": "str", "flag": Optional[bool], "return": list[int]}
hints = typing.get_type_hints(annotated)
assert hints["rest"] is str and hints["a"] is int

UserId = typing.NewType("UserId", int)
assert UserId(5) == 5 and type(UserId(5)) is int
assert typing.cast(str, 5) == 5


# forward references to names of the program resolve through its module
class Later:
    other: "Afterwards"


class Afterwards:
    value: int = 1


assert typing.get_type_hints(Later) == {"other": Afterwards}

answer = "ok"
