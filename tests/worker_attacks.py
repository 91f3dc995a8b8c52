"""A host whose worker is hostile: `python worker_attacks.py host HOW SECRET`, where HOW is `confined` or `bare`.

The host starts a worker as `methods.isolated` does, with a job that tries what a worker must not do, and prints the
results as JSON: `done`, or the name of the error. A bare worker does the same without confining itself, which shows that the
attacks work. Both run in a process of their own, so that they can have any user.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PTRACE_SEIZE = 0x4206
_MEMORY_BYTES = 1 << 30
ALWAYS_REFUSED = ("take more memory than its limit",)  # by a limit, not by its confinement


def main() -> None:
    role, how, *rest = sys.argv[1:]
    if role == "host":
        print(asyncio.run(_results(how, rest[0])))
        return
    from chainofcode import boot

    boot._declare_packages()
    from chainofcode.methods.job_process import carry_out

    if how == "confined":
        carry_out(_tried)
    else:
        carry_out(_tried, confine=lambda limits: None)


async def _results(how: str, secret: str) -> str:
    """Start the worker, and return what it reports."""
    from chainofcode.methods.isolated import finished, message_of, started

    with tempfile.TemporaryDirectory() as place, socket.create_server(("127.0.0.1", 0)) as server:
        os.chmod(place, 0o777)
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(f"{place}/socket")
            os.chmod(f"{place}/socket", 0o777)
            other.listen()
            job = {"secret": secret, "place": place, "port": server.getsockname()[1]}
            command = [sys.executable, "-P", "-X", "utf8", __file__, "worker", how]
            message = message_of(job, seconds=30, memory=_MEMORY_BYTES)
            code, output = await finished(await started(command), message, 30)
    assert code == 0, f"the worker exited with code {code}"
    return output.decode()


def _tried(job: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, attack in ATTACKS.items():
        try:
            attack(job)
            found[name] = "done"
        except Exception as error:
            found[name] = type(error).__name__
    return found


def _connect_unix(job: dict[str, Any]) -> None:
    with socket.socket(socket.AF_UNIX) as own:
        own.connect(f"{job['place']}/socket")


def _seize(job: dict[str, Any]) -> None:
    if ctypes.CDLL(None, use_errno=True).ptrace(_PTRACE_SEIZE, os.getppid(), None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def _read_environment(job: dict[str, Any]) -> None:
    assert b"sk-in-the-environment" in Path(f"/proc/{os.getppid()}/environ").read_bytes()


ATTACKS: dict[str, Callable[[dict[str, Any]], object]] = {
    "read a key": lambda job: Path(job["secret"]).read_text(),
    "list the directory of the key": lambda job: os.listdir(os.path.dirname(job["secret"])),
    "read a file that everyone may read": lambda job: Path("/etc/passwd").read_text(),
    "read the environment of its parent": _read_environment,
    "read the memory of its parent": lambda job: os.close(os.open(f"/proc/{os.getppid()}/mem", os.O_RDONLY)),
    "read the descriptors of its parent": lambda job: os.listdir(f"/proc/{os.getppid()}/fd"),
    "trace its parent": _seize,
    "signal its parent": lambda job: os.kill(os.getppid(), 0),
    "connect to this machine": lambda job: socket.create_connection(("127.0.0.1", job["port"])).close(),
    "connect to a socket in a directory": _connect_unix,
    "start a program": lambda job: subprocess.run(["/bin/true"], check=True),
    "start a process": lambda job: os.fork() or os._exit(0),
    "write a file": lambda job: Path(job["place"], "written").write_text("x"),
    "remove a file": lambda job: os.unlink(f"{job['place']}/socket"),
    "take more memory than its limit": lambda job: bytearray(4 * _MEMORY_BYTES),
}

if __name__ == "__main__":
    main()
