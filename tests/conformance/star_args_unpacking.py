# Unpacking in assignments, calls and displays.

a, b = 1, 2
a, b = b, a
assert (a, b) == (2, 1)
(a, (b, c)), d = [1, "xy"], 4
assert (a, b, c, d) == (1, "x", "y", 4)
[a, b] = {"k": 1, "l": 2}
assert (a, b) == ("k", "l")

head, *tail = range(4)
assert head == 0 and tail == [1, 2, 3]
*start, end = "abc"
assert start == ["a", "b"] and end == "c"
first, *middle, last = (1, 2)
assert (first, middle, last) == (1, [], 2)
*everything, = (1, 2)
assert everything == [1, 2]
(x, *ys), *zs = ["abc", 1, 2]
assert (x, ys, zs) == ("a", ["b", "c"], [1, 2])

for bad, message in (((1,), "not enough"), ((1, 2, 3), "too many")):
    try:
        p, q = bad
    except ValueError as error:
        assert message in str(error)
    else:
        raise AssertionError
assert "p" not in globals() and "q" not in globals(), "nothing is bound by a failed unpacking"

# chained assignment goes left to right, the value is evaluated once
log = []


def note(value):
    log.append(value)
    return value


class Slots:
    def __setitem__(self, key, value):
        log.append(("set", key))

    def __setattr__(self, name, value):
        log.append(("attr", name))


s = Slots()
note(s)[note("k1")] = note(s).name = s[note("k2")] = note("value")
assert log == ["value", s, "k1", ("set", "k1"), s, ("attr", "name"), "k2", ("set", "k2")]

# an index used while being assigned
i, items = 0, [10, 20]
i, items[i] = 1, "new"
assert items == [10, "new"]

# swapping through expressions
nums = [3, 1, 2]
nums[0], nums[2], nums[1] = nums[1], nums[0], nums[2]
assert nums == [1, 2, 3]


# calls
def f(*args, **kwargs):
    return args, kwargs


assert f(*[1, 2], 3, *(4,), *"56") == ((1, 2, 3, 4, "5", "6"), {})
assert f(**{"a": 1}, b=2, **{"c": 3}) == ((), {"a": 1, "b": 2, "c": 3})
assert f(*range(2), x=1, *[9]) == ((0, 1, 9), {"x": 1})
assert f(*(k for k in "ab")) == (("a", "b"), {})

log.clear()
f(note(1), *[note(2), note(3)], k=note(4), **{"m": note(5)})
assert log == [1, 2, 3, 4, 5]


class Mapping:
    def keys(self):
        log.append("keys")
        return ["one", "two"]

    def __getitem__(self, key):
        log.append(key)
        return key.upper()


log.clear()
assert f(**Mapping())[1] == {"one": "ONE", "two": "TWO"} and log == ["keys", "one", "two"]

# displays
assert [*range(2), *"ab", 5] == [0, 1, "a", "b", 5]
assert (*[1], 2) == (1, 2) and {*[1, 2], *(2, 3)} == {1, 2, 3}
assert {"a": 1, **{"a": 2, "b": 3}, "b": 4} == {"a": 2, "b": 4}
assert list({**{"z": 1}, "y": 2, **{"z": 3}}) == ["z", "y"]
star = *[1, 2], 3
assert star == (1, 2, 3)


def returns():
    rest = [2, 3]
    return 1, *rest


def yields():
    rest = (2, 3)
    yield 1, *rest


assert returns() == (1, 2, 3) and next(yields()) == (1, 2, 3)

# in for loops and comprehensions
pairs = []
for key, *values in [("a", 1, 2), ("b",)]:
    pairs.append((key, values))
assert pairs == [("a", [1, 2]), ("b", [])]
assert [m for _, (m, *_) in [(0, "xy"), (1, "z")]] == ["x", "z"]
for n in *[1, 2], 3:
    pairs.append(n)
assert pairs[2:] == [1, 2, 3]

# subscripts
class Index:
    def __getitem__(self, item):
        return item


assert Index()[*[1, 2], 3] == (1, 2, 3)

# an iterator is consumed only as far as needed for the error
it = iter(range(10))
try:
    a, b = it
except ValueError:
    assert next(it) == 3

answer = "ok"
