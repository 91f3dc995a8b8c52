# Class bodies: scope, order, nesting, inheritance, super and __class__.

log = []
name = "module"


class Body:
    """Body's doc."""
    log.append("body runs")
    name = name + "+class"
    first = 1
    second = first + 1
    for loop in range(3):
        second += loop
    if second > 4:
        branch = "taken"
    else:
        other = "not taken"
    temporary = 5
    del temporary

    def method(self):
        return name

    squares = [k * k for k in range(second)]
    alias = method


assert log == ["body runs"]
public = [key for key in vars(Body) if not key.startswith("__")]
assert public == ["name", "first", "second", "loop", "branch", "method", "squares", "alias"]
assert Body.name == "module+class" and Body.second == 5 and Body.loop == 2
assert Body().method() == "module", "methods do not see the class scope"
assert Body.alias is Body.method
assert Body.__doc__ == "Body's doc." and Body.__module__ == __name__
assert Body.__name__ == Body.__qualname__ == "Body"


# locals() inside a class body holds exactly what was written
class Inspect:
    a = 1
    names = sorted(key for key in locals() if not key.startswith("__"))
    b = 2


assert Inspect.names == ["a"]


class Outer:
    value = 1

    class Inner:
        visible = "value" in locals()

        def who(self):
            return type(self).__qualname__

    def build(self):
        class Local:
            me = self
        return Local


assert Outer.Inner().who() == "Outer.Inner" and Outer.Inner.visible is False
o = Outer()
assert o.build().me is o
assert o.build().__qualname__ == "Outer.build.<locals>.Local"
assert o.build() is not o.build(), "each call makes a new class"


# private name mangling
class Private:
    __secret = "s"

    def __init__(self):
        self.__own = 1
        self.__dunder__ = 2

    def get(self):
        return self.__secret, self.__own


assert Private().get() == ("s", 1)
assert Private._Private__secret == "s"
assert vars(Private()) == {"_Private__own": 1, "__dunder__": 2}


# cooperative super through a diamond
class Base:
    def trail(self):
        return ["Base"]


class Left(Base):
    def trail(self):
        return ["Left"] + super().trail()


class Right(Base):
    def trail(self):
        return ["Right"] + super(Right, self).trail()


class Bottom(Left, Right):
    def trail(self):
        return ["Bottom", __class__.__name__] + super().trail()


assert Bottom().trail() == ["Bottom", "Bottom", "Left", "Right", "Base"]
assert [c.__name__ for c in Bottom.__mro__] == ["Bottom", "Left", "Right", "Base", "object"]
try:
    class Broken(Base, Bottom):
        x = 1
except TypeError:
    assert "Broken" not in globals()


# instance, class and static methods; class variables shared, instance ones not
class Methods:
    shared = []
    count = 0

    def __init__(self):
        self.count += 1
        self.shared.append(self.count)

    @classmethod
    def make(cls):
        return cls()

    @staticmethod
    def add(a, b):
        return a + b


class Sub(Methods):
    extra = True


assert type(Sub.make()) is Sub and Methods.add(1, 2) == Sub().add(1, 2) == 3
assert Methods.shared == [1, 1] and Methods.count == 0
assert Methods.__init__ is Sub.__init__
bound = Sub.make
assert bound.__self__ is Sub

# bases and keyword arguments evaluated in order, the body last
order = []


def base(tag):
    order.append(tag)
    return type(tag, (), {})


class Ordered(base("one"), base("two")):
    order.append("body")


assert order == ["one", "two", "body"]


# an exception in a class body leaves the name unbound
try:
    class Fails:
        x = 1
        y = x / 0
except ZeroDivisionError:
    assert "Fails" not in globals()
else:
    raise AssertionError

answer = "ok"
