"""`/v1/responses`, as OpenAI's clients know it: the answer of a run is the output text; none is a failed response."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from starlette.requests import Request as HTTPRequest
from starlette.responses import Response
from starlette.routing import Route

from ..trace import as_json
from .api import answered, json_body, owner_of
from .conversations import Format, Turn, Wanted, begun, carried_out, checked_tools, is_cut, question_in, unfit, why_not
from .intake import Desk
from .run_kinds import decoded
from .runs import Live
from .store import Run
from .streams import KEEP, EventStream, event


class Text(msgspec.Struct):
    format: Format | None = None


class ResponseRequest(msgspec.Struct):
    """What is understood of a request; what else clients send changes nothing here."""

    model: str
    input: str | list[Turn]
    instructions: str | None = None
    stream: bool | None = None
    tools: list[Any] | None = None
    previous_response_id: str | None = None
    text: Text | None = None

    @property
    def answer_type(self) -> Wanted:
        given = self.text.format if self.text is not None else None
        return given.wanted("text.format") if given is not None else None


class Responses:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    @property
    def routes(self) -> list[Route]:
        return [Route("/v1/responses", self.respond, methods=["POST"])]

    async def respond(self, request: HTTPRequest) -> Response:
        wanted: ResponseRequest = decoded(await json_body(request), ResponseRequest)
        checked_tools(wanted.tools)
        if wanted.previous_response_id is not None:
            raise unfit("what was said before must be sent again, as input", "previous_response_id")
        turns = [Turn("user", wanted.input)] if isinstance(wanted.input, str) else wanted.input
        question = question_in(turns, "input", wanted.instructions)
        live = await begun(self._desk, owner_of(request), wanted.model, question, wanted.answer_type)
        headers = {"x-coc-run": live.run.id}
        if wanted.stream:
            return EventStream(self._events(live, wanted.model), headers, live.cancel)
        await carried_out(request, live)
        return answered(_response(live.run, wanted.model), headers=headers)

    async def _events(self, live: Live, model: str) -> AsyncGenerator[bytes, None]:
        run, number = live.run, 0

        def said(kind: str, **more: Any) -> bytes:
            nonlocal number
            number += 1
            return event(kind, as_json({"type": kind, "sequence_number": number - 1, **more}))

        told = self._desk.runs.follow(run)
        try:
            yield said("response.created", response=_response(run, model))
            yield said("response.in_progress", response=_response(run, model))
            async for some in told:
                if any(kind == "keep" for _, kind, _ in some):
                    yield KEEP
            response = _response(run, model)
            if run.answer is None:
                yield said("response.failed", response=response)
                return
            place: dict[str, Any] = {"output_index": 0, "content_index": 0, "item_id": f"msg_{run.id}"}
            item, part = response["output"][0], response["output"][0]["content"][0]
            begun_item = {**item, "status": "in_progress", "content": []}
            yield said("response.output_item.added", output_index=0, item=begun_item)
            yield said("response.content_part.added", **place, part={**part, "text": ""})
            yield said("response.output_text.delta", **place, delta=run.answer, logprobs=[])
            yield said("response.output_text.done", **place, text=run.answer, logprobs=[])
            yield said("response.content_part.done", **place, part=part)
            yield said("response.output_item.done", output_index=0, item=item)
            yield said(f"response.{response['status']}", response=response)
        finally:
            await told.aclose()


def _response(run: Run, model: str) -> dict[str, Any]:
    is_open, output = run.state in ("queued", "running"), []
    if run.answer is not None:
        part = {"type": "output_text", "text": run.answer, "annotations": [], "logprobs": []}
        message = {"id": f"msg_{run.id}", "type": "message", "role": "assistant", "status": "completed"}
        output = [{**message, "content": [part]}]
    error = {"code": "server_error", "message": why_not(run)} if not is_open and run.answer is None else None
    return {
        "id": f"resp_{run.id}",
        "object": "response",
        "created_at": int(run.created),
        "status": "in_progress" if is_open else "failed" if error else "incomplete" if is_cut(run) else "completed",
        "error": error,
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
        "usage": None if is_open else _usage(run),
    }


def _usage(run: Run) -> dict[str, Any]:
    given, made = run.usage.get("prompt_tokens", 0), run.usage.get("completion_tokens", 0)
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": run.usage.get("cached_tokens", 0)},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given + made,
    }
