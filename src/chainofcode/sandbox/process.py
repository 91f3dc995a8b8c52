"""A guest process without a sandbox: limits, deadlines and a checked wire, but no isolation.

Covered: CPU, memory, run and wall time, output and frame size; a guest that lies, hangs, dies or floods; processes that
it started stay in its process group and are killed with it. Its environment contains nothing of the host's.
Not covered: files, network and other processes of the same user (see SECURITY.md).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..errors import SandboxError
from ..languages import Language
from .job import Job
from .linux_only import require_linux
from .packages import Grant, Packages
from .pipes import Pipes
from .session import Exit, Session, session_of

# The whole environment of a guest: nothing of the host's; the same hash seed, time zone and encoding everywhere.
ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
    "LC_ALL": "C.UTF-8",
    "PATH": "/usr/bin:/bin",
    "MALLOC_ARENA_MAX": "2",
    "MPLBACKEND": "Agg",  # figures have no window
}


class NoSandbox:
    """Starts one process per program, with the rights, files and working directory of this process."""

    def __init__(self, python: str = sys.executable) -> None:
        self._python = python

    def close(self) -> None:
        """Do nothing: nothing is kept between programs."""

    @asynccontextmanager
    async def start(self, job: Job) -> AsyncIterator[Session]:
        require_linux("running without a sandbox")
        if job.scratch_bytes:
            raise SandboxError("no scratch directory without a sandbox: a program can write wherever you can")
        grant = Grant.of(Packages(job.all_packages), job)
        async with session_of(ProcessGuest(self._python, job.language), job, grant) as session:
            yield session


class ProcessGuest:
    """A guest process in a session of its own, so that its whole process group can be killed."""

    wall, counts_processes = "none", False

    def __init__(self, python: str, language: Language) -> None:
        guest_read, write_fd = os.pipe()
        read_fd, guest_write = os.pipe()
        noise_fd, noise_write = os.pipe()
        command = language.command(python, str(guest_read), str(guest_write))
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=noise_write,
                stderr=noise_write,
                pass_fds=(guest_read, guest_write),
                env=ENVIRONMENT,
                start_new_session=True,
                cwd=None if os.path.isdir(".") else "/",
            )
        except OSError as error:
            for fd in (write_fd, read_fd, noise_fd):
                os.close(fd)
            raise SandboxError(f"cannot start a guest with {python}: {error.strerror}") from None
        finally:
            for fd in (guest_read, guest_write, noise_write):
                os.close(fd)
        self.pid = self._process.pid
        exit_fd = os.pidfd_open(self.pid)
        self.wire = Pipes(read_fd=read_fd, write_fd=write_fd, noise_fd=noise_fd, exit_fd=exit_fd)
        self._exit: Exit | None = None

    def interrupt(self) -> None:
        if self._exit is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._process.pid, signal.SIGUSR1)

    def kill(self) -> None:
        if self._exit is None:  # not reaped yet: its group id is not reused
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def wait(self) -> Exit:
        pause = 0.0005
        while self._exit is None:
            pid = self._process.pid
            try:
                has_ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # noqa: ASYNC222
            except ChildProcessError:  # this process ignores SIGCHLD: the kernel has reaped it
                self._exit = Exit(0, 0.0)
                break
            if has_ended:
                self.kill()  # the processes that it started
                _, status, usage = os.wait4(pid, 0)  # noqa: ASYNC222 (it is dead)
                code = self._process.returncode = os.waitstatus_to_exitcode(status)
                self._exit = Exit(code, usage.ru_utime + usage.ru_stime)
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 2, 0.05)
        return self._exit

    async def close(self) -> None:
        self.kill()
        await self.wait()
        self.wire.close()
