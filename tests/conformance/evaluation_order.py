# The order in which parts of expressions and statements are evaluated.

import sys

log = []


def n(name, value=None):
    log.append(name)
    return value


def take():
    out = " ".join(log)
    log.clear()
    return out


def f(*args, **kwargs):
    log.append("call")
    return 0


# calls: function, positional, keywords, then the call
n("f", f)(n("a"), *n("b", [1]), n("c"), k=n("d"), **n("e", {}))
assert take() == "f a b c d e call"
n("f", f)(k=n("d"), *n("b", []))
assert take() in ("f b d call", "f d b call")

# binary operators left to right, regardless of precedence
n("a", 1) + n("b", 2) * n("c", 3) ** n("d", 2)
assert take() == "a b c d"
(n("a", 1) + n("b", 2)) * -n("c", 3)
assert take() == "a b c"

# displays
(n("a"), [n("b"), n("c")], {n("d")}, {n("k1"): n("v1"), n("k2"): n("v2")})
assert take() == "a b c d k1 v1 k2 v2"

# subscripts, slices, attributes
n("obj", [1, 2, 3])[n("i", 1)]
n("obj", [1, 2, 3])[n("lo", 0):n("hi", 2):n("step", 1)]
assert take() == "obj i obj lo hi step"

# assignment: right side first, then the targets left to right
box = {}
n("t1", box)[n("k1", 1)] = n("t2", box)[n("k2", 2)] = n("value")
assert take() == "value t1 k1 t2 k2"
n("t1", box)[n("k1", 1)], n("t2", box)[n("k2", 2)] = n("v1"), n("v2")
assert take() == "v1 v2 t1 k1 t2 k2"


# augmented assignment: target parts, old value, right side, store
class Item:
    def __getitem__(self, key):
        log.append("get")
        return 1

    def __setitem__(self, key, value):
        log.append("set")

    def __delitem__(self, key):
        log.append("del")

    def __getattr__(self, name):
        log.append("getattr")
        return 1

    def __setattr__(self, name, value):
        log.append("setattr")


n("obj", Item())[n("key")] += n("right", 1)
assert take() == "obj key get right set"
n("obj", Item()).attr += n("right", 1)
assert take() == "obj getattr right setattr"
del n("obj", Item())[n("key")], n("obj2", Item())[n("key2")]
assert take() == "obj key del obj2 key2 del"

# annotated assignment: value first, then the target, then, before 3.14, the annotation
n("obj", Item())[n("key")]: n("annotation") = n("value")
assert take() == "value obj key set" + (" annotation" if sys.version_info < (3, 14) else "")

# comparison chains, conditional
n("a", 1) < n("b", 2) < n("c", 3)
n("yes") if n("test", True) else n("no")
assert take() == "a b c test yes"

# lambda and def: defaults now, body later
g = lambda a=n("default"): n("body")
assert take() == "default"
g()
assert take() == "body"


@n("deco1", lambda h: n("apply1", h))
@n("deco2", lambda h: n("apply2", h))
def h(a: n("ann_a") = n("def_a"), *, b: n("ann_b") = n("def_b")) -> n("ann_ret"):
    return n("h body")


annotated = "ann_a ann_b ann_ret " if sys.version_info < (3, 14) else ""
assert take() == f"deco1 deco2 def_a def_b {annotated}apply2 apply1"


@n("cdeco", lambda c: n("capply", c))
class C(n("base", object), metaclass=n("meta", type)):
    n("class body")


assert take() == "cdeco base meta class body capply"

# f-strings, with, for, return
f"{n('a', 1)}{n('b', 2):{n('spec', '>3')}}{n('c', 3)!r}"
assert take() == "a b spec c"


class Ctx:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        log.append("enter_" + self.name)
        return self

    def __exit__(self, *exc):
        log.append("exit_" + self.name)
        return False


with n("m1", Ctx("1")) as n("t", box)["x"], n("m2", Ctx("2")):
    n("body")
assert take() == "m1 enter_1 t m2 enter_2 body exit_2 exit_1"

for n("target", box)["it"] in n("iterable", [1, 2]):
    n("loop")
else:
    n("else")
assert take() == "iterable target loop target loop else"

# raise and assert
try:
    raise n("error", ValueError()) from n("cause", KeyError())
except n("wrong", KeyError):
    n("never")
except n("right", ValueError):
    n("handler")
finally:
    n("finally")
assert take() == "error cause wrong right handler finally"

# statements on one line, conditions in order
n("s1"); n("s2"); n("s3")
if n("c1", 0): n("b1")
elif n("c2", 1): n("b2")
elif n("c3", 1): n("b3")
else: n("b4")
assert take() == "s1 s2 s3 c1 c2 b2"

# comprehension and generator
[n("elt") for _ in n("it", [1]) if n("if", True)]
list(n("elt") for a in n("it1", [1]) for b in n("it2", [1]))
assert take() == "it if elt it1 it2 elt"

answer = "ok"
