"""Alternating thoughts and code, with persistent state: ReAct, with code for actions.

The whole run is one program, in one guest: it calls an undefined function for the next action, runs the action, and
passes its output to the next call. So nothing runs twice, holes work inside actions, and the trace is an ordinary one.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

from ..emulator import Answered, Emulator, Pause
from ..engine.closing import close_after
from ..errors import EmulationError
from ..trace import Call, Event
from ..values.codec import brief
from .prompting import Inquiry, prompt

MAX_TURNS = 8
_CODE = re.compile(r"```(?:python|py)?\n(.*?)(?:```|\Z)", re.S)
_MAX_OBSERVED_CHARS = 4000
NEXT_ACTION = "_next_action_of_coc"  # a name that no tool, file or action uses
_DRIVER = f"""
import contextlib, io, traceback
state, observation = dict(globals()), ""
while True:
    action = {NEXT_ACTION}(observation)
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


async def react(inquiry: Inquiry) -> AsyncIterator[Event]:
    """Alternate thoughts and code; each turn sees what the last one printed."""
    async with close_after(inquiry.run(_DRIVER, _Acting(inquiry))) as events:
        async for event in events:
            yield event


class _Acting(Emulator):
    """Answers the call for the next action with a turn of the conversation; all others go to the usual emulator."""

    reads_state = True

    def __init__(self, inquiry: Inquiry) -> None:
        self._inquiry = inquiry
        self._other = inquiry.emulator()
        self._turns = [inquiry.text]

    async def answer(self, pause: Pause) -> Answered:
        if pause.name != NEXT_ACTION:
            return await self._other.answer(pause)
        if len(self._turns) > 1:
            self._turns.append(f"Observation: {_observed(pause)}")
        if len(self._turns) > 2 * MAX_TURNS:
            raise EmulationError(f"no answer after {MAX_TURNS} actions")
        call = await self._inquiry.complete(prompt("react"), *self._turns)
        self._turns.append(call.reply)
        return Answered(self._action(call), (call,), is_once=True)  # the same observation may come again

    def abandoned(self) -> list[Call]:
        return self._other.abandoned()

    def _action(self, call: Call) -> dict[str, Any]:
        """Return the code of a turn; without any, the answer it states."""
        blocks = _CODE.findall(call.reply)
        if blocks:
            return {"code": blocks[0]}
        answer = self._inquiry.answer_in(call.reply)
        if answer is None:
            return {"code": "print('write code in a ```python block, or A: …')"}
        return {"answer": answer}


def _observed(pause: Pause) -> str:
    """Return the output of the last action, bounded: an action may call this function itself, with anything."""
    output = pause.args[0] if pause.args else ""
    text = output if isinstance(output, str) else brief(output)
    half = _MAX_OBSERVED_CHARS // 2
    return text if len(text) <= 2 * half else f"{text[:half]}\n…\n{text[-half:]}"
