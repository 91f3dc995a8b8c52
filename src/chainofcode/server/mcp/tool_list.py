"""The tools that MCP clients see, and what they are told; who does the work is behind `Work`."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
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
from ...audit import Verdict, given_of
from ...errors import ChainOfCodeError, InputError
from ...methods import METHODS
from ...program import Program
from ...reasons import Reason
from ...render import Page, count, cut, plain, what
from ...sandbox import Limits
from ...trace import Answer, Call, Event, Kept, Step, Trace, as_json
from ..settings import MAX_QUESTION_CHARS, Refusal

_MAX_PROGRAM_CHARS = 1_000_000
_ID = re.compile(r"[0-9a-f]{16,24}")  # of a run: no trace is one word
_MAX_TRACE_CHARS = 32_000_000
_MAX_TEXT_CHARS = 20_000
_PROGRESS_SECONDS = 0.2
_CLOSE_SECONDS = 10.0
_ALONE = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
_INSTRUCTIONS = (
    "Answers questions by writing and running Python in a sandbox; functions that nobody defined are answered by a "
    "language model. `solve` takes a question, `run_program` a program of yours, `verify` says how far an answer is "
    "what the reasoning gave. Each run leaves a trace, to be read as trace://ID."
)
_Made = TypeVar("_Made")


class Told(BaseModel):
    """What came of a run."""

    answer: str | None = Field(description="the answer as text; null where there is none, see reason and error")
    value: Any = Field(description="the answer as data; what JSON lacks is tagged, as in {'$tuple': [1, 2]}")
    reason: str = Field(description="answered, error, limit:<which>, emulation failed or guest died")
    error: str | None = Field(description="why there is no answer, and on which line")
    steps: int
    lm_calls: int = Field(description="calls of the program that a model, or your values, answered")
    program: str | None = Field(description="the program that the answer comes from")
    trace: str = Field(description="the run's ID: verify takes it, and trace://ID is its whole trace")
    seconds: float


class Verified(BaseModel):
    """What was found out about an answer."""

    score: float = Field(description="0 to 1: how much of the work the answer rests on; 0 where there is a flag")
    flags: list[str] = Field(description="reasons not to trust the answer")
    origin: str = Field(description="program, constant, input, model, reply or none")
    replays: bool = Field(description="whether the program gave the same again, step by step")
    chain: str = Field(description="whether the trace is as it was written: intact, none (no digests) or broken")
    decisive: list[str] = Field(description="calls whose value, were it another, would change the answer")


class News:
    """Tells a client of a run's events, now and then."""

    def __init__(self, context: Context[Any, Any]) -> None:
        self._context, self._events, self._said = context, 0, 0.0

    async def hear(self, event: Event | bytes) -> None:
        """An event, or a line of a trace that is one."""
        self._events += 1
        if time.monotonic() - self._said >= _PROGRESS_SECONDS:
            self._said = time.monotonic()
            await self._context.report_progress(self._events, message=_in_short(event))


class Asked(NamedTuple):
    """What a client wants answered or run: a question with a method, or a program with its values."""

    question: str | None
    method: str = "coc"
    answer_type: str | None = None
    program: str | None = None
    values: Sequence[dict[str, Any]] = ()
    inputs: Mapping[str, Any] = {}


class Work(Protocol):
    """Who does what clients ask for. `owner` is whose request it is; what cannot be done is a Refusal, or an error of
    ours."""

    async def carry_out(self, asked: Asked, owner: str, news: News) -> tuple[str, Trace]: ...

    async def lines(self, id: str, owner: str) -> bytes:
        """The trace of a run, as JSON lines; raises Refusal (404) where there is none."""
        ...

    async def verified(self, id: str, owner: str) -> Verdict: ...

    async def verified_text(self, text: bytes) -> Verdict:
        """Of a trace that may be anybody's."""
        ...


def server_of(work: Work) -> MCPServer[Any]:
    tools = _Tools(work)
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
    def __init__(self, work: Work) -> None:
        self._work = work

    async def solve(
        self,
        question: Annotated[str, Field(description="the question, with all that is needed to answer it")],
        context: Context[Any, Any],
        method: Annotated[str, Field(description=f"one of {', '.join(METHODS)}")] = "coc",
        answer_type: Annotated[
            str,
            Field(description="what the answer must be: int, float, bool, str, date, list[int]…, json, choice:A,B,C"),
        ] = "",
    ) -> Annotated[CallToolResult, Told]:
        """Answer a question: a model writes a program, Python runs what it can in a sandbox, the model the rest."""
        if not question.strip() or len(question) > MAX_QUESTION_CHARS:
            raise ToolError(f"a question has 1 to {MAX_QUESTION_CHARS:,} characters")
        if answer_type.endswith(".json"):  # which would be a file of ours
            raise ToolError("answer_type takes a type by name, no file")
        return await self._told(Asked(question, method, answer_type or None), context)

    async def run_program(
        self,
        program: Annotated[str, Field(description="Python; functions that nobody defined are asked for")],
        context: Context[Any, Any],
        values: Annotated[
            list[dict[str, Any]] | None,
            Field(description='known values of such calls: [{"call": "is_fruit(\'fig\')", "value": true}]'),
        ] = None,
        inputs: Annotated[dict[str, Any] | None, Field(description="variables that the program starts with")] = None,
        question: Annotated[str, Field(description="what the program is to answer")] = "",
    ) -> Annotated[CallToolResult, Told]:
        """Run a Python program in a sandbox: calls of undefined functions get your values, else a model's.

        The answer is the variable `answer`, else the value of the last expression, else what was printed last.
        """
        if len(program) > _MAX_PROGRAM_CHARS:
            raise ToolError(f"a program has {_MAX_PROGRAM_CHARS:,} characters at most")
        asked = Asked(question or None, program=program, values=values or [], inputs=inputs or {})
        return await self._told(asked, context)

    async def verify(
        self,
        context: Context[Any, Any],
        id: Annotated[str, Field(description="the ID of a run of this server, as `trace` of a result has it")] = "",
        trace: Annotated[str, Field(description="or a whole trace, as JSON lines")] = "",
    ) -> Annotated[CallToolResult, Verified]:
        """Check whether an answer is what its reasoning gave: replay it, follow what it rests on, change its values."""
        id = id.removeprefix("trace://")
        if _ID.fullmatch(trace.removeprefix("trace://")):
            id, trace = id or trace.removeprefix("trace://"), ""
        if bool(id) == bool(trace):
            raise ToolError("verify takes either id or trace")
        if len(trace) > _MAX_TRACE_CHARS:
            raise ToolError(f"a trace has {_MAX_TRACE_CHARS:,} characters at most")
        with _plain_errors():
            work = (
                self._work.verified(id, _owner_of(context))
                if id
                else self._work.verified_text(trace.encode("utf-8", "replace"))
            )
            found = await _to_the_end(work)
        told = Verified(
            score=found.score,
            flags=list(found.flags),
            origin=found.origin,
            replays=found.replays,
            chain=found.chain.state if found.chain is not None else "none",
            decisive=[flip.step.call or "" for flip in found.flips if flip.outcome == "changes"],
        )
        verdict = "nothing speaks against it" if not found.flags else "; ".join(found.flags)
        return _result(f"faithfulness {found.score:.2f}: {verdict}\ncomes from {found.told_origin}", told)

    async def trace(self, id: str, context: Context[Any, Any]) -> str:
        """The trace of a run, as JSON lines."""
        try:
            return (await self._work.lines(id, _owner_of(context))).decode("utf-8", "replace")
        except Refusal as refusal:
            raise ResourceNotFoundError(refusal.message) from None

    async def _told(self, asked: Asked, context: Context[Any, Any]) -> CallToolResult:
        with _plain_errors():
            work = self._work.carry_out(asked, _owner_of(context), News(context))
            id, trace = await _to_the_end(work)
        answer = trace.answer or Answer(Reason.GUEST_DIED)
        where = f"line {answer.error.line}: " if answer.error is not None and answer.error.line else ""
        told = Told(
            answer=answer.text if answer.is_answered else None,
            value=answer.value,
            reason=answer.reason,
            error=f"{where}{answer.error.message}" if answer.error is not None else None,
            steps=len(trace.steps),
            lm_calls=trace.lm_calls,
            program=trace.program.source if trace.program is not None else None,
            trace=id,
            seconds=round(answer.seconds, 3),
        )
        text = "\n".join(Page().trace(trace))
        more = (
            f"\n… {len(text) - _MAX_TEXT_CHARS:,} characters more in the trace" if len(text) > _MAX_TEXT_CHARS else ""
        )
        return _result(f"{text[:_MAX_TEXT_CHARS]}{more}\ntrace://{id}", told)


def bounded(trace: Trace, limits: Limits, *, scratch: bool = False) -> Trace:
    """A trace that asks for no more than any program here gets: it may be anybody's."""
    given = given_of(trace)
    asked = {"files": given.prelude, "reads": given.reads, "packages": given.packages}
    for name, value in {**asked, "scratch": given.scratch and not scratch}.items():
        if value:
            raise InputError(f"the trace's program was granted {name}, which this server grants to nobody")
    own = given.limits
    names = [field.name for field in dataclasses.fields(Limits)]
    most = {name: min(getattr(own, name), getattr(limits, name)) for name in names}
    return dataclasses.replace(trace, settings={**trace.settings, "limits": most})


def _owner_of(context: Context[Any, Any]) -> str:
    """Whose request it is, as the application around us has found out; nobody's where there is none."""
    scope = getattr(context.request_context.request, "scope", None) or {}
    return str(scope.get("owner", ""))


def _in_short(event: Event | bytes) -> str:
    event = msgspec.json.decode(event, type=Kept) if isinstance(event, bytes) else event
    match event:
        case Program():
            return f"a program of {count(len(event.statements), 'statement')}"
        case Call():
            return f"a request to {plain(event.model) or 'the model'}"
        case Step():
            return cut(f"line {event.line}: {plain(what(event, 100))}", 120)
        case Answer():
            return f"{event.reason}" + (f" → {event.then}" if event.then else "")
    return ""


async def _to_the_end(work: Coroutine[Any, Any, _Made]) -> _Made:
    """Run it in a task of its own, which is cancelled once if we are: the SDK cancels again at every turn, also what
    ends the guest."""
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
def _plain_errors() -> Iterator[None]:
    try:
        yield
    except (ChainOfCodeError, Refusal) as error:
        raise ToolError(str(error)) from None


def _result(text: str, told: BaseModel) -> CallToolResult:
    data = msgspec.json.decode(as_json(told.model_dump()))  # no half characters, which no JSON can carry
    text = text.encode("utf-8", "backslashreplace").decode()
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=data)
