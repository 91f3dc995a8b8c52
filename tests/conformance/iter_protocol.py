# The iteration protocols: __iter__/__next__, __getitem__, iter(callable, sentinel), next, reversed, in.

import itertools

log = []


class Seq:
    """Iterated through __getitem__, ended by IndexError."""

    def __init__(self, *items):
        self.items = items

    def __getitem__(self, index):
        log.append(index)
        return self.items[index]


seq = Seq("a", "b")
assert list(seq) == ["a", "b"] and log == [0, 1, 2]
log.clear()
assert [x for x in seq] == ["a", "b"] and "b" in seq and "zz" not in seq
assert log == [0, 1, 2, 0, 1, 0, 1, 2]
log.clear()
for x in seq:
    if x == "a":
        break
assert log == [0]
first, second = seq
assert (first, second) == ("a", "b") and tuple(enumerate(seq)) == ((0, "a"), (1, "b"))


class StopsOtherwise:
    def __getitem__(self, index):
        if index == 2:
            raise StopIteration
        return index


assert list(StopsOtherwise()) == [0, 1]


class Fails:
    def __getitem__(self, index):
        if index == 1:
            raise KeyError("not the end")
        return index


got = []
try:
    for x in Fails():
        got.append(x)
except KeyError:
    got.append("KeyError")
assert got == [0, "KeyError"]

# iter(callable, sentinel)
source = iter([1, 2, 0, 3])
assert list(iter(lambda: next(source), 0)) == [1, 2] and next(source) == 3
assert list(iter(iter("ab").__next__, "zz")) == ["a", "b"], "StopIteration also ends it"

# next with a default; the default is not used for None items
it = iter([None])
assert next(it, "default") is None and next(it, "default") == "default"
try:
    next(it)
except StopIteration as stop:
    assert stop.value is None
else:
    raise AssertionError


class Count:
    def __init__(self, limit):
        self.limit = limit
        self.n = 0

    def __iter__(self):
        log.append("iter")
        return self

    def __next__(self):
        log.append("next")
        if self.n >= self.limit:
            raise StopIteration
        self.n += 1
        return self.n


log.clear()
c = Count(2)
for x in c:
    log.append(x)
assert log == ["iter", "next", 1, "next", 2, "next"]
assert list(c) == [], "an exhausted iterator stays exhausted"
log.clear()
a, b = Count(2)
assert (a, b) == (1, 2) and log == ["iter", "next", "next", "next"]


class Iterable:
    def __iter__(self):
        yield from (1, 2, 3)

    def __reversed__(self):
        return iter("custom")

    def __contains__(self, item):
        log.append(("contains", item))
        return item == "magic"

    def __len__(self):
        return 3

    def __length_hint__(self):
        return 3


log.clear()
box = Iterable()
assert list(box) == list(box) == [1, 2, 3] and "".join(reversed(box)) == "custom"
assert "magic" in box and 1 not in box and log == [("contains", "magic"), ("contains", 1)]
assert sum(box) == 6 and max(box) == 3 and sorted(box, reverse=True) == [3, 2, 1] and [*box, *box] == [1, 2, 3] * 2
assert list(zip(box, "ab")) == [(1, "a"), (2, "b")] and dict(enumerate(box, 5)) == {5: 1, 6: 2, 7: 3}

for bad in (5, None, object()):
    try:
        iter(bad)
    except TypeError as error:
        assert "not iterable" in str(error)


class NotIterator:
    def __iter__(self):
        return 5


class Disabled:
    __iter__ = None

    def __getitem__(self, index):
        return index


for bad in (NotIterator(), Disabled()):
    try:
        for x in bad:
            log.append("never")
    except TypeError:
        continue
    raise AssertionError

# zip takes no more than it needs; strict zip complains
left, right = iter([1, 2, 3]), iter([1, 2])
assert list(zip(left, right)) == [(1, 1), (2, 2)] and list(left) == []
try:
    list(zip([1], [], strict=True))
except ValueError:
    log.append("strict")
assert log[-1] == "strict"

# itertools
assert list(itertools.chain("ab", [1])) == ["a", "b", 1] and list(itertools.islice(itertools.count(5), 3)) == [5, 6, 7]
one, two = itertools.tee(iter([1, 2, 3]))
assert next(one) == 1 and list(two) == [1, 2, 3] and list(one) == [2, 3]
assert list(itertools.takewhile(lambda v: v < 3, [1, 2, 3, 1])) == [1, 2]
assert list(itertools.product("ab", repeat=2))[1] == ("a", "b") and list(itertools.accumulate([1, 2, 3])) == [1, 3, 6]

# shared iterators: two loops over one iterator
it = iter(range(6))
pairs = [(x, next(it)) for x in it]
assert pairs == [(0, 1), (2, 3), (4, 5)]
shared = iter("abcd")
assert ["".join(p) for p in zip(shared, shared)] == ["ab", "cd"]

answer = "ok"
