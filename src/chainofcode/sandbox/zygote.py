"""The process all guests are forked from: started clean, walled in, everything imported, then one fork per program.

    host ── keeper ── zygote ── guests

The keeper tries one tier after the other, each in a child of its own, until a witness behind the walls has failed at
everything it tried. The host hands over a plan, hears on the control socket which tier holds, then asks there for
guests; each comes as three pipes and a pidfd. When the host closes the socket or dies, everything dies.

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

from ..languages.python.guest.main import rehearse, serve
from ..languages.python.guest.run.holes import GrantedPackages
from . import kernel
from .jail import KEPT, Wall
from .witness import Witness

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any, NoReturn

_MESSAGE_BYTES = 1 << 18
# What programs commonly import: a guest that has it at hand starts faster, and in tier C has nothing else.
_COMMON = """
    abc argparse array asyncio base64 bisect calendar cmath collections collections.abc colorsys concurrent.futures
    contextlib copy csv dataclasses datetime decimal difflib enum fractions functools graphlib hashlib heapq hmac html
    html.parser io itertools json keyword locale logging math numbers operator os pathlib pprint queue random re secrets
    shlex statistics string struct tempfile textwrap threading time timeit traceback types typing unicodedata unittest
    urllib.parse uuid warnings weakref zlib zoneinfo xml.etree.ElementTree
    encodings.ascii encodings.latin_1 encodings.cp1252 encodings.utf_16 encodings.utf_32 encodings.idna
    encodings.unicode_escape encodings.hex_codec encodings.rot_13 encodings.utf_8_sig _strptime
"""


def main(control_fd: str, plan_fd: str) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the host, which then closes the socket
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whatever our host does with these
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    control = _socket.socket(fileno=int(control_fd))
    plan: dict[str, Any] = json.loads(_read_all(int(plan_fd)))
    os.close(int(plan_fd))
    refusals: dict[str, str] = {}
    for tier in plan["tiers"]:
        heard, told = os.pipe()
        keeper = os.getpid()
        child = os.fork()
        if child == 0:
            os.close(heard)
            _grow(tier, plan, refusals, control, told, keeper)
        os.close(told)
        refusal = _hear_out(heard, control)
        os.close(heard)
        if not refusal:
            control.close()
            os.waitpid(child, 0)
            os._exit(0)
        refusals[tier] = refusal.decode(errors="replace")
        os.waitpid(child, 0)
    control.send(json.dumps({"refused": refusals}).encode())
    os._exit(0)


def _grow(
    tier: str, plan: dict[str, Any], refusals: dict[str, str], control: _socket.socket, told: int, keeper: int
) -> NoReturn:
    """Become a zygote behind this tier's walls, or tell the keeper why not."""
    try:
        wall = Wall(tier, plan["runtime"], plan["hidden"], plan["granted"], plan["links"], plan["cwd"])
        wall.enter()
        kernel.die_with_parent()  # now: a change of user forgets it
        if os.getppid() != keeper:
            os._exit(0)
        if tier == "A":
            _go_on_in_child(control, told)
        wall.settle()
        zygote = _Nursery(control, wall, plan["is_kept"])
        _preload(plan, tier)
        if plan["is_kept"]:  # for one program alone it is not worth the time
            rehearse()
            gc.collect()
        wall.seal_root()
        gc.freeze()  # what is here stays: no guest need look through it, and its pages stay shared
        could = zygote.send_witness(plan["secrets"])
        if could:
            raise OSError(0, f"the witness could {', '.join(could)}")
    except BaseException as error:
        os.write(told, _reason(error).encode())
        os._exit(1)
    os.close(told)
    plan.clear()  # a program can look at the frames below its own
    message = {"tier": tier, "missing": wall.missing, "refused": refusals, "counts": wall.counts_processes}
    with contextlib.suppress(ConnectionError):  # the host died in the middle of a word
        control.send(json.dumps(message).encode())
        zygote.serve()
    os._exit(0)


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.strerror}: {error.filename}"
    return str(error.strerror) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"


def _go_on_in_child(control: _socket.socket, told: int) -> None:
    """The first process in a namespace of processes: when it dies, everything in there does."""
    alive, dead = os.pipe()
    child = os.fork()
    if child != 0:
        control.close()
        os.close(told)
        os.close(alive)
        os.waitpid(child, 0)
        os._exit(0)
    os.close(dead)
    kernel.die_with_parent()
    if select.select([alive], [], [], 0)[0]:  # the parent died before we asked to die with it
        os._exit(0)
    os.close(alive)


def _preload(plan: dict[str, Any], tier: str) -> None:
    """Import what programs will: granted packages, and what else is common where there is time or no other way."""
    packages, common = plan["modules"], _COMMON.split() if plan["is_kept"] or tier == "C" else []
    keep = KEPT if tier == "A" else _temporary() if packages else ""
    os.environ |= {"TMPDIR": keep, "MPLCONFIGDIR": keep} if packages else {}
    granted = GrantedPackages(plan["importable"], plan["search"])  # a package must not find what it cannot read later
    granted.install()
    for name in (*common, *packages):
        with contextlib.suppress(BaseException):  # someone else's package: the program that imports it will be told why
            importlib.import_module(name)
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not granted]
    os.environ.pop("TMPDIR", None)
    if packages and tier != "A":
        import shutil

        shutil.rmtree(keep, ignore_errors=True)  # no guest could read it
    if "tempfile" in sys.modules:
        vars(sys.modules["tempfile"])["tempdir"] = None  # that was ours


def _temporary() -> str:
    import tempfile

    return tempfile.mkdtemp(prefix="chainofcode-")


class _Nursery:
    def __init__(self, control: _socket.socket, wall: Wall, is_kept: bool) -> None:
        self._control, self._wall, self._is_kept = control, wall, is_kept
        self._children: dict[int, tuple[int, int]] = {}  # pidfd: process number, the host's number

    def serve(self) -> None:
        """Fork when asked, tell how each child ended; until the host is gone."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd in self._children:
                    poll.unregister(fd)
                    self._tell_death(fd)
                elif not self._answer(poll):
                    return

    def _answer(self, poll: select.poll) -> bool:
        request = self._control.recv(_MESSAGE_BYTES)
        if not request:
            return False
        wanted = json.loads(request)
        try:
            poll.register(self._bear(wanted["number"], wanted["scratch_bytes"]), select.POLLIN)
        except ConnectionError:
            raise
        except OSError as error:
            self._control.send(json.dumps({"failed": wanted["number"], "why": _reason(error)}).encode())
        return True

    def _bear(self, number: int, scratch_bytes: int) -> int:
        """One guest: its pipes and a handle on its life go to the host."""
        pipes: list[tuple[int, int]] = []
        try:
            pipes.extend(os.pipe() for _ in range(3))
            (guest_read, host_write), (host_read, guest_write), (noise_read, noise_write) = pipes
            child = self._wall.fork()
            if child == 0:
                self._be_guest(number, scratch_bytes, guest_read, guest_write, noise_write)
            pidfd = _handle(child)
            self._children[pidfd] = child, number
            message = json.dumps({"born": number}).encode()
            fds = array.array("i", [host_read, host_write, noise_read, pidfd])
            self._control.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
            return pidfd
        finally:
            for pipe in pipes:
                for fd in pipe:
                    os.close(fd)

    def _be_guest(self, number: int, scratch_bytes: int, guest_read: int, guest_write: int, noise: int) -> NoReturn:
        try:
            nothing = os.open("/dev/null", os.O_RDONLY)  # its own: what is done to one is done to every copy of it
            _keep_only(nothing, noise, noise, guest_read, guest_write)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._wall.close_in(scratch_bytes, number)
            if self._is_kept:
                rehearse()
            serve(3, 4)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(1)

    def _tell_death(self, pidfd: int) -> None:
        child, number = self._children.pop(pidfd)
        _, status, usage = os.wait4(child, 0)
        os.close(pidfd)
        message = {"died": number, "code": os.waitstatus_to_exitcode(status), "cpu": usage.ru_utime + usage.ru_stime}
        self._control.send(json.dumps(message).encode())

    def send_witness(self, secrets: list[str]) -> list[str]:
        """What a guest can do that it must not: nothing, if the walls hold."""
        canary = _canary() if self._wall.tier != "A" else ""
        heard, told = os.pipe()
        child = self._wall.fork()
        if child == 0:
            try:
                _keep_only(0, told, told, told, told)
                witness = Witness(self._wall, [*secrets, canary] if canary else secrets)
                self._wall.close_in(0, 0, witness.look)
                witness.look_at_calls()
                os.write(1, json.dumps(witness.could).encode())
            except BaseException as error:
                os.write(1, json.dumps([f"not be locked in: {_reason(error)}"]).encode())
            finally:
                os._exit(0)
        os.close(told)
        report = _read_all(heard)
        os.close(heard)
        os.waitpid(child, 0)
        if canary:
            os.unlink(canary)
        could: list[str] = json.loads(report or '["die without a word"]')
        return could


def _keep_only(*fds: int) -> None:
    """These become 0, 1, 2…, and nothing else stays open."""
    copies = [fcntl.fcntl(fd, fcntl.F_DUPFD, len(fds)) for fd in fds]
    for number, fd in enumerate(copies):
        os.dup2(fd, number, inheritable=True)
    kernel.close_from(len(fds))


def _canary() -> str:
    """A file of the host's that everybody may read and write, but for the walls; empty where none can be made."""
    path = f"/tmp/chainofcode-canary-{os.getpid()}"  # noqa: S108 (made anew, or not at all)
    try:
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY, 0o600)
    except OSError:
        return ""
    os.fchmod(fd, 0o666)
    os.close(fd)
    return path


def _handle(child: int) -> int:
    try:
        return os.pidfd_open(child)
    except OSError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise


def _hear_out(heard: int, control: _socket.socket) -> bytes:
    """What a child says until it closes its end. If the host goes away meanwhile, so do we all."""
    poll = select.poll()
    poll.register(heard, select.POLLIN)
    poll.register(control, 0)
    data = b""
    while True:
        for fd, _ in poll.poll():
            if fd != heard:
                os.killpg(0, signal.SIGKILL)
            chunk = os.read(heard, 1 << 16)
            data += chunk
            if not chunk:
                return data


def _read_all(fd: int) -> bytes:
    data = b""
    while chunk := os.read(fd, 1 << 16):
        data += chunk
    return data
