"""The process that guests are forked from: confined, with nothing of the host's environment, and modules imported.

    host ── keeper ── zygote ── guests

The keeper tries one tier after the other, each in a child process, until a witness in a tier could do nothing that is
forbidden. The host sends a plan. On the control socket, it then receives the tier that works, and requests guests; it
gets three pipes and a pidfd for each. When the host closes the socket or dies, all these processes die.

Standard library only.
"""

from __future__ import annotations

import _socket
import array
import contextlib
import fcntl
import gc
import importlib
import json
import os
import select
import signal
import sys

from ..languages.guest.entry import serve
from ..languages.guest.granted import GrantedPackages, guest_of
from . import kernel
from .jail import KEPT, Wall
from .tiers import NAMESPACED
from .witness import Witness

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from collections.abc import Iterator
    from typing import Any, NoReturn

_MESSAGE_BYTES = 1 << 18
# Modules that programs commonly import: guests start faster with them, and in tier C they have no others.
_COMMON = """
    abc argparse array asyncio base64 bisect calendar cmath collections collections.abc colorsys concurrent.futures
    contextlib copy csv dataclasses datetime decimal difflib enum fractions functools graphlib hashlib heapq hmac html
    html.parser io itertools json keyword locale logging math numbers operator os pathlib pprint queue random re secrets
    shlex statistics string struct tempfile textwrap threading time timeit traceback types typing unicodedata unittest
    urllib.parse uuid warnings weakref zlib zoneinfo xml.etree.ElementTree
    encodings.ascii encodings.latin_1 encodings.cp1252 encodings.utf_16 encodings.utf_32 encodings.idna
    encodings.unicode_escape encodings.hex_codec encodings.rot_13 encodings.utf_8_sig _strptime
    _ast_unparse annotationlib string.templatelib
"""


def main(control_fd: str, plan_fd: str) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the host, which closes the socket
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the host may handle these signals differently
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    control = _socket.socket(fileno=int(control_fd))
    plan: dict[str, Any] = json.loads(_read_all(int(plan_fd)))
    os.close(int(plan_fd))
    guest_of(plan["language"])  # now: the sandbox hides its files
    refusals: dict[str, str] = {}
    for tier in plan["tiers"]:
        read_end, write_end = os.pipe()
        keeper = os.getpid()
        child = os.fork()
        if child == 0:
            os.close(read_end)
            _become_zygote(tier, plan, refusals=refusals, control=control, write_end=write_end, keeper=keeper)
        os.close(write_end)
        refusal = _read_refusal(read_end, control)
        os.close(read_end)
        if not refusal:
            control.close()
            os.close(plan["directory"])
            os.waitpid(child, 0)
            os._exit(0)
        refusals[tier] = refusal.decode(errors="replace")
        os.waitpid(child, 0)
    control.send(json.dumps({"refused": refusals}).encode())
    os._exit(0)


def _become_zygote(
    tier: str,
    plan: dict[str, Any],
    *,
    refusals: dict[str, str],
    control: _socket.socket,
    write_end: int,
    keeper: int,
) -> NoReturn:
    """Enter a tier and serve requests, or write the reason of a refusal to `write_end`."""
    try:
        wall = Wall(
            tier,
            runtime=plan["runtime"],
            hidden=plan["hidden"],
            granted=plan["granted"],
            foreign=plan["foreign"],
            links=plan["links"],
            directory=plan["directory"],
            locks=plan["locks"],
        )
        wall.enter()
        kernel.die_with_parent()  # here, because a change of user resets it
        if os.getppid() != keeper:
            os._exit(0)
        if wall.has_namespaces:
            _continue_in_child(control, write_end)
        wall.settle()
        zygote = _ZygoteServer(control, wall, plan["language"] if plan["is_kept"] else "")
        _preload(plan, tier)
        if plan["is_kept"]:  # not worth the time for a single program
            guest_of(plan["language"]).rehearse()
            gc.collect()
        wall.seal()
        gc.freeze()  # guests need not collect these objects, and their pages stay shared
        could = zygote.send_witness(plan["secrets"])
        if could:
            raise OSError(0, f"the witness could {', '.join(could)}")
    except BaseException as error:
        os.write(write_end, _reason(error).encode())
        os._exit(1)
    os.close(write_end)
    plan.clear()  # a program can inspect its outer stack frames
    message = {"tier": tier, "missing": wall.missing, "refused": refusals, "counts": wall.counts_processes}
    with contextlib.suppress(ConnectionError):  # the host died
        control.send(json.dumps(message).encode())
        zygote.serve()
    os._exit(0)


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.strerror}: {error.filename}"
    return str(error.strerror) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"


def _continue_in_child(control: _socket.socket, write_end: int) -> None:
    """Continue as the first process of a pid namespace: when it dies, all processes in the namespace die."""
    alive, dead = os.pipe()
    child = os.fork()
    if child != 0:
        control.close()
        os.close(write_end)
        os.close(alive)
        os.waitpid(child, 0)
        os._exit(0)
    os.close(dead)
    kernel.die_with_parent()
    if select.select([alive], [], [], 0)[0]:  # the parent died before `die_with_parent`
        os._exit(0)
    os.close(alive)


def _preload(plan: dict[str, Any], tier: str) -> None:
    """Import granted packages; also common modules, if the zygote is kept or if guests cannot import (tier C)."""
    packages = plan["modules"]
    common = _COMMON.split() if plan["is_kept"] or tier == "C" else []
    granted = GrantedPackages(plan["importable"], plan["search"])  # a package must not find what guests cannot read
    with _package_directory(tier) if packages else contextlib.nullcontext():
        granted.install()
        for name in (*common, *packages):
            with contextlib.suppress(BaseException):  # a program that imports the package gets the error
                importlib.import_module(name)
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not granted]
        os.environ.pop("TMPDIR", None)
    if "tempfile" in sys.modules:
        vars(sys.modules["tempfile"])["tempdir"] = None  # not that of the zygote


@contextlib.contextmanager
def _package_directory(tier: str) -> Iterator[None]:
    """A directory for files that packages write during import; guests can read it in tiers A and A- only."""
    directory = KEPT if tier in NAMESPACED else _temporary()
    os.environ |= {"TMPDIR": directory, "MPLCONFIGDIR": directory}
    try:
        yield
    finally:
        if tier not in NAMESPACED:
            import shutil

            shutil.rmtree(directory, ignore_errors=True)


def _temporary() -> str:
    import tempfile

    return tempfile.mkdtemp(prefix="chainofcode-")


class _ZygoteServer:
    def __init__(self, control: _socket.socket, wall: Wall, rehearsed: str) -> None:
        self._control, self._wall = control, wall
        self._rehearsed = rehearsed  # the language that guests rehearse; empty for none
        self._children: dict[int, tuple[int, int]] = {}  # pidfd: process number, the host's number

    def serve(self) -> None:
        """Fork on request and report how each child ended, until the host closes the socket."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd in self._children:
                    poll.unregister(fd)
                    self._report_exit(fd)
                elif not self._answer(poll):
                    return

    def _answer(self, poll: select.poll) -> bool:
        request = self._control.recv(_MESSAGE_BYTES)
        if not request:
            return False
        wanted = json.loads(request)
        try:
            poll.register(self._fork_guest(wanted["number"], wanted["scratch_bytes"]), select.POLLIN)
        except ConnectionError:
            raise
        except OSError as error:
            self._control.send(json.dumps({"failed": wanted["number"], "why": _reason(error)}).encode())
        return True

    def _fork_guest(self, number: int, scratch_bytes: int) -> int:
        """Fork a guest. Send its pipes and its pidfd to the host, and return the pidfd."""
        pipes: list[tuple[int, int]] = []
        try:
            pipes.extend(_private_pipe() for _ in range(3))
            (guest_read, host_write), (host_read, guest_write), (noise_read, noise_write) = pipes
            child = self._wall.fork()
            if child == 0:
                self._run_guest(number, scratch_bytes, guest_read, guest_write, noise_write)
            pidfd = _pidfd_of(child)
            self._children[pidfd] = child, number
            message = json.dumps({"forked": number}).encode()
            fds = array.array("i", [host_read, host_write, noise_read, pidfd])
            self._control.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
            return pidfd
        finally:
            for pipe in pipes:
                for fd in pipe:
                    os.close(fd)

    def _run_guest(self, number: int, scratch_bytes: int, guest_read: int, guest_write: int, noise: int) -> NoReturn:
        try:
            nothing = os.open("/dev/null", os.O_RDONLY)  # opened again, because copies of a descriptor share state
            _keep_only(nothing, noise, noise, guest_read, guest_write)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._wall.close_in(scratch_bytes, number)
            if self._rehearsed:
                guest_of(self._rehearsed).rehearse()
            serve(3, 4)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(1)

    def _report_exit(self, pidfd: int) -> None:
        child, number = self._children.pop(pidfd)
        _, status, usage = os.wait4(child, 0)
        os.close(pidfd)
        message = {"ended": number, "code": os.waitstatus_to_exitcode(status), "cpu": usage.ru_utime + usage.ru_stime}
        self._control.send(json.dumps(message).encode())

    def send_witness(self, secrets: list[str]) -> list[str]:
        """Run a witness. Return what it could do although a guest must not; empty if the tier works."""
        canary = _canary() if not self._wall.has_namespaces else ""
        read_end, write_end = os.pipe()
        child = self._wall.fork()
        if child == 0:
            try:
                _keep_only(0, write_end, write_end, write_end, write_end)
                witness = Witness(self._wall, [*secrets, canary] if canary else secrets)
                self._wall.close_in(0, 0, witness.look)
                witness.look_at_calls()
                os.write(1, json.dumps(witness.could).encode())
            except BaseException as error:
                os.write(1, json.dumps([f"not be confined: {_reason(error)}"]).encode())
            finally:
                os._exit(0)
        os.close(write_end)
        report = _read_all(read_end)
        os.close(read_end)
        os.waitpid(child, 0)
        if canary:
            os.unlink(canary)
        could: list[str] = json.loads(report or '["exit without a report"]')
        return could


def _private_pipe() -> tuple[int, int]:
    """Return a pipe whose other end a guest cannot get by opening it through /proc/self/fd (tier B)."""
    pipe = os.pipe()
    os.fchmod(pipe[0], 0)
    return pipe


def _keep_only(*fds: int) -> None:
    """Renumber these descriptors as 0, 1, 2…, and close all others."""
    copies = [fcntl.fcntl(fd, fcntl.F_DUPFD, len(fds)) for fd in fds]
    for number, fd in enumerate(copies):
        os.dup2(fd, number, inheritable=True)
    kernel.close_from(len(fds))


def _canary() -> str:
    """Create a file that only the sandbox protects from guests. Return its path, or empty text if that fails."""
    path = f"/tmp/chainofcode-canary-{os.getpid()}"  # noqa: S108 (opened with O_EXCL)
    try:
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY, 0o600)
    except OSError:
        return ""
    os.fchmod(fd, 0o666)
    os.close(fd)
    return path


def _pidfd_of(child: int) -> int:
    try:
        return os.pidfd_open(child)
    except OSError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise


def _read_refusal(read_end: int, control: _socket.socket) -> bytes:
    """Read what a child writes until it closes its end. If the host dies meanwhile, kill the process group."""
    poll = select.poll()
    poll.register(read_end, select.POLLIN)
    poll.register(control, 0)
    data = b""
    while True:
        for fd, _ in poll.poll():
            if fd != read_end:
                os.killpg(0, signal.SIGKILL)
            chunk = os.read(read_end, 1 << 16)
            data += chunk
            if not chunk:
                return data


def _read_all(fd: int) -> bytes:
    data = b""
    while chunk := os.read(fd, 1 << 16):
        data += chunk
    return data
