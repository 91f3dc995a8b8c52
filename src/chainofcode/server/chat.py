"""`/v1/chat/completions` and `/v1/models`, as OpenAI's clients know them: the answer of a run is the content.

Where there is no answer, the content is empty and `refusal` says why: nobody takes that for an answer.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from starlette.requests import Request as HTTPRequest
from starlette.responses import Response
from starlette.routing import Route

from ..trace import as_json
from .api import answered, json_body, owner_of
from .conversations import (
    Format,
    Turn,
    Wanted,
    begun,
    carried_out,
    check_ran,
    checked_tools,
    is_cut,
    meant,
    model_names,
    question_in,
    step_line,
    unfit,
    why_not,
)
from .intake import Desk
from .run_kinds import decoded
from .runs import Live
from .settings import Refusal
from .store import Run
from .streams import KEEP, EventStream, event


class ChatRequest(msgspec.Struct):
    """What is understood of a request; what else clients send (temperature, max_tokens…) changes nothing here."""

    model: str
    messages: list[Turn]
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    n: int | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    response_format: Format | None = None

    @property
    def answer_type(self) -> Wanted:
        return self.response_format.wanted("response_format") if self.response_format is not None else None


class Chat:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    @property
    def routes(self) -> list[Route]:
        return [
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.model),
            Route("/v1/chat/completions", self.complete, methods=["POST"]),
        ]

    async def models(self, request: HTTPRequest) -> Response:
        return answered({"object": "list", "data": [_model(name) for name in model_names(self._desk)]})

    async def model(self, request: HTTPRequest) -> Response:
        meant(self._desk, request.path_params["name"])
        return answered(_model(request.path_params["name"]))

    async def complete(self, request: HTTPRequest) -> Response:
        wanted: ChatRequest = decoded(await json_body(request), ChatRequest)
        if wanted.n not in (None, 1):
            raise unfit("n is 1 here: ask several times", "n")
        checked_tools(wanted.tools)
        checked_tools(wanted.functions)
        question = question_in(wanted.messages, "messages")
        live = await begun(self._desk, owner_of(request), wanted.model, question, wanted.answer_type)
        headers = {"x-coc-run": live.run.id}
        if wanted.stream:
            with_usage = bool((wanted.stream_options or {}).get("include_usage"))
            return EventStream(self._chunks(live, wanted.model, with_usage), headers, live.cancel)
        await carried_out(request, live)
        return answered(_completion(live.run, wanted.model), headers=headers)

    async def _chunks(self, live: Live, model: str, with_usage: bool) -> AsyncGenerator[bytes, None]:
        run = live.run
        head = {"id": f"chatcmpl-{run.id}", "object": "chat.completion.chunk", "created": int(run.created)}
        head |= {"model": model}

        def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return event(None, as_json({**head, "choices": [choice], **({"usage": None} if with_usage else {})}))

        told = self._desk.runs.follow(run)
        try:
            yield chunk({"role": "assistant", "content": ""})
            async for some in told:
                for _, kind, data in some:
                    if kind == "keep":
                        yield KEEP
                    elif kind in ("program", "step", "answer") and (line := step_line(kind, data)):
                        yield chunk({"reasoning_content": line})
            try:
                check_ran(run)
            except Refusal as refusal:
                error = {"message": refusal.message, "type": "server_error", "param": None, "code": refusal.kind}
                yield event(None, as_json({"error": error}))
                return
            yield chunk({"content": run.answer} if run.answer is not None else {"refusal": why_not(run)})
            yield chunk({}, _finish(run))
            if with_usage:
                yield event(None, as_json({**head, "choices": [], "usage": _usage(run)}))
            yield event(None, b"[DONE]")
        finally:
            await told.aclose()


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "chainofcode"}


def _completion(run: Run, model: str) -> dict[str, Any]:
    refusal = why_not(run) if run.answer is None else None
    message = {"role": "assistant", "content": run.answer, "refusal": refusal}
    return {
        "id": f"chatcmpl-{run.id}",
        "object": "chat.completion",
        "created": int(run.created),
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(run)}],
        "usage": _usage(run),
    }


def _finish(run: Run) -> str:
    return "length" if (run.reason or "").startswith("limit:") or is_cut(run) else "stop"


def _usage(run: Run) -> dict[str, Any]:
    prompt, completion = run.usage.get("prompt_tokens", 0), run.usage.get("completion_tokens", 0)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": run.usage.get("cached_tokens", 0)},
    }
