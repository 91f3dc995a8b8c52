"""Watching a program never raises into it and never runs its code; the cost grows linearly with the program."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from chainofcode import Limits, Result, run
from chainofcode.emulator import Answered, Pause
from chainofcode.values.codec import brief

# Each sets `answer` and prints what it does: the output must be the same as under plain CPython.
UNNOTICED = {
    "a key behind the back of an OrderedDict": """
from collections import OrderedDict
od = OrderedDict(a=1, b=2)
dict.__delitem__(od, 'a')
od['c'] = 3
answer = len(od)
""",
    "a range of large numbers": "r = range(10**5000)\ns = range(0, -10**5000, -3)\nanswer = (r[5], s[1])",
    "keys of globals that are not names": """
globals()[5] = 'x'
globals()[None] = globals()
def f():
    globals()[(1, 2)] = y = [3]
    y.append(4)
    return y
answer = f()
""",
    "exceptions nested deep": """
error = ValueError('inmost')
for i in range(400):
    error = RuntimeError(error, [error])
xs = [error]
xs.append(error)
answer = len(xs)
""",
    "lists nested deep": """
xs = []
for i in range(5000):
    xs = [xs, {'k': (xs,)}]
xs.append(1)
answer = len(xs)
""",
    "hashes of keys of an OrderedDict": """
from collections import OrderedDict
calls = 0
class Key:
    def __init__(self, n):
        self.n = n
    def __hash__(self):
        global calls
        calls += 1
        return self.n
    def __eq__(self, other):
        global calls
        calls += 100
        return self is other
od = OrderedDict()
for n in range(5):
    od[Key(n)] = n
    print(calls)
d = dict(od)
s = set(od)
s.add(3)
answer = calls
""",
    "keys that claim to be any name": """
calls = 0
class Key:
    def __init__(self, name):
        self.name = name
    def __hash__(self):
        return hash(self.name)
    def __eq__(self, other):
        global calls
        calls += 1
        return False
space = globals()
def work(n):
    global total
    total = n
    xs = [n]
    xs.append(n)
    return xs
for name in ('total', 'xs', 'other'):
    space[Key(name)] = 1
before = calls
seen = work(2)
plain = calls - before
answer = plain < 10
""",
    "types whose metaclass hashes and compares": """
calls = []
class Meta(type):
    def __hash__(cls):
        calls.append('hash')
        return 1
    def __eq__(cls, other):
        calls.append('eq')
        return False
    def __getattribute__(cls, name):
        calls.append(name)
        return type.__getattribute__(cls, name)
    def __instancecheck__(cls, value):
        calls.append('instance')
        return False
    def __subclasscheck__(cls, value):
        calls.append('subclass')
        return False
class Thing(metaclass=Meta):
    pass
class Failure(Exception, metaclass=Meta):
    pass
calls.clear()
one = object.__new__(Thing)
two = Failure.__new__(Failure)
calls.clear()
def f(x, y):
    z = (x, y)
    zs = [x, y, z, {'k': x}]
    zs.append(z)
    return z
f(one, two)
f(Thing, Failure)
answer = calls
""",
    "attributes, texts and classes that lie": """
calls = []
class Text(str):
    def __format__(self, spec):
        calls.append('format')
        return 'x'
    def __str__(self):
        calls.append('str')
        return 'x'
    def __repr__(self):
        calls.append('repr')
        return 'x'
    def __len__(self):
        calls.append('len')
        return 1
class Liar:
    @property
    def __class__(self):
        calls.append('class')
        return int
    def __getattribute__(self, name):
        calls.append(name)
        return object.__getattribute__(self, name)
    def __len__(self):
        calls.append('len')
        return 1
    def __iter__(self):
        calls.append('iter')
        return iter(())
    def __bool__(self):
        calls.append('bool')
        return True
import datetime, types
def named():
    pass
named.__name__ = Text('named')
Named = type('Named', (), {})
Named.__name__ = Text('Named')
zone = datetime.timezone(datetime.timedelta(hours=1), Text('zone'))
moment = datetime.datetime(2020, 1, 1, tzinfo=zone)
module = types.ModuleType('m')
module.__dict__['__name__'] = Liar()
calls.clear()
def f(*values):
    first, *rest = values
    rest.append(first)
    return rest
f(Text('x'), Liar(), named, Named, Named(), moment, module, ValueError(Liar(), Text('y')))
answer = calls
""",
    "a class body in a namespace of its own": """
calls = []
class Space(dict):
    def __len__(self):
        calls.append('len')
        return dict.__len__(self)
    def __iter__(self):
        calls.append('iter')
        return dict.__iter__(self)
    def keys(self):
        calls.append('keys')
        return dict.keys(self)
    def items(self):
        calls.append('items')
        return dict.items(self)
    def __getitem__(self, name):
        calls.append(name)
        return dict.__getitem__(self, name)
class Meta(type):
    @classmethod
    def __prepare__(cls, name, bases):
        return Space()
    def __new__(cls, name, bases, space):
        return type.__new__(cls, name, bases, dict.copy(space))
class C(metaclass=Meta):
    x = [1]
    x.append(2)
    y = len(x)
answer = calls
""",
    "modules in the place of packages": """
import sys
calls = []
class Package:
    def __getattr__(self, name):
        calls.append(name)
        return list
sys.modules['numpy'] = sys.modules['pandas'] = Package()
class Thing:
    pass
things = [Thing()]
things.append(Thing())
answer = calls
""",
}


def under_cpython(program: str) -> tuple[str, str]:
    """Return the output of plain CPython, and its `answer`."""
    command = [sys.executable, "-c", f"exec(compile({program!r}, '<program>', 'exec'))\nprint('\\n' + repr(answer))"]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    printed, _, answer = done.stdout.rstrip("\n").rpartition("\n")
    return printed.rstrip("\n"), answer


def printed(result: Result) -> str:
    return "".join(step.output for step in result.trace.steps).rstrip("\n")


@pytest.mark.parametrize("name", UNNOTICED)
def test_program_cannot_notice_that_it_is_watched(name: str) -> None:
    result = run(UNNOTICED[name])
    assert result.error is None
    assert (printed(result), repr(result.answer)) == under_cpython(UNNOTICED[name])


THREADS = """
from concurrent.futures import ThreadPoolExecutor
import sys
sys.setswitchinterval(1e-6)
memo, seen, ordered = {}, set(), []
def work(n):
    value = memo.setdefault(n % 97, [n])
    memo[n, n % 7] = value
    seen.add(n)
    ordered.append(n)
    if n % 3 == 0:
        memo.pop((n - 3, (n - 3) % 7), None)
        seen.discard(n - 3)
    return len(value)
with ThreadPoolExecutor(8) as pool:
    total = sum(pool.map(work, range(4000)))
answer = total
"""


def test_threads_that_share_containers() -> None:
    for _ in range(8):
        result = run(THREADS)
        assert (result.error, result.answer) == (None, 4000)


def test_exception_of_a_signal_handler_reaches_the_program() -> None:
    """The signal may arrive in the program, or while one of its steps is recorded."""
    program = """
import signal
class Late(Exception):
    pass
def late(number, frame):
    raise kind('late')
signal.signal(signal.SIGALRM, late)
caught = 0
for turn in range(60):
    kind = (Late, ValueError, RecursionError, KeyError)[turn % 4]
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005 + turn * 0.00003)
        xs = []
        while True:
            xs = [len(xs)] * 20
    except kind:
        caught += 1
def spin(depth):
    xs = [depth] * 30
    xs.append({'depth': depth})
    ys = list(xs)
    return len(ys)
for turn in range(40):
    kind = (Late, ValueError, RecursionError, KeyError)[turn % 4]
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0003)
        while True:
            spin(turn)
    except kind:
        caught += 1
answer = caught
"""
    assert run(program).answer == 100


def test_state_at_a_pause_is_shown_without_running_the_program() -> None:
    program = """
globals()[5] = 'x'
calls = []
class Odd:
    __module__ = '__main__'
    def __getattribute__(self, name):
        calls.append(name)
        return object.__getattribute__(self, name)
    def __hash__(self):
        calls.append('hash')
        return 1
    def __eq__(self, other):
        calls.append('eq')
        return False
odd = Odd()
object.__getattribute__(odd, '__dict__')[5] = 1
from collections import OrderedDict
od = OrderedDict({odd: odd})
calls.clear()
def inside(od):
    class Local:
        x = [odd]
        y = judge(1)
    return judge(2)
inside(od)
answer = calls
"""

    class Reader:
        reads_state = True

        async def answer(self, pause: Pause) -> Answered:
            assert "od" in pause.state
            return Answered(7)

    result = run(program, Reader())
    assert (result.error, result.answer) == (None, [])


def test_brief_of_ordered_dicts_ranges_and_exceptions() -> None:
    from collections import OrderedDict

    class Key:
        pass

    ordered = OrderedDict.fromkeys([Key(), Key()])
    assert brief(ordered) == "OrderedDict({… 2 in all})"
    assert brief(OrderedDict(b=1, a=2)) == "OrderedDict({'b': 1, 'a': 2})"
    assert brief(range(3)) == "range(0, 3)"
    assert brief(range(9, 1, -2)) == "range(9, 1, -2)"
    assert brief(range(10**200)) == f"range(0, <int of {(10**200).bit_length()} bits>)"
    error: Exception = ValueError(1)
    for _ in range(6):
        error = ValueError(error)
    assert brief(error) == "ValueError(ValueError(ValueError(ValueError(ValueError(…)))))"


@pytest.mark.parametrize("statement", ["x{n} = {m} + 1", "x{n} = f({m})"], ids=["plain", "a hole per line"])
def test_time_grows_linearly_with_the_program(statement: str) -> None:
    """Four times the lines take about four times as long; quadratic cost would be sixteen times as long."""

    def seconds(lines: int) -> float:
        """Return the guest's CPU seconds to prepare and run the program."""
        body = "\n".join(statement.format(n=n % 50, m=n % 7) for n in range(lines))
        program = f"import os\n{body}\nanswer = sum(os.times()[:2])"
        limits = Limits(lm_calls=lines, cpu_seconds=300, run_seconds=300, wall_seconds=300)
        taken = run(program, lambda pause: 1, limits=limits).answer
        assert isinstance(taken, float)
        return taken

    small = min(seconds(1500) for _ in range(2))
    assert seconds(6000) < 8 * small


LINES = """
import sys
seen = []
def tracer(frame, event, arg):
    if frame.f_code.co_filename == '<program>':
        seen.append((event, frame.f_lineno, frame.f_code.co_name))
        return tracer

def helper(
    a,
    b=2,
):
    total = 0; other = (
        a +
        b
    )
    for i in range(3):
        total += i
        if i == 1:
            continue
        elif i > 5:
            break
        else:
            total += max(
                i,
                1,
            )
    else:
        total += 1
    while total > 100:
        total -= 1
    try:
        other = [x for x in
                 range(2)]
        raise ValueError(
            'x')
    except (KeyError,
            ValueError) as error:
        total += len(str(
            error))
    finally:
        total += 1
    with open('/dev/null') as file, \\
         open('/dev/null') as second:
        total += 1
    match total:
        case 1:
            pass
        case _:
            total = (
                total
            )
    class Inner:
        '''Doc.'''
        x = 1
        def method(self):
            return self.x
    assert total, (
        total)
    def later():
        yield total
        yield (
            other)
    if not total: return None
    return (total,
            Inner().method(),
            list(later()))

sys.settrace(tracer)
helper(1)
sys.settrace(None)
answer = seen
"""


def test_settrace_in_a_program_sees_the_lines_that_cpython_reports() -> None:
    assert repr(run(LINES).answer) == under_cpython(LINES)[1]


@pytest.mark.parametrize("name", UNNOTICED)
def test_following_values_causes_no_errors(name: str) -> None:
    assert run(UNNOTICED[name], follow=True).error is None
