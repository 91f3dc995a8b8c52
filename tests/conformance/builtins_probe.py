at_start = sorted(globals())

# globals(), locals(), dir(), vars(), del and NameError probes.  The first statement must stay first.

import builtins

KNOWN = {
    "__name__", "__doc__", "__package__", "__loader__", "__spec__", "__annotations__",
    "__builtins__", "__file__", "__cached__",
}
assert set(at_start) <= KNOWN, set(at_start) - KNOWN

assert globals() is locals() and globals() is vars() and dir() == sorted(globals())
mine = [name for name in dir() if name not in KNOWN]
assert mine == ["KNOWN", "at_start", "builtins"], mine

x = 1
globals()["made_by_globals"] = 2
assert made_by_globals == 2
del globals()["x"]
try:
    x
except NameError as error:
    assert error.name == "x"
    x = "restored"
assert x == "restored"


# names in the order they were bound, nothing between
def function():
    return [name for name in globals() if name not in KNOWN]


assert function() == [
    "at_start", "builtins", "KNOWN", "mine", "made_by_globals", "x", "function",
], function()

# del, then NameError
gone = 1
del gone
try:
    gone
    raise AssertionError
except NameError as error:
    assert "gone" in str(error)
try:
    del gone
except NameError:
    gone = "deleting twice is an error"
assert gone.startswith("deleting")

# probes of names which are only read
try:
    unicode
except NameError:
    unicode = str
assert unicode is str

try:
    reduce
except NameError:
    from functools import reduce
assert reduce(lambda a, b: a * b, [1, 2, 3, 4]) == 24

try:
    profile_is_active
except NameError:
    profile_is_active = False
assert profile_is_active is False


def probe():
    try:
        return some_name_never_defined_anywhere
    except NameError:
        return "undefined"


assert probe() == "undefined"
try:
    value = some_name_never_defined_anywhere + 1
except NameError:
    value = "fallback"
assert value == "fallback"
try:
    some_name_never_defined_anywhere.attribute
except NameError as error:
    value = error.name
assert value == "some_name_never_defined_anywhere"
assert "some_name_never_defined_anywhere" not in globals()

# shadowing a builtin and taking the shadow away
len = lambda obj: "shadowed"
assert len([]) == "shadowed" and builtins.len([]) == 0
del len
assert len([1]) == 1
builtins.injected_for_test = "seen everywhere"
assert injected_for_test == "seen everywhere"
del builtins.injected_for_test
try:
    injected_for_test
except NameError:
    value = "gone again"
assert value == "gone again"


# dir, vars and locals elsewhere
def scopes(a, b=2):
    c = 3
    first = dir(), sorted(locals()), sorted(vars())
    return first


assert scopes(1) == (["a", "b", "c"],) * 3


class Thing:
    attribute = 1

    def __init__(self):
        self.own = 2


assert vars(Thing()) == {"own": 2}
assert [n for n in dir(Thing()) if not n.startswith("__")] == ["attribute", "own"]
assert [n for n in vars(Thing) if not n.startswith("__")] == ["attribute"]
for bad in (5, object()):
    try:
        vars(bad)
    except TypeError:
        continue
    raise AssertionError
assert callable(Thing) and callable(Thing().__init__) and not callable(Thing())
assert isinstance(True, (str, int)) and issubclass(Thing, object) and type(Thing) is type
assert id(x) == id(x) and hash("a") == hash("a") and repr("a") == "'a'" and ascii("é") == "'\\xe9'"

answer = "ok"
