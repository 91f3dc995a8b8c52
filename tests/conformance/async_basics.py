# Coroutines driven by hand: no event loop needed.

import types

log = []


class Ask:
    """An awaitable which hands a question to whoever drives the coroutine."""

    def __init__(self, question):
        self.question = question

    def __await__(self):
        reply = yield self.question
        return reply


def drive(coroutine, replies):
    asked = []
    replies = iter(replies)
    value = None
    while True:
        try:
            asked.append(coroutine.send(value))
        except StopIteration as stop:
            return asked, stop.value
        value = next(replies)


async def add():
    log.append("begin")
    left = await Ask("left")
    right = await Ask("right")
    log.append("end")
    return left + right


coroutine = add()
assert isinstance(coroutine, types.CoroutineType)
assert log == []
assert drive(coroutine, [2, 3]) == (["left", "right"], 5)
assert log == ["begin", "end"]


async def nested():
    first = await add()
    second = await add()
    return first * second


assert drive(nested(), [1, 2, 3, 4]) == (["left", "right"] * 2, 21)

try:
    coroutine.send(None)
except RuntimeError as error:
    assert "already awaited" in str(error)
else:
    raise AssertionError


# await in many positions, order preserved
async def positions():
    items = [await Ask(1), await Ask(2)]
    table = {await Ask("k"): await Ask("v")}
    if await Ask("if"):
        items.append("yes")
    while await Ask("while"):
        items.append("turn")
    assert await Ask("assert")
    text = f"{await Ask('f')}!"
    picked = (await Ask("a")) or (await Ask("b"))
    return items, table, text, picked


asked, result = drive(positions(), ["x", "y", "K", "V", True, 1, 0, True, "eff", 0, "bee"])
assert asked == [1, 2, "k", "v", "if", "while", "while", "assert", "f", "a", "b"]
assert result == (["x", "y", "yes", "turn"], {"K": "V"}, "eff!", "bee")


# exceptions go in and out
async def guarded():
    try:
        await Ask("fail please")
    except KeyError as error:
        return "caught " + error.args[0]
    finally:
        log.append("finally")


g = guarded()
assert g.send(None) == "fail please"
try:
    g.throw(KeyError("k"))
except StopIteration as stop:
    assert stop.value == "caught k"
assert log[-1] == "finally"

g = guarded()
g.send(None)
log.clear()
g.close()
assert log == ["finally"]


async def raising():
    await Ask("once")
    raise ZeroDivisionError("async")


try:
    drive(raising(), [None])
except ZeroDivisionError as error:
    assert str(error) == "async"
else:
    raise AssertionError

# async lambdas do not exist, but lambdas may return coroutines; methods may be async
class Service:
    def __init__(self, factor):
        self.factor = factor

    async def scale(self, question):
        return self.factor * await Ask(question)

    @classmethod
    async def make(cls):
        return cls(await Ask("factor"))

    @staticmethod
    async def fixed():
        return 42


async def use():
    service = await Service.make()
    return [await service.scale("n"), await Service.fixed(), await (lambda: service.scale("m"))()]


assert drive(use(), [10, 3, 4]) == (["factor", "n", "m"], [30, 42, 40])
assert add.__code__.co_flags & 0x80

answer = "ok"
