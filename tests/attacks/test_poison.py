"""The next program: nothing that a program does to its own process affects another program.

In a sandbox each program runs in its own fork of a zygote. Without one it gets a new process, so that is not tested.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from chainofcode import Limits, arun

from .harness import IN_TIER_A, TierSandbox

# What the first program does, what the next one inspects, and the answer that the next one must get.
POISONS = {
    "a builtin": ("import builtins, os\nvars(os)['__builtins__']['len'] = lambda x: 7", "answer = len('ab')", 2),
    "a type": (
        "import gc\n(names,) = gc.get_referents(str.__dict__)\nnames['upper'] = lambda s: 'poisoned'\n"
        "ctypes.pythonapi.PyType_Modified(ctypes.py_object(str))", "answer = 'a'.upper()", "A",
    ),
    "a module's function": ("import json\njson.dumps = lambda x: 'poisoned'", "import json\nanswer = json.dumps(1)", "1"),
    "a module that is imported": (
        "import types\nsys.modules['math'] = types.ModuleType('math')\nsys.modules['math'].pi = 3",
        "import math\nanswer = round(math.pi, 4)", 3.1416,
    ),
    "a module that is not there": (
        "import types\nsys.modules['colorsys'] = None", "import colorsys\nanswer = colorsys.__name__", "colorsys",
    ),
    "the import system": (
        "class Finder:\n    def find_spec(self, *_): raise SystemError\nsys.meta_path.insert(0, Finder())",
        "answer = any(type(f).__name__ == 'Finder' for f in sys.meta_path)", False,
    ),
    "the search path": ("sys.path.insert(0, '/poisoned')", "answer = '/poisoned' in sys.path", False),
    "a small number": (
        "ctypes.c_uint32.from_address(id(200) + 24).value = 201", "answer = [100 + 100, 200 == int('200')]", [200, True],
    ),
    "a constant": (
        "import string\nctypes.memmove(id(string.digits) + sys.getsizeof('') - 1, b'9' * 10, 10)",
        "import string\nanswer = string.digits", "0123456789",
    ),
    "the C library's memory": (
        "libc.setenv(b'POISON', b'1', 1)\nlibc.srand(7)",
        "libc.getenv.restype = ctypes.c_char_p\nanswer = libc.getenv(b'POISON')", None,
    ),
    "the environment": ("os.environ['POISON'] = '1'\nos.putenv('TZ', 'Asia/Tokyo')", "answer = 'POISON' in os.environ", False),
    "the recursion limit": (
        "sys.setrecursionlimit(77)", "def down(n): return n and down(n - 1)\nanswer = down(500)", 0,
    ),
    "the hook for exceptions": (
        "sys.excepthook = sys.unraisablehook = None", "answer = sys.excepthook is sys.__excepthook__", True,
    ),
    "a trace function": (
        "sys.settrace(lambda *_: None)\nsys.setprofile(lambda *_: None)", "answer = (sys.gettrace(), sys.getprofile())",
        (None, None),
    ),
    "an audit hook": (
        "def refuse(*_): raise RuntimeError\nsys.addaudithook(refuse)", "answer = len([compile('1', 'x', 'eval')])", 1,
    ),
    "the garbage collector": ("import gc\ngc.disable()", "import gc\nanswer = gc.isenabled()", True),
    "the random numbers": ("import random\nrandom.seed(99)", "import random\nanswer = random.random()", 0.8444218515250481),
    "the clock": ("import time\ntime.time = lambda: 0", "import time\nanswer = int(time.time())", 1_735_689_600),
    "the clock, by sleeping": ("import time\ntime.sleep(0.05)", "import time\nanswer = int(time.time() * 100)", 173_568_960_000),
    "standard output": ("sys.stdout.close()", "print('said')", "said"),
    "a function for the end": (
        "import atexit\nfor _ in range(9): atexit.register(os.write, 1, b'poisoned')", "import atexit\nanswer = atexit._ncallbacks() < 9", True,
    ),
    "a signal's handler": (
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "import signal\nanswer = signal.getsignal(signal.SIGTERM) == signal.SIG_DFL", True,
    ),
    "blocked signals": (
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])",
        "import signal\nanswer = signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()", True,
    ),
    "an alarm": (
        "import signal\nsignal.alarm(1)", "import signal\nanswer = signal.getitimer(signal.ITIMER_REAL)", (0.0, 0.0),
    ),
    "the mask for new files": ("os.umask(0o777)", "answer = os.umask(0) == 0o777", False),
    "a lower limit": (
        "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (9, 9))",
        "import resource\nanswer = resource.getrlimit(resource.RLIMIT_NOFILE)", (128, 128),
    ),
    "a thread": (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
        "import threading\nanswer = threading.active_count()", 1,
    ),
    "descriptors": (
        "held = [os.pipe() for _ in range(20)]",
        "import fcntl\nanswer = [fd for fd in range(99) if tried(fcntl.fcntl, fd, fcntl.F_GETFD) is True]", [0, 1, 2, 3, 4],
    ),
    "a closed descriptor": (
        "[os.close(fd) for fd in (0, 1, 2)]",
        "import fcntl\nanswer = [fd for fd in range(99) if tried(fcntl.fcntl, fd, fcntl.F_GETFD) is True]", [0, 1, 2, 3, 4],
    ),
    "the locale": (
        "import locale\nlocale.setlocale(locale.LC_CTYPE, 'C')",
        "import locale\nanswer = locale.setlocale(locale.LC_CTYPE)", "C.UTF-8",
    ),
    "the precision of decimals": (
        "import decimal\ndecimal.getcontext().prec = 2\ndecimal.DefaultContext.prec = 2",
        "import decimal\nanswer = decimal.getcontext().prec", 28,
    ),
    "a cache of regular expressions": (
        "import re\nre._cache.clear()\nre.compile = None", "import re\nanswer = re.compile('a').pattern", "a",
    ),
    "digits of long numbers": (
        "sys.set_int_max_str_digits(0)", "answer = sys.get_int_max_str_digits()", 4300,
    ),
    "an abstract class": (
        "import collections.abc\ncollections.abc.Sized.register(int)", "import collections.abc\nanswer = isinstance(1, collections.abc.Sized)",
        False,
    ),
    "codecs": (
        "import codecs\ncodecs.register(lambda name: None)\ncodecs.register_error('strict', lambda e: ('?', e.end))",
        "try:\n    '\\udc80'.encode()\nexcept UnicodeEncodeError:\n    answer = 'strict'", "strict",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", POISONS)
def test_next_program_is_not_poisoned(sandbox: TierSandbox, name: str) -> None:
    poison, look, expected = POISONS[name]
    assert sandbox.run(f"{poison}\n{look}").answer != expected, "the poison works in its own program"
    for _ in range(2):  # one guest was forked before the poison, the next after it
        assert sandbox.run_unchecked(look).answer == expected


def test_variables_do_not_survive_their_program(sandbox: TierSandbox) -> None:
    look = (
        "import gc\nseen, heap = set(), [*gc.get_objects(), *sys.modules.values(), sys._getframe()]\nfound = 0\n"
        "while heap:\n    thing = heap.pop()\n    if id(thing) not in seen:\n        seen.add(id(thing))\n"
        "        found += type(thing) is bytes and thing.startswith(b'left-') and thing.endswith(b'-behind')\n"
        "        heap += gc.get_referents(thing)\nanswer = found"
    )
    leave = "sys.left = globals()['left'] = b'-'.join([b'left', b'me', b'behind'])\n"
    assert sandbox.run(leave + look).answer == 1
    assert [sandbox.run_unchecked(look).answer for _ in range(2)] == [0, 0]


def test_preimported_package_is_not_poisoned(sandbox: TierSandbox) -> None:
    """The package is in the memory that all guests of a zygote start with."""
    look = "import sympy\nanswer = str(sympy.Rational(2, 4) + sympy.Integer(1))"
    poison = "import sympy\nsympy.Rational = lambda *_: 7\nsympy.Integer.__add__ = sympy.Integer.__radd__ = None\n"
    assert sandbox.run(look, packages=("sympy",)).answer == "3/2"
    assert sandbox.run(poison + look, packages=("sympy",)).answer != "3/2"
    assert [sandbox.run_unchecked(look, packages=("sympy",)).answer for _ in range(2)] == ["3/2"] * 2


def test_concurrent_programs_do_not_poison_each_other(sandbox: TierSandbox) -> None:
    """Sixteen at a time: poisoners alternate with programs that look."""
    poison = "import json\nsys.modules['math'] = None\njson.dumps = len\nos.close(1)\nanswer = 'poisoned'"
    look = "import json, math\nanswer = json.dumps(math.floor(2.5))"

    async def all_at_once() -> list[Any]:
        slots = asyncio.Semaphore(16)

        async def run_one(program: str) -> Any:
            async with slots:
                return (await arun("import os, sys\n" + program, sandbox=sandbox.jail)).answer

        return await asyncio.gather(*[run_one(look if n % 2 else poison) for n in range(40)])

    assert asyncio.run(all_at_once()) == ["poisoned", "2"] * 20


# --- the scratch directory ----------------------------------------------------------------------------------------


LEFT = {
    "a file": "open('left', 'w').write('x')",
    "a hidden file": "open('.left', 'w').write('x')",
    "a directory": "os.makedirs('a/b/c')",
    "a link": "os.symlink('/', 'left')",
    "a file that nobody may read": "open('left', 'w').close()\nos.chmod('left', 0)",
    "rights of the directory itself": "os.chmod('.', 0o000)",
    "a file that is still open": "held = open('left', 'w')\nos.unlink('left')\nheld.write('x')",
    "a thousand files": "for n in range(1000): open(f'left{n}', 'w').close()",
}


@pytest.mark.parametrize("name", LEFT)
@IN_TIER_A
def test_scratch_directory_is_empty_for_next_program(sandbox: TierSandbox, name: str) -> None:
    look = "found = (os.listdir('.'), oct(os.stat('.').st_mode))\n"
    first = sandbox.run(f"{look}{LEFT[name]}\nanswer = found", scratch=True)
    assert first.answer == ([], "0o40700"), first
    assert sandbox.run(f"{look}answer = found", scratch=True).answer == ([], "0o40700")


@IN_TIER_A
def test_next_program_without_scratch_directory_has_none(sandbox: TierSandbox) -> None:
    assert sandbox.run("open('left', 'w').close()\nanswer = os.listdir('.')", scratch=True).answer == ["left"]
    assert sandbox.run("answer = (os.listdir('.'), tried(open, 'left', 'w') is True)").answer == ([], False)


FULL = {
    "one large file": ("open('x', 'wb').write(bytes(2_000_000))", {"EFBIG", "ENOSPC"}),
    "many files": ("[open(str(n), 'wb').write(bytes(50_000)) for n in range(99)]", {"ENOSPC"}),
    "many empty files": ("[open(str(n), 'wb').close() for n in range(5000)]", {"ENOSPC"}),
    "many directories": ("[os.mkdir(str(n)) for n in range(5000)]", {"ENOSPC"}),
    "many links": ("[os.symlink('x' * 4000, str(n)) for n in range(5000)]", {"ENOSPC"}),
    "room asked for ahead": ("os.posix_fallocate(os.open('x', os.O_CREAT | os.O_RDWR), 0, 2_000_000)", {"EFBIG", "ENOSPC"}),
}  # fmt: skip


@pytest.mark.parametrize("name", FULL)
@IN_TIER_A
def test_full_scratch_directory_raises_error_in_program(sandbox: TierSandbox, name: str, tmp_path: Path) -> None:
    act, errors = FULL[name]
    before = os.statvfs(tmp_path).f_ffree
    result = sandbox.run(f"answer = tried(lambda: {act})", scratch=True, limits=Limits(scratch_bytes=1_000_000))
    assert result.answer in errors, result
    # The host's disk got none of the 5,000 files; other processes may have created some.
    assert abs(os.statvfs(tmp_path).f_ffree - before) < 2500


WAYS_OUT = {
    "a link to the host": ("os.symlink(secret, 'link')", "link"),
    "a link to the root": ("os.symlink('/', 'link')", "link/etc/passwd"),
    "a link that climbs": ("os.symlink('../' * 20 + 'etc/passwd', 'link')", "link"),
    "a link to /proc": ("os.symlink('/proc/self/environ', 'link')", "link"),
}


@pytest.mark.parametrize("name", WAYS_OUT)
@IN_TIER_A
def test_scratch_directory_cannot_be_escaped(sandbox: TierSandbox, name: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2")
    act, path = WAYS_OUT[name]
    inputs = {"secret": str(tmp_path / "secret")}
    result = sandbox.run(f"{act}\nanswer = tried(open, {path!r})", inputs=inputs, scratch=True)
    assert result.answer == "ENOENT"


@pytest.mark.parametrize(
    "act",
    [
        "os.mkfifo('x')", "os.mknod('x', 0o20600, os.makedev(1, 5))", "os.link('y', 'x')", "os.chown('y', 0, 0)",
        "os.execv('y', ['y'])", "os.setxattr('y', 'user.x', b'')", "os.chroot('.')",
    ],
)  # fmt: skip
@IN_TIER_A
def test_scratch_directory_grants_no_other_rights(sandbox: TierSandbox, act: str) -> None:
    program = f"open('y', 'w').write('#!/bin/sh')\nos.chmod('y', 0o6777)\nanswer = tried(lambda: {act})"
    assert sandbox.run(program, scratch=True).answer == "EPERM"


@IN_TIER_A
def test_concurrent_programs_do_not_see_each_others_files(sandbox: TierSandbox) -> None:
    leave = "import os\nopen(mine, 'w').close()\nf(mine)\nanswer = os.listdir('.')"

    async def both() -> list[Any]:
        waiting, gate = [], asyncio.Event()

        async def meet(pause: Any) -> int:
            """Both have written before either looks."""
            waiting.append(pause)
            if len(waiting) == 2:
                gate.set()
            await gate.wait()
            return 1

        results = await asyncio.gather(
            *[arun(leave, meet, sandbox=sandbox.jail, scratch=True, inputs={"mine": name}) for name in ("one", "two")]
        )
        return [result.answer for result in results]

    assert asyncio.run(both()) == [["one"], ["two"]]
    sandbox.assert_healthy()
