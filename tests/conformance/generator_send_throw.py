# send() and throw(): yield as an expression.

events = []


def echo():
    received = yield "first"
    events.append(received)
    while received != "stop":
        received = yield received
        events.append(received)
    return "stopped"


g = echo()
try:
    g.send("too early")
except TypeError:
    events.append("refused")
assert g.send(None) == "first"
assert g.send(1) == 1
assert next(g) is None
try:
    g.send("stop")
except StopIteration as stop:
    assert stop.value == "stopped"
assert events == ["refused", 1, None, "stop"]


def running_average():
    total, count, average = 0, 0, None
    while True:
        total += yield average
        count += 1
        average = total / count


avg = running_average()
next(avg)
assert [avg.send(v) for v in (10, 20, 60)] == [10.0, 15.0, 30.0]


def resilient():
    caught = []
    while True:
        try:
            value = yield list(caught)
            caught.append(value)
        except ValueError as error:
            caught.append("V:" + str(error))
        except KeyError:
            return caught


r = resilient()
assert next(r) == []
assert r.send("a") == ["a"]
assert r.throw(ValueError("bad")) == ["a", "V:bad"]
assert r.send("b") == ["a", "V:bad", "b"]
try:
    r.throw(KeyError("end"))
except StopIteration as stop:
    assert stop.value == ["a", "V:bad", "b"]

# throwing into an unstarted generator ends it at once
fresh = resilient()
try:
    fresh.throw(ZeroDivisionError("early"))
except ZeroDivisionError as error:
    assert str(error) == "early"
assert list(fresh) == []

# throwing into a finished generator
try:
    fresh.throw(LookupError("late"))
except LookupError as error:
    assert error.args == ("late",)
else:
    raise AssertionError


# yield inside larger expressions keeps the evaluation order
def collect():
    result = [(yield 1), (yield 2), (yield 3)]
    table = {(yield "key"): (yield "value")}
    return result, table


c = collect()
asked = [next(c)]
for reply in ("x", "y", "z", "K"):
    asked.append(c.send(reply))
try:
    c.send("V")
except StopIteration as stop:
    final = stop.value
assert asked == [1, 2, 3, "key", "value"]
assert final == (["x", "y", "z"], {"K": "V"})


# yield as an argument, as a condition and as a bare statement
def shapes():
    seen = []
    seen.append((yield))
    if (yield "if"):
        seen.append("true branch")
    else:
        seen.append("false branch")
    while (yield "while"):
        seen.append("loop")
    yield seen


s = shapes()
assert next(s) is None
assert s.send("arg") == "if"
assert s.send(0) == "while"
assert s.send(1) == "while"
assert s.send(1) == "while"
assert s.send(0) == ["arg", "false branch", "loop", "loop"]


# an exception inside finally runs through on throw
def guarded():
    try:
        yield "in"
    finally:
        events.append("cleanup")


k = guarded()
next(k)
try:
    k.throw(RuntimeError("boom"))
except RuntimeError:
    events.append("out")
assert events[-2:] == ["cleanup", "out"]

answer = "ok"
