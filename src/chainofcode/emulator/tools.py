"""Tools: functions of the user that a program may call. They run on the host; the program gets their results.

Arguments come from a program and are checked against the function's annotations. A result is limited in size and
converted to data.
A failure is raised in the program, where its own `try` may handle it.
"""

from __future__ import annotations

import asyncio
import builtins
import collections
import contextlib
import contextvars
import datetime
import functools
import inspect
import keyword
import threading
import time
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from ..errors import InputError
from ..languages.guest.raised import plain, text_of, type_and_text
from ..trace import Call
from ..values.codec import brief, encode
from ..values.hashes import FEW_KEYS, Colliding, check_hashes
from .pause import Answered, AroundEmulator, Emulator, Pause, holds_object
from .shown_call import ShownCall, shown_call

MAX_RESULT_BYTES = 1_000_000
TOOL_SECONDS = 120.0
_MAX_DOC_CHARS = 600
_MAX_HEAD_CHARS = 8000
_MAX_ALL_CHARS = 500_000  # of the descriptions of all tools
_MAX_ARGUMENTS = 50  # in a request for approval
_MAX_ERROR_CHARS = 1000
_MAX_REPLY_CHARS = 1000  # of a result, in the record of the call
Recall = Callable[[], Callable[[Pause], Answered | None]]  # returns, for a program, a lookup of known values
Approve = Callable[["Tool", ShownCall], bool | Awaitable[bool]]
_Function = TypeVar("_Function", bound=Callable[..., Any])


class ToolFailed(Exception):
    """A tool call that was rejected or failed, with the message for the program.

    The program gets a ToolError, or the built-in type and text in `raised`. An approval function may raise this, too.
    """

    def __init__(self, message: str, raised: tuple[str, str] | None = None) -> None:
        super().__init__(plain(message))
        self.raised = raised

    @classmethod
    def wrong_call(cls, message: str) -> ToolFailed:
        return cls(message, ("TypeError", plain(message)))


@dataclass(frozen=True)
class Tool:
    """A function with a name, and whether it has side effects."""

    name: str
    function: Callable[..., Any]
    has_effect: bool = True

    @property
    def description(self) -> str:
        """How it is shown to the model: signature and docstring."""
        doc = inspect.cleandoc(self.function.__doc__ or "")[:_MAX_DOC_CHARS].replace('"""', "'''")
        is_async = inspect.iscoroutinefunction(self.function)
        head = f"{'async ' if is_async else ''}def {self.name}{_signature(self.function)}"
        head = f"{head if len(head) <= _MAX_HEAD_CHARS else head[:_MAX_HEAD_CHARS] + '…)'}:"
        return f'{head}\n    """{doc}"""' if doc else f"{head} ..."

    def bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        """Bind arguments, each converted to its annotation, without defaults."""
        if holds_object([*args, *kwargs.values()]):
            raise ToolFailed.wrong_call(f"{self.name} takes plain values, not objects of the program")
        for name in kwargs:
            if not name.isidentifier():  # the request for approval would show another call
                raise ToolFailed.wrong_call(f"{self.name} takes no argument named {name[:100]!r}")
        try:
            bound = inspect.signature(self.function).bind(*args, **kwargs)
        except (TypeError, ValueError) as error:
            raise ToolFailed.wrong_call(f"{self.name}: {error}") from None
        hints = _hints(self.function)
        for name, value in bound.arguments.items():
            if name in hints:
                bound.arguments[name] = self._converted(name, value, hints[name])
        return bound

    def _converted(self, name: str, value: Any, wanted: Any) -> Any:
        kind = inspect.signature(self.function).parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            wanted = tuple[wanted, ...]
        elif kind is inspect.Parameter.VAR_KEYWORD:
            wanted = dict[str, wanted]
        try:
            _check_lists(value)
            return msgspec.convert(value, wanted)
        except (msgspec.ValidationError, UnicodeError, Colliding) as error:  # UnicodeError: a lone surrogate
            raise ToolFailed.wrong_call(f"{self.name}: the argument {name!r} does not fit: {error}") from None
        except TypeError:  # an annotation that only the function understands
            return value


def tool(function: Callable[..., Any] | Tool, *, has_effect: bool | None = None, name: str | None = None) -> Tool:
    """Return a function as a tool. It has side effects unless `has_effect` is False, here or as its attribute."""
    if isinstance(function, Tool):
        return function
    if not callable(function):
        raise InputError(f"a tool must be a function, not {function!r}")
    called = str(name or getattr(function, "__name__", ""))
    if not called.isidentifier() or keyword.iskeyword(called):
        raise InputError(f"a tool needs a name that a program can call, not {called!r}")
    if hasattr(builtins, called):
        raise InputError(f"a tool cannot be named {called!r}: that is a builtin")
    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        raise InputError(f"cannot inspect the signature of {called}; wrap it in a function") from None
    effect = getattr(function, "has_effect", True) if has_effect is None else has_effect
    return Tool(called, function, bool(effect))


def described(
    name: str, doc: str, parameters: Sequence[inspect.Parameter], call: Callable[[dict[str, Any]], Any]
) -> Callable[..., Any]:
    """Return a function with this signature and docstring that passes its arguments to `call`, by name."""
    signature = inspect.Signature(parameters)

    def function(*args: Any, **kwargs: Any) -> Any:
        return call(signature.bind(*args, **kwargs).arguments)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def parameter(name: str, annotation: Any, *, is_required: bool) -> inspect.Parameter:
    """Return a parameter for `described`; one that is not required is None by default."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    if is_required:
        return inspect.Parameter(name, kind, annotation=annotation)
    return inspect.Parameter(name, kind, default=None, annotation=Any if annotation is Any else annotation | None)


def read_only(function: _Function) -> _Function:
    """Mark a function as one without side effects: its calls need no approval."""
    function.has_effect = False  # type: ignore[attr-defined]
    return function


@dataclass(frozen=True)
class Toolbox:
    """The tools of a run, the approval of their calls, and all outcomes of earlier attempts, including failures."""

    tools: Mapping[str, Tool]
    approve: Approve | None = None
    done: dict[str, list[Any]] | None = None
    recall: Recall | None = None  # of a run that is resumed

    @classmethod
    def of(cls, tools: Toolbox | Iterable[Callable[..., Any] | Tool], approve: Approve | None = None) -> Toolbox:
        if isinstance(tools, Toolbox):
            return tools
        made = [tool(given) for given in tools]
        named = {entry.name: entry for entry in made}
        for name, count in collections.Counter(entry.name for entry in made).items():
            if count > 1:
                raise InputError(f"{count} tools have the same name, {name}")
        return cls(named, approve)

    def remembering(self) -> Toolbox:
        """Return a toolbox for several programs in turn: a call that one program made is not repeated by the next."""
        return self if self.done is not None else replace(self, done={})

    def around(self, emulator: Emulator) -> Emulator:
        return _Using(self, emulator)

    @property
    def descriptions(self) -> str:
        most = _MAX_ALL_CHARS // max(len(self.tools), 1)
        texts = [entry.description for entry in self.tools.values()]
        return "\n\n".join(text if len(text) <= most else text[:most] + "…" for text in texts)

    @property
    def has_effects(self) -> bool:
        return any(entry.has_effect for entry in self.tools.values())


class _Using(AroundEmulator):
    """Answers calls of tools by running them; another emulator answers all others."""

    def __init__(self, box: Toolbox, emulator: Emulator) -> None:
        super().__init__(emulator)
        self._box = box
        self._used: collections.Counter[str] = collections.Counter()
        self._recalled = box.recall() if box.recall is not None else lambda pause: None
        self._abandoned: list[Call] = []

    async def answer(self, pause: Pause) -> Answered:
        used = self._box.tools.get(pause.name) if pause.kind == "call" else None
        if used is None:
            return self._recalled(pause) or await self._emulator.answer(pause)
        known = self._recalled(pause)
        if known is not None and known.is_once and not used.has_effect:  # it was interrupted: without effects, run it
            known = None
        made: list[Call] = []
        try:
            bound = used.bound(pause.args, pause.kwargs)
            call = shown_call(used.name, bound, pause.kwargs)  # not `pause.text`, which the guest wrote
            bound.apply_defaults()
            run = functools.partial(self._run, used, call, bound, made)
            outcome = await self._once(used, bound, run if known is None else _again(known, made))
            return Answered(outcome, tuple(made), by="tool")
        except ToolFailed as error:
            return Answered(None, tuple(made), by="tool", error=str(error), raised=error.raised)

    def abandoned(self) -> list[Call]:
        abandoned, self._abandoned = self._abandoned, []
        return [*super().abandoned(), *abandoned]

    async def _once(self, used: Tool, bound: inspect.BoundArguments, run: Callable[[], Awaitable[Any]]) -> Any:
        """Return the outcome of the same call in an earlier attempt; run it if it was made less often there."""
        if self._box.done is None:
            return await run()
        call = _key(used.name, bound)
        turn, outcomes = self._used[call], self._box.done.setdefault(call, [])
        self._used[call] += 1
        is_known = turn < len(outcomes) and (used.has_effect or not isinstance(outcomes[turn], ToolFailed))
        if not is_known:  # recorded before it runs: if the program ends meanwhile, it may have had its effect
            when = "in progress when an earlier program ended"
            unknown = f"{used.name} was {when}; it may have taken effect, so it is not called again"
            outcomes[turn : turn + 1] = [ToolFailed(unknown)]
            try:
                outcomes[turn] = await run()
            except ToolFailed as error:
                outcomes[turn] = error
        if isinstance(outcomes[turn], ToolFailed):
            raise outcomes[turn]
        return outcomes[turn]

    async def _run(self, used: Tool, shown: ShownCall, bound: inspect.BoundArguments, made: list[Call]) -> Any:
        """Run a tool if it is approved, and append the record of the call to `made`."""
        await self._approve(used, shown)
        started = time.monotonic()
        call = Call(prompt=str(shown), reply="", tool=used.name, started=round(time.time(), 3))
        try:
            result = await _result_of(used, bound)
        except ToolFailed as error:
            made.append(_replied(call, f"✗ {error}", started))
            raise
        except BaseException:  # cancelled: a synchronous function keeps running in its thread
            self._abandoned.append(msgspec.structs.replace(_replied(call, "", started), is_abandoned=True))
            raise
        made.append(_replied(call, brief(result, _MAX_REPLY_CHARS), started))
        return _as_data(used.name, result)

    async def _approve(self, used: Tool, shown: ShownCall) -> None:
        """Raise ToolFailed for a call that is not approved."""
        if self._box.approve is None:
            return
        if shown.arguments > _MAX_ARGUMENTS:
            raise ToolFailed(f"{used.name}: {shown.arguments:,} arguments are too many to approve; give a list instead")
        approved = self._box.approve(used, shown)
        if not (await approved if inspect.isawaitable(approved) else approved):
            raise ToolFailed(f"{used.name} was not approved")


def _again(known: Answered, made: list[Call]) -> Callable[[], Awaitable[Any]]:
    """Return a function that returns a recorded outcome and adds the record of the call to `made`."""

    async def run() -> Any:
        made.extend(known.calls)
        if known.error is not None:
            raise ToolFailed(known.error, known.raised)
        return known.value

    return run


async def _result_of(used: Tool, bound: inspect.BoundArguments) -> Any:
    started = time.monotonic()
    try:
        async with asyncio.timeout(TOOL_SECONDS) as clock:
            if inspect.iscoroutinefunction(used.function):
                return await used.function(*bound.args, **bound.kwargs)
            result = await _in_thread(used.function, bound)
            return await result if inspect.isawaitable(result) else result
    except Exception as error:  # raised by the user's function: the program gets its message
        if clock.expired():
            raise ToolFailed(f"{used.name} took over {time.monotonic() - started:.0f} s") from None
        text = f"{used.name}: {type(error).__name__}: {text_of(error)[:_MAX_ERROR_CHARS]}"
        raise ToolFailed(text, type_and_text(error, _MAX_ERROR_CHARS)) from None


def _replied(call: Call, reply: str, started: float) -> Call:
    return msgspec.structs.replace(call, reply=reply, seconds=time.monotonic() - started)


def _key(name: str, bound: inspect.BoundArguments) -> str:
    """Return a key for a call: calls with equal arguments have equal keys."""

    def content(part: object) -> str:  # for objects that an annotation made from plain data
        return msgspec.json.encode(encode(msgspec.to_builtins(part, enc_hook=repr))).decode()

    arguments = {parameter: encode(value, brief=content) for parameter, value in bound.arguments.items()}
    return f"{name} {msgspec.json.encode(arguments, order='sorted').decode()}"


async def _in_thread(function: Callable[..., Any], bound: inspect.BoundArguments) -> Any:
    """Run a plain function in a daemon thread: it may never return."""
    loop, future = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
    context = contextvars.copy_context()

    def settle(set_it: Callable[[Any], None], outcome: Any) -> None:
        if not future.done():
            set_it(outcome)

    def work() -> None:
        outcome: tuple[Callable[[Any], None], Any]
        try:
            outcome = future.set_result, context.run(function, *bound.args, **bound.kwargs)
        except BaseException as error:  # even SystemExit must not leave the program waiting
            outcome = future.set_exception, _raisable(error)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=work, name="coc tool", daemon=True).start()
    return await future


def _raisable(error: BaseException) -> Exception:
    """Return an error that a future accepts: SystemExit or StopIteration is only a failure of the tool."""
    is_plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
    return error if is_plain else RuntimeError(f"{type(error).__name__} {error}".rstrip())  # type: ignore[return-value]


def _check_lists(value: Any) -> None:
    """Check lists, which annotations may turn into sets. Raises Colliding if that would take too long."""
    if isinstance(value, dict):
        for item in value.values():
            _check_lists(item)
    elif isinstance(value, (list, tuple)):
        if len(value) > FEW_KEYS:
            with contextlib.suppress(TypeError):  # unhashable items
                check_hashes(value, is_set=True)
        for item in value:
            _check_lists(item)


def _as_data(name: str, result: Any) -> Any:
    """Return a result as data, bounded; datetimes get offsets instead of zones, records become dicts."""

    def refuse(part: object) -> str:
        raise ToolFailed(f"{name} returned a {type(part).__name__}, which cannot be passed to a program")

    why = ToolFailed(f"{name} returned a value that cannot be passed to a program")
    ways: tuple[Callable[[Any], Any], ...] = (lambda data: data, _with_offsets, msgspec.to_builtins)
    for made in ways:
        try:
            data = made(result)
            encoded = encode(data, brief=refuse)
        except ToolFailed as error:
            why = error
        except (TypeError, ValueError, RecursionError):  # an object of another type, or one that contains itself
            continue
        else:
            size = len(msgspec.json.encode(encoded))
            if size > MAX_RESULT_BYTES:
                raise ToolFailed(f"{name} returned {size:,} bytes; the limit is {MAX_RESULT_BYTES:,}: ask for less")
            return data
    raise why


def _with_offsets(value: Any) -> Any:
    """Replace time zones, which are Python objects, by their offsets."""
    if isinstance(value, dict):
        return {name: _with_offsets(part) for name, part in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(_with_offsets, value))
    offset = value.utcoffset() if isinstance(value, datetime.datetime) else None
    return value if offset is None else value.replace(tzinfo=datetime.timezone(offset))


def _signature(function: Callable[..., Any]) -> str:
    for eval_str in (True, False):  # resolved annotations have no quotes
        with contextlib.suppress(Exception):  # annotations may run any code
            return str(inspect.signature(function, eval_str=eval_str))
    return "(*args, **kwargs)"


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # annotations may name what is not defined
        return {}
    return {name: hint for name, hint in hints.items() if name != "return"}
