"""Conversations as OpenAI's protocols have them: what of them is the question, and which model and method are meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request as HTTPRequest

from ..methods import METHODS
from .intake import Desk
from .patterns import SAYS_SOMETHING, fits
from .run_kinds import Request
from .runs import MAX_ANSWER_CHARS, Live
from .settings import Refusal
from .store import Run
from .streams import unless_gone

_ROLES = {"system": "Instructions", "developer": "Instructions", "user": "User", "assistant": "Assistant"}
_FORMATS = ("text", "json_object", "json_schema")
Wanted = str | dict[str, Any] | None  # what an answer is to be: a type by name, a schema, anything


class Named(msgspec.Struct):
    schema: dict[str, Any] | None = None


class Format(msgspec.Struct):
    """What an answer is to be, as clients ask for it; chat completions have a schema one level deeper."""

    type: str = "text"
    schema: dict[str, Any] | None = None
    json_schema: Named | None = None

    def wanted(self, where: str) -> Wanted:
        if self.type not in _FORMATS:
            raise unfit(f"{where} is {', '.join(_FORMATS)} here", where.partition(".")[0])
        if self.type != "json_schema":
            return "json" if self.type == "json_object" else None
        schema = self.schema if self.json_schema is None else self.json_schema.schema
        if schema is None:
            raise unfit(f"{where} needs a schema", where.partition(".")[0])
        return schema


class Part(msgspec.Struct):
    type: str = "text"
    text: str | None = None


class Turn(msgspec.Struct):
    """A message of a conversation; an item of a response's input."""

    role: str
    content: str | list[Part] | None = None
    type: str = "message"

    def said(self, where: str) -> str:
        if self.type != "message" or self.role not in _ROLES:
            raise unfit(f"only messages of {', '.join(_ROLES)} can be read here", where)
        if not isinstance(self.content, list):
            return (self.content or "").strip()
        if any(part.text is None for part in self.content):
            raise unfit("only text can be read here: files are uploaded to /api/files", where)
        return "\n".join(part.text or "" for part in self.content).strip()


def question_in(turns: Sequence[Turn], where: str, instructions: str | None = None) -> str:
    """The last message of the user; what else was said stands above it."""
    told = [("system", (instructions or "").strip()), *((turn.role, turn.said(where)) for turn in turns)]
    asked = [place for place, (role, text) in enumerate(told) if role == "user" and fits(SAYS_SOMETHING, text)]
    if not asked:
        raise unfit("a message must be the user's, and say something", where)
    _, question = told.pop(asked[-1])
    before = [f"{_ROLES[role]}: {text}" for role, text in told if text]
    if not before:
        return question
    return "\n".join(["What was said before:", *before, "", f"The question now: {question}"])


def meant(desk: Desk, name: str) -> tuple[str, str | None]:
    """Method and model by a name such as coc, cot:local, coc:openai:gpt-4o-mini."""
    method, _, model = name.partition(":")
    if method not in METHODS:
        known = ", ".join(model_names(desk)[:20])
        raise Refusal(404, "model_not_found", f"there is no model {name[:200]!r}; there are {known}…", param="model")
    return method, desk.models.named(model or None)


def model_names(desk: Desk) -> list[str]:
    return [*METHODS, *(f"{method}:{model}" for model in desk.models.names for method in METHODS)]


async def begun(desk: Desk, owner: str, model: str, question: str, wanted: Wanted) -> Live:
    method, full = meant(desk, model)
    name, schema = (wanted, None) if wanted is None or isinstance(wanted, str) else (None, wanted)
    request = Request(question, method=method, model=full, type=name)
    return await desk.begin(owner, request, detach=False, schema=schema)


def checked_tools(tools: Any) -> None:
    if tools:
        raise unfit("tools of clients cannot be called: programs here use Python and the model", "tools")


def unfit(message: str, param: str) -> Refusal:
    return Refusal(400, "invalid_request", message, param=param)


def why_not(run: Run) -> str:
    """Why a run brought no answer, in one line."""
    message = (run.error or {}).get("message", "")
    told = run.reason or run.state
    return f"no answer: {told}" + (f": {message}" if message else "")


def is_cut(run: Run) -> bool:
    """Whether the answer was longer than what is kept of it."""
    return len(run.answer or "") >= MAX_ANSWER_CHARS


async def carried_out(request: HTTPRequest, live: Live) -> None:
    """Wait for a run as long as its client does; raises Refusal where nothing came of it."""
    try:
        await unless_gone(request, live.over.wait())
    finally:
        live.cancel()  # nobody waits any more, or it is over
    await live.over.wait()
    check_ran(live.run)


def check_ran(run: Run) -> None:
    """Raises Refusal for a run that could not be carried out, which is not the model's fault."""
    if run.state == "done":
        return
    kind, message = (run.error or {}).get("type", ""), (run.error or {}).get("message", "")
    if run.state == "failed" and kind == "input":
        raise Refusal(400, "invalid_request", message)
    if run.state == "failed":
        raise Refusal(502 if kind == "model" else 500, f"{kind}_failed", message)
    raise Refusal(503, run.state, f"the run was {run.state}", retry_seconds=5)


def step_line(kind: str, data: bytes) -> str:
    """What an event tells of the reasoning, as text: the program, and what the model said for its calls."""
    told = msgspec.json.decode(data)
    if kind == "program":
        return f"{told['source'].rstrip()}\n"
    if kind == "step" and told.get("call"):
        value = msgspec.json.encode(told.get("value")).decode()
        return f"# {told['call'][:500]} → {value[:500]}\n"
    return f"# {told['reason']}; then {told['then']}\n" if kind == "answer" and told.get("then") else ""
