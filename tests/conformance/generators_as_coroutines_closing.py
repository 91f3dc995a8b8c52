# Closing generators: GeneratorExit, finally, garbage collection, contextmanager.

import contextlib
import gc

log = []


def worker(name):
    log.append(name + " open")
    try:
        while True:
            item = yield
            log.append((name, item))
    except GeneratorExit:
        log.append(name + " exit")
        raise
    finally:
        log.append(name + " finally")


w = worker("w")
next(w)
w.send(1)
w.send(2)
w.close()
assert log == ["w open", ("w", 1), ("w", 2), "w exit", "w finally"]
w.close()
assert len(log) == 5, "closing twice does nothing"
try:
    w.send(3)
except StopIteration as stop:
    assert stop.value is None
else:
    raise AssertionError

log.clear()
unstarted = worker("u")
unstarted.close()
assert log == [], "an unstarted generator has nothing to clean up"


# returning on GeneratorExit is fine
def polite():
    try:
        yield 1
    except GeneratorExit:
        log.append("polite")
        return


p = polite()
next(p)
p.close()
assert log == ["polite"]


# yielding on GeneratorExit is an error
def stubborn():
    try:
        yield 1
    except GeneratorExit:
        yield 2


s = stubborn()
next(s)
try:
    s.close()
except RuntimeError as error:
    assert "ignored GeneratorExit" in str(error)
else:
    raise AssertionError
assert next(s, "end") == "end"


# an exception in the cleanup propagates out of close()
def failing():
    try:
        yield
    finally:
        raise LookupError("in cleanup")


f = failing()
next(f)
try:
    f.close()
except LookupError as error:
    assert isinstance(error.__context__, GeneratorExit)
else:
    raise AssertionError

# dropping the last reference closes it
log.clear()
dropped = worker("d")
next(dropped)
del dropped
gc.collect()
assert log == ["d open", "d exit", "d finally"]

# a loop left early closes nothing until the generator dies
log.clear()


def three():
    try:
        yield from (1, 2, 3)
    finally:
        log.append("three closed")


kept = three()
for value in kept:
    break
assert log == [] and value == 1
assert next(kept) == 2
kept.close()
assert log == ["three closed"]

log.clear()
with contextlib.closing(three()) as auto:
    assert next(auto) == 1
    log.append("inside")
assert log == ["inside", "three closed"]


# contextmanager built on a generator
@contextlib.contextmanager
def stage(name):
    log.append("+" + name)
    try:
        yield name.upper()
    except ValueError:
        log.append("!" + name)
    finally:
        log.append("-" + name)


log.clear()
with stage("a") as a, stage("b") as b:
    log.append(a + b)
    raise ValueError
assert log == ["+a", "+b", "AB", "!b", "-b", "-a"]

answer = "ok"
