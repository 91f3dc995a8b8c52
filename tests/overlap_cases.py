"""Programs from a review, in which wrong lookahead would show: effects, iterators, patches, name clashes."""

from __future__ import annotations

CASES = {
    "a_map_effect": """
log = []
a = weigh(1)
x = list(map(log.append, [1, 2, 3]))
answer = log
""",
    "a_map_fn": """
log = []
def note(x):
    log.append(x)
    return x
a = weigh(1)
x = max([1, 2, 3], key=note)
answer = log
""",
    "a_re_sub_cb": """
import re
log = []
def note(m):
    log.append(m.group())
    return 'x'
a = weigh(1)
x = re.sub('a', note, 'banana')
answer = log
""",
    "a_box_it": """
it = iter([1, 2, 3])
box = [it]
a = weigh(1)
x = sum(box[0])
answer = x
""",
    "a_closure_it": """
def outer():
    it = iter([1, 2, 3])
    def inner(k):
        return k + sum(it)
    a = weigh(1)
    b = weigh(inner(2))
    return (a, b)
answer = outer()
""",
    "a_from_itertools": """
from itertools import islice
boxes = [islice([1, 2, 3], 2)]
a = weigh(1)
x = sum(boxes[0])
answer = x
""",
    "a_queue_get": """
import queue
q = queue.Queue()
for i in range(5): q.put(i)
a = weigh(1)
x = q.get()
answer = (a, x, q.qsize())
""",
    "a_builtins_patch": """
log = []
def mysum(x):
    log.append(1)
    return 5
__builtins__.sum = mysum
a = weigh(1)
x = sum([1])
answer = (a, x, log)
""",
    "a_globals_patch": """
log = []
def mysum(x):
    log.append(1)
    return 5
globals()['sum'] = mysum
a = weigh(1)
x = sum([1])
answer = (a, x, log)
""",
    "a_own_sub_aug": """
shared = [1]
def g(k):
    ys = [shared]
    ys[0] += [k]
    return len(shared)
a = weigh(1)
b = weigh(g(2))
answer = (a, b, shared)
""",
    "a_own_lambda": """
boxes = [[1], [2]]
def g(k):
    own = []
    own.append(k)
    return len(list(map(lambda own: own.append(k), boxes)))
a = weigh(1)
b = weigh(g(2))
answer = (a, b, boxes)
""",
    "a_method_name_clash": """
class Stack:
    def __init__(self):
        self.items = [4]
    def pop(self):
        return self.items[-1]
s = Stack()
xs = [1, 2, 3]
a = weigh(1)
x = xs.pop()
answer = (a, x, xs, s.pop())
""",
    "a_default_factory": """
from dataclasses import dataclass, field
import itertools
counter = itertools.count(1)
@dataclass
class Item:
    name: str
    id: int = field(default_factory=lambda: next(counter))
a = weigh(1)
x = Item('a')
y = Item('b')
answer = (a, x.id, y.id)
""",
    "a_class_rebound": """
log = []
class Box:
    pass
def note():
    log.append(1)
Box = note
a = weigh(1)
x = Box()
answer = log
""",
    "a_monkey_method": """
log = []
class Box:
    def size(self):
        return 1
Box.size = lambda self: log.append(1) or 2
b = Box()
a = weigh(1)
x = b.size()
answer = (x, log)
""",
    "a_lambda_dunder": """
log = []
class Box:
    __len__ = lambda self: log.append(1) or 2
b = Box()
a = weigh(1)
x = len(b)
answer = (x, log)
""",
    "a_prop_call": """
log = []
class Box:
    def _size(self):
        log.append(1)
        return 3
    size = property(_size)
b = Box()
a = weigh(1)
x = b.size
answer = (x, log)
""",
    "a_op_ior": """
import operator
s = {1}
a = weigh(1)
print(len(s))
b = weigh(2)
t = operator.ior(s, {2})
answer = (a, b, sorted(s))
""",
    "a_dd_box": """
from collections import defaultdict
d = defaultdict(lambda: defaultdict(int))
d['x']['y'] = 1
rows = list(d.values())
a = weigh(1)
print(len(rows[0]))
b = weigh(2)
c = rows[0]['z']
answer = (a, b, c, {k: dict(v) for k, v in d.items()})
""",
    "a_recursive_method": """
class Tree:
    def __init__(self, kids):
        self.kids = kids
    def depth(self):
        return 1 + max([c.depth() for c in self.kids] or [0])
t = Tree([Tree([]), Tree([Tree([])])])
a = weigh(1)
answer = (a, t.depth(), weigh(2))
""",
    "a_dict_changed": """
d = {1: 2, 3: 4}
for k in d:
    d[99] = 1
    x = weigh(k)
    break
answer = (x, d)
""",
    "a_set_changed": """
d = {1, 2}
for k in d:
    d.discard(k)
    x = weigh(k)
    break
answer = (x, d)
""",
    "a_loop_time": """
import asyncio, time
async def go():
    loop = asyncio.get_running_loop()
    a = weigh(1)
    t = loop.time()
    b = weigh(2)
    u = loop.time()
    return (a, b, t, u)
answer = asyncio.run(go())
""",
    "a_warn": """
import warnings
warnings.simplefilter('always')
a = weigh(1)
flag = len('ab') == 2
x = ~flag
answer = (a, x)
""",
    "a_weakref_fin": """
import weakref
class Box:
    pass
def g():
    b = Box()
    weakref.finalize(b, print, 'gone')
    return weigh(1)
x = g()
print('after')
y = weigh(2)
answer = (x, y)
""",
    "a_gen_finally": """
def gen():
    try:
        yield 1
        yield 2
    finally:
        print('closed')
def g():
    it = gen()
    next(it)
    return weigh(1)
x = g()
print('after')
y = weigh(2)
answer = (x, y)
""",
    "b_thread_start": """
import threading
log = []
t = threading.Thread(target=log.append, args=(1,))
a = weigh(1)
x = t.start()
t.join()
answer = (a, log)
""",
    "b_deep_rec": """
def g(k):
    if k > 0:
        for i in range(3):
            if i < 5:
                for j in range(2):
                    if j >= 0:
                        while k > 100:
                            k = weigh(k)
    return weigh(k + 7)
def h(k):
    return g(k) + g(k + 1)
def r(n):
    if n == 0:
        return weigh(1)
    x = r(n - 1)
    if x > 0:
        if x > 0:
            y = [h(q) for q in [1, 2, 3] if h(q) > 0]
    return x
depth = 0
def probe(n):
    try:
        return probe(n + 1)
    except RecursionError:
        return n
answer = [r(n) for n in (100, 700, 900, 950, 970, 980, 985)]
""",
    "b_settrace": """
import sys
count = [0]
def prof(frame, event, arg):
    count[0] += 1
def sq(x):
    return x * x
sys.setprofile(prof)
a = weigh(1)
b = weigh(sq(2))
sys.setprofile(None)
answer = (a, b, count[0])
""",
    "b_settrace2": """
import sys
seen = []
def tr(frame, event, arg):
    if frame.f_code.co_filename == '<program>':
        seen.append(frame.f_code.co_name)
def sq(x):
    return x * x
sys.settrace(tr)
a = weigh(1)
b = weigh(sq(2))
sys.settrace(None)
answer = (a, b, seen)
""",
    "b_decimal_flags": """
import decimal
from decimal import Decimal
a = weigh(1)
print(decimal.getcontext().flags[decimal.Inexact])
x = Decimal(1) / Decimal(3)
answer = (a, x)
""",
    "b_map_eval": """
log = []
a = weigh(1)
x = list(map(eval, ['log.append(1)']))
answer = (a, log)
""",
    "b_json_default": """
import json
log = []
def conv(o):
    log.append(1)
    return 'x'
a = weigh(1)
x = json.dumps({1: {2}}, default=conv)
answer = (a, x, log)
""",
    "b_getter_attr": """
from types import SimpleNamespace
log = []
ns = SimpleNamespace(get=lambda: log.append(1))
a = weigh(1)
x = ns.get()
answer = (a, log)
""",
    "b_coro_warn": """
import asyncio
async def main():
    q = asyncio.Queue()
    await q.put(5)
    a = weigh(1)
    c = q.get()
    return (a, await c)
answer = asyncio.run(main())
""",
    "b_alias_defaultdict": """
from collections import defaultdict as dd
boxes = [dd(list)]
a = weigh(1)
print(boxes)
b = weigh(2)
x = len(boxes[0]['k'])
answer = (a, b, x)
""",
    "b_cached_prop": """
from functools import cached_property
log = []
class Box:
    def _t(self):
        log.append('made')
        return 3
    t = cached_property(_t)
    t.__set_name__(None, 't')
b = Box()
a = weigh(1)
x = b.t
answer = (a, x, log)
""",
    "b_counter_key": """
import itertools
c = itertools.count()
xs = [3, 1, 2]
a = weigh(1)
ys = sorted(xs, key=lambda v: 0)
nxt = c.__next__
zs = list(map(lambda _: 0, xs))
i = list(map(str, xs))
answer = (a, ys, next(c))
""",
    "b_setdefault_lib": """
seen = set()
xs = [1, 2, 1, 3]
a = weigh(1)
dups = [x for x in xs if x in seen or seen.add(x)]
uniq = list(filter(lambda x: not (x in seen), xs))
answer = (a, dups, uniq)
""",
    "b_filter_seen": """
seen = set()
def fresh(x):
    if x in seen:
        return False
    seen.add(x)
    return True
xs = [1, 2, 1, 3]
a = weigh(1)
uniq = list(filter(fresh, xs))
answer = (a, uniq)
""",
    "b_callbacks_apply": """
log = []
def apply(fn, x):
    return fn(x)
a = weigh(1)
x = apply(log.append, 3)
answer = (a, log)
""",
    "b_bound_method_var": """
xs = [1, 2, 3]
a = weigh(1)
y = [p for p in map(xs.pop, [0, 0])]
answer = (a, y, xs)
""",
    "c_type_line": """
a = is_big(1)
if a or True:
    pass
answer = a
""",
    "d_ctx": """
import contextvars
v = contextvars.ContextVar('v', default=1)
a = weigh(1)
v.set(5)
b = weigh(v.get())
answer = (a, b)
""",
    "d_lru": """
import functools
@functools.lru_cache
def sq(x):
    return x * x
a = weigh(1)
b = weigh(sq(2))
answer = (a, b, sq.cache_info())
""",
    "d_lru2": """
import functools
def sq(x):
    return x * x
sq2 = functools.lru_cache(sq)
a = weigh(1)
xs = list(map(sq2, [1, 2, 3]))
answer = (a, sq2.cache_info())
""",
    "d_partial": """
from functools import partial
log = []
p = partial(log.append)
a = weigh(1)
xs = list(map(p, [1, 2]))
answer = log
""",
    "d_starimport": """
from math import *
a = weigh(1)
b = weigh(int(sqrt(16)))
answer = (a, b)
""",
    "d_class_loop": """
class C:
    xs = []
    for i in range(4):
        xs.append(weigh(i))
    n = len(xs)
answer = C.xs
""",
    "d_enum": """
from enum import Enum
class K(Enum):
    A = 1
    B = 2
out = []
for k in K:
    out.append(weigh(k.value))
answer = out
""",
    "d_walrus": """
out = []
while (n := weigh(len(out))) < 9 and len(out) < 5:
    out.append(n)
print([y for x in range(5) if (y := weigh(x)) > 3])
answer = out
""",
    "d_match": """
out = []
for x in [1, [2, 3], {'a': 4}]:
    match x:
        case int(n):
            out.append(weigh(n))
        case [a, b]:
            out.append(weigh(a) + weigh(b))
        case {'a': z}:
            out.append(weigh(z))
answer = out
""",
    "d_appending": """
xs = [1]
for x in xs:
    y = weigh(x)
    if len(xs) < 8:
        xs.append(y + 20)
answer = xs
""",
    "d_async_comp": """
import asyncio
async def gen():
    for i in range(4):
        yield i
async def main():
    return [await weigh(i) async for i in gen()] + [await weigh(i) for i in range(6)]
answer = asyncio.run(main())
""",
    "d_async_gather": """
import asyncio
order = []
async def one(i):
    order.append(('s', i))
    x = await weigh(i)
    order.append(('m', i, x))
    y = await weigh(x + 20)
    order.append(('e', i, y))
    return y
async def main():
    return await asyncio.gather(*(one(i) for i in range(5)))
answer = (asyncio.run(main()), order)
""",
    "d_gather_noawait": """
import asyncio
async def main():
    c = weigh(3)
    d = weigh(4)
    c.close()
    return await d
answer = asyncio.run(main())
""",
    "d_prose": """
xs = [1, 2]
a = weigh(1)
b = weigh(2)
answer = (a, b, xs)
""",
    "d_eq_patch": """
log = []
class P:
    pass
P.__eq__ = lambda a, b: log.append(1) or True
p, q = P(), P()
a = weigh(1)
x = p == q
answer = (x, log)
""",
    "d_type_class": """
log = []
P = type('P', (), {'size': property(lambda s: log.append(1) or 3)})
p = P()
a = weigh(1)
x = p.size
answer = (x, log)
""",
    "d_setattr_patch": """
import math
log = []
setattr(math, 'sqrt', lambda x: log.append(x) or 2)
a = weigh(1)
x = math.sqrt(4)
answer = (x, log)
""",
    "d_mock_patch": """
import math
from unittest import mock
log = []
a = 0
with mock.patch('math.sqrt', side_effect=lambda x: 7) as m:
    a = weigh(1)
    x = math.sqrt(4)
answer = (a, x, m.call_count)
""",
    "d_modalias_patch": """
import math
m = math
log = []
m.sqrt = lambda x: log.append(x) or 2
a = weigh(1)
x = math.sqrt(4)
answer = (x, log)
""",
    "d_func_global_rebind": """
log = []
def g(x):
    return x
def evil(x):
    log.append(x)
    return x
globals()['g'] = evil
a = weigh(1)
b = weigh(g(5))
answer = (a, b, log)
""",
    "d_code_swap": """
log = []
def g(x):
    return x
def evil(x):
    log.append(x)
    return x
g.__code__ = evil.__code__
a = weigh(1)
b = weigh(g(5))
answer = (a, b, log)
""",
    "d_list_subclass": """
from collections import UserList, OrderedDict
class L(list):
    def __getitem__(self, i):
        print('got', i)
        return super().__getitem__(i)
l = L([1, 2])
a = weigh(1)
b = weigh(l[0])
answer = (a, b)
""",
    "d_lru_od": """
from collections import OrderedDict
class Cache(OrderedDict):
    def get(self, k, d=None):
        self.move_to_end(k)
        return super().get(k, d)
c = Cache(a=1, b=2)
x = weigh(1)
y = weigh(c.get('a'))
answer = (x, y, list(c))
""",
    "d_inherited_get": """
import queue
class Q(queue.LifoQueue):
    pass
q = Q()
q.put(1); q.put(2)
x = weigh(1)
y = weigh(q.get())
answer = (x, y, q.qsize())
""",
    "d_attr_it": """
class R: pass
r = R()
it = iter([1, 2, 3])
r.it = it
a = weigh(1)
x = list(r.it)
answer = x
""",
    "d_gen_in_dict": """
def gen():
    yield 1
    yield 2
g = gen()
d = {'g': g}
a = weigh(1)
x = [weigh(v) for v in d['g']]
answer = x
""",
    "d_tuple_return_it": """
def pair():
    it = iter([1, 2, 3])
    return it, 5
p = pair()
a = weigh(1)
x = sum(p[0])
answer = x
""",
    "d_finditer": """
import re
found = [re.finditer('a', 'banana')]
a = weigh(1)
x = len(list(found[0]))
answer = x
""",
    "d_args_it": """
def tot(*its):
    return sum(sum(i) for i in its)
it = iter([1, 2, 3])
box = (it, [4])
a = weigh(1)
b = weigh(tot(*box))
answer = (a, b)
""",
    "d_print_file": """
import io
buf = io.StringIO()
a = weigh(1)
print('x', file=buf)
b = weigh(len(buf.getvalue()))
answer = (a, b)
""",
    "d_logging": """
import logging
logging.basicConfig(level=logging.INFO)
for i in range(4):
    logging.info('n %s', weigh(i))
answer = 1
""",
    "d_max_empty": """
a = weigh(1)
try:
    b = max([], key=weigh)
except ValueError as e:
    b = str(e)
answer = (a, b)
""",
    "d_sort_mutating_key": """
xs = [3, 1, 2]
def k(v):
    xs.append(9)
    return weigh(v)
try:
    xs.sort(key=k)
except ValueError as e:
    print(e)
answer = xs
""",
    "d_exc_ctx": """
def g(x):
    return 1 // x
try:
    a = weigh(4)
    b = weigh(g(0))
except ZeroDivisionError as e:
    import traceback
    answer = traceback.format_exc()
""",
    "g_filter_big": """
answer = next(filter(is_lucky, range(1, 10**7)))
""",
}
