# Generator functions and generator expressions.

import types

log = []


def numbers(limit):
    log.append("start")
    n = 0
    while n < limit:
        log.append(("before", n))
        yield n
        log.append(("after", n))
        n += 1
    log.append("end")
    return "result"


g = numbers(2)
assert isinstance(g, types.GeneratorType)
assert log == [], "nothing runs before the first next()"
assert iter(g) is g
assert next(g) == 0
assert log == ["start", ("before", 0)]
assert next(g) == 1
assert log[2:] == [("after", 0), ("before", 1)]
try:
    next(g)
except StopIteration as stop:
    assert stop.value == "result"
else:
    raise AssertionError("generator did not stop")
assert log[-2:] == [("after", 1), "end"]
assert next(g, "default") == "default"
assert g.gi_frame is None


def fibonacci():
    a, b = 0, 1
    while True:
        yield a
        a, b = b, a + b


fib = fibonacci()
assert [next(fib) for _ in range(10)] == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]


def never_yields():
    return "immediately"
    yield


try:
    next(never_yields())
except StopIteration as stop:
    assert stop.value == "immediately"
assert list(never_yields()) == []


def walk(tree):
    if isinstance(tree, list):
        for branch in tree:
            for leaf in walk(branch):
                yield leaf
    else:
        yield tree


assert list(walk([1, [2, [3, []], 4], [[5]]])) == [1, 2, 3, 4, 5]

# pipeline is lazy and interleaved
order = []


def source():
    for k in range(3):
        order.append("s%d" % k)
        yield k


def doubled(items):
    for k in items:
        order.append("d%d" % k)
        yield 2 * k


for value in doubled(source()):
    order.append("use%d" % value)
assert order == ["s0", "d0", "use0", "s1", "d1", "use2", "s2", "d2", "use4"]

# generator expressions: first iterable at once, the rest later
order.clear()


def trace(tag, value):
    order.append(tag)
    return value


lazy = (trace("elt", x) for x in trace("iter", [1, 2]) if trace("cond", True))
assert order == ["iter"]
assert list(lazy) == [1, 2]
assert order == ["iter", "cond", "elt", "cond", "elt"]
assert sum(k * k for k in range(4)) == 14


# StopIteration raised inside becomes RuntimeError
def leaky():
    yield 1
    raise StopIteration("inner")


it = leaky()
assert next(it) == 1
try:
    next(it)
except RuntimeError as error:
    assert isinstance(error.__cause__, StopIteration)
else:
    raise AssertionError("StopIteration leaked")


# a running generator cannot be re-entered
def reenter():
    yield next(me)


me = reenter()
try:
    next(me)
except ValueError as error:
    assert "already executing" in str(error)
else:
    raise AssertionError

answer = "ok"
