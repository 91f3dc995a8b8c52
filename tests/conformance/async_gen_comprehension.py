# Asynchronous generators and asynchronous comprehensions, driven by hand.

import types

log = []


class Pause:
    def __await__(self):
        yield "pause"
        return None


def run(coroutine):
    pauses = 0
    while True:
        try:
            assert coroutine.send(None) == "pause"
            pauses += 1
        except StopIteration as stop:
            return stop.value, pauses


async def count(limit):
    log.append("open")
    try:
        for k in range(limit):
            await Pause()
            yield k
    finally:
        log.append("close")


assert isinstance(count(0), types.AsyncGeneratorType)
assert log == []


async def use_for():
    out = []
    async for k in count(3):
        out.append(k)
    else:
        out.append("else")
    return out


assert run(use_for()) == ([0, 1, 2, "else"], 3)
assert log == ["open", "close"]


async def comprehensions():
    a_list = [k * 2 async for k in count(3)]
    a_set = {k % 2 async for k in count(4)}
    a_dict = {k: str(k) async for k in count(2) if k}
    nested = [(a, b) async for a in count(2) for b in "xy"]
    awaited = [await square(k) for k in (1, 2, 3)]
    lazy = (k async for k in count(2))
    return a_list, a_set, a_dict, nested, awaited, [k async for k in lazy]


async def square(n):
    await Pause()
    return n * n


result, pauses = run(comprehensions())
assert result == (
    [0, 2, 4],
    {0, 1},
    {1: "1"},
    [(0, "x"), (0, "y"), (1, "x"), (1, "y")],
    [1, 4, 9],
    [0, 1],
)
assert pauses == 3 + 4 + 2 + 2 + 3 + 2


# asend, athrow, aclose
async def echo():
    received = []
    try:
        while True:
            try:
                received.append((yield len(received)))
            except KeyError:
                received.append("key error")
    finally:
        await Pause()
        log.append(tuple(received))


async def conversation():
    g = echo()
    replies = [await g.asend(None)]
    replies.append(await g.asend("one"))
    replies.append(await g.athrow(KeyError()))
    replies.append(await g.__anext__())
    await g.aclose()
    try:
        await g.__anext__()
    except StopAsyncIteration:
        replies.append("stopped")
    return replies


log.clear()
assert run(conversation()) == ([0, 1, 2, 3, "stopped"], 1)
assert log == [("one", "key error", None)]


# leaving early, then closing explicitly
async def early():
    g = count(10)
    async for k in g:
        if k == 1:
            break
    log.append("left")
    await g.aclose()
    return k


log.clear()
assert run(early())[0] == 1
assert log == ["open", "left", "close"]


# anext with a default, aiter
async def builtin_forms():
    g = aiter(count(1))
    return await anext(g), await anext(g, "default")


assert run(builtin_forms())[0] == (0, "default")


# a closure over an async loop variable
async def closures():
    return [(lambda: k)() async for k in count(3)], [f() for f in [lambda: k async for k in count(3)]]


assert run(closures())[0] == ([0, 1, 2], [2, 2, 2])

answer = "ok"
