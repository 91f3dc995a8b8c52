"""New features of Python 3.14 work under the engine: template strings, deferred annotations, bare exception lists."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import pytest
from shared_jail import run

from chainofcode import Limits

pytestmark = pytest.mark.skipif(sys.version_info < (3, 14), reason="needs Python 3.14")

PROGRAMS = {
    "template string": "t = t'a {f(1)} b {f(2)!r:>3}'\nanswer = [t.strings, t.values, t.interpolations[1].conversion]",
    "template string as an argument": "def texts(t): return [str(i.value) for i in t.interpolations]\nanswer = texts(t'{f(1)}{f(2)}')",
    "exceptions without parentheses": "try:\n    1 / 0\nexcept ValueError, ZeroDivisionError:\n    answer = f(1)",
    "return in finally": "def g():\n    try:\n        return 1\n    finally:\n        return f(1)\nanswer = g()",
    "annotations are not evaluated": "def g(x: Undefined, y: f(3) = 3) -> Missing:\n    return y\nanswer = [g(1), f(1)]",
    "annotations of a module": "x: int = f(1)\nanswer = list(__annotate__(1))",
    "annotations that come later": "class A:\n    b: B = None\nclass B: pass\nanswer = [A.__annotations__['b'] is B, f(1)]",
    "annotationlib": "import annotationlib\ndef g(x: int): ...\nanswer = list(annotationlib.get_annotations(g))",
}


def f(number: int) -> int:
    return 10 * number


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_as_under_cpython(name: str) -> None:
    found: dict[str, Any] = {"f": f}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        exec(compile(PROGRAMS[name], "program", "exec", dont_inherit=True), found)
    result = run(PROGRAMS[name], {f"f({number})": f(number) for number in (1, 2)})
    assert (result.reason, result.answer) == ("answered", found["answer"]), result


def test_run_limit_reports_a_line_of_the_loop() -> None:
    result = run("a = 1\ndef g(a):\n    while True:\n        a += 1\ng(a)", limits=Limits(run_seconds=1))
    assert result.reason == "limit:run"
    assert result.error is not None and result.error.line in (3, 4)
