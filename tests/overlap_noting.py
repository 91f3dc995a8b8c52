"""Programs that log through functions under other names: aliases, parameters, attributes, keys, callbacks."""

from __future__ import annotations

NOTE = """\
log = []
def note(x):
    log.append(x)
    return x
"""

# Programs that start with NOTE: `a = weigh(1)` pauses, and the next lines have effects through `note`.
NOTING = {
    "alias_in_map": "fn = note\na = weigh(1)\nb = weigh(sum(map(fn, [1, 2, 3])))",
    "alias_of_an_alias": "f = note\ng = f\na = weigh(1)\nb = weigh(len(list(map(g, (4, 5)))))",
    "alias_by_unpacking": "f, g = note, abs\na = weigh(1)\nb = weigh(max([3, 1, 2], key=f))",
    "alias_by_walrus": "a = weigh(1)\nb = weigh(sum(map((f := note), [1, 2])))\nc = weigh(sum(map(f, [5])))",
    "alias_by_condition": "a = weigh(1)\nf = note if a > 3 else abs\nb = weigh(2)\nc = weigh(sum(map(f, [1, 2])))",
    "alias_by_or": "f = None or note\na = weigh(1)\nb = weigh(sum(filter(f, [1, 0, 2])))",
    "alias_as_loop_target": "a = weigh(1)\nfor f in (note, abs):\n    b = weigh(sum(map(f, [1, 2])))",
    "alias_in_a_comprehension": "a = weigh(1)\nb = weigh(sum(f(2) for f in [note, abs]))",
    "alias_by_star": "def every(*fs):\n    return [list(map(f, [1])) for f in fs]\na = weigh(1)\nb = kind_of(every(note, note))",
    "alias_of_a_lambda": "f = lambda v: note(v)\na = weigh(1)\nb = weigh(sum(map(f, [7, 8])))",
    "alias_by_global": "def choose():\n    global f\n    f = note\nchoose()\na = weigh(1)\nb = weigh(sum(map(f, [7, 8])))",
    "alias_deleted": "f = note\ng = f\ndel f\na = weigh(1)\nb = weigh(min([3, 4], key=g))",
    "alias_by_wraps": "import functools\nf = functools.wraps(note)(lambda v: note(v))\na = weigh(1)\nb = weigh(sum(map(f, [1])))",
    "alias_by_method_type": "import types\nf = types.MethodType(note, 5)\na = weigh(1)\nb = weigh(sum(map(lambda v: f(), [1, 2])))",
    "alias_by_get": "class Box:\n    pass\nf = note.__get__(4)\na = weigh(1)\nb = weigh(f())",
    "alias_by_call": "f = note.__call__\na = weigh(1)\nb = weigh(sum(map(f, [1, 2])))",
    "parameter": "def apply(f, v):\n    return f(v)\na = weigh(1)\nb = weigh(apply(note, 3))",
    "parameter_by_keyword": "def apply(*, f, v):\n    return sum(map(f, v))\na = weigh(1)\nb = weigh(apply(v=[1, 2], f=note))",
    "parameter_with_default": "def apply(v, f=note):\n    return max(v, key=f)\na = weigh(1)\nb = weigh(apply([3, 4]))",
    "parameter_of_a_parameter": "def twice(f):\n    return lambda v: f(f(v))\na = weigh(1)\nb = weigh(sum(map(twice(note), [1, 2])))",
    "parameter_returned": "def same(f):\n    return f\na = weigh(1)\nb = weigh(sum(map(same(note), [1, 2])))",
    "parameter_of_a_method": "class Box:\n    def use(self, f):\n        return sorted([2, 1], key=f)\na = weigh(1)\nb = kind_of(Box().use(note))",
    "parameter_in_a_closure": "def make(f):\n    def run(v):\n        return sum(map(f, v))\n    return run\ng = make(note)\na = weigh(1)\nb = weigh(g([1, 2]))",
    "partial_of_it": "from functools import partial\nf = partial(note)\na = weigh(1)\nb = weigh(sum(map(f, [1, 2])))",
    "partial_of_map": "from functools import partial\nf = partial(map, note)\na = weigh(1)\nb = weigh(sum(f([1, 2])))",
    "partialmethod": "from functools import partialmethod\nclass Box:\n    def put(self, v):\n        return note(v)\n    four = partialmethod(put, 4)\na = weigh(1)\nb = weigh(Box().four())",
    "in_a_dict": "table = {'n': note}\na = weigh(1)\nb = weigh(table['n'](3))",
    "in_a_dict_by_get": "table = {}\na = weigh(1)\nb = weigh(table.get('n', note)(3))",
    "in_a_dict_of_dicts": "table = {'x': {'n': note}}\na = weigh(1)\nb = weigh(sum(map(table['x']['n'], [1, 2])))",
    "in_a_list": "steps = [note, note]\na = weigh(1)\nb = weigh(sum(f(3) for f in steps))",
    "in_a_tuple_by_star": "steps = (note, [1, 2])\na = weigh(1)\nb = weigh(sum(map(*steps)))",
    "in_a_default_dict": "from collections import defaultdict\ntable = defaultdict(lambda: note)\na = weigh(1)\nb = weigh(sum(map(table['k'], [1])))",
    "as_attribute": "class Box:\n    pass\nbox = Box()\nbox.f = note\na = weigh(1)\nb = weigh(box.f(3))",
    "as_class_attribute": "class Box:\n    f = staticmethod(note)\na = weigh(1)\nb = weigh(sum(map(Box.f, [1, 2])))",
    "as_attribute_over_a_method": "class Box:\n    def size(self, v):\n        return v\nbox = Box()\nbox.size = note\na = weigh(1)\nb = weigh(box.size(6))",
    "as_function_attribute": "def run(v):\n    return run.f(v)\nrun.f = note\na = weigh(1)\nb = weigh(run(3))",
    "as_a_data_class_field": "from dataclasses import dataclass\nfrom typing import Any\n@dataclass\nclass Job:\n    f: Any\na = weigh(1)\nb = weigh(sum(map(Job(note).f, [1, 2])))",
    "as_a_named_tuple_field": "from collections import namedtuple\nJob = namedtuple('Job', 'f')\na = weigh(1)\nb = weigh(sum(map(Job(note).f, [1, 2])))",
    "by_getattr": "class Box:\n    f = staticmethod(note)\na = weigh(1)\nb = weigh(sum(map(getattr(Box, 'f'), [1, 2])))",
    "by_attrgetter": "import operator\nclass Box:\n    f = staticmethod(note)\na = weigh(1)\nb = weigh(sum(map(operator.attrgetter('f')(Box), [1, 2])))",
    "key_of_sort": "f = note\nxs = [3, 1, 2]\na = weigh(1)\nxs.sort(key=f)\nb = weigh(xs[0])",
    "key_of_groupby": "import itertools\nf = note\na = weigh(1)\nb = kind_of([k for k, g in itertools.groupby([1, 1, 2], key=f)])",
    "key_of_nsmallest": "import heapq\nf = note\na = weigh(1)\nb = kind_of(heapq.nsmallest(2, [3, 1, 2], key=f))",
    "key_of_bisect": "import bisect\nf = note\na = weigh(1)\nb = weigh(bisect.bisect([1, 4, 9], 4, key=f))",
    "key_of_cmp": "from functools import cmp_to_key\nf = lambda u, v: note(u - v)\na = weigh(1)\nb = kind_of(sorted([3, 1, 2], key=cmp_to_key(f)))",
    "callback_of_sub": "import re\nf = lambda m: str(note(int(m[0])))\na = weigh(1)\nb = shout(re.sub('[0-9]', f, 'a1b2'))",
    "callback_of_compiled_sub": "import re\nsub = re.compile('[0-9]').sub\na = weigh(1)\nb = shout(sub(lambda m: str(note(5)), 'a1b2'))",
    "callback_of_accumulate": "from itertools import accumulate\nf = lambda u, v: note(u + v)\na = weigh(1)\nb = kind_of(list(accumulate([1, 2, 3], f)))",
    "callback_of_reduce": "from functools import reduce\nf = lambda u, v: note(u + v)\na = weigh(1)\nb = weigh(reduce(f, [1, 2, 3]))",
    "callback_of_starmap": "from itertools import starmap\na = weigh(1)\nb = kind_of(list(starmap(note, [(1,), (2,)])))",
    "callback_of_takewhile": "from itertools import takewhile\nf = note\na = weigh(1)\nb = kind_of(list(takewhile(f, [1, 2, 0, 3])))",
    "callback_of_iter": "f = note\na = weigh(1)\nb = kind_of([v for v in iter(lambda: f(len(log)), 3)])",
    "callback_of_json": "import json\nf = note\na = weigh(1)\nb = kind_of(json.loads('[1, 2]', parse_int=f))",
    "callback_of_exit_stack": "import contextlib\nf = note\na = weigh(1)\nwith contextlib.ExitStack() as stack:\n    stack.callback(f, 3)\nb = weigh(len(log))",
    "callback_of_a_thread": "import threading\nf = note\na = weigh(1)\nt = threading.Thread(target=f, args=(3,))\nt.start()\nt.join()\nb = weigh(len(log))",
    "callback_of_a_context": "import contextvars\nf = note\na = weigh(1)\nb = weigh(contextvars.copy_context().run(f, 3))",
    "callback_of_signature": "import inspect\nf = note\na = weigh(1)\nb = weigh(f(*inspect.signature(f).bind(3).args))",
    "call_of_operator": "import operator\na = weigh(1)\nb = weigh(operator.call(note, 3))",
    "method_alias": "push = log.append\na = weigh(1)\nb = kind_of(list(map(push, [1, 2])))",
    "method_in_a_dict": "do = {'push': log.append, 'pop': log.pop}\na = weigh(1)\nb = kind_of([do['push'](1), do['push'](2), do['pop']()])",
    "method_by_unbound": "a = weigh(1)\nb = kind_of(list.append(log, 5))\nc = weigh(len(log))",
    "method_by_super": "class Log(list):\n    def put(self, v):\n        return super().append(v) or note(v)\nbox = Log()\nput = box.put\na = weigh(1)\nb = kind_of(list(map(put, [1, 2])))\nc = kind_of(list(box))",
    "decorated": "def loud(f):\n    def g(v):\n        note(v)\n        return f(v)\n    return g\n@loud\ndef plain(v):\n    return v\na = weigh(1)\nb = weigh(plain(3))",
    "decorator_class": "class Loud:\n    def __init__(self, f):\n        self.f = f\n    def __call__(self, v):\n        return note(self.f(v))\n@Loud\ndef plain(v):\n    return v\na = weigh(1)\nb = weigh(sum(map(plain, [1, 2])))",
    "cached": "import functools\nf = functools.cache(note)\na = weigh(1)\nb = weigh(sum(map(f, [1, 1, 2])))\nc = kind_of(tuple(f.cache_info()))",
    "default_list": "def put(v, seen=[]):\n    seen.append(v)\n    return len(seen)\nf = put\na = weigh(1)\nb = weigh(sum(map(f, [1, 2])))\nc = weigh(put(9))",
    "generator_of_it": "def each(f):\n    for v in (1, 2):\n        yield f(v)\na = weigh(1)\nb = weigh(sum(each(note)))",
    "sent_to_a_generator": "def run():\n    v = 0\n    while True:\n        f = yield v\n        v = f(len(log))\nr = run()\nnext(r)\na = weigh(1)\nb = weigh(r.send(note))\nc = weigh(r.send(note))",
    "in_text": "f = note\na = weigh(1)\nb = weigh(eval('f(4)'))",
    "by_globals": "a = weigh(1)\nb = weigh(globals()['note'](4))",
    "by_vars_of_a_class": "class Box:\n    def f(v):\n        return note(v)\na = weigh(1)\nb = weigh(vars(Box)['f'](4))",
    "async_task": "import asyncio\nasync def job(f):\n    f(await fetch(1))\n    return f(await fetch(2))\nasync def main():\n    return await asyncio.gather(job(note), job(log.append))\na = weigh(1)\nb = kind_of(asyncio.run(main()))",
    "async_callback": "import asyncio\nasync def main():\n    job = asyncio.create_task(fetch(3))\n    job.add_done_callback(lambda done: note(done.result()))\n    x = await fetch(1)\n    return x + await job\na = weigh(1)\nb = weigh(asyncio.run(main()))",
}


def noting() -> dict[str, str]:
    """Return the complete programs by name: each answers with the values of its calls and with the log."""
    return {name: f"{NOTE}{body}\nanswer = {_state(body)}\n" for name, body in NOTING.items()}


def _state(body: str) -> str:
    names = [name for name in "abc" if f"\n{name} = " in f"\n{body}" or f"    {name} = " in body]
    return f"({', '.join(names)}, log)"
