# Comprehensions: scopes, order, nesting, conditions.

x = "outer"
squares = [x * x for x in range(4)]
assert squares == [0, 1, 4, 9] and x == "outer"
assert {x for x in "aab"} == {"a", "b"} and x == "outer"
assert {x: y for x, y in [("k", 1)]} == {"k": 1} and x == "outer" and "y" not in globals()

# nested loops and conditions in reading order
log = []


def note(tag, value):
    log.append(tag)
    return value


result = [
    note("elt", (a, b))
    for a in note("A", [1, 2])
    if note("ifA", a > 1)
    for b in note("B", "x")
    if note("ifB", True)
]
assert result == [(2, "x")]
assert log == ["A", "ifA", "ifA", "B", "ifB", "elt"]

log.clear()
assert {note("key", k): note("value", k) for k in (1, 2)} == {1: 1, 2: 2}
assert log == ["key", "value", "key", "value"]

# the same name at several depths
assert [[x for x in range(x)] for x in range(3)] == [[], [0], [0, 1]]
assert [x for x in [x + "!" for x in "ab"]] == ["a!", "b!"]
matrix = [[1, 2], [3, 4]]
assert [[row[k] for row in matrix] for k in range(2)] == [[1, 3], [2, 4]]
assert [cell for row in matrix for cell in row] == [1, 2, 3, 4]


# in functions: free variables, parameters, closures
def scale(factor, items):
    return [factor * item for item in items if item != factor]


assert scale(2, [1, 2, 3]) == [2, 6]


def closures():
    funcs = [lambda: n for n in range(3)]
    n = "own"
    return [f() for f in funcs], n


assert closures() == ([2, 2, 2], "own")


def iterable_variable(items):
    items = [items for items in items]
    return items


assert iterable_variable("ab") == ["a", "b"]


# the first iterable of a class-level comprehension sees class names, the rest does not
limit = 100


class Scope:
    limit = 2
    first = [k for k in range(limit)]
    inner = [limit for k in range(1)]
    doubled = list(map(lambda k: k * 2, first))


assert Scope.first == [0, 1] and Scope.inner == [100] and Scope.doubled == [0, 2]
assert not hasattr(Scope, "k")

# generator expressions bind the first iterable early, names late
items = [1, 2]
factor = 10
lazy = (item * factor for item in items)
items = [5]
factor = 100
assert list(lazy) == [100, 200]

# an assignment inside a comprehension by := goes to the containing scope
total = 0
running = [total := total + v for v in (1, 2, 3)]
assert running == [1, 3, 6] and total == 6


def containing():
    found = None
    hit = any((found := v) > 2 for v in (1, 3, 5))
    return hit, found


assert containing() == (True, 3)

# exceptions leave no half result and no names
try:
    broken = [1 // v for v in (1, 0)]
except ZeroDivisionError:
    assert "broken" not in globals() and "v" not in globals()

# targets: starred, subscripts, attributes
assert [rest for first, *rest in ("abc", "d")] == [["b", "c"], []]
box = {}
assert [box["k"] for box["k"] in (1, 2)] == [1, 2] and box == {"k": 2}

# conditions with and/or/ternaries, several ifs
assert [v for v in range(20) if v % 2 if v % 3] == [1, 5, 7, 11, 13, 17, 19]
assert ["even" if v % 2 == 0 else "odd" for v in range(3)] == ["even", "odd", "even"]
assert [v for v in (lambda: [1, 2])()] == [1, 2]
assert [w for v in range(3) for w in [v * 2]] == [0, 2, 4]

# a comprehension over what it changes
queue = [3]
assert [queue.append(v - 1) if v else None for v in queue] == [None] * 4 and queue == [3, 2, 1, 0]

# duplicate keys: the last value, the first position
assert list({k % 2: k for k in range(5)}.items()) == [(0, 4), (1, 3)]
assert sum(1 for _ in range(1000)) == 1000 and "_" not in globals()

answer = "ok"
