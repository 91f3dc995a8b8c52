"""Runs work on untrusted data in a confined process with limits on time and memory: JSON in, JSON out.

This is the parent's side; `job_process` is the child's. The child gets none of the parent's secrets: its environment
has only the module path, and it inherits no descriptors. It starts with `boot.py` and imports only what the work needs.
Before it reads the job, it gives up its rights (`sandbox/worker_confinement.py`), except to read the job's file.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from .. import boot, platforms
from ..engine.blocking import blocking

_P = ParamSpec("_P")
_T = TypeVar("_T")
MAX_OUTPUT_BYTES = 32 * 1024**2
TOO_MUCH_OUTPUT = 1000  # no process has this exit code
_READ_BYTES = 256 * 1024
Worker = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]  # takes a module and a job


def _json(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode()


class _Processes:
    """What a thread started: the thread cannot be cancelled, but its processes and tasks can be ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._tasks: dict[asyncio.Task[Any], asyncio.AbstractEventLoop] = {}
        self._is_cancelled = False

    @contextlib.contextmanager
    def started(self, command: list[str]) -> Iterator[subprocess.Popen[bytes] | None]:
        """Start a process, or none after a cancellation. The process never outlives the block."""
        with self._lock:
            if self._is_cancelled:
                process = None
            else:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=environment(),
                )
                self._running.add(process)
        if process is None:
            yield None
            return
        with process:
            try:
                yield process
            finally:
                process.kill()
                with self._lock:
                    self._running.discard(process)

    async def wait_for(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Await work in the event loop of this thread, unless there was a cancellation."""
        task = asyncio.ensure_future(work)
        with self._lock:
            if self._is_cancelled:
                task.cancel()
            self._tasks[task] = asyncio.get_running_loop()
        try:
            return await task
        finally:
            with self._lock:
                del self._tasks[task]

    def cancel(self) -> None:
        with self._lock:
            self._is_cancelled = True
            for process in self._running:
                process.kill()
            for task, loop in self._tasks.items():
                loop.call_soon_threadsafe(task.cancel)


Turn = Callable[[], contextlib.AbstractAsyncContextManager[object]]
TURN: contextvars.ContextVar[Turn] = contextvars.ContextVar("turn", default=contextlib.nullcontext)
_PROCESSES: contextvars.ContextVar[_Processes] = contextvars.ContextVar("processes")


async def in_thread(work: Callable[_P, _T], *arguments: _P.args, **options: _P.kwargs) -> _T:
    """Like `asyncio.to_thread`; cancellation kills the processes that the work started with `run_isolated`.

    Waits for its `TURN`, with which a server shares processes between its clients.
    """
    processes = _Processes()
    context = contextvars.copy_context()
    context.run(_PROCESSES.set, processes)
    loop = asyncio.get_running_loop()
    async with TURN.get()():
        try:
            return await loop.run_in_executor(None, lambda: context.run(work, *arguments, **options))
        except asyncio.CancelledError:
            processes.cancel()
            raise


def run_cancellable(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine to its end, from sync code; a cancellation of `in_thread` ends it."""
    return blocking(_PROCESSES.get(_Processes()).wait_for(work))


def run_isolated(module: str, job: dict[str, Any], *, seconds: float, memory: int) -> dict[str, Any]:
    """Run a job with `main` of a module. Returns its result, or `{"error": why}` if it exceeded a limit."""
    message = message_of(job, seconds=seconds, memory=memory)
    with _PROCESSES.get(_Processes()).started(_command(module)) as process:
        if process is None:
            return {"error": "it was cancelled"}
        try:
            output, _ = process.communicate(message, timeout=platforms.parent_timeout(seconds))
        except subprocess.TimeoutExpired:
            return {"error": why_ended(platforms.OUT_OF_TIME[0], seconds)}
        code = process.returncode
    if code != 0:
        return {"error": why_ended(code, seconds)}
    result: dict[str, Any] = json.loads(output)
    return result


async def arun_isolated(
    module: str,
    job: dict[str, Any],
    *,
    seconds: float,
    memory: int,
    write: Callable[[Mapping[str, Any]], bytes] | None = None,
) -> dict[str, Any]:
    """Like `run_isolated`, in an event loop: `seconds` are real time, and cancellation kills the process."""
    message = message_of(job, seconds=seconds, memory=memory, write=write or _json)
    code, output = await finished(await started(_command(module)), message, seconds)
    if code != 0:
        return {"error": why_ended(code, seconds)}
    result: dict[str, Any] = json.loads(output)
    return result


def message_of(
    job: Mapping[str, Any],
    *,
    seconds: float,
    memory: int,
    write: Callable[[Mapping[str, Any]], bytes] = _json,
    starts_guests: bool = False,
) -> bytes:
    """Return the input of a process: what it needs to confine itself, on a line of its own, then the job.

    The process can read one file, the `path` of the job.
    """
    reads = [job["path"]] if job.get("path") is not None else []
    limits = {"seconds": seconds, "memory": memory, "reads": reads, "starts_guests": starts_guests}
    return _json(limits) + b"\n" + write(job)


async def started(command: list[str], variables: Sequence[str] = ()) -> asyncio.subprocess.Process:
    """Start a process for one job, in its own session. It gets these environment variables, if they are set."""
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment(variables),
        start_new_session=True,
    )


async def finished(
    process: asyncio.subprocess.Process, message: bytes, seconds: float, most: int = MAX_OUTPUT_BYTES
) -> tuple[int, bytes]:
    """Send a process its job and return its exit code and output. The process never outlives this call.

    It kills a process that writes more than `most` bytes, and returns the code TOO_MUCH_OUTPUT.
    """
    try:
        async with asyncio.timeout(seconds):
            output = await _communicate(process, message, most)
            if len(output) > most:
                return TOO_MUCH_OUTPUT, b""
            await process.wait()
    except TimeoutError:
        return platforms.OUT_OF_TIME[0], b""
    finally:
        await ended(process)
    return process.returncode or 0, output


async def _communicate(process: asyncio.subprocess.Process, message: bytes, most: int) -> bytes:
    """Send the job and read the output, until it is longer than `most` bytes."""
    assert process.stdin is not None
    assert process.stdout is not None
    sending = asyncio.create_task(_send(process.stdin, message))
    try:
        output = bytearray()
        while len(output) <= most and (part := await process.stdout.read(_READ_BYTES)):
            output += part
        return bytes(output)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _send(pipe: asyncio.StreamWriter, message: bytes) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the exit code says why
        pipe.write(message)
        await pipe.drain()
    pipe.close()


async def ended(process: asyncio.subprocess.Process) -> None:
    """Kill a process, and all that it started, if it is still running."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            platforms.kill_group(process.pid)
    await process.wait()


def why_ended(code: int, seconds: float) -> str:
    """Return why a process ended without a result."""
    if code == TOO_MUCH_OUTPUT:
        return "its result is too large"
    if code in platforms.OUT_OF_TIME:
        return f"it took over {seconds:g} seconds"
    return "it used too much memory, or crashed the process"


def environment(variables: Sequence[str] = ()) -> dict[str, str]:
    """Return the environment of a process for untrusted data: the module path and the named variables, no secrets."""
    named = {name: os.environ[name] for name in variables if name in os.environ}
    return {**platforms.environment(), **named, "PYTHONPATH": boot.module_path()}


def _command(module: str) -> list[str]:
    return [sys.executable, "-s", "-P", "-X", "utf8", boot.__file__, module]
