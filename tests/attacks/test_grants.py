"""What a grant does not cover: locks that affect other processes, named pipes, mounts, the rights of root."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chainofcode import InputError, ScriptedLM, run
from chainofcode.sandbox import Jail

from .harness import IN_TIER_A, LIMITS, NO_FILE, SECRET, WITH_FILES, TierSandbox, has_all_root_rights

# --- images -------------------------------------------------------------------------------------------------------


@WITH_FILES
def test_model_receives_only_granted_images(sandbox: TierSandbox, tmp_path: Path) -> None:
    """The program chooses the path of an image; the host reads it for the model only if it is a granted file."""
    granted, secret = tmp_path / "granted.png", tmp_path / "secret" / "secret.png"
    secret.parent.mkdir()
    granted.write_bytes(b"\x89PNG\r\n\x1a\n granted")
    secret.write_bytes(b"\x89PNG\r\n\x1a\n secret")
    shown: list[bytes] = []

    def reply(messages: Any) -> str:
        shown.extend(image.data for image in messages[-1].images)
        return '{"value": 1}'

    around = f"{tmp_path}/./secret/secret.png", f"{granted}/../secret/secret.png", f"{granted}\0", "secret/secret.png"
    paths = [str(granted), str(secret), *around, f"file://{secret}", str(secret.parent)]
    lm = ScriptedLM(reply, in_flight=1)
    result = sandbox.run(f"answer = [describe(path) for path in {paths!r}]", lm, reads=(str(granted),))
    assert result.answer == [1] * len(paths)
    assert shown == [granted.read_bytes()]


# --- locks --------------------------------------------------------------------------------------------------------

LOCKS = """
import fcntl, struct
with open(path) as file:
    lock = struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 0, 0, 0)
    answer = {
        'flock': tried(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB),
        'lockf': tried(fcntl.lockf, file, fcntl.LOCK_SH | fcntl.LOCK_NB),
        'open file description': tried(fcntl.fcntl, file, 37, lock),
        'lease': tried(fcntl.fcntl, file, 1024, fcntl.F_RDLCK),
        'notify': tried(fcntl.fcntl, file, 1026, 1),
    }
    held()
"""


@IN_TIER_A
@pytest.mark.parametrize("scratch", [True, False], ids=["scratch", "read-only"])
def test_program_locks_have_no_effect_on_host(sandbox: TierSandbox, tmp_path: Path, scratch: bool) -> None:
    """The host writes to the file and takes every lock while the program believes that it holds them."""
    path = tmp_path / "granted.txt"
    path.write_text("x")
    lock_errors: list[str] = []

    def held(pause: Any) -> int:
        with open(path, "r+") as file:
            for take in (fcntl.flock, fcntl.lockf):
                try:
                    take(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    lock_errors.append(str(error))
        return 1

    result = sandbox.run(LOCKS, held, inputs={"path": str(path)}, reads=(str(path),), scratch=scratch)
    assert result.reason == "answered", result
    assert lock_errors == []
    assert result.answer == {
        "flock": "ENOSYS" if scratch else "EPERM", "lockf": scratch or "EPERM", "open file description": "EPERM", "lease": "EPERM",
        "notify": "EPERM",
    }  # fmt: skip


LOCKS_OF_ALL_KINDS = """
import fcntl, struct
lock = struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 0, 0, 0)
answer = set()
for place in (path, os.path.dirname(path)):
    fd = os.open(place, os.O_RDONLY)
    answer |= {tried(fcntl.flock, fd, kind | fcntl.LOCK_NB) for kind in (fcntl.LOCK_SH, fcntl.LOCK_EX)}
    for command in (36, 37, 38, 1024, 1026, 1033, 1036, 1040):
        answer.add(tried(fcntl.fcntl, fd, command, lock))
    answer.add(tried(syscall, 72, fd, 37 | 1 << 40, 0))
    answer |= {tried(fcntl.ioctl, fd, request, bytes(8)) for request in (0x40086602, 0xC0045877)}
answer = (answer, [tried(act, 9999) for act in (os.fsync, os.fdatasync)])
"""


@WITH_FILES
@pytest.mark.parametrize("scratch", [True, False], ids=["scratch", "read-only"])
def test_no_lock_lease_or_flush_reaches_a_granted_file(sandbox: TierSandbox, tmp_path: Path, scratch: bool) -> None:
    """Nor its directory. `fsync` would make the host write its own data, so the call does not reach the kernel."""
    if scratch and sandbox.tier == "B":
        pytest.skip("no scratch directory in tier B")
    path = tmp_path / "granted.txt"
    path.write_text("x")
    refused, flushed = sandbox.run(
        LOCKS_OF_ALL_KINDS, inputs={"path": str(path)}, reads=(str(tmp_path),), scratch=scratch
    ).answer
    assert refused <= {"EPERM", "ENOSYS"}
    assert flushed == ([True, True] if scratch else ["EPERM", "EPERM"])


@IN_TIER_A
def test_databases_in_a_scratch_directory_work(sandbox: TierSandbox) -> None:
    program = (
        "import sqlite3\none, two = sqlite3.connect('x.db'), sqlite3.connect('x.db')\n"
        "one.execute('create table t (n)')\none.execute('insert into t values (7)')\none.commit()\n"
        "two.execute('insert into t values (8)')\ntwo.commit()\nanswer = one.execute('select sum(n) from t').fetchone()[0]"
    )
    assert sandbox.run(program, scratch=True).answer == 15


# --- special files ------------------------------------------------------------------------------------------------


@contextmanager
def listening(pipe: Path) -> Iterator[list[bytes]]:
    """A reader and a writer of the host at a named pipe; yields what the reader received."""
    received: list[bytes] = []
    fd = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)  # both ends: no side waits for the other
    os.write(fd, b"for the host")
    try:
        yield received
        received.append(os.read(fd, 1000))
    finally:
        os.close(fd)


PIPE = """
def use(path):
    found = {}
    for name, flags in {'read': os.O_RDONLY, 'write': os.O_WRONLY, 'both': os.O_RDWR}.items():
        try:
            fd = os.open(path, flags | os.O_NONBLOCK)
            found[name] = os.read(fd, 99).decode() if name == 'read' else os.write(fd, b'from the guest')
        except OSError as error:
            found[name] = 'refused'
    return found
"""


@WITH_FILES
@pytest.mark.parametrize("scratch", [True, False], ids=["scratch", "read-only"])
@pytest.mark.parametrize("deep", ["pipe", "a/b/pipe"])
def test_named_pipe_in_granted_directory_is_not_connected(
    sandbox: TierSandbox, tmp_path: Path, deep: str, scratch: bool
) -> None:
    if scratch and sandbox.tier == "B":
        pytest.skip("no scratch directory in tier B")
    pipe = tmp_path / deep
    pipe.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(pipe, 0o666)
    (pipe.parent / "beside.txt").write_text("yes")
    with listening(pipe) as received:
        result = sandbox.run(
            PIPE + "answer = (use(path), open(beside).read(), sorted(os.listdir(place)))",
            inputs={"path": str(pipe), "beside": str(pipe.parent / "beside.txt"), "place": str(tmp_path)},
            reads=(str(tmp_path),),
            scratch=scratch,
        )
    assert received == [b"for the host"]
    uses, content, names = result.answer
    assert uses in ({"read": "", "write": "refused", "both": "refused"}, dict.fromkeys(uses, "refused"))
    assert (content, names) == ("yes", sorted(path.name for path in tmp_path.iterdir()))


@WITH_FILES
def test_named_pipe_created_later_is_not_connected(sandbox: TierSandbox, tmp_path: Path) -> None:
    program, inputs = PIPE + "answer = use(path)", {"path": str(tmp_path / "pipe")}
    assert set(sandbox.run(program, inputs=inputs, reads=(str(tmp_path),)).answer.values()) == {"refused"}
    os.mkfifo(tmp_path / "pipe", 0o666)
    with listening(tmp_path / "pipe") as received:
        sandbox.run(program, inputs=inputs, reads=(str(tmp_path),))
    assert received == [b"for the host"]


def test_named_pipe_cannot_be_granted(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="neither a regular file nor a directory"):
        run("answer = 1", reads=(str(tmp_path / "pipe"),))


SPECIAL = """
import socket
def connected(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)
answer = {name: use(f'{place}/{name}') for name in sorted(os.listdir(place))}
answer = (answer, tried(connected, f'{place}/socket'))
"""


@WITH_FILES
def test_sockets_and_devices_in_granted_directory_are_not_connected(sandbox: TierSandbox, tmp_path: Path) -> None:
    devices = {"zero": (1, 5), "kmsg": (1, 11), "terminal": (5, 0), "fuse": (10, 229)} if has_all_root_rights() else {}
    for name, numbers in devices.items():
        os.mknod(tmp_path / name, 0o666 | stat.S_IFCHR, os.makedev(*numbers))
        (tmp_path / name).chmod(0o666)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        (tmp_path / "socket").chmod(0o777)
        server.listen()
        server.setblocking(False)
        found, connection = sandbox.run(PIPE + SPECIAL, inputs={"place": str(tmp_path)}, reads=(str(tmp_path),)).answer
        with pytest.raises(BlockingIOError):
            server.accept()
    assert found.keys() == {"socket", *devices}
    covered = {"read": "", "write": "refused", "both": "refused"}
    assert all(uses in (covered, dict.fromkeys(uses, "refused")) for uses in found.values())
    assert connection is not True


def test_named_pipe_works_without_sandbox(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with listening(tmp_path / "pipe") as received:
        result = run(
            "import os\n" + PIPE + "answer = use(path)", sandbox="none", inputs={"path": str(tmp_path / "pipe")}
        )
    assert result.answer == {"read": "for the host", "write": 14, "both": 14}
    assert received == [b"from the guest" * 2]


# --- mounts below a grant -----------------------------------------------------------------------------------------

# Run in its own mount namespace, so that no other process sees the mounts.
MOUNTED = """
import json, os, sys
from chainofcode import InputError, ScriptedLM, run
tier, place = sys.argv[1:]
program = '''
import os
def see(path):
    try:
        return open(path).read() != ''
    except OSError:
        return False
def names(path):
    try:
        return os.listdir(path)
    except OSError:
        return []
answer = ([see(f"{place}/{name}") for name in ("proc/version", "proc/self/environ", "proc/1/environ", "sys/kernel/uevent_seqnum")],
          names(f"{place}/proc"), see(f"{place}/disk/file.txt"), see(f"{place}/own.txt"))
'''
result = run(program, sandbox=tier, reads=(place,), inputs={"place": place})
refused = []
for path in ("proc", "proc/self/environ", "sys/kernel/uevent_seqnum"):
    try:
        run("answer = 1", sandbox=tier, reads=(f"{place}/{path}",))
    except InputError as error:
        refused.append("file system" in str(error))
print(json.dumps([result.answer, refused]))
"""


@WITH_FILES
def test_kernel_file_systems_in_granted_directory_are_not_granted(sandbox: TierSandbox, tmp_path: Path) -> None:
    if not has_all_root_rights():
        pytest.skip("only root can mount a /proc below a directory")
    for name in ("proc", "sys", "disk"):
        (tmp_path / name).mkdir()
    (tmp_path / "own.txt").write_text("granted")
    script = (
        'mount -t proc proc "$1/proc" && mount -t sysfs sysfs "$1/sys" && mount -t tmpfs tmpfs "$1/disk" '
        '&& echo granted > "$1/disk/file.txt" && exec "$2" -c "$3" "$4" "$1"'
    )
    command = ["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path), sys.executable, MOUNTED, sandbox.tier]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    (seen, listed, disk, own), refused = json.loads(done.stdout)
    assert seen == [False] * 4
    assert listed == [] or sandbox.tier == "B"  # where names are seen
    assert (disk, own) == (True, True)
    assert refused == [True] * 3


SEEN = """
import sys
from chainofcode import run
program = '''
try:
    answer = open(path).read()
except OSError:
    answer = ""
'''
tier, place, name = sys.argv[1:]
print(repr([run(program, sandbox=tier, reads=(place,), inputs={"path": f"{place}/{one}"}).answer for one in (name, "own.txt")]))
"""
MOUNTS = {
    "nested": ("a/b/proc/version", 'mkdir -p "$1/a/b/proc" && mount -t proc proc "$1/a/b/proc"'),
    "bound": ("bound/version", 'mkdir "$1/bound" && mount --rbind /proc "$1/bound"'),
    "a directory of it": ("sys/ostype", 'mkdir "$1/sys" && mount --bind /proc/sys/kernel "$1/sys"'),
    "one file of it": ("version", 'touch "$1/version" && mount --bind /proc/version "$1/version"'),
    "below a mount": (
        "disk/proc/version",
        'mkdir "$1/disk" && mount -t tmpfs t "$1/disk" && mkdir "$1/disk/proc" && mount -t proc p "$1/disk/proc"',
    ),
}


@WITH_FILES
@pytest.mark.parametrize("how", MOUNTS)
def test_proc_mounts_in_granted_directory_are_not_granted(sandbox: TierSandbox, tmp_path: Path, how: str) -> None:
    if not has_all_root_rights():
        pytest.skip("only root can mount a /proc below a directory")
    (tmp_path / "own.txt").write_text("granted")
    name, mount = MOUNTS[how]
    script = f'{mount} && grep -q . "$1/$5" && exec "$2" -c "$3" "$4" "$1" "$5"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path), sys.executable, SEEN, sandbox.tier, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "['', 'granted']\n", done.stderr


# --- the rights of root -------------------------------------------------------------------------------------------

WHO = "answer = (os.getuid(), os.geteuid(), os.getgid(), os.getgroups())"


def test_no_program_runs_as_root(sandbox: TierSandbox) -> None:
    """Even if Python or a granted file is in a directory that only root may enter."""
    uid, effective, gid, groups = sandbox.run(WHO).answer
    assert 0 not in (uid, effective, gid, *groups) or os.geteuid() != 0


@WITH_FILES
def test_granted_file_of_root_is_read_without_root_rights(sandbox: TierSandbox, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("this is about programs that root runs")
    (tmp_path / "shut").mkdir(mode=0o700)
    for name in ("granted.txt", "beside.txt"):
        (tmp_path / "shut" / name).write_text(SECRET)
        (tmp_path / "shut" / name).chmod(0o600)
    path = tmp_path / "shut" / "granted.txt"
    result = sandbox.run(
        "answer = (open(path).read(), os.getuid() != 0, tried(open, path, 'a') is True, tried(open, beside))",
        inputs={"path": str(path), "beside": str(path.with_name("beside.txt"))},
        reads=(str(path),),
    )
    assert result.answer == (SECRET, True, False, NO_FILE[sandbox.tier])


@pytest.mark.parametrize("tier", ["A", "B", "C"])
def test_root_without_capabilities_runs_no_program_as_root(tier: str) -> None:
    """As in a container: root cannot read files of other users, create namespaces or change its user."""
    if not has_all_root_rights():
        pytest.skip("this is about programs that root runs")
    program = (
        "from chainofcode import SandboxError, run\nimport sys\n"
        "try:\n    print(run('import os\\nanswer = os.getuid()', sandbox=sys.argv[1]).answer)\n"
        "except SandboxError as error:\n    print('guests never run as root' in str(error) or error)"
    )
    for taken in ("-sys_admin,-dac_read_search,-dac_override", "-setuid", "-setgid"):
        command = ["setpriv", f"--bounding-set={taken}", f"--inh-caps={taken}", sys.executable, "-c", program, tier]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() not in ("0", ""), (taken, done.stdout)


# --- the host's working directory ---------------------------------------------------------------------------------

LOOK_FOR = """
import gc
def strings(thing, depth=0):
    if isinstance(thing, str):
        yield thing
    elif depth < 4 and isinstance(thing, dict):
        for pair in list(thing.items()):
            for part in pair:
                yield from strings(part, depth + 1)
    elif depth < 4 and isinstance(thing, (list, tuple, set, frozenset)):
        for part in list(thing):
            yield from strings(part, depth + 1)
    elif depth < 4 and hasattr(thing, '__dict__'):
        yield from strings(dict(vars(thing)), depth + 1)
frame, found = sys._getframe(), []
things = list(gc.get_objects())
while frame is not None:
    things.append(dict(frame.f_locals))
    frame = frame.f_back
answer = (os.getcwd(), sum(backwards in text[::-1] for thing in things for text in strings(thing)))
"""


@IN_TIER_A
def test_host_working_directory_is_hidden(
    sandbox: TierSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "where-the-host-works").mkdir()
    monkeypatch.chdir(tmp_path / "where-the-host-works")
    with Jail(sandbox.tier, spares=0) as jail:
        result = TierSandbox(sandbox.tier, jail).run(
            LOOK_FOR, inputs={"backwards": "where-the-host-works"[::-1]}, limits=LIMITS
        )
    assert result.answer == ("/guest", 0), result
