# async with and async for over hand-written protocols.

log = []


class Pause:
    def __init__(self, tag):
        self.tag = tag

    def __await__(self):
        yield self.tag
        return self.tag


def run(coroutine):
    tags = []
    while True:
        try:
            tags.append(coroutine.send(None))
        except StopIteration as stop:
            return stop.value, tags


class Manager:
    def __init__(self, name, swallow=()):
        self.name = name
        self.swallow = tuple(swallow)

    async def __aenter__(self):
        await Pause("enter " + self.name)
        log.append("enter " + self.name)
        return self.name.upper()

    async def __aexit__(self, kind, value, tb):
        await Pause("exit " + self.name)
        log.append(("exit " + self.name, kind))
        return kind is not None and issubclass(kind, self.swallow)


async def simple():
    async with Manager("a") as name:
        log.append(name)
        return "returned"


assert run(simple()) == ("returned", ["enter a", "exit a"])
assert log == ["enter a", "A", ("exit a", None)]


async def several():
    async with Manager("a") as a, Manager("b", [KeyError]) as b:
        log.append(a + b)
        raise KeyError("swallowed by b")
    return "went on"


log.clear()
assert run(several())[0] == "went on"
assert log == ["enter a", "enter b", "AB", ("exit b", KeyError), ("exit a", None)]


async def parenthesised():
    async with (
        Manager("x") as x,
        Manager("y") as y,
    ):
        return x, y


assert run(parenthesised()) == (("X", "Y"), ["enter x", "enter y", "exit y", "exit x"])


async def not_swallowed():
    async with Manager("n", [ValueError]):
        raise LookupError("passes")


log.clear()
try:
    run(not_swallowed())
except LookupError as error:
    assert error.args == ("passes",)
else:
    raise AssertionError
assert log == ["enter n", ("exit n", LookupError)]


class Countdown:
    def __init__(self, start):
        self.current = start
        log.append("made")

    def __aiter__(self):
        log.append("aiter")
        return self

    async def __anext__(self):
        await Pause("next")
        if self.current == 0:
            raise StopAsyncIteration
        self.current -= 1
        return self.current


async def loop(stop_at=None, skip=None):
    out = []
    async for k in Countdown(3):
        if k == stop_at:
            break
        if k == skip:
            continue
        out.append(k)
    else:
        out.append("else")
    return out


log.clear()
assert run(loop()) == ([2, 1, 0, "else"], ["next"] * 4)
assert log == ["made", "aiter"]
assert run(loop(stop_at=1)) == ([2], ["next"] * 2)
assert run(loop(skip=1))[0] == [2, 0, "else"]


# break, continue and return through async with inside async for
async def through():
    async for k in Countdown(4):
        async with Manager("m%d" % k):
            if k == 3:
                continue
            if k == 1:
                return ("at", k)
            log.append(k)


log.clear()
assert run(through())[0] == ("at", 1)
assert log == [
    "made", "aiter",
    "enter m3", ("exit m3", None),
    "enter m2", 2, ("exit m2", None),
    "enter m1", ("exit m1", None),
]


# a starred target and a subscript target
async def targets():
    box = {}

    async def pairs():
        yield 1, 2, 3
        yield 4, 5

    async for head, *box["tail"] in pairs():
        box[head] = list(box["tail"])
    return box


assert run(targets())[0] == {"tail": [5], 1: [2, 3], 4: [5]}

answer = "ok"
