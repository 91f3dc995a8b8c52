"""Regression tests for differences from CPython: each program runs under both."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from chainofcode import Limits, Trace, run
from chainofcode.audit import areplay
from chainofcode.emulator import Pause


def same(program: str, tmp_path: Path, values: Any = None) -> Any:
    """Return the answer of a program, after checking that it is the same under CPython."""
    program = textwrap.dedent(program)
    path = tmp_path / "program.py"
    path.write_text(f"{program}\nprint(repr(answer))\n", encoding="utf-8")
    done = subprocess.run([sys.executable, "-s", "-P", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = run(program, values)
    assert result.reason == "answered", result.error
    assert repr(result.answer) == done.stdout.strip()
    return result.answer


# --- eval, exec and compile ---------------------------------------------------------------------------------------


def test_eval_exec_and_compile_as_values_accept_the_same_arguments(tmp_path: Path) -> None:
    same(
        """
        import builtins, inspect
        def call(f, *args, **kwargs):
            try:
                return f(*args, **kwargs)
            except Exception as error:
                return type(error).__name__, str(error)
        ns, own = {"x": 1}, {}
        answer = [
            call(eval, "x + y", {"x": 1}, {"y": 2}), call(eval, " \\t1 + 1"), call(eval, b"2 * 3"),
            call(eval), call(eval, 1), call(eval, "1", 2), call(eval, "1", {}, {}, {}), call(eval, "1", nope=1),
            call(eval, "1 +"), call(exec, "y = x + 1", ns), ns["y"], call(exec, "z = 5", {}, own), own,
            call(exec, "a = 1", {}, {}, {}), call(exec), call(eval, call(compile, "4 + 4", "<t>", "eval")),
            call(compile, "1 +", "<t>", "eval"), call(compile, "1"), call(compile, "1", "<t>", "what"),
            list(map(eval, ["1", "2 + 2"])), repr(eval), eval.__name__, eval is builtins.eval,
            inspect.isbuiltin(exec), callable(compile), sorted(k for k in ns if k != "__builtins__"),
        ]
        """,
        tmp_path,
    )


def test_eval_and_exec_as_values_know_the_scope_of_the_caller(tmp_path: Path) -> None:
    same(
        """
        from __future__ import annotations
        run, look = exec, eval
        def inside():
            local = 3
            return look("local + 1"), sorted(map(look, ["local", "local * 2"]))
        run("made = 7")
        run("def annotated(x: nowhere): pass")
        class Body:
            inner = 4
            seen = look("inner")
        answer = inside(), made, annotated.__annotations__, Body.seen
        """,
        tmp_path,
    )


@pytest.mark.parametrize(
    "program",
    [
        "f = eval\nanswer = f('twice(4)')",
        "answer = (lambda f, *more: f(*more))(eval, 'twice(x)', {'x': 4})",
        "ns = {}\nruns = {'exec': exec}\nruns['exec']('y = twice(4)', ns)\nanswer = ns['y']",
        "make = compile\nanswer = eval(make('twice(4)', '<t>', 'eval'))",
        "import builtins\nanswer = builtins.eval('twice(4)')",
        "answer = eval(\"eval('twice(4)')\")",
        "answer = eval(*['twice(4)'])",
    ],
)
def test_code_run_by_eval_as_a_value_may_contain_holes(program: str) -> None:
    assert run(program, {"twice(4)": 8}).answer == 8


def test_code_run_by_eval_and_exec_warns_once(tmp_path: Path) -> None:
    same(
        r"""
        import warnings
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            eval("'\\d'"), exec("x = '\\w'"), list(map(eval, ["'\\q'"]))
        with warnings.catch_warnings(record=True) as again:
            warnings.simplefilter("default")
            for _ in range(3):
                warnings.warn("once")
                eval("1")
        answer = [str(one.message) for one in seen], len(again)
        """,
        tmp_path,
    )


# --- names and lifetimes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line", ["eval('1', {})", "exec('x = 1', {})", "compile('1', '', 'eval')", "(lambda f: f('1', {}))(eval)"]
)
def test_eval_does_not_keep_locals_alive(line: str, tmp_path: Path) -> None:
    program = f"""
        import weakref
        class Thing: pass
        def life():
            thing = Thing()
            seen = weakref.ref(thing)
            {line}
            del thing
            return seen() is None
        answer = life()
        """
    assert same(program, tmp_path) is True


def test_class_attribute_and_class_cell_are_kept(tmp_path: Path) -> None:
    same(
        """
        class Masked:
            __class__ = property(lambda self: int)
            def own(self):
                return super().__repr__() != "", __class__.__name__
        class Plain:
            x = 1
            __class__ = str
            y = [x for _ in range(2)] if False else x
            def f(self):
                return __class__
        answer = isinstance(Masked(), int), "__class__" in vars(Masked), Masked().own(), Plain().f() is Plain, Plain().__class__
        """,
        tmp_path,
    )


def test_builtins_contain_no_internal_names(tmp_path: Path) -> None:
    program = """
        import builtins, sys
        class Here:
            inside = sorted(name for name in dir() if name.startswith("$"))
        def function():
            "said" "twice"
            return [name for name in sys._getframe().f_builtins if name.startswith("$")]
        def local():
            return sorted(function.__builtins__)
        try:
            text = "abc".upper()
        except ValueError:
            pass
        kinds = [name for name in vars(builtins) if not name.isidentifier()]
        kinds += [name for name in dir(__builtins__) if not name.isidentifier()]
        kinds += [name for name in globals() if not name.isidentifier()]
        text
        answer = kinds, function(), Here.inside, [name for name in local() if not name.isidentifier()]
        """
    assert same(program, tmp_path) == ([], [], [], [])
    with_holes = "v = f(1)\nfor w in [v.g(), h()]:\n    pass\nimport builtins\n" + textwrap.dedent(program)
    result = run("def h() -> int: ...\n" + with_holes, lambda pause: 2)
    assert result.answer == ([], [], [], [])


def test_long_program_contains_no_internal_names() -> None:
    lines = "\n".join(f"x{number} = {number}.5" for number in range(700))
    body = "\n".join(f"    y{number} = {number + 1000}" for number in range(300))
    program = f'"""Doc."""\nfrom __future__ import annotations\n{lines}\nclass Long:\n    """Own."""\n{body}\n'
    program += "import builtins\nanswer = [n for n in vars(builtins) if '$' in n], __doc__, Long.__doc__, '$' in str(dir(Long))"
    result = run(program)
    assert result.answer == ([], "Doc.", "Own.", False)
    assert len(result.trace.steps) > 1000


def test_watching_variables_that_other_threads_change() -> None:
    program = """
        import threading
        errors, seen = [], set()
        def work(start):
            try:
                for number in range(start, start + 300):
                    seen.add(number)
                    seen.discard(number - 5)
            except Exception as error:
                errors.append(repr(error))
        for turn in range(10):
            seen = set()
            threads = [threading.Thread(target=work, args=(1000 * place,)) for place in range(8)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
        answer = errors
        """
    assert run(textwrap.dedent(program)).answer == []


def test_watching_a_deeply_nested_exception_group() -> None:
    program = "e = TypeError(1)\nfor n in range(5000):\n    e = ExceptionGroup('eg', [e])\nanswer = len(e.exceptions)"
    assert run(program).answer == 1


# --- the recursion limit ------------------------------------------------------------------------------------------


def test_recursion_limit_counts_only_frames_of_the_program(tmp_path: Path) -> None:
    same(
        """
        import sys
        def depth(n=0):
            try:
                return depth(n + 1)
            except RecursionError:
                return n
        def at(n, limit):
            if n:
                return at(n - 1, limit)
            try:
                sys.setrecursionlimit(limit)
            except Exception as error:
                return str(error)
            return sys.getrecursionlimit()
        answer = [sys.getrecursionlimit()]
        for limit in (20, 60, 200, 1000, 3000):
            sys.setrecursionlimit(limit)
            answer.append((sys.getrecursionlimit(), depth()))
        sys.setrecursionlimit(1000)
        for limit in (2**31 - 1, 2**31, 0, -1, "x", 1.5, True, 5):
            try:
                answer.append(sys.setrecursionlimit(limit) or sys.getrecursionlimit())
            except Exception as error:
                answer.append(repr(error))
        sys.setrecursionlimit(1000)
        answer += [at(50, limit) for limit in (40, 50, 52, 60)]
        sys.setrecursionlimit(1000)
        """,
        tmp_path,
    )


def test_low_recursion_limit_does_not_kill_the_guest() -> None:
    count = "import sys\ndef depth(n):\n    return 0 if n == 0 else 1 + depth(n - 1)\nsys.setrecursionlimit({})\nanswer = {}"
    assert run(count.format(60, "depth(50)")).answer == 50
    assert run(count.format(8, "[1, {'a': depth(2)}]")).answer == [1, {"a": 2}]
    assert run(count.format(12, "(depth(2), legs('cat'), depth(3))"), {"legs('cat')": 4}).answer == (2, 4, 3)
    result = run(count.format(5, "depth(100)"))
    assert result.error is not None and (result.reason, result.error.type) == ("error", "RecursionError")


# --- functions left empty -----------------------------------------------------------------------------------------


def test_wrong_calls_of_empty_functions_raise_the_errors_of_cpython(tmp_path: Path) -> None:
    same(
        """
        import inspect
        def f(a, b, *, c): ...
        def g(x, /, y=2, *rest, z: int, **more) -> int:
            "Specified."
            raise NotImplementedError
        class A:
            def m(self, x):
                '''Do.'''
            @staticmethod
            def s(x): ...
            @classmethod
            def k(cls, x) -> int: ...
        calls = [((), {}), ((1, 2, 3), {}), ((1, 2), {"c": 1, "d": 2}), ((1, 2), {"a": 1}), ((), {"q": 1}), ((1,) * 9, {"x": 1})]
        answer = [(one.__name__, one.__doc__, str(inspect.signature(one))) for one in (f, g, A().m, A.s, A.k)]
        for one in (f, g, A().m, A.m, A.s, A.k):
            for args, kwargs in calls:
                try:
                    answer.append(one(*args, **kwargs) is None)
                except (TypeError, NotImplementedError) as error:
                    answer.append(str(error))
        """,
        tmp_path,
        lambda pause: None,
    )


# --- the environment ----------------------------------------------------------------------------------------------


def test_process_time_does_not_advance_during_sleep() -> None:
    program = (
        "import asyncio, time\nbusy, wall = time.process_time(), time.monotonic()\n"
        "time.sleep(0.2)\nasyncio.run(asyncio.sleep(0.1))\n"
        "answer = time.process_time() - busy < 0.1 > time.thread_time_ns() / 1e9, time.monotonic() - wall >= 0.3"
    )
    assert run(program).answer == (True, True)


def test_urandom_accepts_the_same_arguments_as_cpython(tmp_path: Path) -> None:
    same(
        """
        import os
        answer = [len(os.urandom(5)), os.urandom(0)]
        for size in (-1, "x", 1.5, None):
            try:
                os.urandom(size)
            except Exception as error:
                answer.append(repr(error))
        """,
        tmp_path,
    )


def test_traces_can_be_written_to_str_paths(tmp_path: Path) -> None:
    trace = run("answer = 1").trace
    trace.write(str(tmp_path / "t.jsonl"))
    assert Trace.read(str(tmp_path / "t.jsonl")).answer == trace.answer


# --- errors of tools ----------------------------------------------------------------------------------------------


class PriceError(ValueError):
    pass


class OddError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("cannot even say")


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ValueError("x"), "ValueError", "x"),
        (KeyError("car"), "KeyError", "'car'"),
        (FileNotFoundError(2, "gone"), "FileNotFoundError", "[Errno 2] gone"),
        (ZeroDivisionError(), "ZeroDivisionError", ""),
        (PriceError("low"), "ValueError", "PriceError: low"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "UnicodeError", "UnicodeDecodeError: 'utf-8' codec"),
        (ValueError("\ud800"), "ValueError", "\\ud800"),
        (Exception("plain"), "ToolError", "fail: Exception: plain"),
        (OddError(), "ToolError", "fail: OddError: OddError"),
        (MemoryError("full"), "ToolError", "fail: MemoryError: full"),
        (ExceptionGroup("many", [ValueError("a")]), "ToolError", "fail: ExceptionGroup: many"),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, Exception) else None,
)
def test_exception_of_a_tool_is_raised_in_the_program(error: Exception, kind: str, text: str) -> None:
    def fail() -> None:
        raise error

    async def fail_later() -> None:
        raise error

    caught = "RuntimeError" if kind == "ToolError" else kind
    program = f"try:\n    fail()\nexcept {caught} as error:\n    answer = type(error).__name__, str(error)"
    result = run(program, tools=[fail])
    assert result.answer is not None, result.error
    assert result.answer[0] == kind and result.answer[1].startswith(text)
    ended = run("x = fail_later()", tools=[fail_later]).error
    assert ended is not None and (ended.type, ended.line) == (kind, 1)


def test_replay_raises_the_exception_of_the_tool() -> None:
    def fail() -> None:
        raise LookupError("nowhere")

    result = run("try:\n    fail()\nexcept LookupError as error:\n    answer = str(error)", tools=[fail])
    assert result.answer == "nowhere"
    again = asyncio.run(areplay(result.trace))
    assert again.is_same, again.difference


def test_wrong_calls_of_tools_are_type_errors() -> None:
    def price(item: str) -> int:
        return 1

    for call in ("price()", "price('a', 'b')", "price(5)", "price(object())"):
        error = run(f"answer = {call}", tools=[price]).error
        assert error is not None and error.type == "TypeError", call


# --- limits -------------------------------------------------------------------------------------------------------


def test_many_calls_do_not_break_the_protocol() -> None:
    program = "total = 0\nfor n in range(30_000):\n    total += f(n)\nanswer = total"
    limits = Limits(lm_calls=30_000, cpu_seconds=300, run_seconds=300, wall_seconds=600)
    assert run(program, lambda pause: 1, limits=limits).answer == 30_000
    result = run(program, lambda pause: 1, limits=Limits(lm_calls=50))
    assert (result.reason, result.error and result.error.line) == ("limit:calls", 3)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("answer = f('x' * 16_000_000)", "answered"),
        ("class A:\n    def __repr__(self): return 'a' * 20_000_000\nanswer = f(A())", "answered"),
        ("class A:\n    def __repr__(self): return 'a' * 1000\nanswer = f([A()] * 50_000)", "answered"),
        ("answer = 'é' * 4_900_000", "answered"),
        ("x = 1\nanswer = f(*['é' * 4_000_000] * 4)", "limit:frame"),
        ("x = 1\nanswer = f('[' * 3_000_000)", "limit:frame"),
        ("x = 1\nfor n in range(200): f('x' * 3_000_000 + str(n))", "limit:bytes"),
    ],
    ids=["argument", "repr", "reprs", "answer", "frame", "parts", "all"],
)
def test_large_runs_end_with_a_named_limit(program: str, reason: str) -> None:
    result = run(program, lambda pause: 1)
    assert result.reason == reason, result.error
    if reason != "answered":
        assert result.error is not None and result.error.line == 2


# --- names that are called somewhere ------------------------------------------------------------------------------

CALLED = r"""
f = is_fruit; answer = f('x')
f = is_fruit; g = f; answer = g('x')
f: object = is_fruit; answer = f('x')
answer = (f := is_fruit)('x')
answer = {'k': is_fruit}['k']('x')
answer = {'k': is_fruit}.get('k')('x')
d = {'k': is_fruit}; h = d.get('k'); answer = h('x')
d = dict(k=is_fruit); answer = d['k']('x')
d = {}; d['k'] = is_fruit; answer = d['k']('x')
d = {k: is_fruit for k in 'ab'}; answer = d['a']('x')
d = {'k': is_fruit}; answer = [f('x') for f in d.values()][0]
d = {}; answer = d.setdefault('k', is_fruit)('x')
d = {} | {'k': is_fruit}; answer = d['k']('x')
t = {'a': {'b': is_fruit}}; answer = t['a']['b']('x')
answer = {}.get('k', is_fruit)('x')
fs = [is_fruit]; answer = fs[0]('x')
fs = [is_fruit]; h = fs.pop(); answer = h('x')
fs = []; fs.append(is_fruit); answer = fs[0]('x')
fs = [] + [is_fruit]; answer = [f('x') for f in fs][0]
a, f = 1, is_fruit; answer = f('x')
answer = [f(x) for f, x in zip([is_fruit], ['x'])][0]
g = lambda x, f=is_fruit: f(x); answer = g('x')
pick = lambda: is_fruit; answer = pick()('x')
f = is_fruit if 1 else len; answer = f('x')
answer = (is_fruit if 1 else len)('x')
f = None or is_fruit; answer = f('x')
f = getattr(object(), 'no', is_fruit); answer = f('x')
f = is_fruit; answer = list(map(f, ['x']))[0]
f = is_fruit; answer = bool(sorted(['x'], key=f))
from functools import partial; f = partial(is_fruit, 'x'); answer = f()
from types import SimpleNamespace; n = SimpleNamespace(f=is_fruit); answer = n.f('x')
def g(x, f=is_fruit, /): return f(x)\nanswer = g('x')
def pick(): return is_fruit\nf = pick(); answer = f('x')
def pick(): yield is_fruit\nanswer = [f('x') for f in pick()][0]
def ap(x, fn): return ap2(x, fn)\ndef ap2(x, h): return h(x)\nanswer = ap('x', is_fruit)
def ap(*fs): return [f('x') for f in fs][0]\nanswer = ap(is_fruit)
def ap(**fs): return fs['a']('x')\nanswer = ap(a=is_fruit)
class A: pass\na = A(); a.f = is_fruit; answer = a.f('x')
class A: f = is_fruit\nanswer = A.f('x')
class A:\n  def __init__(self): self.f = is_fruit\n  def go(self, x): return self.f(x)\nanswer = A().go('x')
from dataclasses import dataclass\n@dataclass\nclass A:\n  f: object\nanswer = A(is_fruit).f('x')
with __import__('contextlib').nullcontext(is_fruit) as f: answer = f('x')
match is_fruit:\n  case f: answer = f('x')
"""
READ = r"""
answer = is_fruit
answer = is_fruit + 1
print(is_fruit)
xs = [is_fruit]; answer = xs
answer = 1 if is_fruit else 2
answer = f'{is_fruit}'
for x in is_fruit: pass
d = {'k': is_fruit}; answer = d['k']
f = is_fruit; answer = f
f = is_fruit; g = len; answer = g('x')
answer = [1, 2][is_fruit]
xs = [is_fruit, 2]; d = {'k': len}; answer = d['k']('x'), max(xs)
def g(f=is_fruit): return f\nanswer = g()
def g(x): return len(x)\nanswer = g(is_fruit)
def price(): return is_fruit\nanswer = price() + 1
class A: pass\na = A(); a.f = is_fruit; answer = a.f
"""


def lines_of(text: str) -> list[str]:
    return [line.replace("\\n", "\n") for line in text.strip().splitlines()]


@pytest.mark.parametrize("program", lines_of(CALLED))
def test_a_name_that_is_called_somewhere_is_a_hole(program: str) -> None:
    result = run(program, lambda pause: True)
    assert result.answer is True, result.error
    assert result.trace.program is not None and "is_fruit" in result.trace.program.holes


@pytest.mark.parametrize("program", lines_of(READ))
def test_name_that_is_only_read_is_not_a_hole(program: str) -> None:
    pauses: list[Pause] = []
    result = run(program, lambda pause: pauses.append(pause))
    assert result.error is not None and result.error.type == "NameError"
    assert not pauses
