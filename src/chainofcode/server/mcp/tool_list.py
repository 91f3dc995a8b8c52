"""The tools of the MCP server; a `ToolBackend` runs them."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar

import anyio
import msgspec
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

from ... import __version__
from ...audit.faithfulness.verdict import ORIGINS
from ...errors import ChainOfCodeError
from ...methods import METHODS
from ...program import Program
from ...reasons import Reason
from ...render import Page, count, plain, what
from ...trace import Answer, Call, Event, Kept, Step, Trace, as_json
from ..refusal import Refusal
from ..settings import MAX_QUESTION_CHARS

_MAX_PROGRAM_CHARS = 1_000_000
_ID = re.compile(r"[0-9a-f]{16,24}")  # of a run; no trace looks like this
_MAX_TRACE_CHARS = 32_000_000
_MAX_TEXT_CHARS = 20_000
_MAX_VALUE_BYTES = 200_000
_PROGRESS_SECONDS = 0.2
_CLOSE_SECONDS = 10.0
_ALONE = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
_INSTRUCTIONS = (
    "Answers questions by writing and running Python in a sandbox; a language model answers calls of undefined "
    "functions. `solve` takes a question, `run_program` a program of yours, `verify` checks how far an answer follows "
    "from its reasoning. Each run leaves a trace, which can be read as trace://ID."
)
_Made = TypeVar("_Made")


class RunOutcome(BaseModel):
    """The outcome of a run."""

    answer: str | None = Field(description="the answer as text; null if there is none (see reason and error)")
    value: Any = Field(
        description="the answer as data; types that JSON lacks are tagged, as in {'$tuple': [1, 2]}; null if large"
    )
    confidence: float | None = Field(
        description="how sure the model was of an answer that it states, otherwise of its least sure judgement"
    )
    reason: str = Field(description="answered, error, limit:<which>, emulation failed or guest died")
    error: str | None = Field(description="why there is no answer, and on which line")
    steps: int
    lm_calls: int = Field(description="calls answered by a model or by your values")
    program: str | None = Field(description="the program that computed the answer")
    trace: str = Field(description="the ID of the run, for verify and for trace://ID")
    seconds: float


class VerifyOutcome(BaseModel):
    """The outcome of a verification."""

    score: float = Field(description="0 to 1: how much of the work the answer depends on; 0 if there is a flag")
    flags: list[str] = Field(description="reasons not to trust the answer")
    origin: str = Field(description="program, constant, input, model, reply or none")
    replays: bool = Field(description="whether a replay gave the same, step by step")
    chain: str = Field(description="the digests of the trace: intact, none or broken")
    decisive: list[str] = Field(description="calls whose value decides the answer, the least sure first")
    hangs_on: str = Field(
        description="the judgement that the answer depends on most, and its confidence; empty if none"
    )


class ProgressReporter:
    """Reports the progress of a run to its client, a few times per second."""

    def __init__(self, context: Context[Any, Any]) -> None:
        self._context, self._events, self._reported = context, 0, 0.0

    async def note(self, event: Event | bytes | str) -> None:
        """Count an event, or a line of a trace that encodes one; a text describes an event that is too long."""
        self._events += 1
        if time.monotonic() - self._reported >= _PROGRESS_SECONDS:
            self._reported = time.monotonic()
            await self._context.report_progress(self._events, message=_summary(event))


class ToolRequest(NamedTuple):
    """A question with a method, or a program with values."""

    question: str | None
    method: str = "coc"
    answer_type: str | None = None
    program: str | None = None
    values: Sequence[dict[str, Any]] = ()
    inputs: Mapping[str, Any] = {}


class ToolBackend(Protocol):
    """Runs the tools for the owner of a token. Methods raise Refusal or ChainOfCodeError."""

    async def carry_out(self, request: ToolRequest, owner: str, progress: ProgressReporter) -> tuple[str, Trace]:
        """Run to the end. Return the ID of the run and its trace."""

    async def lines(self, id: str, owner: str) -> bytes:
        """The trace of a run, as JSON lines. Raises Refusal (404)."""

    async def verified(self, id: str, owner: str) -> dict[str, Any]:
        """The verdict on a run; see `audit.verify_data`."""

    async def verified_text(self, text: str, owner: str) -> dict[str, Any]:
        """The verdict on a trace from any source."""


def build_server(backend: ToolBackend) -> MCPServer[Any]:
    tools = _Tools(backend)
    server: MCPServer[Any] = MCPServer(
        "chainofcode", instructions=_INSTRUCTIONS, version=__version__, log_level="WARNING", subscriptions=False
    )
    for function in (tools.solve, tools.run_program, tools.verify):
        server.tool(annotations=_ALONE)(function)
    server.resource("trace://{id}", mime_type="application/x-ndjson", description="the trace of a run, as JSON lines")(
        tools.trace
    )
    return server


class _Tools:
    def __init__(self, backend: ToolBackend) -> None:
        self._backend = backend

    async def solve(
        self,
        question: Annotated[str, Field(description="the question, with everything needed to answer it")],
        context: Context[Any, Any],
        method: Annotated[str, Field(description=f"one of {', '.join(METHODS)}")] = "coc",
        answer_type: Annotated[
            str,
            Field(description="what the answer must be: int, float, bool, str, date, list[int]…, json, choice:A,B,C"),
        ] = "",
    ) -> Annotated[CallToolResult, RunOutcome]:
        """Answer a question: a model writes a program, Python runs what it can in a sandbox, the model the rest."""
        if not question.strip() or len(question) > MAX_QUESTION_CHARS:
            raise ToolError(f"a question has 1 to {MAX_QUESTION_CHARS:,} characters")
        if answer_type.endswith(".json"):  # would be a file of the server
            raise ToolError("answer_type takes the name of a type, not a file")
        return await self._run(ToolRequest(question=question, method=method, answer_type=answer_type or None), context)

    async def run_program(
        self,
        program: Annotated[str, Field(description="Python, which may call functions that it does not define")],
        context: Context[Any, Any],
        values: Annotated[
            list[dict[str, Any]] | None,
            Field(description='known values of such calls: [{"call": "is_fruit(\'fig\')", "value": true}]'),
        ] = None,
        inputs: Annotated[dict[str, Any] | None, Field(description="variables that the program starts with")] = None,
        question: Annotated[str, Field(description="what the program is to answer")] = "",
    ) -> Annotated[CallToolResult, RunOutcome]:
        """Run a Python program in a sandbox: calls of undefined functions get your values, or a model's.

        The answer is the variable `answer`, else the value of the last expression, else what was printed last.
        """
        if len(program) > _MAX_PROGRAM_CHARS:
            raise ToolError(f"a program has {_MAX_PROGRAM_CHARS:,} characters at most")
        request = ToolRequest(question=question or None, program=program, values=values or [], inputs=inputs or {})
        return await self._run(request, context)

    async def verify(
        self,
        context: Context[Any, Any],
        id: Annotated[str, Field(description="the ID of a run of this server, from `trace` of its result")] = "",
        trace: Annotated[str, Field(description="or a whole trace, as JSON lines")] = "",
    ) -> Annotated[CallToolResult, VerifyOutcome]:
        """Check whether an answer follows from its reasoning: replay it, trace its provenance, change its values."""
        id = id.removeprefix("trace://")
        if _ID.fullmatch(trace.removeprefix("trace://")):
            id, trace = id or trace.removeprefix("trace://"), ""
        if bool(id) == bool(trace):
            raise ToolError("verify takes either id or trace")
        if len(trace) > _MAX_TRACE_CHARS:
            raise ToolError(f"a trace has {_MAX_TRACE_CHARS:,} characters at most")
        with _tool_errors():
            found = await _until_done(self._verdict(id, trace, context))
        outcome = VerifyOutcome(
            score=found["score"],
            flags=found["flags"],
            origin=found["origin"],
            replays=found["replays"],
            chain=(found["chain"] or {"state": "none"})["state"],
            decisive=[flip["call"] or "" for flip in found["flips"] if flip["outcome"] == "changes"],
            hangs_on=(found["hangs_on"] or {"text": ""})["text"],
        )
        verdict = "no problems found" if not outcome.flags else "; ".join(outcome.flags)
        lines = [f"faithfulness {outcome.score:.2f}: {verdict}", f"comes from {ORIGINS[found['origin']]}"]
        return _result("\n".join([*lines, *filter(None, [outcome.hangs_on])]), outcome)

    async def _verdict(self, id: str, trace: str, context: Context[Any, Any]) -> dict[str, Any]:
        if id:
            return await self._backend.verified(id, _owner_of(context))
        return await self._backend.verified_text(trace, _owner_of(context))

    async def trace(self, id: str, context: Context[Any, Any]) -> str:
        """The trace of a run, as JSON lines."""
        try:
            return (await self._backend.lines(id, _owner_of(context))).decode("utf-8", "replace")
        except Refusal as refusal:
            raise ResourceNotFoundError(refusal.message) from None

    async def _run(self, request: ToolRequest, context: Context[Any, Any]) -> CallToolResult:
        with _tool_errors():
            run = self._backend.carry_out(request, _owner_of(context), ProgressReporter(context))
            id, trace = await _until_done(run)
        answer = trace.answer or Answer(Reason.GUEST_DIED)
        outcome = RunOutcome(
            answer=answer.text if answer.is_answered else None,
            value=answer.value if len(as_json(answer.value)) <= _MAX_VALUE_BYTES else None,
            confidence=trace.confidence,
            reason=answer.reason,
            error=_error_text(answer),
            steps=len(trace.steps),
            lm_calls=trace.lm_calls,
            program=trace.program.source if trace.program is not None else None,
            trace=id,
            seconds=round(answer.run_seconds, 3),
        )
        return _result(f"{_rendered(trace)}\ntrace://{id}", outcome)


def _rendered(trace: Trace) -> str:
    """The beginning of a trace as text. The rest is not rendered: a trace can be long."""
    text = ""
    for line in Page().trace(trace):
        text += f"{line}\n"
        if len(text) > _MAX_TEXT_CHARS:
            return f"{text[:_MAX_TEXT_CHARS]}\n… more in the trace"
    return text.removesuffix("\n")


def _error_text(answer: Answer) -> str | None:
    if answer.error is None:
        return None
    where = f"line {answer.error.line}: " if answer.error.line else ""
    return f"{where}{answer.error.message}"


def _owner_of(context: Context[Any, Any]) -> str:
    """The owner of a request, as set by the request guard; empty without one."""
    scope = getattr(context.request_context.request, "scope", None) or {}
    return str(scope.get("owner", ""))


def _summary(event: Event | bytes | str) -> str:
    if isinstance(event, str):
        return event
    event = msgspec.json.decode(event, type=Kept) if isinstance(event, bytes) else event
    match event:
        case Program():
            return f"a program of {count(len(event.statements), 'statement')}"
        case Call():
            return f"a call of {event.tool}" if event.tool else f"a request to {plain(event.model) or 'the model'}"
        case Step():
            return f"line {event.line}: {what(event, 100)}"
        case Answer():
            return f"{event.reason}" + (f" → {event.then}" if event.then else "")
    return ""


async def _until_done(work: Coroutine[Any, Any, _Made]) -> _Made:
    """Run in a task that is cancelled only once: the SDK cancels at every await, even in the cleanup of a guest."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task})
    finally:
        if not task.done():
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({task}, timeout=_CLOSE_SECONDS)
    return task.result()


@contextlib.contextmanager
def _tool_errors() -> Iterator[None]:
    try:
        yield
    except (ChainOfCodeError, Refusal) as error:
        raise ToolError(str(error)) from None


def _result(text: str, outcome: BaseModel) -> CallToolResult:
    data = msgspec.json.decode(as_json(outcome.model_dump()))  # without lone surrogates
    text = text.encode("utf-8", "backslashreplace").decode()
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=data)
