# yield from: delegation of next, send, throw, close and the result.

log = []


def inner(name):
    log.append(name + " start")
    try:
        while True:
            try:
                got = yield name
            except ValueError as error:
                log.append((name, "caught", str(error)))
                continue
            if got == "finish":
                return name + " result"
            log.append((name, got))
    finally:
        log.append(name + " finally")


def outer():
    first = yield from inner("A")
    log.append(first)
    second = yield from inner("B")
    return [first, second]


g = outer()
assert next(g) == "A"
assert g.send(1) == "A"
assert g.throw(ValueError("v")) == "A"
assert g.gi_yieldfrom is not None
assert g.send("finish") == "B"
try:
    g.send("finish")
except StopIteration as stop:
    assert stop.value == ["A result", "B result"]
assert log == [
    "A start", ("A", 1), ("A", "caught", "v"), "A finally", "A result",
    "B start", "B finally",
]

log.clear()
g = outer()
next(g)
g.close()
assert log == ["A start", "A finally"]


# plain iterables
def chain(*iterables):
    for iterable in iterables:
        yield from iterable


assert list(chain("ab", [1], (), {"k": 0}, range(2))) == ["a", "b", 1, "k", 0, 1]


def result_of_plain():
    value = yield from [1, 2]
    yield ("value", value)


assert list(result_of_plain()) == [1, 2, ("value", None)]


# recursion
class Node:
    def __init__(self, value, left=None, right=None):
        self.value, self.left, self.right = value, left, right

    def __iter__(self):
        if self.left:
            yield from self.left
        yield self.value
        if self.right:
            yield from self.right


tree = Node(4, Node(2, Node(1), Node(3)), Node(6, Node(5)))
assert list(tree) == [1, 2, 3, 4, 5, 6]


def countdown(n):
    if n:
        yield n
        return (yield from countdown(n - 1)) + 1
    return 0


def total():
    depth = yield from countdown(4)
    yield ("depth", depth)


assert list(total()) == [4, 3, 2, 1, ("depth", 4)]


# a hand-made iterator with send and throw methods
class Custom:
    def __init__(self):
        self.log = []

    def __iter__(self):
        return self

    def __next__(self):
        self.log.append("next")
        return "n"

    def send(self, value):
        self.log.append(("send", value))
        if value == "end":
            raise StopIteration("custom result")
        return "s"

    def throw(self, error, *rest):
        self.log.append(("throw", type(error) if not isinstance(error, type) else error))
        return "t"


custom = Custom()


def delegate():
    return (yield from custom)


d = delegate()
assert next(d) == "n"
assert d.send(7) == "s"
assert d.throw(KeyError()) == "t"
try:
    d.send("end")
except StopIteration as stop:
    assert stop.value == "custom result"
assert custom.log == ["next", ("send", 7), ("throw", KeyError), ("send", "end")]

# yield from in an expression statement drops the result
def dropping():
    yield from countdown(2)
    yield "tail"


assert list(dropping()) == [2, 1, "tail"]

answer = "ok"
