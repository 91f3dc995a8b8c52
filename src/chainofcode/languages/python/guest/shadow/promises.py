"""Promises: stand-ins for values that a shadow does not have yet, and the functions that speculative code calls.

Arithmetic, comparison, attributes, items and calls of a promise return a promise. An operation that needs the value
(its truth, length, text, hash or elements) raises `Unknown`, which the surrounding code turns into a promise again
(compiler/speculate.py). Promises cannot change what the program computes: a wrong guess costs a call. Standard library
only.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable
from functools import partial
from types import BuiltinFunctionType, FunctionType, GeneratorType

from ...compiler.library import FIRST_ARGUMENT_MUTATORS, MUTATORS

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any, TypeGuard

_NAME = "$Promise"  # no program class has this name: an error message with it is about a promise


class Unknown(BaseException):
    """Raised when an operation needs a value that has not arrived; `origin` is the call that returns it."""

    def __init__(self, origin: str = "") -> None:
        super().__init__(origin)
        self.origin = origin


def _needs_value(self: Promise, *args: object, **kwargs: object) -> Any:
    raise Unknown(self.origin)


def _gives_promise(self: Promise, *args: object, **kwargs: object) -> Promise:
    return self


class Promise:
    """A value that has not arrived; `origin` is the text of the call that returns it."""

    __slots__ = ("origin",)
    origin: str

    def __init__(self, origin: str) -> None:
        object.__setattr__(self, "origin", origin)

    def __getattr__(self, name: str) -> Promise:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        """Ignore the attribute: reading it back returns a promise."""

    def __setitem__(self, key: object, value: object) -> None:
        """Ignore the item."""

    def __delitem__(self, key: object) -> None:
        """Ignore the deletion."""

    def __await__(self) -> Generator[None, None, Promise]:
        return self
        yield

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # read by `isinstance`
        raise Unknown(self.origin)


_ARITHMETIC = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift", "and", "or", "xor",
    "divmod",
)  # fmt: skip
_GIVING = (
    *[f"__{side}{name}__" for name in _ARITHMETIC for side in ("", "r")],
    "__neg__", "__pos__", "__abs__", "__invert__", "__round__", "__trunc__", "__floor__", "__ceil__",
    "__call__", "__getitem__", "__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "__copy__",
    "__deepcopy__",
)  # fmt: skip
_NEEDING = (
    "__bool__", "__len__", "__length_hint__", "__iter__", "__next__", "__reversed__", "__aiter__",
    "__contains__", "__hash__", "__index__", "__int__", "__float__", "__complex__", "__str__", "__repr__",
    "__format__", "__bytes__", "__fspath__", "__enter__", "__exit__", "__aenter__", "__aexit__",
    "__mro_entries__", "__instancecheck__", "__subclasscheck__", "__reduce_ex__", "__dir__", "__buffer__",
)  # fmt: skip
for _method in _GIVING:
    setattr(Promise, _method, _gives_promise)
for _method in _NEEDING:
    setattr(Promise, _method, _needs_value)
Promise.__name__ = Promise.__qualname__ = _NAME


def is_promise(value: object) -> TypeGuard[Promise]:
    return type(value) is Promise


class Loop:
    """Counts the turns of a loop that an unknown condition may end early.

    The turns after such a condition may never run: the shadow runs at most half as many as came before it.
    """

    __slots__ = ("_first", "_turn", "may_return")

    def __init__(self) -> None:
        self._turn, self._first = -1, -1
        self.may_return = False

    @property
    def is_doubtful(self) -> bool:
        return self._first >= 0

    def doubt(self, may_return: bool = False) -> None:
        """Record that the loop may end in this turn."""
        self.may_return = self.may_return or may_return
        if self._first < 0:
            self._first = self._turn

    def ends(self) -> bool:
        """Begin a turn; whether to stop here, because it is too doubtful that the program runs it."""
        self._turn += 1
        return self.is_doubtful and self._turn - self._first > self._first // 2


class Missing:
    """The origin of the first unknown condition of a comprehension, if any."""

    __slots__ = ("loop", "origin")

    def __init__(self, loop: Loop | None = None) -> None:
        self.loop, self.origin = loop, ""

    def note(self, origin: str) -> None:
        self.origin = self.origin or origin or "?"
        if self.loop is not None:
            self.loop.doubt()

    def check(self) -> None:
        if self.origin:
            raise Unknown(self.origin)


class Lazy:
    """A generator that may lack some elements, because a condition is unknown.

    Reading it to its end evaluates all conditions, then raises `Unknown`. A consumer that may stop early gets no
    further past an unknown condition than a `Loop` does.
    """

    def __init__(self, elements: Callable[[Missing], Iterable[Any]]) -> None:
        self._missing = Missing(Loop())
        self._elements = iter(elements(self._missing))

    def __iter__(self) -> Lazy:
        return self

    def __next__(self) -> Any:
        for element in self._elements:
            self._missing.check()
            return element
        self._missing.check()
        raise StopIteration

    def to_the_end(self) -> list[Any]:
        self._missing.loop = None
        elements = list(self._elements)
        self._missing.check()
        return elements


# --- functions that speculative code calls --------------------------------------------------------------------------

_LAZY_TYPES = frozenset([GeneratorType, map, filter, zip, enumerate, Lazy])
_CHANGING = MUTATORS | FIRST_ARGUMENT_MUTATORS  # may leave an object half changed


def call(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Make a call of the program; an unknown result is a promise."""
    try:
        return (function if type(function) is FunctionType else _speculative(function, args))(*args, **kwargs)
    except Unknown as unknown:
        if type(function) is BuiltinFunctionType and function.__name__ in _CHANGING:
            raise
        return Promise(unknown.origin)
    except (TypeError, ValueError, AttributeError) as error:
        if not is_about_promise(error):
            raise
        return Promise(_NAME)


def _speculative(function: Any, args: tuple[Any, ...]) -> Any:
    """Return the function to call instead of one that would stop at the first promise; or the function itself."""
    special = _SPECIAL.get(id(function))
    if special is None and args and type(args[-1]) in _LAZY_TYPES and _reads_all(function):
        return _reader(function)
    return function if special is None else special


def _reads_all(function: Any) -> bool:
    """Whether a built-in function reads an iterator to its end: `"".join`, `list.extend`."""
    return type(function) is BuiltinFunctionType and function is not next and function is not iter


def is_about_promise(error: Exception) -> bool:
    """Whether a built-in function rejected a promise: "expected str, not $Promise"."""
    return bool(error.args) and type(error.args[0]) is str and _NAME in error.args[0]


def item(container: Any, key: Any) -> Any:
    try:
        return container[key]
    except Unknown as unknown:
        return Promise(unknown.origin)


def same(left: Any, right: Any) -> bool:
    """`left is right`."""
    for side in (left, right):
        if is_promise(side):
            raise Unknown(side.origin)
    return left is right


def need(value: Any) -> Any:
    """Return the subject of a `match`, which needs the value."""
    if is_promise(value):
        raise Unknown(value.origin)
    return value


def guard(expression: Callable[[], Any]) -> Any:
    """Evaluate an element, or the body of a lambda; an unknown result is a promise."""
    try:
        return expression()
    except Unknown as unknown:
        return Promise(unknown.origin)


def test(missing: Missing, condition: Callable[[], Any]) -> bool:
    """Evaluate a condition of a comprehension; an unknown one drops the element and is noted in `missing`."""
    if missing.loop is not None and missing.loop.ends():
        raise Unknown(missing.origin)
    try:
        return bool(condition())
    except Unknown as unknown:
        missing.note(unknown.origin)
        return False


def collect(make: Callable[[list[Any]], Any], elements: Callable[[Missing], list[Any]]) -> Any:
    """Make the list, set or dict of a comprehension; a promise if a condition is unknown."""
    missing = Missing()
    try:
        found = elements(missing)
        missing.check()
        return make(found)
    except Unknown as unknown:
        return Promise(unknown.origin)


def read_all(iterable: Any) -> Any:
    """Return the elements for a loop that no statement leaves early."""
    return iterable.to_the_end() if type(iterable) is Lazy else iterable


def text(*parts: Any) -> Any:
    """Evaluate an f-string, given as strings and triples of value, conversion and format."""
    try:
        return "".join([part if type(part) is str else _formatted(*part) for part in parts])
    except Unknown as unknown:
        return Promise(unknown.origin)


def _formatted(value: Any, conversion: int, form: Any) -> str:
    if is_promise(form):
        raise Unknown(form.origin)
    convert = _CONVERSIONS.get(conversion)
    return format(value if convert is None else convert(value), form)


_CONVERSIONS: dict[int, Callable[[Any], str]] = {ord("r"): repr, ord("s"): str, ord("a"): ascii}


# --- built-in functions that would stop at the first promise --------------------------------------------------------


def _reader(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that reads iterators to their ends: all elements are computed before it reads the first one."""

    def read(*args: Any, **kwargs: Any) -> Any:
        return function(*[_elements(arg) if type(arg) in _LAZY_TYPES else arg for arg in args], **kwargs)

    return read


def _elements(iterable: Any) -> list[Any]:
    return iterable.to_the_end() if type(iterable) is Lazy else list(iterable)


def _best(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `max` or `min`: all keys are computed before two are compared."""

    def best(*args: Any, key: Any = None, **default: Any) -> Any:
        elements = _elements(args[0]) if len(args) == 1 else list(args)
        if key is None:
            return function(elements, **default)
        keys = [key(element) for element in elements]
        place = function(range(len(keys)), key=keys.__getitem__, **default) if keys else None
        return function(elements, **default) if place is None else elements[place]

    return best


def _short(decisive: bool) -> Callable[[Iterable[Any]], Any]:
    """Replace `any` or `all`, which stop at the first decisive element."""

    def decide(iterable: Iterable[Any]) -> Any:
        loop, origin, elements = Loop(), "", iter(iterable)
        while not loop.ends():
            element = next(elements, _END)
            if element is _END:
                return Promise(origin) if loop.is_doubtful else not decisive
            if is_promise(element):
                origin = origin or element.origin
                loop.doubt()
            elif bool(element) is decisive:
                break
        return Promise(origin) if loop.is_doubtful else decisive

    return decide


_END: Any = object()


def _type(value: Any, *more: Any, **keywords: Any) -> Any:
    return type(value, *more, **keywords) if more else type(need(value))


def _filter(function: Any, iterable: Iterable[Any]) -> Lazy:
    chosen = bool if function is None else function
    return Lazy(lambda missing: (element for element in iterable if test(missing, partial(chosen, element))))


_READERS = (
    list,
    tuple,
    set,
    frozenset,
    dict,
    sorted,
    sum,
    Counter,
    deque,
    math.fsum,
    math.prod,
)
_SPECIAL: dict[int, Callable[..., Any]] = {id(function): _reader(function) for function in _READERS}
_SPECIAL |= {id(max): _best(max), id(min): _best(min), id(any): _short(True), id(all): _short(False)}
_SPECIAL |= {id(filter): _filter, id(type): _type}
