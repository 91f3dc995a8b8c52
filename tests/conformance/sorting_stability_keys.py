# Sorting: stability, keys, reverse, errors, and how often things are called.

import bisect
import functools
import heapq
import itertools
import operator

people = [("ann", 30), ("bob", 25), ("cid", 30), ("dan", 25), ("eve", 30)]
by_age = sorted(people, key=lambda p: p[1])
assert [name for name, _ in by_age] == ["bob", "dan", "ann", "cid", "eve"]
reverse = sorted(people, key=lambda p: p[1], reverse=True)
assert [name for name, _ in reverse] == ["ann", "cid", "eve", "bob", "dan"], "reverse keeps equal items in order"
two_step = sorted(sorted(people, key=operator.itemgetter(0), reverse=True), key=operator.itemgetter(1))
assert [name for name, _ in two_step] == ["dan", "bob", "eve", "cid", "ann"]

# the key is called once for each item, in order
calls = []


def key(item):
    calls.append(item)
    return -item


data = [3, 1, 2]
assert data.sort(key=key) is None and data == [3, 2, 1] and calls == [3, 1, 2]
assert sorted(data) == [1, 2, 3] and data == [3, 2, 1], "sorted leaves its argument"
assert sorted(set("banana")) == ["a", "b", "n"] and sorted({"b": 1, "a": 2}) == ["a", "b"]
assert sorted((v for v in (2, 1)), reverse=True) == [2, 1]


# only __lt__ is used
class Lt:
    compared = 0

    def __init__(self, n):
        self.n = n

    def __lt__(self, other):
        Lt.compared += 1
        return self.n < other.n


items = [Lt(n) for n in (5, 3, 4, 1)]
assert [x.n for x in sorted(items)] == [1, 3, 4, 5] and Lt.compared > 0
Lt.compared = 0
sorted([Lt(1)])
assert Lt.compared == 0
assert min(items).n == 1 and heapq.nsmallest(2, items)[1].n == 3

# tuples, mixed keys, None
assert sorted([(2, "b"), (1, "z"), (2, "a")]) == [(1, "z"), (2, "a"), (2, "b")]
assert sorted(["b", None, "a"], key=lambda v: (v is None, v or "")) == ["a", "b", None]
assert sorted(["Banana", "apple", "cherry"], key=str.lower) == ["apple", "Banana", "cherry"]
assert sorted(["10", "9", "1"], key=int) == ["1", "9", "10"] and sorted(["10", "9", "1"]) == ["1", "10", "9"]
assert sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a)) == [3, 2, 1]

# errors in the key or comparison leave all items in the list
broken = [3, 1, "x", 2]
try:
    broken.sort()
except TypeError:
    calls.append("mixed types")
assert calls[-1] == "mixed types" and sorted(map(str, broken)) == ["1", "2", "3", "x"]
try:
    broken.sort(key=lambda v: 1 / 0)
except ZeroDivisionError:
    calls.append("key failed")
assert calls[-1] == "key failed" and len(broken) == 4

# changing a list while it is sorted is noticed
unsafe = [3, 2, 1]
try:
    unsafe.sort(key=lambda v: unsafe.append(v) or v)
except ValueError:
    calls.append("modified")
assert calls[-1] == "modified"

# min and max return the first of equals; ties and defaults
assert max([(1, "a"), (1, "b")], key=lambda p: p[0]) == (1, "a")
assert min(["bb", "a", "c"], key=len) == "a" and max(3, 7, 5) == 7 and max([], default="none") == "none"

# groupby after sort, reversed, zip, bisect, heap
groups = {k: [n for n, _ in g] for k, g in itertools.groupby(by_age, key=lambda p: p[1])}
assert groups == {25: ["bob", "dan"], 30: ["ann", "cid", "eve"]}
assert list(reversed(sorted("cab"))) == ["c", "b", "a"]
line = [10, 20, 20, 30]
assert bisect.bisect_left(line, 20) == 1 and bisect.bisect(line, 20) == 3
bisect.insort(line, 25)
assert line == [10, 20, 20, 25, 30]
heap = []
for n in (5, 1, 4, 2):
    heapq.heappush(heap, n)
assert [heapq.heappop(heap) for _ in range(4)] == [1, 2, 4, 5]


# own algorithms agree
def quick(seq):
    if len(seq) < 2:
        return list(seq)
    pivot, *rest = seq
    return quick([x for x in rest if x < pivot]) + [pivot] + quick([x for x in rest if x >= pivot])


def insertion(seq):
    out = []
    for x in seq:
        k = len(out)
        while k > 0 and out[k - 1] > x:
            k -= 1
        out.insert(k, x)
    return out


numbers = [(17 * k + 5) % 41 for k in range(41)]
assert quick(numbers) == insertion(numbers) == sorted(numbers) == list(range(41))

answer = "ok"
