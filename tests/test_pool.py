"""Regressions found in a review of the sandbox: unusual hosts, many programs at once, grants, dying processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from processes import descendants, is_alive

from chainofcode import Limits, SandboxError, arun, run
from chainofcode.sandbox import Jail

ATTEMPT = """
def attempt(action, *arguments):
    try:
        return action(*arguments)
    except OSError as error:
        return type(error).__name__
"""


def host(code: str, *, before: str = "", **options: Any) -> subprocess.CompletedProcess[str]:
    """Run code in a new host process, after shell commands that change what the process inherits."""
    command = ["bash", "-c", f'{before}exec "$0" -c "$1"', sys.executable, "from chainofcode import *\n" + code]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


# --- breaches -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tier", ["A", "B"])
def test_open_with_access_mode_3_is_denied(tier: str, tmp_path: Path) -> None:
    """For access mode 3, Landlock checks no right at all."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    program = ATTEMPT + (
        "import os\nanswer = [attempt(os.open, path, mode) for path in (victim, '/dev/ptmx', '/dev/null')"
        " for mode in (3, 3 | os.O_TRUNC, os.O_TRUNC, os.O_PATH)]"
    )
    found = run(program, inputs={"victim": str(victim)}, sandbox=tier).answer
    assert set(found) <= {"PermissionError", "FileNotFoundError"}, found
    assert victim.read_text() == "precious"


def test_guest_cannot_lock_readable_files(tmp_path: Path) -> None:
    import fcntl

    shared = tmp_path / "shared"
    shared.write_text("x")
    program = ATTEMPT + (
        "import fcntl\nfile = open(path)\n"
        "answer = [attempt(fcntl.lockf, file, fcntl.LOCK_SH), attempt(fcntl.flock, file, fcntl.LOCK_SH)]\nf(1)"
    )

    def look(pause: Any) -> int:
        with shared.open("r+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return 1

    assert run(program, look, inputs={"path": str(shared)}, reads=(str(shared),)).answer == ["PermissionError"] * 2


def test_a_guest_cannot_fill_the_hosts_memory_with_frames() -> None:
    program = (
        'import os, struct\nbody = b\'{"type":"ran","steps":[{"statement":0,"visit":1,"delta":{"x":"\' '
        "+ b'y' * 1_000_000 + b'\"}}]}'\nframe = struct.pack('<I', len(body)) + body\n"
        "while True:\n    sent = 0\n    while sent < len(frame): sent += os.write(4, frame[sent:])"
    )
    result = run(program, limits=Limits(run_seconds=30, frame_bytes=2_000_000))
    assert result.reason == "guest died"
    assert "over 32,000,000 bytes in all" in result.error.message  # type: ignore[union-attr]


def test_a_guest_cannot_kill_a_host_by_closing_its_pipe() -> None:
    program = (
        "import json, os, struct\nos.close(3)\n"
        "body = json.dumps({'type': 'paused', 'id': 1, 'kind': 'call', 'name': 'f', 'text': 'f()'}).encode()\n"
        "os.write(4, struct.pack('<I', len(body)) + body)\nwhile True: pass"
    )
    code = (
        "import signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
        f"print(run({program!r}, lambda pause: 1, limits=Limits(run_seconds=1)).reason)"
    )
    done = host(code)
    assert (done.returncode, done.stdout) == (0, "limit:run\n"), done.stderr


def test_partial_frame_does_not_hide_a_limit() -> None:
    program = "import os, struct\nos.write(4, struct.pack('<I', 100) + b'half')\nwhile True: pass"
    assert run(program, limits=Limits(run_seconds=0.5)).reason == "limit:run"


# --- unusual hosts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "before",
    ["trap '' CHLD; ", "ulimit -t 30; ", "ulimit -v 3000000; ", "ulimit -n 64; ", "exec 0<&- 1>&- 2>&-; "],
    ids=["SIGCHLD ignored", "CPU limited", "memory limited", "few descriptors", "nothing open"],
)
def test_host_with_unusual_inherited_settings(before: str, tmp_path: Path) -> None:
    code = (
        "import sys\nresult = run('answer = f(1)', lambda p: 41)\n"
        f"open({str(tmp_path / 'out')!r}, 'w').write(repr(result))"
    )
    done = host(code, before=before)
    assert "answer=41" in (tmp_path / "out").read_text(), done.stderr


def test_a_host_that_blocks_signals() -> None:
    code = (
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 60))\n"
        "print(run('x = 1\\nwhile True: pass', limits=Limits(run_seconds=0.5)).error.line)"
    )
    assert host(code).stdout == "2\n"


def test_host_works_in_a_deleted_directory(tmp_path: Path) -> None:
    place = tmp_path / "gone"
    place.mkdir()
    done = host("import os; os.rmdir(os.getcwd()); print(run('answer = 5').answer)", cwd=place)
    assert done.stdout == "5\n", done.stderr


# --- many programs at once ----------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_300_programs_at_once() -> None:
    async def crowd() -> list[Any]:
        with Jail() as jail:
            results = await asyncio.gather(*[arun(f"answer = {n}", sandbox=jail) for n in range(300)])
        return [result.answer for result in results]

    assert asyncio.run(crowd()) == list(range(300))


def test_cancelled_runs_leave_no_guest() -> None:
    async def cancel_many() -> tuple[int, int, int, int]:
        with Jail(spares=0) as jail:
            await arun("answer = 1", sandbox=jail)
            before = len(os.listdir("/proc/self/fd")), len(descendants(os.getpid()))
            for n in range(60):
                task = asyncio.create_task(arun("answer = 1", sandbox=jail))
                await asyncio.sleep(n / 20_000)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await arun("answer = 1", sandbox=jail)
            await asyncio.sleep(0.5)
            await arun("answer = 1", sandbox=jail)
            await asyncio.sleep(0.2)
            return *before, len(os.listdir("/proc/self/fd")), len(descendants(os.getpid()))

    fds, processes, fds_after, processes_after = asyncio.run(cancel_many())
    assert fds_after <= fds
    assert processes_after <= processes


def test_many_different_grants_at_once(tmp_path: Path) -> None:
    for n in range(8):
        (tmp_path / f"{n}.txt").write_text(str(n))

    async def all_of_them() -> list[Any]:
        with Jail() as jail:
            runs = [
                arun("answer = open(path).read()", inputs={"path": path}, reads=(path,), sandbox=jail)
                for path in (str(tmp_path / f"{n}.txt") for n in range(8))
            ]
            return [result.answer for result in await asyncio.gather(*runs)]

    assert asyncio.run(all_of_them()) == [str(n) for n in range(8)]


# --- grants -------------------------------------------------------------------------------------------------------


def test_overlapping_and_large_grants_are_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g" / "sub").mkdir(parents=True)
    (tmp_path / "g" / "sub" / "f.txt").write_text("deep")
    (tmp_path / "..data").write_text("dots")
    for reads in (("g", "g/sub"), ("g/sub", "g"), (".",)):
        assert run("answer = open('g/sub/f.txt').read()", reads=reads).answer == "deep"
    assert run("answer = open('..data').read()", reads=("..data",)).answer == "dots"
    for n in range(4000):
        (tmp_path / f"a file with a long name that takes its room {n:05}").touch()
    assert run("answer = open('g/sub/f.txt').read()", reads=(".",)).answer == "deep"


def test_replaced_file_has_its_new_content(tmp_path: Path) -> None:
    granted = tmp_path / "data.txt"
    granted.write_text("old")
    with Jail() as jail:
        program, given = "answer = open(path).read()", {"path": str(granted)}
        assert run(program, inputs=given, reads=(str(granted),), sandbox=jail).answer == "old"
        (tmp_path / "new").write_text("new")
        (tmp_path / "new").rename(granted)
        assert run(program, inputs=given, reads=(str(granted),), sandbox=jail).answer == "new"


def test_directory_of_packages_can_be_granted() -> None:
    site = str(Path(pytest.__file__).parent.parent)
    result = run("import os\nanswer = 'pytest' in os.listdir(path)", inputs={"path": site}, reads=(site,))
    assert result.answer is True


def test_tier_c_rejects_file_grants(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="granting files needs tier A or B"):
        run("answer = 1", reads=(str(tmp_path),), sandbox="C")


# --- dying processes ----------------------------------------------------------------------------------------------


def gone(pids: list[int]) -> bool:
    for _ in range(100):
        if not any(map(is_alive, pids)):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("tier", ["A", "B", "C"])
def test_guests_die_with_their_zygote(tier: str) -> None:
    async def kill() -> list[int]:
        with Jail(tier) as jail:
            runs = asyncio.Event()
            program = "f(1)\nimport time\ntime.sleep(60)"
            task = asyncio.create_task(arun(program, lambda pause: runs.set(), sandbox=jail))
            await runs.wait()
            (zygote,) = jail._zygotes.values()
            family = [zygote._process.pid, *descendants(zygote._process.pid)]
            assert len(family) >= 3
            zygote._process.kill()
            result = await task
            assert result.reason == "guest died"
            return family

    assert gone(asyncio.run(kill()))


def test_guests_die_with_a_host_killed_during_package_import(tmp_path: Path) -> None:
    (tmp_path / "slow_package.py").write_text("import time\ntime.sleep(60)\n")
    code = "from chainofcode import run; run('answer = 1', packages=('slow_package',))"
    parent = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(tmp_path)})
    family: list[int] = []
    while len(family) < 3 and parent.poll() is None:
        family = descendants(parent.pid)
        time.sleep(0.02)
    time.sleep(0.3)
    family = descendants(parent.pid)
    parent.kill()
    parent.wait()
    assert family
    assert gone(family)


# --- expensive values ---------------------------------------------------------------------------------------------

FORGE = """
import json, os, struct
def forge(value):
    body = json.dumps({"type": "ended", "reason": "answered", "text": "lie", "answer": value}).encode()
    frame = struct.pack("<I", len(body)) + body
    while frame:
        frame = frame[os.write(4, frame):]
    os._exit(0)
"""


@pytest.mark.parametrize(
    "value",
    [
        '{"$set": [{"$int": hex((2**61 - 1) * k)} for k in range(2, 200_000)]}',
        '{"$dict": [[{"$int": hex((2**61 - 1) * k)}, 1] for k in range(2, 100_000)]}',
        '{"$fraction": "0x" + "7" * 400_000 + "/0x" + "3" * 400_000}',
        "[[]] * 3_000_000",
    ],
    ids=["colliding set", "colliding dict", "fraction", "many lists"],
)
def test_expensive_answers_are_bounded(value: str) -> None:
    started = time.monotonic()
    result = run(FORGE + f"forge({value})", limits=Limits(run_seconds=20))
    assert result.reason in ("answered", "guest died")
    assert len(repr(result)) < 1000
    assert result.trace.answer is not None
    assert time.monotonic() - started < 12  # most of it is the guest's own work


def test_work_after_a_forged_pause_counts() -> None:
    program = (
        'import os, struct\nbody = b\'{"type":"paused","id":1,"kind":"call","name":"x","text":"x()"}\'\n'
        "os.write(4, struct.pack('<I', len(body)) + body)\nwhile True: pass"
    )

    async def slow(pause: Any) -> int:
        await asyncio.sleep(20)
        return 1

    started = time.monotonic()
    assert run(program, slow, limits=Limits(run_seconds=0.5)).reason == "limit:run"
    assert time.monotonic() - started < 8


def test_changes_to_stdin_do_not_reach_the_next_program() -> None:
    program = "import fcntl\nbefore = fcntl.fcntl(0, 3)\nfcntl.fcntl(0, 4, before | 0o6000)\nanswer = before"
    with Jail() as jail:
        assert len({run(program, sandbox=jail).answer for _ in range(3)}) == 1
