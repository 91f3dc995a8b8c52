"""`/v1/responses` for OpenAI's clients: the output text is the answer of a run; without one the response has failed."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import msgspec
from starlette.requests import Request as HTTPRequest
from starlette.responses import Response
from starlette.routing import Route

from ..trace import as_json
from .active_run import ActiveRun
from .api import answered, json_body, owner_of
from .caller_tools import (
    CallerTools,
    ClientFunction,
    ClientTool,
    NamedFunction,
    Offered,
    ToolChoice,
    ToolRuns,
    call_item,
    offered,
)
from .conversations import (
    AnswerFormat,
    MadeCall,
    MadeFunction,
    ResponseFormat,
    TextPart,
    Turn,
    begin,
    check_ran,
    is_cut,
    question_in,
    respond,
    results_in,
    why_not,
)
from .intake import Intake
from .refusal import invalid
from .run_kinds import decoded
from .store import RunRecord
from .streams import KEEP, EventStream, event


class TextOptions(msgspec.Struct):
    format: ResponseFormat | None = None


class ResponseTool(msgspec.Struct):
    """A function of the client; chat completions nest it one level deeper."""

    type: str
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None

    @property
    def as_chat(self) -> ClientTool:
        function = None if self.name is None else ClientFunction(self.name, self.description, self.parameters)
        return ClientTool(self.type, function)


class ResponseChoice(msgspec.Struct):
    type: str
    name: str | None = None

    @property
    def as_chat(self) -> ToolChoice:
        return ToolChoice(self.type, None if self.name is None else NamedFunction(self.name))


class InputItem(msgspec.Struct):
    """A message, a call of an earlier response, or its result."""

    type: str = "message"
    role: str = ""
    content: str | list[TextPart] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: str | list[TextPart] | None = None

    @property
    def as_turn(self) -> Turn:
        if self.type == "function_call":
            call = MadeCall(self.call_id, MadeFunction(self.name, self.arguments))
            return Turn(role="assistant", tool_calls=[call])
        if self.type == "function_call_output":
            return Turn(role="tool", content=self.output, tool_call_id=self.call_id)
        return Turn(role=self.role, content=self.content, type=self.type)


class ResponseRequest(msgspec.Struct):
    """The supported fields; others are ignored."""

    model: str
    input: str | list[InputItem]
    instructions: str | None = None
    stream: bool | None = None
    tools: list[ResponseTool] | None = None
    tool_choice: str | ResponseChoice | None = None
    previous_response_id: str | None = None
    background: bool | None = None
    text: TextOptions | None = None

    @property
    def turns(self) -> list[Turn]:
        if isinstance(self.input, str):
            return [Turn(role="user", content=self.input)]
        return [item.as_turn for item in self.input]

    @property
    def offered(self) -> Offered:
        choice = self.tool_choice.as_chat if isinstance(self.tool_choice, ResponseChoice) else self.tool_choice
        return offered([tool.as_chat for tool in self.tools or ()], choice)

    def answer_type(self, form: ClientFunction | None) -> AnswerFormat:
        if form is not None:
            return form.schema
        text_format = self.text.format if self.text is not None else None
        return text_format.answer_format("text.format") if text_format is not None else None


class Responses:
    def __init__(self, intake: Intake) -> None:
        self._intake, self._tool_runs = intake, ToolRuns()

    @property
    def routes(self) -> list[Route]:
        return [Route("/v1/responses", self.respond, methods=["POST"])]

    async def respond(self, request: HTTPRequest) -> Response:
        body = decoded(await json_body(request), ResponseRequest)
        if body.background:
            raise invalid("background is not supported: POST /api/runs starts a run in the background", "background")
        if body.previous_response_id is not None:
            raise invalid(
                "previous_response_id is not supported: send earlier messages again in input", "previous_response_id"
            )
        turns, tool_use, owner = body.turns, body.offered, owner_of(request)
        if resumed := self._tool_runs.resume(owner, results_in(turns, "input"), "input"):
            return await self._with_tools(request, body, *resumed)
        question = question_in(turns, "input", body.instructions)
        kind = body.answer_type(tool_use.form)
        if tool_use.functions:
            tools = CallerTools(tool_use.functions)
            caller_tools = await self._intake.in_thread(owner, tools.as_tools)
            active = await begin(
                self._intake, owner, body.model, tool_use.prompt(question), answer_format=kind, tools=caller_tools
            )
            return await self._with_tools(request, body, tools, active)
        active = await begin(self._intake, owner, body.model, question, answer_format=kind)
        form = tool_use.form.name if tool_use.form is not None else None
        events = self._events(active.run, body.model, form) if body.stream else None
        return await respond(request, active, events, lambda run: _response(run, body.model, form))

    async def _with_tools(
        self, request: HTTPRequest, body: ResponseRequest, tools: CallerTools, active: ActiveRun
    ) -> Response:
        """Wait until the program calls tools of the client, or the run is over."""
        calls = await self._tool_runs.next_calls(request, tools, active)
        headers = {"x-coc-run": active.run.id}
        if not calls:
            check_ran(active.run)
        response = _response(active.run, body.model)
        if calls:
            response |= {"status": "completed", "output": [call.as_item() for call in calls]}
        return EventStream(_whole(response), headers) if body.stream else answered(response, headers=headers)

    async def _events(self, run: RunRecord, model: str, form: str | None) -> AsyncGenerator[bytes, None]:
        sent = _ResponseEvents()
        for part in sent.begun(_response(run, model)):
            yield part
        async with contextlib.aclosing(self._intake.runs.follow(run)) as batches:
            async for batch in batches:
                if any(kind == "keep" for _, kind, _ in batch):
                    yield KEEP
        for part in sent.ended(_response(run, model, form)):
            yield part


async def _whole(response: dict[str, Any]) -> AsyncGenerator[bytes, None]:
    """A complete response, as a stream."""
    sent = _ResponseEvents()
    for part in itertools.chain(sent.begun({**response, "status": "in_progress", "output": []}), sent.ended(response)):
        yield part


class _ResponseEvents:
    """The numbered events of one streamed response."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def _event(self, kind: str, **more: Any) -> bytes:
        return event(kind, as_json({"type": kind, "sequence_number": next(self._numbers), **more}))

    def begun(self, response: dict[str, Any]) -> Iterator[bytes]:
        yield self._event("response.created", response=response)
        yield self._event("response.in_progress", response=response)

    def ended(self, response: dict[str, Any]) -> Iterator[bytes]:
        for index, item in enumerate(response["output"]):
            place = {"output_index": index, "item_id": item["id"]}
            yield from self._call(item, place) if item["type"] == "function_call" else self._message(item, place)
            yield self._event("response.output_item.done", output_index=index, item=item)
        yield self._event(f"response.{response['status']}", response=response)

    def _added(self, item: dict[str, Any], place: dict[str, Any]) -> bytes:
        begun = {**item, "status": "in_progress"}
        return self._event("response.output_item.added", output_index=place["output_index"], item=begun)

    def _call(self, item: dict[str, Any], place: dict[str, Any]) -> Iterator[bytes]:
        arguments = item["arguments"]
        yield self._added({**item, "arguments": ""}, place)
        yield self._event("response.function_call_arguments.delta", **place, delta=arguments)
        yield self._event("response.function_call_arguments.done", **place, name=item["name"], arguments=arguments)

    def _message(self, item: dict[str, Any], place: dict[str, Any]) -> Iterator[bytes]:
        (part,), place = item["content"], {**place, "content_index": 0}
        yield self._added({**item, "content": []}, place)
        yield self._event("response.content_part.added", **place, part={**part, "text": ""})
        yield self._event("response.output_text.delta", **place, delta=part["text"], logprobs=[])
        yield self._event("response.output_text.done", **place, text=part["text"], logprobs=[])
        yield self._event("response.content_part.done", **place, part=part)


def _status(run: RunRecord) -> str:
    if not run.is_over:
        return "in_progress"
    if run.answer is None:
        return "failed"
    return "incomplete" if is_cut(run) else "completed"


def _response(run: RunRecord, model: str, form: str | None = None) -> dict[str, Any]:
    status, output = _status(run), list[dict[str, Any]]()
    if run.answer is not None and form is not None:
        output = [call_item(f"call_{run.id}", form, run.answer)]
    elif run.answer is not None:
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
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": _usage(run) if run.is_over else None,
    }


def _usage(run: RunRecord) -> dict[str, Any]:
    input_tokens, output_tokens = run.usage.get("prompt_tokens", 0), run.usage.get("completion_tokens", 0)
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {"cached_tokens": run.usage.get("cached_tokens", 0)},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input_tokens + output_tokens,
    }
