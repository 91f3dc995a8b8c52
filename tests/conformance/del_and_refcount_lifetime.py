# When objects die: reference counting makes every moment exact.

import gc
import sys
import weakref

log = []
gc.disable()


class Noisy:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        log.append("-" + self.name)

    def hello(self):
        log.append("hello " + self.name)
        return True

    def child(self, name):
        return Noisy(name)


def take():
    out = list(log)
    log.clear()
    return out


# del, rebinding, containers
x = Noisy("x")
del x
assert take() == ["-x"]
x = y = Noisy("x")
del x
assert take() == []
y = None
assert take() == ["-x"]
x = Noisy("one")
x = log.append("before") or Noisy("two")
log.append("after")
x = None
assert take() == ["before", "-one", "after", "-two"]
items = [Noisy("a"), Noisy("b"), Noisy("c")]
del items[1]
items.pop(0)
assert take() == ["-b", "-a"]
items.clear()
assert take() == ["-c"]
box = {"k": Noisy("v")}
box["k"] = 0
assert take() == ["-v"]

# values of expression statements are freed at once
Noisy("statement")
assert take() == ["-statement"]
Noisy("t").hello()
log.append("next")
assert take() == ["hello t", "-t", "next"]
Noisy("p").child("q").hello()
assert take() in (["-p", "hello q", "-q"], ["hello q", "-q", "-p"])
[Noisy("in list")]
(Noisy("in tuple"), 1)
Noisy("or") or 1
Noisy("sub").name
assert take() == ["-in list", "-in tuple", "-or", "-sub"]
[Noisy(str(k)) for k in range(2)]
assert sorted(take()) == ["-0", "-1"]
Noisy("s1"); log.append("between"); Noisy("s2")
assert take() == ["-s1", "between", "-s2"]


# arguments and locals die when the function is left
def function(arg):
    local = Noisy("local")
    log.append("in")
    return arg.name


assert function(Noisy("arg")) == "arg"
log.append("out")
assert sorted(take()[:3]) == ["-arg", "-local", "in"]


def returns():
    return Noisy("returned")


returns()
log.append("dropped")
assert take() == ["-returned", "dropped"]
kept = returns()
assert take() == []
del kept
assert take() == ["-returned"]


def early():
    a = Noisy("a")
    del a
    log.append("after del")
    b = Noisy("b")
    b = None
    log.append("after none")
    return 1


early()
assert take() == ["-a", "after del", "-b", "after none"]

# temporaries of conditions die before the body
if Noisy("cond").hello():
    log.append("body")
assert take() == ["hello cond", "-cond", "body"]
while not Noisy("while").hello():
    log.append("never")
assert take() == ["hello while", "-while"]
assert Noisy("assert").hello()
assert take() == ["hello assert", "-assert"]

# loops: the variable holds the last item, the iterator dies with the loop
for item in (Noisy(n) for n in "abc"):
    log.append(item.name)
log.append("done")
assert take() == ["a", "-a", "b", "-b", "c", "done"]
del item
assert take() == ["-c"]


def closing():
    try:
        yield 1
        yield 2
    finally:
        log.append("closed")


for n in closing():
    break
log.append("after loop")
assert take() == ["closed", "after loop"]


# exceptions: the frame's locals live as long as the traceback
def fails():
    local = Noisy("in frame")
    raise ValueError


try:
    fails()
except ValueError:
    log.append("handler")
log.append("after try")
assert take() == ["handler", "-in frame", "after try"]
try:
    fails()
except ValueError as error:
    saved = error
assert take() == []
del saved
assert take() == ["-in frame"]


class NoisyError(Exception):
    def __del__(self):
        log.append("-error")


try:
    raise NoisyError
except NoisyError as caught:
    log.append("caught")
log.append("after")
assert take() == ["caught", "-error", "after"]


# with: the manager dies after the block
class Manager(Noisy):
    def __enter__(self):
        return Noisy("value")

    def __exit__(self, *exc):
        log.append("exit")
        return False


with Manager("manager"):
    log.append("block")
log.append("end")
assert take() == ["-value", "block", "exit", "-manager", "end"]

# closures, defaults, bound methods, attributes
def make():
    held = Noisy("held")
    return lambda: held.name


f = make()
assert f() == "held" and take() == []
f = None
assert take() == ["-held"]
method = Noisy("self").hello
assert take() == []
del method
assert take() == ["-self"]
lam = lambda d=Noisy("default"): d
del lam
assert take() == ["-default"]

# a class dies too, through the collector; a cycle waits for it
a = Noisy("cycle")
a.me = a
del a
assert take() == []
gc.collect()
assert take() == ["-cycle"]

# resurrection
class Lazarus:
    def __del__(self):
        saved_ones.append(self)


saved_ones = []
Lazarus()
assert len(saved_ones) == 1 and type(saved_ones[0]) is Lazarus

# nothing holds an extra reference
solo = object()
assert sys.getrefcount(solo) == 2


def counted(arg):
    own = object()
    return sys.getrefcount(own)


assert counted(None) == (1 if sys.version_info >= (3, 14) else 2)  # since 3.14 a local variable can be borrowed
r = weakref.ref(Noisy("weak"))
assert r() is None and take() == ["-weak"]
gc.enable()

answer = "ok"
