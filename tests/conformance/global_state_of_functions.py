# What a function object is: names, code, globals, defaults, closure, attributes, identity.

import types

version = "module"


def f(a, b=2, *args, c, d=4, **kw):
    """Doc of f."""
    local = a + b
    return local, version


assert (f.__name__, f.__qualname__, f.__module__, f.__doc__) == ("f", "f", __name__, "Doc of f.")
assert f.__globals__ is globals() and f.__closure__ is None and f.__dict__ == {}
assert f.__defaults__ == (2,) and f.__kwdefaults__ == {"d": 4} and f.__annotations__ == {}
code = f.__code__
assert code.co_name == "f" and code.co_varnames == ("a", "b", "c", "d", "args", "kw", "local")
assert (code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount) == (2, 2, 0)
assert code.co_nlocals == 7 and code.co_freevars == () and code.co_cellvars == ()
assert type(f) is types.FunctionType and f.__code__.co_qualname == "f"

# globals are read at the call
assert f(1, c=0) == (3, "module")
version = "changed"
assert f(1, c=0)[1] == "changed"

# attributes
f.calls = 0


def counting():
    f.calls += 1
    return f.calls


counting()
counting()
assert f.calls == 2 and f.__dict__ == {"calls": 2} and vars(f) is f.__dict__
del f.calls
assert not hasattr(f, "calls")


def static(n, cache={}):
    if n not in cache:
        cache[n] = n * n
    return cache[n]


assert static(3) == 9 and static(4) == 16 and static.__defaults__[0] == {3: 9, 4: 16}


# each def makes a new object with the same code
def make(n):
    def inner():
        return n
    return inner


one, two = make(1), make(2)
assert one is not two and one != two and one.__code__ is two.__code__ and (one(), two()) == (1, 2)
assert one.__qualname__ == "make.<locals>.inner" and one.__code__.co_freevars == ("n",)
assert make.__code__.co_cellvars == ("n",) and one.__closure__[0].cell_contents == 1
one.__closure__[0].cell_contents = "poked"
assert one() == "poked" and two() == 2


# changing code, defaults and names
def target():
    return "old"


def donor():
    return "new"


same = target
target.__code__ = donor.__code__
assert same() == "new" and target.__name__ == "target"
target.__name__ = "renamed"
target.__qualname__ = "Some.renamed"
assert "Some.renamed" in repr(target)
static.__defaults__ = None
try:
    static(5)
except TypeError as error:
    assert "missing 1 required positional argument: 'cache'" in str(error)
else:
    raise AssertionError

# a function with other globals
other = types.FunctionType(counting.__code__, {"f": types.SimpleNamespace(calls=10)}, "other")
assert other() == 11 and other.__name__ == "other" and not hasattr(f, "calls")

# rebinding the global name: recursion goes through the name
def countdown(n):
    return [n] + (countdown(n - 1) if n else [])


original = countdown
assert countdown(2) == [2, 1, 0]


def countdown(n):
    return ["replaced"]


assert original(2) == [2, "replaced"]


# bound methods are new objects each time, equal, and share the function
class C:
    def m(self):
        return self

    def n(self):
        return self.m


c = C()
assert c.m is not c.m and c.m == c.m and c.m.__func__ is C.m and c.m.__self__ is c and c.n()() is c
assert C.m.__qualname__ == "C.m" and hash(c.m) == hash(c.m) and C.__dict__["m"] is C.m
C.m.tag = "on the function"
assert c.m.tag == "on the function"
try:
    c.m.tag = 1
except AttributeError:
    c.seen = "bound methods take no attributes"
assert c.seen

# functions are first-class values
table = {f: "f", len: "len", C: "class"}
assert table[f] == "f" and sorted([len, abs], key=lambda g: g.__name__) == [abs, len]
assert callable(f) and not hasattr(f, "undefined_attribute") and bool(f)
assert [g.__name__ for g in (lambda: 0, C().m, print)] == ["<lambda>", "m", "print"]


# generator and coroutine functions are plain functions until called
def gen():
    yield 1


async def co():
    return 1


async def agen():
    yield 1


assert all(type(g) is types.FunctionType for g in (gen, co, agen))
assert [bool(g.__code__.co_flags & flag) for g, flag in ((gen, 0x20), (co, 0x80), (agen, 0x200))] == [True] * 3
assert not f.__code__.co_flags & 0x20 and f.__code__.co_flags & 0x0C == 0x0C and make.__code__.co_flags & 0x10 == 0
assert [g().__class__.__name__ for g in (gen, agen)] == ["generator", "async_generator"]

answer = "ok"
