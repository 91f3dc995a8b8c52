"""A session with one guest: its signals, its pauses, and the limits that the host enforces."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import SandboxError
from ..languages.source import NotAProgram, check_readable
from . import packages
from .artifacts import Wrote
from .frames import Ended, Failure, FrameError, OutputLimit, Paused, Ran, Reader, Settled, Signal, Surveyed, encode
from .job import Job
from .pipes import Wire
from .usage import LOW_PRIORITY, ProcessUsage, UsageCheck, seconds_of

_NOISE_BYTES = 4096
_SIGXCPU = 24
# Signal numbers of Linux, where guests run, even if the host is another system.
_SIGNALS = {
    4: "Illegal instruction",
    5: "Trace/breakpoint trap",
    6: "Aborted",
    7: "Bus error",
    8: "Floating point exception",
    9: "Killed",
    11: "Segmentation fault",
    15: "Terminated",
    _SIGXCPU: "CPU time limit exceeded",
    25: "File size limit exceeded",
    31: "Bad system call",
}
_REST_BYTES = 1 << 20
_HALT_SECONDS = 0.2


@dataclass(frozen=True)
class Exit:
    """How a guest process ended."""

    code: int  # negative: the signal that killed it
    cpu_seconds: float
    has_started: bool = True  # False: the container engine could not start it
    is_out_of_memory: bool = False  # its control group ran out of memory
    limit: tuple[str, str] | None = None  # the reason and a message, if another machine killed it for a limit


class Guest(Protocol):
    """A started guest process."""

    wall: str  # the tier of the sandbox, or the name of a container engine, or `none`
    counts_processes: bool  # whether the kernel's limit on processes counts only its own

    @property
    def wire(self) -> Wire: ...

    @property
    def pid(self) -> int:
        """Its process id in the namespace of this process, 0 if unknown."""

    def interrupt(self) -> None:
        """Send it SIGUSR1."""

    def kill(self) -> None:
        """Kill it and everything that it started. Does nothing if it is dead."""

    async def wait(self) -> Exit: ...

    async def close(self) -> None:
        """Kill it, and close the wire."""


class Session:
    """Iterate over the guest's signals; the last is always an Ended."""

    def __init__(self, guest: Guest, job: Job, grant: packages.Grant) -> None:
        self._guest, self._wire = guest, guest.wire
        self._job, self._limits, self._grant = job, job.limits, grant
        self._loop = asyncio.get_running_loop()
        self._reader = Reader(
            job.limits.frame_bytes,
            job.limits.output_bytes,
            calls=job.limits.lm_calls,
            may_write=job.scratch,
            is_recorded=job.is_recorded,
            is_shadow=job.is_shadow,
        )
        self._open: set[int] = set()  # requested, no value sent
        self._awaited: set[int] = set()  # pauses that the guest waits for; 0: the next survey
        self._private: set[int] = set()  # pauses that the session answers itself
        self._verdict: Ended | BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._posted: deque[Any] = deque()
        self._halting: tuple[str, str] | None = None
        self._last_ran: Ran | None = None
        self._noise, self._noise_bytes = b"", 0
        self._is_gone = False
        self._ran_seconds = 0.0
        self._signals = self._received = self._rested = 0
        self._cpu_seconds = self._checked_at = self._paused_at = 0.0
        self._started = self._resumed = time.monotonic()
        self._usage_check = UsageCheck(job.limits)

    def begin(self) -> None:
        self._wire.begin(self._wake, self._note_noise)
        shortest = min(self._limits.run_seconds, self._limits.wall_seconds)
        self._tick_seconds = min(0.1, max(0.005, shortest / 10))
        self._timer = self._loop.call_later(self._tick_seconds, self._check_time)
        try:
            check_readable(self._job.source)
        except NotAProgram as error:
            self.end("error", str(error))
            return
        processes = self._limits.processes if self._guest.counts_processes else 0
        self._send({**self._job.message(), **self._grant.message(), "processes": processes})

    async def close(self) -> None:
        self._timer.cancel()
        self._wire.end()
        await self._guest.close()

    @property
    def wall(self) -> str:
        """What isolates the guest: a tier of the sandbox, `docker`, `podman` or `none`."""
        return self._guest.wall

    @property
    def artifacts(self) -> dict[str, bytes]:
        """The files that the program has left in its scratch directory."""
        return self._reader.artifacts.files

    # --- for the caller ---------------------------------------------------------------------------------------

    def resume(
        self, pause: Paused, value: Any, error: str | None = None, raised: Any = None, *, is_once: bool = False
    ) -> None:
        """Continue the guest with a tagged value, or with an error that is raised at the call.

        A pause is resumed once; after the end, this does nothing. With `is_once`, the value is for this call only: the
        guest requests a value again when the program repeats the call.
        """
        if self._verdict is not None:
            return
        self._open.remove(pause.id)
        self._reader.resumed(pause.id, is_once=is_once)
        if pause.id in self._awaited:
            self._awaited.remove(pause.id)
            self._resumed = time.monotonic()
        message = {"type": "resume", "id": pause.id, "value": value}
        if error:
            message |= {"error": error, "raised": raised}
        if is_once:
            message["once"] = True
        self._send(message)

    def survey(self, values: Sequence[dict[str, Any]]) -> None:
        """Begin a round of a shadow, with these additional values."""
        if self._verdict is None:
            self._awaited.discard(0)
            self._resumed = time.monotonic()
            self._send({"type": "survey", "values": values})

    def answered(self, pause: Paused) -> None:
        """Close a request of a shadow: its value is sent with the next survey."""
        self._open.discard(pause.id)

    def lower_priority(self) -> None:
        """Lower the CPU priority of the guest."""
        if self._guest.pid:  # 0 would be this process
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self._guest.pid, LOW_PRIORITY)

    @property
    def program_seconds(self) -> float:
        """How long the program has run, not counting the time it waited for values."""
        return self._ran_seconds + (0.0 if self._awaited else time.monotonic() - self._resumed)

    def end(self, reason: str, message: str, **more: Any) -> None:
        """Stop the guest; its last signal is an Ended with this reason. `more` are further fields of its Failure."""
        self._decide(_ended(reason, message, **more))

    def post(self, event: Any) -> None:
        """Add an event of the caller to the signals that this session yields."""
        self._posted.append(event)
        self._wake()

    def fail(self, error: BaseException) -> None:
        """Stop the guest; iterating raises this error."""
        self._decide(error)

    def _decide(self, verdict: Ended | BaseException) -> None:
        if self._verdict is None:
            self._verdict = verdict
            self._guest.kill()
            self._wake()

    # --- signals ----------------------------------------------------------------------------------------------

    async def __aiter__(self) -> AsyncIterator[Any]:
        """Yield the guest's signals, and what was posted."""
        while True:
            while self._posted:
                yield self._posted.popleft()
            received = self._next()
            await self._let_others_run()
            last = await self._last_signals(received)
            for signal_ in last:
                yield signal_
            if last:
                return
            if received is None and not self._posted:
                await self._wait()
            elif received is not None and not self._is_private(received):
                yield received

    async def _let_others_run(self) -> None:
        """Yield to the event loop from time to time, even if the guest never stops sending."""
        self._signals += 1
        if self._signals % 64 == 0 or self._received > self._rested + _REST_BYTES:
            self._rested = self._received
            await asyncio.sleep(0)

    async def _last_signals(self, received: Signal | None) -> list[Signal]:
        """The signals that end the session; empty while it continues."""
        if isinstance(self._verdict, BaseException):
            raise self._verdict
        if self._verdict is not None:
            return [self._verdict] if self._last_ran is None else [self._last_ran, self._verdict]
        if isinstance(received, Ended):
            return [self._with_reason(received)]
        if received is None and self._is_gone:
            return [await self._why_it_ended()]
        return []

    def _next(self) -> Signal | None:
        """The guest's next signal, if there is one. A violation of the protocol ends the run."""
        received = self._read_signal()
        if isinstance(received, Paused):
            self._open.add(received.id)
            if not self._job.is_shadow:
                self._note_wait(received.id)
        elif isinstance(received, Surveyed):
            self._note_wait(0)
        return received

    def _read_signal(self) -> Signal | None:
        try:
            received = self._reader.next()
            while received is None and self._receive():
                received = self._reader.next()
        except OutputLimit as limit:
            self._last_ran = limit.ran
            self.end("limit:output", f"the program printed over {self._limits.output_bytes:,} bytes")
            return None
        except FrameError as error:
            if self._halting is not None:  # its last frame came in the middle of another one
                self.end(*self._halting)
            else:
                self.end("guest died", f"it broke the protocol: {error}")
            return None
        return received

    def _note_wait(self, pause: int) -> None:
        if not self._awaited:
            self._paused_at = time.monotonic()
            self._ran_seconds += self._paused_at - self._resumed
        self._awaited.add(pause)

    def _is_private(self, received: Signal) -> bool:
        if isinstance(received, Paused) and received.kind == "module":
            self._private.add(received.id)
            self.resume(received, packages.is_installed(received.name))
            return True
        if isinstance(received, Settled) and received.id in self._private:
            self._private.remove(received.id)
            return True
        return isinstance(received, Wrote)  # kept by the reader until the end

    def _receive(self) -> bool:
        """Read from the guest. Return whether there were bytes."""
        data = self._wire.receive()
        if data is None:
            self._is_gone = self._wire.has_exited
            return False
        self._reader.feed(data)
        self._received += len(data)
        self._is_gone = not data
        return bool(data)

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        self._wire.listen()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> bool:
        """Wake the session if it is waiting. Return whether it was."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        return self._waiter is not None

    def _send(self, message: dict[str, Any]) -> None:
        self._wire.send(encode(message))

    # --- limits and death -------------------------------------------------------------------------------------

    def _check_time(self) -> None:
        now = time.monotonic()
        if now - self._started > self._limits.wall_seconds:
            self._halt("limit:wall", f"the run took over {seconds_of(self._limits.wall_seconds)} in all")
        elif self.program_seconds > self._limits.run_seconds:
            self._halt("limit:run", f"the program ran for over {seconds_of(self._limits.run_seconds)}")
        else:
            self._check_usage()
            self._timer = self._loop.call_later(self._tick_seconds, self._check_time)

    def _check_usage(self) -> None:
        """Check the resource limits from outside, in addition to the kernel."""
        use = ProcessUsage.of(self._guest.pid) if self._verdict is None and not self._wire.has_exited else None
        if use is None:
            return
        if self._awaited and self._paused_at < self._checked_at:  # it has been waiting since the last check
            self._ran_seconds += use.cpu_seconds - self._cpu_seconds
        self._cpu_seconds, self._checked_at = use.cpu_seconds, time.monotonic()
        limit = self._usage_check.exceeded(use)
        if limit is not None:
            self.end(*limit)

    def _halt(self, reason: str, message: str) -> None:
        """Ask the guest to stop and to report where the program is. Kill it if it does not answer in time."""
        self._halting = (reason, message)
        self._guest.interrupt()
        self._timer = self._loop.call_later(_HALT_SECONDS, self.end, reason, message)

    def _with_reason(self, ended: Ended) -> Ended:
        """The guest's end, with the host's reason if the host halted it."""
        if ended.reason != "halted":
            return ended
        reason, message = self._halting or ("guest died", "it halted by itself")
        if ended.error is None:
            return _ended(reason, message)
        return _ended(reason, message, line=ended.error.line, statement=ended.error.statement)

    def _note_noise(self, data: bytes) -> None:
        """Count what the process writes outside the protocol (C code, child processes), and keep the last bytes."""
        self._noise = (self._noise + data)[-_NOISE_BYTES:]
        self._noise_bytes += len(data)
        if self._noise_bytes > self._limits.output_bytes:
            self.end(
                "limit:output",
                f"the guest process wrote over {self._limits.output_bytes:,} bytes outside the protocol",
            )

    async def _why_it_ended(self) -> Ended:
        """Find out why the guest stopped sending: a limit of the kernel, a crash, or an exit."""
        try:
            ended = await asyncio.wait_for(self._guest.wait(), 0.5)
        except TimeoutError:
            self._guest.kill()
            # If it was halted: on a busy machine, its end may take longer.
            return _ended(*(self._halting or ("guest died", "it closed its pipe but kept running")))
        self._wire.read_noise()
        if self._halting is not None:  # it was halted before it had a signal handler
            return _ended(*self._halting)
        if ended.limit is not None:
            return _ended(*ended.limit)
        noise = self._noise.decode("utf-8", "replace").strip().splitlines()
        detail = f": {noise[-1][:300]}" if noise else ""
        if not ended.has_started:
            raise SandboxError(f"{self._guest.wall} could not start the guest{detail}")
        if ended.code == -_SIGXCPU or ended.cpu_seconds >= 0.98 * self._limits.cpu_seconds:
            return _ended("limit:cpu", f"the program used over {seconds_of(self._limits.cpu_seconds)} of CPU")
        if ended.is_out_of_memory:
            return _ended("limit:memory", f"the program used over {self._limits.memory_bytes:,} bytes of memory")
        cut = ", in the middle of a frame" if self._reader.is_cut() else ""
        return _ended("guest died", f"the guest process {_how(ended.code)}{cut}{detail}")


def _ended(reason: str, message: str, **more: Any) -> Ended:
    return Ended(reason, error=Failure(type=reason, message=message, **more))


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was killed by signal {-code} ({_SIGNALS.get(-code, 'unknown')})"


@contextlib.asynccontextmanager
async def session_of(guest: Guest, job: Job, grant: packages.Grant) -> AsyncIterator[Session]:
    """Run a job in a guest, which is killed at the end."""
    session = Session(guest, job, grant)
    try:
        session.begin()
        yield session
    finally:
        await session.close()
