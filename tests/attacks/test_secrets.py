"""The host's secrets: its environment, memory and descriptors, and the objects that a guest inherits by fork."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chainofcode import run
from chainofcode.sandbox import Jail

from .harness import (
    KERNEL,
    NO_FILE,
    PRELUDE,
    SECRET,
    Attack,
    HostFiles,
    TierSandbox,
    assert_succeeds_unconfined,
    safe_unconfined,
)

OWN_ENVIRONMENT = "without a sandbox, a guest gets no variable of the host either"
# All stack frames from the program up to the forked zygote.
ABOVE = """
frame, above = sys._getframe(), []
while frame is not None:
    above.append(frame)
    frame = frame.f_back
"""
CLASSES = """
classes = [().__class__.__base__]
seen = set()
for cls in classes:
    if cls not in seen:
        seen.add(cls)
        classes += type.__subclasses__(cls)
"""

ATTACKS = [
    Attack("environment", f"answer = {SECRET!r} in str(dict(os.environ))", refused=False, unsafe=OWN_ENVIRONMENT),
    Attack(
        "environment, from C",
        "environ = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, 'environ')\ntexts = []\n"
        "while environ[len(texts)] is not None:\n    texts.append(environ[len(texts)])\n"
        f"answer = (len(texts) > 0, {SECRET.encode()!r} in b' '.join(texts))",
        refused=(True, False),
        unsafe=OWN_ENVIRONMENT,
    ),
    Attack("own environment in /proc", "answer = tried(open, '/proc/self/environ', 'rb')", NO_FILE),
    Attack("the parent's environment", "answer = tried(open, f'/proc/{other}/environ', 'rb')", NO_FILE),
    Attack(
        "everyone's environment",
        "numbers = [*range(1, 400), other, os.getpid()]\n"
        "answer = any(tried(open, f'/proc/{number}/environ') is True for number in numbers)",
        refused=False,
    ),
    Attack("the parent's command line", "answer = tried(open, f'/proc/{other}/cmdline')", NO_FILE),
    Attack("own memory in /proc", "answer = tried(open, '/proc/self/mem', 'r+b')", NO_FILE),
    Attack("the parent's memory", "answer = tried(open, f'/proc/{other}/mem', 'rb')", NO_FILE),
    Attack("own address space", "answer = tried(open, '/proc/self/maps')", NO_FILE),
    Attack("own descriptors in /proc", "answer = tried(os.listdir, '/proc/self/fd')", NO_FILE),
    Attack("the parent's descriptors", "answer = tried(os.listdir, f'/proc/{other}/fd')", NO_FILE),
    Attack("where the parent works", "answer = tried(os.readlink, f'/proc/{other}/cwd')", NO_FILE),
    Attack("the kernel's symbols", "answer = tried(open, '/proc/kallsyms')", NO_FILE),
    Attack("the kernel's settings", "answer = tried(os.open, '/proc/sys/kernel/hostname', os.O_WRONLY)", NO_FILE,
           for_root=True),
    Attack("what the kernel does with a crash", "answer = tried(os.open, '/proc/sys/kernel/core_pattern', os.O_WRONLY)",
           NO_FILE, for_root=True),
    Attack("own mapping of users", "answer = tried(os.open, '/proc/self/uid_map', os.O_WRONLY)", NO_FILE),
    Attack("own score of memory shortage", "answer = tried(os.open, '/proc/self/oom_score_adj', os.O_WRONLY)", NO_FILE),
    Attack("control groups", "answer = tried(os.listdir, '/sys/fs/cgroup')", NO_FILE),
    Attack("mounts", "answer = tried(open, '/proc/self/mountinfo')", NO_FILE),
    Attack("network of the host", "answer = tried(open, '/proc/net/tcp')", NO_FILE),
    Attack(
        "descriptors that were left open",
        "import fcntl\nanswer = [fd for fd in range(1024) if tried(fcntl.fcntl, fd, fcntl.F_GETFD) is True]",
        refused=[0, 1, 2, 3, 4],
        unsafe="without a sandbox, no other descriptors are open either, but the numbers differ",
    ),
    Attack("signals for another by F_SETOWN", "import fcntl\nanswer = tried(fcntl.fcntl, 0, fcntl.F_SETOWN, other)"),
    Attack("which signal by F_SETSIG", "import fcntl\nanswer = tried(fcntl.fcntl, 0, fcntl.F_SETSIG, 9)"),
    Attack("news of a directory", "import fcntl\nanswer = tried(fcntl.fcntl, 0, fcntl.F_NOTIFY, 1)", bare="ENOTDIR"),
    Attack("a lease", "import fcntl\nanswer = tried(fcntl.fcntl, 0, fcntl.F_SETLEASE, fcntl.F_UNLCK)", bare=KERNEL),
    Attack("a larger pipe", "import fcntl\nanswer = tried(fcntl.fcntl, os.pipe()[0], 1031, 1 << 18)"),
    Attack(
        "classes, up to a shell",
        CLASSES + "system = [c for c in classes if c.__name__ == '_wrap_close'][0].__init__.__globals__['system']\n"
        "answer = system('true') == 0",
        refused=False,
    ),
    Attack(
        "classes, up to subprocess",
        "import subprocess\n" + CLASSES + "popen = [c for c in classes if c.__name__ == 'Popen'][0]\n"
        "answer = tried(popen, ['true'])",
    ),
    Attack(
        "classes, up to a file",
        CLASSES + "loader = [c for c in classes if c.__name__ == 'FileLoader'][0]\n"
        "answer = tried(loader('m', secret).get_data, secret)",
        NO_FILE,
    ),
    Attack(
        "a traceback, up to the importer",
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    frame = error.__traceback__.tb_frame\n"
        "while frame.f_back is not None:\n    frame = frame.f_back\n"
        "modules = frame.f_globals['sys'].modules\nanswer = tried(modules['posix'].open, secret, 0)",
        NO_FILE,
    ),
    Attack(
        "the builtins' own open",
        "import io\nanswer = tried(io.open.__self__.open, secret)",
        NO_FILE,
    ),
    Attack(
        "the zygote's socket, up the stack",
        ABOVE + "held = [value for frame in above for value in frame.f_locals.values()]\n"
        "sockets = [value for value in held if type(value).__name__ == 'socket']\n"
        "answer = sorted({tried(s.send, b'{}') for s in sockets})",
        refused=["EBADF"],
        unsafe="without a sandbox there is no zygote",
    ),
    Attack(
        "the zygote's own fork, up the stack",
        ABOVE + "zygote = [v for f in above for v in f.f_locals.values() if hasattr(v, '_wall')][0]\n"
        "answer = tried(zygote._wall.fork)",
        unsafe="without a sandbox there is no zygote",
    ),
    Attack(
        "the garbage collector, up to the importer",
        "import gc\nmodules = [x for x in gc.get_referents(sys) if type(x) is dict][0]['modules']\n"
        "names = [x for x in gc.get_referents(modules['posix']) if type(x) is dict and 'open' in x][0]\n"
        "answer = tried(names['open'], secret, 0)",
        NO_FILE,
    ),
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_attack_is_refused(sandbox: TierSandbox, attack: Attack, host_files: HostFiles) -> None:
    sandbox.assert_refused(attack, host_files)


@pytest.mark.parametrize("attack", safe_unconfined(ATTACKS), ids=str)
def test_attack_succeeds_without_sandbox(attack: Attack, host_files: HostFiles) -> None:
    assert_succeeds_unconfined(attack, host_files)


def test_host_descriptors_are_not_inherited(sandbox: TierSandbox, tmp_path: Path) -> None:
    """Even if the host made the descriptor inheritable before it opened the jail."""
    (tmp_path / "open.txt").write_text(SECRET)
    file = os.open(tmp_path / "open.txt", os.O_RDONLY)
    os.set_inheritable(file, True)
    try:
        scan = "import fcntl\nanswer = [fd for fd in range(1024) if tried(fcntl.fcntl, fd, fcntl.F_GETFD) is True]"
        with Jail(sandbox.tier, spares=0) as jail:
            assert run(PRELUDE + scan, sandbox=jail).answer == [0, 1, 2, 3, 4]
    finally:
        os.close(file)
