"""`/v1/responses` for OpenAI's clients: the output text is the answer of a run; without one the response has failed."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from starlette.requests import Request as HTTPRequest
from starlette.responses import Response
from starlette.routing import Route

from ..trace import as_json
from .api import json_body, owner_of
from .conversations import (
    AnswerFormat,
    ResponseFormat,
    Turn,
    begin,
    is_cut,
    question_in,
    refuse_tools,
    respond,
    why_not,
)
from .intake import Intake
from .refusal import invalid
from .run_kinds import decoded
from .store import RunRecord
from .streams import KEEP, event


class TextOptions(msgspec.Struct):
    format: ResponseFormat | None = None


class ResponseRequest(msgspec.Struct):
    """The fields that have a meaning here; others are ignored."""

    model: str
    input: str | list[Turn]
    instructions: str | None = None
    stream: bool | None = None
    tools: list[Any] | None = None
    previous_response_id: str | None = None
    background: bool | None = None
    text: TextOptions | None = None

    @property
    def answer_type(self) -> AnswerFormat:
        given = self.text.format if self.text is not None else None
        return given.wanted("text.format") if given is not None else None


class Responses:
    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    @property
    def routes(self) -> list[Route]:
        return [Route("/v1/responses", self.respond, methods=["POST"])]

    async def respond(self, request: HTTPRequest) -> Response:
        wanted = decoded(await json_body(request), ResponseRequest)
        refuse_tools(wanted.tools)
        if wanted.background:
            raise invalid(
                "background is not supported: POST /api/runs starts a run that goes on by itself", "background"
            )
        if wanted.previous_response_id is not None:
            raise invalid("responses are not linked: send earlier messages again, as input", "previous_response_id")
        turns = [Turn(role="user", content=wanted.input)] if isinstance(wanted.input, str) else wanted.input
        question = question_in(turns, "input", wanted.instructions)
        active = await begin(self._intake, owner_of(request), wanted.model, question, answer_format=wanted.answer_type)
        events = self._events(active.run, wanted.model) if wanted.stream else None
        return await respond(request, active, events, lambda run: _response(run, wanted.model))

    async def _events(self, run: RunRecord, model: str) -> AsyncGenerator[bytes, None]:
        numbers = itertools.count()

        def sent(kind: str, **more: Any) -> bytes:
            return event(kind, as_json({"type": kind, "sequence_number": next(numbers), **more}))

        yield sent("response.created", response=_response(run, model))
        yield sent("response.in_progress", response=_response(run, model))
        async with contextlib.aclosing(self._intake.runs.follow(run)) as batches:
            async for batch in batches:
                if any(kind == "keep" for _, kind, _ in batch):
                    yield KEEP
        response = _response(run, model)
        if run.answer is None:
            yield sent("response.failed", response=response)
            return
        place: dict[str, Any] = {"output_index": 0, "content_index": 0, "item_id": f"msg_{run.id}"}
        item, part = response["output"][0], response["output"][0]["content"][0]
        begun_item = {**item, "status": "in_progress", "content": []}
        yield sent("response.output_item.added", output_index=0, item=begun_item)
        yield sent("response.content_part.added", **place, part={**part, "text": ""})
        yield sent("response.output_text.delta", **place, delta=run.answer, logprobs=[])
        yield sent("response.output_text.done", **place, text=run.answer, logprobs=[])
        yield sent("response.content_part.done", **place, part=part)
        yield sent("response.output_item.done", output_index=0, item=item)
        yield sent(f"response.{response['status']}", response=response)


def _status(run: RunRecord) -> str:
    if not run.is_over:
        return "in_progress"
    if run.answer is None:
        return "failed"
    return "incomplete" if is_cut(run) else "completed"


def _response(run: RunRecord, model: str) -> dict[str, Any]:
    status, output = _status(run), []
    if run.answer is not None:
        part = {"type": "output_text", "text": run.answer, "annotations": [], "logprobs": []}
        message = {"id": f"msg_{run.id}", "type": "message", "role": "assistant", "status": "completed"}
        output = [{**message, "content": [part]}]
    return {
        "id": f"resp_{run.id}",
        "object": "response",
        "created_at": int(run.created),
        "status": status,
        "error": {"code": "server_error", "message": why_not(run)} if status == "failed" else None,
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut(run) else None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": output,
        "parallel_tool_calls": False,
        "temperature": None,
        "tool_choice": "none",
        "tools": [],
        "top_p": None,
        "usage": _usage(run) if run.is_over else None,
    }


def _usage(run: RunRecord) -> dict[str, Any]:
    given, made = run.usage.get("prompt_tokens", 0), run.usage.get("completion_tokens", 0)
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": run.usage.get("cached_tokens", 0)},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given + made,
    }
