"""Standard-library functions that call the program's functions, shared iterators, and stateful objects."""

from __future__ import annotations

from .registry import feature
from .writer import Writer


@feature()
def sorting_with_a_key(w: Writer) -> None:
    w.keep(
        w.choose(
            f"sorted({w.sequence()}, key=lambda v: (note(v), -v))",
            f"sorted({w.sequence()}, key={w.function()}, reverse=True)",
            f"min({w.sequence()} + [4, 5], key={w.function()})",
            f"max([4, 5, {w.digit()}], key=lambda v: (weigh(v), {w.function()}(v)))",
        )
    )
    w.put(f"xs.sort(key={w.function()})")
    w.ask()


@feature()
def reducing(w: Writer) -> None:
    w.need("from functools import reduce")
    w.keep(f"reduce(lambda u, v: (u + {w.function()}(v)) % 97, {w.sequence()}, {w.call()})")
    w.keep(f"reduce(blend, {w.sequence()}, {w.digit()})")


@feature()
def accumulating(w: Writer) -> None:
    it = w.fresh("running")
    w.need("import itertools")
    w.put(f"{it} = itertools.accumulate({w.sequence()}, lambda u, v: note(u + v) % 97, initial={w.call()})")
    w.scope.iterators.append(it)
    w.keep(f"(next({it}, 0), {w.call()}, list({it}))")


@feature()
def shared_iterator(w: Writer) -> None:
    it = w.fresh("it")
    w.put(f"{it} = {w.choose('iter', 'reversed')}([{w.digit()}, {w.name()}, {w.digit()}, {w.digit()}, {w.call()}])")
    w.scope.iterators.append(it)
    w.keep(
        w.choose(
            f"(next({it}, 0), weigh(next({it}, 0)), {w.call()})",
            f"[weigh(v) for v, _ in zip({it}, range(2))]",
            f"weigh(3) in {it}",
            f"[(v, next({it}, 0)) for v in {it}]",
        )
    )
    w.keep(f"({w.call()}, [*map({w.function()}, {it})])")


@feature()
def boxed_iterator(w: Writer) -> None:
    box = w.fresh("box")
    made = w.choose(
        f"iter({w.sequence()})", f"map({w.function()}, {w.sequence()})", f"({w.function()}(v) for v in {w.sequence()})",
        f"filter({w.function()}, {w.sequence()})", f"enumerate({w.sequence()})", f"zip({w.sequence()}, {w.sequence()})",
    )  # fmt: skip
    w.put(f"{box} = {w.choose('[' + made + ']', '{0: ' + made + '}', '(' + made + ',)')}")
    w.keep(f"(next({box}[0], 0), {w.call()}, list({box}[0]), {w.call()})")


@feature()
def lazy_pipeline(w: Writer) -> None:
    it = w.fresh("lazy")
    w.need("import itertools")
    w.put(
        f"{it} = "
        + w.choose(
            f"itertools.takewhile(lambda v: weigh(v) < 9, {w.sequence()} + [3])",
            f"itertools.chain(map({w.function()}, {w.sequence()}), {w.sequence()})",
            f"itertools.islice(map({w.function()}, itertools.count({w.digit()})), 4)",
            f"itertools.starmap(blend, zip({w.sequence()}, {w.sequence()}))",
            f"itertools.compress([4, 5, 6], map(is_lucky, {w.sequence()}))",
            f"itertools.filterfalse(is_lucky, map({w.function()}, {w.sequence()}))",
            f"itertools.dropwhile(is_lucky, {w.sequence()})",
        )
    )
    w.scope.iterators.append(it)
    w.keep(f"({w.call()}, next({it}, 0), {w.call()}, sum({it}))")


@feature()
def tee_and_group(w: Writer) -> None:
    p, q = w.fresh("p"), w.fresh("q")
    w.need("import itertools")
    w.put(f"{p}, {q} = itertools.tee(map({w.function()}, {w.sequence()} + [2, 2]))")
    w.scope.iterators += [p, q]
    w.keep(
        f"(next({p}, 0), {w.call()}, [(key, len(list(group))) for key, group in itertools.groupby({q}, key=is_lucky)], list({p}))"
    )


@feature()
def counters(w: Writer) -> None:
    count, cycle = w.fresh("count"), w.fresh("cycle")
    w.need("import itertools")
    w.put(f"{count}, {cycle} = itertools.count({w.digit()}), itertools.cycle([1, {w.digit()}])")
    w.scope.iterators += [count, cycle]
    w.keep(f"([weigh(next({count})) for _ in range(2)], next({cycle}), {w.call()}, next({cycle}), next({count}))")


@feature()
def sentinel_iterator(w: Writer) -> None:
    stack = w.fresh("stack")
    w.put(f"{stack} = [0, {w.digit()}, {w.call()}, {w.digit()}]")
    w.keep(f"([weigh(v) for v in iter({stack}.pop, 0)], {w.call()}, {stack})")


@feature()
def deque_and_heap(w: Writer) -> None:
    queue, heap = w.fresh("queue"), w.fresh("heap")
    w.need("from collections import deque", "import heapq")
    w.put(f"""
    {queue} = deque({w.sequence()} + [1], maxlen=5)
    while {queue} and len(log) < 200:
        v = {queue}.{w.choose("popleft", "pop")}()
        {w.choose("log.append(weigh(v))", "print(v)", "note(v)")}
        if {w.choose("weigh(v) > 8", "v > 6 and is_lucky(v)")}:
            {queue}.append(v // 2)
    {heap} = []
    for v in {w.sequence()} + [6, 3]:
        heapq.heappush({heap}, ({w.choose("weigh(v)", "note(v)")}, v))
    """)
    w.keep(f"(heapq.heappop({heap}), {w.call()}, heapq.nsmallest(2, {w.sequence()}, key={w.function()}), {heap})")


@feature()
def searching(w: Writer) -> None:
    w.need("import bisect")
    w.keep(f"bisect.bisect([1, 4, 7], {w.number()}, key=lambda v: note(v))")
    w.put(f"bisect.insort(xs, {w.call()}, key={w.function()})")


@feature()
def substitution(w: Writer) -> None:
    w.need("import re")
    w.keep(
        w.choose(
            f"re.sub('[0-9]', lambda m: str({w.function()}(int(m.group()))), 'a1b2c{w.digit()}')",
            f"re.sub('a', lambda m: {w.text()}, 'banana', count={w.random.randint(1, 3)})",
            f"[weigh(int(m.group())) for m in re.finditer('[0-9]', '1 2 {w.digit()}')]",
        )
    )


@feature()
def text_buffer(w: Writer) -> None:
    out = w.fresh("out")
    w.need("import io", "import contextlib")
    w.put(f"{out} = io.StringIO()")
    w.put(
        w.choose(
            f"print({w.call()}, {w.text()}, file={out})",
            f"with contextlib.redirect_stdout({out}):\n    print({w.call()})",
            f"{out}.write({w.text()})",
            f"list(map({out}.write, [{w.text()}, {w.text()}]))",
        )
    )
    w.keep(f"({w.call()}, {out}.write({w.text()}), {out}.getvalue(), {out}.tell())")


@feature()
def random_numbers(w: Writer) -> None:
    dice, chance = w.fresh("dice"), w.fresh("chance")
    w.need("import random")
    w.put(f"{dice} = random.Random({w.digit()})")
    w.put(f"{chance} = random.random()")  # visible only in the trace: under plain Python, the number is different
    w.keep(f"({dice}.randint(1, 9), {w.call()}, weigh({dice}.randint(1, 9)))")
    w.put(f"random.seed({w.call()})")
    w.keep(
        f"(random.randrange(50), {w.call()}, random.sample(range(9), 3), {w.choose('random.choice', 'max')}([3, 1, 2]))"
    )


@feature()
def clock(w: Writer) -> None:
    now, then, clock = w.fresh("now"), w.fresh("then"), w.fresh("clock")
    w.need("import time")
    w.put(f"{clock} = time.{w.choose('time', 'monotonic', 'perf_counter')}")
    w.put(f"{now} = {clock}()")
    w.ask()
    w.put(f"{then} = {clock}()")
    w.keep(f"({then} >= {now}, {w.call()})")
    w.put(f"{then} = list(map(lambda v: {clock}(), {w.sequence()}))")
    w.keep(f"(len({then}), {w.call()})")


@feature()
def counting(w: Writer) -> None:
    counts, chain = w.fresh("counts"), w.fresh("chain")
    w.need("from collections import Counter, ChainMap")
    w.put(f"{counts} = Counter(map({w.function()}, {w.sequence()}))")
    w.put(f"{counts}[{w.call()}] += 1\n{counts}.update({w.sequence()})")
    w.put(f"{chain} = ChainMap({{}}, {counts})\n{chain}[{w.call()}] = {w.digit()}")
    w.keep(f"(sorted({counts}.items()), {counts}.most_common(1), {w.call()}, sorted({chain}))")


@feature()
def json_callbacks(w: Writer) -> None:
    w.need("import json")
    w.keep(
        w.choose(
            f"json.dumps({{'k': {{{w.digit()}}}, 'v': {w.call()}}}, default=lambda o: note(len(o)))",
            f"json.loads('[1, {w.digit()}]', parse_int=lambda t: {w.function()}(int(t)))",
            f"json.loads('{{\"p\": {w.digit()}}}', object_hook=lambda o: note(o['p']))",
        )
    )
    w.ask()


@feature()
def copying(w: Writer) -> None:
    cls, one = w.fresh("Doc"), w.fresh("doc")
    w.need("import copy")
    w.put(f"""
    class {cls}:
        def __init__(self, v):
            self.v = [v]
        def __{w.choose("deepcopy", "deepcopy")}__(self, memo):
            log.append('copied')
            return {cls}({w.choose("self.v[0]", "weigh(self.v[0])")})
    {one} = {cls}({w.call()})
    """)
    w.keep(f"(copy.deepcopy({one}).v, {w.call()}, copy.copy({one}).v is {one}.v)")


@feature()
def comparator(w: Writer) -> None:
    w.need("from functools import cmp_to_key")
    w.keep(f"sorted({w.sequence()} + [4, 1], key=cmp_to_key(lambda u, v: {w.function()}(u) - {w.function()}(v)))")


@feature()
def context_variable(w: Writer) -> None:
    var, token = w.fresh("var"), w.fresh("token")
    w.need("import contextvars")
    w.put(f"{var} = contextvars.ContextVar('{var}', default={w.digit()})")
    w.put(f"{token} = {var}.set({w.call()})")
    w.keep(f"({var}.get(), {w.call()}, contextvars.copy_context().run({var}.set, {w.number()}) is None, {var}.get())")
    w.put(f"{var}.reset({token})")
    w.keep(f"weigh({var}.get())")


@feature()
def queues(w: Writer) -> None:
    q = w.fresh("jobs")
    w.need("import queue")
    w.put(f"{q} = queue.{w.choose('Queue', 'LifoQueue', 'PriorityQueue')}()")
    w.put(f"for v in {w.sequence()} + [{w.call()}]:\n    {q}.put(v)")
    w.keep(f"(weigh({q}.get()), {w.call()}, {q}.qsize())")
    w.put(f"while not {q}.empty():\n    log.append({w.function()}({q}.get()))")


@feature("module", "function")
def thread(w: Writer) -> None:
    job = w.fresh("thread")
    w.need("import threading")
    w.put(f"{job} = threading.Thread(target={w.sink()}, args=({w.call()},))")
    w.put(f"{job}.start()\n{job}.join()")
    w.keep(f"({job}.is_alive(), {w.call()})")


@feature()
def decimals(w: Writer) -> None:
    w.need("from decimal import Decimal, getcontext, localcontext", "from fractions import Fraction")
    w.keep(
        f"(str(Decimal({w.call()}) / 3)[:6], {w.call()}, str(Fraction({w.call()}, 7)), Fraction({w.number()} % 5, 3) > 1)"
    )


@feature()
def big_numbers_and_bytes(w: Writer) -> None:
    data = w.fresh("data")
    w.put(f"{data} = bytearray({w.sequence()})")
    w.put(f"{data}.append({w.call()})")
    w.keep(f"(bytes({data}), {w.call()}, 2 ** (60 + {w.call()}), divmod({w.number()}, 7), round({w.call()} / 3, 2))")
