"""Programs with effects through built-in types: subclasses of them, unbound methods, `operator`, `sum`."""

from __future__ import annotations

BUILTINS = {
    "subclass_of_defaultdict": """
        from collections import defaultdict
        class Groups(defaultdict):
            pass
        groups = Groups(list)
        a = weigh(1)
        b = weigh(len(groups['x']))
        answer = (a, b, list(groups))
    """,
    "subclass_of_string_io": """
        import io
        class Out(io.StringIO):
            pass
        out = Out()
        a = weigh(1)
        b = weigh(out.write('abc'))
        answer = (a, b, out.getvalue())
    """,
    "subclass_of_map": """
        class Rows(map):
            pass
        rows = Rows(abs, [1, -2, 3])
        a = weigh(1)
        b = weigh(sum(rows))
        answer = (a, b, list(rows))
    """,
    "subclass_of_counter": """
        from collections import Counter
        class Tally(Counter):
            pass
        tally = Tally('aab')
        grow = tally.update
        a = weigh(1)
        b = kind_of(list(map(grow, ['b', 'c'])))
        answer = (a, b, sorted(tally.items()))
    """,
    "subclass_of_deque": """
        from collections import deque
        class Line(deque):
            pass
        line = Line([1, 2, 3])
        step = line.rotate
        a = weigh(1)
        b = kind_of([step(1), line[0]])
        answer = (a, b, list(line))
    """,
    "subclass_of_zip": """
        class Pairs(zip):
            pass
        pairs = Pairs([1, 2, 3], 'abc')
        a = weigh(1)
        b = kind_of(dict(pairs))
        answer = (a, b, list(pairs))
    """,
    "subclass_of_random": """
        import random
        class Dice(random.Random):
            pass
        roll = Dice(3).random
        a = weigh(1)
        b = kind_of([round(roll(), 3) for _ in range(2)])
        answer = (a, b, round(roll(), 3))
    """,
    "subclass_of_encoder": """
        import json
        seen = []
        class Encoder(json.JSONEncoder):
            def default(self, value):
                seen.append(sorted(value))
                return len(value)
        a = weigh(1)
        b = shout(json.dumps([{1}, {1, 2}], cls=Encoder))
        answer = (a, b, seen)
    """,
    "subclass_of_formatter": """
        import string
        seen = []
        class Form(string.Formatter):
            def get_value(self, key, args, kwargs):
                seen.append(key)
                return 'v'
        form = Form().format
        a = weigh(1)
        b = shout(form('{x} {y}'))
        answer = (a, b, seen)
    """,
    "unbound_update": """
        from collections import Counter
        counts = Counter('aab')
        a = weigh(1)
        b = kind_of(Counter.update(counts, 'b'))
        c = weigh(counts['b'])
        answer = (a, b, c)
    """,
    "unbound_add_in_map": """
        seen = set()
        a = weigh(1)
        b = kind_of(list(map(seen.add, [1, 2])))
        c = kind_of([set.add(seen, v) for v in (3, 4)])
        answer = (a, b, c, sorted(seen))
    """,
    "unbound_setdefault": """
        table = {}
        a = weigh(1)
        b = weigh(dict.setdefault(table, 'k', 3))
        answer = (a, b, table)
    """,
    "unbound_setattr": """
        class Box:
            v = 1
        box = Box()
        a = weigh(1)
        b = kind_of(object.__setattr__(box, 'v', 5))
        c = weigh(box.v)
        answer = (a, b, c)
    """,
    "operator_iadd": """
        import operator
        xs = [1]
        a = weigh(1)
        b = total_of(operator.__iadd__(xs, [2]))
        c = weigh(len(xs))
        answer = (a, b, c, xs)
    """,
    "operator_iconcat_in_reduce": """
        import operator
        from functools import reduce
        base = []
        a = weigh(1)
        b = total_of(reduce(operator.iconcat, [[1], [2]], base))
        c = weigh(len(base))
        answer = (a, b, c, base)
    """,
    "operator_setitem": """
        from operator import setitem as put, delitem as drop
        table = {'a': 1}
        a = weigh(1)
        b = kind_of([put(table, 'b', 2), drop(table, 'a')])
        answer = (a, b, table)
    """,
    "operator_methodcaller": """
        import operator
        xs = [3, 1, 2]
        take = operator.methodcaller('pop')
        a = weigh(1)
        b = weigh(take(xs))
        c = weigh(take(xs))
        answer = (a, b, c, xs)
    """,
    "sum_with_a_base": """
        log = []
        class Part:
            def __init__(self, v):
                self.v = v
            def __radd__(self, other):
                log.append(self.v)
                return other + self.v
        parts, base = [Part(1), Part(2)], 10
        a = weigh(1)
        b = weigh(sum(parts, base))
        answer = (a, b, log)
    """,
    "sum_that_changes_its_base": """
        class Bag:
            def __init__(self):
                self.items = []
            def add(self, other):
                self.items.append(other)
                return self
        Bag.__add__ = Bag.add
        base = Bag()
        a = weigh(1)
        b = weigh(len(sum([1, 2], base).items))
        answer = (a, b, base.items)
    """,
}
