# print in all variants, captured.

import contextlib
import io
import pprint
import sys


def captured(function, *args, **kwargs):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        function(*args, **kwargs)
    return out.getvalue()


assert captured(print) == "\n" and captured(print, "a") == "a\n"
assert captured(print, 1, 2.5, None, [1, "x"], {"k": (1,)}) == "1 2.5 None [1, 'x'] {'k': (1,)}\n"
assert captured(print, "a", "b", sep="-", end="!") == "a-b!" and captured(print, "a", "b", sep="") == "ab\n"
assert captured(print, *"abc", sep="\n") == "a\nb\nc\n" and captured(print, "x", sep=None, end=None) == "x\n"
assert captured(print, "é😀") == "é😀\n"

buffer = io.StringIO()
print("to file", file=buffer)
print("more", end="", file=buffer, flush=True)
assert buffer.getvalue() == "to file\nmore"

# the statement prints once, in order
out = io.StringIO()
with contextlib.redirect_stdout(out):
    for k in range(3):
        print(k, end=" ")
    print()
    print("a"); print("b")
    if print("condition"): print("never")
    else: print("else")
    [print(c, end="") for c in "xyz"]
    print()
    x = print("value")
    assert x is None
    print("one", print("inner"), sep="|")
assert out.getvalue() == "0 1 2 \na\nb\ncondition\nelse\nxyz\nvalue\ninner\none|None\n"

# expression statements print nothing
out = io.StringIO()
with contextlib.redirect_stdout(out):
    1 + 1
    "text"
    [1, 2, 3]
    max(1, 2)
    None
assert out.getvalue() == ""


# redirection nests and is undone, also after an exception
outer, inner = io.StringIO(), io.StringIO()
before = sys.stdout
with contextlib.redirect_stdout(outer):
    print("outer 1")
    try:
        with contextlib.redirect_stdout(inner):
            print("inner")
            raise ValueError
    except ValueError:
        print("outer 2")
assert sys.stdout is before and outer.getvalue() == "outer 1\nouter 2\n" and inner.getvalue() == "inner\n"


# any object with write() will do
class Writer:
    def __init__(self):
        self.parts = []

    def write(self, text):
        self.parts.append(text)


w = Writer()
print("a", 1, sep=",", file=w)
assert w.parts == ["a", ",", "1", "\n"]
old = sys.stdout
sys.stdout = w
try:
    print("replaced")
finally:
    sys.stdout = old
assert w.parts[-2:] == ["replaced", "\n"]

# str is called once, by print; repr inside containers
log = []


class Shown:
    def __str__(self):
        log.append("str")
        return "S"

    def __repr__(self):
        log.append("repr")
        return "R"


s = Shown()
assert captured(print, s, [s]) == "S [R]\n" and log == ["str", "repr"]
assert captured(print, f"{s}{s!r}") == "SR\n" and log == ["str", "repr", "str", "repr"]

# stderr apart from stdout
err = io.StringIO()
out = io.StringIO()
with contextlib.redirect_stderr(err), contextlib.redirect_stdout(out):
    print("problem", file=sys.stderr)
    sys.stdout.write("direct ")
    print("fine")
assert err.getvalue() == "problem\n" and out.getvalue() == "direct fine\n"

# print replaced by the program, then restored
lines = []
print = lambda *args, **kwargs: lines.append(args)
print("caught", 1)
del print
assert lines == [("caught", 1)] and captured(print, "real") == "real\n"

for bad in ({"sep": 1}, {"end": 2}, {"unknown": 3}):
    try:
        print("x", **bad)
    except TypeError:
        continue
    raise AssertionError(bad)

assert captured(pprint.pprint, {"b": 1, "a": [2]}) == "{'a': [2], 'b': 1}\n"
out = io.StringIO()
with contextlib.redirect_stdout(out):
    def recursive(n):
        print("(", end="")
        if n:
            recursive(n - 1)
        print(")", end="")
    recursive(3)
assert out.getvalue() == "(((())))"

answer = "ok"
