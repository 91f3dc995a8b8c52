"""Guests in containers of docker or podman, for machines on which the built-in sandbox does not work.

Covered: the isolation of containers, with no network, no capabilities, a read-only root, an unprivileged user, and
limits on memory, processes, files and CPU. The default image is empty and created here: the guest sees the host's own
Python, read-only, and nothing is downloaded. Not covered: bugs of the engine and its daemon, which usually runs as
root. A container takes a few hundred milliseconds to start; a fork of a zygote takes one millisecond.
"""

from __future__ import annotations

import asyncio
import csv
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import ceil

from .. import boot
from ..errors import SandboxError
from .handle import runtime_paths
from .job import Job
from .linux_only import IMAGE, require_linux
from .packages import Grant, Packages
from .pipes import Pipes
from .process import ENVIRONMENT
from .session import Exit, Session, session_of
from .tiers import WORK

ENGINES = ("docker", "podman")
_EMPTY = "chainofcode-empty"
_NOBODY = "65534:65534"
_ENGINE_SECONDS = 60


class Container:
    """Starts one container per program. An `image` must have `python3`, 3.11 or later; its own packages are used."""

    def __init__(self, engine: str, image: str = "") -> None:
        self._engine, self._image = engine, image
        self._is_ready = False

    def close(self) -> None:
        """Do nothing: nothing is kept between programs."""

    @asynccontextmanager
    async def start(self, job: Job) -> AsyncIterator[Session]:
        await asyncio.to_thread(self.prepare)
        grant = Grant.of(Packages(job.all_packages), job)
        guest = _ContainerGuest(self._engine, self._command(job, grant))
        async with session_of(guest, job, grant) as session:
            yield session

    def prepare(self) -> None:
        """Check that the engine works and has the image. Raises SandboxError."""
        if self._is_ready:
            return
        if sys.platform == "win32":
            require_linux(f"--sandbox {self._engine}")
        if sys.platform != "linux" and not self._image:
            raise SandboxError(
                f"--sandbox {self._engine} needs an image with Python here: --sandbox {self._engine}:{IMAGE}"
            )
        check_engine(self._engine)
        if not self._image:
            if _run_engine(self._engine, "image", "inspect", _EMPTY).returncode != 0:
                nothing = io.BytesIO()
                tarfile.open(fileobj=nothing, mode="w").close()
                _check(self._engine, _run_engine(self._engine, "import", "-", _EMPTY, stdin=nothing.getvalue()))
        elif _run_engine(self._engine, "image", "inspect", self._image).returncode != 0:
            _check(self._engine, _run_engine(self._engine, "pull", self._image, seconds=1800))
        self._is_ready = True

    def _command(self, job: Job, grant: Grant) -> list[str]:
        limits, files = job.limits, max(job.scratch_bytes, 1)
        shown = dict.fromkeys(boot.FILES)
        python = "python3"
        if not self._image:
            python = os.path.realpath(sys.executable)
            real = map(os.path.realpath, runtime_paths())  # Python looks for its library next to its real path
            shown |= dict.fromkeys([*runtime_paths(), *real, python, *grant.shown])
        else:
            shown |= dict.fromkeys(path for path in grant.shown if path not in grant.search)
        binds = {path: path for path in shown} | {f"{WORK}/{name}": path for name, path in grant.links}
        options = [
            "--rm", "--interactive", "--network=none", "--read-only", "--cap-drop=ALL", f"--user={_NOBODY}",
            "--security-opt=no-new-privileges", "--ipc=none", "--log-driver=none", "--hostname=guest",
            f"--workdir={WORK}",
            f"--memory={limits.memory_bytes}", f"--memory-swap={limits.memory_bytes}",
            f"--pids-limit={limits.processes}", f"--ulimit=nproc={limits.processes}:{limits.processes}",
            "--ulimit=nofile=256:256", "--ulimit=core=0:0", f"--ulimit=fsize={files}:{files}",
            f"--ulimit=cpu={ceil(limits.cpu_seconds) + 1}:{ceil(limits.cpu_seconds) + 2}",
            f"--tmpfs={WORK}:rw,nosuid,nodev,noexec,mode=0777,size={job.scratch_bytes}" if job.scratch_bytes
            else f"--tmpfs={WORK}:ro,nosuid,nodev,noexec,mode=0555,size=4096",
            *[_mount(source, target) for target, source in binds.items()],
            *[f"--env={name}={value}" for name, value in ENVIRONMENT.items()],
        ]  # fmt: skip
        return [*options, self._image or _EMPTY, *job.language.command(python, "stdio")]


def check_engine(engine: str) -> None:
    """Check that an engine is installed and that its daemon, if it has one, answers. Raises SandboxError."""
    if shutil.which(engine) is None:
        raise SandboxError(f"there is no command `{engine}` on this machine")
    _check(engine, _run_engine(engine, "version"))


def _check(engine: str, done: subprocess.CompletedProcess[bytes]) -> None:
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise SandboxError(f"{engine} cannot run containers here: {lines[-1][:300]}")


def _mount(source: str, target: str) -> str:
    """A read-only mount in the engines' notation, which is a line of CSV."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(["type=bind", f"source={source}", f"target={target}", "readonly"])
    return f"--mount={line.getvalue()}"


def _exit_of(process: subprocess.Popen[bytes]) -> int:
    """Return a descriptor that becomes readable when the process ends, even on macOS, which has no pidfds."""
    read_fd, write_fd = os.pipe()

    def wait() -> None:
        process.wait()
        os.close(write_fd)

    threading.Thread(target=wait, daemon=True).start()
    return read_fd


def _run_engine(
    engine: str, *arguments: str, stdin: bytes = b"", seconds: float = _ENGINE_SECONDS
) -> subprocess.CompletedProcess[bytes]:
    command = [engine, *arguments]
    try:
        return subprocess.run(command, input=stdin, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(
            command, 1, b"", f"`{engine} {arguments[0]}` took over {seconds:g} s".encode()
        )


class _ContainerGuest:
    """The engine's client process: its pipes are the guest's."""

    counts_processes = False  # the engine counts them

    def __init__(self, engine: str, command: list[str]) -> None:
        self.wall, self._engine, self._name = engine, engine, f"chainofcode-{uuid.uuid4().hex}"
        try:
            self._process = subprocess.Popen(
                [engine, "run", f"--name={self._name}", *command],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise SandboxError(f"cannot start {engine}: {error.strerror}") from None
        pipes = self._process.stdout, self._process.stdin, self._process.stderr
        read_fd, write_fd, noise_fd = (os.dup(pipe.fileno()) for pipe in pipes if pipe is not None)
        for pipe in pipes:
            if pipe is not None:
                pipe.close()
        exit_fd = _exit_of(self._process)
        self.wire = Pipes(read_fd=read_fd, write_fd=write_fd, noise_fd=noise_fd, exit_fd=exit_fd)
        self.pid = 0  # only that of the client is known
        self._is_killed = False
        self._signallers: list[subprocess.Popen[bytes]] = []

    def interrupt(self) -> None:
        self._send("USR1")

    def kill(self) -> None:
        if not self._is_killed:
            self._is_killed = True
            self._send("KILL")

    def _send(self, name: str) -> None:
        if self._process.poll() is None:
            quiet = subprocess.DEVNULL
            command = [self._engine, "kill", f"--signal={name}", self._name]
            self._signallers.append(subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet))

    async def wait(self) -> Exit:
        while self._process.poll() is None:  # noqa: ASYNC110 (a process has no event)
            await asyncio.sleep(0.01)
        code = self._process.returncode
        has_started = self._is_killed or code not in (125, 126, 127)  # failures of the engine itself
        if 128 < code < 128 + signal.NSIG:  # how the client reports a signal
            code = 128 - code
        return Exit(code=code, cpu_seconds=0.0, has_started=has_started)

    async def close(self) -> None:
        """Kill the container, and wait until its client ends; a client that hangs is killed, too."""
        self.kill()
        try:
            await asyncio.wait_for(self.wait(), 10)
        except TimeoutError:
            self._process.kill()
            self._process.wait()
            await asyncio.to_thread(_run_engine, self._engine, "rm", "--force", self._name)
        for signaller in self._signallers:
            await asyncio.to_thread(signaller.wait)
        self.wire.close()
