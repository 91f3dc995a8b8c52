# Lambdas: scopes, defaults, recursion, as keys and callbacks.

import functools

add = lambda a, b=1: a + b
assert add(1) == 2 and add(1, 5) == 6 and add.__name__ == "<lambda>"

# names are looked up at call time
offset = 1
shift = lambda v: v + offset
offset = 100
assert shift(1) == 101

fact = lambda n: 1 if n < 2 else n * fact(n - 1)
assert fact(6) == 720

# in dictionaries, lists and as immediate calls
table = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "nested": lambda a: lambda b: (a, b),
}
assert table["+"](2, 3) == 5 and table["-"](2, 3) == -1 and table["nested"](1)(2) == (1, 2)
assert (lambda x, y: x * y)(3, 4) == 12


def make():
    x = 0
    get = lambda: x
    before = get()
    x = 5
    return before, get()


assert make() == (0, 5)


def adders():
    return [lambda v, n=n: v + n for n in range(3)], [lambda v: v + n for n in range(3)]


bound, unbound = adders()
assert [f(10) for f in bound] == [10, 11, 12] and [f(10) for f in unbound] == [12, 12, 12]

# callbacks run in order, once each
calls = []
result = sorted([3, 1, 2], key=lambda v: calls.append(v) or -v)
assert result == [3, 2, 1] and calls == [3, 1, 2]
assert list(map(lambda a, b: a + b, [1, 2], [10, 20])) == [11, 22]
assert list(filter(lambda v: v % 2, range(5))) == [1, 3]
assert functools.reduce(lambda acc, v: acc + [v], "abc", []) == ["a", "b", "c"]
assert max("bca", key=lambda c: -ord(c)) == "a" and min([], default=None, key=lambda v: v) is None

# bodies: conditional, tuple, walrus, yield, starred arguments
classify = lambda n: "neg" if n < 0 else "zero" if n == 0 else "pos"
assert [classify(n) for n in (-1, 0, 1)] == ["neg", "zero", "pos"]
assert (lambda: (1, 2))() == (1, 2)
assert list((lambda: (yield "in lambda"))()) == ["in lambda"]
assert (lambda *a, k=2, **kw: (a, k, kw))(1, z=3) == ((1,), 2, {"z": 3})

# composition and currying
compose = lambda *fs: functools.reduce(lambda f, g: lambda v: f(g(v)), fs)
assert compose(lambda v: v + 1, lambda v: v * 2, lambda v: v - 3)(10) == 15
curry = lambda f: lambda a: lambda b: f(a, b)
assert curry(pow)(2)(5) == 32

# the fixed point combinator
Y = lambda f: (lambda x: x(x))(lambda x: f(lambda *a: x(x)(*a)))
assert Y(lambda me: lambda n: n if n < 2 else me(n - 1) + me(n - 2))(10) == 55


# lambdas in class bodies are methods, but do not see the class scope
size = "module"


class Box:
    size = "class"
    own = lambda self: self.size
    scope = lambda self: size
    captured = (lambda s: lambda self: s)(size)


b = Box()
assert b.own() == "class" and b.scope() == "module" and b.captured() == "class"
assert Box.own.__qualname__ == "Box.<lambda>"

# default values are evaluated when the lambda is made
trail = []
late = lambda v=trail.append("made"): trail.append("called") or v
assert trail == ["made"]
assert late() is None and late() is None and trail == ["made", "called", "called"]


# nonlocal state through mutable cells
def counter():
    state = [0]
    return (lambda: state.__setitem__(0, state[0] + 1)), (lambda: state[0])


inc, value = counter()
inc()
inc()
assert value() == 2

# over several lines
long = lambda first, \
    second=2: (
        first
        + second
    )
assert long(1) == 3
assert [f(3) for f in (lambda v: v, lambda v: v ** 2)] == [3, 9]

answer = "ok"
