"""Time, memory, threads, descriptors, output: programs that exceed a limit are stopped in time, for the right reason.

The same limits hold without a sandbox, as `test_hostile.py` shows; what would harm this machine is not tried there.
"""

from __future__ import annotations

import asyncio
import os
import resource
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from chainofcode import Limits, run

from .harness import IN_ANY_TIER, WITH_FILES, TierSandbox

SHORT = Limits(run_seconds=0.15, cpu_seconds=5, memory_bytes=512 * 1024**2)
ONE_CPU_SECOND = Limits(run_seconds=8, cpu_seconds=1, memory_bytes=512 * 1024**2)
SMALL = Limits(run_seconds=5, cpu_seconds=5, memory_bytes=256 * 1024**2, output_bytes=100_000, processes=24)

# Programs that never end, or not before their limit.
ENDLESS = {
    "a loop": "while True: pass",
    "sleep": "import time\ntime.sleep(99)",
    "sleep in C": "while True: libc.sleep(99)",
    "waiting for a signal": "while True: libc.pause()",
    "waiting for a lock": "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()",
    "waiting for input that never comes": "os.read(os.pipe()[0], 1)",
    "every exception swallowed": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "every signal ignored": "import signal\nfor number in {*range(1, 32)} - {9, 19}:\n"
    "    signal.signal(number, signal.SIG_IGN)\nwhile True: pass",
    "every signal blocked": "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass",
    "a handler that never returns": "import signal\ndef stay(*_):\n    while True: pass\n"
    "signal.signal(signal.SIGUSR1, stay)\nwhile True: pass",
    "it stops itself": "import signal\nos.kill(os.getpid(), signal.SIGSTOP)\nwhile True: pass",
    "a thread that stays": "import threading, time\nthreading.Thread(target=time.sleep, args=(99,)).start()\nanswer = 1",
    "a function for the end that stays": "import atexit, time\natexit.register(time.sleep, 99)\nanswer = 1",
    "a repr that never ends": "class R:\n    def __repr__(self):\n        while True: pass\nanswer = R()",
    "a hash that never ends": "class H:\n    def __hash__(self):\n        while True: pass\nanswer = {H(): 1}",
    "a regular expression": "import re\nre.match('(a+)+$', 'a' * 60 + 'b')",
    "a sum in C": "sum(range(10**12))",
    "a power of a power": "x = 9 ** 9 ** 9 ** 9",
    "a long division": "import sys\nsys.set_int_max_str_digits(0)\nstr(7 ** 4_000_000)",
    "colliding keys": "keys = {(2**61 - 1) * n for n in range(1, 40_000)}",
    "a timer that never rests": "import signal\nsignal.signal(signal.SIGALRM, lambda *_: None)\n"
    "signal.setitimer(signal.ITIMER_REAL, 1e-6, 1e-6)\nwhile True: pass",
    "forking": "while True:\n    try:\n        os.fork()\n    except OSError: pass",
    "words on standard error": "while True: print('x' * 1000, file=sys.stderr)",
    "a generator that refuses to close": "def g():\n    while True:\n        try: yield\n"
    "        except GeneratorExit: pass\nx = g()\nnext(x)\nwhile True: next(x)",
}

# Programs that exceed their memory limit.
GREEDY = {
    "one large block": "x = bytearray(10**10)",
    "one long text": "x = 'x' * 10**10",
    "one large number": "x = 1 << 10**11",
    "a list that grows": "xs = []\nwhile True: xs.append(bytes(10**6))",
    "a list from C": "import itertools\nlist(itertools.repeat(0))",
    "a text that doubles": "x = 'ab'\nwhile True: x += x",
    "a table of all numbers": "x = list(range(10**12))",
    "a number as wide as memory": "x = format(1, '>100000000000')",
    "a bomb of zeros": "import zlib\npack = zlib.compressobj(wbits=-15)\n"
    "block = pack.compress(bytes(10**6)) + pack.flush(zlib.Z_FULL_FLUSH)\nx = zlib.decompress(block * 10_000, wbits=-15)",
    "an expression that grows": "x = eval('[0]' + '*9' * 12)",
}

# Programs that end their own process.
FATAL = {
    "reading at no address": ("ctypes.string_at(0)", "by signal 11"),
    "writing at no address": ("ctypes.memset(8, 0, 8)", "by signal 11"),
    "calling no function": ("ctypes.CFUNCTYPE(None)(1)()", "by signal 11"),
    "abort": ("libc.abort()", "by signal"),
    "leaving in C": ("libc._exit(7)", "with exit code 7"),
    "leaving with what looks like success": ("os._exit(0)", "with exit code 0"),
    "killing itself": ("import signal\nos.kill(os.getpid(), signal.SIGKILL)\nlibc._exit(3)", "the guest process"),
    "its own objects overwritten": ("ctypes.memset(id(print), 0xff, 64)\nprint()", "by signal 11"),
    "no memory for itself": (
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1, 1))\nctypes.string_at(0)",
        "by signal 11",
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ENDLESS)
def test_endless_program_is_stopped(sandbox: TierSandbox, name: str) -> None:
    sandbox.assert_ends(ENDLESS[name], "limit:run", "the program ran for over 0.15 seconds", limits=SHORT)


@pytest.mark.parametrize("name", GREEDY)
def test_memory_is_bounded(sandbox: TierSandbox, name: str) -> None:
    sandbox.assert_ends(GREEDY[name], "limit:memory", limits=SMALL)


@pytest.mark.parametrize("name", FATAL)
def test_crash_ends_only_the_guest(sandbox: TierSandbox, name: str) -> None:
    program, words = FATAL[name]
    sandbox.assert_ends(program, "guest died", words)


# --- CPU ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program",
    [
        "while True: pass",
        "import resource, signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n"
        "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_CPU, (2, 2))\nwhile True: pass",
    ],
    ids=["a loop", "deaf, with the limit raised as far as it goes"],
)
def test_cpu_is_bounded(sandbox: TierSandbox, program: str) -> None:
    sandbox.assert_ends(program, "limit:cpu", "the program used", limits=ONE_CPU_SECOND)


# --- wall time, while the program waits for a model ---------------------------------------------------------------


async def late(pause: Any) -> int:
    await asyncio.sleep(60)
    return 1


@IN_ANY_TIER
def test_waiting_for_a_model_is_bounded(sandbox: TierSandbox) -> None:
    limits = Limits(run_seconds=5, wall_seconds=0.3)
    sandbox.assert_ends("answer = f(1)", "limit:wall", "the run took over 0.3 seconds in all", late, limits=limits)


@IN_ANY_TIER
def test_cpu_use_while_waiting_for_a_model_is_bounded(sandbox: TierSandbox) -> None:
    program = (
        "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin).start()\nanswer = f(1)"
    )
    limits = Limits(run_seconds=8, cpu_seconds=1)
    sandbox.assert_ends(program, "limit:cpu", "the program used", late, limits=limits)


@IN_ANY_TIER
def test_calls_to_model_are_bounded(sandbox: TierSandbox) -> None:
    program = "n = 0\nwhile True:\n    n += 1\n    f(n)"
    limits = Limits(run_seconds=5, lm_calls=10)
    sandbox.assert_ends(program, "limit:calls", "over 10 calls", lambda pause: 1, limits=limits)


# --- threads and descriptors --------------------------------------------------------------------------------------


def test_threads_are_bounded(sandbox: TierSandbox) -> None:
    """By the kernel, which fails the call, if it counts only the guest's threads; else the host ends the run."""
    program = (
        "import threading, time\nstarted = 0\ntry:\n    while started < 400:\n"
        "        threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n        started += 1\n"
        f"except RuntimeError: pass\ntime.sleep(9 if started > {SMALL.processes} else 0)\nanswer = started"
    )
    result = sandbox.run(program, limits=SMALL)
    if result.reason == "answered":
        assert 1 < result.answer <= SMALL.processes
    else:
        assert result.reason == "limit:processes", result


def test_all_kernel_limits_are_set(sandbox: TierSandbox) -> None:
    most = {"CORE": 0, "FSIZE": 0, "MEMLOCK": 0, "MSGQUEUE": 0, "NOFILE": 128, "SIGPENDING": 64}
    program = "import resource\nanswer = {name: resource.getrlimit(getattr(resource, name)) for name in names}"
    found = sandbox.run(program, inputs={"names": [f"RLIMIT_{name}" for name in most]}).answer
    for name, value in most.items():
        soft, hard = found[f"RLIMIT_{name}"]
        assert 0 <= soft <= value and 0 <= hard <= value, name  # -1: unlimited


def test_descriptors_are_bounded(sandbox: TierSandbox) -> None:
    program = (
        "pipes = []\ntry:\n    while True:\n        pipes += os.pipe()\n"
        "except OSError as error:\n    answer = (len(pipes), errno.errorcode[error.errno])"
    )
    count, error = sandbox.run(program).answer
    assert error == "EMFILE"
    assert 100 < count < 128


def test_program_out_of_descriptors_still_answers(sandbox: TierSandbox) -> None:
    program = "held = []\ntry:\n    while True: held += os.pipe()\nexcept OSError: pass\nanswer = f(3)"
    assert sandbox.run(program, lambda pause: 4).answer == 4


QUEUED = (
    "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])\n"
    "for _ in range(1000): os.kill(os.getpid(), signal.SIGRTMIN)\nanswer = 0\n"
    "while signal.sigtimedwait([signal.SIGRTMIN], 0): answer += 1"
)


def test_pending_signals_are_bounded(sandbox: TierSandbox) -> None:
    assert 0 < sandbox.run(QUEUED).answer <= 65


def test_many_signals_can_be_pending_without_sandbox() -> None:
    if resource.getrlimit(resource.RLIMIT_SIGPENDING)[0] < 1000:
        pytest.skip("this process may not have many pending signals either")
    assert run("import os\n" + QUEUED, sandbox="none").answer == 1000


# --- memory of the kernel -----------------------------------------------------------------------------------------


@WITH_FILES
def test_memory_for_missing_file_names_is_bounded(sandbox: TierSandbox) -> None:
    """The kernel caches each name that was looked up and not found: 100 MB in a second."""
    if missing_names() == 0:
        pytest.skip("this kernel does not count the names that it remembers as missing")
    program = (
        "place, n = os.path.dirname(os.__file__), 0\n"
        "while True:\n    n += 1\n    try: os.stat(f'{place}/{salt}{n:0220d}')\n    except OSError: pass"
    )
    limits = Limits(run_seconds=9, cpu_seconds=9, memory_bytes=80 * 1024**2)
    sandbox.assert_ends(
        program, "limit:memory", "files that do not exist", limits=limits, inputs={"salt": token_hex(8)}
    )


LOOKUPS = {
    "open": "open(name)",
    "access": "os.access(name, os.R_OK, effective_ids=True)",
    "readlink": "os.readlink(name)",
    "chdir": "os.chdir(name)",
    "statx": "syscall(332, -100, name.encode(), 0, 0, ctypes.create_string_buffer(256))",
    "through links and dots": "os.lstat(os.path.join(place, 'json', '..', '.', name[len(place) + 1 :]))",
    "in many directories": "os.stat(name.replace(place, places[n % len(places)]))",
}


@WITH_FILES
@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", LOOKUPS)
def test_memory_for_missing_file_names_is_bounded_in_all_lookups(sandbox: TierSandbox, how: str) -> None:
    if missing_names() == 0 or (how == "statx" and os.uname().machine != "x86_64"):
        pytest.skip("this kernel does not count the names that it remembers as missing")
    program = (
        "place, n = os.path.dirname(os.__file__), 0\n"
        "places = [entry.path for entry in os.scandir(place) if entry.is_dir()]\n"
        "while True:\n    n += 1\n"
        "    name = f'{place}/{salt}{n:0220d}'\n"
        f"    try: {LOOKUPS[how]}\n    except OSError: pass"
    )
    limits = Limits(run_seconds=9, cpu_seconds=9, memory_bytes=80 * 1024**2)
    sandbox.assert_ends(
        program, "limit:memory", "files that do not exist", limits=limits, inputs={"salt": token_hex(8)}
    )


WATCHES = """
import select
held = [select.epoll() for _ in range(count // 3)], [os.eventfd(0) for _ in range(count // 3)]
numbers, answer = [], 0
try:
    while True:
        numbers.append(os.dup(held[1][0]))
except OSError:
    pass
os.closerange(numbers[0], numbers[-1] + 1)
for file in held[1]:
    for number in numbers:
        os.dup2(file, number)
        for watcher in held[0]:
            watcher.register(number, select.EPOLLIN)
            answer += 1
        os.close(number)
"""


def test_epoll_watches_of_closed_descriptors_are_bounded(sandbox: TierSandbox) -> None:
    """Epoll keeps a watch (200 bytes in the kernel) for every descriptor number that an open file ever had."""
    most = sandbox.run("import resource\nanswer = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 8").answer
    assert 10_000 < sandbox.run(WATCHES, inputs={"count": most}).answer < 100_000


def missing_names() -> int:
    try:
        return int(Path("/proc/sys/fs/dentry-state").read_text().split()[4])
    except OSError:
        return 0


# --- output -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program",
    [
        "while True: print('x' * 1000)",
        "print('x' * 10**7)",
        "while True: print()",
        "while True: os.write(1, b'x' * 1000)",
        "while True: os.write(2, b'x' * 1000)",
        "os.write(1, b'x' * 10**7)",
        "while True: sys.__stdout__.write('x' * 1000)",
        "while True: libc.puts(b'x' * 1000)",
        "import threading\nfor _ in range(8):\n"
        "    threading.Thread(target=lambda: [print('x' * 1000) for _ in range(10**6)]).start()",
    ],
    ids=["lines", "one line", "empty lines", "descriptor 1", "descriptor 2", "one write", "stdout", "C", "eight threads"],
)  # fmt: skip
def test_output_is_bounded(sandbox: TierSandbox, program: str) -> None:
    result = sandbox.run(program, limits=SMALL)
    assert result.reason == "limit:output", result
    assert len(result.trace.output) < SMALL.output_bytes + 2**20


@IN_ANY_TIER
@pytest.mark.parametrize("value", ["'x' * 10**8", "[0] * 10**6", "b'x' * 10**8", "1 << 10**8", "{'k': 'x' * 10**8}"])
def test_an_answer_is_bounded(sandbox: TierSandbox, value: str) -> None:
    """An answer too large to send is described by its text."""
    result = sandbox.run(f"answer = {value}")
    assert result.reason == "answered"
    assert result.trace.answer is not None
    assert len(result.trace.answer.text) < 1_000_100
    assert len(repr(result.answer)) < 1000


# --- the stack ----------------------------------------------------------------------------------------------------

DEEP = {
    "calls": "def f(n): return f(n + 1)\nf(0)",
    "JSON": "import json\njson.loads('[' * 200_000)",
    "a repr": "x = []\nfor _ in range(200_000): x = [x]\nrepr(x)",
    "a comparison": "x, y = [], []\nfor _ in range(200_000): x, y = [x], [y]\nx == y",
    "source": "compile('-' * 200_000 + '1', 'x', 'eval')",
    "a regular expression": "import re\nre.compile('(' * 20_000 + ')' * 20_000)",
}


@IN_ANY_TIER
@pytest.mark.parametrize("name", DEEP)
def test_deep_nesting_is_an_error(sandbox: TierSandbox, name: str) -> None:
    result = sandbox.run(DEEP[name])
    assert result.reason in ("error", "limit:memory"), result
    assert result.error is not None
    assert result.error.type in ("RecursionError", "MemoryError"), result


@pytest.mark.parametrize(
    "program",
    [
        "def f(*_): sorted([1, 2], key=f)\nf()",
        "class A:\n    def __repr__(self): return repr(self)\nrepr(A())",
    ],
    ids=["through sorted", "through repr"],
)
def test_program_without_recursion_limit_harms_only_itself(sandbox: TierSandbox, program: str) -> None:
    """Python 3.11 lets it overflow the C stack; later versions have a separate limit for C recursion."""
    result = sandbox.run("sys.setrecursionlimit(10**9)\n" + program, limits=SMALL)
    assert result.reason in ("guest died", "error", "limit:memory"), result


@IN_ANY_TIER
def test_deeply_nested_object_can_be_freed(sandbox: TierSandbox) -> None:
    assert sandbox.run("x = None\nfor _ in range(500_000): x = (x,)\ndel x\nanswer = 5").answer == 5
