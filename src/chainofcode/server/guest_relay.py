"""One guest for a client on another machine: files and limits before it starts, then bytes in both directions.

Input from the client is treated as hostile: packets are bounded, files are written below one directory, limits are
capped at those of the server, and the guest is killed when its client disconnects, reads too slowly, or is out of time.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import select
import struct
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from ..errors import ChainOfCodeError, InputError
from ..languages import guest_language_named
from ..languages.guest.link import MAX_FRAME_BYTES
from ..sandbox import Jail, Job, Limits
from ..sandbox.artifacts import is_name
from ..sandbox.handle import JailGuest
from ..sandbox.packages import Grant
from ..sandbox.packets import (
    MAX_SENT_BYTES,
    MAX_SENT_FILES,
    PACKET_BYTES,
    GuestExit,
    GuestOrder,
    Packet,
    PacketError,
    StartedGuest,
    json_packet,
    packet,
    read_packet,
    understood,
)
from ..sandbox.tiers import NAMESPACED
from ..sandbox.usage import LOW_PRIORITY, ProcessUsage, UsageCheck, seconds_of
from .settings import ServerSettings

_ORDER_SECONDS = 60  # for the order, the files and the program
_SLOW_SECONDS = 60  # how long a client may leave bytes unread
_CHECK_SECONDS = 0.1
_EXIT_SECONDS = 2
_UNSENT_BYTES = 1 << 20
_LENGTH = struct.Struct("<I")


class GuestRelay:
    """The guest of one connection."""

    def __init__(
        self, settings: ServerSettings, jail: Jail, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._settings, self._jail, self._reader, self._writer = settings, jail, reader, writer
        self._has_input = asyncio.Event()
        self._limit: tuple[str, str] | None = None

    async def run(self) -> None:
        """Serve one order. Raises PacketError, EOFError or OSError if the client breaks the protocol or disconnects."""
        async with asyncio.timeout(_ORDER_SECONDS):
            order = understood(await self._expect(Packet.ORDER), GuestOrder)
        try:
            job = self._job(order)
            async with self._granted(order) as (jail, files):
                grant = _with_files(jail.grant(job), files)
                async with jail.guest(job, grant) as guest:
                    await self._serve(guest, job, grant)
        except ChainOfCodeError as error:
            self._writer.write(packet(Packet.REFUSED, str(error).encode()[:PACKET_BYTES]))

    def _job(self, order: GuestOrder) -> Job:
        """The job without its program. Raises InputError for what this server does not grant."""
        ceiling = self._settings.limits
        lower = {
            field.name: min(getattr(order.limits, field.name), getattr(ceiling, field.name))
            for field in dataclasses.fields(Limits)
        }
        for package in order.packages:
            if package not in self._settings.packages:
                granted = ", ".join(self._settings.packages) or "none"
                raise InputError(f"this server does not grant the package {package!r} (it grants: {granted})")
        if order.scratch and not self._settings.has_scratch:
            raise InputError("this server allows no scratch directory; start it with 'coc serve --scratch'")
        return Job(
            source="",
            language=guest_language_named(order.language),
            packages=order.packages,
            scratch=order.scratch,
            is_shadow=order.is_shadow,
            limits=Limits(**lower),
        )

    async def _expect(self, expected: Packet) -> bytes:
        kind, data = await read_packet(self._reader)
        if kind is not expected:
            raise PacketError(f"unexpected packet of kind {kind} (expected {expected})")
        return data

    @asynccontextmanager
    async def _granted(self, order: GuestOrder) -> AsyncIterator[tuple[Jail, dict[str, str]]]:
        """A jail, and the paths of the files of an order, by name. With files, the jail serves only this order."""
        if not order.files:
            yield self._jail, {}
            return
        status = await self._jail.status()
        if status.tier not in NAMESPACED:
            raise InputError(f"files need tier A of the sandbox, and this server has tier {status.tier}")
        with tempfile.TemporaryDirectory(prefix="coc-sandbox-", ignore_cleanup_errors=True) as home:
            os.chmod(home, 0o755)  # noqa: S103 (guests are another user)
            async with asyncio.timeout(_ORDER_SECONDS):
                files = await self._receive_files(order, home)
            jail = Jail(status.tier, spares=0)  # no fallback: a client could choose names that this tier refuses
            try:
                yield jail, files
            finally:
                await asyncio.to_thread(jail.close)  # which waits for a zygote that is importing packages

    async def _receive_files(self, order: GuestOrder, home: str) -> dict[str, str]:
        sizes = [file.size for file in order.files]
        names = {file.name for file in order.files}
        if len(sizes) > MAX_SENT_FILES or min(sizes) < 0 or sum(sizes) > MAX_SENT_BYTES or len(names) < len(sizes):
            raise PacketError(f"over {MAX_SENT_FILES} files, over {MAX_SENT_BYTES:,} bytes, or duplicate names")
        files: dict[str, str] = {}
        for number, file in enumerate(order.files):
            if not is_name(file.name):
                raise PacketError(f"invalid file name {file.name[:100]!r}")
            files[file.name] = os.path.join(home, str(number))
            data = bytearray()
            while len(data) < file.size:
                data += await self._expect(Packet.FILES)
            if len(data) > file.size:
                raise PacketError("a file is larger than announced")
            await asyncio.to_thread(_write, files[file.name], bytes(data))
        return files

    async def _serve(self, guest: JailGuest, job: Job, grant: Grant) -> None:
        wire = guest.wire
        wire.begin(self._wake, self._send_noise)
        tasks: list[asyncio.Task[None]] = []
        try:
            self._writer.write(json_packet(Packet.STARTED, StartedGuest(guest.wall)))
            async with asyncio.timeout(_ORDER_SECONDS):
                start, rest = await self._start_frame(guest, job, grant)
            if job.is_shadow and guest.pid:
                with contextlib.suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, guest.pid, LOW_PRIORITY)
            wire.send(start + rest)
            tasks = [asyncio.create_task(work) for work in (self._from_client(guest), self._watch(guest, job))]
            last = asyncio.create_task(self._from_guest(guest))
            tasks.append(last)
            await asyncio.wait([tasks[0], last], return_when=asyncio.FIRST_COMPLETED)
            if last.done():
                last.result()
                await self._send_exit(guest)
            elif not isinstance(tasks[0].exception(), EOFError):  # EOFError: the client has closed the connection
                tasks[0].result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            wire.end()
            await guest.close()

    async def _start_frame(self, guest: JailGuest, job: Job, grant: Grant) -> tuple[bytes, bytes]:
        """The client's first frame, with this server's limits and packages, and the bytes after it."""
        data = bytearray()
        size = _LENGTH.size
        while len(data) < size:
            data += await self._expect(Packet.WIRE)
            if len(data) >= _LENGTH.size:
                size = _LENGTH.size + _LENGTH.unpack_from(data)[0]
            if size > MAX_FRAME_BYTES:
                raise PacketError(f"first frame of {size:,} bytes (at most {MAX_FRAME_BYTES:,})")
        frame = understood(bytes(data[_LENGTH.size : size]), dict[str, msgspec.Raw])
        processes = job.limits.processes if guest.counts_processes else 0
        own: dict[str, Any] = {
            **grant.message(),
            "language": job.language.name,
            "scratch": job.scratch,
            "processes": processes,
            "cpu_seconds": job.limits.cpu_seconds,
            "memory_bytes": job.limits.memory_bytes,
            "frame_bytes": job.limits.frame_bytes,
        }
        body = msgspec.json.encode({**frame, **own})
        return _LENGTH.pack(len(body)) + body, bytes(data[size:])

    async def _from_client(self, guest: JailGuest) -> None:
        """Pass on what the client sends, until it disconnects."""
        while True:
            kind, data = await read_packet(self._reader)
            if kind is Packet.WIRE:
                guest.wire.send(data)
                while guest.wire.unsent_bytes > _UNSENT_BYTES:
                    if self._has_left():  # nothing is read meanwhile, so the end of the stream would go unnoticed
                        raise EOFError
                    await asyncio.sleep(_CHECK_SECONDS / 10)
            elif kind is Packet.INTERRUPT:
                guest.interrupt()
            else:
                raise PacketError(f"unexpected packet of kind {kind} while the guest runs")

    def _has_left(self) -> bool:
        """Whether the client has closed the connection, even if bytes from it are still unread."""
        poll = select.poll()
        poll.register(self._writer.get_extra_info("socket"), select.POLLRDHUP)
        return bool(poll.poll(0))

    async def _from_guest(self, guest: JailGuest) -> None:
        """Pass on what the guest sends, until it ends. Raises TimeoutError if the client reads too slowly."""
        while True:
            self._has_input.clear()
            data = guest.wire.receive()
            if data:
                for start in range(0, len(data), PACKET_BYTES):
                    self._writer.write(packet(Packet.WIRE, data[start : start + PACKET_BYTES]))
                async with asyncio.timeout(_SLOW_SECONDS):
                    await self._writer.drain()
            elif data == b"" or guest.wire.has_exited:
                return
            else:
                guest.wire.listen()
                await self._has_input.wait()

    def _wake(self) -> bool:
        is_new = not self._has_input.is_set()
        self._has_input.set()
        return is_new

    def _send_noise(self, data: bytes) -> None:
        if data and self._writer.transport.get_write_buffer_size() < PACKET_BYTES:  # otherwise the output is dropped
            self._writer.write(packet(Packet.NOISE, data))

    async def _watch(self, guest: JailGuest, job: Job) -> None:
        """Kill the guest when it exceeds a limit."""
        check = UsageCheck(job.limits)
        until = asyncio.get_running_loop().time() + job.limits.wall_seconds
        while True:
            use = ProcessUsage.of(guest.pid) if guest.pid and not guest.wire.has_exited else None
            limit = check.exceeded(use) if use is not None else None
            if asyncio.get_running_loop().time() > until:
                limit = "limit:wall", f"the run took over {seconds_of(job.limits.wall_seconds)} in all"
            if limit is not None:
                self._limit = limit
                guest.kill()
                return
            await asyncio.sleep(_CHECK_SECONDS)

    async def _send_exit(self, guest: JailGuest) -> None:
        try:
            ended = await asyncio.wait_for(guest.wait(), _EXIT_SECONDS)
        except TimeoutError:  # it closed its pipe and is still running
            guest.kill()
            ended = await guest.wait()
        guest.wire.read_noise()
        reason, message = self._limit or ("", "")
        out = GuestExit(ended.code, ended.cpu_seconds, ended.is_out_of_memory, reason, message)
        self._writer.write(json_packet(Packet.EXIT, out))


def _with_files(grant: Grant, files: Mapping[str, str]) -> Grant:
    if not files:
        return grant
    return dataclasses.replace(grant, shown=(*grant.shown, *files.values()), links=tuple(files.items()))


def _write(path: str, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)
    os.chmod(path, 0o444)
