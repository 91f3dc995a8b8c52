"""The program's builtins: holes, missing imports, and the `$` names that lowering puts into its code.

Standard library only.
"""

from __future__ import annotations

import builtins
import os
import re
import sys
from collections.abc import Callable, Iterable
from errno import errorcode
from types import CodeType, FrameType, ModuleType

from .....values.atoms import EXACT
from .....values.codec import Record, encode, type_name
from ....guest.link import MAX_QUESTIONS, GuestLink, clean
from ....guest.requests import Requests
from ...compiler.analyse import Analysis, near_match
from ...compiler.guest_names import built_into
from ..recursion import headroom
from .holes import Hole, Importer, argument_text, call_text, shown, stub, without_addresses
from .identity import fields, identity
from .places import CO_OPTIMIZED, Places, program_frame
from .texts import Texts, real
from .visible_state import state
from .watch import names_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any, NoReturn

    from ..follow.recorder import Recorder
    from ..main import Prepared
    from ..shadow.rounds import Foresight

MAX_TEXT_CHARS = 200_000
_MAX_KEYS = 10_000
_MAX_OBJECT_CHARS, _MAX_OBJECTS_CHARS = 20_000, 1_000_000  # per opaque argument; per call
_MAX_FIELDS_DEPTH, _MAX_KNOWN = 5, 1000  # nesting of objects in fields; opaque arguments per call
_WORD = re.compile(r"[^\W\d]\w*")
# Errors that a value from the LM can cause if it does not fit; all others are bugs in the program.
_MISFITS = (TypeError, ValueError, LookupError, AttributeError)
_ERRNO, _FILENAME = OSError.__dict__["errno"], OSError.__dict__["filename"]  # a subclass may have its own
_MAX_CAUSES = 10


class Bindings:
    """The program's own builtins module; `last` is the value of its last expression statement."""

    def __init__(
        self,
        link: GuestLink,
        program: Prepared,
        places: Places,
        requests: Requests | Foresight,
        *,
        after_import: Callable[[], None],
        with_state: bool,
    ) -> None:
        self._requests, self._with_state = requests, with_state
        self._keys: dict[Any, str] = {}  # calls with simple arguments → their keys
        self.recorder: Recorder | None = None  # records provenance, if requested
        self._link, self._found, self._lowered, self._places = link, program.found, program.lowered, places
        self._lines = program.parsed.source.split("\n")
        self._modules: dict[str, bool] = {}  # module → whether the host has it
        self.last: Any = None
        self.hidden: dict[str, Any] = {}  # the guest functions that lowered code calls
        self.builtins = ModuleType("builtins", builtins.__doc__)
        self._bind(after_import)

    def _bind(self, after_import: Callable[[], None]) -> None:
        own = self.builtins.__dict__
        own.update(vars(builtins))
        importer = Importer(self._hole, self._places, self._exists, after_import, self.builtins)
        own.update({"exit": _exit, "quit": _exit, "__import__": importer})
        own.update({name: self._hole(name) for name in self._found.holes | self._found.module_holes})
        own.update({missing.name: missing.load() for missing in self._found.imports})
        own.update({name.id: self._hole(name.id.removeprefix("$")) for name in self._found.shadowed})
        own.update({"$attribute": self._attribute, "$stub": self._stub, "$last": self._keep_last})
        own.update({"$text": Texts(own, self._bind_text).opened, "$real": real})
        own.update({"$emulate": self._emulate, "$is_bug": self._is_bug, "$Exception": Exception})
        self.defined = [name for name in own if not name.startswith("$")]

    def built_into(self, code: CodeType) -> CodeType:
        """Move the functions that lowered code calls from the builtins into the constants of the code."""
        own = self.builtins.__dict__
        self.hidden.update({name: own.pop(name) for name in list(own) if name.startswith("$")})
        return built_into(code, self.hidden)

    def rehearse(self) -> None:
        self._called("f", ("x",), {}, 0)

    def _hole(self, name: str) -> Hole:
        return Hole(name, self.ask, self._here, self._found.awaited)

    def _here(self) -> int:
        return self._places.current_statement(program_frame())

    # --- pauses -----------------------------------------------------------------------------------------------

    def ask(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], statement: int) -> Any:
        """Pause at a call until its value arrives."""
        with headroom():
            key, message = self._keys.get(_plainly(name, args, kwargs)), None
            if key is None:
                key, message = self._called(name, args, kwargs, statement)

            def make_message() -> dict[str, Any]:
                return message if message is not None else self._called(name, args, kwargs, statement)[1]

            return self._requests.reach(key, statement, make_message)

    def _called(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], statement: int
    ) -> tuple[str | None, dict[str, Any]]:
        """Return the key of a call, None if its value must not be reused, and the message to the host."""
        known_by: list[Any] = []  # identities of arguments that the value language cannot express
        left = _MAX_OBJECTS_CHARS

        depth = 0

        def known(value: object) -> Any:
            nonlocal depth
            parts = fields(value) if depth < _MAX_FIELDS_DEPTH and len(known_by) < _MAX_KNOWN else None
            if parts is None:
                return identity(value)
            depth += 1
            encoded = encode(parts, brief=brief)
            depth -= 1
            return encoded

        def brief(value: object) -> str:
            nonlocal left
            self._requests.look_at(value, statement)
            known_by.append(known(value))
            text = clean(argument_text(value), _MAX_OBJECT_CHARS) if left > 0 else f"<{type_name(value)}>"
            left -= len(text)
            return text

        text = call_text(name, args, kwargs)
        positional = [encode(arg, brief=brief) for arg in args]
        named = {clean(key, 1000): encode(value, brief=brief) for key, value in kwargs.items()}
        message = {"kind": "call", "name": name, "text": text, "args": positional, "kwargs": named}
        key = None
        # No key for objects without an identity, which may have changed since, nor for calls without arguments.
        if (args or kwargs) and None not in known_by:
            key = self._link.text([text, positional, named, known_by])
            plainly = _plainly(name, args, kwargs)
            if plainly is not None and len(self._keys) < _MAX_KEYS:
                self._keys[plainly] = key
        return key, {
            **message,
            "known_by": known_by if key is not None else None,
            "statement": statement,
            **self._state(program_frame(), statement),
        }

    def _exists(self, module: str) -> bool:
        """Whether the host has a module that the guest was not granted."""
        if module not in self._modules:
            if len(self._modules) >= MAX_QUESTIONS:
                self._link.exceeded("limit:modules", f"the program looked for over {MAX_QUESTIONS:,} modules")
            self._link.before_pause()
            self._modules[module] = bool(self._link.pause({"kind": "module", "name": module})[1]["value"])
        return self._modules[module]

    def _emulate(self, number: int, error: BaseException | None) -> dict[str, Any]:
        """Pause at a statement until its delta arrives. Containers change in place, so that aliases see the change."""
        frame = sys._getframe(1)
        names = self._lowered.writable[number]
        with headroom():
            message = {
                "kind": "statement",
                "name": "",
                "text": clean(self._statement_text(number), MAX_TEXT_CHARS),
                "names": sorted(name.replace("$value", "return") for name in names),
                "statement": number,
                **self._state(frame, number),
            }
            if error is not None:
                message["error"] = clean(f"{type_name(error)}: {_message(error)}", 1000)
            delta = self._requests.statement(message)
            if isinstance(delta, dict) and "return" in delta:
                delta["$value"] = delta.pop("return")
            changes = {name: _in_place(name, value, frame) for name, value in delta.items() if name in names}
            if not frame.f_code.co_flags & CO_OPTIMIZED:  # a module's or class's names can be set from here
                frame.f_locals.update(changes)
            if self.recorder is not None:
                self.recorder.emulated(changes, frame)
            return changes

    def _state(self, frame: FrameType | None, statement: int) -> dict[str, Any]:
        if not self._with_state:
            return {}
        line = self._statement_text(statement).partition("\n")[0]
        return {"state": state(frame, dict.fromkeys(_WORD.findall(line)), ("question",))}

    def _statement_text(self, number: int) -> str:
        if number in self._lowered.prose_of:
            return self._lowered.prose_of[number]
        place = self._lowered.places[number]
        lines = self._lines[place.start[0] - 1 : place.end[0]]
        return "\n".join(lines).strip()

    def _is_bug(self, number: int, error: BaseException) -> bool:
        """Whether an error is a bug in the program, not the effect of a value from the LM that does not fit."""
        if number in self._lowered.prose_of:
            return True
        frame = sys._getframe(1)
        caught_by = [type.__dict__["__name__"].__get__(kind) for kind in type.__dict__["__mro__"].__get__(type(error))]
        if self._places.is_guarded(frame, caught_by, include_with=True):
            return True
        if self._lowered.policy == "paper":
            return False
        if not isinstance(error, _MISFITS) or self._places.is_in_protocol(frame):
            return True
        span = self._places.failing_span(error.__traceback__)
        return span is None or not self._places.is_in(span, number) or not self._places.holds_hole(span)

    # --- what lowered code calls ------------------------------------------------------------------------------

    def _attribute(self, owner: Any, name: str) -> Any:
        """Return the method `owner.name`, or a hole if there is none; no known class has a method of that name."""
        try:
            return getattr(owner, name)
        except AttributeError:
            if isinstance(owner, ModuleType) or self._places.is_guarded(
                sys._getframe(1), ["AttributeError"], explicit=True
            ):
                raise

        def method(*args: Any, **kwargs: Any) -> Any:
            return self._hole(name)(owner, *args, **kwargs)

        return method

    def _stub(self, index: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        hole = Hole(self._lowered.stubs[index], self.ask, self._here, ())
        return lambda function: stub(function, hole)

    def _keep_last(self, value: Any) -> Any:
        self.last = value
        if self.recorder is not None:
            self.recorder.kept()
        return value

    def _bind_text(self, found: Analysis) -> None:
        """Bind the holes and missing imports of a source text that the program is about to run."""
        own = self.builtins.__dict__
        own.update({name: self._hole(name) for name in found.holes | found.module_holes if name not in own})
        own.update({missing.name: missing.load() for missing in found.imports if missing.name not in own})


def _plainly(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a dict key for a call with only simple arguments, which is faster than building its text; else None."""
    kinds = tuple([type(arg) for arg in args])
    return None if kwargs or not EXACT.issuperset(kinds) else (name, args, kinds)


def _in_place(name: str, value: Any, frame: FrameType) -> Any:
    names = names_of(frame) or frame.f_locals
    current = names.get(name, frame.f_globals.get(name))
    if type(current) is list and type(value) is list:
        current[:] = value
    elif (type(current) is dict and type(value) is Record) or (type(current) is set and type(value) is set):
        current.clear()
        current.update(value)
    else:
        return value
    return current


def _exit(code: object = None) -> NoReturn:
    raise SystemExit(code)


def failure(error: BaseException, places: Places, known: Iterable[str]) -> dict[str, Any]:
    """Return an error as data: type, message, line, and for hints a code and its subject (see `Failure`)."""
    match = _near_name(error, known)
    message = _message(error) + (f"; did you mean {match!r}?" if match else "")
    data: dict[str, Any] = {"type": clean(type_name(error), 200), "message": clean(message, 4000)}
    if not match:
        data |= _code(error)
    for span in places.spans_of(error.__traceback__):
        data["line"], data["statement"] = span[0][0], places.statement_at(span[0])
    return data


def _near_name(error: BaseException, known: Iterable[str]) -> str:
    """Return the name that was probably meant, if the error is an undefined name."""
    if not isinstance(error, NameError) or type(error.name) is not str:
        return ""
    return near_match(error.name, [name for name in known if name != error.name]) or ""


def _code(error: BaseException) -> dict[str, str]:
    """Return the data that hints are based on: the symbol and file of a system error, or an undefined name."""
    if isinstance(error, NameError) and type(error.name) is str:
        return {"code": "undefined name", "about": clean(error.name, 200)}
    if type(error) is RuntimeError and error.args and type(error.args[0]) is str:
        return {"code": "EAGAIN"} if error.args[0] == "can't start new thread" else {}
    system = _system_error(error)
    if system is None:
        return {}
    file = _FILENAME.__get__(system)
    about = os.fsdecode(file) if type(file) in (str, bytes) else ""
    return {"code": errorcode[_ERRNO.__get__(system)], "about": clean(about, 4000)}


def _system_error(error: BaseException | None) -> OSError | None:
    """Return the error of the system call behind an OSError, which libraries wrap in errors of their own."""
    for _ in range(_MAX_CAUSES):
        if not isinstance(error, OSError):
            return None
        number = _ERRNO.__get__(error)
        if type(number) is int and number in errorcode:
            return error
        error = error.__context__ if error.__cause__ is None else error.__cause__
    return None


def _message(error: BaseException) -> str:
    try:
        message = str(error) or type_name(error)
    except BaseException:  # the program's own __str__
        return type_name(error)
    if isinstance(error, MemoryError):
        return "the program needed more memory than it may use"
    if isinstance(error, SystemExit):
        return f"the program called exit({shown(error.code)})"
    return without_addresses(str.__str__(message))
