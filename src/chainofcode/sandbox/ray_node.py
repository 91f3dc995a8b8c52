"""The worker's side of guests on Ray: starts guests, passes their bytes on, and enforces their limits.

`ray_guests` is the host's side; it makes an actor of `GuestNode`. This module does not import Ray.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Sequence

import msgspec

from ..errors import ChainOfCodeError, InputError, SandboxError
from ..languages import guest_language_named
from .handle import JailGuest, SandboxStatus
from .job import Job, Limits
from .packages import Grant
from .pool import Jail
from .session import Exit
from .usage import LOW_PRIORITY, ProcessUsage, UsageCheck

MESSAGE_BYTES = 1 << 16
_CHECK_SECONDS = 0.1  # between checks of a guest's usage
_POLL_SECONDS = 10.0  # that a node waits for a guest's next bytes before it replies without any
_SILENT_SECONDS = 60.0  # without a poll, after which the host no longer needs the guest


class GuestSettings(msgspec.Struct):
    """The parts of a job that a node needs to start its guest. The program comes with the guest's first frame."""

    language: str
    packages: tuple[str, ...]
    reads: tuple[str, ...]
    directory: str
    scratch: bool
    is_shadow: bool
    limits: Limits

    @classmethod
    def of(cls, job: Job) -> GuestSettings:
        return cls(
            language=job.language.name,
            packages=tuple(job.packages),
            reads=tuple(job.reads),
            directory=job.directory,
            scratch=job.scratch,
            is_shadow=job.is_shadow,
            limits=job.limits,
        )

    @property
    def job(self) -> Job:
        return Job(
            "",
            language=guest_language_named(self.language),
            packages=self.packages,
            reads=self.reads,
            directory=self.directory,
            scratch=self.scratch,
            is_shadow=self.is_shadow,
            limits=self.limits,
        )


class StartReply(msgspec.Struct):
    """The reply of a node: the guest that it has started, or why it could not start one."""

    wall: str = ""
    counts_processes: bool = False
    modules: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    problem: str = ""
    is_input: bool = False  # the job is the problem, not the node


class NodeStatus(msgspec.Struct):
    """The sandbox of a node, or why it has none."""

    sandbox: SandboxStatus | None = None
    problem: str = ""


class Received(msgspec.Struct):
    """What a guest has sent since the last call. `is_closed`: it has closed its pipe."""

    data: bytes = b""
    noise: bytes = b""
    is_closed: bool = False
    exit: Exit | None = None


class GuestNode:
    """A Ray actor: the guests of one host on one node."""

    def __init__(self, at_least: str, spares: int) -> None:
        self._jail = Jail(at_least=at_least, spares=spares)
        self._guests: dict[str, HostedGuest] = {}
        self._unwanted: set[str] = set()  # ended by the host before they had started

    async def status(self) -> bytes:
        try:
            return msgspec.msgpack.encode(NodeStatus(await self._jail.status()))
        except SandboxError as error:
            return msgspec.msgpack.encode(NodeStatus(problem=str(error)))

    async def start(self, id: str, settings: bytes) -> bytes:
        job = msgspec.msgpack.decode(settings, type=GuestSettings).job
        try:
            hosted = self._guests[id] = await HostedGuest.started(self._jail, job)
        except ChainOfCodeError as error:
            problem = StartReply(problem=str(error), is_input=isinstance(error, InputError))
            return msgspec.msgpack.encode(problem)
        if id in self._unwanted:
            await self.end(id)
        return msgspec.msgpack.encode(hosted.described)

    async def send(self, id: str, data: bytes) -> None:
        if id in self._guests:
            await self._guests[id].send(data)

    async def receive(self, id: str) -> bytes:
        if id not in self._guests:
            return msgspec.msgpack.encode(Received(is_closed=True, exit=Exit(-9, 0.0)))
        return msgspec.msgpack.encode(await self._guests[id].receive())

    async def interrupt(self, id: str) -> None:
        if id in self._guests:
            self._guests[id].guest.interrupt()

    async def kill(self, id: str) -> None:
        if id in self._guests:
            self._guests[id].guest.kill()

    async def end(self, id: str) -> None:
        hosted = self._guests.pop(id, None)
        if hosted is None:
            self._unwanted.add(id)
            return
        self._unwanted.discard(id)
        await hosted.close()


class HostedGuest:
    """A guest and its pipes, on the node where it runs."""

    def __init__(self, guest: JailGuest, grant: Grant, job: Job, stack: contextlib.AsyncExitStack) -> None:
        self.guest, self._limits, self._stack = guest, job.limits, stack
        self.described = StartReply(guest.wall, guest.counts_processes, grant.modules, grant.search)
        self._pipes = guest.wire
        self._open = [self._pipes.read_fd, self._pipes.noise_fd]  # those that the guest has not closed
        for fd in (*self._open, self._pipes.write_fd):
            os.set_blocking(fd, False)
        if job.is_shadow and guest.pid:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, guest.pid, LOW_PRIORITY)
        self._sending, self._receiving = asyncio.Lock(), asyncio.Lock()
        self._limit: tuple[str, str] | None = None  # the one that the guest exceeded
        self._polled = time.monotonic()
        self._watching = asyncio.create_task(self._watch())

    @classmethod
    async def started(cls, jail: Jail, job: Job) -> HostedGuest:
        async with contextlib.AsyncExitStack() as stack:
            grant = jail.grant(job)
            guest = await stack.enter_async_context(jail.guest(job, grant))
            stack.push_async_callback(guest.close)
            return cls(guest, grant, job, stack.pop_all())

    async def _watch(self) -> None:
        """Kill the guest when it exceeds a limit, or when the host no longer polls it."""
        check = UsageCheck(self._limits)
        while not self.guest.is_dead():
            await asyncio.sleep(_CHECK_SECONDS)
            use = ProcessUsage.of(self.guest.pid)
            self._limit = check.exceeded(use) if use is not None else None
            if self._limit is not None or time.monotonic() - self._polled > _SILENT_SECONDS:
                self.guest.kill()
                return

    async def send(self, data: bytes) -> None:
        async with self._sending:
            with contextlib.suppress(BrokenPipeError):  # it died: `receive` reports that
                await write_all(self._pipes.write_fd, data)

    async def receive(self) -> Received:
        """Wait for the guest's next bytes, or its end. Bytes are read only when the host requests them."""
        async with self._receiving:
            self._polled = time.monotonic()
            return await self._received(self._polled + _POLL_SECONDS)

    async def _received(self, until: float) -> Received:
        while True:
            was_open, was_dead = len(self._open), self.guest.is_dead()  # before reading: it may write and end meanwhile
            data, noise = self._read(self._pipes.read_fd), self._read(self._pipes.noise_fd)
            is_over = was_dead and not data and not noise
            if data or noise or is_over or len(self._open) < was_open or time.monotonic() > until:
                is_closed = self._pipes.read_fd not in self._open
                return Received(data, noise, is_closed or is_over, await self._exit() if is_over else None)
            await ready([*self._open, self._pipes.exit_fd], seconds=_POLL_SECONDS)

    async def _exit(self) -> Exit:
        ended = await self.guest.wait()
        return Exit(ended.code, ended.cpu_seconds, ended.has_started, ended.is_out_of_memory, self._limit)

    def _read(self, fd: int) -> bytes:
        if fd not in self._open:
            return b""
        try:
            data = os.read(fd, MESSAGE_BYTES // 2)
        except BlockingIOError:
            return b""
        if not data:
            self._open.remove(fd)
        return data

    async def close(self) -> None:
        self._watching.cancel()
        self.guest.kill()
        async with self._sending, self._receiving:  # wait for pending calls, which end with the guest
            await self._stack.aclose()


async def ready(reads: list[int], writes: Sequence[int] = (), *, seconds: float | None = None) -> None:
    """Wait until one of the descriptors can be read or written, at most for this many seconds."""
    loop, is_ready = asyncio.get_running_loop(), asyncio.Event()
    for fd in reads:
        loop.add_reader(fd, is_ready.set)
    for fd in writes:
        loop.add_writer(fd, is_ready.set)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await is_ready.wait()
    finally:
        for fd in reads:
            loop.remove_reader(fd)
        for fd in writes:
            loop.remove_writer(fd)


async def write_all(fd: int, data: bytes) -> None:
    """Write everything to a non-blocking descriptor."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(fd, left) :]
        except BlockingIOError:
            await ready([], [fd])
