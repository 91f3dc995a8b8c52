"""The system calls that a guest may make: an allowlist.

All others fail with EPERM, so that a program gets a PermissionError instead of being killed. `clone` makes threads
only. `clone3` and `openat2` fail with ENOSYS, because a filter cannot read their arguments, which are in memory; the C
library then uses the older calls. No call sends anything to another process.

Standard library only: this runs in the zygote.
"""

from __future__ import annotations

import errno
import struct
import termios
from collections.abc import Iterator

from .kernel import MACHINE

# name: number on x86_64, number on aarch64 (-1: no such call)
_ALWAYS = {
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67),
    "close": (3, 57), "lseek": (8, 62), "fstat": (5, 80), "fadvise64": (221, 223),
    "dup": (32, 23), "dup2": (33, -1), "dup3": (292, 24), "pipe": (22, -1), "pipe2": (293, 59),
    "poll": (7, -1), "ppoll": (271, 73), "select": (23, -1), "pselect6": (270, 72), "eventfd2": (290, 19),
    "epoll_create": (213, -1), "epoll_create1": (291, 20), "epoll_ctl": (233, 21), "epoll_wait": (232, -1),
    "epoll_pwait": (281, 22), "epoll_pwait2": (441, 441),
    "getsockname": (51, 204), "getsockopt": (55, 209), "shutdown": (48, 210),
    "mmap": (9, 222), "munmap": (11, 215), "mprotect": (10, 226), "mremap": (25, 216), "brk": (12, 214),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "rt_sigpending": (127, 136),
    "rt_sigtimedwait": (128, 137), "sigaltstack": (131, 132), "pause": (34, -1), "alarm": (37, -1),
    "setitimer": (38, 103), "getitimer": (36, 102), "restart_syscall": (219, 128),
    "set_robust_list": (273, 99), "rseq": (334, 293), "set_tid_address": (218, 96),
    "sched_yield": (24, 124), "exit": (60, 93), "exit_group": (231, 94), "getcpu": (309, 168),
    "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178), "getpgrp": (111, -1), "umask": (95, 166),
    "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177),
    "getresuid": (118, 148), "getresgid": (120, 150), "getgroups": (115, 158),
    "nanosleep": (35, 101), "gettimeofday": (96, 169), "time": (201, -1), "times": (100, 153), "getrusage": (98, 165),
    "sysinfo": (99, 179), "uname": (63, 160), "getrandom": (318, 278), "getcwd": (79, 17),
}  # fmt: skip
_PATHS = {
    "newfstatat": (262, 79), "stat": (4, -1), "lstat": (6, -1), "statx": (332, 291),
    "access": (21, -1), "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, -1),
    "readlinkat": (267, 78), "getdents64": (217, 61), "chdir": (80, 49), "fchdir": (81, 50),
}  # fmt: skip
_CHANGES = {
    "pwrite64": (18, 68), "ftruncate": (77, 46), "truncate": (76, 45),
    "unlink": (87, -1), "unlinkat": (263, 35), "rename": (82, -1), "renameat": (264, 38),
    "renameat2": (316, 276), "mkdir": (83, -1), "mkdirat": (258, 34), "rmdir": (84, -1), "symlink": (88, -1),
    "symlinkat": (266, 36), "chmod": (90, -1), "fchmod": (91, 52), "fchmodat": (268, 53), "utimensat": (280, 88),
    "fallocate": (285, 47), "copy_file_range": (326, 285), "sendfile": (40, 71),
}  # fmt: skip
_ABSENT = {"clone3": (435, 435), "openat2": (437, 437)}
_FLOCK = (73, 32)
_SYNCS = ((74, 82), (75, 83))  # fsync, fdatasync: a scratch directory is in memory, granted files are the host's
_OPEN = {"open": (2, -1), "openat": (257, 56)}
_CLONE, _KILL, _TGKILL, _FCNTL, _IOCTL = (56, 220), (62, 129), (234, 131), (72, 25), (16, 29)
_PRLIMIT64, _SCHED_GETAFFINITY, _SOCKETPAIR = (302, 261), (204, 123), (53, 199)
_SENDTO, _RECVFROM, _FUTEX, _MADVISE = (44, 206), (45, 207), (202, 98), (28, 233)
_CLOCK_CALLS = ((228, 113), (229, 114), (230, 115))  # clock_gettime, clock_getres, clock_nanosleep

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
# A thread must share memory, files and handlers with its process: with its own table of files it would have its own
# limit of descriptors, and unlimited buffers in the kernel.
_CLONE_THREAD, _CLONE_NAMESPACES = 0x00050F00, 0x7E020080
_O_ACCMODE, _O_TRUNC, _O_PATH, _O_TMPFILE = 0o3, 0o1000, 0o10000000, 0o20000000
_AF_UNIX, _SOCK_STREAM, _SOCK_FLAGS = 1, 1, 0o2000000 | 0o4000
# Reading and copying descriptors. Not F_SETOWN or F_SETSIG, which send signals to other processes.
# A lock on a granted file would block other processes, and a filter cannot tell files apart. A record lock conflicts
# only with other processes, and none shares the files of a program: setting one succeeds and does nothing. Locks that
# two descriptors of one process can contend for (`flock`, open-file-description locks) are refused.
_FCNTLS, _LOCKS = (0, 1, 2, 3, 4, 1030, 1032), (6, 7)
_F_GETLK = 5
# MSG_PEEK, MSG_DONTWAIT, MSG_NOSIGNAL. Not MSG_OOB: urgent data on Unix sockets had a use after free (CVE-2025-38236).
_MESSAGE_FLAGS = 0x2 | 0x40 | 0x4000
# As in Chrome's sandbox. WAIT, WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, and the first two with a bit set, in a process or
# with a real-time timeout. Not the operations with priority inheritance, a frequent source of kernel exploits.
_FUTEXES, _FUTEX_FLAGS = (0, 1, 3, 4, 5, 9, 10), 0x80 | 0x100
# The clocks of the machine, of this process and of this thread. Other numbers name clocks of other processes and of
# devices.
_CLOCKS = (*range(8), 11)
# Not MERGEABLE, which shares pages with other processes (and timing reveals that), nor PAGEOUT and COLD, which
# push pages out of memory; nor those that inject errors or change files. 102 and 103: the C library's guard pages.
_ADVICE = (0, 1, 2, 3, 4, 8, 10, 11, 14, 15, 16, 17, 18, 19, 102, 103)
_IOCTLS = (termios.TCGETS, termios.FIONBIO, termios.FIOCLEX, termios.FIONCLEX, termios.FIONREAD)

_LOAD, _JUMP_EQUAL, _AND, _RETURN = 0x20, 0x15, 0x54, 0x06
_ALLOW, _KILL_PROCESS = 0x7FFF0000, 0x80000000
_SUCCEED, _DENY, _NO_SUCH_CALL = 0x00050000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16


def is_supported() -> bool:
    return MACHINE in _ARCHITECTURES


def assemble(pid: int, *, paths: bool, changes: bool, locks: bool = False) -> bytes:
    """The filter for a guest with this process id. `paths` and `changes` allow calls that take paths or change files.

    With `changes` or `locks`, setting a record lock succeeds and does nothing. With `changes`, so does `fsync`.
    """
    column, architecture = _ARCHITECTURES[MACHINE]
    plain = {**_ALWAYS, **(_PATHS if paths else {}), **(_CHANGES if changes else {})}
    code = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_JUMP_EQUAL, architecture, 1, 0),
        _step(_RETURN, _KILL_PROCESS),
        _step(_LOAD, _NUMBER),  # x32 calls have other numbers, above 0x40000000; they are denied below
    ]
    settled = dict.fromkeys(_ABSENT.values(), _NO_SUCH_CALL)
    if changes:
        settled |= {_FLOCK: _NO_SUCH_CALL, **dict.fromkeys(_SYNCS, _SUCCEED)}
    for numbers, result in settled.items():
        code += [_step(_JUMP_EQUAL, numbers[column], 0, 1), _step(_RETURN, result)]
    for numbers, checks in _guarded(pid, paths, changes, locks or changes):
        if numbers[column] >= 0:
            code += [_step(_JUMP_EQUAL, numbers[column], 0, len(checks)), *checks]
    wanted = sorted(number for number in (numbers[column] for numbers in plain.values()) if number >= 0)
    for place, number in enumerate(wanted):
        code.append(_step(_JUMP_EQUAL, number, len(wanted) - place, 0))
    code += [_step(_RETURN, _DENY), _step(_RETURN, _ALLOW)]
    return b"".join(code)


def _guarded(pid: int, paths: bool, changes: bool, locks: bool) -> Iterator[tuple[tuple[int, int], list[bytes]]]:
    """Calls that are allowed only with some arguments."""
    yield _CLONE, _one_of(0, (_CLONE_THREAD,), mask=_CLONE_THREAD | _CLONE_NAMESPACES)
    yield _KILL, _one_of(0, (pid,))
    yield _TGKILL, _one_of(0, (pid,))
    locking = [step for command in _LOCKS for step in _if(1, command, _SUCCEED)] if locks else []
    yield _FCNTL, [*locking, *_one_of(1, (*_FCNTLS, _F_GETLK) if changes else _FCNTLS)]
    yield _IOCTL, _one_of(1, _IOCTLS)
    yield _PRLIMIT64, _one_of(0, (0,))
    yield _SCHED_GETAFFINITY, _one_of(0, (0, pid))
    # A connected pair, for event loops. Datagram sockets could send to any address; so could `sendto` with an address.
    stream = _one_of(1, (_SOCK_STREAM,), mask=0xFFFFFFFF & ~_SOCK_FLAGS)
    yield _SOCKETPAIR, _all_of(_is(0, _AF_UNIX), stream)
    safe_flags = _one_of(3, (0,), mask=0xFFFFFFFF & ~_MESSAGE_FLAGS)
    yield _SENDTO, _all_of(_is(4, 0), _is(4, 0, high=True), safe_flags)
    yield _RECVFROM, safe_flags
    yield _FUTEX, _one_of(1, _FUTEXES, mask=0xFFFFFFFF & ~_FUTEX_FLAGS)
    yield _MADVISE, _one_of(2, _ADVICE)
    for numbers in _CLOCK_CALLS:
        yield numbers, _one_of(0, _CLOCKS)
    if paths:
        for numbers, flags in ((_OPEN["open"], 1), (_OPEN["openat"], 2)):
            # Neither reading nor writing: Landlock requires no right, but files are truncated and devices opened.
            neither = _is_not(flags, _O_ACCMODE, mask=_O_ACCMODE)
            # Reading and truncating: old versions of Landlock do not treat this as a change of the file.
            emptying = _is_not(flags, _O_TRUNC, mask=_O_ACCMODE | _O_TRUNC)
            yield numbers, _all_of(neither, emptying, _one_of(flags, (0,), mask=_O_PATH | _O_TMPFILE))


def _one_of(argument: int, values: tuple[int, ...], *, mask: int = 0) -> list[bytes]:
    """Allow the call if the low half of an argument is one of these values, otherwise deny it."""
    code = [_step(_LOAD, _ARGUMENTS + 8 * argument)]
    if mask:
        code.append(_step(_AND, mask))
    for place, value in enumerate(values):
        code.append(_step(_JUMP_EQUAL, value & 0xFFFFFFFF, len(values) - place, 0))
    return [*code, _step(_RETURN, _DENY), _step(_RETURN, _ALLOW)]


def _if(argument: int, value: int, then: int) -> list[bytes]:
    return [_step(_LOAD, _ARGUMENTS + 8 * argument), _step(_JUMP_EQUAL, value, 0, 1), _step(_RETURN, then)]


def _is(argument: int, value: int, *, high: bool = False) -> list[bytes]:
    return [_step(_LOAD, _ARGUMENTS + 8 * argument + 4 * high), _step(_JUMP_EQUAL, value, 1, 0), _step(_RETURN, _DENY)]


def _is_not(argument: int, value: int, *, mask: int) -> list[bytes]:
    check = [_step(_AND, mask), _step(_JUMP_EQUAL, value, 0, 1), _step(_RETURN, _DENY)]
    return [_step(_LOAD, _ARGUMENTS + 8 * argument), *check]


def _all_of(*checks: list[bytes]) -> list[bytes]:
    return [step for check in checks for step in check]


def _step(code: int, k: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, k)
