# Dictionaries and sets: order, views, hashing protocol, mutation during iteration.

import collections

d = {"b": 1, "a": 2}
d["c"] = 3
d["b"] = 10
assert list(d) == ["b", "a", "c"] and list(d.values()) == [10, 2, 3], "order of first insertion"
del d["b"]
d["b"] = 4
assert list(d) == ["a", "c", "b"] and list(reversed(d)) == ["b", "c", "a"]
assert d.pop("zz", None) is None and d.popitem() == ("b", 4) and d.get("zz") is None and d.get("a") == 2
assert d.setdefault("a", 99) == 2 and d.setdefault("n", []) == [] and d == {"n": [], "c": 3, "a": 2}
assert {1: "a", 1.0: "b", True: "c"} == {1: "c"} and list({1: "a", 1.0: "b"}) == [1]

# views are live and act as sets
keys, items = d.keys(), d.items()
d["new"] = 0
assert "new" in keys and ("new", 0) in items and len(keys) == 4
assert keys & {"a", "zz"} == {"a"} and keys - {"a"} == {"c", "n", "new"} and {"a"} <= keys
try:
    for k in d:
        d[k + "!"] = 1
except RuntimeError as error:
    assert "changed size" in str(error)
for k in list(d):
    if k.endswith("!"):
        del d[k]
assert list(d) == ["a", "c", "n", "new"]

# merging and copying
left, right = {"a": 1, "b": 2}, {"b": 3, "c": 4}
assert left | right == {"a": 1, "b": 3, "c": 4} and {**right, **left} == {"b": 2, "c": 4, "a": 1}
assert dict(left, z=1) == {"a": 1, "b": 2, "z": 1} and dict([("k", "v")]) == {"k": "v"} and dict(zip("ab", [1, 2])) == left
shallow = {"l": []}
copy = shallow.copy()
copy["l"].append(1)
assert shallow == {"l": [1]} and copy is not shallow
shared = dict.fromkeys("ab", [])
shared["a"].append(1)
assert shared == {"a": [1], "b": [1]}

# hashing and equality of keys
log = []


class Key:
    def __init__(self, name, h):
        self.name, self.h = name, h

    def __hash__(self):
        log.append("hash " + self.name)
        return self.h

    def __eq__(self, other):
        log.append(f"eq {self.name} {other.name}")
        return self.name == other.name


one, same, clash = Key("k", 1), Key("k", 1), Key("other", 1)
table = {one: "first"}
assert log == ["hash k"]
log.clear()
assert table[one] == "first" and log == ["hash k"], "identity needs no equality"
log.clear()
assert table[same] == "first" and len(log) == 2 and log[0] == "hash k" and log[1] == "eq k k"
assert clash not in table
table[same] = "second"
assert len(table) == 1 and next(iter(table)) is one, "the first key object stays"
for bad in ([], {}, set(), ([],)):
    try:
        {bad: 1}
    except TypeError as error:
        assert "unhashable" in str(error)
    else:
        raise AssertionError


class NoHash:
    def __eq__(self, other):
        return True


try:
    hash(NoHash())
except TypeError:
    log.append("eq removes hash")
assert log[-1] == "eq removes hash"


class Default(dict):
    def __missing__(self, key):
        self[key] = key * 2
        return self[key]


m = Default()
assert m["x"] == "xx" and m == {"x": "xx"} and m.get("y") is None and "y" not in m

counts = collections.Counter("mississippi")
assert counts.most_common(2) == [("i", 4), ("s", 4)] and counts["z"] == 0 and counts - counts == {}
groups = collections.defaultdict(list)
for word in ("apple", "bat", "ant"):
    groups[word[0]].append(word)
assert groups == {"a": ["apple", "ant"], "b": ["bat"]} and "z" not in groups
ordered = collections.OrderedDict(a=1, b=2)
ordered.move_to_end("a")
assert list(ordered) == ["b", "a"] and ordered != collections.OrderedDict(a=1, b=2) and ordered == {"a": 1, "b": 2}
chain = collections.ChainMap({"x": 1}, {"x": 2, "y": 3})
assert chain["x"] == 1 and chain["y"] == 3 and len(chain) == 2

# sets
s = {3, 1, 2}
assert s | {4} == {1, 2, 3, 4} and s & {1, 9} == {1} and s - {1} == {2, 3} and s ^ {1, 9} == {2, 3, 9}
assert {1} < s <= s and not s < s and s.isdisjoint({7}) and {1, 2} == {2, 1, 1}
s.add(1)
s.discard(99)
assert len(s) == 3
try:
    s.remove(99)
except KeyError as error:
    assert error.args == (99,)
frozen = frozenset("ab")
assert {frozen: 1}[frozenset("ba")] == 1 and frozen | {"c"} == frozenset("abc") and type(frozen | {"c"}) is frozenset
assert type(set() | frozen) is set and set() == frozenset() and not set() and {*()} == set()
try:
    for v in s:
        s.add(v + 10)
except RuntimeError:
    log.append("set changed")
assert log[-1] == "set changed"
assert {1: 2}.items() == {(1, 2)} and {} == dict() and type({}) is dict

answer = "ok"
