# asyncio.run with tasks, gather, queues, events, cancellation; no sleeping but sleep(0).

import asyncio

log = []


async def ticker(name, count):
    for k in range(count):
        log.append((name, k))
        await asyncio.sleep(0)
    return name * count


async def gathered():
    return await asyncio.gather(ticker("a", 2), ticker("b", 3))


assert asyncio.run(gathered()) == ["aa", "bbb"]
assert log == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("b", 2)]


async def with_queue():
    queue = asyncio.Queue(maxsize=1)
    consumed = []

    async def producer():
        for k in range(4):
            await queue.put(k)
        await queue.put(None)

    async def consumer():
        while (item := await queue.get()) is not None:
            consumed.append(item)

    await asyncio.gather(producer(), consumer())
    return consumed


assert asyncio.run(with_queue()) == [0, 1, 2, 3]


async def cancelled():
    trail = []

    async def victim():
        trail.append("start")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            trail.append("cancelled")
            raise
        finally:
            trail.append("finally")

    task = asyncio.create_task(victim())
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        trail.append("seen")
    assert task.cancelled()
    return trail


assert asyncio.run(cancelled()) == ["start", "cancelled", "finally", "seen"]


async def failing(kind):
    await asyncio.sleep(0)
    raise kind("from task")


async def errors():
    results = await asyncio.gather(failing(KeyError), ticker("c", 1), return_exceptions=True)
    assert isinstance(results[0], KeyError) and results[1] == "c"
    try:
        await failing(LookupError)
    except LookupError as error:
        return error.args


assert asyncio.run(errors()) == ("from task",)


async def groups():
    caught = []
    try:
        async with asyncio.TaskGroup() as group:
            fine = group.create_task(ticker("d", 1))
            group.create_task(failing(ValueError))
    except* ValueError as wrapped:
        caught.extend(type(e) for e in wrapped.exceptions)
    return caught, fine.result()


assert asyncio.run(groups()) == ([ValueError], "d")


async def signalled():
    event = asyncio.Event()
    lock = asyncio.Lock()
    trail = []

    async def waiter(n):
        await event.wait()
        async with lock:
            trail.append(("in", n))
            await asyncio.sleep(0)
            trail.append(("out", n))

    tasks = [asyncio.create_task(waiter(n)) for n in range(2)]
    await asyncio.sleep(0)
    trail.append("set")
    event.set()
    for task in tasks:
        await task
    return trail


assert asyncio.run(signalled()) == ["set", ("in", 0), ("out", 0), ("in", 1), ("out", 1)]

answer = "ok"
