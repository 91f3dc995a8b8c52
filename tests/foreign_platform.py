"""Makes this interpreter look like one on macOS or Windows: modules, functions and files of Linux are missing.

`tests/sites/NAME` on PYTHONPATH does this in every interpreter that starts. The standard library is imported before and
still works; only modules imported later lack what Linux has.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import types
from collections.abc import Collection
from pathlib import Path
from typing import Any, NoReturn

SITES = Path(__file__).parent / "sites"
# Modules that import modules of the platform, and so must be imported before those are removed.
STANDARD = [
    "argparse",
    "ast",
    "asyncio",
    "base64",
    "bz2",
    "concurrent.futures",
    "configparser",
    "contextlib",
    "csv",
    "ctypes",
    "ctypes.util",
    "curses",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "email",
    "email.message",
    "fractions",
    "functools",
    "getpass",
    "glob",
    "hashlib",
    "html",
    "http.client",
    "http.server",
    "importlib.metadata",
    "importlib.resources",
    "importlib.util",
    "inspect",
    "io",
    "ipaddress",
    "json",
    "locale",
    "logging",
    "lzma",
    "mimetypes",
    "multiprocessing",
    "multiprocessing.connection",
    "pathlib",
    "pdb",
    "platform",
    "pydoc",
    "queue",
    "random",
    "re",
    "readline",
    "sched",
    "secrets",
    "select",
    "selectors",
    "shutil",
    "signal",
    "site",
    "socket",
    "socketserver",
    "sqlite3",
    "ssl",
    "statistics",
    "subprocess",
    "sysconfig",
    "tarfile",
    "tempfile",
    "threading",
    "traceback",
    "tty",
    "typing",
    "unittest",
    "unittest.mock",
    "urllib.request",
    "uuid",
    "weakref",
    "webbrowser",
    "xml.etree.ElementTree",
    "zipfile",
    "zoneinfo",
]
NO_LINUX = {
    "os": [
        "memfd_create",
        "pidfd_open",
        "sched_getaffinity",
        "O_PATH",
        "waitid",
        "eventfd",
        "splice",
        "unshare",
        "setns",
        "getrandom",
    ],
    "signal": ["pidfd_send_signal", "sigtimedwait", "sigwaitinfo", "SIGRTMIN", "SIGSTKFLT", "SIGPWR"],
    "socket": ["SO_PEERCRED", "AF_NETLINK", "AF_VSOCK", "AF_ALG"],
    "select": ["epoll"],
}
NO_UNIX = {
    "os": [
        "fork",
        "forkpty",
        "getuid",
        "geteuid",
        "getgid",
        "getegid",
        "setuid",
        "setgid",
        "killpg",
        "setsid",
        "getpgid",
        "nice",
        "getpriority",
        "setpriority",
        "PRIO_PROCESS",
        "O_NOFOLLOW",
        "O_DIRECTORY",
        "O_CLOEXEC",
        "O_NONBLOCK",
        "sysconf",
        "fchown",
        "chown",
        "fchmod",
        "pread",
        "pwrite",
        "wait4",
        "wait3",
        "WNOHANG",
        "WNOWAIT",
        "P_PID",
        "mkfifo",
        "uname",
        "getloadavg",
        "openpty",
        "ttyname",
        "statvfs",
        "sendfile",
    ],
    "signal": [
        "SIGKILL",
        "SIGUSR1",
        "SIGUSR2",
        "SIGALRM",
        "SIGPROF",
        "SIGXCPU",
        "SIGXFSZ",
        "SIGPIPE",
        "SIGHUP",
        "SIGCHLD",
        "SIGQUIT",
        "SIGSTOP",
        "SIGCONT",
        "SIGWINCH",
        "SIGTSTP",
        "setitimer",
        "getitimer",
        "alarm",
        "pause",
        "ITIMER_REAL",
        "ITIMER_PROF",
        "pthread_sigmask",
        "sigwait",
    ],
    "socket": ["AF_UNIX", "SOCK_SEQPACKET", "socketpair_unix", "send_fds", "recv_fds"],
    "select": ["poll"],
}
UNIX_MODULES = [
    "fcntl",
    "resource",
    "pwd",
    "grp",
    "termios",
    "tty",
    "pty",
    "posix",
    "syslog",
    "curses",
    "_curses",
    "readline",
    "spwd",
    "crypt",
]


class View(types.ModuleType):
    """A module with some names hidden and others added."""

    def __init__(self, real: types.ModuleType, hidden: Collection[str], **added: Any) -> None:
        super().__init__(real.__name__, real.__doc__)
        self.__dict__.update(added, _real=real, _hidden=frozenset(hidden), __spec__=real.__spec__)

    def __getattr__(self, name: str) -> Any:
        if name in self._hidden:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} on {sys.platform}")
        return getattr(self._real, name)


class Missing:
    """An import finder that raises ModuleNotFoundError for modules of other platforms."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name in self._names:
            raise ModuleNotFoundError(f"No module named {name!r} on {sys.platform}", name=name)


class WindowsLoop(asyncio.SelectorEventLoop):
    """An event loop that cannot wait for files or signals, as on Windows."""

    def _refuse(self, *arguments: Any) -> NoReturn:
        raise NotImplementedError

    add_reader = remove_reader = add_writer = remove_writer = _refuse
    add_signal_handler = remove_signal_handler = _refuse


class WindowsPolicy(asyncio.DefaultEventLoopPolicy):
    """The policy that creates these loops."""

    _loop_factory = WindowsLoop  # type: ignore[assignment]


def become(platform: str, *, imported: Collection[str] = ()) -> None:
    """Change this interpreter. `imported` are further modules that must be imported before the change."""
    for name in (*STANDARD, *imported):
        importlib.import_module(name)
    hidden = {name: list(names) for name, names in NO_LINUX.items()}
    added: dict[str, dict[str, Any]] = {name: {} for name in hidden}
    sys.platform = platform
    if platform == "win32":
        asyncio.set_event_loop_policy(WindowsPolicy())
        sys.modules["msvcrt"] = _msvcrt()
        added["os"]["O_BINARY"] = 0
        for name, names in NO_UNIX.items():
            hidden[name] += names
        for name in UNIX_MODULES:
            sys.modules.pop(name, None)
        sys.meta_path.insert(0, Missing(UNIX_MODULES))
    for name, names in hidden.items():
        sys.modules[name] = View(sys.modules[name], names, **added[name])
    sys.addaudithook(_refuse_linux)


def _refuse_linux(event: str, arguments: tuple[Any, ...]) -> None:
    if (
        event == "open"
        and isinstance(arguments[0], (str, bytes))
        and os.fsdecode(arguments[0]).startswith(("/proc", "/sys"))
    ):
        raise FileNotFoundError(2, "No such file or directory", arguments[0])
    if event == "ctypes.dlopen" and arguments[0] is None:
        raise OSError("there is no libc of Linux here")


def _msvcrt() -> types.ModuleType:
    """A stand-in for `msvcrt`, made of Linux calls: a lock that another descriptor holds raises PermissionError."""
    import fcntl

    def locking(fd: int, mode: int, nbytes: int) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(13, "Permission denied") from None

    made = types.ModuleType("msvcrt")
    made.__dict__.update(locking=locking, LK_NBLCK=2, kbhit=lambda: False)
    return made
