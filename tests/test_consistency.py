"""Whether an answer agrees with its trace, and that reading untrusted texts takes linear time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from growth import assert_linear

from chainofcode import run
from chainofcode.audit import verify
from chainofcode.audit.faithfulness.echo import _Others, shown_words
from chainofcode.audit.faithfulness.question_data import QuestionData
from chainofcode.audit.faithfulness.stated import _replaced
from chainofcode.languages.python.compiler.parse import find_program
from chainofcode.sandbox import Jail, Sandbox

# Replaces the guest's own function that reports the answer.
FORGING = """
import sys
def forged(self, value, source):
    return {{"reason": "answered", "answer": {value!r}, "text": {text!r}, "source": {source!r}}}
frame = sys._getframe()
while frame is not None:
    guest = frame.f_locals.get("self")
    if hasattr(guest, "_answered"):
        type(guest)._answered = forged
    frame = frame.f_back
"""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Jail(spares=2) as jail:
        yield jail


def forging(ends: str, value: Any, text: str, source: str = "variable") -> str:
    return FORGING.format(value=value, text=text, source=source) + ends


FORGED = {
    "value and text": forging("answer = 1 + 1", 2000, "2000"),
    "the text alone": forging("answer = 1 + 1", 2, "2000"),
    "the value alone": forging("answer = 1 + 1", 2000, "2"),
    "a label": forging("answer = 'a' * 2", "bb", "'bb'"),
    "a long text": forging("answer = 'a' * 2000", "b" * 2000, repr("b" * 2000)),
    "a list": forging("answer = [1] * 2", [1, 2], "[1, 2]"),
    "an object": forging("answer = 1 + 1", {"$object": {"type": "Two", "text": "<Two>"}}, "2000"),
    "after a long loop": forging("n = 0\nfor i in range(100):\n    n += 1\nanswer = n", 2000, "2000"),
    "before other lines": forging("answer = 1 + 1\nprint(answer)", 2000, "2000"),
    "where it comes from": forging("answer = 1 + 1", 2000, "2000", "expression"),
    "what is printed": forging("print(1 + 1)", "2000", "'2000'", "output"),
    "the last expression": forging("1 + 1", 2000, "2000", "expression"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_answer_is_detected(name: str, sandbox: Sandbox) -> None:
    found = verify(run(FORGED[name], sandbox=sandbox).trace, flips=0, sandbox=sandbox)
    assert found.score == 0
    assert any(flag.startswith("the answer is not what the last step shows") for flag in found.flags), found.flags


HONEST = {
    "set in a function": "def f():\n    global answer\n    answer = 5 + 1\nf()",
    "set by name": "globals()['answer'] = 4 + 1\nx = 1",
    "set by exec": "exec('answer = 3 + 1')",
    "set in a long loop": "answer = 0\nfor i in range(200):\n    answer += i",
    "the variable of a long loop": "for answer in range(500):\n    pass",
    "set by a function that is called often": (
        "def f(n):\n    global answer\n    if n == 99:\n        answer = n\nanswer = 0\nfor i in range(100):\n    f(i)"
    ),
    "changed by another name": "answer = [1]\nb = answer\nb.append(2 + 1)",
    "at the end": "import atexit\nanswer = 1 + 1\ndef f():\n    global answer\n    answer = 7 + 1\natexit.register(f)",
    "an enum": "import enum\nclass C(enum.IntEnum):\n    A = 1\nanswer = C(0 + 1)",
    "a text of its own kind": "class S(str):\n    pass\nanswer = S('x' * 2)",
    "a number with a text of its own": "class S(int):\n    def __repr__(self):\n        return '7'\nanswer = S(3 + 1)",
    "a set": "answer = {3 + 1, 1, 2}",
    "a count": "from collections import Counter\nanswer = Counter('a' * 2 + 'b')",
    "no number": "answer = float('nan') + 1",
    "a lone surrogate": "answer = chr(0xd800) + 'x'",
    "a large number": "answer = 10 ** 5000",
    "a long list": "answer = list(range(1000))",
    "a date": "import datetime\nanswer = datetime.date(2020, 1, 1) + datetime.timedelta(3)",
    "the last expression": "x = [1]\nx + x",
    "the last expression in a block": "x = 3\nif x > 2:\n    x + 1",
    "printed": "print('a')\nprint('b', 3 + 1)\nprint()",
    "printed in parts": "print('a', end=' ')\nprint(\"it's\", 3 + 1, end='')",
    "printed often": "for i in range(300):\n    print(i)",
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_answer_agrees_with_the_last_step(name: str, sandbox: Sandbox) -> None:
    found = verify(run(HONEST[name], sandbox=sandbox).trace, flips=0, sandbox=sandbox)
    assert not any("last step" in flag for flag in found.flags), found.flags


READERS: dict[str, Callable[[int], object]] = {
    "the words of a value": lambda n: _Others("4", None, True).instead_of("a" + ".,;" * n + "a"),
    "one long word": lambda n: _Others("4", None, True).instead_of("a" * n),
    "a long answer": lambda n: _Others("a" * n, None, True).instead_of(["a b c"] * 50),
    "a call": lambda n: shown_words("\\n" * n),
    "numbers in a question": lambda n: QuestionData("1" * n + ",000" * n, {}),
    "a long datum": lambda n: _replaced("a " * n, "a " * (n // 2) + "b", "c"),
    "a fence with a long language": lambda n: find_program("```" + "a" * n + "`"),
    "a fence after blanks": lambda n: find_program("```" + " " * n + "`"),
    "a long fence": lambda n: find_program("~" * n + "`"),
}


@pytest.mark.parametrize("name", READERS)
def test_untrusted_texts_take_linear_time(name: str) -> None:
    assert_linear(lambda size: lambda: READERS[name](size), 20_000, floor=0.02)
