"""Async programs: awaited calls, tasks, queues, async generators and context managers, cancellation."""

from __future__ import annotations

from .registry import feature
from .writer import Writer


def run(w: Writer, main: str) -> None:
    w.need("import asyncio")
    w.keep(f"asyncio.run({main}())")


@feature("module", "function")
def gathered(w: Writer) -> None:
    one, main = w.fresh("one"), w.fresh("main")
    w.put(f"""
    async def {one}(v):
        log.append(('start', v))
        x = await fetch({w.choose("v", "weigh(v)")})
        {w.choose("log.append(('middle', x))", "print('middle', v, x)", "pass")}
        return x + await rank({w.choose("x", "v")}, {w.digit()})
    async def {main}():
        return await asyncio.gather(*({one}(v) for v in {w.sequence()} + [{w.digit()}]))
    """)
    run(w, main)


@feature("module", "function")
def gathered_calls(w: Writer) -> None:
    main = w.fresh("main")
    w.put(f"""
    async def {main}():
        p, q = await asyncio.gather(fetch({w.number()}), rank({w.digit()}))
        rest = await asyncio.gather(*[fetch(v) for v in {w.sequence()}])
        return p, q, rest, [await rank(v, p) for v in {w.sequence()}]
    """)
    run(w, main)


@feature("module", "function")
def tasks(w: Writer) -> None:
    one, main = w.fresh("one"), w.fresh("main")
    w.put(f"""
    async def {one}(v):
        for k in range({w.random.randint(1, 3)}):
            {w.choose("log.append((v, k))", "print(v, k)", "pass")}
            v = await {w.choose("fetch(v + k)", "rank(v, k)")}
        return v
    async def {main}():
        jobs = [asyncio.create_task({one}(v)) for v in {w.sequence()} + [3]]
        first = await fetch({w.digit()})
        return first, [await job for job in jobs]
    """)
    run(w, main)


@feature("module", "function")
def task_group(w: Writer) -> None:
    one, main = w.fresh("one"), w.fresh("main")
    w.put(f"""
    async def {one}(v):
        x = await fetch(v)
        {w.choose("note(x)", "log.append(weigh(x))", "print(x)")}
        return x
    async def {main}():
        async with asyncio.TaskGroup() as group:
            jobs = [group.create_task({one}(v)) for v in ({w.digit()}, {w.number()})]
        return [job.result() for job in jobs]
    """)
    run(w, main)


@feature("module", "function")
def producer_and_consumer(w: Writer) -> None:
    make, take, main = w.fresh("make"), w.fresh("take"), w.fresh("main")
    w.put(f"""
    async def {make}(q):
        for v in {w.sequence()} + [{w.digit()}]:
            await q.put({w.choose("v", "weigh(v)", "await fetch(v)")})
        await q.put(None)
    async def {take}(q):
        got = []
        while (v := await q.get()) is not None:
            got.append({w.choose("await rank(v)", "weigh(v)", "note(v)", "await fetch(v)")})
        return got
    async def {main}():
        q = asyncio.Queue(maxsize={w.random.randint(1, 3)})
        _, got = await asyncio.gather({make}(q), {take}(q))
        return got, await fetch({w.digit()}), await rank(1)
    """)
    run(w, main)


@feature("module", "function")
def async_generator(w: Writer) -> None:
    gen, main = w.fresh("each"), w.fresh("main")
    w.put(f"""
    async def {gen}(n):
        try:
            for v in range(n % 4 + 1):
                {w.choose("log.append(v)", "print('yields', v)", "pass")}
                yield {w.choose("v", "await fetch(v)", "weigh(v)")}
        finally:
            log.append('over')
    async def {main}():
        got = [await fetch(v) async for v in {gen}({w.number()})]
        async for v in {gen}({w.digit()}):
            got.append(await rank(v))
        return got
    """)
    run(w, main)


@feature("module", "function")
def async_context(w: Writer) -> None:
    cls, main = w.fresh("Session"), w.fresh("main")
    w.put(f"""
    class {cls}:
        async def __aenter__(self):
            log.append('open')
            return await fetch({w.digit()})
        async def __aexit__(self, kind, error, trace):
            log.append(('close', await rank({w.digit()})))
            return kind is ValueError
    async def {main}():
        async with {cls}() as v:
            log.append(v)
            if {w.choose("is_lucky(v)", "v > 4", "weigh(v) > 4")}:
                raise ValueError(v)
            return await fetch(v)
    """)
    run(w, main)


@feature("module", "function")
def locks_and_events(w: Writer) -> None:
    one, main = w.fresh("one"), w.fresh("main")
    w.put(f"""
    async def {one}(lock, event, v):
        async with lock:
            log.append(('in', v))
            x = await fetch(v)
            log.append(('out', v))
        if {w.choose("is_lucky(x)", "x > 4", "v == 2")}:
            event.set()
        return await rank(x)
    async def {main}():
        lock, event = asyncio.{w.choose("Lock()", "Semaphore(2)")}, asyncio.Event()
        got = await asyncio.gather(*({one}(lock, event, v) for v in (1, 2, {w.digit()})))
        return got, event.is_set()
    """)
    run(w, main)


@feature("module", "function")
def cancellation(w: Writer) -> None:
    one, main = w.fresh("one"), w.fresh("main")
    w.put(f"""
    async def {one}(v):
        try:
            while True:
                log.append(v)
                v = await fetch(v)
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            log.append('cancelled')
            raise
    async def {main}():
        job = asyncio.create_task({one}({w.digit()}))
        got = [await rank(v) for v in ({w.digit()}, {w.digit()})]
        job.cancel()
        try:
            await job
        except asyncio.CancelledError:
            got.append({w.call()})
        return got
    """)
    run(w, main)


@feature("module", "function")
def errors_in_tasks(w: Writer) -> None:
    one, main = w.fresh("one"), w.fresh("main")
    w.put(f"""
    async def {one}(v):
        if await fetch(v) > {w.digit()}:
            raise ValueError(v)
        return await rank(v)
    async def {main}():
        got = await asyncio.gather(*({one}(v) for v in (1, 2, {w.digit()})), return_exceptions=True)
        return [repr(one) for one in got]
    """)
    run(w, main)


@feature("module", "function")
def coroutine_with_features(w: Writer) -> None:
    """A coroutine whose body is made of other features."""
    main = w.fresh("main")
    w.put(f"async def {main}():")
    with w.indented("coroutine"):
        for _ in range(w.random.randint(1, 3)):
            w.statement()
            if w.chance(0.5):
                n = w.fresh("n")
                w.put(f"{n} = await fetch({w.name()})")
                w.scope.numbers.append(n)
        w.put(f"return ({w.number()} + await rank({w.name()})) % 97")
    run(w, main)


@feature("module", "function")
def coroutine_by_hand(w: Writer) -> None:
    cls, co = w.fresh("Step"), w.fresh("co")
    w.put(f"""
    class {cls}:
        def __await__(self):
            got = yield {w.call()}
            return got
    async def {co}(v):
        p = await {cls}()
        log.append(p)
        return weigh(p + v)
    hand = {co}({w.number()})
    log.append(hand.send(None))
    try:
        hand.send({w.call()})
    except StopIteration as stop:
        log.append(stop.value)
    """)
