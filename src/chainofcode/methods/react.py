"""Thoughts and code by turns, over one state that persists: ReAct, with code for actions.

The whole run is one program of ours, in one guest: it asks for the next action as for any value that nobody defined,
runs it, and says what came of it. So nothing runs twice, holes work inside actions, and the trace is a trace.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

from ..emulator import Answered, Emulator, Pause, asking
from ..errors import EmulationError
from ..trace import Call, Event
from ..values.codec import brief
from .prompting import Asked, prompt

MAX_TURNS = 8
_CODE = re.compile(r"```(?:python|py)?\n(.*?)(?:```|\Z)", re.S)
_MAX_OBSERVED_CHARS = 4000
_NEXT = "_next_action_of_coc"  # a name that no tool, file or action has
_DRIVER = f"""
import contextlib, io, traceback
state, observation = dict(globals()), ""
while True:
    action = {_NEXT}(observation)
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
        error = traceback.format_exception_only(failure)[-1].strip()[:1000]
    if "answer" in state and not error:
        answer = state["answer"]
        break
    observation = (printed.getvalue()[-2000:] + error) or "(nothing was printed)"
"""


async def react(asked: Asked) -> AsyncIterator[Event]:
    """Thoughts and code by turns; each sees what the last one printed."""
    async for event in asked.run(_DRIVER, _Acting(asked)):
        yield event


class _Acting(Emulator):
    """Answers the call for the next action with a turn of the conversation, and every other as ever."""

    reads_state = True

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._other = asking(asked.lm, asked.value_votes)
        self._turns = [asked.text]

    async def answer(self, pause: Pause) -> Answered:
        if pause.name != _NEXT:
            return await self._other.answer(pause)
        if len(self._turns) > 1:
            self._turns.append(f"Observation: {_observed(pause)}")
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


def _observed(pause: Pause) -> str:
    """What the last action said, bounded: an action may have called us itself, with anything."""
    said = pause.args[0] if pause.args else ""
    text = said if isinstance(said, str) else brief(said)
    half = _MAX_OBSERVED_CHARS // 2
    return text if len(text) <= 2 * half else f"{text[:half]}\n…\n{text[-half:]}"
