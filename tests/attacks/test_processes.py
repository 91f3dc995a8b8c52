"""Other processes: a program cannot start, signal, watch or slow down any, and does not outlive its run."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
from processes import descendants, is_alive

from chainofcode import Limits, run
from chainofcode.sandbox import Jail

from .harness import (
    IN_TIER_A,
    KERNEL,
    LIMITS,
    PRELUDE,
    Attack,
    HostFiles,
    TierSandbox,
    assert_succeeds_unconfined,
    safe_unconfined,
)

# If a child is created, it exits at once with `_exit`: it must not write frames in its parent's name.
LEAVE = "def leave(pid):\n    if pid == 0:\n        libc._exit(0)\n    os.waitpid(pid, 0)\n"
RAISING = "it takes a right that not even root has everywhere"

STARTING = [
    Attack("fork", LEAVE + "answer = tried(lambda: leave(os.fork()))"),
    Attack("fork in C", LEAVE + "answer = libc.fork()\nif answer >= 0:\n    leave(answer)\n    answer = True", refused=-1),
    Attack("forkpty", LEAVE + "answer = tried(lambda: leave(os.forkpty()[0]))", {"A": "ENOENT", "B": "EACCES", "C": "EPERM"}),
    Attack("vfork", "answer = libc.vfork()", refused=-1, unsafe="its child would run on its parent's stack"),
    Attack("posix_spawn", LEAVE + "answer = tried(lambda: leave(os.posix_spawn('/bin/true', ['true'], {})))"),
    Attack("subprocess", "import subprocess\nanswer = tried(subprocess.run, ['true'])"),
    Attack("a shell", "answer = os.system('true') == 0", refused=False),
    Attack("a shell in C", "answer = libc.system(b'true') == 0", refused=False),
    Attack("popen", "answer = tried(os.popen, 'true')"),
    Attack(
        "multiprocessing",
        "def start():\n    import multiprocessing.context\n"
        "    multiprocessing.context.ForkProcess(target=len, args=('',)).start()\nanswer = tried(start)",
        {"A": "EPERM", "B": "EPERM", "C": "ModuleNotFoundError"},
    ),
    Attack(
        "execute a program",
        "answer = tried(os.execv, '/bin/true', ['true'])",
        unsafe="it would replace the guest, which then says nothing",
    ),
    Attack("execute what is open", "answer = tried(os.execve, 0, ['x'], {})", bare="EACCES"),
    Attack("a file in memory to execute", "answer = tried(os.memfd_create, 'x')"),
]  # fmt: skip

TOUCHING = [
    Attack("signal its parent", "answer = tried(os.kill, other, 0)"),
    Attack("signal everyone", "answer = tried(os.kill, -1, 0)"),
    Attack("signal its group", "answer = tried(os.kill, 0, 0)"),
    Attack("signal its parent's group", "answer = tried(os.killpg, other, 0)", bare=KERNEL),
    Attack(
        "signal every process",
        "numbers = {*range(1, 500), other} - {os.getpid()}\n"
        "answer = any(tried(os.kill, number, 0) is True for number in numbers)",
        refused=False,
    ),
    Attack("a handle on its parent", "answer = tried(os.pidfd_open, other)"),
    Attack("limits of its parent", "import resource\nanswer = tried(resource.prlimit, other, resource.RLIMIT_NOFILE)"),
    Attack(
        "limits of a process by its number, even its own",
        "import resource\nanswer = tried(resource.prlimit, os.getpid(), resource.RLIMIT_NOFILE)",
    ),
    Attack("priority of its parent", "answer = tried(lambda: os.setpriority(0, other, os.getpriority(0, other)))"),
    Attack("own priority", "answer = tried(os.nice, 0)"),
    Attack("processors of its parent", "answer = tried(lambda: os.sched_setaffinity(other, os.sched_getaffinity(other)))"),
    Attack("own processors", "answer = tried(lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)))"),
    Attack(
        "scheduling of its parent",
        "answer = tried(lambda: os.sched_setscheduler(other, os.SCHED_OTHER, os.sched_param(0)))",
    ),
    Attack("become root", "answer = tried(os.setuid, 0)", for_root=True),
    Attack("become root's group", "answer = tried(os.setgid, 0)", for_root=True),
    Attack("leave its groups", "answer = tried(os.setgroups, [])", for_root=True),
    Attack("outlive its parent", "answer = libc.prctl(1, 0, 0, 0, 0)", refused=-1, bare=0),
    Attack("let others look", "answer = libc.prctl(4, 1, 0, 0, 0)", refused=-1, bare=0),
    Attack(
        "raise a limit",
        "import resource\nnames = ('AS', 'CORE', 'CPU', 'FSIZE', 'MEMLOCK', 'MSGQUEUE', 'NOFILE', 'SIGPENDING')\n"
        "def lift(which):\n    hard = resource.getrlimit(which)[1]\n    resource.setrlimit(which, (hard, hard + 1))\n"
        "answer = [name for name in names if tried(lift, getattr(resource, f'RLIMIT_{name}')) is True]",
        refused=[],
        unsafe=RAISING,
    ),
    Attack(
        "lift a limit altogether",
        "import resource\nanswer = tried(resource.setrlimit, resource.RLIMIT_AS, (-1, -1))",
        refused="ValueError",
        unsafe=RAISING,
    ),
]  # fmt: skip
ATTACKS = [*STARTING, *TOUCHING]


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_attack_is_refused(sandbox: TierSandbox, attack: Attack, host_files: HostFiles) -> None:
    sandbox.assert_refused(attack, host_files)


@pytest.mark.parametrize("attack", safe_unconfined(ATTACKS), ids=str)
def test_attack_succeeds_without_sandbox(attack: Attack, host_files: HostFiles) -> None:
    assert_succeeds_unconfined(attack, host_files)


# --- namespaces ---------------------------------------------------------------------------------------------------

NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")


@IN_TIER_A
def test_guest_has_its_own_namespaces(sandbox: TierSandbox) -> None:
    seen: list[dict[str, str]] = []

    def look(pause: object) -> int:
        """While the program waits for a value: the zygote's children have children of their own, a guest has none."""
        guests = [pid for pid in descendants(zygote._process.pid) if not descendants(pid)]
        seen.extend(filter(None, map(namespaces_of, guests)))
        return 1

    with Jail(sandbox.tier, spares=0) as jail:
        run("answer = 1", sandbox=jail)
        (zygote,) = jail._zygotes.values()
        assert run("answer = f(1)", look, sandbox=jail).answer == 1
    if not seen:
        pytest.skip("this user may not look at the namespaces of guests")
    own = namespaces_of(os.getpid())
    assert not [name for found in seen for name in NAMESPACES if found[name] == own[name]]


def namespaces_of(pid: int) -> dict[str, str]:
    try:
        return {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in NAMESPACES}
    except OSError:
        return {}


# --- outliving the run --------------------------------------------------------------------------------------------

LINGERING = {
    "a thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n",
    "a thread that spins": "import threading\ndef spin():\n    while True: pass\n"
    "threading.Thread(target=spin, daemon=True).start()\n",
    "an alarm": "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nsignal.setitimer(0, 0.01, 0.01)\n",
    "a function for the end": "import atexit, time\natexit.register(time.sleep, 0.2)\n",
    "a destructor": "class Late:\n    def __del__(self):\n        import time\n        time.sleep(60)\nlate = Late()\n",
    "deaf to signals": "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n",
    "copies of its pipes": "pipes = [os.dup(fd) for fd in (1, 2, 3, 4) for _ in range(20)]\n",
}


@pytest.fixture(scope="module")
def spareless(sandbox: TierSandbox) -> Iterator[TierSandbox]:
    """A jail without spare guests: between programs it has no guest."""
    with Jail(sandbox.tier, spares=0) as jail:
        run("answer = 1", sandbox=jail)
        yield TierSandbox(sandbox.tier, jail)


def jail_processes(spareless: TierSandbox) -> set[int]:
    """The processes of a jail without guests; tier A has one more, the first in its namespace."""
    (zygote,) = spareless.jail._zygotes.values()
    for _ in range(500):
        found = {number for number in descendants(zygote._process.pid) if is_alive(number)}
        if len(found) == (2 if spareless.tier in ("A", "A-") else 1):
            return found
        time.sleep(0.01)
    pytest.fail(f"processes are left: {found}")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ending", ["answer = 7", "while True: pass"], ids=["answers", "spins"])
@pytest.mark.parametrize("lingering", LINGERING)
def test_nothing_outlives_a_run(spareless: TierSandbox, lingering: str, ending: str) -> None:
    before = jail_processes(spareless)
    result = spareless.run(LINGERING[lingering] + ending, limits=Limits(run_seconds=0.4))
    assert result.reason == ("answered" if ending == "answer = 7" else "limit:run"), result
    assert jail_processes(spareless) == before


def test_process_in_own_session_outlives_run_without_sandbox() -> None:
    """Without a sandbox a process survives, so the test above can fail."""
    program = (
        "away, gone = os.pipe()\nchild = os.fork()\n"
        "if child == 0:\n    os.setsid()\n    os.write(gone, b'!')\n    os.closerange(1, 64)\n    libc.sleep(60)\n"
        "os.read(away, 1)\nanswer = child"
    )
    child = run(PRELUDE + program, sandbox="none", limits=LIMITS).answer
    try:
        assert is_alive(child)
    finally:
        os.kill(child, signal.SIGKILL)
