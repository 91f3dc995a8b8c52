"""The host's handle of a zygote and its guests: requests forks and receives their exits."""

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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..boot import boot_command
from ..errors import SandboxError
from ..languages import LOCKING
from .cgroups import GuestGroups
from .job import Job
from .packages import Grant, is_below
from .pipes import Pipes
from .process import ENVIRONMENT
from .session import Exit
from .tiers import NAMESPACED, TIERS

_LIBRARY = os.path.dirname(os.__file__)
_START_SECONDS = 120  # importing packages may take long
_SECRETS = (__file__, os.path.dirname(__file__), "/etc/passwd", "/etc", "/home", "/root", "/proc", "/proc/self/environ")
_MESSAGE_BYTES = 1 << 16
# Delay before the next spare is forked, because the guest that was just started needs the processor. Shorter if there
# are no spares left.
_SPARE_SECONDS, _FIRST_SPARE_SECONDS = 0.02, 0.003
_LIBRARIES = ("/lib64", "/usr/lib64", "/usr/share/zoneinfo")
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_ALSO_IMPORTED = {"matplotlib": ("matplotlib.pyplot",)}  # modules that programs usually import with a package


@dataclass(frozen=True)
class SandboxStatus:
    """The tier in use, its layers that this kernel lacks, and why better tiers were refused."""

    tier: str
    missing: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def has_scratch(self) -> bool:
        """Whether programs can have a scratch directory."""
        return self.tier in NAMESPACED

    def why_not(self, tier: str) -> str:
        if tier in self.refused:
            return f", which is not available here ({self.refused[tier]})"
        return f"; this is {self.tier}"


class ZygoteHandle:
    """Starts a zygote, requests forks of it, and receives their exits."""

    def __init__(self, python: str, tiers: tuple[str, ...], grant: Grant, *, spares: int, at_least: str = "") -> None:
        self._spares, self._at_least = spares, at_least
        self._lock = threading.RLock()
        self._requested = 0
        self._outbox: deque[bytes] = deque()
        self._spare: deque[int] = deque()  # requested guests without a program
        self._forked: dict[int, JailGuest | str] = {}  # the guest, or why the fork failed
        self._unwanted: set[int] = set()
        self._alive: set[int] = set()
        self._exits: dict[int, Exit] = {}
        self._started = time.monotonic()
        self._answer: dict[str, Any] | None = None
        self.users = 0
        self.is_gone = False
        self._control, zygote_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        plan, self._output_fd, directory = os.memfd_create("plan"), os.memfd_create("said"), _working_directory()
        os.pwrite(plan, json.dumps(_plan(tiers, grant, spares, directory)).encode(), 0)
        try:
            self._process = subprocess.Popen(
                boot_command(python, "sandbox.zygote", str(zygote_end.fileno()), str(plan)),
                stdin=subprocess.DEVNULL,
                stdout=self._output_fd,
                stderr=self._output_fd,
                pass_fds=[zygote_end.fileno(), plan, directory],
                env={**ENVIRONMENT, **_ONE_THREAD},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            self._control.close()
            os.close(self._output_fd)
            raise SandboxError(f"cannot start a guest with {python}: {error.strerror}") from None
        finally:
            zygote_end.close()
            os.close(plan)
            os.close(directory)
        self._control.setblocking(False)
        self.groups = GuestGroups.open()
        self._end = weakref.finalize(
            self, _end, os.getpid(), self._control, self._output_fd, self._process, self.groups
        )

    @property
    def status(self) -> SandboxStatus:
        answer = self._answer or {}
        return SandboxStatus(tier=answer["tier"], missing=answer["missing"], refused=answer["refused"])

    @property
    def refusals(self) -> dict[str, str]:
        refused: dict[str, str] = (self._answer or {}).get("refused", {})
        return refused

    async def ready(self) -> None:
        """Wait until the sandbox is built. Raises SandboxError with what each tier lacked."""
        while self._answer is None:
            self._read_messages()
            if self._answer is None:
                if self.is_gone or time.monotonic() - self._started > _START_SECONDS:
                    output = self._last_output_line()
                    self.close()
                    raise SandboxError(f"the sandbox did not start: {output}")
                await asyncio.sleep(0.0005)
        if "tier" not in self._answer:
            self.close()
            raise SandboxError(no_tier_message(self._answer["refused"], self._at_least))

    def _last_output_line(self) -> str:
        output = os.pread(self._output_fd, 1 << 16, 0).decode(errors="replace").strip().splitlines()
        return output[-1][:300] if output else "its first process died or took too long"

    async def start_guest(self, scratch_bytes: int) -> JailGuest:
        """Return a guest for a program, and request a spare for the next program soon after."""
        while True:
            with self._lock:
                is_spare = bool(self._spare) and not scratch_bytes
                number = self._spare.popleft() if is_spare else self._request(scratch_bytes)
            delay = _SPARE_SECONDS if self._spare else _FIRST_SPARE_SECONDS
            asyncio.get_running_loop().call_later(delay, self.request_spares)
            try:
                guest = await self._forked_guest(number)
            except BaseException:  # cancelled, perhaps
                self._discard(number)
                raise
            if not guest.is_dead():
                return guest
            guest.close_now()

    async def _forked_guest(self, number: int) -> JailGuest:
        pause = 0.0001
        while True:
            with self._lock:
                forked = self._forked.get(number)
                if isinstance(forked, JailGuest) and forked.is_grouped():
                    self._alive.add(number)
                    del self._forked[number]
                    return forked
            if isinstance(forked, str) or self.is_gone:
                why = forked if isinstance(forked, str) else "its zygote died"
                raise SandboxError(f"no guest can be started: {why}")
            self._read_messages()
            if self._forked.get(number) is forked:  # nothing new
                await asyncio.sleep(pause)
                pause = min(pause * 2, 0.01)

    def _discard(self, number: int) -> None:
        with self._lock:
            forked = self._forked.pop(number, None)
            if forked is None and not self.is_gone:
                self._unwanted.add(number)
        if isinstance(forked, JailGuest):
            forked.close_now()

    def request_spares(self) -> None:
        """Request forks for later programs."""
        with self._lock:
            while len(self._spare) < self._spares and not self.is_gone:
                self._spare.append(self._request(0))

    def _request(self, scratch_bytes: int) -> int:
        self._requested += 1
        self._outbox.append(json.dumps({"number": self._requested, "scratch_bytes": scratch_bytes}).encode())
        self._send()
        return self._requested

    def _send(self) -> None:
        """Send as much as the socket accepts now; `_read_messages` sends the rest."""
        try:
            while self._outbox and not self.is_gone:
                self._control.send(self._outbox[0])
                self._outbox.popleft()
        except BlockingIOError:
            return
        except OSError:
            self.is_gone = True

    def _read_messages(self) -> None:
        """Read the messages of the zygote."""
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
        if "forked" in message:
            self._note_fork(message["forked"], fds)
        elif "ended" in message:
            if message["ended"] in self._alive:
                self._exits[message["ended"]] = Exit(code=message["code"], cpu_seconds=message["cpu"])
        elif "failed" in message:
            if message["failed"] not in self._unwanted:
                self._forked[message["failed"]] = str(message["why"])
            self._unwanted.discard(message["failed"])
        else:
            self._answer = message

    def _note_fork(self, number: int, fds: list[int]) -> None:
        if len(fds) != 4:  # this process is at its limit of descriptors
            for fd in fds:
                os.close(fd)
            self._forked[number] = "too many open files in this process"
            return
        answer = self._answer or {}
        read_fd, write_fd, noise_fd, exit_fd = fds
        pipes = Pipes(read_fd=read_fd, write_fd=write_fd, noise_fd=noise_fd, exit_fd=exit_fd)
        guest = JailGuest(self, number, pipes, wall=answer["tier"], counts_processes=answer["counts"])
        if number in self._unwanted:
            self._unwanted.discard(number)
            guest.close_now()
        else:
            self._forked[number] = guest

    async def wait(self, number: int) -> Exit:
        pause = 0.0002
        while True:
            self._read_messages()
            if number in self._exits:
                is_out = self.groups is not None and self.groups.was_out_of_memory(number)
                return replace(self._exits[number], is_out_of_memory=is_out)
            if self.is_gone:
                return Exit(-signal.SIGKILL, 0.0)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.02)

    def forget(self, number: int) -> None:
        self._alive.discard(number)
        self._exits.pop(number, None)

    def close(self) -> None:
        self.is_gone = True
        with self._lock:
            unused = list(self._forked.values())
            self._forked.clear()
        for guest in unused:
            if isinstance(guest, JailGuest):
                guest.close_now()
        self._end()


class JailGuest:
    """A fork of a zygote, by its pipes and its pidfd."""

    def __init__(self, zygote: ZygoteHandle, number: int, pipes: Pipes, *, wall: str, counts_processes: bool) -> None:
        self._zygote, self._number, self.wire = zygote, number, pipes
        self.wall, self.counts_processes = wall, counts_processes
        groups = zygote.groups
        self._grouped = groups.add(number, self.pid) if groups is not None and self.pid else None

    def is_grouped(self) -> bool:
        """Whether the guest is in its control group; always true without groups."""
        return self._grouped is None or self._grouped.done()

    @functools.cached_property
    def pid(self) -> int:
        return _pid_of(self.wire.exit_fd)

    def is_dead(self) -> bool:
        poll = select.poll()
        poll.register(self.wire.exit_fd, select.POLLIN)
        return bool(poll.poll(0))

    def interrupt(self) -> None:
        self._signal(signal.SIGUSR1)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.wire.exit_fd, number)

    def limit(self, job: Job) -> None:
        """Set the limits of a job on the guest's control group, if there are groups."""
        if self._zygote.groups is not None:
            self._zygote.groups.limit(self._number, job.limits, job.scratch_bytes)

    async def wait(self) -> Exit:
        return await self._zygote.wait(self._number)

    async def close(self) -> None:
        self.close_now()
        self._zygote.request_spares()

    def close_now(self) -> None:
        """Kill the guest without waiting for its end: the zygote reaps it."""
        self.kill()
        self._zygote.forget(self._number)
        self.wire.close()
        if self._zygote.groups is not None:
            self._zygote.groups.remove(self._number)


def _pid_of(pidfd: int) -> int:
    """The process id in the namespace of this process; 0 if unknown."""
    try:
        lines = Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines()
    except OSError:
        return 0
    return max(0, next((int(line.split()[1]) for line in lines if line.startswith("Pid:")), 0))


def _end(
    owner: int, control: socket.socket, output: int, process: subprocess.Popen[bytes], groups: GuestGroups | None
) -> None:
    """Close the socket, which ends the zygote and all its guests, and wait for that."""
    control.close()
    os.close(output)
    if os.getpid() != owner:  # this is a fork of the host; zygote and guests belong to its parent
        return
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:  # the zygote is busy importing
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if groups is not None:
        groups.close()


def _working_directory() -> int:
    """Open the working directory. A descriptor, because guests in tiers A and A- must not learn its name."""
    how = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    try:
        return os.open(".", how)
    except OSError:  # the directory was removed, or this process may not enter it
        return os.open("/", how)


def _plan(tiers: tuple[str, ...], grant: Grant, spares: int, directory: int) -> dict[str, Any]:
    runtime, shown = runtime_paths(), [*runtime_paths(), *grant.shown]
    modules = [module for package in grant.packages for module in (package, *_ALSO_IMPORTED.get(package, ()))]
    secrets = [path for path in _SECRETS if not any(is_below(path, p) or is_below(p, path) for p in shown)]
    return {
        "tiers": tiers,
        "language": grant.language,
        "locks": grant.language in LOCKING,
        "runtime": runtime,
        "hidden": _site_directories(),
        "granted": grant.shown,
        "foreign": grant.foreign,
        "links": dict(grant.links),
        "directory": directory,
        "modules": modules,
        "importable": grant.modules,
        "is_kept": spares > 0,
        "search": grant.search,
        "secrets": secrets,
    }


@functools.cache
def runtime_paths() -> tuple[str, ...]:
    """The files of Python: its library, and the system libraries that extension modules need."""
    kind = sysconfig.get_config_var("MULTIARCH") or ""
    libraries = ["/lib", "/usr/lib"]
    if kind and os.path.isdir(f"/usr/lib/{kind}"):
        libraries = [f"/lib/{kind}", f"/usr/lib/{kind}"]
    own = [_LIBRARY, sysconfig.get_config_var("DESTSHARED") or _LIBRARY]
    if sys.base_prefix != "/usr":
        own.append(os.path.join(sys.base_prefix, "lib"))
    paths = [*sorted(own, key=len), *libraries, *_LIBRARIES]
    return tuple(dict.fromkeys(filter(os.path.exists, paths)))


def _site_directories() -> list[str]:
    """Directories of installed packages: hidden, except for granted packages."""
    inside = [os.path.join(_LIBRARY, name) for name in ("site-packages", "dist-packages")]
    return [*inside, os.path.join(sys.base_prefix, "lib", "python3", "dist-packages")]


def no_tier_message(refused: dict[str, str], at_least: str = "") -> str:
    """Return the message when no tier can be built: what each tier lacks, and what to do."""
    lines = ["no sandbox can be built on this machine, and programs are not run without one."]
    if len(refused) < len(TIERS):
        lines = [f"tier {' or '.join(refused)} of the sandbox cannot be built on this machine."]
    lines += [f"  tier {tier}: {why}" for tier, why in refused.items()]
    lines.append("`coc doctor` shows how to enable what is missing;")
    if at_least:
        lines.append(f"to run in a lower tier, change --sandbox-at-least {at_least}.")
    else:
        lines.append("--sandbox=docker or podman uses a container engine;")
        lines.append("--sandbox none runs programs with your own rights, files and network.")
    return "\n".join(lines)
