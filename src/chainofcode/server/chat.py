"""`/v1/chat/completions` and `/v1/models` for OpenAI's clients: the content is the answer of a run.

Without an answer the content is empty, and `refusal` says why.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from starlette.requests import Request as HTTPRequest
from starlette.responses import Response
from starlette.routing import Route

from ..trace import as_json
from .api import answered, json_body, owner_of
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
    refuse_tools,
    respond,
    step_line,
    why_not,
)
from .intake import Intake
from .refusal import Refusal, invalid
from .run_kinds import decoded
from .store import RunRecord
from .streams import KEEP, event


class ChatRequest(msgspec.Struct):
    """The fields that have a meaning here; others (temperature, max_tokens…) are ignored."""

    model: str
    messages: list[Turn]
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    n: int | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    response_format: ResponseFormat | None = None

    @property
    def answer_type(self) -> AnswerFormat:
        return self.response_format.wanted("response_format") if self.response_format is not None else None


class Chat:
    def __init__(self, intake: Intake) -> None:
        self._intake = intake

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
        wanted = decoded(await json_body(request), ChatRequest)
        if wanted.n not in (None, 1):
            raise invalid("n must be 1: send several requests instead", "n")
        refuse_tools(wanted.tools)
        refuse_tools(wanted.functions)
        question = question_in(wanted.messages, "messages")
        active = await begin(self._intake, owner_of(request), wanted.model, question, wanted.answer_type)
        with_usage = bool((wanted.stream_options or {}).get("include_usage"))
        chunks = self._chunks(active.run, wanted.model, with_usage) if wanted.stream else None
        return await respond(request, active, chunks, lambda run: _completion(run, wanted.model))

    async def _chunks(self, run: RunRecord, model: str, with_usage: bool) -> AsyncGenerator[bytes, None]:
        head = {
            "id": f"chatcmpl-{run.id}",
            "object": "chat.completion.chunk",
            "created": int(run.created),
            "model": model,
        }

        def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return event(None, as_json({**head, "choices": [choice], **({"usage": None} if with_usage else {})}))

        yield chunk({"role": "assistant", "content": ""})
        async with contextlib.aclosing(self._intake.runs.follow(run)) as batches:
            async for batch in batches:
                for _, kind, data in batch:
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


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "chainofcode"}


def _completion(run: RunRecord, model: str) -> dict[str, Any]:
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
