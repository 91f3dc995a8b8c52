"""Shadows: which values they know, what they skip, when they run, and that they cannot change the result."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import SHARED
from programs import program

from chainofcode import Jail, Limits, Result, arun
from chainofcode.emulator import Answered, Pause
from chainofcode.errors import InputError
from chainofcode.explain import aexplain
from chainofcode.languages.python.compiler.analyse import analyse
from chainofcode.languages.python.compiler.lower import lower_shadow
from chainofcode.languages.python.compiler.parse import parse
from chainofcode.languages.python.guest.shadow import promises
from chainofcode.languages.python.guest.shadow.promises import Loop, Promise, Unknown
from chainofcode.sandbox import Job, NoSandbox, Sandbox, Session

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def jail() -> Iterator[Jail]:
    with Jail(spares=2) as jail:
        yield jail


class Counted:
    """A sandbox that counts the guests it starts, and how many are shadows."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.guests = self.shadows = 0
        self.shadow_seconds = 0.0

    @asynccontextmanager
    async def start(self, job: Job) -> AsyncIterator[Session]:
        self.guests += 1
        self.shadows += job.is_shadow
        began = time.monotonic()
        async with self._sandbox.start(job) as session:
            try:
                yield session
            finally:
                if job.is_shadow:
                    self.shadow_seconds = time.monotonic() - began

    def close(self) -> None:
        """Leave the wrapped sandbox open: its owner closes it."""


class RecordsRounds:
    """Answers each call with a number, after lookahead has run; records which calls were pending together."""

    in_flight, gathers = 64, True

    def __init__(self, values: dict[str, Any] | None = None) -> None:
        self._values = values or {}
        self.rounds: list[list[str]] = []
        self._pending = 0

    async def answer(self, pause: Pause) -> Answered:
        if not self._pending:
            self.rounds.append([])
        self.rounds[-1].append(pause.text)
        self._pending += 1
        await asyncio.sleep(0.05)
        self._pending -= 1
        return Answered(self._values.get(pause.text, len(pause.text)))


def rounds(source: str, jail: Jail, values: dict[str, Any] | None = None, **options: Any) -> list[list[str]]:
    emulator = RecordsRounds(values)
    result = asyncio.run(arun(source, emulator, sandbox=jail, **options))
    assert result.reason == "answered", result.error
    assert result.trace.wasted == 0
    return emulator.rounds


# --- known values -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("answer = [kind(w, ret_type=bool) for w in 'ab']", [2]),
        ("answer = [kind(w, ret_type=list[str]) for w in 'ab']", [2]),
        ("def own(x):\n    return x\nanswer = [apply(own, n) for n in (1, 2)]", [2]),
        ("answer = [use(f, 1) for f in (len, sum)]", [2]),
        (
            "from enum import Enum\nclass Color(Enum):\n    RED = 1\n    BLUE = 2\nanswer = [warm(c) for c in Color]",
            [2],
        ),
        (
            "from dataclasses import dataclass\n@dataclass\nclass Row:\n    n: int\n"
            "answer = [good(Row(n)) for n in (1, 2, 1)]",
            [2],
        ),
        (
            "from collections import namedtuple\nP = namedtuple('P', 'x y')\nanswer = [far(P(1, n)) for n in (1, 2)]",
            [2],
        ),
    ],
)
def test_arguments_with_stable_identity_are_known_again(source: str, expected: list[int], jail: Jail) -> None:
    assert [len(calls) for calls in rounds(source, jail)] == expected


def test_mutable_objects_are_not_known_again(jail: Jail) -> None:
    source = "class Box:\n    pass\nbox = Box()\nanswer = [look(box), look(box)]"
    assert [len(calls) for calls in rounds(source, jail)] == [1, 1]


def test_changed_dataclass_is_a_different_argument(jail: Jail) -> None:
    source = (
        "from dataclasses import dataclass\n@dataclass\nclass Row:\n    n: int\nrow = Row(1)\n"
        "a = good(row)\nrow.n = 2\nb = good(row)\nrow.n = 1\nanswer = [a, b, good(row)]"
    )
    assert rounds(source, jail) == [["good(Row(n=1))", "good(Row(n=2))"]]


def test_result_of_a_tool_is_known_in_the_next_round(jail: Jail) -> None:
    def rows() -> list[int]:
        return [1, 2, 3]

    emulator = RecordsRounds()
    result = asyncio.run(arun("answer = [weigh(n) for n in rows()]", emulator, sandbox=jail, tools=[rows]))
    assert result.answer == [8, 8, 8]
    assert emulator.rounds == [["weigh(1)", "weigh(2)", "weigh(3)"]]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("xs = [f(n) for n in (1, 2)]\nanswer = g(sum(xs))", [2, 1]),
        ("answer = {k(n): n for n in (1, 2)}\nm = len({h(n) for n in (1, 2)})", [4]),
        ("t = f'{f(1)} and {f(2)}'\nanswer = g(t)", [2, 1]),
        ("d = {}\nfor n in (1, 2):\n    d[f(n)] = g(n)\nanswer = d", [4]),
        ("out = []\nfor n in (1, 2):\n    out.append(int(f(n)))\nanswer = h(out)", [2, 1]),
        ("def f2(n):\n    if f(n) > 9:\n        return g(n)\n    return 0\nanswer = [f2(n) for n in (1, 2)]", [2]),
        (
            "import asyncio\nasync def go():\n    return await asyncio.gather(f(1), f(2))\nanswer = asyncio.run(go())",
            [2],
        ),
        ("answer = sorted([3, 1], key=lambda n: -f(n) if f(n) else g(n))", [2]),
        ("answer = list(filter(f, [1, 2, 3]))", [3]),
        ("n = sum(1 for x in (1, 2) if f(x) > 3)\nanswer = g(n)", [2, 1]),
        ("match f(1):\n    case 4:\n        x = g(2)\n    case _:\n        x = h(3)\nanswer = (x, k(5))", [2, 1]),
        ("try:\n    x = int(f(1))\nexcept ValueError:\n    x = 0\nanswer = (x, g(2))", [2]),
        ("x = f(1) if f(2) else 0\ny = f(3) is None\nanswer = (x, y)", [2, 1]),
        ("class A:\n    def __init__(self):\n        self.n = f(1)\n        self.m = f(2)\nanswer = vars(A())", [2]),
        ("count = 0\ndef add():\n    global count\n    count += 1\nif f(1) > 9:\n    add()\nanswer = g(count)", [1, 1]),
    ],
)
def test_calls_are_sent_as_soon_as_their_arguments_are_known(source: str, expected: list[int], jail: Jail) -> None:
    assert [len(calls) for calls in rounds(source, jail)] == expected


# --- when shadows run ---------------------------------------------------------------------------------------------


def run_counted(source: str, jail: Sandbox, **options: Any) -> tuple[Result, Counted]:
    counted = Counted(jail)
    return asyncio.run(arun(source, RecordsRounds(), sandbox=counted, **options)), counted


def test_shadow_starts_at_the_first_pause_and_only_with_overlap(jail: Jail) -> None:
    _, counted = run_counted("answer = sum(range(10))", jail)
    assert (counted.guests, counted.shadows) == (1, 0)
    _, counted = run_counted("answer = f(1)", jail)
    assert (counted.guests, counted.shadows) == (2, 1)
    _, counted = run_counted("answer = [f(n) for n in range(5)]", jail, in_flight=1)
    assert (counted.guests, counted.shadows) == (1, 0)


def test_no_shadow_without_a_sandbox(tmp_path: Path) -> None:
    path = tmp_path / "log"
    source = f"a = f(1)\nopen({str(path)!r}, 'a').write('x')\nanswer = f(2)"
    result, counted = run_counted(source, NoSandbox())
    assert (result.answer, counted.shadows, path.read_text()) == (4, 0, "x")
    with pytest.raises(InputError, match="needs a sandbox"):
        asyncio.run(aexplain(source, sandbox=NoSandbox()))


def test_a_shadow_that_hangs_is_ended_and_changes_nothing(jail: Jail) -> None:
    class Patient(RecordsRounds):
        async def answer(self, pause: Pause) -> Answered:
            await asyncio.sleep(6)  # longer than a shadow of a short program may run
            return await super().answer(pause)

    source = "a = f(1)\nif a > 0:\n    answer = a\n    exit()\nanswer = f(sum(range(10**10)))"
    counted = Counted(jail)
    result = asyncio.run(arun(source, Patient(), sandbox=counted))
    assert (result.answer, counted.shadows) == (4, 1)
    assert 1 < counted.shadow_seconds < 5


class ShadowWithoutTools(Counted):
    """A sandbox whose shadows do not know the tools, so that they report tool calls as calls for a model."""

    @asynccontextmanager
    async def start(self, job: Job) -> AsyncIterator[Session]:
        async with super().start(replace(job, tools=()) if job.is_shadow else job) as session:
            yield session


def test_shadow_cannot_trigger_a_tool(jail: Jail) -> None:
    called: list[int] = []
    early: list[int] = []

    def note(n: int) -> int:
        called.append(n)
        return n

    async def answer(pause: Pause) -> int:
        await asyncio.sleep(0.3)  # while the shadow looks ahead
        early.extend(called)
        return 1

    program = "answer = [first(1)]\nfor n in range(3):\n    answer.append(note(n))"
    sandbox = ShadowWithoutTools(jail)
    result = asyncio.run(arun(program, answer, tools=[note], in_flight=8, sandbox=sandbox))
    assert (result.answer, sandbox.shadows) == ([1, 0, 1, 2], 1)
    assert (called, early) == ([0, 1, 2], [])


def test_wrong_guess_wastes_calls_but_does_not_change_the_result(jail: Jail) -> None:
    """The shadow does not know that the loop ends early; its wasted calls do not count against the program's limit."""
    source = "for n in range(10):\n    if n > 3 and f(n) > 0:\n        break\nanswer = (n, g(1))"
    for in_flight in (1, 8):
        result = asyncio.run(
            arun(source, RecordsRounds(), sandbox=jail, in_flight=in_flight, limits=Limits(lm_calls=2))
        )
        assert (result.answer, result.trace.lm_calls) == ((4, 4), 2)


def test_request_has_the_type_that_the_program_expects(jail: Jail) -> None:
    types: dict[int, list[str]] = {1: [], 8: []}
    source = "a = f(0)\nif a:\n    n: int = g(1)\nb: bool = g(1)\nanswer = b"

    class Typed(RecordsRounds):
        async def answer(self, pause: Pause) -> Answered:
            answered = await super().answer(pause)
            return Answered(pause.type) if pause.name == "g" else answered

    for in_flight in types:
        result = asyncio.run(arun(source, Typed(), sandbox=jail, in_flight=in_flight))
        types[in_flight].append(result.answer)
    assert types[1] == types[8] == ["int"]


@pytest.mark.parametrize("error", [OSError("no room"), RuntimeError("mine")])
def test_run_continues_if_the_shadow_cannot_start(error: Exception, jail: Jail) -> None:
    class FailsForShadows(Counted):
        @asynccontextmanager
        async def start(self, job: Job) -> AsyncIterator[Session]:
            if job.is_shadow:
                raise error
            async with super().start(job) as session:
                yield session

    assert asyncio.run(
        arun("answer = [f(n) for n in (1, 2)]", RecordsRounds(), sandbox=FailsForShadows(jail))
    ).answer == [4, 4]


@pytest.mark.parametrize(
    "setup",
    [
        "a = N(1, None)\nb = N(2, a)\na.up = b",
        "a = None\nfor n in range(400):\n    a = N(n, a)",
        "a = None\nfor n in range(25):\n    a = N(a, a)",
    ],
)
def test_linked_objects_can_be_arguments(setup: str, jail: Jail) -> None:
    source = f"from dataclasses import dataclass\nfrom typing import Any\n@dataclass(repr=False)\nclass N:\n    n: Any\n    up: Any\n{setup}\nanswer = f(a)"
    for in_flight in (1, 8):
        result = asyncio.run(arun(source, RecordsRounds(), sandbox=jail, in_flight=in_flight))
        assert result.reason == "answered", result.error


# --- speculative code ---------------------------------------------------------------------------------------------


def sources() -> list[str]:
    found = [path.read_text(encoding="utf-8") for path in sorted((HERE / "conformance").glob("*.py"))]
    found += [program(seed) for seed in range(100)]
    for name in ("bbh.jsonl", "holes.jsonl", "recorded.jsonl"):
        path = SHARED / "cases" / name
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        found += [json.loads(line)["program"] for line in lines if line.strip()]
    return found


def test_every_program_compiles_as_a_shadow() -> None:
    for source in sources():
        parsed = parse(source)
        lowered = lower_shadow(analyse(parsed.tree), parsed.prose)
        compile(lowered.tree, "<program>", "exec", dont_inherit=True)


@pytest.mark.parametrize(
    "expression",
    [
        "p + 1", "1 + p", "p - p", "-p", "abs(p)", "round(p, 2)", "p == 3", "p < 3", "p.name", "p.name.upper()", "p[0]",
        "p(1, x=2)", "[1, 2] * p", "'a' * p", "3 ** p", "divmod(p, 2)",
    ],
)  # fmt: skip
def test_operations_on_a_promise_give_a_promise(expression: str) -> None:
    assert promises.is_promise(eval(expression, {"p": Promise("f(1)")}))


@pytest.mark.parametrize(
    "expression",
    [
        "bool(p)", "len(p)", "int(p)", "float(p)", "str(p)", "repr(p)", "f'{p}'", "'%s' % p", "hash(p)", "{p: 1}",
        "list(p)", "[*p]", "max([1, p])", "p in [1, 2]", "1 in p", "not p", "p and 1", "range(p)", "isinstance(p, int)",
        "sorted([p, 1])", "'abc'[p]", "dict(**p)",
    ],
)  # fmt: skip
def test_operations_that_need_the_value_are_unknown(expression: str) -> None:
    with pytest.raises(Unknown) as raised:
        eval(expression, {"p": Promise("f(1)")})
    assert raised.value.origin == "f(1)"


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (len, (Promise("f(1)"),)),
        ("".join, ([Promise("f(1)"), "a"],)),
        (json.dumps, ([Promise("f(1)")],)),
        (max, ([1, Promise("f(1)")],)),
        (set, (iter([Promise("f(1)")]),)),
        (any, ([Promise("f(1)"), False],)),
        (type, (Promise("f(1)"),)),
    ],
)
def test_calls_with_unknown_results_give_a_promise(function: Any, arguments: tuple[Any, ...]) -> None:
    assert promises.is_promise(promises.call(function, *arguments))


def test_any_and_all_decide_if_a_known_value_suffices() -> None:
    assert promises.call(any, [0, 1, Promise("f(1)")]) is True
    assert promises.call(all, [1, 0, Promise("f(1)")]) is False
    assert promises.call(any, [0, 0]) is False


def test_errors_of_the_program_are_not_hidden() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        promises.call(int, "x")


def test_lookahead_in_a_doubtful_loop_is_limited() -> None:
    for certain, further in ((0, 0), (1, 0), (2, 1), (10, 5)):
        loop, iterations = Loop(), 0
        while not loop.ends():
            if iterations >= certain:
                loop.doubt()
            iterations += 1
        assert iterations == certain + 1 + further
