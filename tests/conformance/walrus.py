# Assignment expressions.

import io

if (n := len("abc")) > 2:
    assert n == 3
assert n == 3

stream = io.StringIO("one\ntwo\n\nafter")
lines = []
while (line := stream.readline().strip()):
    lines.append(line)
assert lines == ["one", "two"] and line == ""

log = []


def note(value):
    log.append(value)
    return value


# evaluated once, value used and kept
assert (kept := note(5)) + kept == 10 and log == [5]
assert [first := note("a"), first * 2, (second := first + "b"), second] == ["a", "aa", "ab", "ab"]

# order against the surrounding expression
x = 1
assert (x, x := 2, x) == (1, 2, 2)
assert {x: (x := 3), x: (x := 4)} == {2: 3, 3: 4} and x == 4
assert x + (x := 10) + x == 24


# in calls, subscripts, slices, f-strings, comparisons, lambdas
def f(a, b=0, *args):
    return a, b, args


assert f(y := 3, b=(z := 4)) == (3, 4, ()) and (y, z) == (3, 4)
items = [10, 20, 30]
assert items[i := 1] == 20 and items[(i := 0):2] == [10, 20] and i == 0
assert f"{(t := 7)} {t:03}" == "7 007"
assert 1 < (m := 5) < 10 and m == 5
assert (lambda: (inner := 3) + inner)() == 6 and "inner" not in globals()

# short circuit leaves the name unbound
False and (never := 1)
assert "never" not in globals()
True or (never := 1)
assert "never" not in globals()
(a := 0) or (b := 2)
assert (a, b) == (0, 2)


# scope: function local, global declaration, comprehension to the containing scope
def local():
    if (hidden := 3):
        return hidden


assert local() == 3 and "hidden" not in globals()


def sets_global():
    global shared
    return (shared := "set")


assert sets_global() == "set" == shared


def nonlocal_target():
    count = 0

    def bump():
        nonlocal count
        return (count := count + 1)

    return bump(), bump(), count


assert nonlocal_target() == (1, 2, 2)

assert [last := v for v in range(3)] == [0, 1, 2] and last == 2
assert any((witness := v) > 10 for v in (5, 15, 25)) and witness == 15
assert not all((counter := v) < 2 for v in (1, 2, 3)) and counter == 2
pairs = [(v, s) for v in (1, 2, 3) if (s := v * v) > 1]
assert pairs == [(2, 4), (3, 9)] and s == 9


def in_function():
    data = [y for x in (1, 2) if (y := x + 1)]
    return data, y


assert in_function() == ([2, 3], 3)


# conditions: if, elif, while, assert, ternary, match guard
def grade(score):
    if (r := score // 10) >= 9:
        return "A", r
    elif (r := r - 1) >= 6:
        return "B", r
    return ("C" if (r := -r) else "D"), r


assert [grade(s) for s in (95, 75, 20, 10)] == [("A", 9), ("B", 6), ("C", -1), ("D", 0)]

match (subject := [1, 2]):
    case [p, q] if (total := p + q) == 3:
        log.append(total)
assert log[-1] == 3 and subject == [1, 2]

chunks = []
it = iter("abcde")
while chunk := "".join(c for _, c in zip(range(2), it)):
    chunks.append(chunk)
assert chunks[0] == "ab" and chunk == ""


# as a statement in parentheses, in a default, in a decorator, in a class body
(stmt := "statement")
assert stmt == "statement"


def default(v=(dflt := 8)):
    return v


assert default() == dflt == 8


class Body:
    if (attr := 5) > 3:
        doubled = attr * 2


assert (Body.attr, Body.doubled) == (5, 10)

# nested
assert (outer := (inside := 1) + 1) == 2 and inside == 1

answer = "ok"
