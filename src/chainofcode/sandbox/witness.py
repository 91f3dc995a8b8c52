"""Tries everything that a program must not do, confined like a program. A tier is used only if all of it fails.

Each layer is checked before the next one is built: rights and mounts first, then Landlock, then seccomp.
Standard library only: this runs in a child of the zygote.
"""

from __future__ import annotations

import _socket
import errno
import os
import resource
import select
from collections.abc import Callable
from functools import partial

from . import kernel
from .jail import CANARY, HOST_NAME, KEPT, Wall, limits
from .tiers import WORK

# System calls that must be refused: number on x86_64, on aarch64.
_CALLS = {
    "ptrace": (101, 117), "bpf": (321, 280), "keyctl": (250, 219), "add_key": (248, 217), "io_uring_setup": (425, 425),
    "userfaultfd": (323, 282), "perf_event_open": (298, 241), "memfd_create": (319, 279), "setuid": (105, 146),
    "process_vm_readv": (310, 270), "unshare": (272, 97), "mount": (165, 40), "setns": (308, 268), "chroot": (161, 51),
    "personality": (135, 92), "init_module": (175, 105), "kexec_load": (246, 104), "open_by_handle_at": (304, 265),
    "pidfd_send_signal": (424, 424), "seccomp": (317, 277), "socket": (41, 198), "connect": (42, 203),
    "execve": (59, 221), "sendmsg": (46, 211), "shmget": (29, 194), "sched_setaffinity": (203, 122),
    "prctl": (157, 167), "futex": (202, 98), "madvise": (28, 233), "clock_gettime": (228, 113), "statfs": (137, 43),
    "fstatfs": (138, 44),
}  # fmt: skip
_X32_GETPID = 0x40000000 | 39
_F_SETOWN = 8
_MEMORY_BYTES = 512 << 20


class Witness:
    """Tries what must fail, and collects in `could` what succeeded. `secrets` are paths that are not granted."""

    def __init__(self, wall: Wall, secrets: list[str]) -> None:
        self._wall, self._secrets = wall, secrets
        self.could: list[str] = []

    def look(self, stage: str) -> None:
        """Check the layers so far. Called after the stages `rights` and `files`."""
        if stage == "rights":
            self._look_at_rights()
            if self._wall.has_namespaces:
                self._look_at_namespaces()
        elif self._wall.has_landlock:
            secrets = [CANARY] if self._wall.has_namespaces else self._secrets
            for path in secrets:
                self._try(f"read {path}", partial(os.open, path, os.O_RDONLY))

    def _look_at_rights(self) -> None:
        if kernel.capabilities() & ~self._wall.capabilities:
            self.could.append("use capabilities")
        if os.getuid() == 0 or os.geteuid() == 0:
            self.could.append("be root")
        if not kernel.is_locked_in():
            self.could.append("gain privileges")
        for which, most in limits(0):
            if resource.getrlimit(which)[1] > most:
                self.could.append(f"exceed limit {which}")

    def _look_at_namespaces(self) -> None:
        if os.getpid() != 1:
            self.could.append("see other processes")
        if os.uname().nodename != HOST_NAME:
            self.could.append("see the host's name")
        self._try("reach a network", _reach_network)
        self._try("see the host's processes", partial(os.stat, "/proc/self"))
        for path in self._secrets:
            self._try(f"see {path}", partial(os.stat, path))
        for path in ("/", KEPT, WORK, *self._wall.shown):
            if not os.statvfs(path).f_flag & os.ST_RDONLY:
                self.could.append(f"write in {path}")

    def look_at_calls(self) -> None:
        """Check system calls, after the last layer."""
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        column = ("x86_64", "aarch64").index(kernel.MACHINE)
        for name, numbers in _CALLS.items():
            self._call(name, numbers[column])
        if column == 0:
            self._call("make x32 calls", _X32_GETPID)
        tier_c = self._wall.tier == "C"
        for path in [*self._secrets, *(["/dev/null", "/"] if tier_c else [])]:
            self._try(f"read {path}", partial(os.open, path, os.O_RDONLY))
        self._try("open without a mode", partial(os.open, "/dev/null", os.O_RDWR | os.O_WRONLY))
        for path in self._secrets:
            self._try(f"write {path}", partial(os.open, path, os.O_WRONLY))
        if self._wall.has_namespaces:  # in other tiers, a file that it creates could not be removed
            for place in ("/", WORK, KEPT):
                self._try(f"write in {place}", partial(os.open, f"{place}/.made", os.O_CREAT | os.O_WRONLY))
        self._try("start a process", lambda: os.fork() or os._exit(0))
        self._try("signal its parent", lambda: os.kill(os.getppid() or 2, 0))
        self._try("signal everyone", partial(os.kill, -1, 0))
        self._try("have signals sent", partial(_fcntl, 1, _F_SETOWN, os.getpid()))
        self._look_at_descriptors()
        self._try("take more memory than it has", partial(bytearray, 2 * _MEMORY_BYTES))
        self._try("raise a limit", _raise_file_size)

    def _look_at_descriptors(self) -> None:
        fds = range(5, resource.getrlimit(resource.RLIMIT_NOFILE)[0])  # as many as one call of poll accepts
        poll = select.poll()
        for fd in fds:
            poll.register(fd)
        closed = {fd for fd, event in poll.poll(0) if event & select.POLLNVAL}
        self.could += [f"use descriptor {fd} of its host" for fd in fds if fd not in closed]

    def _try(self, name: str, attempt: Callable[[], object]) -> None:
        try:
            attempt()
        except (OSError, MemoryError):
            return
        self.could.append(name)

    def _call(self, name: str, number: int) -> None:
        """Check that the filter denies a call. The kernel itself would report another error for these arguments."""
        if kernel.raw_errno(number) not in (errno.EPERM, errno.ENOSYS):
            self.could.append(name)


def _reach_network() -> None:
    """Connect a socket, which sends nothing, but needs a route. The host may be refused sockets of this kind, too."""
    _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM).connect(("192.0.2.1", 9))


def _fcntl(fd: int, command: int, argument: int) -> None:
    import fcntl

    fcntl.fcntl(fd, command, argument)


def _raise_file_size() -> None:
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1] + 1
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    except ValueError as error:  # how Python reports the kernel's refusal
        raise PermissionError(str(error)) from None
