"""The state that a model sees at a pause: rows of tables with plain data, never the text of the program's objects."""

from __future__ import annotations

import pytest

from chainofcode import run
from chainofcode.emulator import Answered, Pause

pytest.importorskip("pandas")
PROGRAM = """
import numpy as np, pandas as pd
calls = []
class Spy:
    def __repr__(self):
        calls.append('repr')
        return 'spied'
grid = np.array([[1, 2], [3, 4]])
people = pd.DataFrame({'name': ['Ann', 'Bob'], 'age': [31, 42]})
ages = people['age']
cells = pd.DataFrame({'x': [Spy()]})
labels = pd.Series([1], index=[Spy()])
array = np.array([Spy()], dtype=object)
calls.clear()
judge(1)
answer = calls
"""


class Reader:
    """Keeps the state of its last pause."""

    reads_state = True

    async def answer(self, pause: Pause) -> Answered:
        self.state = pause.state
        return Answered(7)


def test_tables_are_shown_without_running_the_program() -> None:
    reader = Reader()
    result = run(PROGRAM, reader, packages=["pandas", "numpy"])
    assert (result.error, result.answer) == (None, [])
    assert reader.state["grid"] == "ndarray of shape (2, 2):\narray([[1, 2],\n       [3, 4]])"
    assert reader.state["people"] == "DataFrame of shape (2, 2):\n  name  age\n0  Ann   31\n1  Bob   42"
    assert reader.state["ages"].startswith("Series of shape (2,):\n0    31\n1    42\n")
    assert not any(
        "spied" in text or "of shape" in text for text in map(reader.state.get, ("cells", "labels", "array"))
    )
