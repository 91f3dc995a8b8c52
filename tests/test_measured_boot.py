"""How a coverage run records the lines that guests run."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from coverage.parser import PythonParser
from measured_boot import PROBED, LineMap, add_probes

from chainofcode.boot import ROOT

SOURCE = '''\
"""A docstring comes first."""
from __future__ import annotations
import functools

@functools.cache
def sign(number):
    """A docstring."""
    match number:
        case 0:
            return ""
        case 1 | 2:
            return "+"
    raise ValueError

class Fine:
    text: str = sign(
        1
    )

try:
    sign(9)
except KeyError:
    pass
except ValueError:
    for _ in ():
        pass
    else:
        done = (lambda: True)()
finally:
    last = 1
'''
NEVER = {9, 10, 22, 23, 26}  # `case 0` and `except KeyError` with their bodies; the body of the loop


def statements(source: str) -> set[int]:
    """The lines that coverage counts."""
    parser = PythonParser(text=source, exclude="#never")
    parser.parse_source()
    return set(parser.statements)


def test_each_line_that_ran_is_recorded() -> None:
    tree, lines = ast.parse(SOURCE), bytearray(100)
    add_probes(tree)
    names: dict[str, Any] = {PROBED: lines, "__name__": "probed"}
    exec(compile(tree, "probed", "exec"), names)
    assert {line for line, was_run in enumerate(lines) if was_run} == statements(SOURCE) - NEVER
    assert names["__doc__"] == "A docstring comes first." and names["sign"].__doc__ == "A docstring."
    assert names["Fine"].text == "+" and names["done"]


@pytest.mark.parametrize("name", ["boot.py", "languages/guest/link.py", "values/codec.py", "sandbox/zygote.py"])
def test_each_statement_has_a_probe(name: str) -> None:
    path = f"{ROOT}/{name}"
    with open(path, encoding="utf-8") as file:
        source = file.read()
    tree = ast.parse(source)
    add_probes(tree)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Subscript) and ast.unparse(node.value) == PROBED]
    probes = {node.slice.value for node in found if isinstance(node.slice, ast.Constant)}
    assert probes >= statements(source)
    assert max(probes) < LineMap().places[path][1]
