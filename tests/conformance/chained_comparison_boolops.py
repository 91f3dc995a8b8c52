# Comparisons chained, and/or/not, conditional expressions: what runs and what comes out.

log = []


def v(value):
    log.append(value)
    return value


def ran(result, expected_log):
    ok = log == expected_log
    log.clear()
    assert ok, expected_log
    return result


assert ran(v(1) < v(2) < v(3), [1, 2, 3]) is True
assert ran(v(3) < v(2) < v(1), [3, 2]) is False
assert ran(v(1) < v(2) > v(0) != v(5), [1, 2, 0, 5]) is True
assert ran(v(1) == v(1) in [v(1)], [1, 1, 1]) is True
assert ran(v("a") in v("abc") in v(["abc"]), ["a", "abc", ["abc"]]) is True
assert ran(not v(0), [0]) is True

# and/or return operands
assert ran(v(0) or v("") or v("x") or v("y"), [0, "", "x"]) == "x"
assert ran(v(1) and v([]) and v(2), [1, []]) == []
assert ran(v(0) and v(1) or v(2), [0, 2]) == 2
assert ran(v(1) or v(2) and v(3), [1]) == 1
assert ran(v(0) or v(None), [0, None]) is None
assert ran((v(1) or v(2)) and v(3), [1, 3]) == 3
assert ran(not v(1) or v(5), [1, 5]) == 5

# conditional expression: condition first, one branch only
assert ran(v("yes") if v(1) else v("no"), [1, "yes"]) == "yes"
assert ran(v("yes") if v(0) else v("no"), [0, "no"]) == "no"
assert ran(v("a") if v(0) else v("b") if v(0) else v("c"), [0, 0, "c"]) == "c"


# the truth of each operand is evaluated once
class Truth:
    def __init__(self, value):
        self.value = value

    def __bool__(self):
        log.append(("bool", self.value))
        return self.value


t, f = Truth(True), Truth(False)
assert ran(f or t, [("bool", False)]) is t
assert ran(t and f, [("bool", True)]) is f
assert ran(t and f and t, [("bool", True), ("bool", False)]) is f
assert ran(not f, [("bool", False)]) is True
if f or t:
    log.append("taken")
assert ran(True, [("bool", False), ("bool", True), "taken"])
if not (t and f):
    log.append("not both")
assert ran(True, [("bool", True), ("bool", False), "not both"])
while t and f:
    log.append("never")
assert ran(True, [("bool", True), ("bool", False)])
assert ran(bool(f), [("bool", False)]) is False

# assert evaluates its message only on failure
assert v(1), v("message")
assert ran(True, [1])
try:
    assert v(0), v("message")
except AssertionError as error:
    assert ran(error.args, [0, "message"]) == ("message",)


# comparison methods may return anything; chains evaluate the truth in between
class Cmp:
    def __init__(self, name):
        self.name = name

    def __lt__(self, other):
        log.append(f"{self.name}<{other.name}")
        return f"{self.name}<{other.name}"

    def __eq__(self, other):
        log.append(f"{self.name}=={getattr(other, 'name', other)}")
        return []

    __hash__ = None


a, b, c = Cmp("a"), Cmp("b"), Cmp("c")
assert ran(a < b < c, ["a<b", "b<c"]) == "b<c"
assert ran(a == b < c, ["a==b"]) == []
assert ran(a > b, ["b<a"]) == "b<a", "the reflected method"
assert ran(a != b, ["a==b"]) is True

# reflected operands: a subclass goes first
class Sub(Cmp):
    def __gt__(self, other):
        log.append("sub first")
        return "sub"


assert ran(a < Sub("s"), ["sub first"]) == "sub"

# identity, membership, None
x = y = []
assert x is y and x is not [] and None is None and not (x is not y)
assert 1 in (1, 2) and 3 not in (1, 2) and "" in "abc"
nan = float("nan")
assert nan != nan and nan in [nan] and [nan] == [nan] and not (nan == nan)
assert 1 == 1.0 == True and 0 < 0.5 < 1 and (1, 2) < (1, 3) < (2,)
assert (1 < 2) is True and ((1 < 2) < 2) is True and (3 > 2 > 1) and not ((3 > 2) > 1)

# errors stop the chain where they happen
try:
    v(1) < v(2) < v("x") < v(4)
except TypeError:
    assert ran(True, [1, 2, "x"])
else:
    raise AssertionError

answer = "ok"
