"""Derived classes: subclasses of built-ins, dataclasses, enums, inheritance, patched classes."""

from __future__ import annotations

from .classes import effect
from .registry import feature
from .writer import Writer


@feature()
def data_class(w: Writer) -> None:
    cls, count = w.fresh("Point"), w.fresh("ids")
    w.need("from dataclasses import dataclass, field, replace", "import itertools")
    w.put(f"""
    {count} = itertools.count({w.digit()})
    @dataclass({w.choose("order=True", "frozen=False", "eq=True")})
    class {cls}:
        v: int
        id: int = field(default_factory=lambda: {w.choose(f"next({count})", f"weigh(next({count}))", "note(3)")})
        tags: list = field(default_factory=list)
        {w.choose("def __post_init__(self):", "def __post_init__(self, *more):")}
            {effect(w, "post")}
            self.tags.append({w.choose("self.v", "name_of(self.v)")})
    """)
    w.keep(f"[(one.v, one.id, one.tags) for one in map({cls}, {w.sequence()})]")
    w.keep(f"({cls}({w.call()}) == {cls}({w.call()}), replace({cls}({w.digit()}), v={w.call()}).v, next({count}))")


@feature()
def enumeration(w: Writer) -> None:
    cls = w.fresh("Color")
    w.need("import enum")
    w.put(f"""
    class {cls}(enum.{w.choose("Enum", "IntEnum")}):
        RED = 1
        BLUE = {w.random.randint(2, 9)}
        @property
        def score(self):
            {effect(w, "score")}
            return weigh(self.value)
    """)
    w.keep(f"([weigh(one.value) for one in {cls}], {cls}.RED.score, {cls}['BLUE'].name, {cls}(1) is {cls}.RED)")


@feature()
def named_tuple(w: Writer) -> None:
    cls, obj = w.fresh("Pair"), w.fresh("pair")
    w.need("from collections import namedtuple")
    w.put(f"{cls} = namedtuple('{cls}', 'left right')")
    w.put(f"{obj} = {cls}({w.call()}, {w.function()}({w.number()}))")
    w.keep(f"(tuple({obj}), {obj}._replace(left={w.call()}).left, {obj}.right, total_of([*{obj}]))")


@feature()
def list_subclass(w: Writer) -> None:
    cls, obj = w.fresh("Stack"), w.fresh("stack")
    w.put(f"""
    class {cls}(list):
        def append(self, v):
            {effect(w, "append")}
            super().append({w.choose("v", "weigh(v)", "note(v)")})
        def __getitem__(self, i):
            {effect(w, "item")}
            return super().__getitem__(i)
        def __len__(self):
            {effect(w, "len")}
            return super().__len__()
    {obj} = {cls}({w.sequence()})
    {obj}.append({w.number()})
    """)
    w.keep(f"({obj}[0], len({obj}), {w.call()}, sum({obj}), list({obj}))")


@feature()
def dict_subclass(w: Writer) -> None:
    cls, obj = w.fresh("Store"), w.fresh("store")
    w.need("from collections import defaultdict, OrderedDict, UserDict")
    base = w.choose("dict", "defaultdict", "OrderedDict", "UserDict")
    w.put(f"""
    class {cls}({base}):
        def __missing__(self, key):
            {effect(w, "missing")}
            self[key] = {w.choose("weigh(len(key))", "len(self)", "note(len(self))")}
            return self[key]
        def __setitem__(self, key, v):
            {effect(w, "set")}
            super().__setitem__(key, v)
    {obj} = {cls}()
    {obj}[{w.text()}] = {w.number()}
    """)
    w.keep(f"({obj}[{w.text()}], {w.call()}, {obj}['p'], list({obj}.items()), {obj}.get('q'))")


@feature()
def default_dict_with_effect(w: Writer) -> None:
    obj = w.fresh("many")
    w.need("from collections import defaultdict")
    w.put(f"{obj} = defaultdict({w.choose('lambda: note(3)', 'lambda: weigh(2)', 'list', 'lambda: len(log)')})")
    w.keep(f"({obj}[{w.text()}], {w.call()}, {obj}['p'], list({obj}), {w.text()} in {obj})")


@feature()
def number_subclass(w: Writer) -> None:
    cls, obj = w.fresh("Count"), w.fresh("count")
    w.put(f"""
    class {cls}(int):
        def __add__(self, other):
            {effect(w, "add")}
            return {cls}((int(self) + int(other)) % 97)
        def __eq__(self, other):
            {effect(w, "eq")}
            return int(self) == int(other)
        def __hash__(self):
            return int(self)
    {obj} = {cls}({w.number()})
    """)
    w.keep(f"(int({obj} + {w.call()}), {obj} == {w.number()}, {obj} in {w.sequence()}, weigh(int({obj})))")


@feature()
def text_subclass(w: Writer) -> None:
    cls, obj = w.fresh("Name"), w.fresh("name")
    w.put(f"""
    class {cls}(str):
        def upper(self):
            {effect(w, "upper")}
            return super().upper()
        def __eq__(self, other):
            {effect(w, "eq")}
            return str(self) == str(other)
        __hash__ = str.__hash__
    {obj} = {cls}({w.text()})
    """)
    w.keep(f"({obj}.upper(), {obj} == {w.text()}, str({obj} + '!'), {w.call()})")


@feature()
def other_subclasses(w: Writer) -> None:
    cls, obj = w.fresh("Own"), w.fresh("own")
    w.need("from collections import Counter, deque", "import io")
    base, method, made = w.random.choice(
        [
            ("io.StringIO", "write", f"{cls}()"),
            ("deque", "append", f"{cls}({w.sequence()}, maxlen=3)"),
            ("set", "add", f"{cls}({w.sequence()})"),
            ("Counter", "update", f"{cls}({w.sequence()})"),
        ]
    )
    w.put(f"""
    class {cls}({base}):
        def {method}(self, v):
            {effect(w, method)}
            return super().{method}(v)
    {obj} = {made}
    """)
    value = {"write": w.text(), "update": w.sequence()}.get(method, w.number())
    shown = f"{obj}.getvalue()" if method == "write" else f"sorted({obj})"
    w.put(f"{obj}.{method}({value})")
    w.keep(f"({w.call()}, {obj}.{method}({value}), {shown})")
    if method == "write":
        w.put(f"print({w.text()}, file={obj})")
        w.keep(f"({obj}.getvalue(), {w.call()})")


@feature()
def map_subclass(w: Writer) -> None:
    cls, obj = w.fresh("Mapped"), w.fresh("mapped")
    w.put(f"""
    class {cls}({w.choose("map", "filter")}):
        def __next__(self):
            {effect(w, "next")}
            return super().__next__()
    {obj} = {cls}({w.function()}, {w.sequence()})
    """)
    w.scope.iterators.append(obj)
    w.keep(f"(next({obj}, 0), {w.call()}, list({obj}))")


@feature()
def inheritance(w: Writer) -> None:
    base, mixin, cls = w.fresh("Shape"), w.fresh("Mixin"), w.fresh("Square")
    w.put(f"""
    class {base}:
        def __init__(self, v):
            self.v = v
        def area(self):
            {effect(w, "area")}
            return weigh(self.v)
        @classmethod
        def of(cls, v):
            return cls({w.choose("v", "weigh(v)")})
        @staticmethod
        def twice(v):
            return note(v) * 2 % 97
    class {mixin}:
        def area(self):
            return (super().area() + {w.choose("1", "weigh(1)", "note(1)")}) % 97
    class {cls}({mixin}, {base}):
        pass
    """)
    w.keep(
        f"({cls}({w.number()}).area(), {cls}.of({w.call()}).v, {cls}.twice({w.digit()}), {base}.area({cls}({w.digit()})))"
    )
    w.scope.functions.append(f"{cls}.twice")


@feature("module", "function")
def last_breath(w: Writer) -> None:
    """Code that runs when an object is finalised."""
    cls, fn = w.fresh("Temp"), w.fresh("use")
    w.need("import weakref")
    if w.chance(0.5):
        gone = f"weakref.finalize(one, {w.choose('print', 'log.append')}, 'gone')"
        w.put(f"class {cls}:\n    pass")
    else:
        gone = "pass"
        w.put(f"class {cls}:\n    def __del__(self):\n        {w.choose('log.append(5)', 'print(5)')}")
    w.put(f"""
    def {fn}(v):
        one = {cls}()
        {gone}
        one.v = {w.choose("v", "weigh(v)")}
        return {w.choose("one.v", "weigh(one.v)")}
    """)
    w.scope.functions.append(fn)
    w.keep(f"({fn}({w.number()}), {w.call()}, {fn}({w.digit()}))")


@feature()
def monkey_patch(w: Writer) -> None:
    cls, obj = w.fresh("Late"), w.fresh("late")
    w.put(f"""
    class {cls}:
        def size(self):
            return 1
    {obj} = {cls}()
    """)
    w.put(
        w.choose(
            f"{cls}.size = lambda self: {w.choose('note(2)', 'weigh(2)')}",
            f"{obj}.size = lambda: {w.choose('note(3)', 'weigh(3)')}",
            f"setattr({cls}, 'size', lambda self: log.append(1) or 4)",
            f"{cls}.size = property(lambda self: lambda: note(5))",
        )
    )
    w.keep(f"({obj}.size(), {w.call()}, {obj}.size())")


@feature()
def slots_and_type(w: Writer) -> None:
    cls, obj = w.fresh("Dyn"), w.fresh("dyn")
    w.put(
        f"{cls} = type('{cls}', (), {{'size': {w.choose('property(lambda s: note(3))', 'lambda s: weigh(2)')}, 'v': {w.call()}}})"
    )
    w.put(f"{obj} = {cls}()")
    w.keep(f"(callable({obj}.size), {obj}.v, {w.call()})")
