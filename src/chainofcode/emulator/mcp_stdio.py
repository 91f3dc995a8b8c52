"""The process of an MCP server: a replacement for the SDK's transport that limits what the server can send.

The SDK's own transport reads lines of any length, in quadratic time, and any number of messages. Here the length of a
line is limited, a server that sends more than was requested is read slowly, and a malformed reply fails its call.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import AsyncIterator, Sequence
from typing import TextIO

import anyio
import mcp_types as types
from anyio.abc import ByteReceiveStream, ObjectReceiveStream, ObjectSendStream, Process
from mcp.client.stdio import get_default_environment
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage

MAX_REPLY_BYTES = 16 * 1024**2  # more than a program can receive
_LINE_COST = 16 * 1024  # the fixed cost of a message, in bytes that take as long to read
_REQUEST_CREDIT = 2 * MAX_REPLY_BYTES  # bytes that a server may send at full speed for each request
_MAX_CREDIT = 16 * _REQUEST_CREDIT
_SLOW_BYTES = 4 * 1024**2  # per second, without credit
_QUESTION_COST = 8 * _LINE_COST  # of a request from the server: the session replies to it
_MAX_QUESTIONS = 100  # requests of a server that wait until it reads our replies
_EXIT_SECONDS = 2.0  # after its input is closed, and again between SIGTERM and SIGKILL
_FLUSH_SECONDS = 0.5
_REPLY_ID = re.compile(rb'"id" ?: ?(\d{1,15})\b')
_PIPE_ERRORS = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream, OSError)


class BoundedStdio:
    """A server started from a command. `breach` states the limit that it exceeded, if it was stopped for that."""

    def __init__(self, command: Sequence[str], errors: TextIO) -> None:
        self._command, self._errors = command, errors
        self._credit, self._at = float(_REQUEST_CREDIT), time.monotonic()
        self._questions = anyio.Semaphore(_MAX_QUESTIONS)
        self.breach = ""

    @contextlib.asynccontextmanager
    async def connect(
        self,
    ) -> AsyncIterator[tuple[ObjectReceiveStream[SessionMessage | Exception], ObjectSendStream[SessionMessage]]]:
        # The SDK passes on PATH, HOME and the like, but no keys.
        process = await anyio.open_process(
            self._command, env=get_default_environment(), stderr=self._errors, start_new_session=True
        )
        received, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outbox, sent = anyio.create_memory_object_stream[SessionMessage](0)
        flushed = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, process, received)
            tasks.start_soon(self._write, process, sent, received, flushed)
            try:
                yield inbox, outbox
            finally:
                with anyio.CancelScope(shield=True):
                    inbox.close()
                    outbox.close()
                    with anyio.move_on_after(_FLUSH_SECONDS):
                        await flushed.wait()
                    await _end(process, _EXIT_SECONDS)
                tasks.cancel_scope.cancel()

    async def _read(self, process: Process, received: ObjectSendStream[SessionMessage | Exception]) -> None:
        assert process.stdout is not None
        with contextlib.suppress(*_PIPE_ERRORS):
            async with received:
                async for line in self._lines(process.stdout):
                    message = _message(line)
                    if isinstance(message, types.JSONRPCRequest):
                        self._credit -= _QUESTION_COST
                        await self._questions.acquire()
                    if message is not None:
                        await received.send(SessionMessage(message))
        if self.breach:
            await _end(process, 0)
            return
        with contextlib.suppress(*_PIPE_ERRORS):
            while True:  # a server that waits until its output is read cannot exit
                await self._wait_for_credit(len(await process.stdout.receive()))

    async def _lines(self, stdout: ByteReceiveStream) -> AsyncIterator[bytes]:
        line = bytearray()
        async for chunk in stdout:
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                line += end
                if self._is_too_long(line):
                    return
                await self._wait_for_credit(len(line))
                yield bytes(line)
                line.clear()
            line += rest
            if self._is_too_long(line):
                return

    def _is_too_long(self, line: bytearray) -> bool:
        if len(line) > MAX_REPLY_BYTES:
            self.breach = f"the server sent over {MAX_REPLY_BYTES:,} bytes in a line"
        return bool(self.breach)

    async def _wait_for_credit(self, size: int) -> None:
        now = time.monotonic()
        earned = min(self._credit + (now - self._at) * _SLOW_BYTES, _REQUEST_CREDIT)
        self._credit, self._at = max(self._credit, earned) - size - _LINE_COST, now
        if self._credit < 0:
            await anyio.sleep(-self._credit / _SLOW_BYTES)

    async def _write(
        self,
        process: Process,
        sent: ObjectReceiveStream[SessionMessage],
        received: ObjectSendStream[SessionMessage | Exception],
        flushed: anyio.Event,
    ) -> None:
        assert process.stdin is not None
        try:
            async with sent:
                async for session_message in sent:
                    message = session_message.message
                    if isinstance(message, types.JSONRPCRequest):
                        self._credit = min(max(self._credit, 0) + _REQUEST_CREDIT, _MAX_CREDIT)
                    text = message.model_dump_json(by_alias=True, exclude_unset=True)
                    await process.stdin.send(text.encode() + b"\n")
                    if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
                        self._questions.release()
        except _PIPE_ERRORS:
            await received.aclose()  # ends the session, even if the server is still running
        finally:
            flushed.set()


def _message(line: bytes) -> types.JSONRPCMessage | None:
    """Return a line's message, an error for a malformed reply, or None: some servers print other text."""
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        found = _REPLY_ID.search(line[:200]) or _REPLY_ID.search(line[-200:])
        if found is None or not line.lstrip().startswith(b"{"):
            return None
        error = types.ErrorData(code=types.PARSE_ERROR, message="the server sent a malformed reply")
        return types.JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error)


async def _end(process: Process, grace_seconds: float) -> None:
    """Close the server's input, wait until it exits, and kill it with its descendants if it does not."""
    assert process.stdin is not None
    with contextlib.suppress(*_PIPE_ERRORS):
        await process.stdin.aclose()
    if not await _exited(process, grace_seconds):
        await terminate_posix_process_tree(process, _EXIT_SECONDS)
        await _exited(process, _EXIT_SECONDS)
    # A descendant may hold the pipes open; anyio has no public way to close our ends of them.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        transport.close()


async def _exited(process: Process, seconds: float) -> bool:
    """Poll: `process.wait` would also wait for descendants that hold the pipes."""
    with anyio.move_on_after(seconds):
        while process.returncode is None:  # noqa: ASYNC110 (a process is not an event)
            await anyio.sleep(0.01)
    return process.returncode is not None
