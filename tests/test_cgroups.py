"""Control groups: created for each guest if possible, removed however it ends, and cleaned up after a kill."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chainofcode import Limits, run
from chainofcode.sandbox import Jail
from chainofcode.sandbox.cgroups import GuestGroups, delegated, remove_stale
from chainofcode.sandbox.foreign import mounts

TOP = next((Path(path) for path, kind in mounts().items() if kind == "cgroup2"), None)
LIMITED = delegated()[0]


@pytest.fixture
def place() -> Iterator[Path]:
    """A control group for one test, if this machine allows creating one; it needs no controller."""
    if TOP is None or not os.access(TOP, os.W_OK):
        pytest.skip("this process may not make groups (cgroup v2)")
    own = TOP / f"coc-test-{os.getpid()}-{time.monotonic_ns()}"
    own.mkdir()
    yield own
    own.rmdir()  # fails if a group is left


def groups_in(place: Path) -> list[str]:
    """The names of the groups below a group. `os.walk` tolerates groups that are removed meanwhile."""
    return sorted(os.path.relpath(path, place) for path, _, _ in os.walk(place) if path != str(place))


def test_a_group_for_each_process(place: Path) -> None:
    groups = GuestGroups(place, ())
    with subprocess.Popen(["sleep", "60"]) as process:
        groups.add(1, process.pid).result()
        (home, group) = groups_in(place)
        assert (place / group / "cgroup.procs").read_text().split() == [str(process.pid)]
        assert group == f"{home}/1"
        process.kill()
    groups.remove(1)
    groups.add(2, 2**22 + 1).result()  # no such process
    groups.add(3, 2**22 + 1)
    groups.remove(3)
    groups.close()
    assert groups_in(place) == []
    groups.remove(2)  # like a guest that outlives its jail
    groups.close()


def test_groups_of_a_killed_host_are_removed_by_the_next(place: Path) -> None:
    code = (
        "import sys, pathlib, subprocess, time\nfrom chainofcode.sandbox.cgroups import GuestGroups\n"
        "groups = GuestGroups(pathlib.Path(sys.argv[1]), ())\n"
        "groups.add(1, subprocess.Popen(['sleep', '60']).pid).result()\nprint('ready', flush=True)\ntime.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(place)], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None and host.stdout.readline() == "ready\n"
        before = groups_in(place)
        remove_stale(place)
        assert groups_in(place) == before != []  # its host is alive
        host.send_signal(signal.SIGKILL)
    GuestGroups(place, ()).close()
    assert groups_in(place) == []


def test_groups_of_other_users_are_left_alone(place: Path) -> None:
    (place / "chainofcode-other").mkdir()
    os.chown(place / "chainofcode-other", 12345, -1)
    remove_stale(place)
    assert groups_in(place) == ["chainofcode-other"]
    (place / "chainofcode-other").rmdir()


@pytest.mark.parametrize(
    "program",
    ["answer = 1", "while True: pass", "import os\nos._exit(3)", "x = [0] * 10**10", "1 / 0"],
    ids=["answers", "spins", "dies", "takes memory", "fails"],
)
def test_a_jail_leaves_no_group(place: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """The groups are real, but have no controller."""
    monkeypatch.setattr(GuestGroups, "open", lambda: GuestGroups(place, ()))
    seen: list[int] = []
    with Jail(spares=2) as jail:
        for _ in range(3):
            run(program, sandbox=jail, limits=Limits(run_seconds=0.2))
            seen.append(len(groups_in(place)))
    assert max(seen) > 1  # the jail's own, and guests
    assert max(seen) < 8
    assert groups_in(place) == []


def test_jail_groups_of_killed_host_are_removed_by_the_next(place: Path) -> None:
    """Its guests die with it, and the next host removes its groups."""
    code = (
        "import sys, pathlib\nfrom chainofcode import run\nfrom chainofcode.sandbox.cgroups import GuestGroups\n"
        "GuestGroups.open = lambda: GuestGroups(pathlib.Path(sys.argv[1]), ())\n"
        "run('f(1)', lambda pause: print('ready', flush=True) or __import__('time').sleep(60))"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(place)], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None and host.stdout.readline() == "ready\n"
        host.send_signal(signal.SIGKILL)
    assert len(groups_in(place)) >= 2
    GuestGroups(place, ()).close()
    assert groups_in(place) == []


with_limits = pytest.mark.skipif(LIMITED is None, reason=f"no groups with limits here: {delegated()[2]}")


def own_groups() -> list[str]:
    assert LIMITED is not None
    return [name for name in groups_in(LIMITED) if name.startswith(f"chainofcode-{os.getpid()}-")]


@with_limits
def test_limits_are_set_and_groups_are_removed_afterwards() -> None:
    seen: dict[str, str] = {}

    def look(pause: object) -> int:
        for group in map((LIMITED or Path()).joinpath, own_groups()):
            if (group / "cgroup.procs").read_text().strip() and group.name.isdigit():
                for name in ("memory.max", "pids.max", "cpu.max"):
                    if (group / name).exists():
                        seen[name] = (group / name).read_text().strip()
        return 1

    limits = Limits(memory_bytes=300 << 20, processes=50)
    with Jail(spares=0) as jail:
        assert run("answer = f(1)", look, sandbox=jail, limits=limits).answer == 1
    assert seen["memory.max"] == str((300 << 20) + (96 << 20))
    assert seen.get("pids.max", "66") == "66"
    assert seen.get("cpu.max", "100000 100000") == "100000 100000"  # one processor
    assert own_groups() == []


@with_limits
@pytest.mark.parametrize("ending", ["while True: pass", "import os\nos._exit(3)", "x = [0] * 10**10"])
def test_programs_that_fail_leave_no_group(ending: str) -> None:
    with Jail(spares=2) as jail:
        for _ in range(3):
            run(ending, sandbox=jail, limits=Limits(run_seconds=0.2))
        asyncio.run(jail.status())
    assert own_groups() == []


@with_limits
def test_kernel_memory_is_limited() -> None:
    """The kernel's cache of missing file names is bounded, and freed when the program ends."""
    program = (
        "import os\nplace, n = os.path.dirname(os.__file__), 0\n"
        "while True:\n    n += 1\n    try: os.stat(f'{place}/{salt}{n:0220d}')\n    except OSError: pass"
    )
    before = slab_bytes()
    limits = Limits(run_seconds=5, memory_bytes=200 << 20)
    result = run(program, limits=limits, inputs={"salt": f"{time.monotonic_ns():x}"})
    assert result.reason in ("limit:run", "limit:memory"), result
    assert slab_bytes() - before < limits.memory_bytes


def slab_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("SReclaimable"))
