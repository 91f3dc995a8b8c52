"""`eval`, `exec` and `compile` for the program: the holes in source text are bound before it runs.

If the program calls them by name, CPython's own functions run, in the program's frame. If it passes them as values, it
gets wrappers that behave like CPython's functions called from the caller's frame. Standard library only.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import contextlib
import re
import sys
import warnings
from collections.abc import Callable, Container, Iterable, Iterator
from keyword import kwlist
from types import FrameType

from ...compiler.analyse import Analysis, analyse
from ..recursion import headroom
from .places import CO_OPTIMIZED, keeps_cells

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

_MAX_OPENED, _MAX_REMEMBERED_CHARS = 1000, 10_000
_KEYWORDS = frozenset(kwlist)
_WORD = re.compile(r"[^\W\d]\w*")
_FLAGS = [getattr(__future__, name).compiler_flag for name in __future__.all_feature_names]
_FUTURES: int = sum(flag for flag in _FLAGS if flag > 0xFFFF)  # the flag of `nested_scopes` now has another meaning
_NAMES_TAKEN = {"globals", "locals"} if sys.version_info >= (3, 13) else set()
_COMPILE = ("source", "filename", "mode", "flags", "dont_inherit", "optimize")


class Texts:
    """Binds the holes in source texts; `bind` is called with the analysis of each."""

    def __init__(self, own: dict[str, Any], bind: Callable[[Analysis], None]) -> None:
        self._own, self._bind = own, bind
        self._opened: set[str] = set()  # source texts whose holes are bound
        own.update({kind.name: kind(self) for kind in (_Eval, _Exec, _Compile)})

    def opened(self, source: Any) -> Any:
        """Bind the holes in a source text, and return it."""
        self.open(source, sys._getframe(1))
        return source

    def open(self, source: Any, frame: FrameType) -> None:
        text = _as_text(source)
        if text is None or text in self._opened:
            return
        known = (self._own, frame.f_globals, _local_names(frame), _KEYWORDS)
        if _are_known(_WORD.findall(text), *known):
            return  # faster than parsing it
        if len(self._opened) < _MAX_OPENED and len(text) < _MAX_REMEMBERED_CHARS:
            self._opened.add(text)
        try:
            with _unwarned():
                tree = ast.parse(text.strip(" \t"))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        if _are_known([node.id for node in ast.walk(tree) if isinstance(node, ast.Name)], *known):
            return  # the other words are attributes, or in string literals
        with headroom(2000):
            found = analyse(tree, defined={*frame.f_globals, *_local_names(frame), *self._own})
        self._bind(found)


def real(function: Any) -> Any:
    """Return CPython's function for a wrapper: called by name, it finds its caller's frame itself."""
    return function.real if type(function) in (_Eval, _Exec, _Compile) else function


def _are_known(words: Iterable[str], *known: Container[str]) -> bool:
    return all(any(word in names for names in known) for word in words)


def _as_text(source: Any) -> str | None:
    if isinstance(source, str):
        return str.__str__(source)  # runs no method of a subclass
    if isinstance(source, (bytes, bytearray)):
        return bytes(source).decode("utf-8", "replace")
    return None


@contextlib.contextmanager
def _unwarned() -> Iterator[None]:
    """Suppress warnings while a source text is parsed here; CPython issues them when it runs the text.

    Sets the filters directly: `warnings.simplefilter` would reset which warnings were already shown.
    """
    usual = warnings.filters
    warnings.filters = [("ignore", None, Warning, None, 0)]
    try:
        yield
    finally:
        warnings.filters = usual


def _local_names(frame: FrameType) -> tuple[str, ...]:
    """Return the names of a frame's variables, without reading their values: before 3.13 that keeps them alive."""
    code = frame.f_code
    if code.co_flags & CO_OPTIMIZED:
        return (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
    return () if keeps_cells(code) else tuple(frame.f_locals)


class _Runner:
    """A wrapper that looks like one of CPython's functions."""

    name = ""
    real: Callable[..., Any]
    __module__ = "builtins"
    __class__ = property(lambda self: type(len))

    def __init__(self, texts: Texts) -> None:
        self._texts, self.real = texts, getattr(builtins, self.name)
        self.__name__ = self.__qualname__ = self.name
        self.__self__, self.__doc__ = builtins, self.real.__doc__
        self.__text_signature__ = getattr(self.real, "__text_signature__", None)

    def __repr__(self) -> str:
        return repr(self.real)

    def __reduce__(self) -> str | tuple[Any, ...]:
        return getattr, (builtins, self.name)

    def __deepcopy__(self, memo: Any) -> _Runner:
        return self

    __copy__ = __deepcopy__


class _Eval(_Runner):
    name = mode = "eval"
    taken = _NAMES_TAKEN

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if not 1 <= len(args) <= 3 or not self.taken.issuperset(kwargs):
            return self.real(*args, **kwargs)  # raises CPython's own error
        frame = sys._getframe(1)
        source = args[0]
        self._texts.open(source, frame)
        given = {**dict(zip(("globals", "locals"), args[1:], strict=False)), **kwargs}
        names, variables = given.pop("globals", None), given.pop("locals", None)
        if names is None:
            variables = _locals(frame) if variables is None else variables
            names = frame.f_globals
        elif isinstance(names, dict):
            names.setdefault("__builtins__", frame.f_builtins)
        if isinstance(source, (str, bytes, bytearray)):
            source = compile(self._stripped(source), "<string>", self.mode, _futures(frame), dont_inherit=True)
        return self.real(source, names, variables, **given)

    def _stripped(self, source: str | bytes | bytearray) -> str | bytes | bytearray:
        return source.lstrip(" \t") if isinstance(source, str) else source.lstrip(b" \t")


class _Exec(_Eval):
    name = mode = "exec"
    taken = _NAMES_TAKEN | {"closure"}

    def _stripped(self, source: str | bytes | bytearray) -> str | bytes | bytearray:
        return source


class _Compile(_Runner):
    name = "compile"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        frame = sys._getframe(1)
        given = dict(zip(_COMPILE, args, strict=False))
        if len(args) > len(_COMPILE) or given.keys() & kwargs:
            return self.real(*args, **kwargs)  # raises CPython's own error
        given.update(kwargs)
        self._texts.open(given.get("source"), frame)
        flags = given.get("flags", 0)
        if isinstance(flags, int) and not given.get("dont_inherit"):
            given |= {"flags": flags | _futures(frame), "dont_inherit": True}
        return self.real(**given)


for _kind in (_Eval, _Exec, _Compile):
    _kind.__name__ = type(len).__name__  # shown in traces


def _futures(frame: FrameType) -> int:
    """Return the `__future__` flags of a frame's code, which apply to text that it runs."""
    return frame.f_code.co_flags & _FUTURES


def _locals(frame: FrameType) -> Any:
    """Return what `locals()` returns in a frame."""
    is_proxy = sys.version_info >= (3, 13) and frame.f_code.co_flags & CO_OPTIMIZED
    return dict(frame.f_locals) if is_proxy else frame.f_locals
