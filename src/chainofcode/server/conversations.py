"""Shared by OpenAI's two protocols: messages as a question, names of models, runs that a client waits for."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import msgspec
from starlette.requests import Request as HTTPRequest
from starlette.responses import Response

from ..emulator.tools import Tool
from ..methods import METHODS
from ..methods.prompting import question_after
from .active_run import ActiveRun
from .api import answered
from .intake import Intake
from .patterns import SAYS_SOMETHING, fits
from .refusal import Refusal, invalid
from .run_kinds import RunRequest
from .runs import MAX_ANSWER_CHARS
from .store import RunRecord
from .streams import EventStream, unless_gone
from .trace_reader import Line, LongLine

_ROLES = {
    "system": "Instructions",
    "developer": "Instructions",
    "user": "User",
    "assistant": "Assistant",
    "tool": "Result of a function",
}
_FORMATS = ("text", "json_object", "json_schema")
AnswerFormat = str | dict[str, Any] | None  # the name of a type, or a JSON schema; None: any answer


class NamedSchema(msgspec.Struct):
    schema: dict[str, Any] | None = None


class ResponseFormat(msgspec.Struct):
    """The format of an answer. Chat completions nest the schema one level deeper than responses."""

    type: str = "text"
    schema: dict[str, Any] | None = None
    json_schema: NamedSchema | None = None

    def answer_format(self, where: str) -> AnswerFormat:
        if self.type not in _FORMATS:
            raise invalid(f"{where} must be one of {', '.join(_FORMATS)}", where.partition(".")[0])
        if self.type != "json_schema":
            return "json" if self.type == "json_object" else None
        schema = self.schema if self.json_schema is None else self.json_schema.schema
        if schema is None:
            raise invalid(f"{where} needs a schema", where.partition(".")[0])
        return schema


class TextPart(msgspec.Struct):
    type: str = "text"
    text: str | None = None


class MadeFunction(msgspec.Struct):
    name: str
    arguments: str = ""


class MadeCall(msgspec.Struct):
    """A tool call of an earlier response, as the client sends it back."""

    id: str
    function: MadeFunction


class Turn(msgspec.Struct):
    """A message of a conversation, or an item of a response's input."""

    role: str
    content: str | list[TextPart] | None = None
    type: str = "message"
    tool_calls: list[MadeCall] | None = None
    tool_call_id: str | None = None

    def text(self, where: str) -> str:
        if self.type != "message" or self.role not in _ROLES:
            raise invalid(f"only messages with these roles are supported: {', '.join(_ROLES)}", where)
        if not isinstance(self.content, list):
            content = (self.content or "").strip()
        elif any(part.text is None for part in self.content):
            raise invalid("only text is supported: upload files to /api/files", where)
        else:
            content = "\n".join(part.text or "" for part in self.content).strip()
        calls = [f"called {call.function.name}({call.function.arguments})" for call in self.tool_calls or ()]
        return "\n".join(filter(None, [content, *calls]))


def question_in(turns: Sequence[Turn], where: str, instructions: str | None = None) -> str:
    """The user's last message, below the earlier ones."""
    messages = [("system", (instructions or "").strip()), *((turn.role, turn.text(where)) for turn in turns)]
    user_places = [
        place for place, (role, text) in enumerate(messages) if role == "user" and fits(SAYS_SOMETHING, text)
    ]
    if not user_places:
        raise invalid("the conversation needs a user message that is not empty", where)
    _, question = messages.pop(user_places[-1])
    return question_after([(_ROLES[role], text) for role, text in messages if text], question)


def method_and_model(intake: Intake, name: str) -> tuple[str, str | None]:
    """The method and the model in a name such as coc, cot:local, coc:openai:gpt-4o-mini."""
    method, _, model = name.partition(":")
    if method not in METHODS:
        known = ", ".join(model_names(intake)[:20])
        raise Refusal(
            404, "model_not_found", f"unknown model {name[:200]!r} (expected one of: {known}…)", param="model"
        )
    return method, intake.models.named(model or None)


def model_names(intake: Intake) -> list[str]:
    return [*METHODS, *(f"{method}:{model}" for model in intake.models.names for method in METHODS)]


async def begin(
    intake: Intake,
    owner: str,
    model: str,
    question: str,
    *,
    answer_format: AnswerFormat = None,
    tools: Sequence[Tool] = (),
) -> ActiveRun:
    """Start a run. If its program may call tools of the client, it continues between the client's requests."""
    method, full_name = method_and_model(intake, model)
    request = RunRequest(question=question, method=method, model=full_name)
    if isinstance(answer_format, str):
        request.type = answer_format
    schema = answer_format if isinstance(answer_format, dict) else None
    return await intake.begin(owner, request, detach=bool(tools), schema=schema, tools=tools)


async def respond(
    request: HTTPRequest,
    active: ActiveRun,
    stream: AsyncGenerator[bytes, None] | None,
    body: Callable[[RunRecord], dict[str, Any]],
) -> Response:
    """The response to a client that waits for a run: a stream, or the body when the run is over."""
    headers = {"x-coc-run": active.run.id}
    if stream is not None:
        return EventStream(stream, headers, active.cancel)
    try:
        await unless_gone(request, active.over.wait())
    finally:
        active.cancel()  # the client has disconnected, or the run is over
    await active.over.wait()
    check_ran(active.run)
    return answered(body(active.run), headers=headers)


def results_in(turns: Sequence[Turn], where: str) -> dict[str, str]:
    """The results of tools at the end of a conversation, by the ids of their calls."""
    last = itertools.takewhile(lambda turn: turn.role == "tool", reversed(turns))
    return {turn.tool_call_id: turn.text(where) for turn in last if turn.tool_call_id is not None}


def why_not(run: RunRecord) -> str:
    """Why a run has no answer, in one line."""
    message = (run.error or {}).get("message", "")
    parts = ["no answer", run.reason or run.state, message]
    return ": ".join(part for part in parts if part)


def is_cut(run: RunRecord) -> bool:
    """Whether the answer was too long to be stored in full."""
    return len(run.answer or "") >= MAX_ANSWER_CHARS


def check_ran(run: RunRecord) -> None:
    """Raise Refusal for a run that could not be carried out."""
    if run.state == "done":
        return
    kind, message = (run.error or {}).get("type", ""), (run.error or {}).get("message", "")
    if run.state == "failed" and kind == "input":
        raise invalid(message)
    if run.state == "failed":
        raise Refusal(502 if kind == "model" else 500, f"{kind}_failed", message)
    raise Refusal(503, run.state, f"the run was {run.state}", retry_seconds=5)


def step_line(kind: str, data: Line) -> str:
    """An event as reasoning text: the program, or the value of a call."""
    if isinstance(data, LongLine):
        return f"# a {kind} of {data.size:,} bytes\n" if kind != "answer" else ""
    event = msgspec.json.decode(data)
    if kind == "program":
        return f"{event['source'].rstrip()}\n"
    if kind == "step" and event.get("call"):
        value = msgspec.json.encode(event.get("value")).decode()
        return f"# {event['call'][:500]} → {value[:500]}\n"
    return f"# {event['reason']}; then {event['then']}\n" if kind == "answer" and event.get("then") else ""
