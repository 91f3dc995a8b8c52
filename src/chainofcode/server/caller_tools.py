"""Tools of a chat client: functions that a program may call, answered by the client in its next request.

A call of such a function ends the response with `tool_calls`, and the run waits. It continues when a request brings the
results. If they do not arrive in time, the run is cancelled.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.requests import Request

from ..emulator.json_schema import Schemas, free, identifier, words_of
from ..emulator.tools import TOOL_SECONDS, Tool, described, parameter, tool
from ..errors import InputError
from .active_run import ActiveRun
from .patterns import TOOL_NAME, fits
from .refusal import invalid
from .streams import unless_gone

MAX_TOOLS = 64
_MAX_PARAMETERS = 100
_MAX_VISITS = 50_000  # of schemas, in one request
_MAX_RESULT_CHARS = 500_000
_TOGETHER_SECONDS = 0.05  # calls within this time are sent in one response
_PATIENCE_SECONDS = TOOL_SECONDS - 5  # for results; shorter than the timeout of the call itself


class ClientFunction(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None

    @property
    def schema(self) -> dict[str, Any]:
        return self.parameters or {"type": "object", "properties": {}}


class ClientTool(msgspec.Struct):
    type: str
    function: ClientFunction | None = None


class NamedFunction(msgspec.Struct):
    name: str


class ToolChoice(msgspec.Struct):
    type: str
    function: NamedFunction | None = None


@dataclass(frozen=True)
class Offered:
    """How a request uses its tools: one as the form of the answer, or several that the program may call."""

    form: ClientFunction | None = None
    functions: Sequence[ClientFunction] = ()
    is_required: bool = False

    def prompt(self, question: str) -> str:
        """The question; if a call is required, with the functions to choose from."""
        if not self.is_required:
            return question
        names = ", ".join(function.name for function in self.functions)
        return f"{question}\n\nGive the answer by calling one of these functions: {names}."


def offered(tools: Sequence[ClientTool] | None, choice: str | ToolChoice | None) -> Offered:
    """Read `tools` and `tool_choice`. Raises Refusal."""
    if len(tools or ()) > MAX_TOOLS:
        raise invalid(f"a request can have at most {MAX_TOOLS} tools", "tools")
    named = {function.name: function for function in map(_function, tools or ())}
    functions, names = list(named.values()), list(named)
    if isinstance(choice, ToolChoice):
        required = choice.function.name if choice.type == "function" and choice.function is not None else None
        if required not in names:
            raise invalid("tool_choice must be none, auto, required, or a function of tools by name", "tool_choice")
        return Offered(form=functions[names.index(required)])
    if choice not in (None, "none", "auto", "required"):
        raise invalid(f"tool_choice must be none, auto, required or a function, not {choice[:100]!r}", "tool_choice")
    if choice == "required" and not functions:
        raise invalid("tool_choice 'required' needs tools", "tool_choice")
    if choice == "none" or not functions:
        return Offered()
    if choice == "required" and len(functions) == 1:
        return Offered(form=functions[0])
    return Offered(functions=functions, is_required=choice == "required")


def _function(tool_spec: ClientTool) -> ClientFunction:
    if tool_spec.type != "function" or tool_spec.function is None:
        raise invalid(f"tools must be of type function, not {tool_spec.type[:100]!r}", "tools")
    if not fits(TOOL_NAME, tool_spec.function.name):
        raise invalid(f"invalid function name {tool_spec.function.name[:100]!r}: use letters, digits, _ and -", "tools")
    return tool_spec.function


@dataclass
class PendingCall:
    id: str
    name: str
    arguments: str  # JSON
    result: asyncio.Future[Any]

    def as_item(self) -> dict[str, Any]:
        """The call in the format of `/v1/responses`."""
        return call_item(self.id, self.name, self.arguments)

    def as_data(self, place: int | None = None) -> dict[str, Any]:
        """The call in the format of chat completions. In a stream, it has the number `place`."""
        call = {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}
        return call if place is None else {"index": place, **call}


def call_item(id: str, name: str, arguments: str) -> dict[str, Any]:
    """A call as an item of the output of `/v1/responses`."""
    item = {"id": f"fc_{id.removeprefix('call_')}", "type": "function_call", "status": "completed"}
    return {**item, "call_id": id, "name": name, "arguments": arguments}


@dataclass
class CallerTools:
    """The tools of one run, and the calls that wait for results."""

    functions: Sequence[ClientFunction]
    pending: dict[str, PendingCall] = field(default_factory=dict)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def as_tools(self) -> list[Tool]:
        """The tools for a program, under names that it can call: `get-news` becomes `get_news`. Raises Refusal."""
        named: dict[str, ClientFunction] = {}
        for function in self.functions:
            named[free(named, function.name, f"{function.name}_tool")] = function
        try:
            return [self._tool(name, function) for name, function in named.items()]
        except InputError as error:
            raise invalid(str(error), "tools") from None

    def _tool(self, called: str, function: ClientFunction) -> Tool:
        schemas = Schemas(function.schema, _MAX_VISITS // len(self.functions))
        fields, required = schemas.fields(function.schema)
        sent_as = {identifier(name): name for name in itertools.islice(fields, _MAX_PARAMETERS)}
        if len(sent_as) < len(fields):
            raise InputError(f"function {function.name[:100]}: too many parameters, or names that are equal in Python")
        parameters = [
            parameter(name, schemas.type(fields[sent]), is_required=sent in required) for name, sent in sent_as.items()
        ]
        parameters.sort(key=lambda item: item.default is not inspect.Parameter.empty)

        async def call(given: Mapping[str, Any]) -> Any:
            arguments = {
                sent_as[name]: value for name, value in given.items() if value is not None or sent_as[name] in required
            }
            return await self._call(function.name, arguments)

        return tool(described(called, words_of(function.description, 600), parameters, call))

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        id = f"call_{secrets.token_hex(12)}"
        text = json.dumps(msgspec.to_builtins(arguments), ensure_ascii=False)
        pending = PendingCall(id, name, text, asyncio.get_running_loop().create_future())
        self.pending[id] = pending
        self.arrived.set()
        try:
            return await pending.result
        finally:
            self.pending.pop(id, None)

    async def next_calls(self, active: ActiveRun) -> list[PendingCall]:
        """Wait for calls of the program. Return none if the run ends first."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self.arrived, active.over)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if self.pending and not active.over.is_set():
                await asyncio.sleep(_TOGETHER_SECONDS)
            return [] if active.over.is_set() else list(self.pending.values())
        finally:
            for wait in waits:
                wait.cancel()


class ToolRuns:
    """Runs that wait for results of their client's tools, by the ids of the calls."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[CallerTools, ActiveRun]] = {}

    def keep(self, calls: Sequence[PendingCall], tools: CallerTools, active: ActiveRun) -> None:
        """Remember a run whose calls were sent to the client until the results arrive or time out."""
        for call in calls:
            self._waiting[call.id] = (tools, active)
        ids = [call.id for call in calls]
        asyncio.get_running_loop().call_later(_PATIENCE_SECONDS, self._expire, ids, active)

    def _expire(self, ids: Sequence[str], active: ActiveRun) -> None:
        unanswered = [self._waiting.pop(id, None) for id in ids]
        if any(unanswered):
            active.cancel()

    async def next_calls(self, request: Request, tools: CallerTools, active: ActiveRun) -> list[PendingCall]:
        """Wait for calls to send to the client; none when the run is over. Cancel the run if the client disconnects."""
        calls: list[PendingCall] | None = None
        try:
            calls = await unless_gone(request, tools.next_calls(active))
        finally:
            if calls is None:
                active.cancel()
        if calls:
            self.keep(calls, tools, active)
        else:
            await active.over.wait()
        return calls or []

    def resume(
        self, owner: str, results: Mapping[str, str], where: str = "messages"
    ) -> tuple[CallerTools, ActiveRun] | None:
        """Give results to the run that waits for them; None if no run does. Raises Refusal if some are missing."""
        for id in results:
            tools, active = self._waiting.get(id, (None, None))
            if tools is None or active is None or active.run.owner != owner or active.over.is_set():
                continue
            missing = [call.id for call in tools.pending.values() if call.id not in results]
            if missing:
                raise invalid(f"the result of tool call {missing[0]!r} is missing", where)
            read = {
                call.id: _data(results[call.id], where) for call in tools.pending.values()
            }  # decode all before using any
            tools.arrived.clear()
            for call in list(tools.pending.values()):
                self._waiting.pop(call.id, None)
                if not call.result.done():
                    call.result.set_result(read[call.id])
            return tools, active
        return None


def _data(text: str, where: str) -> Any:
    """The result of a tool: JSON as data, anything else as text."""
    if len(text) > _MAX_RESULT_CHARS:
        raise invalid(f"a tool result can have at most {_MAX_RESULT_CHARS:,} characters", where)
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
