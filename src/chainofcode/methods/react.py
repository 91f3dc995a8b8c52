"""Thoughts and code by turns, over one state that persists: ReAct, with code for actions.

The whole run is one program of ours, in one guest: it asks for the next action as for any value that nobody defined,
runs it, and says what came of it. So nothing runs twice, holes work inside actions, and the trace is a trace.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

from ..emulator import Answered, Asking, Pause
from ..errors import EmulationError
from ..trace import Call, Event
from .parts import Asked, prompt

MAX_TURNS = 8
_CODE = re.compile(r"```(?:python|py)?\n(.*?)(?:```|\Z)", re.S)
_DRIVER = """
import contextlib, io
state, observation = dict(globals()), ""
while True:
    action = next_action(observation)
    if "answer" in action:
        answer = action["answer"]
        break
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            state.pop("answer", None)
            exec(action["code"], state)
        error = ""
    except (Exception, SystemExit) as failure:
        error = f"{type(failure).__name__}: {failure}"
    if "answer" in state and not error:
        answer = state["answer"]
        break
    observation = (printed.getvalue()[-2000:] + error) or "(nothing was printed)"
"""


async def react(asked: Asked) -> AsyncIterator[Event]:
    """Thoughts and code by turns; each sees what the last one printed."""
    async for event in asked.run(_DRIVER, _Acting(asked)):
        yield event


class _Acting:
    """Answers the call for the next action with a turn of the conversation, and every other as ever."""

    reads_state = True

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._other = Asking(asked.lm, votes=asked.value_votes)
        self._turns = [asked.text]

    async def answer(self, pause: Pause) -> Answered:
        if pause.name != "next_action":
            return await self._other.answer(pause)
        if len(self._turns) > 1:
            self._turns.append(f"Observation: {pause.args[0]}")
        if len(self._turns) > 2 * MAX_TURNS:
            raise EmulationError(f"no answer after {MAX_TURNS} actions")
        call = await self._asked.complete(prompt("react"), *self._turns)
        self._turns.append(call.reply)
        return Answered(self._action(call), (call,), is_once=True)  # the same observation may come again

    def _action(self, call: Call) -> dict[str, Any]:
        """The code of a turn; without any, the answer it states."""
        blocks = _CODE.findall(call.reply)
        if blocks:
            return {"code": blocks[0]}
        said = self._asked.answer_in(call.reply)
        return {"answer": said} if said is not None else {"code": "print('write code in a ```python block, or A: …')"}
