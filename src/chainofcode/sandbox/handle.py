"""The host's handle on a zygote and on the guests that come of it: births are asked for, deaths are heard of."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
import weakref
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..boot import boot_command
from ..errors import SandboxError
from .packages import Grant, is_below
from .process import ENVIRONMENT
from .session import Exit

_LIBRARY = os.path.dirname(os.__file__)
_START_SECONDS = 120  # packages may take their time to import
_SECRETS = (__file__, os.path.dirname(__file__), "/etc/passwd", "/etc", "/home", "/root", "/proc", "/proc/self/environ")
_MESSAGE_BYTES = 1 << 16
# How long after a start the next guests are forked: it and its shadow need the processor first. Less without spares.
_REST_SECONDS, _SHORT_REST_SECONDS = 0.02, 0.003
_LIBRARIES = ("/lib64", "/usr/lib64", "/usr/share/zoneinfo")
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_BEFOREHAND = {"matplotlib": ("matplotlib.pyplot",)}  # what a program will want of a package besides the package


@dataclass(frozen=True)
class Holds:
    """What holds around a guest: the tier, layers of it that this kernel lacks, and why better tiers were refused."""

    tier: str
    missing: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def why_not(self, tier: str) -> str:
        return (
            f", which cannot be had here ({self.refused[tier]})" if tier in self.refused else f"; this is {self.tier}"
        )


class Zygote:
    """The zygote's handle: births are asked for and awaited, deaths are heard of."""

    def __init__(self, python: str, tiers: tuple[str, ...], grant: Grant, spares: int) -> None:
        self._spares = spares
        self._lock = threading.RLock()
        self._asked = 0
        self._outbox: deque[bytes] = deque()
        self._ahead: deque[int] = deque()  # guests asked for that have no program yet
        self._born: dict[int, JailGuest | str] = {}  # or why it could not be
        self._unwanted: set[int] = set()
        self._alive: set[int] = set()
        self._died: dict[int, Exit] = {}
        self._started = time.monotonic()
        self._answer: dict[str, Any] | None = None
        self.users = 0
        self.is_gone = False
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        plan, self._said = os.memfd_create("plan"), os.memfd_create("said")
        os.pwrite(plan, json.dumps(_plan(tiers, grant, spares)).encode(), 0)
        try:
            self._process = subprocess.Popen(
                boot_command(python, "sandbox.zygote", str(theirs.fileno()), str(plan)),
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                pass_fds=[theirs.fileno(), plan],
                env={**ENVIRONMENT, **_ONE_THREAD},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            self._control.close()
            os.close(self._said)
            raise SandboxError(f"cannot start a guest with {python}: {error.strerror}") from None
        finally:
            theirs.close()
            os.close(plan)
        self._control.setblocking(False)
        self._end = weakref.finalize(self, _end, os.getpid(), self._control, self._said, self._process)

    @property
    def holds(self) -> Holds:
        answer = self._answer or {}
        return Holds(answer["tier"], answer["missing"], answer["refused"])

    @property
    def refusals(self) -> dict[str, str]:
        refused: dict[str, str] = (self._answer or {}).get("refused", {})
        return refused

    async def ready(self) -> None:
        """Wait until the walls stand. Raises SandboxError with what each tier lacked."""
        while self._answer is None:
            self._hear()
            if self._answer is None:
                if self.is_gone or time.monotonic() - self._started > _START_SECONDS:
                    said = self._last_words()
                    self.close()
                    raise SandboxError(f"the sandbox did not start: {said}")
                await asyncio.sleep(0.0005)
        if "tier" not in self._answer:
            self.close()
            raise SandboxError(no_wall(self._answer["refused"]))

    def _last_words(self) -> str:
        said = os.pread(self._said, 1 << 16, 0).decode(errors="replace").strip().splitlines()
        return said[-1][:300] if said else "its first process died or took too long"

    async def take(self, scratch_bytes: int) -> JailGuest:
        """A guest for a program; another is asked for, to be there for the next one."""
        while True:
            with self._lock:
                number = self._ahead.popleft() if self._ahead and not scratch_bytes else self._ask(scratch_bytes)
            rest = _REST_SECONDS if self._ahead else _SHORT_REST_SECONDS
            asyncio.get_running_loop().call_later(rest, self.ask_ahead)
            try:
                guest = await self._birth(number)
            except BaseException:  # cancelled, perhaps: whoever comes is not wanted any more
                self._refuse(number)
                raise
            if not guest.is_dead():
                return guest
            guest.close_now()

    async def _birth(self, number: int) -> JailGuest:
        pause = 0.0001
        while True:
            with self._lock:
                born = self._born.pop(number, None)
                if isinstance(born, JailGuest):
                    self._alive.add(number)
                    return born
            if born is not None or self.is_gone:
                raise SandboxError(f"no guest can be started: {born or 'its zygote died'}")
            self._hear()
            if number not in self._born:
                await asyncio.sleep(pause)
                pause = min(pause * 2, 0.01)

    def _refuse(self, number: int) -> None:
        with self._lock:
            born = self._born.pop(number, None)
            if born is None and not self.is_gone:
                self._unwanted.add(number)
        if isinstance(born, JailGuest):
            born.close_now()

    def ask_ahead(self) -> None:
        """Fork guests for later programs."""
        with self._lock:
            while len(self._ahead) < self._spares and not self.is_gone:
                self._ahead.append(self._ask(0))

    def _ask(self, scratch_bytes: int) -> int:
        self._asked += 1
        self._outbox.append(json.dumps({"number": self._asked, "scratch_bytes": scratch_bytes}).encode())
        self._send()
        return self._asked

    def _send(self) -> None:
        """Send what the socket takes now; whoever listens next sends the rest."""
        try:
            while self._outbox and not self.is_gone:
                self._control.send(self._outbox[0])
                self._outbox.popleft()
        except BlockingIOError:
            return
        except OSError:
            self.is_gone = True

    def _hear(self) -> None:
        """Take in what the zygote has said."""
        with self._lock:
            self._send()
            while not self.is_gone:
                try:
                    data, fds, _, _ = socket.recv_fds(self._control, _MESSAGE_BYTES, 4)
                except BlockingIOError:
                    return
                except OSError:
                    data, fds = b"", []
                if not data:
                    self.is_gone = True
                    return
                self._note(json.loads(data), fds)

    def _note(self, message: dict[str, Any], fds: list[int]) -> None:
        if "born" in message:
            self._note_birth(message["born"], fds)
        elif "died" in message:
            if message["died"] in self._alive:
                self._died[message["died"]] = Exit(message["code"], message["cpu"])
        elif "failed" in message:
            if message["failed"] not in self._unwanted:
                self._born[message["failed"]] = str(message["why"])
            self._unwanted.discard(message["failed"])
        else:
            self._answer = message

    def _note_birth(self, number: int, fds: list[int]) -> None:
        if len(fds) != 4:  # this process has no room for them
            for fd in fds:
                os.close(fd)
            self._born[number] = "too many open files in this process"
            return
        holds = self._answer or {}
        guest = JailGuest(self, number, holds["tier"], holds["counts"], *fds)
        if number in self._unwanted:
            self._unwanted.discard(number)
            guest.close_now()
        else:
            self._born[number] = guest

    async def wait(self, number: int) -> Exit:
        pause = 0.0002
        while True:
            self._hear()
            if number in self._died:
                return self._died[number]
            if self.is_gone:
                return Exit(-signal.SIGKILL, 0.0)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.02)

    def forget(self, number: int) -> None:
        self._alive.discard(number)
        self._died.pop(number, None)

    def close(self) -> None:
        self.is_gone = True
        with self._lock:
            unused = list(self._born.values())
            self._born.clear()
        for guest in unused:
            if isinstance(guest, JailGuest):
                guest.close_now()
        self._end()


class JailGuest:
    """One guest of a zygote's, by its pipes and its pidfd."""

    def __init__(
        self, zygote: Zygote, number: int, wall: str, counts_processes: bool,
        read_fd: int, write_fd: int, noise_fd: int, exit_fd: int,
    ) -> None:  # fmt: skip
        self._zygote, self._number, self.wall, self.counts_processes = zygote, number, wall, counts_processes
        self.read_fd, self.write_fd, self.noise_fd, self.exit_fd = read_fd, write_fd, noise_fd, exit_fd

    @functools.cached_property
    def pid(self) -> int:
        return _pid_of(self.exit_fd)

    def is_dead(self) -> bool:
        poll = select.poll()
        poll.register(self.exit_fd, select.POLLIN)
        return bool(poll.poll(0))

    def interrupt(self) -> None:
        self._signal(signal.SIGUSR1)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.exit_fd, number)

    async def wait(self) -> Exit:
        return await self._zygote.wait(self._number)

    async def close(self) -> None:
        self.close_now()
        self._zygote.ask_ahead()

    def close_now(self) -> None:
        """Nobody need wait for its death: it is not our child, and the zygote buries it."""
        self.kill()
        self._zygote.forget(self._number)
        for fd in (self.read_fd, self.write_fd, self.noise_fd, self.exit_fd):
            os.close(fd)


def _pid_of(pidfd: int) -> int:
    """The process number, as this process sees it; 0 where that cannot be known."""
    try:
        lines = Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines()
    except OSError:
        return 0
    return max(0, next((int(line.split()[1]) for line in lines if line.startswith("Pid:")), 0))


def _end(owner: int, control: socket.socket, said: int, process: subprocess.Popen[bytes]) -> None:
    """Close the socket, which ends the zygote and all its guests, and wait for that."""
    control.close()
    os.close(said)
    if os.getpid() != owner:  # a fork of the host: they are not its own
        return
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:  # it is busy importing: its whole group goes
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _plan(tiers: tuple[str, ...], grant: Grant, spares: int) -> dict[str, Any]:
    runtime, shown = runtime_paths(), [*runtime_paths(), *grant.shown]
    modules = [module for package in grant.packages for module in (package, *_BEFOREHAND.get(package, ()))]
    secrets = [path for path in _SECRETS if not any(is_below(path, p) or is_below(p, path) for p in shown)]
    try:
        cwd = os.getcwd()
    except OSError:  # it was removed
        cwd = "/"
    return {
        "tiers": tiers,
        "runtime": runtime,
        "hidden": _site_directories(),
        "granted": grant.shown,
        "links": dict(grant.links),
        "cwd": cwd,
        "modules": modules,
        "importable": grant.modules,
        "is_kept": spares > 0,
        "search": grant.search,
        "secrets": secrets,
    }


@functools.cache
def runtime_paths() -> tuple[str, ...]:
    """What Python itself is made of: its library, and the system's where extension modules need them."""
    kind = sysconfig.get_config_var("MULTIARCH") or ""
    libraries = (
        [f"/lib/{kind}", f"/usr/lib/{kind}"] if kind and os.path.isdir(f"/usr/lib/{kind}") else ["/lib", "/usr/lib"]
    )
    own = [_LIBRARY, sysconfig.get_config_var("DESTSHARED") or _LIBRARY]
    if sys.base_prefix != "/usr":
        own.append(os.path.join(sys.base_prefix, "lib"))
    return tuple(
        dict.fromkeys(path for path in [*sorted(own, key=len), *libraries, *_LIBRARIES] if os.path.exists(path))
    )


def _site_directories() -> list[str]:
    """Where installed packages lie: hidden, but for those that are granted."""
    inside = [os.path.join(_LIBRARY, name) for name in ("site-packages", "dist-packages")]
    return [*inside, os.path.join(sys.base_prefix, "lib", "python3", "dist-packages")]


def no_wall(refused: dict[str, str]) -> str:
    """The error where no tier holds: what each lacked, and what to do about it."""
    lines = ["no sandbox can be built on this machine, and programs are not run without one."]
    if len(refused) < 3:
        lines = [f"tier {' or '.join(refused)} of the sandbox cannot be built on this machine."]
    lines += [f"  tier {tier}: {why}" for tier, why in refused.items()]
    lines.append("`coc doctor` says how to get what is missing; --sandbox=docker or podman uses a container engine;")
    lines.append("--sandbox=none runs programs with your own rights, files and network.")
    return "\n".join(lines)
