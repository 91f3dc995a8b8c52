"""The MCP server: other programs' models have questions answered and programs run here, and what came of it verified.

Nothing that a client sends reads a file, names a package or raises a limit: a program gets its text, its inputs and
the sandbox, a trace that is verified no more than that either.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import secrets
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import anyio
import msgspec
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field
from starlette.applications import Starlette

from .. import __version__
from ..audit import averify, check_chain, given_of
from ..emulator import First, Table, asking
from ..engine import Options, execute, new_trace
from ..errors import ChainOfCodeError, InputError
from ..guest.values import ValueFormatError, decode
from ..lm import LM
from ..methods import METHODS, ask, compose
from ..program import Program
from ..render import Page, count, cut, plain, what
from ..sandbox import Limits, Sandbox
from ..trace import Answer, Call, Event, Step, Trace, as_json

_MAX_QUESTION_CHARS = 100_000
_MAX_PROGRAM_CHARS = 1_000_000
_MAX_TRACE_CHARS = 32_000_000
_MAX_TEXT_CHARS = 20_000
_MAX_KEPT_RUNS = 100
_MAX_KEPT_CHARS = 100_000_000
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


def mcp_server(
    lm: LM | None, sandbox: Sandbox, *, limits: Limits | None = None, runs_at_once: int = 4
) -> MCPServer[Any]:
    """A server that asks this model and runs programs in this sandbox, both of which stay the caller's to close.

    Serve it with `await server.run_stdio_async()`, or over HTTP with `streamable_app`. Making one sets up logging on
    standard error, unless logging is set up already.
    """
    runs = _Runs(lm, sandbox, limits or Limits(), runs_at_once)
    server: MCPServer[Any] = MCPServer(
        "chainofcode", instructions=_INSTRUCTIONS, version=__version__, log_level="WARNING", subscriptions=False
    )
    for function in (runs.solve, runs.run_program, runs.verify):
        server.tool(annotations=_ALONE)(function)
    server.resource("trace://{id}", mime_type="application/x-ndjson", description="the trace of a run, as JSON lines")(
        runs.trace
    )
    return server


def streamable_app(server: MCPServer[Any], *, hosts: Sequence[str] = ()) -> Starlette:
    """The server over streamable HTTP, at /mcp, on its own or as part of another Starlette application:

        app = streamable_app(server)
        Starlette(routes=[*others, *app.routes], lifespan=…)  # within it: async with server.session_manager.run(): …

    `hosts` are the Host headers that are taken, as in `coc.example.org` or `localhost:*`; without any, this machine's
    own names. It asks nobody who they are: that is for the application around it.
    """
    security = None
    if hosts:
        origins = [f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")]
        security = TransportSecuritySettings(allowed_hosts=list(hosts), allowed_origins=origins)
    return server.streamable_http_app(streamable_http_path="/mcp", transport_security=security)


class _Runs:
    """The tools, and the traces of what they did."""

    def __init__(self, lm: LM | None, sandbox: Sandbox, limits: Limits, at_once: int) -> None:
        self._lm, self._sandbox, self._limits = lm, sandbox, limits
        self._slots = asyncio.Semaphore(at_once)
        self._kept: collections.OrderedDict[str, str] = collections.OrderedDict()

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
        if self._lm is None:
            raise ToolError("this server has no model; run_program takes a program and values for its calls")
        if not question.strip() or len(question) > _MAX_QUESTION_CHARS:
            raise ToolError(f"a question has 1 to {_MAX_QUESTION_CHARS:,} characters")
        if answer_type.endswith(".json"):  # which would be a file of ours
            raise ToolError("answer_type takes a type by name, no file")
        with _plain_errors():
            ways: Any = {"method": compose(method, repairs=2, fallback=True), "answer_type": answer_type or None}
            trace = new_trace(Options(question=question, limits=self._limits))
            events = ask(question, self._lm, sandbox=self._sandbox, limits=self._limits, **ways)
            return await self._told(events, trace, context)

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
        with _plain_errors():
            table = Table.of_records(values or [], "values")
            emulator = table if self._lm is None else First(table, asking(self._lm))
            options = Options(question=question or None, inputs=_decoded(inputs or {}), limits=self._limits)
            events = execute(program, emulator, sandbox=self._sandbox, **options)
            return await self._told(events, new_trace(options), context)

    async def verify(
        self,
        context: Context[Any, Any],
        id: Annotated[str, Field(description="the ID of a run of this server")] = "",
        trace: Annotated[str, Field(description="or a whole trace, as JSON lines")] = "",
    ) -> Annotated[CallToolResult, Verified]:
        """Check whether an answer is what its reasoning gave: replay it, follow what it rests on, change its values."""
        if bool(id) == bool(trace):
            raise ToolError("verify takes either id or trace")
        text = self.trace(id) if id else trace
        if len(text) > _MAX_TRACE_CHARS:
            raise ToolError(f"a trace has {_MAX_TRACE_CHARS:,} characters at most")
        with _plain_errors():
            lines = text.encode("utf-8", "replace").splitlines()
            bounded = _bounded(Trace.parse(lines), self._limits)
            async with self._slots:
                found = await _to_the_end(averify(bounded, chain=check_chain(lines), sandbox=self._sandbox))
        decisive = [flip.step.call or "" for flip in found.flips if flip.outcome == "changes"]
        told = Verified(
            score=found.score,
            flags=list(found.flags),
            origin=found.origin,
            replays=found.replays,
            chain=found.chain.state if found.chain is not None else "none",
            decisive=decisive,
        )
        verdict = "nothing speaks against it" if not found.flags else "; ".join(found.flags)
        return _result(f"faithfulness {found.score:.2f}: {verdict}\ncomes from {found.told_origin}", told)

    def trace(self, id: str) -> str:
        """The trace of a run, as JSON lines."""
        if id not in self._kept:
            raise ResourceNotFoundError(f"there is no run {id[:100]!r}, or it is no longer kept")
        return self._kept[id]

    async def _told(self, events: AsyncIterator[Event], trace: Trace, context: Context[Any, Any]) -> CallToolResult:
        async with self._slots:
            await _to_the_end(_collect(events, trace, context))
        id = self._keep(trace)
        answer = trace.answer or Answer("guest died")
        where = f"line {answer.error.line}: " if answer.error is not None and answer.error.line else ""
        told = Told(
            answer=answer.text if answer.reason == "answered" else None,
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

    def _keep(self, trace: Trace) -> str:
        id = secrets.token_hex(8)  # not to be guessed: over HTTP, clients are not each other's
        self._kept[id] = "".join(f"{line}\n" for line in trace.lines())
        while len(self._kept) > _MAX_KEPT_RUNS or sum(map(len, self._kept.values())) > _MAX_KEPT_CHARS:
            self._kept.popitem(last=False)
        return id


async def _collect(events: AsyncIterator[Event], trace: Trace, context: Context[Any, Any]) -> None:
    """Keep the events, and tell of them now and then."""
    said = 0.0
    async with contextlib.aclosing(events) as stream:  # type: ignore[type-var]
        async for event in stream:
            trace.events.append(event)
            if time.monotonic() - said >= _PROGRESS_SECONDS:
                said = time.monotonic()
                await context.report_progress(len(trace.events), message=_news(event, trace))


def _news(event: Event, trace: Trace) -> str:
    match event:
        case Program():
            return f"a program of {count(len(event.statements), 'statement')}"
        case Call():
            return f"{count(len(trace.calls), 'request')} to {plain(event.model) or 'the model'}"
        case Step():
            return cut(f"line {event.line}: {plain(what(event, 100))}", 120)
    return f"{event.reason}" + (f" → {event.then}" if event.then else "")


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
def _plain_errors() -> Any:
    try:
        yield
    except ChainOfCodeError as error:
        raise ToolError(str(error)) from None


def _decoded(inputs: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {name: decode(value) for name, value in inputs.items()}
    except (ValueFormatError, RecursionError) as error:
        raise InputError(f"inputs: {error}") from None


def _bounded(trace: Trace, limits: Limits) -> Trace:
    """A trace that asks for no more than any program here gets: it may be anybody's."""
    given = given_of(trace)
    for name, asked in (("files", given["prelude"]), ("reads", given["reads"]), ("packages", given["packages"])):
        if asked:
            raise InputError(f"the trace's program was granted {name}, which this server grants to nobody")
    own = given["limits"]
    names = [field.name for field in dataclasses.fields(Limits)]
    most = {name: min(getattr(own, name), getattr(limits, name)) for name in names}
    return dataclasses.replace(trace, settings={**trace.settings, "limits": most})


def _result(text: str, told: BaseModel) -> CallToolResult:
    data = msgspec.json.decode(as_json(told.model_dump()))  # no half characters, which no JSON can carry
    text = text.encode("utf-8", "backslashreplace").decode()
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=data)
