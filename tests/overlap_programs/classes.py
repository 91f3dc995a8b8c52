"""Classes: properties, special methods with effects, class bodies, constructors."""

from __future__ import annotations

from .registry import feature
from .writer import Writer


def effect(w: Writer, what: str) -> str:
    """Return a statement whose number of executions affects the result."""
    return w.choose(
        f"log.append({what!r})", f"print({what!r})", f"state[{what!r}] = state.get({what!r}, 0) + 1", "note(7)"
    )


@feature()
def property_with_effect(w: Writer) -> None:
    cls, obj = w.fresh("Box"), w.fresh("box")
    w.put(f"""
    class {cls}:
        def __init__(self, v):
            self.v = v
        @{w.choose("property", "functools.cached_property")}
        def size(self):
            {effect(w, "size")}
            return {w.choose("self.v", "weigh(self.v)", "self.v + 1")}
    {obj} = {cls}({w.number()})
    """)
    w.need("import functools")
    w.scope.numbers.append(f"{obj}.size")
    w.keep(f"({obj}.size, {w.call()}, {obj}.size, weigh({obj}.size))")


@feature()
def property_setter(w: Writer) -> None:
    cls, obj = w.fresh("Box"), w.fresh("box")
    w.put(f"""
    class {cls}:
        v = {w.digit()}
        @property
        def size(self):
            return self.v
        @size.setter
        def size(self, v):
            {effect(w, "set")}
            self.v = {w.choose("v", "weigh(v)")}
    {obj} = {cls}()
    {obj}.size = {w.number()}
    """)
    w.put(w.choose(f"{obj}.size += {w.call()}", f"setattr({obj}, 'size', {w.call()})", f"{obj}.size = {obj}.size + 1"))
    w.keep(f"({obj}.size, {cls}.v)")


@feature()
def comparison_methods(w: Writer) -> None:
    cls = w.fresh("Card")
    w.put(f"""
    class {cls}:
        def __init__(self, v):
            self.v = v
        def __eq__(self, other):
            {effect(w, "eq")}
            return {w.choose("self.v == other.v", "weigh(self.v) == weigh(other.v)")}
        def __lt__(self, other):
            {effect(w, "lt")}
            return {w.choose("self.v < other.v", "weigh(self.v) < weigh(other.v)")}
        def __hash__(self):
            {effect(w, "hash")}
            return self.v
    """)
    w.keep(f"[card.v for card in sorted(map({cls}, {w.sequence()}))]")
    w.keep(
        w.choose(
            f"({cls}({w.call()}) == {cls}({w.number()}), {w.call()})",
            f"{cls}({w.call()}) in [{cls}(v) for v in {w.sequence()}]",
            f"len({{{cls}(v): v for v in {w.sequence()}}})",
            f"max([{cls}({w.digit()}), {cls}({w.call()})]).v",
            f"[{cls}(1), {cls}({w.call()})].count({cls}({w.digit()}))",
        )
    )


@feature()
def truth_and_length(w: Writer) -> None:
    cls, obj = w.fresh("Bag"), w.fresh("bag")
    w.put(f"""
    class {cls}:
        def __init__(self, items):
            self.items = items
        def {w.choose("__bool__", "__len__")}(self):
            {effect(w, "truth")}
            return {w.choose("bool(self.items)", "len(self.items) > 1", "is_lucky(len(self.items))")}
    {obj} = {cls}({w.sequence()})
    """)
    w.put(f"if {obj}:\n    log.append({w.call()})\nelse:\n    log.append({w.text()})")
    w.keep(
        f"(not {obj}, {obj} and {w.call()}, [{w.call()} for _ in range(2) if {obj}])".replace(
            f"{obj} and", f"bool({obj}) and"
        )
    )


@feature()
def own_iterator(w: Writer) -> None:
    cls, obj = w.fresh("Series"), w.fresh("series")
    w.put(f"""
    class {cls}:
        def __init__(self, n):
            self.n = n % 4
        def __iter__(self):
            {effect(w, "iter")}
            return self
        def __next__(self):
            if self.n <= 0:
                raise StopIteration
            self.n -= 1
            return {w.choose("self.n", "weigh(self.n)", "note(self.n)")}
    {obj} = {cls}({w.number()})
    """)
    w.scope.iterators.append(obj)
    w.keep(w.choose(f"list({obj})", f"sum({obj})", f"[weigh(v) for v in {obj}]", f"next({obj}, 0)"))
    w.keep(f"(list({obj}), {w.call()}, sorted({cls}({w.digit()})))")


@feature()
def sequence_protocol(w: Writer) -> None:
    cls, obj = w.fresh("Row"), w.fresh("row")
    w.put(f"""
    class {cls}:
        def __getitem__(self, i):
            {effect(w, "getitem")}
            if i >= 3:
                raise IndexError(i)
            return {w.choose("i", "weigh(i)", "note(i)")}
        def __contains__(self, v):
            {effect(w, "contains")}
            return {w.choose("is_lucky(v)", "v < 3")}
        def __len__(self):
            return 3
    {obj} = {cls}()
    """)
    w.keep(f"(list({obj}), {w.number()} in {obj}, {obj}[{w.digit()} % 3], list(reversed({obj})))")


@feature()
def callable_object(w: Writer) -> None:
    cls, obj = w.fresh("Scale"), w.fresh("scale")
    w.put(f"""
    class {cls}:
        count = 0
        def __call__(self, v):
            self.count += 1
            {effect(w, "call")}
            return {w.choose("v + self.count", "weigh(v)", "weigh(self.count)")} % 97
    {obj} = {cls}()
    """)
    w.scope.functions.append(obj)
    w.keep(f"({obj}({w.number()}), list(map({obj}, {w.sequence()})), {obj}.count)")


@feature()
def dynamic_attributes(w: Writer) -> None:
    cls, obj = w.fresh("Lazy"), w.fresh("lazy")
    w.put(f"""
    class {cls}:
        def {w.choose("__getattr__", "__getattr__", "__getattribute__")}(self, name):
            if name.startswith('_'):
                raise AttributeError(name)
            log.append(('get', name))
            return {w.choose("len(name)", "weigh(len(name))", "note(len(name))")}
    {obj} = {cls}()
    """)
    w.keep(f"({obj}.abc, {w.call()}, getattr({obj}, {w.text()}), hasattr({obj}, 'size'), {obj}.de)")


@feature()
def arithmetic_methods(w: Writer) -> None:
    cls, p, q = w.fresh("Money"), w.fresh("p"), w.fresh("q")
    w.put(f"""
    class {cls}:
        def __init__(self, v):
            self.v = v
        def __add__(self, other):
            {effect(w, "add")}
            return {cls}((self.v + other.v) % 97)
        def __radd__(self, other):
            return {cls}((self.v + other) % 97)
        def __iadd__(self, other):
            {effect(w, "iadd")}
            self.v = (self.v + {w.choose("other.v", "weigh(other.v)")}) % 97
            return self
    {p} = {q} = {cls}({w.number()})
    {p} += {cls}({w.call()})
    """)
    w.keep(f"({p}.v, {q}.v, ({p} + {cls}({w.call()})).v, sum([{q}, {cls}({w.digit()})], {w.digit()}).v)")


@feature()
def text_methods(w: Writer) -> None:
    cls, obj = w.fresh("Tag"), w.fresh("tag")
    w.put(f"""
    class {cls}:
        def __init__(self, v):
            self.v = v
        def {w.choose("__str__", "__repr__")}(self):
            {effect(w, "text")}
            return f'<{{{w.choose("self.v", "name_of(self.v)")}}}>'
        def __format__(self, how):
            {effect(w, "format")}
            return how + {w.choose("str(self.v)", "name_of(self.v)")}
    {obj} = {cls}({w.call()})
    """)
    w.keep(f"f'{{{obj}:>>}} {{{w.call()}}}'")
    w.keep(f"(format({obj}, 'x'), {w.text()})")


@feature()
def context_manager(w: Writer) -> None:
    cls, got = w.fresh("Guard"), w.fresh("got")
    w.put(f"""
    class {cls}:
        def __enter__(self):
            {effect(w, "enter")}
            return {w.call()}
        def __exit__(self, kind, error, trace):
            {effect(w, "exit")}
            return {w.choose("kind is ValueError", "kind is not None and is_lucky(3)", "True")}
    with {cls}() as {got}:
    """)
    with w.indented():
        w.scope.numbers.append(got)
        w.ask()
        if w.chance(0.5):
            w.put(f"if {w.condition()}:\n    raise ValueError({w.call()})")
        w.ask()


@feature()
def context_manager_function(w: Writer) -> None:
    fn = w.fresh("within")
    w.need("import contextlib")
    w.put(f"""
    @contextlib.contextmanager
    def {fn}(v):
        {effect(w, "begin")}
        try:
            yield {w.choose("v", "weigh(v)")}
        finally:
            log.append(('end', {w.choose("v", "weigh(v + 1)")}))
    with {fn}({w.number()}) as p, {fn}({w.digit()}) as q:
    """)
    with w.indented():
        w.put("log.append((p, q))")
        w.ask()
    if w.chance(0.5):
        w.put(
            f"with contextlib.ExitStack() as stack:\n    stack.callback({w.function()}, {w.number()})\n    log.append({w.call()})"
        )


@feature("module", "function")
def class_body(w: Writer) -> None:
    cls = w.fresh("Plan")
    w.put(f"""
    class {cls}:
        first = {w.call()}
        items = []
        for i in range({w.random.randint(2, 4)}):
            items.append({w.choose("weigh(i)", "note(i)", "blend(i, first)")})
        if is_lucky(first):
            label = {w.text()}
        else:
            label = 'plain'
        {w.choose("log.append(first)", "print('in the body', first)", "state['first'] = first")}
        def get(self, k=weigh({w.digit()})):
            return (self.first + k) % 97
    """)
    w.keep(f"({cls}.first, {cls}.items, {cls}.label, {cls}().get(), {cls}().get({w.number()}))")


@feature()
def class_hooks(w: Writer) -> None:
    base, sub = w.fresh("Base"), w.fresh("Sub")
    w.put(f"""
    class {base}:
        known = []
        def __init_subclass__(cls, level=0):
            {base}.known.append({w.choose("level", "weigh(level)", "note(level)")})
    class {sub}({base}, level={w.call()}):
        pass
    class {sub}b({sub}, level={w.digit()}):
        v = {w.call()}
    """)
    w.keep(f"({base}.known, {sub}b.v)")


@feature()
def descriptor(w: Writer) -> None:
    kind, cls, obj = w.fresh("Field"), w.fresh("Form"), w.fresh("form")
    w.put(f"""
    class {kind}:
        def __set_name__(self, owner, name):
            log.append(('named', name))
            self.name = name
        def __get__(self, obj, owner=None):
            {effect(w, "get")}
            return obj.__dict__.get(self.name, {w.choose("0", "weigh(3)")})
        def __set__(self, obj, v):
            obj.__dict__[self.name] = {w.choose("v", "weigh(v)", "note(v)")}
    class {cls}:
        p, q = {kind}(), {kind}()
    {obj} = {cls}()
    {obj}.p = {w.number()}
    """)
    w.keep(f"({obj}.p, {obj}.q, {w.call()}, {obj}.p)")


@feature()
def metaclass(w: Writer) -> None:
    meta, cls = w.fresh("Meta"), w.fresh("Made")
    w.put(f"""
    class {meta}(type):
        def __call__(cls, *args):
            {effect(w, "made")}
            return super().__call__(*args)
        def __len__(cls):
            return {w.call()}
    class {cls}(metaclass={meta}):
        def __init__(self, v):
            self.v = {w.choose("v", "weigh(v)")}
    """)
    w.keep(f"([one.v for one in map({cls}, {w.sequence()})], len({cls}), {cls}({w.number()}).v)")


@feature()
def constructor_with_effect(w: Writer) -> None:
    cls = w.fresh("Item")
    w.put(f"""
    class {cls}:
        made = 0
        def __init__(self, v):
            {cls}.made += 1
            self.v, self.id = {w.choose("v", "weigh(v)")}, {cls}.made
            {effect(w, "made")}
    """)
    w.keep(f"[(one.v, one.id) for one in map({cls}, {w.sequence()})]")
    w.keep(f"({w.call()}, {cls}({w.number()}).id, {w.choose(cls + '.made', 'weigh(' + cls + '.made)')})")
