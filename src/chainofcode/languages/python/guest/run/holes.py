"""Holes as objects: callables that pause until a value arrives, modules of them, imports. Standard library only."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Collection, Sequence
from types import ModuleType

from .....values.codec import brief
from .....values.image_bytes import image_note, media_type
from ....guest.link import clean
from ...compiler.library import KNOWN_PACKAGES
from .places import Places, program_frame

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

    Ask = Callable[[str, tuple[Any, ...], dict[str, Any], int], Any]

MAX_CALL_CHARS = 200_000
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+(?=>)")
_CO_COROUTINE = 0x80  # a flag of code objects: made by `async def`
Here = Callable[[], int]  # returns the statement that is running


def call_text(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """Return a call as values files write it: name, positional reprs, then keywords sorted by name."""
    parts = [argument_text(arg) for arg in args]
    parts += [f"{key}={argument_text(kwargs[key])}" for key in sorted(kwargs)]
    return clean(f"{name}({', '.join(parts)})", MAX_CALL_CHARS)


def argument_text(value: object) -> str:
    """Return an argument's repr, with notes in place of images: traces repeat this text."""
    if _is_image(value):
        return image_note(value)  # type: ignore[arg-type]
    if type(value) in (list, tuple) and any(map(_is_image, tuple(value))):  # type: ignore[arg-type]
        opening, closing = "[]" if type(value) is list else "()"
        return f"{opening}{', '.join(map(argument_text, tuple(value)))}{closing}"  # type: ignore[arg-type]
    return shown(value)


def _is_image(value: object) -> bool:
    return type(value) is bytes and media_type(value) != ""


def shown(value: object) -> str:
    """Return a value's repr without memory addresses; a short text of its type if the repr fails."""
    try:
        text = repr(value)
    except BaseException:  # the program's own __repr__
        return brief(value)
    if type(text) is not str:  # a subclass, whose methods may be the program's code
        text = str.__str__(text)
    return text if isinstance(value, (str, bytes)) else without_addresses(text)


def without_addresses(text: str) -> str:
    """Remove memory addresses, which differ from run to run."""
    return _ADDRESS.sub("", text) if " at 0x" in text else text


class Hole:
    """An undefined function: calling it requests its value from the host. Its attributes are holes, too."""

    __slots__ = ("__dict__", "_ask", "_awaited", "_here", "_name")

    def __init__(self, name: str, ask: Ask, here: Here, awaited: Collection[str] = ()) -> None:
        self._name, self._ask, self._here, self._awaited = name, ask, here, awaited
        self.__name__ = self.__qualname__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        statement = self._here()  # read now: an awaited value is requested from another frame
        if self._name.rpartition(".")[2] in self._awaited:
            return _awaited(lambda: self._ask(self._name, args, kwargs, statement))
        return self._ask(self._name, args, kwargs, statement)

    def __getattr__(self, name: str) -> Hole:
        if name.startswith("__"):
            raise AttributeError(name)
        return Hole(f"{self._name}.{name}", self._ask, self._here, self._awaited)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return ()  # as a base class it adds nothing: methods that the subclass lacks are holes

    def __instancecheck__(self, instance: object) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<hole {self._name}>"


async def _awaited(ask: Callable[[], Any]) -> Any:
    """Request an awaited hole's value, after other tasks have had a turn to make their requests."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:
        await asyncio.sleep(0)
    return ask()


class HoleModule(ModuleType):
    """A module that does not exist: its attributes are holes."""

    def __init__(self, name: str, hole: Hole) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__hole = hole

    def __getattr__(self, name: str) -> Hole:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__hole, name)  # type: ignore[no-any-return]


def stub(function: Callable[..., Any], hole: Hole) -> Callable[..., Any]:
    """Wrap a function that the program left empty: same name, signature and docstring; calls request a value."""
    is_async = function.__code__.co_flags & _CO_COROUTINE

    @functools.wraps(function)
    def emulated(*args: Any, **kwargs: Any) -> Any:
        nothing = function(*args, **kwargs)  # wrong arguments raise the program's own TypeError
        if is_async:
            nothing.close()
        return hole(*args, **kwargs)

    if not is_async:
        return emulated

    @functools.wraps(function)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return emulated(*args, **kwargs)

    return awaited


class Importer:
    """The program's `__import__`: a module that does not exist is a hole, one that is not granted is an error."""

    def __init__(
        self,
        hole: Callable[[str], Hole],
        places: Places,
        exists: Callable[[str], bool],
        after: Callable[[], None],
        builtins: ModuleType,
    ) -> None:
        self._hole, self._places = hole, places
        self._exists, self._after, self._builtins = exists, after, builtins
        self._holes: dict[str, HoleModule] = {}

    def __call__(
        self,
        name: str,
        globals: dict[str, Any] | None = None,
        locals: dict[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if name == "builtins" and level == 0:
            return self._builtins
        try:
            module = __import__(name, globals, locals, fromlist or (), level)
        except ModuleNotFoundError as error:
            top = name.partition(".")[0]
            if level or error.name != top or self._places.is_guarded(program_frame(), _IMPORT_ERRORS):
                raise
            refusal = self._refusal(top)
            if refusal is not None:
                raise ModuleNotFoundError(refusal, name=top) from None
            if fromlist == []:  # called by C code (PyImport_Import), which then takes the module from sys.modules
                raise
            return self._module(name if fromlist else top)
        self._after()
        return module

    def _refusal(self, module: str) -> str | None:
        """Return why an existing module cannot be imported; None if there is no such module."""
        if module in sys.stdlib_module_names:
            return f"{module} is part of Python, but not available in this sandbox: tier C opens no files"
        if self._exists(module):
            return f"{module} is installed but not granted to the program: run with --allow-package {module}"
        if module in KNOWN_PACKAGES:
            return f"{module} is not installed: install it and run with --allow-package {module}, or do without it"
        return None

    def _module(self, name: str) -> HoleModule:
        if name not in self._holes:
            self._holes[name] = HoleModule(name, self._hole(name))
        return self._holes[name]


HoleModule.__name__ = "undefined module"  # as traces show it


_IMPORT_ERRORS = ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")
