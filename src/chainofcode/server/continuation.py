"""The recorded part of a resumed run: the run repeats its events, and only new events are added to the trace."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any

import msgspec

from ..audit.replay.resume import Resumed
from ..errors import InputError
from ..program import Program
from ..trace import Answer, Call, Event, Header, Kept, Step, Trace

_OPERATORS = ("limits", "packages", "scratch")  # settings that the operator may have changed since the recording


class Continuation:
    """Compares the events of a resumed run with the recorded ones.

    While they are equal, nothing is written. From the first step that differs (threads can cause this), the recorded
    steps are dropped. Requests are always kept: they were paid for.
    """

    def __init__(self, trace: Trace) -> None:
        self.resumed = Resumed(trace)
        self.events = list[Kept](trace.events)
        if self.events and isinstance(self.events[-1], Answer) and not self.events[-1].then:
            self.events.pop()  # the run continues, so this answer is not the last
        self._header = trace.header
        self._calls = collections.Counter(_key(event) for event in self.events if isinstance(event, Call))
        self._new_calls: list[Call] = []  # requests since the run was resumed
        self._place = 0  # of the next recorded event that the run has to repeat
        self.has_diverged = False  # the run has made a different event

    def use_settings(self, settings: Mapping[str, Any]) -> None:
        """Record what the server allows now: the trace must replay with the settings under which it ends."""
        own = {name: value for name, value in self._header.settings.items() if name not in _OPERATORS}
        own |= {name: settings[name] for name in _OPERATORS if name in settings}  # defaults are left out
        self._header = msgspec.structs.replace(self._header, settings=own)

    @property
    def lines(self) -> list[Header | Kept]:
        """The content of the trace before the run continues."""
        return [self._header, *self.events]

    def is_recorded(self, event: Event) -> bool:
        """Whether the trace already has an event. Raises InputError if the program is not the recorded one."""
        if isinstance(event, Header):
            return True
        if isinstance(event, Call):
            return self._is_recorded_call(event)
        if not isinstance(event, (Program, Step, Answer)) or not self._has_more() or self.has_diverged:
            return False
        if _is_same(self.events[self._place], event):
            self._place += 1
            return True
        self.has_diverged = True
        return False

    def _is_recorded_call(self, call: Call) -> bool:
        if self._calls[_key(call)] > 0:
            self._calls[_key(call)] -= 1
            return True
        self._new_calls.append(call)
        return False

    def _has_more(self) -> bool:
        """Whether a recorded event other than a request is next."""
        while self._place < len(self.events) and isinstance(self.events[self._place], Call):
            self._place += 1
        return self._place < len(self.events)

    def part(self) -> None:
        """Drop the recorded events that the run did not repeat, except requests."""
        rest = [event for event in self.events[self._place :] if isinstance(event, Call)]
        self.events = [*self.events[: self._place], *rest, *self._new_calls]
        self._place, self.has_diverged = len(self.events), False


def _key(call: Call) -> tuple[str, str, bool]:
    return call.prompt, call.reply, call.is_abandoned


def _is_same(recorded: Kept, made: Program | Step | Answer) -> bool:
    match recorded, made:
        case Program(), Program():
            if recorded.source != made.source:
                raise InputError("the trace is of another program: the run cannot be resumed")
            return True
        case Step(), Step():
            return (recorded.by, recorded.statement, recorded.call) == (made.by, made.statement, made.call)
        case Answer(), Answer():
            return (recorded.reason, recorded.then) == (made.reason, made.then)
    return False
