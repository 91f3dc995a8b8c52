"""The type that a program expects from each hole: by declaration, by use, by name."""

from __future__ import annotations

import time

import pytest

from chainofcode import Program

CASES = [
    ("w = f(1)\nanswer = len(w)", "list | str"),
    ("answer = f('wedding').strftime('%A')", "date"),
    # declared
    ("answer = f(1, ret_type=bool)", "bool"),
    ("answer = f(1, ret_type='list[str]')", "list[str]"),
    ("x: int = f(1)", "int"),
    ("def f(x) -> list[str]: ...\nanswer = f(1)", "list[str]"),
    ("def f(x) -> 'Optional[int]':\n    '''How many.'''\nanswer = f(1)", "Optional[int]"),
    ("from typing import Literal\nL = Literal['a', 'b']\ndef f(x) -> L: ...\nanswer = f(1)", "Literal['a', 'b']"),
    (
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    name: str\n    age: int\ndef f(x) -> list[P]: ...\nanswer = f(1)",
        "list[{'name': str, 'age': int}]",
    ),
    ("def g(x: int): return x\nanswer = g(f(1))", "int"),
    ("def g(x) -> float:\n    return f(x)\nanswer = g(1)", "float"),
    # conditions
    ("if f(1): pass", "bool"),
    ("while f(1): break", "bool"),
    ("x = 1 if f(1) else 2", "bool"),
    ("x = not f(1)", "bool"),
    ("if f(1) and f(2): pass", "bool"),
    ("xs = [x for x in [1] if f(x)]", "bool"),
    ("xs = list(filter(f, [1]))", "bool"),
    ("x = any(f(y) for y in [1])", "bool"),
    ("v = f(1)\nif v: pass", "bool"),
    ("def g(x):\n    return f(x)\nif g(1): pass", "bool"),
    # numbers
    ("n = 0\nn += f(1)", "number"),
    ("x = sum(f(y) for y in [1])", "number"),
    ("x = max([1], key=f)", "number"),
    ("x = sorted([1], key=f)", "number"),
    ("x = f(1) > 3", "number"),
    ("x = f(1) * 2", "number"),
    ("x = f(1) == 3", "number"),
    ("print(f'{f(1):.2f}')", "number"),
    ("for i in range(f(1)): pass", "int"),
    ("xs = [f(y) for y in [1]]\nt = sum(xs)", "number"),
    ("d = {}\nfor k in [1]:\n    d[k] = f(k)\nbest = max(d, key=d.get)", "number"),
    ("s = ''\ns += f(1)", "str"),
    # labels
    ("k = f(1)\nif k == 'a': x = 1\nelif k == 'b': x = 2", "Literal['a', 'b']"),
    ("k = f(1)\nif k == 'a': x = 1\nelif k == 'b': x = 2\nelse: x = 3", "Literal['a', 'b'] | str"),
    ("if f(1) == 'a': pass", "Literal['a'] | str"),
    ("d = {'a': 1, 'b': 2}\nx = d[f(1)]", "Literal['a', 'b']"),
    ("x = f(1) in ['a', 'b']", "Literal['a', 'b'] | str"),
    ("match f(1):\n    case 'a': pass\n    case 'b' | 'c': pass", "Literal['a', 'b', 'c']"),
    ("xs = [f(y) for y in [1]]\nn = xs.count('spam')", "Literal['spam'] | str"),
    ("k = f(1)\nif k == 'unknown': x = 0\nelse: x = k + 1", "number | Literal['unknown']"),
    ("c = f(1)\nif c != 'a' and c != 'b': x = c", "Literal['a', 'b'] | str"),
    ("xs = ['a', 'b']\nx = xs[f(1)]", "int"),
    ("xs = ['a', 'b']\nx = xs[: f(1)]", "int"),
    # optional values
    ("x = f(1)\ny = x.upper() if x is not None else 'none'", "str | None"),
    ("x = f(1)\nif x is None or x > 5: pass", "number | None"),
    ("x = f(1)\nif x is None: y = 1\nelse: y = x", "Any | None"),
    # tested and used in another way: the other use determines the type
    ("names = f(1)\nif names:\n    for n in names: print(n)", "list"),
    ("d = f(1)\nfor k in d: print(k, d.get(k), d.items())", "dict"),
    # lists, records, dates, text
    ("for x in f(1): pass", "list"),
    ("for x in f(1)[:2]: pass", "list"),
    ("x = f(1)[1:].upper()", "str"),
    ("x = ', '.join(f(1)[:2])", "list[str]"),
    ("if f(1)[:2] == 'US': x = 1\nelif f(1)[:2] == 'UK': x = 2", "str"),
    ("match f(1)[:2]:\n    case 'US': x = 1\n    case 'UK': x = 2", "str"),
    ("a, b = f(1)[1:3]", "list"),
    ("xs = [f(y) for y in [1]]\nfor x in xs[:2]: print(x.upper())", "str"),
    ("xs = []\nxs.append(f(1))\nfor x in xs[:2]: print(x + 1)", "number"),
    ("xs = [f(y) for y in [1]]\nn = sum(xs[1:])", "number"),
    ("x = ', '.join(f(1))", "list[str]"),
    ("a, b = f(1)", "tuple[Any, Any]"),
    ("x = f(1)['name']", "{'name': Any}"),
    ("x = f(1).city", "{'city': Any}"),
    ("d = f(1)\nif d.legs > 4 and d['name'] == 'ant': pass", "{'legs': number, 'name': Literal['ant']}"),
    ("d = f(1)\nfor k, v in d.items(): pass", "dict"),
    ("def g(x):\n    return f(x)\nxs = list(filter(g, [1]))", "bool"),
    ("x = f(1).lower()", "str"),
    ("x = f(1).year", "date"),
    ("import datetime\nx = f(1) < datetime.date(2026, 6, 1)", "date"),
    ("import datetime\nd = datetime.date.today()\nx = (d - f(1)).days", "date"),
    ("limit = 3\nx = f(1) > limit", "number"),
    ("x = f(1) < 'm'", "str"),
    ("import datetime\nx = f(1) - datetime.timedelta(days=1)", "date"),
]


@pytest.mark.parametrize(("source", "expected"), CASES, ids=[source.replace("\n", "; ")[:60] for source, _ in CASES])
def test_expected_type(source: str, expected: str) -> None:
    found = [use.type for use in Program.parse(source).uses if use.name == "f"]
    assert found, "no use of f was found"
    assert set(found) == {expected}


@pytest.mark.parametrize(
    ("source", "name", "expected"),
    [
        ("x = is_fruit(1)", "is_fruit", "bool"),
        ("x = has_wings(1)", "has_wings", "bool"),
        ("x = count_words(1)", "count_words", "int"),
        ("x = how_many_legs(1)", "how_many_legs", "int"),
        ("n = 0\nn += is_fruit(1)", "is_fruit", "bool"),
        ("x = 'a'.is_rude()", "is_rude", "bool"),
        ("import nlp_magic\nif nlp_magic.likes(1): pass", "nlp_magic.likes", "bool"),
    ],
)
def test_types_from_names(source: str, name: str, expected: str) -> None:
    assert [use.type for use in Program.parse(source).uses if use.name == name] == [expected]


@pytest.mark.parametrize(
    "source",
    [
        "x = f(1)\nprint(x)",
        "author = f(1)\nanswer = f'by {author}' if author else 'unknown'",
        "x = f(1)\nassert x\nanswer = x",
        "rs = [f(x) for x in [1]]\nanswer = [r for r in rs if r]",
        "if f(1): print(f(2))",
        "w = f(1)\nanswer = w[0]",
        "if f(1)[1:]: pass",
        "answer = float(f(1)[1:])",
        "answer = f(1)[:3] * 2",
        "t = f(1)\nanswer = 'a' in t",
        "answer = f(1)[item]",
        "answer = set(f(1))",
        "answer = f(1) - f(2)",
        "answer = f(1) < f(2)",
        "answer = max(f(1), f(2))",
        "def g(limit): return f(1) < limit\nanswer = g(3)",
        "s = str(5)\nt = set()\nt |= f(1)",
        "answer = f(1).replace(year=2)",
        "answer = f(1).hour",
    ],
)
def test_no_type_without_evidence(source: str) -> None:
    assert Program.parse(source).uses == ()


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("answer = max(['a'], key=birth_date)", "birth_date"),
        ("answer = sorted(['a'], key=surname)", "surname"),
        ("answer = number_to_words(5)", "number_to_words"),
        ("answer = do_translate('x')", "do_translate"),
    ],
)
def test_names_that_imply_no_type(source: str, name: str) -> None:
    assert [use for use in Program.parse(source).uses if use.name == name] == []


def test_self_referential_class_is_expanded_only_partly() -> None:
    fields = "".join(f"    f{n}: P\n" for n in range(25))
    started = time.monotonic()
    (use,) = Program.parse(f"class P:\n{fields}def parse(x) -> P: ...\nanswer = parse(1)").uses
    assert "'f3': Any" in use.type
    assert time.monotonic() - started < 10


def test_a_stub_is_found_by_its_statement() -> None:
    program = Program.parse("def f(x):\n    '''Whether x is red.'''\n\nanswer = f(1)")
    (use,) = program.uses
    assert program.text(use.spec or 0) == "def f(x):\n    '''Whether x is red.'''"


def test_types_of_a_long_program_are_found_quickly() -> None:
    source = "x = 1\n" + "\n".join(f"x = f(x) if g(x) else h(x + {n})" for n in range(3000))
    started = time.monotonic()
    Program.parse(source)
    assert time.monotonic() - started < 15
