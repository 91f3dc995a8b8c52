# Abstract base classes, virtual subclasses, Protocols and collections.abc mixins.

import collections.abc
from abc import ABC, ABCMeta, abstractmethod
from typing import Protocol, runtime_checkable

log = []


class Shape(ABC):
    @abstractmethod
    def area(self):
        raise NotImplementedError

    @property
    @abstractmethod
    def name(self):
        raise NotImplementedError

    def describe(self):
        return f"{self.name} of {self.area()}"


for cls in (Shape,):
    try:
        cls()
    except TypeError as error:
        assert "abstract" in str(error)
        log.append(sorted(cls.__abstractmethods__))
assert log == [["area", "name"]]


class Half(Shape):
    def area(self):
        return 5


try:
    Half()
except TypeError:
    log.append("half refused")
assert log[-1] == "half refused" and Half.__abstractmethods__ == {"name"}


class Full(Half):
    name = "full"


assert Full().describe() == "full of 5"
assert isinstance(Full(), Shape) and not Full.__abstractmethods__


# an abstract method with a body, reached by super()
class Base(metaclass=ABCMeta):
    @abstractmethod
    def steps(self):
        return ["base"]

    @staticmethod
    @abstractmethod
    def helper(n):
        return n + 1


class Derived(Base):
    def steps(self):
        return super().steps() + ["derived"]

    @staticmethod
    def helper(n):
        return Base.helper(n) * 10


assert Derived().steps() == ["base", "derived"] and Derived.helper(1) == 20


# virtual subclasses
class Tuple3:
    def __len__(self):
        return 3


class Sizes(ABC):
    kind = "sizes"


assert not isinstance(Tuple3(), Sizes)
assert Sizes.register(Tuple3) is Tuple3
assert isinstance(Tuple3(), Sizes) and issubclass(Tuple3, Sizes)
assert Sizes not in Tuple3.__mro__


class Quacks(ABC):
    @classmethod
    def __subclasshook__(cls, other):
        if cls is Quacks:
            return any("quack" in vars(b) for b in other.__mro__)
        return NotImplemented


class Duck:
    def quack(self):
        return "quack"


assert issubclass(Duck, Quacks) and not issubclass(int, Quacks)


@runtime_checkable
class Closeable(Protocol):
    def close(self) -> str:
        ...


class Door:
    def close(self):
        return "closed"


assert isinstance(Door(), Closeable) and not isinstance(3, Closeable)
assert Door().close() == "closed"
assert isinstance(Tuple3(), collections.abc.Sized) and not isinstance(Duck(), collections.abc.Sized)


# a mixin fills in the rest of the mapping protocol
class Squares(collections.abc.Mapping):
    def __init__(self, limit):
        self.limit = limit

    def __len__(self):
        return self.limit

    def __iter__(self):
        return iter(range(self.limit))

    def __getitem__(self, key):
        if key not in range(self.limit):
            raise KeyError(key)
        return key * key


sq = Squares(4)
assert dict(sq) == {0: 0, 1: 1, 2: 4, 3: 9}
assert sq.get(9) is None and sq.get(9, "d") == "d" and 3 in sq and 4 not in sq
assert list(sq.items())[-1] == (3, 9) and sq == {0: 0, 1: 1, 2: 4, 3: 9}
assert {**sq}[3] == 9


class Growing(collections.abc.MutableSequence):
    def __init__(self):
        self.data = []

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        return self.data[i]

    def __setitem__(self, i, v):
        self.data[i] = v

    def __delitem__(self, i):
        del self.data[i]

    def insert(self, i, v):
        log.append(("insert", i))
        self.data.insert(i, v)


log.clear()
g = Growing()
g.append("a")
g.extend("bc")
g += ["d"]
assert g.pop() == "d" and g.index("b") == 1 and list(reversed(g)) == ["c", "b", "a"]
g.remove("b")
assert g.data == ["a", "c"] and log == [("insert", k) for k in range(4)]

answer = "ok"
