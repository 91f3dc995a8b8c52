"""The guest process: sets its own limits and runs one program, in any of the languages.

A language has a module `languages.NAME.guest.main` with three functions: `serve` runs a program, `describe` only parses
it, `rehearse` prepares a fresh process. Standard library only.
"""

from __future__ import annotations

import ctypes
import math
import os
import resource
import signal

from ..source import NotAProgram
from .granted import GrantedPackages, guest_of
from .link import GuestLink
from .scratch import ScratchFiles

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1


def main(*arguments: str) -> None:
    """Start a guest that no zygote forked: with `stdio` in a container, otherwise with two file descriptors."""
    if arguments == ("stdio",):
        serve(*_own_stdio())
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # a guest does not outlive its host
    serve(*map(int, arguments))


def _own_stdio() -> tuple[int, int]:
    """Move the wire, in a container standard input and output, to descriptors that the program does not use."""
    wire = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return wire


def serve(read_fd: int, write_fd: int) -> NoReturn:
    """Serve one program and exit."""
    link = GuestLink(read_fd, write_fd)
    start = link.receive()
    link.frame_bytes = start["frame_bytes"]
    _limit(start)
    artifacts = ScratchFiles(_scratch()) if start["scratch"] and not start["is_shadow"] else None
    GrantedPackages(start["package_names"], start["package_paths"]).install()
    try:
        ended = guest_of(start["language"]).serve(link, start)
    except NotAProgram as error:
        ended = {"reason": "error", "error": {"type": "NotAProgram", "message": str(error)}}
    if artifacts is not None:
        artifacts.send(link)
        ended["unsent"] = artifacts.unsent
    link.send({"type": "ended", **ended})
    link.leave()


def _scratch() -> str:
    """Return the working directory. Packages that write files when they are imported get a directory in it."""
    home = os.getcwd()
    os.environ.setdefault("MPLCONFIGDIR", os.path.join(home, ".matplotlib"))
    return home


def _limit(start: dict[str, Any]) -> None:
    """Set the kernel's limits on this process. The host enforces limits from outside, too."""
    seconds = max(1, math.ceil(start["cpu_seconds"]))
    _set_limit(resource.RLIMIT_CPU, seconds, seconds + 1)  # SIGXCPU, then SIGKILL a second later
    _set_limit(resource.RLIMIT_AS, start["memory_bytes"])
    _set_limit(resource.RLIMIT_CORE, 0)
    if start["processes"]:
        _set_limit(resource.RLIMIT_NPROC, start["processes"])


def _set_limit(which: int, soft: int, hard: int | None = None) -> None:
    """Set a limit, but not above the host's own limit, which this process inherited."""
    given = resource.getrlimit(which)[1]
    most = (1 << 63) - 1 if given == resource.RLIM_INFINITY else given
    resource.setrlimit(which, (min(soft, most), min(soft if hard is None else hard, most)))
