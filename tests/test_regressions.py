"""Regression tests, one for each bug that bug hunts found."""

from __future__ import annotations

from typing import Any

import pytest

from chainofcode import Limits, Program, run


def answered(program: str, values: Any = None, **options: Any) -> Any:
    result = run(program, values, **options)
    assert result.reason == "answered", result
    return result.answer


@pytest.mark.parametrize(
    "program",
    [
        "memo = {}\ndef f(w):\n    memo[w] = legs(w)\n    return memo\nanswer = f('a')",
        "def outer():\n    d = {}\n    def f(w):\n        d[w] = legs(w)\n    f('a')\n    return d\nanswer = outer()",
        "class A:\n    reg = {}\ndef f(w):\n    A.reg[w] = legs(w)\nf('a')\nanswer = A.reg",
        "class S:\n    pass\ns = S()\ndef f(w):\n    s.n = {w: legs(w)}\nf('a')\nanswer = s.n",
    ],
    ids=["global", "closure", "class", "object"],
)
def test_storing_a_holes_value_in_an_outer_scope(program: str) -> None:
    assert answered(program, {"legs('a')": 4}) == {"a": 4}


def test_datetime_as_a_forgotten_import() -> None:
    assert answered("answer = datetime.now().year") == 2025
    assert (
        answered("import datetime\nx = hasattr(datetime.datetime, 'now')\nanswer = datetime.datetime.utcnow().year")
        == 2025
    )


@pytest.mark.parametrize(
    "rest",
    ["score += 1", "score = score + 1", "score = f'{score}'", "del score\nscore = 1", "if score:\n    score = 0"],
)
def test_variable_may_have_the_name_of_the_hole_that_it_stores(rest: str) -> None:
    assert run(f"score = score('x')\nfirst = score\n{rest}\nanswer = first", {"score('x')": 3}).answer == 3
    assert (
        answered("try:\n    score = score('x')\nexcept Exception:\n    score = None\nanswer = score", {"score('x')": 3})
        == 3
    )
    assert answered("score = 0\nscore = score('x')\nanswer = score", {"score('x')": 3}) == 3


def test_a_function_of_the_program_is_not_shadowed() -> None:
    assert answered("def score(x):\n    return 5\nscore = score('x')\nanswer = score") == 5
    assert answered("score = lambda x: 5\nscore = score('x')\nanswer = score") == 5
    assert answered("from functools import partial\nscore = partial(max, 3)\nscore = score(9)\nanswer = score") == 9


@pytest.mark.parametrize(
    ("source", "prose"),
    [
        ("xs = [\n  1,\n  two three,\n  3,\n]\nanswer = xs", ["xs = [\n  1,\n  two three,\n  3,\n]"]),
        ("x = 5 \\\n  bad thing here\nanswer = 1", ["x = 5 \\\n  bad thing here"]),
        ("def f(x):\n\ndef g(x):\n    return 1\nanswer = g(1)", ["def f(x):"]),
        (
            "try:\n    x = 2\nexcept ValueError, TypeError as e:\n    x = 3\nanswer = x",
            ["try:\n    x = 2\nexcept ValueError, TypeError as e:\n    x = 3"],
        ),
        ("if x:\n    # nothing\nanswer = 1", ["if x:\n    # nothing"]),
        ("x = 1\n  y = 2\nz = 3", ["y = 2"]),
        (
            "class A:\n    def f(self)\n        return 1\n    def g(self):\n        return 2",
            ["def f(self)\n    return 1"],
        ),
        ("def f(a):\n    add them up\n    return a\nanswer = f(1)", ["add them up"]),
        ("print 'hello'\nanswer = 1", ["print 'hello'"]),
        ("x = 'it's bad'\nanswer = 2", ["x = 'it's bad'"]),
        ("if a:\n    put on a hat\nelse:\n    stay home\nanswer = 1", ["put on a hat", "stay home"]),
    ],
    ids=lambda value: value[:16] if isinstance(value, str) else None,
)
def test_the_smallest_run_of_lines_becomes_prose(source: str, prose: list[str]) -> None:
    assert list(Program.parse(source).prose) == prose


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("```python\nprint(6*7)\n```\nOutput:\n```\n42\n```", "42"),
        (
            "```python\nd = {}\nd['a'] = 1\n```\nthen\n```python\nd['b'] = 2\n```\n```python\nanswer = d\n```",
            {"a": 1, "b": 2},
        ),
        ("```python\ntotal = 1\n```\n```python\ntotal += 2\nanswer = total\n```", 3),
        ("```\nxs = [2]\n```\n```\nxs.append(1)\nxs = sorted(xs)\nanswer = xs\n```", [1, 2]),
        ("```python\nx = 1\n```\nNo, all of it:\n```python\nx = 2\nanswer = x\n```", 2),
    ],
)
def test_which_fenced_blocks_are_the_program(reply: str, expected: Any) -> None:
    assert answered(reply) == expected


def test_prose_can_return_a_value() -> None:
    program = "def f(a):\n    return the sum of a\nanswer = f([1, 2])"
    assert answered(program, {"return the sum of a": {"return": 3}}) == 3


def test_forked_children_send_no_frames() -> None:
    program = "import os\nx = f(1)\npid = os.fork()\nif pid == 0:\n    print('child')\n    raise SystemExit\nos.waitpid(pid, 0)\nanswer = x"
    assert answered(program, {"f(1)": 5}, sandbox="none") == 5
    program = "import multiprocessing as mp\nx = f(1)\ndef double(n):\n    return 2 * n['v']\nwith mp.get_context('fork').Pool(2) as pool:\n    answer = pool.map(double, [x, {'v': 3}])"
    assert answered(program, {"f(1)": {"v": 5}}, sandbox="none") == [10, 6]


def test_recursion_limit_is_that_of_cpython() -> None:
    program = "import sys\ndef f(n):\n    return 0 if n == 0 else 1 + f(n - 1)\nanswer = f({})"
    assert answered(program.format(950)) == 950
    assert run(program.format(2000)).error.type == "RecursionError"  # type: ignore[union-attr]
    before = "import sys\nlimit = sys.getrecursionlimit()\ndef f(n):\n    return f(n + 1)\ntry:\n    f(0)\nexcept RecursionError:\n    pass\nx = g(1)\nanswer = sys.getrecursionlimit() == limit"
    assert answered(before, {"g(1)": 1}) is True
    assert answered("import sys\nsys.setrecursionlimit(2**31 - 1)\nanswer = g(1)", {"g(1)": 1}) == 1


def test_long_answers_are_complete_or_abbreviated() -> None:
    assert answered("answer = list(range(300_000))") == list(range(300_000))
    assert repr(answered("answer = list(range(2_000_000))")).startswith("[0, 1, 2")
    result = run("answer = 'x' * 20_000_000")
    assert result.reason == "answered"
    assert run("print('x' * 20_000_000)").reason == "limit:output"


def test_last_expression_may_be_a_constant() -> None:
    assert answered("x = 3\n42") == 42
    assert answered("x = 3\n'Paris'") == "Paris"


def test_empty_callbacks_and_methods_are_not_holes() -> None:
    assert answered("def on_done(x): pass\ndef go(cb):\n    cb(1)\n    return 2\nanswer = go(on_done)") == 2
    program = "class A:\n    def f(self): pass\nclass B(A): pass\nclass C(B):\n    def f(self): return super().f() or 3\nanswer = C().f()"
    assert answered(program) == 3


@pytest.mark.parametrize(
    "program",
    [
        "class A:\n    def __init__(self, f):\n        self.f = f\n    def go(self):\n        return self.f('cat')\nanswer = A(legs).go()",
        "f, g = legs, None\nanswer = f('cat')",
        "f = None or legs\nanswer = f('cat')",
        "fs = []\nfs.append(legs)\nanswer = [f('cat') for f in fs][0]",
        "def pick():\n    return legs\nanswer = pick()('cat')",
        "answer = {'a': legs}.get('a')('cat')",
    ],
)
def test_undefined_functions_can_be_passed_around(program: str) -> None:
    assert answered(program, {"legs('cat')": 4}) == 4


def test_late_misfit_falls_back_to_the_statement() -> None:
    assert answered("x = info('a').k\nanswer = x", {"info('a')": {"j": 1}, "x = info('a').k": {"x": 2}}) == 2
    assert answered("x, y = pair('a')\nanswer = x + y", {"pair('a')": [1], "x, y = pair('a')": {"x": 1, "y": 2}}) == 3


@pytest.mark.parametrize(
    "ending",
    [
        "class E(Exception):\n    def __str__(self):\n        raise SystemExit\nraise E",
        "class R:\n    def __repr__(self):\n        raise KeyboardInterrupt\nanswer = R()",
        "raise NameError('x', name=5)",
        "import sys\nclass C:\n    def __eq__(self, o):\n        raise ValueError\n    def __repr__(self):\n        raise ValueError\nsys.exit(C())",
        "import threading\nthreading.enumerate = None\nanswer = 1",
        "import atexit\natexit._run_exitfuncs = None\nanswer = 1",
        "import os\nos.write = lambda *a: 0\nanswer = f(1)",
    ],
)
def test_programs_cannot_break_the_end_of_a_run(ending: str) -> None:
    result = run(ending, {"f(1)": 1}, limits=Limits(run_seconds=5))
    assert result.reason in ("answered", "error"), result


def test_settling_before_resumption_breaks_the_protocol() -> None:
    program = (
        "import os, struct\nfds = [3, 4]\n"
        'bodies = b\'{"type":"paused","id":1,"kind":"call","name":"f"}\', b\'{"type":"settled","id":1,"statement":0}\'\n'
        "os.write(fds[1], b''.join(struct.pack('<I', len(body)) + body for body in bodies))\nwhile True: pass"
    )
    result = run(program, lambda pause: 1, limits=Limits(run_seconds=5))
    assert result.reason == "guest died"
    assert "settled before it was resumed" in result.error.message  # type: ignore[union-attr]


def test_child_that_holds_the_pipes_does_not_delay_the_end() -> None:
    import time

    started = time.monotonic()
    result = run(
        "import os\nif os.fork() == 0:\n    import time\n    time.sleep(30)\nos._exit(3)",
        limits=Limits(run_seconds=20),
        sandbox="none",
    )
    assert result.reason == "guest died"
    assert time.monotonic() - started < 5


def test_program_can_start_400_threads() -> None:
    program = "import threading\ne = threading.Event()\nts = [threading.Thread(target=e.wait) for _ in range(400)]\nfor t in ts: t.start()\ne.set()\nfor t in ts: t.join()\nanswer = len(ts)"
    assert answered(program) == 400


def test_call_texts_have_no_addresses() -> None:
    values = {"f(<function <lambda>>)": 1, "f(<generator object <genexpr>>)": 2, "f(<function g.<locals>.h>)": 3}
    program = "def g():\n    def h(): return 1\n    return h\nanswer = [f(lambda: 1), f(x for x in 'a'), f(g())]"
    assert answered(program, values) == [1, 2, 3]


def test_secrets_are_deterministic() -> None:
    program = "import secrets, random\nanswer = (secrets.token_hex(4), random.SystemRandom().random())"
    assert answered(program) == answered(program)


def test_change_inside_a_large_list_is_recorded() -> None:
    trace = run("big = list(range(1000))\nbig[500] = -1\nanswer = 1").trace
    assert "big" in trace.steps[1].delta


def test_function_named_answer_is_not_the_answer() -> None:
    assert answered("def answer(x):\n    return x * 2\nprint(answer(2))") == "4"
    assert run("x = 1", inputs={"answer": 5}).reason == "error"


def test_awaited_holes_have_the_line_of_their_call() -> None:
    program = (
        "import asyncio\nasync def main():\n    return await asyncio.gather(f(1), f(2))\nanswer = asyncio.run(main())"
    )
    steps = run(program, {"f(1)": 1, "f(2)": 2}).trace.steps
    assert [step.line for step in steps if step.by == "lm"] == [3, 3]


def test_stopped_runs_keep_their_trace() -> None:
    result = run("a = f(1)\nwhile True:\n    a += 1", {"f(1)": 1}, limits=Limits(run_seconds=2))
    assert result.reason == "limit:run"
    assert result.trace.lm_calls == 1
    assert result.error is not None
    assert result.error.line in (2, 3)
    result = run("a = f(1)\nimport os\nos._exit(1)", {"f(1)": 1})
    assert (result.reason, result.trace.lm_calls) == ("guest died", 1)


def test_wrong_arguments_of_run_are_errors() -> None:
    with pytest.raises(TypeError, match="not NoneType"):
        run(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a value of type object"):
        run("answer = x", inputs={"x": object()})


def test_a_flood_of_frames_does_not_stop_the_clock() -> None:
    import time

    program = (
        "import os, struct\nfds = [3, 4]\n"
        'body = b\'{"type":"ran","steps":[]}\'\nframe = (struct.pack("<I", len(body)) + body) * 100\n'
        "while True:\n    os.write(fds[1], frame)"
    )
    started = time.monotonic()
    assert run(program, limits=Limits(run_seconds=2)).reason in ("limit:run", "guest died")
    assert time.monotonic() - started < 8


def test_killed_by_a_signal_without_a_name() -> None:
    assert "signal 40" in run("import os\nos.kill(os.getpid(), 40)", sandbox="none").error.message  # type: ignore[union-attr]


def test_threads_that_print_while_others_call_holes() -> None:
    program = (
        "import threading\ndef talk():\n    for _ in range(40): print('x' * 5_000)\n"
        "def ask():\n    for n in range(60): f(n)\n"
        "ts = [threading.Thread(target=t) for t in (ask, talk, talk)]\nfor t in ts: t.start()\nfor t in ts: t.join()\nanswer = 1"
    )
    assert run(program, lambda pause: 1, limits=Limits(run_seconds=20)).answer == 1


def test_emulator_that_raises_cancelled_error() -> None:
    import asyncio
    import time

    async def gives_up(pause: Any) -> Any:
        raise asyncio.CancelledError

    started = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        run("answer = f(1)", gives_up, limits=Limits(wall_seconds=20))
    assert time.monotonic() - started < 5


def test_idle_executor_does_not_delay_the_end() -> None:
    program = "from concurrent.futures import ThreadPoolExecutor\nex = ThreadPoolExecutor(2)\nanswer = ex.submit(lambda: 5).result()"
    assert answered(program, limits=Limits(run_seconds=5)) == 5


def test_tens_of_thousands_of_names() -> None:
    names = "=".join(f"n{i}" for i in range(70_000))
    assert answered(f"{names}=0\ny=1\nz=2\nanswer=y+z") == 3


def test_guest_does_not_outlive_its_host() -> None:
    import subprocess
    import sys

    from processes import descendants, is_alive, wait_for

    host = subprocess.Popen([sys.executable, "-c", "import chainofcode as c; c.run('import time\\ntime.sleep(97)')"])
    started = wait_for(lambda: found if len(found := descendants(host.pid)) >= 2 else [])
    host.kill()
    host.wait()
    wait_for(lambda: not any(map(is_alive, started)))


@pytest.mark.parametrize(
    "program",
    [
        "class M:\n    def run(self, x):\n        return x\nanswer = M().run(legs('cat'))",
        "def wait(x):\n    return x\nanswer = wait(legs('cat'))",
        "def timeout(x):\n    return x\nanswer = timeout(legs('cat'))",
    ],
)
def test_functions_named_like_those_of_asyncio(program: str) -> None:
    assert answered(program, {"legs('cat')": 4}) == 4


def test_prose_in_a_function_leaves_inputs_alone() -> None:
    program = "def f():\n    think hard about the question\n    return question + extra\nanswer = f()"
    values = {"think hard about the question": {}}
    assert answered(program, values, question="q", inputs={"extra": "!"}) == "q!"


@pytest.mark.parametrize(
    "program",
    [
        "Errors = (ValueError, TypeError)\ntry:\n    n = int(legs('x'))\nexcept Errors:\n    n = -1\nanswer = n",
        "def f(errors):\n    try:\n        return int(legs('x'))\n    except errors:\n        return -1\nanswer = f(ValueError)",
        "class Quiet:\n    def __enter__(self): return self\n    def __exit__(self, *a): return True\nn = -1\nwith Quiet():\n    n = int(legs('x'))\nanswer = n",
    ],
)
def test_exception_handlers_that_static_analysis_cannot_see(program: str) -> None:
    assert answered(program, {"legs('x')": "many"}) == -1


def test_index_error_through_a_helper_ends_the_iteration() -> None:
    program = "class A:\n    def get(self, i):\n        return colours()[i]\n    def __getitem__(self, i):\n        return self.get(i)\nanswer = list(A())"
    assert answered(program, {"colours()": ["red", "blue"]}) == ["red", "blue"]


def test_misspelled_variables_in_keywords_are_errors() -> None:
    assert "did you mean 'secret_key'" in run("secret_key = 1\nanswer = dict(key=secret_kye)").error.message  # type: ignore[union-attr]
    program = "goal = 3\ndef find(xs, target):\n    return target in xs\nanswer = find([1, 3], target=gaol)"
    assert run(program).reason == "error"


def test_held_locals_do_not_change() -> None:
    program = "def f(a):\n    d = eval('locals()')\n    b = 2\n    return sorted(d)\nanswer = f(1)"
    assert answered(program) == ["a"]


def test_program_can_use_a_profiler() -> None:
    assert (
        answered(
            "import cProfile, io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()):\n    cProfile.run('1 + 1')\nanswer = 1"
        )
        == 1
    )


def test_misfit_inside_a_mutating_call() -> None:
    values = {"f('x')": "two", "xs.append(int(f('x')))": {"xs": [2]}}
    assert answered("xs = []\nys = xs\nxs.append(int(f('x')))\nanswer = ys", values) == [2]


def test_last_expression_where_answer_is_not_reached() -> None:
    assert answered("x = 1\nif x > 100:\n    answer = x\nx + 41") == 42


def test_inputs_are_plain_dicts() -> None:
    assert answered("answer = type(d) is dict", inputs={"d": {"a": 1}}) is True


def test_table_starts_over_in_each_run() -> None:
    from chainofcode import Table

    table = Table([("f()", 1), ("f()", 2)])
    assert [run("answer = f()", table).answer for _ in range(2)] == [1, 1]
    assert run("answer = (f(), f(), f())", table).answer == (1, 2, 2)


def test_modules_are_not_imported_for_analysis() -> None:
    assert Program.parse("from this import *\nanswer = 1").source.startswith("from this")


@pytest.mark.parametrize("uses", ["x.size\n{}.color", "x == 'red'\n{} in ('blue', 'green')"], ids=["record", "labels"])
def test_none_check_of_one_call_does_not_affect_the_others(uses: str) -> None:
    first, second = uses.split("\n")
    program = f"def one(n):\n    x = look(n)\n    if x is None:\n        return 0\n    return {first}\n"
    program += f"def two(n):\n    y = look(n)\n    return {second.format('y')}\n"
    program += "z = [one(1), two(2)]\nw = look(3)\nanswer = w is None"
    value = {"size": 1, "color": 2} if "size" in uses else "red"
    assert answered(program, lambda pause: value) is False


@pytest.mark.parametrize(
    "act", ["pickle.loads(b'cnosuchmod\\nX\\n.')", "pickle.dumps(type('X', (), {'__module__': 'nosuchmod'}))"]
)
def test_a_missing_module_that_c_code_imports_is_an_error(act: str) -> None:
    error = run(f"import pickle\ndef act():\n    return {act}\nact()").error
    assert error is not None and error.type in ("ModuleNotFoundError", "PicklingError"), error
