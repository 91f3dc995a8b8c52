# locals() and friends inside functions: exactly the names of the source, at the time of the call.

import sys


def simple(a, b=2, *args, k=3, **kw):
    first = sorted(locals())
    x = 1
    second = sorted(locals())
    del x
    third = sorted(locals())
    return first, second, third


first, second, third = simple(1)
assert first == ["a", "args", "b", "k", "kw"], first
assert second == ["a", "args", "b", "first", "k", "kw", "x"], second
assert third == ["a", "args", "b", "first", "k", "kw", "second"], third


def values(a):
    b = a + 1
    snapshot = dict(locals())
    b = "changed later"
    return snapshot


assert values(1) == {"a": 1, "b": 2}


# unbound names are absent; loops and handlers bind and unbind
def flow(items):
    seen = []
    for item in items:
        if item:
            found = item
        seen.append(sorted(set(locals()) - {"items", "seen"}))
    try:
        raise KeyError
    except KeyError as error:
        seen.append("error" in locals())
    seen.append("error" in locals())
    return seen


assert flow([0, 1]) == [["item"], ["found", "item"], True, False]


# writing to the dictionary does not write the variable
def write():
    x = 1
    locals()["x"] = 99
    locals()["brand_new"] = 5
    return x


assert write() == 1


def no_new_name():
    locals()["brand_new"] = 5
    try:
        return brand_new
    except NameError:
        return "no such name"


assert no_new_name() == "no such name"


# free and cell variables are included when used
def outer():
    used, unused = 1, 2

    def inner():
        mine = used
        return dict(locals())

    return inner(), sorted(locals())


inner_names, outer_names = outer()
assert inner_names == {"mine": 1, "used": 1} and outer_names == ["inner", "unused", "used"]


# dir() and vars() without arguments, eval and the frame see the same
def others(z, y):
    plain = 0
    return dir(), sorted(vars()), eval("sorted(locals())"), sorted(sys._getframe().f_locals)


assert others(1, 2) == (["plain", "y", "z"],) * 4


def formatted(name, value):
    text = "{name}={value}".format(**locals())
    return text, "%(name)s" % locals()


assert formatted("a", 1) == ("a=1", "a")


# the caller's frame
def peek():
    return dict(sys._getframe(1).f_locals)


def peeked(p):
    q = p * 2
    return peek()


assert peeked(4) == {"p": 4, "q": 8}


# generators keep their locals between steps
def gen(n):
    while n:
        yield n
        n -= 1


g = gen(3)
assert g.gi_frame.f_locals == {"n": 3}
next(g), next(g)
assert g.gi_frame.f_locals == {"n": 2}
g.close()


# lambdas, nested functions, class bodies
assert (lambda a, b=2: sorted(locals()))(1) == ["a", "b"]


class Body:
    one = 1
    seen = [n for n in dir() if not n.startswith("__")]

    def method(self, arg):
        return sorted(locals())

    def cooperative(self):
        super().__init__()
        return sorted(locals())


assert Body.seen == ["one"] and Body().method(1) == ["arg", "self"]
assert Body().cooperative() == ["__class__", "self"]


# calls, conditions, with and walrus leave no helper names behind
class CM:
    def __enter__(self):
        return 5

    def __exit__(self, *exc):
        return False


def busy(n):
    with CM() as five, CM():
        if (w := n + five) > 2:
            print(end="")
            sorted([3, 1])
            w += len("abc")
    while n:
        n -= 1
    assert w
    match n:
        case 0 as zero:
            w = max(w, zero)
    return sorted(locals())


assert busy(2) == ["five", "n", "w", "zero"]
assert busy.__code__.co_varnames == ("n", "five", "w", "zero")

# at module level locals() is globals()
assert locals() is globals() and locals()["first"] is first

answer = "ok"
