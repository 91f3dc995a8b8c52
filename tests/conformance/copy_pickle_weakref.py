# copy, deepcopy, pickle and weak references of the program's own objects.

import copy
import gc
import pickle
import weakref

log = []


class Node:
    def __init__(self, name, *links):
        self.name = name
        self.links = list(links)


leaf = Node("leaf")
root = Node("root", leaf, leaf)
shallow = copy.copy(root)
assert shallow is not root and shallow.links is root.links and type(shallow) is Node
deep = copy.deepcopy(root)
assert deep.links[0] is deep.links[1] is not leaf and deep.links[0].name == "leaf"
leaf.links.append(root)
cyclic = copy.deepcopy(root)
assert cyclic.links[0].links[0] is cyclic

data = [1, [2, 3], {"k": [4]}]
c, d = copy.copy(data), copy.deepcopy(data)
data[1].append("x")
data[2]["k"].append("y")
assert c[1] == [2, 3, "x"] and d == [1, [2, 3], {"k": [4]}]
atom = (1, "a", None)
assert copy.copy(atom) is atom and copy.deepcopy(atom) is atom and copy.deepcopy(Node) is Node
function = lambda: 1
assert copy.deepcopy(function) is function


class Custom:
    def __init__(self, v):
        log.append("init")
        self.v = v

    def __copy__(self):
        log.append("copy")
        return Custom(self.v + 1)

    def __deepcopy__(self, memo):
        log.append("deepcopy")
        return Custom(copy.deepcopy(self.v, memo) + 10)


x = Custom(1)
assert copy.copy(x).v == 2 and copy.deepcopy([x])[0].v == 11
assert log == ["init", "copy", "init", "deepcopy", "init"]

# pickle: __init__ is not called, identity inside one dump is kept
log.clear()
again = pickle.loads(pickle.dumps([x, x]))
assert again[0] is again[1] and again[0].v == 1 and log == []


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class Sub(dict):
    extra = None


class Err(Exception):
    def __init__(self, code):
        super().__init__(code)
        self.code = code


s = pickle.loads(pickle.dumps(Slotted(5)))
assert s.a == 5 and not hasattr(s, "b")
m = Sub(k=1)
m.extra = [2]
m2 = pickle.loads(pickle.dumps(m))
assert type(m2) is Sub and m2 == {"k": 1} and m2.extra == [2]
e = pickle.loads(pickle.dumps(Err(7)))
assert type(e) is Err and e.code == 7 and e.args == (7,)


class NewArgs(tuple):
    def __new__(cls, a, b):
        return super().__new__(cls, (a, b))

    def __getnewargs__(self):
        return tuple(self)


assert pickle.loads(pickle.dumps(NewArgs(1, 2), 2)) == (1, 2) and copy.copy(NewArgs(1, 2)) == (1, 2)

# weak references
log.clear()
target = Node("weak")
ref = weakref.ref(target, lambda r: log.append("dead"))
assert ref() is target and weakref.getweakrefcount(target) == 1
alias = target
del target
assert log == [] and ref().name == "weak"
del alias
assert log == ["dead"] and ref() is None

cache = weakref.WeakValueDictionary()
kept = cache["a"] = Node("kept")
cache["b"] = Node("dropped")
assert list(cache) == ["a"], "nothing else holds the second one"

keys = weakref.WeakKeyDictionary()
keys[kept] = "data"
assert len(keys) == 1
live = weakref.WeakSet([kept])
proxy = weakref.proxy(kept)
assert proxy.name == "kept" and kept in live
del kept
assert len(keys) == 0 and len(cache) == 0 and len(live) == 0
try:
    proxy.name
except ReferenceError:
    log.append("proxy dead")
assert log[-1] == "proxy dead"


# bound methods die at once, WeakMethod lives with the object
n = Node("m")
Node.hello = lambda self: "hello " + self.name
assert weakref.ref(n.hello)() is None
wm = weakref.WeakMethod(n.hello)
assert wm()() == "hello m"
fin = weakref.finalize(n, log.append, "finalized")
assert fin.alive
del n
assert log[-1] == "finalized" and wm() is None and not fin.alive

# a cycle dies when it is collected
a = Node("a")
a.links.append(a)
ra = weakref.ref(a)
gc.disable()
try:
    del a
    assert ra() is not None
    gc.collect()
    assert ra() is None
finally:
    gc.enable()
for thing in (5, "s", [], None):
    try:
        weakref.ref(thing)
    except TypeError:
        continue
    raise AssertionError

answer = "ok"
