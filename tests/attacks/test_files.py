"""Files: programs read only what was granted and write nothing, regardless of how they open it."""

from __future__ import annotations

import asyncio
import json
import os
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from .harness import (
    KERNEL,
    NO_FILE,
    SECRET,
    WITH_FILES,
    Attack,
    HostFiles,
    TierSandbox,
    assert_succeeds_unconfined,
    safe_unconfined,
)

SITE = sysconfig.get_paths()["purelib"]
# Opening an existing file for writing does not change it, and opening is what the sandbox must prevent.
_CACHE = json.__spec__.cached
# The kernel checks the mode of the file first: a user who may not write there gets EACCES.
READ_ONLY = "EROFS" if _CACHE and os.access(_CACHE, os.W_OK) else "EACCES"
LIBRARY_FILE = "import json\npath, cached = json.__spec__.origin, json.__spec__.cached\n"

READING = [
    Attack("read a secret", "answer = tried(open, secret)", NO_FILE),
    Attack("read /etc/passwd", "answer = tried(open, '/etc/passwd')", NO_FILE),
    Attack("read /etc/shadow", "answer = tried(open, '/etc/shadow')", NO_FILE, for_root=True),
    Attack("read a private key", "answer = tried(open, f'{place}/home/.ssh/id_ed25519')", NO_FILE),
    Attack("list a home directory", "answer = tried(os.listdir, f'{place}/home')", NO_FILE),
    Attack("list with scandir", "answer = tried(os.scandir, place)", NO_FILE),
    Attack(
        "list the system's directories",
        "answer = any(tried(os.listdir, path) is True for path in ('/etc', '/proc', '/home', '/tmp', '/var', '/sys'))",
        refused=False,
    ),
    Attack("learn that a file exists", "answer = tried(os.stat, secret)", {**NO_FILE, "B": True}),
    Attack("climb from the working directory", "answer = tried(open, '../' * 30 + secret)", NO_FILE),
    Attack(
        "climb from the library", "answer = tried(open, os.path.dirname(os.__file__) + '/..' * 30 + secret)", NO_FILE
    ),
    Attack("go there first", "answer = tried(lambda: (os.chdir(place), open('secret.txt')))", NO_FILE),
    Attack("open for neither reading nor writing", "answer = tried(os.open, secret, os.O_ACCMODE)"),
    Attack("open without any right", "answer = tried(os.open, secret, os.O_PATH)"),
    Attack(
        "from a directory's descriptor",
        "answer = tried(lambda: os.open('secret.txt', os.O_RDONLY, dir_fd=os.open(place, os.O_RDONLY)))",
        NO_FILE,
    ),
    Attack(
        "open it again through /proc", "answer = tried(lambda: open(f'/proc/self/fd/{os.open(secret, os.O_PATH)}'))"
    ),
    Attack("through the parent's root", "answer = tried(os.listdir, f'/proc/{other}/root')", NO_FILE),
    Attack("through the parent's working directory", "answer = tried(os.listdir, f'/proc/{other}/cwd')", NO_FILE),
    Attack(
        "openat2, whose flags no filter sees",
        "answer = tried(syscall, 437, -100, secret.encode(), bytes(24), 24)",
        "ENOSYS",
    ),
    Attack(
        "as a module",
        "import importlib.machinery\nloader = importlib.machinery.SourceFileLoader('m', secret)\n"
        "answer = tried(loader.get_data, secret)",
        NO_FILE,
    ),
    Attack("as lines of source", "import linecache\nanswer = linecache.getlines(secret) != []", refused=False),
    Attack(
        "as a shared library",
        "try:\n    ctypes.CDLL(secret)\nexcept OSError as error:\n    answer = 'too short' in str(error)",
        refused=False,
    ),
    Attack("a device", "answer = tried(open, '/dev/zero', 'rb')", NO_FILE),
    Attack(
        "every device",
        "names = ('mem', 'kmem', 'port', 'kmsg', 'full', 'random', 'urandom', 'tty', 'console', 'ptmx', 'kvm', 'fuse',"
        " 'vda', 'sda', 'nvme0n1', 'loop-control', 'userfaultfd', 'vsock', 'net/tun', 'shm')\n"
        "answer = [name for name in names if tried(os.open, f'/dev/{name}', os.O_RDONLY) is True]",
        refused=[],
        unsafe="opening a device can have effects of its own",
    ),
]

WRITING = [
    Attack("write over a file", "answer = tried(open, secret, 'w')", NO_FILE, changes=True),
    Attack("append to a file", "answer = tried(lambda: print('x', file=open(secret, 'a')))", NO_FILE, changes=True),
    Attack("make a file", "answer = tried(open, f'{place}/new', 'x')", NO_FILE, changes=True),
    Attack("make a file without a name", "answer = tried(os.open, place, os.O_TMPFILE | os.O_WRONLY)"),
    Attack("truncate by reading", "answer = tried(os.open, secret, os.O_RDONLY | os.O_TRUNC)", changes=True),
    Attack(
        "truncate by neither reading nor writing",
        "answer = tried(os.open, secret, os.O_ACCMODE | os.O_TRUNC)",
        changes=True,
    ),
    Attack("truncate by name", "answer = tried(os.truncate, secret, 1)", changes=True),
    Attack("remove a file", "answer = tried(os.unlink, secret)", changes=True),
    Attack("rename a file", "answer = tried(os.rename, secret, f'{place}/new')", changes=True),
    Attack("make a directory", "answer = tried(os.mkdir, f'{place}/new')", changes=True),
    Attack("remove a directory", "answer = tried(os.rmdir, f'{place}/empty')", changes=True),
    Attack("make a symbolic link", "answer = tried(os.symlink, secret, f'{place}/new')", changes=True),
    Attack("make a hard link", "answer = tried(os.link, secret, f'{place}/new')", changes=True),
    Attack("make a pipe with a name", "answer = tried(os.mkfifo, f'{place}/new')", changes=True),
    Attack("make a device", "answer = tried(os.mknod, f'{place}/new', 0o20600, os.makedev(1, 5))", changes=True,
           for_root=True),
    Attack("change rights", "answer = tried(os.chmod, secret, 0o777)", changes=True),
    Attack("change the owner", "answer = tried(os.chown, secret, 12345, -1)", changes=True, for_root=True),
    Attack("change times", "answer = tried(os.utime, secret, (1, 1))", changes=True),
    Attack("set an attribute", "answer = tried(os.setxattr, secret, 'user.x', b'y')", bare=KERNEL),
    Attack("in shared memory", "answer = tried(lambda: os.unlink(open(f'/dev/shm/coc-{os.getpid()}', 'x').name))", NO_FILE),
    Attack(
        "anywhere",
        "places = ('/', '/tmp', '/var/tmp', '/guest', '/.kept', '/dev', '/etc', '.', os.path.dirname(os.__file__))\n"
        "answer = [p for p in places if tried(os.open, f'{p}/coc-attack', os.O_CREAT | os.O_WRONLY) is True]",
        refused=[],
        unsafe="it would leave files all over the system",
    ),
    Attack(
        "the standard library",
        LIBRARY_FILE + "answer = tried(os.open, path, os.O_WRONLY)",
        {"A": "EROFS", "B": "EACCES", "C": "EPERM"},
        for_root=True,
    ),
    Attack(
        "its compiled modules",
        LIBRARY_FILE + "answer = tried(os.open, cached, os.O_WRONLY)",
        {"A": READ_ONLY, "B": "EACCES", "C": "EPERM"},
        for_root=True,
    ),
    Attack(
        "installed packages",
        f"answer = tried(lambda: os.unlink(open(f'{SITE}/coc-{{os.getpid()}}', 'x').name))",
        NO_FILE,
        for_root=True,
    ),
]  # fmt: skip


@pytest.mark.parametrize("attack", [*READING, *WRITING], ids=str)
def test_attack_is_refused(sandbox: TierSandbox, attack: Attack, host_files: HostFiles) -> None:
    sandbox.assert_refused(attack, host_files)


@pytest.mark.parametrize("attack", safe_unconfined([*READING, *WRITING]), ids=str)
def test_attack_succeeds_without_sandbox(attack: Attack, host_files: HostFiles) -> None:
    assert_succeeds_unconfined(attack, host_files)


REOPEN = Attack(
    "open its own pipes again, at both ends",
    """
import stat
def is_pipe(fd):
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    except OSError:
        return False
pipes = list(filter(is_pipe, range(64)))
answer = {tried(os.open, f"/proc/self/fd/{fd}", os.O_RDWR | os.O_NONBLOCK) for fd in pipes}
""",
    {"B": {"EACCES"}},
    bare={True},
)


@pytest.mark.parametrize("sandbox", ["B"], indirect=True)  # in A there is no /proc, in C no path
def test_pipes_cannot_be_opened_again(sandbox: TierSandbox, host_files: HostFiles) -> None:
    sandbox.assert_refused(REOPEN, host_files)


def test_pipes_can_be_opened_again_without_sandbox(host_files: HostFiles) -> None:
    assert_succeeds_unconfined(REOPEN, host_files)


# --- what is granted ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def granted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory to grant, with a link in it that leads outside, and a file next to it."""
    home = tmp_path_factory.mktemp("granted")
    (home / "inside").mkdir()
    (home / "inside" / "table.csv").write_text("1,2")
    (home / "inside" / "other.csv").write_text("3,4")
    (home / "beside.txt").write_text(SECRET)
    (home / "inside" / "way out").symlink_to("../beside.txt")
    return home


READ = """
def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError as error:
        return errno.errorcode[error.errno]
"""


@WITH_FILES
def test_a_granted_file_is_read_and_its_siblings_are_not(sandbox: TierSandbox, granted: Path) -> None:
    table = granted / "inside" / "table.csv"
    paths = [str(table), str(table.with_name("other.csv")), str(granted / "beside.txt")]
    result = sandbox.run(READ + "answer = [read(path) for path in paths]", inputs={"paths": paths}, reads=(str(table),))
    assert result.answer == ["1,2", *[NO_FILE[sandbox.tier]] * 2]


@WITH_FILES
def test_directories_with_common_name_prefix_are_both_granted(sandbox: TierSandbox, tmp_path: Path) -> None:
    files = [tmp_path / name / "x" for name in ("data", "data2")]
    for file in files:
        file.parent.mkdir()
        file.write_text(file.parent.name)
    reads = tuple(str(file.parent) for file in files)
    result = sandbox.run(READ + "answer = [read(p) for p in paths]", inputs={"paths": [*map(str, files)]}, reads=reads)
    assert result.answer == ["data", "data2"]


@pytest.mark.parametrize("way", ["way out", "../beside.txt", "table.csv/../../beside.txt"])
@WITH_FILES
def test_granted_directory_cannot_be_escaped(sandbox: TierSandbox, granted: Path, way: str) -> None:
    inside = str(granted / "inside")
    result = sandbox.run(
        READ + "answer = (read(inside + '/table.csv'), read(inside + '/' + way))",
        inputs={"inside": inside, "way": way},
        reads=(inside,),
    )
    refused = "ENOTDIR" if way.startswith("table.csv/") else NO_FILE[sandbox.tier]
    assert result.answer == ("1,2", refused)


@pytest.mark.parametrize(
    "act",
    [
        "open(path, 'a')", "open(path, 'r+')", "os.open(path, os.O_RDONLY | os.O_TRUNC)", "os.truncate(path, 0)",
        "os.open(path, os.O_ACCMODE | os.O_TRUNC)", "os.unlink(path)", "os.rename(path, path + 'x')",
        "os.chmod(path, 0)", "os.utime(path, (1, 1))", "open(path + 'x', 'x')", "os.link(path, path + 'x')",
    ],
)  # fmt: skip
@WITH_FILES
def test_read_grant_does_not_allow_changes(sandbox: TierSandbox, granted: Path, act: str) -> None:
    table = granted / "inside" / "table.csv"
    before = sorted((path.name, path.lstat().st_mtime_ns, path.lstat().st_mode) for path in table.parent.iterdir())
    result = sandbox.run(
        f"answer = (tried(open, path), tried(lambda: {act}) is True)",
        inputs={"path": str(table)},
        reads=(str(granted / "inside"),),
    )
    assert result.answer == (True, False)
    assert before == sorted(
        (path.name, path.lstat().st_mtime_ns, path.lstat().st_mode) for path in table.parent.iterdir()
    )
    assert table.read_text() == "1,2"


@WITH_FILES
def test_grant_does_not_carry_over_to_next_program(sandbox: TierSandbox, granted: Path) -> None:
    table = str(granted / "inside" / "table.csv")
    assert sandbox.run(READ + "answer = read(path)", inputs={"path": table}, reads=(table,)).answer == "1,2"
    refused = sandbox.run(READ + "answer = read(path)", inputs={"path": table}).answer
    assert refused == NO_FILE[sandbox.tier]


# --- lookahead ----------------------------------------------------------------------------------------------------


def test_shadow_is_confined_like_its_program(sandbox: TierSandbox, host_files: HostFiles) -> None:
    """While the program waits for its first value, its shadow reads the secret and would send it to the model."""
    sent: list[str] = []

    async def answer(pause: Any) -> int:
        sent.append(pause.text)
        while len(sent) < 2:  # noqa: ASYNC110 - the shadow asks
            await asyncio.sleep(0.01)
        return 1

    program = READ + "first = f(1)\nanswer = tell(read(secret), tried(os.fork), tried(os.listdir, '/etc'))"
    options = {"inputs": host_files.inputs, "in_flight": 8}
    assert sandbox.run(program, answer, **options).answer == 1
    error = NO_FILE[sandbox.tier]
    assert sent == ["f(1)", f"tell({error!r}, 'EPERM', {error!r})"]
