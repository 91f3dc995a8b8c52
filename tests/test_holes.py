"""Holes in every position: results are the same as under CPython with the holes as real functions."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

from chainofcode import run
from chainofcode.languages.python.guest.run.holes import call_text

FRUIT = {"apple", "kiwi", "pear", "fig"}
CAPITALS = {"France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Japan": "Tokyo"}
HOLES: dict[str, Any] = {
    "is_fruit": lambda x: x in FRUIT,
    "capital_of": lambda country: CAPITALS[country],
    "legs": lambda animal: {"cat": 4, "bird": 2, "ant": 6}.get(animal, 0),
    "score": lambda text, **kw: len(str(text)) % 5,
    "list_colours": lambda: ["red", "green"],
    "pair_of": lambda x: (x, x),
    "next_word": lambda w: {"a": "b", "b": "c", "c": None}.get(w),
    "make_point": lambda x, y: {"x": x, "y": y},
    "category": lambda w, *a, **k: "fruit" if w in FRUIT else "thing",
}

PROGRAMS = {
    "while_header": "w = 'a'\nn = 0\nwhile next_word(w) is not None:\n    w = next_word(w)\n    n += 1\nanswer = (w, n)",
    "while_else": "n = 0\nwhile legs('cat') > n:\n    n += 1\nelse:\n    n = -n\nanswer = n",
    "walrus": "out = [c for w in ['France', 'Italy'] if (c := capital_of(w)) != 'Rome']\nanswer = (out, c)",
    "walrus_if": "if (n := legs('bird')) == 2:\n    answer = n * 10\nelse:\n    answer = None",
    "short_circuit": "log = []\ndef t(x):\n    log.append(x)\n    return True\n"
    "answer = [t(1) or is_fruit('never'), is_fruit('rock') and t(2), is_fruit('fig') and t(3), log]",
    "chained_compare": "answer = 1 < legs('bird') < legs('cat') <= 4",
    "lambda": "f = lambda w: is_fruit(w) and w.upper()\nanswer = [f(w) for w in ('fig', 'car')]",
    "default_argument": "def f(x=legs('cat')):\n    return x\nanswer = f() + f(1)",
    "decorator_argument": "def times(n):\n    def wrap(f):\n        return lambda *a: [f(*a)] * n\n    return wrap\n"
    "@times(legs('bird'))\ndef g(x):\n    return x\nanswer = g(7)",
    "generator": "def gen():\n    for w in ('fig', 'car', 'pear'):\n        if is_fruit(w):\n            yield w\nanswer = list(gen())",
    "generator_send": "def gen():\n    x = yield legs('cat')\n    yield x + legs('bird')\ng = gen()\n"
    "a = next(g)\nanswer = (a, g.send(10))",
    "yield_from": "def inner():\n    yield from list_colours()\nanswer = list(inner())",
    "with_header": "from contextlib import contextmanager\n@contextmanager\ndef cm(x):\n    yield x + 1\n"
    "with cm(legs('cat')) as n, cm(legs('bird')) as m:\n    answer = n * m",
    "return_header": "def f(w):\n    return capital_of(w) + '!'\nanswer = f('Spain')",
    "dict_and_set_comp": "answer = ({w: legs(w) for w in ('cat', 'ant')}, {legs(w) for w in ('cat', 'dog')})",
    "nested_comp_condition": "answer = [(a, b) for a in ('cat', 'ant') for b in range(legs(a)) if b % 2 and is_fruit('fig')]",
    "star_args": "args = ('France',)\nanswer = capital_of(*args) + capital_of(**{'country': 'Italy'})",
    "keywords": "answer = score('abc', unit='cm', base=2)",
    "multi_line_call": "answer = score(\n    'abcdef',\n    weight=[1,\n            2],\n)",
    "nested_function": "def outer(ws):\n    def inner(w):\n        return is_fruit(w)\n    return [inner(w) for w in ws]\nanswer = outer(['fig', 'x'])",
    "sorted_lambda_key": "answer = sorted(['bird', 'ant', 'cat'], key=lambda a: (-legs(a), a))",
    "max_key": "answer = max(['bird', 'ant', 'cat'], key=legs), min(['bird', 'ant'], key=legs)",
    "filter_map_reduce": "from functools import reduce\nanswer = (list(filter(is_fruit, ['fig', 'x'])), reduce(lambda a, b: a + b, map(legs, ['cat', 'ant'])))",
    "any_all": "answer = (any(is_fruit(w) for w in ['x', 'fig', 'y']), all(is_fruit(w) for w in ['fig', 'x', 'y']))",
    "own_higher_order": "def apply_all(f, xs):\n    return [f(x) for x in xs]\nanswer = apply_all(is_fruit, ['fig', 'x'])",
    "function_in_variable": "check = is_fruit\nanswer = [check('fig'), check('x')]",
    "functions_in_list": "checks = [is_fruit, legs]\nanswer = [c('cat') for c in checks]",
    "functions_in_dict": "table = {'f': is_fruit, 'l': legs}\nanswer = table['l']('ant'), table['f']('fig')",
    "partial": "from functools import partial\nf = partial(score, 'abc', k=1)\nanswer = f()",
    "conditional_function": "f = is_fruit if True else legs\nanswer = f('fig')",
    "lru_cache": "from functools import lru_cache\n@lru_cache\ndef f(w):\n    return legs(w)\nanswer = f('cat') + f('cat')",
    "try_finally_return": "def f():\n    try:\n        return legs('cat')\n    finally:\n        log.append(legs('bird'))\nlog = []\nanswer = (f(), log)",
    "except_handler": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    answer = capital_of('Japan')",
    "raise_in_program": "class Bad(Exception):\n    pass\ntry:\n    if not is_fruit('x'):\n        raise Bad(capital_of('France'))\nexcept Bad as e:\n    answer = str(e)",
    "class_attribute_and_method": "class A:\n    n = legs('cat')\n    def f(self, k=legs('bird')):\n        return self.n * k\nanswer = A().f()",
    "property": "class A:\n    @property\n    def colour(self):\n        return list_colours()[0]\nanswer = A().colour",
    "dunder": "class A:\n    def __len__(self):\n        return legs('ant')\n    def __getitem__(self, i):\n        if i >= legs('bird'):\n            raise IndexError\n        return i\nanswer = (len(A()), list(A()))",
    "dataclass": "from dataclasses import dataclass, field\n@dataclass\nclass P:\n    x: int = legs('cat')\n    ys: list = field(default_factory=list_colours)\nanswer = (P().x, P().ys)",
    "match": "match pair_of(3):\n    case (a, b) if is_fruit('fig'):\n        answer = a + b\n    case _:\n        answer = None",
    "match_dict": "match make_point(1, 2):\n    case {'x': x, 'y': y}:\n        answer = x + y",
    "unpacking": "a, b = pair_of(5)\n(c, d), *e = [pair_of(1), 2, 3]\nanswer = (a, b, c, d, e)",
    "augmented": "d = {'n': 1}\nd['n'] += legs('cat')\nxs = [1]\nxs += list_colours()\nanswer = (d, xs)",
    "slice_and_index": "xs = list(range(10))\nanswer = (xs[legs('bird'):legs('ant')], xs[legs('cat')])",
    "f_string_nested": 'w = \'fig\'\nanswer = f\'{w!r:>{legs("ant")}} is {"" if is_fruit(w) else "not "}fruit\'',
    "assert_message": "try:\n    assert is_fruit('rock'), capital_of('Spain')\nexcept AssertionError as e:\n    answer = str(e)",
    "global_and_nonlocal": "n = 0\ndef outer():\n    m = 0\n    def inner():\n        nonlocal m\n        global n\n        m += legs('cat')\n        n += m\n    inner(); inner()\n    return m\nanswer = (outer(), n)",
    "del_and_star": "x = legs('cat')\ny = x\ndel x\nanswer = [y, *list_colours(), *pair_of(0)]",
    "eval_string": "answer = eval('legs(\"cat\") + 1')",
    "exec_string": "exec('x = capital_of(\"Italy\")\\ndef f(w):\\n    return is_fruit(w)')\nanswer = (x, f('fig'))",
    "exec_in_function": "def f():\n    ns = {}\n    exec('y = legs(\"ant\")', ns)\n    return ns['y']\nanswer = f()",
    "eval_handed_on": "answer = list(map(eval, ['legs(\"cat\")', '1 + 1']))",
    "recursion_two_holes": "def walk(w, depth=0):\n    n = next_word(w)\n    if n is None:\n        return [(w, depth)]\n    return [(w, depth)] + walk(n, depth + 1)\nanswer = walk('a')",
    "self_shadow_function": "def f(w):\n    category = category(w)\n    return category\nanswer = [f('fig'), f('car')]",
    "self_shadow_comprehension": "legs = [legs(w) for w in ('cat', 'ant')]\nanswer = legs",
    "self_shadow_method_chain": "capital_of = capital_of('France').upper()\nanswer = capital_of",
    "tabs": "def f(x):\n\tif is_fruit(x):\n\t\treturn 1\n\treturn 0\nanswer = f('fig') + f('x')",
    "semicolons": "a = legs('cat'); b = legs('ant'); answer = a * b",
    "one_line_bodies": "if is_fruit('fig'): answer = 'y'\nelse: answer = 'n'",
    "aliases": "a = []\nb = a\na.append(capital_of('France'))\nanswer = (b, a is b)",
    "side_effect_once": "n = 0\ndef bump():\n    global n\n    n += 1\n    return 'cat'\nanswer = (legs(bump()), n)",
    "late_definition": "def f():\n    return helper('fig')\ndef helper(w):\n    return is_fruit(w)\nanswer = f()",
    "name_main": "def main():\n    return legs('cat')\nif __name__ == '__main__':\n    answer = main()",
    "threads": "import threading\nout = []\nts = [threading.Thread(target=lambda w=w: out.append(legs(w))) for w in ('cat', 'ant')]\n"
    "[t.start() for t in ts]\n[t.join() for t in ts]\nanswer = sorted(out)",
    "counter": "from collections import Counter, defaultdict\nd = defaultdict(list)\nfor w in ['fig', 'car', 'pear']:\n    d[category(w)].append(w)\nanswer = (dict(d), Counter(map(category, ['fig', 'x'])))",
    "docstring_and_comment": '"""About."""\n# count\nanswer = legs("cat")  # four',
    "long_text_argument": "text = 'line one\\n' + 'x' * 500 + '\"quoted\" and \\'single\\''\nanswer = score(text)",
    "unicode": "naïve = 'écoute 日本'\nanswer = score(naïve)",
    "async_for_with": "import asyncio\nasync def agen():\n    for w in ('cat', 'ant'):\n        yield legs(w)\nasync def main():\n    return [n async for n in agen()]\nanswer = asyncio.run(main())",
    "print_last": "print('first')\nprint(capital_of('France'), legs('cat'))",
    "expression_last": "x = legs('cat')\nx * 2",
    "exit": "answer = legs('cat')\nexit()\nanswer = 0",
    "none_value": "x = next_word('c')\nanswer = x is None",
    "type_argument": "answer = score('abc', ret_type=int) if True else 0",
    "object_argument": "class P:\n    def __repr__(self):\n        return 'P!'\nanswer = score(P(), like=len)",
}


class _Recorder:
    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def wrap(self, name: str) -> Any:
        def hole(*args: Any, **kwargs: Any) -> Any:
            value = HOLES[name](*args, **kwargs)
            self.calls.append((call_text(name, args, kwargs), value))
            return value

        return hole


def under_cpython(program: str) -> tuple[Any, list[tuple[str, Any]]]:
    """The answer with the holes as real functions, by the engine's rules for answers; and the calls."""
    import ast
    import contextlib
    import io
    import sys
    import types

    recorder, module = _Recorder(), types.ModuleType("__main__")
    real_main = sys.modules["__main__"]
    names = {name: recorder.wrap(name) for name in HOLES}
    vars(builtins).update(names)
    body = ast.parse(program)
    last = body.body[-1]
    if isinstance(last, ast.Expr):
        body.body[-1] = ast.copy_location(ast.Assign([ast.Name("_last", ast.Store())], last.value), last)
    printed = io.StringIO()
    try:
        sys.modules["__main__"] = module
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            exec(compile(ast.fix_missing_locations(body), "<program>", "exec"), module.__dict__)
    finally:
        sys.modules["__main__"] = real_main
        for name in names:
            delattr(builtins, name)
    found = vars(module)
    if "answer" in found:
        return found["answer"], recorder.calls
    if found.get("_last") is not None:
        return found["_last"], recorder.calls
    return printed.getvalue().splitlines()[-1], recorder.calls


SHADOWING = {name for name in PROGRAMS if name.startswith("self_shadow")}


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - SHADOWING))
def test_same_as_with_real_functions(name: str) -> None:
    expected, calls = under_cpython(PROGRAMS[name])
    requested: list[str] = []

    def answer(pause: Any) -> Any:
        requested.append(pause.text)
        return HOLES[pause.name](*_arguments(pause), **pause.kwargs)

    result = run(PROGRAMS[name], answer)
    assert result.reason == "answered", result.trace.answer
    assert result.trace.answer is not None
    assert result.trace.answer.text == repr(expected)
    if name != "threads":
        texts = [text for text, _ in calls]
        assert [step.call for step in result.trace.steps if step.call] == texts
        # Each call is requested once, unless it has no arguments, or objects of the program as arguments.
        assert requested == [text for i, text in enumerate(texts) if text not in texts[:i] or "()" in text]


def _arguments(pause: Any) -> list[Any]:
    return list(pause.args)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("self_shadow_function", ["fruit", "thing"]),
        ("self_shadow_comprehension", [4, 6]),
        ("self_shadow_method_chain", "PARIS"),
    ],
)
def test_variable_may_have_the_name_of_its_hole(name: str, expected: Any) -> None:
    assert run(PROGRAMS[name], lambda pause: HOLES[pause.name](*pause.args)).answer == expected
