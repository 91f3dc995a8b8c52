"""Programs with hidden side effects: constructors, streams, clocks, random numbers, iterators, exits.

Each has calls that lookahead may send ahead and, between them, an effect that must happen once and in program order.
"""

from __future__ import annotations

from textwrap import dedent

from overlap_builtins import BUILTINS
from overlap_noting import noting

WHOLE = {
    "constructor_in_map": """
        class Item:
            made = []
            def __init__(self, v):
                self.v = v
                Item.made.append(v)
        a = weigh(1)
        items = list(map(Item, [1, 2, 3]))
        b = weigh(len(items))
        answer = (a, b, Item.made)
    """,
    "constructor_that_numbers": """
        class Item:
            count = 0
            def __init__(self):
                Item.count += 1
                self.id = Item.count
        make = Item
        a = weigh(1)
        b = kind_of([make().id for _ in range(3)])
        answer = (a, b, Item.count)
    """,
    "constructor_by_new": """
        made = []
        class Item:
            def __new__(cls, v):
                made.append(v)
                return super().__new__(cls)
        build = [Item]
        a = weigh(1)
        b = weigh(len([build[0](v) for v in (1, 2)]))
        answer = (a, b, made)
    """,
    "constructor_of_an_error": """
        made = []
        class Broken(Exception):
            def __init__(self, v):
                made.append(v)
        fail = Broken
        a = weigh(1)
        b = weigh(len([fail(v) for v in (1, 2)]))
        answer = (a, b, made)
    """,
    "constructor_of_a_named_tuple": """
        from typing import NamedTuple
        made = []
        class Row(NamedTuple):
            v: int
            def __len__(self):
                made.append(self.v)
                return 1
        a = weigh(1)
        b = weigh(sum(map(len, map(Row, [1, 2]))))
        answer = (a, b, made)
    """,
    "print_alias": """
        emit = print
        a = weigh(1)
        b = kind_of(list(map(emit, [1, 2])))
        answer = (a, b)
    """,
    "print_partial": """
        from functools import partial
        say = partial(print, 'said')
        a = weigh(1)
        b = kind_of([say(v) for v in (1, 2)])
        answer = (a, b)
    """,
    "print_by_write": """
        import sys
        write = sys.stdout.write
        a = weigh(1)
        b = kind_of([write(f'{v}\\n') for v in (1, 2)])
        answer = (a, b)
    """,
    "print_as_default": """
        def tell(v, out=print):
            out(v)
            return v
        a = weigh(1)
        b = weigh(tell(5))
        answer = (a, b)
    """,
    "print_to_a_buffer": """
        import io
        out = io.StringIO()
        put = out.write
        a = weigh(1)
        b = kind_of(list(map(put, ['x', 'yz'])))
        answer = (a, b, out.getvalue())
    """,
    "exit_alias": """
        import sys
        answer = 0
        stop = sys.exit
        a = weigh(1)
        if a > 20:
            stop()
        b = weigh(2)
        answer = (a, b)
    """,
    "exit_alias_in_map": """
        import sys
        stop = sys.exit
        answer = 'start'
        a = weigh(1)
        b = weigh(2)
        answer = (a, b)
        list(map(stop, [0]))
        answer = weigh(3)
    """,
    "exit_partial_as_key": """
        import sys
        from functools import partial
        stop = lambda v: sys.exit() if v > 2 else v
        answer = 'start'
        a = weigh(1)
        answer = weigh(max([1, 2], key=stop))
        b = weigh(max([1, 3], key=stop))
        answer = 'not reached'
    """,
    "exit_by_raise": """
        end = SystemExit
        answer = 1
        a = weigh(1)
        if is_lucky(a):
            answer = 2
            raise end
        answer = weigh(a)
        raise end(0)
        answer = 3
    """,
    "clock_alias": """
        import time as clock
        now = clock.time
        a = weigh(1)
        first = now()
        b = weigh(2)
        later = now()
        c = weigh(3)
        answer = (a, b, c, later > first)
    """,
    "clock_in_map": """
        import time
        now = time.monotonic
        a = weigh(1)
        times = list(map(lambda v: now(), range(3)))
        b = weigh(len(times))
        last = now()
        answer = (a, b, times == sorted(times))
    """,
    "clock_of_datetime": """
        from datetime import datetime
        now = datetime.now
        a = weigh(1)
        first = now()
        b = weigh(2)
        second = now()
        answer = (a, b, first <= second)
    """,
    "dice_alias": """
        import random
        random.seed(5)
        roll = random.randint
        a = weigh(1)
        b = weigh(roll(1, 6))
        c = weigh(roll(1, 6))
        answer = (a, b, c, random.randint(1, 1000))
    """,
    "shuffle_alias": """
        import random
        xs = [1, 2, 3, 4, 5]
        mix = random.Random(4).shuffle
        a = weigh(1)
        b = kind_of(mix(xs))
        c = total_of(xs[:2])
        answer = (a, b, c, xs)
    """,
    "unseeded_numbers": """
        import os, secrets, uuid
        make = [os.urandom, secrets.token_hex]
        a = weigh(1)
        first = make[0](4)
        b = weigh(2)
        second = make[1](4)
        c = weigh(len(str(uuid.uuid4())))
        answer = (a, b, c)
    """,
    "next_alias": """
        take = next
        it = iter([1, 2, 3])
        a = weigh(1)
        b = weigh(take(it))
        c = weigh(take(it))
        answer = (a, b, c, list(it))
    """,
    "counter_method_alias": """
        import itertools
        number = itertools.count(1).__next__
        a = weigh(1)
        b = weigh(number())
        c = weigh(number())
        answer = (a, b, c, number())
    """,
    "iterator_in_a_partial": """
        from functools import partial
        take = partial(next, iter([1, 2, 3]), 0)
        a = weigh(1)
        b = weigh(take())
        answer = (a, b, take(), take(), take())
    """,
    "iterator_as_default": """
        def take(it=iter([1, 2, 3])):
            return next(it, 0)
        f = take
        a = weigh(1)
        b = weigh(sum(map(lambda v: f(), range(2))))
        answer = (a, b, take())
    """,
    "precision_alias": """
        import decimal
        from decimal import Decimal
        settings = decimal.getcontext()
        a = weigh(1)
        setattr(settings, 'prec', 4)
        b = shout(str(Decimal(1) / Decimal(3)))
        answer = (a, b)
    """,
    "environment_alias": """
        import os
        env = os.environ
        a = weigh(1)
        b = kind_of(env.setdefault('COC_TEST_KEY', 'first'))
        c = kind_of(env.pop('COC_TEST_KEY', 'gone'))
        answer = (a, b, c, 'COC_TEST_KEY' in env)
    """,
    "context_variable_alias": """
        import contextvars
        depth = contextvars.ContextVar('depth', default=0)
        put = depth.set
        a = weigh(1)
        b = weigh(len([put(v) for v in (1, 2)]))
        c = weigh(depth.get())
        answer = (a, b, c)
    """,
    "lock_alias": """
        import threading
        lock = threading.Lock()
        take, leave = lock.acquire, lock.release
        a = weigh(1)
        b = kind_of(take(False))
        c = kind_of(take(False))
        leave()
        answer = (a, b, c, lock.locked())
    """,
    "heap_alias": """
        import heapq
        heap = [1, 5, 3]
        push, pop = heapq.heappush, heapq.heappop
        a = weigh(1)
        b = weigh(pop(heap))
        c = kind_of(push(heap, weigh(b)))
        answer = (a, b, c, sorted(heap))
    """,
    "effect_of_format": """
        log = []
        form = type('Form', (), {'__format__': lambda self, how: log.append(how) or how})
        one = form()
        a = weigh(1)
        b = shout(f'{one:x} {one:y}')
        answer = (a, b, log)
    """,
    "effect_of_comparison": """
        log = []
        def less(self, other):
            log.append((self.v, other.v))
            return self.v < other.v
        Card = type('Card', (), {'__lt__': less, '__init__': lambda self, v: setattr(self, 'v', v)})
        a = weigh(1)
        b = weigh(min([Card(3), Card(1), Card(2)]).v)
        answer = (a, b, log)
    """,
    "effect_of_hash": """
        log = []
        Key = type('Key', (), {'__hash__': lambda self: log.append('hash') or 1})
        key = Key()
        a = weigh(1)
        b = weigh(len({key: 1}))
        c = weigh(len({key}))
        answer = (a, b, c, log)
    """,
    "effect_of_a_weak_reference": """
        import weakref
        log = []
        class Box:
            pass
        def make():
            box = Box()
            return weakref.ref(box, lambda ref: log.append('gone'))
        f = make
        a = weigh(1)
        b = kind_of([f()() for _ in range(2)])
        answer = (a, b, log)
    """,
    "effect_at_the_end": """
        import atexit
        later = atexit.register
        a = weigh(1)
        b = kind_of(later(print, 'the end') is print)
        c = weigh(2)
        answer = (a, b, c)
    """,
    "effect_of_an_import": """
        import importlib
        load = importlib.import_module
        a = weigh(1)
        b = shout(load('this').__name__)
        answer = (a, b)
    """,
    "queue_behind_a_branch": """
        import asyncio
        a, b, c, d = 1, 2, 3, 4
        p = shout(name_of(3) if is_lucky(5) else 'no')
        q = kind_of((blend(b, scale=9), a + lucky_number()))
        if blend(d, scale=5) > 1:
            async def make(queue):
                for v in [a, blend(b, scale=2), 0]:
                    await queue.put(weigh(v))
                await queue.put(None)
            async def take(queue):
                got = []
                while (v := await queue.get()) is not None:
                    got.append(await fetch(v))
                return got
            async def main():
                queue = asyncio.Queue(maxsize=1)
                _, got = await asyncio.gather(make(queue), take(queue))
                return got, await fetch(9), await rank(1)
            r = weigh(b)
            s = asyncio.run(main())
        else:
            s = weigh(weigh(b))
        t = kind_of(kind_of(c))
        answer = (p, q, s, t)
    """,
    "value_shared_by_two_calls": """
        first = pieces(7)
        first.append(9)
        a = weigh(1)
        second = pieces(7)
        grow = second.append
        b = kind_of([grow(v) for v in (1, 2)])
        third = pieces(7)
        answer = (first, second, third, total_of(second))
    """,
    "argument_that_changes": """
        xs = [1]
        grow = xs.append
        a = total_of(xs)
        grow(a)
        b = total_of(xs)
        xs[0] = b
        c = total_of(xs)
        answer = (a, b, c, xs)
    """,
}


def effects() -> dict[str, str]:
    """Return the programs by name, with those of `overlap_noting` and `overlap_builtins`."""
    return noting() | {name: dedent(body).lstrip() for name, body in (WHOLE | BUILTINS).items()}
