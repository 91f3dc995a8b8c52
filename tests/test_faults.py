"""Many programs, sixteen at a time, a third of them faulty: every run ends and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import resource
import tempfile
import time
from typing import Any

from conftest import ALL
from processes import descendants, resident_bytes

from chainofcode import Limits, Result, arun
from chainofcode.sandbox import Jail

PROGRAMS, AT_ONCE = 1000 if ALL else 100, 16
LIMITS = Limits(run_seconds=2, cpu_seconds=5, wall_seconds=30, memory_bytes=512 * 1024**2, output_bytes=50_000)
# Faulty programs, and the reasons with which they may end.
FAULTS = {
    "while True: pass": {"limit:run"},
    "import time\ntime.sleep(99)": {"limit:run"},
    "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\nwhile True: pass": {"limit:run"},
    "x = bytearray(10**10)": {"limit:memory"},
    "xs = []\nwhile True: xs.append(bytearray(10**8))": {"limit:memory", "limit:run"},
    "import os\nos._exit(9)": {"guest died"},
    "import os\nos.abort()": {"guest died"},
    "import ctypes\nctypes.string_at(1)": {"guest died"},
    "import os\nos.write(4, b'\\xff' * 100)": {"guest died"},
    "import os\nos.close(4)\nos.close(3)\nwhile True: pass": {"guest died", "limit:run"},
    "while True: print('x' * 1000)": {"limit:output"},
    "import os\nwhile True: os.write(1, b'x' * 1000)": {"limit:output"},
    "1 / 0": {"error"},
    "def f(n): return f(n + 1)\nf(0)": {"error"},
    "answer = unknown(1)": {"emulation failed"},
    "import threading, time\n"
    "while True: threading.Thread(target=time.sleep, args=(99,), daemon=True).start()": {"error", "limit:processes", "limit:run"},
}  # fmt: skip


def resources_in_use() -> tuple[int, int, set[str]]:
    """Resources in use: descendants, descriptors, temporary directories of this project."""
    directories = {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("chainofcode-")}
    return len(descendants(os.getpid())), len(os.listdir("/proc/self/fd")), directories


def grown(before: tuple[int, int, set[str]]) -> list[Any]:
    """Resources of which more are in use than before."""
    return [(now, then) for now, then in zip(resources_in_use(), before, strict=True) if not now <= then]


async def settle(jail: Jail, children: int) -> None:
    """Wait until dead processes are reaped."""
    for _ in range(100):
        if len(descendants(os.getpid())) <= children:
            return
        await asyncio.sleep(0.05)


def zygote_bytes() -> int:
    return sum(resident_bytes(pid) for pid in descendants(os.getpid()))


async def run_many() -> None:
    slots = asyncio.Semaphore(AT_ONCE)
    faults = list(FAULTS.items())

    async def run_one(n: int, jail: Jail) -> None:
        program, reasons = faults[n // 3 % len(faults)] if n % 3 == 0 else (f"answer = f({n}) + 1", {"answered"})
        async with slots:
            result: Result = await arun(program, {f"f({n})": n}, sandbox=jail, limits=LIMITS)
        assert result.reason in reasons, (program, result)
        if n % 3:
            assert result.answer == n + 1

    with Jail(spares=2) as jail:
        await asyncio.gather(*[run_one(n, jail) for n in range(60)])
        await settle(jail, 8)
        before, memory, zygote = resources_in_use(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, zygote_bytes()
        await asyncio.gather(*[run_one(n, jail) for n in range(PROGRAMS)])
        await settle(jail, before[0])
        after = resources_in_use()
        assert after[0] <= before[0] + 2  # spares come and go
        assert after[1] <= before[1] + 8  # their pipes
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 60_000  # kB
        assert zygote_bytes() - zygote < 60 * 2**20
        assert (await arun("answer = 1", sandbox=jail)).answer == 1


def test_many_faulty_programs_leave_nothing_behind() -> None:
    started = resources_in_use()
    began = time.monotonic()
    asyncio.run(run_many())
    assert time.monotonic() - began < 300
    for _ in range(100):  # directories of concurrent tests come and go; a leak of this test would stay
        if not grown(started):
            return
        time.sleep(0.1)
    assert not grown(started)
