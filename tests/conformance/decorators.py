# Decorators: order, arguments, classes, expressions, functools helpers.

import functools
import sys

log = []


def mark(name):
    log.append("make " + name)

    def decorate(function):
        log.append("apply " + name)

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            log.append("call " + name)
            return (name, function(*args, **kwargs))
        return wrapper
    return decorate


@mark("outer")
@mark("inner")
def target(x, *, y=1):
    """Target doc."""
    return x + y


assert log == ["make outer", "make inner", "apply inner", "apply outer"]
log.clear()
assert target(1, y=2) == ("outer", ("inner", 3))
assert log == ["call outer", "call inner"]
assert target.__name__ == "target" and target.__doc__ == "Target doc."
assert target.__wrapped__.__wrapped__(5) == 6

# the name is bound only once, to the final result
bound_during = []


def check(function):
    bound_during.append("subject" in globals())
    return function


@check
@check
def subject():
    return 1


assert bound_during == [False, False] and subject() == 1

# default arguments after decorators, before application
log.clear()


def note(tag, value=None):
    log.append(tag)
    return value


@note("decorator", lambda f: note("applied", f))
def ordered(a=note("default", 3), *, b: note("annotation", int) = note("kwdefault", 4)):
    return a, b


annotated = [] if sys.version_info >= (3, 14) else ["annotation"]  # since 3.14 evaluated only on access
assert log == ["decorator", "default", "kwdefault", *annotated, "applied"]
assert ordered() == (3, 4)


# a decorator may return anything
@str
def text():
    return 1


@lambda f: f()
def immediate():
    return "ran at once"


assert text.startswith("<function text") and immediate == "ran at once"

registry = {}
handlers = [lambda key: lambda f: registry.setdefault(key, f)]


@handlers[0]("first")
def handler_one():
    return 1


@(lambda f: registry.setdefault("second", f))
def handler_two():
    return 2


assert [registry[k]() for k in ("first", "second")] == [1, 2]


# class decorators and decorators which are instances
def add_method(cls):
    cls.added = lambda self: self.value * 2
    return cls


class CountCalls:
    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.function = function
        self.count = 0

    def __call__(self, *args):
        self.count += 1
        return self.function(*args)

    def __get__(self, instance, owner):
        return self if instance is None else functools.partial(self, instance)


@add_method
class Thing:
    value = 4

    @CountCalls
    def method(self, n):
        return self.value + n

    @classmethod
    def make(cls):
        return cls()

    @staticmethod
    @CountCalls
    def static(n):
        return n


assert Thing().added() == 8
assert [Thing().method(1), Thing().method(2)] == [5, 6] and Thing.method.count == 2
assert type(Thing.make()) is Thing and Thing.static(3) == 3


# functools
@functools.lru_cache(maxsize=None)
def fib(n):
    log.append(n)
    return n if n < 2 else fib(n - 1) + fib(n - 2)


log.clear()
assert fib(20) == 6765 and len(log) == 21 and fib.cache_info().misses == 21


@functools.singledispatch
def kind(value):
    return "object"


@kind.register
def _(value: int):
    return "int"


@kind.register(list)
def _(value):
    return "list"


assert [kind(v) for v in (1, True, [], "s")] == ["int", "int", "list", "object"]


class Lazy:
    runs = 0

    @functools.cached_property
    def value(self):
        self.runs += 1
        return self.runs


lazy = Lazy()
assert (lazy.value, lazy.value, lazy.runs) == (1, 1, 1)


@functools.total_ordering
class Size:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n

    def __lt__(self, other):
        return self.n < other.n


assert Size(1) <= Size(1) and Size(2) > Size(1) and Size(2) >= Size(1)

answer = "ok"
