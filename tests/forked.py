"""Processes of `coc` that are forked from one that has imported it already, because imports take most of the startup.

The zygote is this file as a program. For each command it forks a keeper, which forks the command, reports its process
id, waits for it and reports its exit code. A command has its own arguments, environment, directory and streams.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_PRELOADED = (
    "chainofcode.cli",
    "chainofcode.server.hosting",
    "chainofcode.server.mcp.hosted",
    "chainofcode.server.sqlite_store",
    "uvicorn.protocols.http.h11_impl",
    "encodings.idna",
)
_MAX_BYTES = 100_000  # of the arguments and variables of a command
_NUMBER = struct.Struct("i")


class Forked:
    """A running `coc`: the part of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        arguments: Sequence[str],
        streams: Sequence[int] = (0, 1, 2),
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        request = json.dumps([arguments, str(cwd or Path.cwd()), dict(os.environ if env is None else env)]).encode()
        self._reports, end = os.pipe()
        socket.send_fds(_zygote(), [request], [*streams, end])
        os.close(end)
        self.returncode: int | None = None
        self.pid = self._report()

    def _report(self) -> int:
        (number,) = _NUMBER.unpack(os.read(self._reports, _NUMBER.size))
        return int(number)

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            waiting = select.poll()
            waiting.register(self._reports, select.POLLIN)
            if not waiting.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired("coc", timeout or 0)
            self.returncode = self._report()
            os.close(self._reports)
        return self.returncode

    def send_signal(self, kind: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, kind)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run_coc(arguments: Sequence[str], cwd: Path, stdin: str | None) -> subprocess.CompletedProcess[str]:
    """Run `coc` as `subprocess.run` would, for a minute at most."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(3)]
        files[0].write(stdin or "")
        files[0].seek(0)
        process = Forked(arguments, [file.fileno() for file in files], cwd=cwd)
        try:
            code = process.wait(60)
        finally:
            process.kill()
        for file in files:
            file.seek(0)
        _, out, err = (file.read() for file in files)
    return subprocess.CompletedProcess(["coc", *arguments], code, out, err)


def can_fork(arguments: Sequence[str]) -> bool:
    """False if the test changed variables that an interpreter reads at startup, or if the arguments are too long."""
    size = sum(map(len, arguments)) + sum(len(name) + len(value) for name, value in os.environ.items())
    return not is_measured and _python_variables() == _initial_variables and size < _MAX_BYTES


def _python_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}


_initial_variables = _python_variables()
is_measured = any(
    name.startswith("COVERAGE_PROCESS") for name in os.environ
)  # coverage starts with a new interpreter, not after a fork
_MEASURED = str(Path(__file__).parent / "measured_boot.py")
COC = [sys.executable, *([_MEASURED, "coc"] if is_measured else ["-m", "chainofcode"])]


@functools.cache
def _zygote() -> socket.socket:
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    quiet = subprocess.DEVNULL
    # The zygote exits when this process ends, which closes the other end of the socket.
    subprocess.Popen(
        [sys.executable, __file__, str(its.fileno())], pass_fds=[its.fileno()], stdin=quiet, stdout=quiet, stderr=quiet
    )
    its.close()
    return ours


# --- in the zygote ------------------------------------------------------------------------------------------------


def _serve(commands: socket.socket) -> None:
    """Return in each process that is to run a command; exit when the socket is closed."""
    for name in _PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, descriptors, _, _ = socket.recv_fds(commands, 4 * _MAX_BYTES, 4)
        if not request:
            os._exit(0)
        if not os.fork():
            commands.close()
            _keep(*json.loads(request), *descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)


def _keep(arguments: list[str], directory: str, variables: dict[str, str], *descriptors: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, reports = descriptors
    if child := os.fork():
        for descriptor in streams:
            os.close(descriptor)
        os.write(reports, _NUMBER.pack(child))
        os.write(reports, _NUMBER.pack(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
        os._exit(0)
    os.close(reports)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(variables)
    sys.path[0] = directory  # as with `python -m`
    sys.argv = ["coc", *arguments]


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("chainofcode", run_name="__main__")
