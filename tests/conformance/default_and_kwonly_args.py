# Parameters: defaults, positional-only, keyword-only, star parameters, errors of calls.

log = []


def note(value):
    log.append(value)
    return value


def f(a, b=note("b"), *, c, d=note("d")):
    return a, b, c, d


assert log == ["b", "d"], "defaults are evaluated at the def, once, left to right"
assert f(1, c=3) == (1, "b", 3, "d") and f(1, 2, d=4, c=3) == (1, 2, 3, 4)
assert log == ["b", "d"]
assert f.__defaults__ == ("b",) and f.__kwdefaults__ == {"d": "d"}


# mutable defaults are shared between calls
def collect(item, into=[]):
    into.append(item)
    return into


assert collect(1) == [1] and collect(2) == [1, 2] and collect(3, []) == [3]
assert collect.__defaults__ == ([1, 2],)


def fresh(item, into=None):
    if into is None:
        into = []
    into.append(item)
    return into


assert fresh(1) == [1] and fresh(2) == [2]

# defaults may be changed afterwards
fresh.__defaults__ = ([9],)
assert fresh(1) == [9, 1]
f.__kwdefaults__["d"] = "changed"
assert f(1, c=2) == (1, "b", 2, "changed")


def positional(a, b=2, /, c=3, *rest, d=4, **others):
    return a, b, c, rest, d, others


assert positional(1) == (1, 2, 3, (), 4, {})
assert positional(1, 5, 6, 7, 8, d=9, a=10, z=11) == (1, 5, 6, (7, 8), 9, {"a": 10, "z": 11})
assert positional(0, c="kw") == (0, 2, "kw", (), 4, {})


def star_only(*args, **kwargs):
    return args, kwargs


first = (1, 2)
args, kwargs = star_only(*first, **{"k": 1})
assert args == first and kwargs == {"k": 1}
original = {"k": 1}
assert star_only(**original)[1] is not original


def bare_star(*, only):
    return only


assert bare_star(only=1) == 1


# wrong calls raise TypeError and run nothing of the body
def strict(a, b, /, *, c):
    log.append("body ran")
    return a


log.clear()
wrong = [
    lambda: strict(),
    lambda: strict(1),
    lambda: strict(1, 2),
    lambda: strict(1, 2, 3),
    lambda: strict(1, b=2, c=3),
    lambda: strict(1, 2, c=3, d=4),
    lambda: strict(1, *[2, 3], c=4),
    lambda: strict(1, 2, **{"c": 3}, **{"c": 4}),
    lambda: strict(1, 2, c=3, **{"c": 4}),
    lambda: strict(*1),
    lambda: strict(**[1]),
    lambda: strict(1, 2, **{1: 2}),
    lambda: bare_star(1),
]
messages = []
for call in wrong:
    try:
        call()
    except TypeError as error:
        messages.append(str(error))
assert len(messages) == len(wrong) and log == []
assert "missing 2 required positional arguments" in messages[0]
assert "unexpected keyword argument 'd'" in messages[5]
assert strict(1, 2, c=3) == 1 and log == ["body ran"]


# a default sees the enclosing scope at definition time
def definitions():
    value = 1

    def early(x=value):
        return x

    value = 2

    def later(x=value, y=lambda: value):
        return x, y()

    value = 3
    return early(), later()


assert definitions() == (1, (2, 3))


# parameters are plain locals
def rebinding(a, *rest, k=0, **kw):
    a += 1
    rest = rest + ("added",)
    k -= 1
    kw["new"] = True
    return a, rest, k, kw


assert rebinding(1, 2) == (2, (2, "added"), -1, {"new": True})
assert rebinding.__code__.co_varnames == ("a", "k", "rest", "kw")
assert rebinding.__code__.co_argcount == 1 and rebinding.__code__.co_kwonlyargcount == 1

# lambdas take the same parameters
lam = lambda a, /, b=2, *c, d, e=5, **g: (a, b, c, d, e, g)
assert lam(1, d=4) == (1, 2, (), 4, 5, {})
assert (lambda: 1)() == 1 and (lambda *a, **k: (a, k))(1, x=2) == ((1,), {"x": 2})


class Callable:
    def __call__(self, *args, self_=None, **kw):
        return args, self_, kw


assert Callable()(1, self_=2, self3=3) == ((1,), 2, {"self3": 3})

answer = "ok"
