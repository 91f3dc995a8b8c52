"""Functions as values: aliases, parameters, closures, decorators, defaults, generators, caches."""

from __future__ import annotations

from .registry import feature
from .writer import Writer


@feature()
def alias(w: Writer) -> None:
    fn = w.fresh("fn")
    w.put(f"{fn} = {w.choose('note', 'note', 'weigh', 'blend')}")
    w.scope.cheap += [fn, fn]
    w.keep(f"{fn}({w.number()})")


@feature()
def higher_order(w: Writer) -> None:
    """Calls whose arguments come from functions passed to built-ins, with other calls between them."""
    w.need("import itertools", "import functools", "import re")
    for _ in range(w.random.randint(2, 4)):
        w.assign(w.call())
        fn, values = w.function(), w.sequence()
        value = w.choose(
            f"sum(map({fn}, {values}))",
            f"len(list(filter({fn}, {values})))",
            f"max({values} + [1, 2], key={fn})",
            f"sorted({values}, key={fn})[-1:]",
            f"functools.reduce(lambda u, v: {fn}(v), {values}, 1)",
            f"list(itertools.accumulate({values}, lambda u, v: {fn}(u + v)))",
            f"re.sub('[0-9]', lambda m: str({fn}(int(m[0]))), 'a1b{w.digit()}')",
            f"[f({w.digit()}) for f in ({fn}, {w.function()})]",
            f"{{v: {fn}(v) for v in {values}}}",
            f"list(map(note, map({fn}, {values})))",
        )
        w.keep(value)


@feature()
def function_as_parameter(w: Writer) -> None:
    apply = w.fresh("apply")
    w.put(
        w.choose(
            f"def {apply}(f, v):\n    return f(v)",
            f"def {apply}(f, v):\n    return sum(map(f, (v, {w.digit()})))",
            f"def {apply}(f, *vs):\n    return max(vs, key=f)",
            f"{apply} = lambda f, v: f(f(v))",
        )
    )
    w.keep(f"{apply}({w.function()}, {w.number()})")
    w.keep(f"[{apply}({w.function()}, v) for v in {w.sequence()}]")


@feature()
def functions_in_a_dict(w: Writer) -> None:
    table = w.fresh("table")
    w.put(f"{table} = {{'p': {w.function()}, 'q': {w.function()}, 'r': lambda v: -v}}")
    w.keep(
        f"{table}[{w.choose(repr('p'), repr('q'), '{True: chr(112), False: chr(113)}[' + w.condition() + ']')}]({w.number()})"
    )
    w.keep(f"[f({w.digit()}) for f in {table}.values()]")
    w.scope.functions.append(f"{table}['p']")


@feature()
def functions_in_a_list(w: Writer) -> None:
    steps, step, value = w.fresh("steps"), w.fresh("step"), w.fresh("value")
    w.put(f"""
    {steps} = [{w.function()}, {w.function()}]
    {value} = {w.number()}
    for {step} in {steps}:
        {value} = {step}({value}) % 97
    """)
    w.keep(f"({value}, {steps}.pop()({w.digit()}), len({steps}))")


@feature()
def function_as_attribute(w: Writer) -> None:
    holder = w.fresh("holder")
    w.need("from types import SimpleNamespace")
    w.put(f"{holder} = SimpleNamespace(fn={w.function()}, count=0)")
    w.scope.functions.append(f"{holder}.fn")
    w.keep(f"({holder}.fn({w.number()}), list(map({holder}.fn, {w.sequence()})))")


@feature()
def partials(w: Writer) -> None:
    fn = w.fresh("part")
    w.need("from functools import partial")
    w.put(
        w.choose(
            f"{fn} = partial({w.function()})",
            f"{fn} = partial(blend, {w.digit()})",
            f"{fn} = partial(blend, scale={w.digit()})",
            f"{fn} = partial(lambda k, v: note(k + v), {w.call()})",
        )
    )
    w.scope.functions.append(fn)
    w.keep(f"list(map({fn}, {w.sequence()}))")


@feature()
def closure_with_nonlocal(w: Writer) -> None:
    make, fn, count = w.fresh("make"), w.fresh("counter"), w.fresh("count")
    w.put(f"""
    def {make}({count}):
        def inner(v):
            nonlocal {count}
            {count} += {w.choose("1", "v", "weigh(v)")}
            return ({count} + {w.choose("v", "note(v)", "weigh(v)")}) % 97
        return inner
    {fn} = {make}({w.number()})
    """)
    w.scope.functions.append(fn)
    w.keep(f"({fn}({w.number()}), {fn}({w.digit()}))")
    w.keep(f"sorted({w.sequence()}, key={fn})")


@feature()
def decorator_that_logs(w: Writer) -> None:
    wrap, fn = w.fresh("logged"), w.fresh("plain")
    w.need("import functools")
    w.put(f"""
    def {wrap}(f):
        log.append(('decorated', f.__name__))
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            {w.choose("log.append(args)", "print('calling', args)", "state['calls'] = state.get('calls', 0) + 1")}
            return f(*args, **kwargs)
        return wrapper
    @{wrap}
    def {fn}(v, k={w.digit()}):
        return {w.choose("weigh(v)", "weigh(v) + k", "v + k", "note(v)")} % 97
    """)
    w.scope.functions.append(fn)
    w.keep(f"({fn}({w.number()}), {fn}({w.digit()}, k={w.call()}))")


@feature()
def decorator_with_arguments(w: Writer) -> None:
    times, fn = w.fresh("times"), w.fresh("timed")
    w.put(f"""
    def {times}(n):
        def wrap(f):
            def wrapper(v):
                for _ in range(n % 3):
                    v = f(v)
                return v
            wrapper.calls = n
            return wrapper
        return wrap
    @{times}({w.call()})
    def {fn}(v):
        return {w.choose("weigh(v)", "note(v + 1)", "blend(v)")}
    """)
    w.scope.functions.append(fn)
    w.keep(f"({fn}.calls, {fn}({w.number()}))")


@feature()
def mutable_default(w: Writer) -> None:
    fn = w.fresh("seen")
    w.put(f"""
    def {fn}(v, memory=[]):
        memory.append({w.choose("v", "weigh(v)")})
        return len(memory) + {w.choose("v", "weigh(v)", "sum(memory) % 7")}
    """)
    w.scope.functions.append(fn)
    w.keep(f"({fn}({w.number()}), {fn}({w.digit()}), {fn}.__defaults__[0])")


@feature()
def default_from_a_call(w: Writer) -> None:
    fn = w.fresh("default")
    w.put(f"""
    def {fn}(v, k={w.call()}, *, f={w.function()}, label={w.text()}):
        {w.choose("log.append(label)", "print(label, k)", "pass")}
        return (f(v) + k) % 97
    """)
    w.scope.functions.append(fn)
    w.keep(f"({fn}({w.number()}), {fn}({w.digit()}, {w.number()}))")


@feature()
def cached_function(w: Writer) -> None:
    fn = w.fresh("cached")
    w.need("import functools")
    w.put(f"""
    @functools.{w.choose("lru_cache", "lru_cache(maxsize=2)", "cache")}
    def {fn}(v):
        {w.choose("log.append(('miss', v))", "print('miss', v)", "pass")}
        return {w.choose("weigh(v)", "note(v)", "v * 2 % 97")}
    """)
    w.scope.functions.append(fn)
    w.keep(f"([{fn}(v) for v in {w.sequence()}], {fn}({w.number()}), tuple({fn}.cache_info()))")


@feature()
def single_dispatch(w: Writer) -> None:
    fn = w.fresh("shown")
    w.need("from functools import singledispatch")
    w.put(f"""
    @singledispatch
    def {fn}(v):
        return 'other'
    @{fn}.register
    def _(v: int):
        {w.choose("log.append(v)", "print('int', v)")}
        return name_of(v)
    @{fn}.register(str)
    def _(v):
        return shout(v)
    """)
    w.keep(f"[{fn}(v) for v in ({w.number()}, {w.text()}, 1.5)]")


@feature()
def recursion(w: Writer) -> None:
    fn = w.fresh("deep")
    w.put(f"""
    def {fn}(v, depth=0):
        if depth > {w.random.randint(2, 4)} or {w.choose("is_lucky(v)", "v % 5 == 0", "weigh(v) > 8")}:
            return v
        {w.choose("log.append(depth)", "pass", "print('at', depth)")}
        return {fn}({w.choose("weigh(v)", "v + 1", "note(v + 2)")}, depth + 1)
    """)
    w.scope.functions.append(fn)
    w.keep(f"({fn}({w.number()}), {w.call()}, {fn}({w.digit()}))")


@feature()
def tree_recursion(w: Writer) -> None:
    fn = w.fresh("walk")
    w.put(f"""
    def {fn}(node):
        if isinstance(node, int):
            return {w.choose("weigh(node)", "note(node)")}
        return sum({w.choose(f"map({fn}, node)", f"[{fn}(n) for n in node]", f"({fn}(n) for n in reversed(node))")}) % 97
    """)
    w.keep(f"{fn}([{w.number()}, [{w.digit()}, {w.name()}], [[{w.call()}]]])")


@feature()
def generator_with_send(w: Writer) -> None:
    gen, it = w.fresh("talk"), w.fresh("it")
    w.put(f"""
    def {gen}(v):
        while True:
            got = yield {w.choose("v", "weigh(v)", "note(v)")}
            {w.choose("log.append(got)", "print('got', got)", "pass")}
            if got is None or got > 90:
                return
            v = (v + {w.choose("got", "weigh(got)")}) % 97
    {it} = {gen}({w.number()})
    """)
    w.keep(f"(next({it}), {it}.send({w.number()}), {it}.send({w.digit()}))")
    if w.chance(0.5):
        w.put(f"{it}.close()")
    else:
        w.keep(f"list({it})")


@feature()
def generator_that_logs(w: Writer) -> None:
    gen, it = w.fresh("each"), w.fresh("it")
    w.put(f"""
    def {gen}(values):
        try:
            for v in values:
                {w.choose("log.append(('before', v))", "print('before', v)", "state['last'] = v")}
                yield {w.choose("v", "weigh(v)", "note(v)")}
        finally:
            {w.choose("log.append('closed')", "print('closed')")}
    {it} = {gen}({w.sequence()})
    """)
    w.scope.iterators.append(it)
    w.keep(
        w.choose(
            f"next({it}, -1)", f"list({it})", f"[weigh(v) for v in {it}]", f"sum({it}, {w.call()})",
            f"any(is_lucky(v) for v in {it})",
        )
    )  # fmt: skip
    if w.chance(0.5):
        w.keep(f"(next({it}, -1), {w.call()}, next({it}, -1))")


@feature()
def delegating_generator(w: Writer) -> None:
    inner, outer = w.fresh("inner"), w.fresh("outer")
    w.put(f"""
    def {inner}(n):
        for v in range(n % 4):
            yield {w.choose("weigh(v)", "note(v)", "v")}
        return {w.choose("n", "weigh(n)")}
    def {outer}():
        got = yield from {inner}({w.number()})
        log.append(('returned', got))
        yield from map({w.function()}, {w.sequence()})
    """)
    w.keep(f"list({outer}())")


@feature()
def star_arguments(w: Writer) -> None:
    fn = w.fresh("many")
    w.put(f"""
    def {fn}(first, /, *rest, key=weigh, **named):
        {w.choose("log.append(sorted(named))", "print(rest)", "pass")}
        return [key(first), *map(key, rest), *named.values()]
    """)
    w.keep(f"{fn}({w.number()}, *{w.sequence()}, key={w.function()}, **{{'z': {w.call()}, 'y': {w.digit()}}})")


@feature("module")
def global_mutation(w: Writer) -> None:
    fn, total = w.fresh("bump"), w.fresh("total")
    w.put(f"""
    {total} = {w.number()}
    def {fn}(v):
        global {total}
        {total} = ({total} + {w.choose("v", "weigh(v)")}) % 97
        return {total}
    """)
    w.scope.functions.append(fn)
    w.keep(f"({fn}({w.call()}), {total}, {fn}({w.digit()}), weigh({total}))")
    w.scope.numbers.append(total)


@feature()
def composition(w: Writer) -> None:
    fn = w.fresh("compose")
    w.need("from functools import reduce")
    w.put(f"{fn} = lambda *fs: lambda v: reduce(lambda u, f: f(u) % 97, fs, v)")
    w.keep(f"{fn}({w.function()}, {w.function()})({w.number()})")


@feature()
def print_alias(w: Writer) -> None:
    emit = w.fresh("emit")
    w.put(f"{emit} = {w.choose('print', 'print', 'lambda *v: print(*v, sep=chr(45))')}")
    w.scope.sinks.append(emit)
    w.put(
        w.choose(
            f"{emit}({w.number()}, {w.text()})",
            f"list(map({emit}, {w.sequence()}))",
            f"[{emit}(v) for v in {w.sequence()} if {w.condition()}]",
        )
    )
    w.ask()


@feature()
def bound_method_alias(w: Writer) -> None:
    push, pop = w.fresh("push"), w.fresh("stack")
    w.put(f"{pop} = [{w.digit()}, {w.digit()}]")
    w.put(f"{push} = {w.choose('log', 'xs', pop)}.append")
    w.scope.sinks.append(push)
    w.put(f"{push}({w.number()})")
    w.keep(f"({w.call()}, list(map({push}, {w.sequence()})), {pop}.pop())")


@feature()
def unbound_methods(w: Writer) -> None:
    counts = w.fresh("counts")
    w.need("from collections import Counter")
    w.put(f"{counts} = Counter({w.sequence()})")
    w.put(
        w.choose(
            f"Counter.update({counts}, {w.sequence()})",
            f"list.append(log, {w.number()})",
            f"dict.update(state, k={w.number()})",
            f"list.sort(xs, key={w.function()})",
        )
    )
    w.keep(f"(sorted({counts}.items()), {w.call()})")
    w.put(f"{w.choose('list.extend(xs, ', 'Counter.subtract(' + counts + ', ')}{w.sequence()})")
    w.keep(f"(sum({counts}.values()), dict.get(state, 'k'))")


@feature()
def operator_functions(w: Writer) -> None:
    base = w.fresh("base")
    w.need("import operator")
    w.put(f"{base} = [{w.digit()}]")
    w.put(
        w.choose(
            f"operator.__iadd__({base}, {w.sequence()})",
            f"operator.iadd(xs, [{w.call()}])",
            f"operator.setitem(state, {w.text()}, {w.number()})",
            f"operator.methodcaller('append', {w.number()})({base})",
            f"operator.delitem({base}, 0)",
        )
    )
    w.keep(f"({base}, {w.call()}, operator.itemgetter(0)({w.sequence()} + [1]))")
    w.keep(f"sum([[{w.call()}], {base}], {base})")


@feature()
def shadowed_builtin(w: Writer) -> None:
    fn = w.fresh("hidden")
    builtin = w.choose("len", "abs", "max", "sum", "print")
    w.put(f"""
    def {fn}(v, {builtin}={w.function()}):
        return {builtin}({w.choose("v", "weigh(v)")})
    """)
    w.scope.functions.append(fn)
    w.keep(f"({fn}({w.number()}), {w.call()}, {fn}({w.digit()}))")


@feature()
def function_attributes(w: Writer) -> None:
    fn = w.fresh("counted")
    w.put(f"""
    def {fn}(v):
        {fn}.calls += 1
        return ({fn}.calls + {w.choose("v", "weigh(v)")}) % 97
    {fn}.calls = {w.call()}
    """)
    w.scope.functions.append(fn)
    w.keep(f"({fn}({w.number()}), {fn}({w.digit()}), {fn}.calls)")


@feature("module")
def text_that_runs(w: Writer) -> None:
    name = w.fresh("made")
    w.put(
        w.choose(
            f"exec('{name} = weigh({w.digit()}) + 1')",
            f"exec('log.append({w.digit()})\\n{name} = note({w.digit()})')",
            f"{name} = eval('note(weigh({w.digit()}))')",
            f"{name} = eval('[weigh(v) for v in xs[:2]]')",
        )
    )
    w.keep(f"({name}, {w.call()}, eval('{w.choose('a + 1', 'note(2)', 'len(log)', 'weigh(b)')}'))")


@feature()
def local_work(w: Writer) -> None:
    """A function whose body is made of other features."""
    fn = w.fresh("work")
    w.put(f"def {fn}(p, q={w.digit()}):")
    with w.indented("function"):
        w.scope.numbers += ["p", "q"]
        for _ in range(w.random.randint(1, 3)):
            w.statement()
        w.show()
        w.put(f"return ({w.number()} + p) % 97")
    w.keep(f"({fn}({w.number()}), {fn}({w.digit()}, {w.call()}))")
    w.scope.functions.append(fn)


@feature()
def early_return(w: Writer) -> None:
    fn = w.fresh("first")
    w.put(f"""
    def {fn}(values):
        for v in values:
            {w.choose("log.append(v)", "print('try', v)", "pass")}
            if {w.choose("is_lucky(v)", "weigh(v) > 6", "note(v) > 4")}:
                return v
        return -1
    """)
    w.keep(f"({fn}({w.sequence()}), {fn}([{w.digit()}, {w.number()}, {w.digit()}]), {w.call()})")
