# Closures capture variables, not values; loops share one variable.

late = []
for i in range(3):
    def show():
        return i
    late.append(show)
assert [f() for f in late] == [2, 2, 2]
i = 50
assert [f() for f in late] == [50, 50, 50]

early = []
for i in range(3):
    def show(i=i):
        return i
    early.append(show)
assert [f() for f in early] == [0, 1, 2]


def make_shared():
    out = []
    for k in range(3):
        out.append(lambda: k)
    return out


assert [f() for f in make_shared()] == [2, 2, 2]
shared = make_shared()
assert len({id(f.__closure__[0]) for f in shared}) == 1, "one cell for all"


def make_separate():
    def bind(value):
        def get():
            return value
        return get
    return [bind(k) for k in range(3)]


separate = make_separate()
assert [f() for f in separate] == [0, 1, 2]
assert len({id(f.__closure__[0]) for f in separate}) == 3
assert [f.__closure__[0].cell_contents for f in separate] == [0, 1, 2]

in_comprehension = [lambda: q for q in range(4)]
assert [f() for f in in_comprehension] == [3, 3, 3, 3]


def counter(start):
    total = start

    def add(amount):
        nonlocal total
        total += amount
        return total

    def peek():
        return total

    return add, peek


add, peek = counter(10)
other_add, other_peek = counter(0)
assert add(5) == 15 and peek() == 15
assert other_add(1) == 1 and peek() == 15
assert add.__code__.co_freevars == ("total",)
assert add.__closure__[0] is peek.__closure__[0]


# a variable assigned after the inner function is made
def assigned_later():
    def inner():
        return value
    try:
        inner()
    except NameError as error:
        first = type(error)
    value = "set"
    return first, inner()


assert assigned_later() == (NameError, "set")


# a deleted cell variable
def deleted():
    value = 1

    def inner():
        return value
    before = inner()
    del value
    try:
        inner()
    except NameError:
        return before, "gone"
    return before, "still there"


assert deleted() == (1, "gone")


# closures survive the frame, and nested three deep
def outer(a):
    def middle(b):
        def inner(c):
            return a, b, c
        return inner
    return middle


assert outer(1)(2)(3) == (1, 2, 3)
assert outer(1)(2).__code__.co_freevars == ("a", "b")
assert outer(1).__qualname__ == "outer.<locals>.middle"


# a while loop rebinding the captured name
def snapshots():
    result = []
    x = 0
    while x < 3:
        result.append((lambda: x, x))
        x += 1
    return [(f(), at) for f, at in result]


assert snapshots() == [(3, 0), (3, 1), (3, 2)]

answer = "ok"
