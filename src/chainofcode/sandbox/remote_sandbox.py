"""Guests on another machine, which runs `coc serve --sandbox-only`: for systems without a sandbox of their own.

Each program has its own connection. The server only runs the program. This side checks every frame as if it came from
a guest on this machine, so a hostile server can do no more than a hostile guest. Covered: what the server sends (size,
type, order), and how long the run takes. Not covered: a server sees the program, its inputs and files, and decides what
they compute.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import SplitResult, urlsplit

from ..errors import InputError, SandboxError
from .artifacts import is_name
from .job import Job
from .packages import Grant
from .packets import (
    MAX_SENT_BYTES,
    MAX_SENT_FILES,
    PACKET_BYTES,
    PATH,
    PROTOCOL,
    GuestExit,
    GuestOrder,
    Packet,
    PacketError,
    SentFile,
    StartedGuest,
    json_packet,
    packet,
    read_packet,
    understood,
)
from .session import Exit, Session, session_of

SCHEMES = ("http://", "https://")
_CONNECT_SECONDS = 20
_START_SECONDS = 180  # the server may be busy, and may have to import packages
_EXIT_SECONDS = 10
_HEAD_BYTES = 1 << 16
_BUFFER_BYTES = 1 << 20  # unread, before the server has to wait
_LIMITS = ("limit:cpu", "limit:memory", "limit:processes", "limit:wall")  # that a server may report


class RemoteSandbox:
    """Runs programs on a server that was started with `coc serve --sandbox-only`."""

    def __init__(self, url: str, token: str = "") -> None:
        self._url, self._token = urlsplit(url), token
        if not url.startswith(SCHEMES) or not self._url.hostname:
            raise InputError(f"invalid sandbox URL {url!r} (expected one such as https://sandbox.example.org)")
        if "@" in self._url.netloc:
            raise InputError("a sandbox URL must not contain a user name or password; set COC_SANDBOX_TOKEN")
        if not token.isprintable() or not token.isascii():
            raise InputError("the token of the sandbox must consist of printable ASCII characters")

    def close(self) -> None:
        """Do nothing: nothing is kept between programs."""

    @asynccontextmanager
    async def start(self, job: Job) -> AsyncIterator[Session]:
        files = await asyncio.to_thread(_files_of, job.reads, job.directory)
        async with _connected(self._url, self._token) as (reader, writer):
            guest = _RemoteGuest(self._url.netloc, reader, writer)
            await guest.open(job, files)
            async with session_of(guest, _renamed(job, files), Grant()) as session:
                yield session


def open_remote(url: str) -> RemoteSandbox:
    """The sandbox at a URL, with the token from the environment."""
    return RemoteSandbox(url, os.environ.get("COC_SANDBOX_TOKEN", ""))


def _files_of(reads: Iterable[str], directory: str = "") -> dict[str, str]:
    """The granted files, by their names for the program. Raises InputError if they cannot be sent."""
    files: dict[str, str] = {}
    roots = [os.path.realpath(os.path.join(directory, read)) for read in reads]
    for read in reads:
        path = os.path.abspath(os.path.join(directory, read))
        relative = os.path.relpath(path, directory or os.curdir) if not os.path.isabs(read) else ".."
        top = os.path.basename(path) if relative.startswith("..") else relative
        for name, found in _below(path, top):
            if not _is_granted(found, roots):  # a link out of the grant; it is broken in a local sandbox, too
                continue
            if not is_name(name):
                raise InputError(
                    f"cannot send {name[:100]!r} to a remote sandbox: names must be printable and not hidden"
                )
            if files.setdefault(name, found) != found:
                raise InputError(f"cannot send two files with the name {name!r} to a remote sandbox")
            if len(files) > MAX_SENT_FILES:
                raise InputError(f"cannot send over {MAX_SENT_FILES:,} files to a remote sandbox: {read!r}")
    return files


def _is_granted(path: str, roots: Iterable[str]) -> bool:
    real = os.path.realpath(path)
    return any(real == root or real.startswith(os.path.join(root, "")) for root in roots)


def _renamed(job: Job, files: Mapping[str, str]) -> Job:
    """The job, with file names in the guest's working directory instead of paths."""
    names = {path: name for name, path in files.items()}
    prelude = [replace(file, path=names.get(os.path.abspath(file.path), file.path)) for file in job.prelude]
    return replace(job, reads=(), prelude=prelude)


def _below(path: str, name: str) -> Iterable[tuple[str, str]]:
    if os.path.isfile(path):
        yield name.replace(os.sep, "/"), path
    elif os.path.isdir(path):
        for home, _, entries in os.walk(path):
            for entry in sorted(entries):
                found = os.path.join(home, entry)
                if os.path.isfile(found):
                    inside = os.path.normpath(os.path.join(name, os.path.relpath(found, path)))
                    yield inside.replace(os.sep, "/"), found
    else:
        raise InputError(f"cannot grant {path!r} for reading: there is no such file or directory")


@asynccontextmanager
async def _connected(url: SplitResult, token: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a connection on which the server expects an order. Raises SandboxError."""
    secure = ssl.create_default_context() if url.scheme == "https" else None
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(
                url.hostname, url.port or (443 if secure else 80), ssl=secure, limit=_HEAD_BYTES
            )
    except (OSError, ValueError) as error:
        raise SandboxError(f"cannot reach the sandbox at {url.netloc}: {error or 'timeout'}") from None
    try:
        await _upgrade(url, token, reader, writer)
        yield reader, writer
    finally:
        writer.transport.abort()  # `close` would wait for a server that does not read
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _upgrade(url: SplitResult, token: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    lines = [
        f"GET {url.path.rstrip('/')}{PATH} HTTP/1.1",
        f"Host: {url.netloc}",
        "Connection: Upgrade",
        f"Upgrade: {PROTOCOL}",
        *([f"Authorization: Bearer {token}"] if token else []),
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    try:
        async with asyncio.timeout(_START_SECONDS):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (OSError, EOFError, asyncio.LimitOverrunError):
        why = "it closed the connection; is it `coc serve --sandbox-only`?"
        raise SandboxError(f"the server at {url.netloc} did not start a guest: {why}") from None
    status = head.partition("\r\n")[0].split(" ")
    if status[1:2] != ["101"]:
        reasons = {"401": "invalid token (COC_SANDBOX_TOKEN)", "429": "it is busy; try again later"}
        reason = reasons.get(status[1] if len(status) > 1 else "", f"it replied {' '.join(status)[:100]!r}")
        raise SandboxError(f"the server at {url.netloc} did not start a guest: {reason}")


class _RemoteWire:
    """The wire to a remote guest: its bytes arrive in packets."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._buffer, self._unheard = bytearray(), bytearray()
        self.has_exited = False
        self._wake: Callable[[], bool] = lambda: False
        self._noise: Callable[[bytes], None] | None = None
        self.has_room = asyncio.Event()
        self.has_room.set()

    def begin(self, wake: Callable[[], bool], noise: Callable[[bytes], None]) -> None:
        self._wake, self._noise = wake, noise
        self.read_noise()

    def receive(self) -> bytes | None:
        data = bytes(self._buffer)
        self._buffer.clear()
        self.has_room.set()
        return data if data or self.has_exited else None

    def listen(self) -> None:
        """Do nothing: `wake` is called for all bytes."""

    def send(self, data: bytes) -> None:
        for start in range(0, len(data), PACKET_BYTES):
            self._writer.write(packet(Packet.WIRE, data[start : start + PACKET_BYTES]))

    def read_noise(self) -> None:
        if self._noise is not None and self._unheard:
            data = bytes(self._unheard)
            self._unheard.clear()
            self._noise(data)

    def end(self) -> None:
        self._wake, self._noise = lambda: False, lambda data: None

    def take(self, kind: Packet, data: bytes) -> None:
        """Handle a packet from the server."""
        if kind is Packet.WIRE:
            self._buffer += data
            if len(self._buffer) > _BUFFER_BYTES:
                self.has_room.clear()
            self._wake()
        elif kind is Packet.NOISE:
            self._unheard += data
            self.read_noise()
        else:
            raise PacketError(f"unexpected packet of kind {kind}")

    def close(self) -> None:
        self.has_exited = True
        self._wake()


class _RemoteGuest:
    """A guest on another machine, by its connection."""

    counts_processes = False  # the server sets the limit itself
    pid = 0

    def __init__(self, place: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._place, self._reader, self._writer = place, reader, writer
        self.wall = ""
        self.wire = _RemoteWire(writer)
        self._exit: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None

    async def open(self, job: Job, files: Mapping[str, str]) -> None:
        """Order a guest with these files (name → path). Raises SandboxError."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                await self._order(job, files)
                kind, data = await read_packet(self._reader)
            if kind is Packet.REFUSED:
                raise SandboxError(f"the sandbox at {self._place} did not start a guest: {_short(data)}")
            if kind is not Packet.STARTED:
                raise PacketError(f"unexpected packet of kind {kind} before the guest")
            self.wall = _short(understood(data, StartedGuest).wall.encode())[:20]
        except (EOFError, OSError, PacketError) as error:
            raise self._lost(error) from None
        self._task = asyncio.create_task(self._receive())

    async def _order(self, job: Job, files: Mapping[str, str]) -> None:
        contents = await asyncio.to_thread(_contents, files)
        order = GuestOrder(
            language=job.language.name,
            limits=job.limits,
            packages=list(job.packages),
            files=[SentFile(name, len(data)) for name, data in contents.items()],
            scratch=job.scratch,
            is_shadow=job.is_shadow,
        )
        self._writer.write(json_packet(Packet.ORDER, order))
        for data in contents.values():
            for start in range(0, len(data), PACKET_BYTES):
                self._writer.write(packet(Packet.FILES, data[start : start + PACKET_BYTES]))
                await self._writer.drain()

    async def _receive(self) -> None:
        """Pass on what the server sends, until the guest or the connection ends."""
        try:
            while True:
                await self.wire.has_room.wait()
                kind, data = await read_packet(self._reader)
                if kind is Packet.EXIT:
                    self._exit.set_result(_exit_of(understood(data, GuestExit)))
                    return
                self.wire.take(kind, data)
        except (EOFError, OSError, PacketError) as error:
            self._exit.set_exception(self._lost(error))
            self._exit.exception()  # if nothing waits for it, asyncio would log it
        finally:
            self.wire.close()

    def _lost(self, error: Exception) -> SandboxError:
        why = str(error) if isinstance(error, (PacketError, OSError)) and str(error) else "it was closed"
        return SandboxError(f"lost the connection to the sandbox at {self._place}: {why[:200]}")

    def interrupt(self) -> None:
        self._writer.write(packet(Packet.INTERRUPT, b""))

    def kill(self) -> None:
        """End the connection: then the server kills the guest."""
        self._writer.transport.abort()

    async def wait(self) -> Exit:
        return await asyncio.wait_for(asyncio.shield(self._exit), _EXIT_SECONDS)

    async def close(self) -> None:
        self.kill()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


def _contents(files: Mapping[str, str]) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    left = MAX_SENT_BYTES
    for name, path in files.items():
        try:
            with open(path, "rb") as file:
                contents[name] = file.read(left + 1)
        except OSError as error:
            raise InputError(f"cannot grant {path!r} for reading: {error.strerror}") from None
        left -= len(contents[name])
        if left < 0:
            raise InputError(f"cannot send over {MAX_SENT_BYTES:,} bytes of files to a remote sandbox: {path!r}")
    return contents


def _exit_of(report: GuestExit) -> Exit:
    """How the guest ended. The server may report only some limits."""
    limit = (report.reason, _short(report.message.encode())) if report.reason in _LIMITS else None
    return Exit(report.code, report.cpu_seconds, is_out_of_memory=report.is_out_of_memory, limit=limit)


def _short(data: bytes) -> str:
    text = data[:300].decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else " " for letter in text)
