"""`/v1/chat/completions` and `/v1/models` for OpenAI's clients: the content is the answer of a run.

Tools are the form of the answer, or functions that the program may call (see `caller_tools`). Without an answer, the
content is null and `refusal` gives the reason.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any

import msgspec
from starlette.requests import Request as HTTPRequest
from starlette.responses import Response
from starlette.routing import Route

from ..trace import as_json
from .active_run import ActiveRun
from .api import answered, json_body, owner_of
from .caller_tools import CallerTools, ClientFunction, ClientTool, Offered, PendingCall, ToolChoice, ToolRuns, offered
from .conversations import (
    AnswerFormat,
    ResponseFormat,
    Turn,
    begin,
    check_ran,
    is_cut,
    method_and_model,
    model_names,
    question_in,
    respond,
    results_in,
    step_line,
    why_not,
)
from .intake import Intake
from .refusal import Refusal, invalid
from .run_kinds import decoded
from .store import RunRecord
from .streams import KEEP, EventStream, event


class ChatRequest(msgspec.Struct):
    """The supported fields; others (temperature, max_tokens…) are ignored."""

    model: str
    messages: list[Turn]
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    n: int | None = None
    tools: list[ClientTool] | None = None
    tool_choice: str | ToolChoice | None = None
    functions: list[Any] | None = None
    response_format: ResponseFormat | None = None

    def answer_type(self, form: ClientFunction | None) -> AnswerFormat:
        if form is not None:
            return form.schema
        return self.response_format.answer_format("response_format") if self.response_format is not None else None


class Chat:
    def __init__(self, intake: Intake) -> None:
        self._intake, self._tool_runs = intake, ToolRuns()

    @property
    def routes(self) -> list[Route]:
        return [
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.model),
            Route("/v1/chat/completions", self.complete, methods=["POST"]),
        ]

    async def models(self, request: HTTPRequest) -> Response:
        return answered({"object": "list", "data": [_model(name) for name in model_names(self._intake)]})

    async def model(self, request: HTTPRequest) -> Response:
        method_and_model(self._intake, request.path_params["name"])
        return answered(_model(request.path_params["name"]))

    async def complete(self, request: HTTPRequest) -> Response:
        body = decoded(await json_body(request), ChatRequest)
        if body.n not in (None, 1):
            raise invalid("n must be 1: send several requests instead", "n")
        if body.functions:
            raise invalid("functions are not supported: send tools instead", "functions")
        tool_use, owner = offered(body.tools, body.tool_choice), owner_of(request)
        if resumed := self._tool_runs.resume(owner, results_in(body.messages, "messages")):
            return await self._with_tools(request, body, *resumed)
        question = question_in(body.messages, "messages")
        if tool_use.functions:
            return await self._begin_with_tools(request, body, tool_use, question)
        kind = body.answer_type(tool_use.form)
        active = await begin(self._intake, owner, body.model, question, answer_format=kind)
        form = tool_use.form.name if tool_use.form is not None else None
        chunks = self._chunks(active.run, _Chunks.of(active.run, body), form) if body.stream else None
        return await respond(request, active, chunks, lambda run: _completion(run, body.model, form))

    async def _begin_with_tools(
        self, request: HTTPRequest, body: ChatRequest, tool_use: Offered, question: str
    ) -> Response:
        tools, kind = CallerTools(tool_use.functions), body.answer_type(None)
        owner = owner_of(request)
        caller_tools = await self._intake.in_thread(owner, tools.as_tools)
        prompt = tool_use.prompt(question)
        active = await begin(self._intake, owner, body.model, prompt, answer_format=kind, tools=caller_tools)
        return await self._with_tools(request, body, tools, active)

    async def _with_tools(
        self, request: HTTPRequest, body: ChatRequest, tools: CallerTools, active: ActiveRun
    ) -> Response:
        """Wait until the program calls tools of the client, or the run is over."""
        calls = await self._tool_runs.next_calls(request, tools, active)
        if not calls:
            check_ran(active.run)
        message = _tool_message(calls) if calls else _message(active.run, None)
        finish = "tool_calls" if calls else _finish(active.run)
        if not body.stream:
            return answered(_body(active.run, body.model, message, finish), headers={"x-coc-run": active.run.id})
        chunks = _Chunks.of(active.run, body)
        if calls:
            message["tool_calls"] = [call.as_data(place) for place, call in enumerate(calls)]
        return EventStream(chunks.whole(message, finish), {"x-coc-run": active.run.id})

    async def _chunks(self, run: RunRecord, chunks: _Chunks, form: str | None) -> AsyncGenerator[bytes, None]:
        yield chunks.chunk({"role": "assistant", "content": ""})
        async with contextlib.aclosing(self._intake.runs.follow(run)) as batches:
            async for batch in batches:
                for _, kind, data in batch:
                    if kind == "keep":
                        yield KEEP
                    elif kind in ("program", "step", "answer") and (line := step_line(kind, data)):
                        yield chunks.chunk({"reasoning_content": line})
        try:
            check_ran(run)
        except Refusal as refusal:
            error = {"message": refusal.message, "type": "server_error", "param": None, "code": refusal.kind}
            yield event(None, as_json({"error": error}))
            return
        message = _message(run, form)
        if "tool_calls" in message:
            message["tool_calls"] = [{"index": 0, **call} for call in message["tool_calls"]]
        for part in chunks.last({name: value for name, value in message.items() if value is not None}, _finish(run)):
            yield part


@dataclasses.dataclass(frozen=True)
class _Chunks:
    """The chunks of one streamed completion."""

    run: RunRecord
    model: str
    with_usage: bool

    @classmethod
    def of(cls, run: RunRecord, body: ChatRequest) -> _Chunks:
        return cls(run, body.model, bool((body.stream_options or {}).get("include_usage")))

    @property
    def _head(self) -> dict[str, Any]:
        return {**_head(self.run, self.model), "object": "chat.completion.chunk"}

    def chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        usage = {"usage": None} if self.with_usage else {}
        return event(None, as_json({**self._head, "choices": [choice], **usage}))

    def last(self, delta: dict[str, Any], finish: str) -> Iterator[bytes]:
        yield self.chunk({name: value for name, value in delta.items() if name != "role"})
        yield self.chunk({}, finish)
        if self.with_usage:
            yield event(None, as_json({**self._head, "choices": [], "usage": _usage(self.run)}))
        yield event(None, b"[DONE]")

    async def whole(self, message: dict[str, Any], finish: str) -> AsyncGenerator[bytes, None]:
        """A complete message, as a stream."""
        yield self.chunk({"role": "assistant", "content": ""})
        for part in self.last({name: value for name, value in message.items() if value is not None}, finish):
            yield part


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "chainofcode"}


def _head(run: RunRecord, model: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{run.id}",
        "object": "chat.completion",
        "created": int(run.created),
        "model": model,
    }


def _completion(run: RunRecord, model: str, form: str | None) -> dict[str, Any]:
    return _body(run, model, _message(run, form), _finish(run))


def _body(run: RunRecord, model: str, message: dict[str, Any], finish: str) -> dict[str, Any]:
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    return {**_head(run, model), "choices": [choice], "usage": _usage(run)}


def _message(run: RunRecord, form: str | None) -> dict[str, Any]:
    """The answer as a message: text, or a call of the function whose parameters are the form of the answer."""
    if run.answer is None:
        return {"role": "assistant", "content": None, "refusal": why_not(run)}
    if form is None:
        return {"role": "assistant", "content": run.answer, "refusal": None}
    call = {"id": f"call_{run.id}", "type": "function", "function": {"name": form, "arguments": run.answer}}
    return {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}


def _tool_message(calls: Sequence[PendingCall]) -> dict[str, Any]:
    tool_calls = [call.as_data() for call in calls]
    return {"role": "assistant", "content": None, "refusal": None, "tool_calls": tool_calls}


def _finish(run: RunRecord) -> str:
    return "length" if (run.reason or "").startswith("limit:") or is_cut(run) else "stop"


def _usage(run: RunRecord) -> dict[str, Any]:
    prompt, completion = run.usage.get("prompt_tokens", 0), run.usage.get("completion_tokens", 0)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": run.usage.get("cached_tokens", 0)},
    }
