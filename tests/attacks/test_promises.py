"""Hostile programs derived from SECURITY.md alone: each tries to break one of its promises, in every tier."""

from __future__ import annotations

import os
from typing import Any

import pytest

from chainofcode import Limits
from chainofcode.sandbox.handle import runtime_paths

from .harness import IN_TIER_A, NO_FILE, WITH_FILES, HostFiles, TierSandbox

NO_WRITING = {"A": "EROFS", "A-": "EROFS", "B": "EACCES", "C": "EPERM"}
# name: the program, and its answer (one for each tier, if they differ)
PROGRAMS: dict[str, tuple[str, Any]] = {
    "climb from a descriptor of the library": (
        "def climb():\n    library = os.open(os.path.dirname(os.__file__), os.O_RDONLY)\n"
        "    return os.open('../' * 20 + secret, os.O_RDONLY, dir_fd=library)\nanswer = tried(climb)", NO_FILE,
    ),
    "execute through the loader": ("answer = tried(os.execv, '/lib64/ld-linux-x86-64.so.2', ['ld', '/bin/true'])", "EPERM"),
    "extended attributes": (
        "answer = {tried(os.getxattr, os.__file__, 'security.selinux'), tried(os.listxattr, 0)}", {"EPERM"},
    ),
    "options of a socket pair": (
        "import socket\nleft, right = socket.socketpair()\n"
        "answer = {tried(left.setsockopt, level, n, bytes(16)) for n in range(90) for level in (0, 1, 6, 41)}",
        {"EPERM"},
    ),
    "leave the working directory by a descriptor": ("answer = tried(os.fchdir, 0) in ('ENOTDIR', 'EPERM')", True),
    "create a file in the library": (
        "answer = tried(os.open, f'{os.path.dirname(os.__file__)}/coc-x', os.O_CREAT)", NO_WRITING,
    ),
    "write on its standard input": ("answer = tried(os.write, 0, b'x')", "EBADF"),
    "read its own output": ("answer = {tried(os.read, fd, 1) for fd in (1, 2, 4)}", {"EBADF"}),
    "write on the pipe of its input": ("answer = tried(os.write, 3, b'x')", "EBADF"),
    "truncate its descriptors": ("answer = {tried(os.ftruncate, fd, 0) for fd in range(5)} <= {'EINVAL', 'EPERM', 'EBADF'}", True),
    "the importer's own loader": (
        "import _frozen_importlib_external as importer\n"
        "answer = tried(importer.SourceFileLoader('m', secret).get_data, secret)", NO_FILE,
    ),
    "session, group and scheduling of another": (
        "answer = {tried(act, other) for act in (os.getpgid, os.getsid, os.sched_getscheduler, os.sched_getaffinity)}", {"EPERM"},
    ),
    "calls of newer kernels": ("answer = {tried(syscall, n, *[0] * 6) for n in range(449, 470)}", {"EPERM"}),
    "links of its own process": (
        "places = ('/proc/self/root', '/proc/1/exe', '/proc/1/cwd')\n"
        "answer = [place for place in places if tried(os.listdir, f'{place}/etc') is True]", [],
    ),
    "subclasses that lie about themselves": (
        "class I(int):\n    def __repr__(self): return 'forged'\n"
        "class L(list):\n    def __iter__(self):\n        while True: yield 1\nclass D(dict):\n"
        "    def __len__(self): return 10**18\n    def items(self): return iter(lambda: (1, 2), 0)\n"
        "answer = repr([type(x).__name__ for x in (I(3), L([1]), D(a=1))])", "['I', 'L', 'D']",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_attack_is_refused(sandbox: TierSandbox, name: str, host_files: HostFiles) -> None:
    program, expected = PROGRAMS[name]
    result = sandbox.run(program, inputs=host_files.inputs)
    assert result.reason == "answered", result
    assert result.answer == (expected[sandbox.tier] if isinstance(expected, dict) else expected)
    assert host_files.is_untouched()


FLAGS = "import fcntl\nanswer = [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in range(5)]"
SET_FLAGS = (
    "import fcntl\nfor fd in range(5):\n    fcntl.fcntl(fd, fcntl.F_SETFL, 0x2000 | os.O_NONBLOCK | os.O_APPEND)\n"
)


def test_flags_of_descriptors_are_not_shared(sandbox: TierSandbox) -> None:
    """A flag belongs to an open file: if guests shared one, a program could change the output of the next."""
    before = sandbox.run(FLAGS).answer
    assert sandbox.run(SET_FLAGS + FLAGS).answer != before
    assert [sandbox.run(FLAGS).answer for _ in range(3)] == [before] * 3


@WITH_FILES
def test_only_directories_of_libraries_are_open(sandbox: TierSandbox) -> None:
    """Of all directories of this machine, up to three levels deep, which have others that a program may not list."""
    levels = [["/"]]
    for _ in range(3):
        levels.append([entry for place in levels[-1] for entry in directories_in(place)][:3000])
    open_ones = tuple(map(os.path.realpath, runtime_paths()))
    inputs = {
        "places": [place for level in levels for place in level if not (place + "/").startswith(("/proc/", "/sys/"))]
    }
    program = "answer = [place for place in places if tried(os.listdir, place) is True and os.listdir(place)]"
    found = sandbox.run(program, inputs=inputs).answer
    assert len(inputs["places"]) > 200
    # Without Landlock, the private root shows the empty directories that lead to the libraries and to /dev/null.
    ways = [
        path
        for path in found
        if sandbox.tier == "A-" and any(one.startswith(path) for one in (*open_ones, "/dev/null"))
    ]
    assert [path for path in found if not os.path.realpath(path).startswith(open_ones) and path not in ways] == []


def directories_in(place: str) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(place) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


LEFT = {
    "directories too deep to name": "try:\n    while True:\n        os.mkdir('d')\n        os.chdir('d')\nexcept OSError: pass",
    "a file that becomes a link while it is read": (
        "import threading\nopen('a', 'w').write('x' * 10**6)\n"
        "def swap():\n    while True:\n        try:\n            os.symlink(secret, 'b')\n            os.replace('b', 'a')\n"
        "            open('c', 'w').write('y')\n            os.replace('c', 'a')\n        except OSError: pass\n"
        "for _ in range(3): threading.Thread(target=swap, daemon=True).start()"
    ),
    "a file that grows while it is read": (
        "import threading\nfile = open('g', 'wb', buffering=0)\n"
        "def grow():\n    while True: file.write(bytes(1000))\nthreading.Thread(target=grow, daemon=True).start()"
    ),
    "a terabyte of holes": "tried(os.truncate, open('s', 'wb').name, 2**40)",
    "a directory that is gone": "os.mkdir('z')\nos.chdir('z')\nos.rmdir('../z')",
    "rights for other users": "open('x', 'w').close()\nos.chmod('x', 0o6777)",
}


@IN_TIER_A
@pytest.mark.parametrize("name", LEFT)
def test_files_that_a_program_leaves_are_bounded(sandbox: TierSandbox, name: str, host_files: HostFiles) -> None:
    limits = Limits(run_seconds=10, cpu_seconds=10, scratch_bytes=8_000_000)
    result = sandbox.run(f"{LEFT[name]}\nanswer = 1", inputs=host_files.inputs, scratch=True, limits=limits)
    assert result.reason in ("answered", "limit:run", "limit:cpu"), result
    assert sum(map(len, result.artifacts.values())) <= limits.scratch_bytes
    assert b"hunter2" not in b"".join(result.artifacts.values())
    assert host_files.is_untouched()
