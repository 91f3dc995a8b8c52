"""Tools of MCP servers, started here or reached over HTTP, and called by the host.

What a server sends is untrusted: names, schemas and results are limited in size, and never evaluated. All connections
run in a thread with its own event loop: a server that fails only ends the calls that wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import logging
import os
import shlex
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2
import mcp_types as types
import msgspec
import pydantic
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from ..credentials import Credentials
from ..errors import InputError
from ..lm.remote import without_login
from .json_schema import Schemas, free, identifier, words_of
from .mcp_stdio import MAX_REPLY_BYTES, BoundedStdio
from .tools import Tool, described, parameter

START_SECONDS = 60.0  # some commands install packages first
CALL_SECONDS = 60.0
MAX_TOOLS = 500  # each is described to the model
_MAX_PAGES = 100
_MAX_ARGUMENTS = 100
_MAX_ERROR_CHARS = 1000
_MAX_LAST_WORDS = 2000
_SILENT_SECONDS = 300.0  # without data, of a stream that a server holds open
_CLOSE_SECONDS = 15.0  # the SDK terminates a process, then kills it, in less
_URLS = ("http://", "https://")
_Found = TypeVar("_Found")


class MCPFailure(Exception):
    """A failed call; the message is for the program."""


class MCPTimeout(MCPFailure, TimeoutError):
    """The server did not reply in time."""


class MCPGone(MCPFailure, ConnectionError):
    """The connection to the server is closed."""


@contextlib.contextmanager
def mcp_tools(
    servers: Iterable[str],
    taken: Iterable[str] = (),
    note: Callable[[str], None] = lambda text: None,
    seconds: float = CALL_SECONDS,
    start_seconds: float = START_SECONDS,
) -> Iterator[list[Tool]]:
    """Yield the tools of servers, each given by its command line or URL; the servers end with the block.

    No tool gets one of the names `taken`. `note` is called for each tool left out; a call takes up to `seconds`.
    """
    connections: list[_Connection] = []
    with _own_loop() as run:
        try:
            listed = []
            for server in servers:
                connection = _Connection(server, seconds, start_seconds)
                connections.append(connection)
                listed.append(run(connection.open(), 3 * start_seconds))
            yield _tools(connections, listed, set(taken), note, run)
        finally:
            with contextlib.suppress(TimeoutError):
                run(_close(connections), _CLOSE_SECONDS)


_Run = Callable[[Coroutine[Any, Any, Any], float | None], Any]


@contextlib.contextmanager
def _own_loop() -> Iterator[_Run]:
    """Yield a function that runs a coroutine in a thread. It returns the result or, if `seconds` is None, a future."""
    logging.getLogger("mcp").addHandler(logging.NullHandler())  # no warnings in the terminal
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: None)
    thread = threading.Thread(target=loop.run_forever, name="coc mcp", daemon=True)
    thread.start()

    def run(work: Coroutine[Any, Any, Any], seconds: float | None) -> Any:
        future = asyncio.run_coroutine_threadsafe(work, loop)
        return future if seconds is None else future.result(seconds)

    try:
        yield run
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(1)
        if not thread.is_alive():
            loop.close()


async def _close(connections: Iterable[_Connection]) -> None:
    await asyncio.gather(*(connection.close() for connection in connections), return_exceptions=True)


class _Connection:
    """One server, in its own task: a failure only ends that task and the calls that wait for it."""

    def __init__(self, server: str, seconds: float, start_seconds: float) -> None:
        self._seconds, self._start_seconds = seconds, start_seconds
        self._server = server
        is_url = server.startswith(_URLS)
        self.shown, login = without_login(server) if is_url else (server, ())
        self.credentials = Credentials(login)
        self.name = ""
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._opened, self._closing = asyncio.Event(), asyncio.Event()
        self._last_words = b""
        self._process: BoundedStdio | None = None

    async def open(self) -> list[types.Tool]:
        self._task = asyncio.create_task(self._live())
        opened = asyncio.create_task(self._opened.wait())
        await asyncio.wait({self._task, opened}, timeout=self._start_seconds, return_when=asyncio.FIRST_COMPLETED)
        opened.cancel()
        if self._client is None:
            raise InputError(f"--mcp {self.shown}: {self._why()}")
        try:
            return await self._raced(self._listed(self._client), self._start_seconds)
        except MCPFailure as error:
            raise InputError(f"--mcp {self.shown}: {error}") from None

    async def _live(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            transport = await self._transport(stack)
            client = Client(transport, read_timeout_seconds=self._start_seconds, cache=None)
            self._client = await stack.enter_async_context(client)
            self.name = self._client.server_info.name if self._client.server_info is not None else ""
            self._opened.set()
            await self._closing.wait()

    async def _transport(self, stack: contextlib.AsyncExitStack) -> Any:
        if self._server.startswith(_URLS):
            return streamable_http_client(self._server, http_client=await stack.enter_async_context(_http_client()))
        command, *arguments = _words(self._server)
        read, write = os.pipe()
        threading.Thread(target=self._listen, args=(read,), name="coc mcp stderr", daemon=True).start()
        errors = stack.enter_context(os.fdopen(write, "w"))
        if sys.platform == "win32":  # the SDK handles job objects, and commands without their extension
            return stdio_client(StdioServerParameters(command=command, args=arguments), errlog=errors)
        self._process = BoundedStdio([command, *arguments], errors)
        return self._process.connect()

    def _listen(self, fd: int) -> None:
        """Keep the end of standard error: it may explain why the server failed."""
        with os.fdopen(fd, "rb", buffering=0) as stream:
            while data := stream.read(1 << 16):
                self._last_words = (self._last_words + data)[-_MAX_LAST_WORDS:]

    def _why(self) -> str:
        task = self._task
        if task is None or not task.done():
            return f"the server did not answer within {self._start_seconds:g} s"
        error = None if task.cancelled() else task.exception()
        last_line = self._last_words.decode(errors="replace").strip().split("\n")[-1]
        return self.credentials.remove(self._breach() or _cause(error)) + (
            f" (stderr: {last_line[:300]})" if last_line else ""
        )

    def _breach(self) -> str:
        return self._process.breach if self._process is not None else ""

    async def _listed(self, client: Client) -> list[types.Tool]:
        found: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                return self._clean(found)
            if len(found) > MAX_TOOLS:
                break
        raise MCPFailure(f"it has over {MAX_TOOLS} tools, or an endless list of them")

    def _clean(self, tools: list[types.Tool]) -> list[types.Tool]:
        """Return tools whose descriptions do not repeat the password in the URL."""
        if not self.credentials:
            return tools
        return [
            types.Tool.model_validate(self.credentials.remove_from(tool.model_dump(by_alias=True))) for tool in tools
        ]

    async def call(self, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        client = self._client
        if client is None:
            raise MCPGone("the server is not connected")
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=arguments))
        # Not `client.call_tool`: it validates results against the server's schema, whose patterns may take forever.
        return await self._raced(client.session.send_request(request, types.CallToolResult), self._seconds)

    async def _raced(self, work: Coroutine[Any, Any, _Found], seconds: float) -> _Found:
        """Return the result. Raises MCPFailure if the server or the connection fails, or after a timeout."""
        if self._task is None or self._task.done():
            work.close()
            raise MCPGone("the server is gone")
        call = asyncio.create_task(work)
        try:
            await asyncio.wait({call, self._task}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not call.done() and self._task.done():
                raise MCPGone("the server is gone")
            if not call.done():
                raise MCPTimeout(f"no reply within {seconds:g} s")
            return await call
        except MCPFailure:
            raise
        except Exception as error:  # from the server or the SDK
            raise MCPFailure(self.credentials.remove(self._breach() or _cause(error))) from None
        finally:
            call.cancel()  # the SDK notifies the server

    async def close(self) -> None:
        self._closing.set()
        if self._task is not None:
            done, _ = await asyncio.wait({self._task}, timeout=_CLOSE_SECONDS / 2 if self._client is not None else 0)
            if not done:
                self._task.cancel()
                await asyncio.wait({self._task}, timeout=_CLOSE_SECONDS / 3)


class _BoundedStream(httpx2.AsyncByteStream):
    """The body of a reply, limited in size: the SDK reads it whole. Compressed replies are rejected: they expand."""

    def __init__(self, stream: httpx2.AsyncByteStream, encoding: str) -> None:
        self._stream, self._encoding = stream, encoding

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._encoding != "identity":
            raise httpx2.StreamError(f"the reply is compressed ({self._encoding[:20]}); identity was requested")
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MAX_REPLY_BYTES:
                raise httpx2.StreamError(f"the reply has over {MAX_REPLY_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def _http_client() -> httpx2.AsyncClient:
    """Return a client that limits the size of replies."""

    async def bound(response: httpx2.Response) -> None:
        encoding = response.headers.get("content-encoding", "").strip().lower() or "identity"
        is_events = response.is_success and response.headers.get("content-type", "").startswith("text/event-stream")
        is_bounded = is_events and encoding == "identity"  # the SDK limits each event
        if not is_bounded and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _BoundedStream(response.stream, encoding)

    return httpx2.AsyncClient(
        headers={"accept-encoding": "identity"},
        timeout=httpx2.Timeout(START_SECONDS, read=_SILENT_SECONDS),
        event_hooks={"response": [bound]},
    )


def _words(server: str) -> list[str]:
    try:
        words = shlex.split(server)
    except ValueError as error:
        raise InputError(f"--mcp {server}: {error}") from None
    if not words:
        raise InputError("--mcp takes the command of a server, as in 'uvx some-server --option', or a URL")
    return words


def _cause(error: BaseException | None) -> str:
    """Return the first cause of an error in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is None or (isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED):
        return "the server is gone"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
    if isinstance(error, pydantic.ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))[:100]
        return f"the server sent a malformed result: {place}: {first['msg']}"[:_MAX_ERROR_CHARS]
    return " ".join(f"{str(error) or type(error).__name__}"[:_MAX_ERROR_CHARS].split())


# --- tools --------------------------------------------------------------------------------------------------------


def _tools(
    connections: list[_Connection],
    listed: list[list[types.Tool]],
    taken: set[str],
    note: Callable[[str], None],
    run: _Run,
) -> list[Tool]:
    tools: dict[str, Tool] = {}
    if sum(map(len, listed)) > MAX_TOOLS:
        raise InputError(f"the MCP servers have {sum(map(len, listed)):,} tools; the limit is {MAX_TOOLS}")
    for connection, found in zip(connections, listed, strict=True):
        for tool in found:
            name = free(
                dict.fromkeys([*taken, *tools]), tool.name, f"{connection.name}_{tool.name}", f"{tool.name}_tool"
            )
            try:
                spec = _Spec.of(tool)
            except RecursionError:
                note(f"{connection.shown}: the tool {tool.name[:100]!r} is left out: its schema is nested too deeply")
                continue
            has_effect = tool.annotations is None or tool.annotations.read_only_hint is not True
            tools[name] = Tool(name, _function(name, spec, connection, run), has_effect)
    return list(tools.values())


@dataclass(frozen=True)
class _Spec:
    """A tool as its server describes it. If `sent_as` is empty, its argument, if any, is the whole object."""

    name: str
    doc: str
    parameters: tuple[inspect.Parameter, ...]
    sent_as: Mapping[str, str]
    is_wrapped: bool  # the result is the only member of an object

    @classmethod
    def of(cls, tool: types.Tool) -> _Spec:
        schemas = Schemas(tool.input_schema)
        fields, wanted = schemas.fields(tool.input_schema)
        sent_as = {identifier(name): name for name in fields}
        is_spread = len(sent_as) == len(fields) <= _MAX_ARGUMENTS and wanted <= fields.keys()
        if not is_spread or (not fields and tool.input_schema.keys() & {"anyOf", "oneOf", "$ref"}):
            whole = parameter("arguments", dict[str, Any], is_required=True)
            return cls(tool.name, _doc(tool, {}), (whole,), {}, _is_wrapped(tool))
        made = [
            parameter(name, schemas.type(fields[sent]), is_required=sent in wanted) for name, sent in sent_as.items()
        ]
        made.sort(key=lambda parameter: parameter.default is None)
        docs = {name: words_of(schemas.at(fields[sent]).get("description"), 100) for name, sent in sent_as.items()}
        return cls(tool.name, _doc(tool, docs), tuple(made), sent_as, _is_wrapped(tool))

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments to send, as JSON data."""
        optional = {parameter.name for parameter in self.parameters if parameter.default is None}
        kept = {name: value for name, value in given.items() if value is not None or name not in optional}
        whole = {self.sent_as.get(name, name): value for name, value in kept.items()}
        named = whole if self.sent_as else whole.get("arguments", {})
        try:
            text = json.dumps(msgspec.to_builtins(named), allow_nan=False, ensure_ascii=False)
            return dict(json.loads(text.encode()))
        except (TypeError, ValueError, RecursionError) as error:
            raise MCPFailure(f"the arguments cannot be sent as JSON: {error}") from None


def _is_wrapped(tool: types.Tool) -> bool:
    return list(Schemas(tool.output_schema or {}).fields(tool.output_schema)[0]) == ["result"]


def _doc(tool: types.Tool, docs: Mapping[str, str]) -> str:
    """Return a description, the most useful part first: if it is too long for the model, its end is cut."""
    lines = [words_of(tool.description, 300) or words_of(tool.title, 200) or words_of(tool.name, 100)]
    if tool.output_schema is not None:
        schemas = Schemas(tool.output_schema)
        whole = schemas.fields(tool.output_schema)[0]["result"] if _is_wrapped(tool) else tool.output_schema
        lines.append(f"Gives {schemas.shape(whole)}"[:250])
    else:
        lines.append("Gives a text.")
    return "\n".join([*lines, *(f"{name}: {doc}" for name, doc in docs.items() if doc)])


def _function(name: str, spec: _Spec, connection: _Connection, run: _Run) -> Callable[..., Any]:
    """Return a function that calls the tool and returns an awaitable."""

    async def call(given: Mapping[str, Any]) -> Any:
        # Cancelling this future cancels the call in the other event loop, too.
        work = connection.call(spec.name, spec.arguments(given))
        return _data(await asyncio.wrap_future(run(work, None)), spec.is_wrapped, connection.credentials)

    return described(name, spec.doc, spec.parameters, call)


def _data(result: types.CallToolResult, is_wrapped: bool, credentials: Credentials) -> Any:
    """Return structured content, else the texts; other content, such as images, is only named."""
    text = credentials.remove("\n".join(map(_text, result.content)))
    if result.is_error:
        raise MCPFailure(text[:_MAX_ERROR_CHARS] or "it failed without an error message")
    data = credentials.remove_from(result.structured_content)
    if data is None:
        return text if result.content else None
    return data["result"] if is_wrapped and isinstance(data, dict) and data.keys() == {"result"} else data


def _text(block: Any) -> str:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.EmbeddedResource) and isinstance(block.resource, types.TextResourceContents):
        return block.resource.text
    if isinstance(block, types.ResourceLink):
        return str(block.uri)
    kind = getattr(block, "mime_type", None) or getattr(block, "type", "unknown")
    return f"[{str(kind)[:100]}: not text]"
