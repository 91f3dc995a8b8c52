"""Module documentation, one line."""

import sys
import typing

# Docstrings and annotations of modules, functions and classes.

assert __doc__ == "Module documentation, one line."
assert globals()["__doc__"] is __doc__


def documented(a: int, b: "str" = "x", *args: float, k: list = None, **kw: dict) -> bool:
    """Function doc."""
    return bool(a)


def undocumented(a):
    return a


def not_first():
    value = 1
    """This is only an expression."""
    return value


def formatted():
    f"""Not a docstring {1}."""
    return 1


def bytes_first():
    b"""Not a docstring either."""
    return 1


def joined():
    "Two " "parts."
    return 1


assert documented.__doc__ == "Function doc." and documented(1) is True
assert [f.__doc__ for f in (undocumented, not_first, formatted, bytes_first)] == [None] * 4
assert joined.__doc__ == "Two parts." and formatted() == joined() == 1
assert documented.__annotations__ == {
    "a": int, "b": "str", "args": float, "k": list, "kw": dict, "return": bool,
}
assert list(documented.__annotations__) == ["a", "b", "args", "k", "kw", "return"]
assert undocumented.__annotations__ == {}
documented.__doc__ = "changed"
assert documented.__doc__ == "changed"


class Documented:
    """Class doc."""

    x: int
    y: "list[int]" = [1]
    z = 3
    (w): float = 2.0

    def method(self) -> "Documented":
        """Method doc."""
        return self

    @property
    def prop(self) -> int:
        """Property doc."""
        return 1

    class Inner:
        "Inner doc."


class Undocumented(Documented):
    inner = 1


assert Documented.__doc__ == "Class doc." and Undocumented.__doc__ is None
assert Documented.method.__doc__ == "Method doc." and Documented.prop.__doc__ == "Property doc."
assert Documented.Inner.__doc__ == "Inner doc." and (lambda: "x").__doc__ is None
assert Documented.__annotations__ == {"x": int, "y": "list[int]"}
assert not hasattr(Documented, "x") and Documented.y == [1] and Documented.w == 2.0
assert typing.get_type_hints(Documented) == {"x": int, "y": list[int]}
assert typing.get_type_hints(Documented.method) == {"return": Documented}

# module annotations; the value is optional, the annotation is evaluated at module level
log = []


def note(value):
    log.append(value)
    return value


first: note(int) = note(1)
second: note(str)
deferred = sys.version_info >= (3, 14)  # annotations are evaluated when they are asked for
assert log == ([1] if deferred else [1, int, str]) and first == 1 and "second" not in globals()
assert deferred or __annotations__ == {"first": int, "second": str}
third: int = 3
assert sys.modules[__name__].__annotations__ == {"first": int, "second": str, "third": int}
assert list(sys.modules[__name__].__annotations__) == ["first", "second", "third"]

# attribute and item targets are evaluated but not recorded
box = {}
box["k"]: note("annotation") = note("value")
assert box == {"k": "value"} and log[-2:] == ([str, "value"] if deferred else ["value", "annotation"])
assert len(sys.modules[__name__].__annotations__) == 3


# in functions annotations of locals are never evaluated
def local_annotations():
    x: undefined_annotation_name = 5
    y: also_undefined
    try:
        return y
    except UnboundLocalError:
        return x


assert local_annotations() == 5 and local_annotations.__annotations__ == {}


# a bare annotation makes the name local
def makes_local():
    first: int
    try:
        return first
    except UnboundLocalError:
        return "local"


assert makes_local() == "local"

# a docstring given later, and one by assignment in the class body
class Assigned:
    __doc__ = "assigned " + "doc"
    value = 1


assert Assigned.__doc__ == "assigned doc"
Assigned.__doc__ = "again"
assert Assigned.__doc__ == "again"


# an indented docstring, after cleaning the same on every version
def long_doc():
    """Summary.

    Details here.
    """
    return 1


assert [line.strip() for line in long_doc.__doc__.strip().split("\n")] == ["Summary.", "", "Details here."]


async def async_doc():
    """Async doc."""
    return 1


def generator_doc():
    """Generator doc."""
    yield 1


assert async_doc.__doc__ == "Async doc." and generator_doc.__doc__ == "Generator doc." and list(generator_doc()) == [1]

answer = "ok"
