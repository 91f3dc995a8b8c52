"""Looks ahead while the program waits: finds calls that it will get to, and asks for them already.

Nothing here decides what the program computes. From where the program stands, the scout walks on: what is free of
effects it lets CPython evaluate, with the values that are there; a hole without a value is asked for, and what depends
on it is unknown until it comes. What has effects is not done; what it changes is unknown afterwards. A wrong guess
costs a call. Standard library only.
"""

from __future__ import annotations

import ast
import signal
import threading
import time
from collections import deque
from types import FrameType

from .iterations import clone, is_followed, left
from .link import headroom
from .places import FILENAME, Places, program_frame
from .requests import NotYet, Requests
from .units import Env, Loop, Unit
from .walk import Walker

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take a guest longer than all of ours
    from collections.abc import Callable, Sequence
    from typing import Any

    from .link import Link
    from .watch import Watcher

_MAX_LOOK_SECONDS = 0.25  # of CPU; a program that makes a look longer is not looked at again
_FREE_SECONDS, _SHARE = 0.05, 0.5  # looking may take this long, or this part of the time
_MAX_FRAMES = 16
_OWN_DEPTH = 1000  # frames of ours, above the program's
_MAX_OPEN = 8  # pieces that wait for values, for each call that may be under way
_MAX_STACK, _LARGE = 500, 10_000
_INNER = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_clock = time.monotonic  # the program's own clock may be fixed


class _Full(BaseException):
    """As many calls as allowed are under way."""


class _TooLong(BaseException):
    """An expression takes so long that looking ahead at it is no help."""


class Scout:
    """`is_looking` while it evaluates: holes are then met, not reached."""

    def __init__(
        self, link: Link, requests: Requests, watcher: Watcher, places: Places, walker: Walker, tools: Any
    ) -> None:
        self._link, self._requests, self._watcher, self._places = link, requests, watcher, places
        self._walker, self._tools = walker, frozenset(tools)
        walker.evaluate = self._evaluate
        self.is_looking = self._is_off = self._is_evaluating = False
        self._entered: dict[tuple[int, int], Any] = {}  # (loop, frame) → its iterator
        self._loops: dict[tuple[int, int], Loop] = {}
        self._waiting: dict[str, list[Unit]] = {}
        self._ready: deque[Unit] = deque()
        self._sources: list[Unit | Loop] = []
        self._unit: Unit | None = None
        self._began = self._looked = 0.0
        self._many = 8  # loops, when it is time to see which are over
        link.while_waiting = self.look
        requests.heard = self._hear

    def rehearse(self) -> None:
        """Walk over a program that nobody will run; see main."""
        module = Env({}, None, real={})
        self._walker.walk(Unit(list(self._walker.ahead.block(self._walker.ahead.found.syntax.tree)), module))
        clone(iter([1]))

    # --- what the program tells -------------------------------------------------------------------------------

    def enter(self, index: int, kind: str, iterable: Any) -> Any:
        """A loop begins; gives what it should go through."""
        if self.is_looking or self._is_off or not is_followed(iterable):
            return iterable
        frame: FrameType | None = program_frame()
        while frame is not None and frame.f_code.co_name in _INNER:
            frame = frame.f_back
        if len(self._entered) >= self._many or left(iter(iterable)) > _LARGE:
            self._forget_the_left()
            self._many = 2 * len(self._entered) + 8
        if kind == "call":
            copy = clone(iterable) if iter(iterable) is iterable else iter(iterable)
            self._entered[index, id(frame)] = (copy, copy)
            return iterable
        if kind == "sort":  # a list that is being sorted is empty meanwhile
            self._entered[index, id(frame)] = (iterable, iter(tuple(iterable)))
            return iterable
        iterator = iter(iterable)
        # Only a statement shows the element it is at: look at a comprehension from the first one on.
        self._entered[index, id(frame)] = (iterator, None if kind == "for" else clone(iterator))
        return iterator

    def _forget_the_left(self) -> None:
        """What belongs to functions that have returned must not live longer than it would."""
        live, frame = set[int](), program_frame()
        while frame is not None and len(live) < _MAX_STACK:
            live.add(id(frame))
            frame = frame.f_back
        if frame is None:
            self._entered = {key: loop for key, loop in self._entered.items() if key[1] in live}
            self._loops = {key: loop for key, loop in self._loops.items() if key[1] in live}
            self._sources = [source for source in self._sources if source.owner in live]
            self._ready = deque(unit for unit in self._ready if unit.owner in live)
            for key, units in list(self._waiting.items()):
                self._waiting[key] = [unit for unit in units if unit.owner in live]

    def meet(self, key: str | None, name: str, tell: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A hole is met while looking: its value, if it is there; else it is asked for."""
        if key is None or name in self._tools or key in self._requests.once:
            raise NotYet
        request = self._requests.known(key)
        if request is not None and request.reply is not None:
            return request.reply
        if request is None:
            if not self._requests.has_room:
                raise _Full
            self._is_evaluating = False  # no interruption in the middle of a frame
            self._requests.ahead(key, tell())
        elif request.is_failed:
            raise NotYet
        if self._unit is not None and key not in self._unit.keys:
            self._unit.keys.add(key)
            self._waiting.setdefault(key, []).append(self._unit)
        raise NotYet

    def expect(self, key: str | None, name: str, message: dict[str, Any]) -> None:
        """The program says itself that it will want this value."""
        if key is not None and name not in self._tools and self._requests.known(key) is None:
            self._requests.ahead(key, message)

    def _hear(self, key: str) -> None:
        for unit in self._waiting.pop(key, ()):
            unit.keys.discard(key)
            self._make_ready(unit)

    def _make_ready(self, unit: Unit) -> None:
        if not unit.is_ready:
            unit.is_ready = True
            self._ready.append(unit)

    def _evaluate(self, function: Callable[..., Any], values: Sequence[Any]) -> Any:
        """What a piece of the program gives, if it needs nothing that is not there."""
        self._is_evaluating = True
        try:
            return function(*values)
        except (NotYet, Exception):  # the program's own errors are for itself to see
            return Env.UNKNOWN
        finally:
            self._is_evaluating = False

    # --- looking ----------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Look ahead for as long as there is something to find, and room to ask for it."""
        if self._is_off or self.is_looking:
            return
        self._link.drain()
        has_work = self._ready or self._sources or self._requests.is_surprised
        if not has_work or not self._requests.has_room or threading.active_count() > 1:
            return
        began = _clock()
        self._began = self._began or began
        if self._looked > _FREE_SECONDS + _SHARE * (began - self._began) or not self._may_interrupt():
            return
        with headroom(_OWN_DEPTH):
            self._look(self._walker)
        self._link.flush()
        self._looked += _clock() - began

    def _look(self, walker: Walker) -> None:
        usual = signal.signal(signal.SIGVTALRM, self._interrupt)
        self.is_looking = self._watcher.is_off = True
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, _MAX_LOOK_SECONDS)
            self._survey(walker)
            self._pump(walker)
        except (_Full, NotYet):
            pass
        except (_TooLong, Exception):  # whatever it is, it is not the program's
            self._is_off = True
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            self.is_looking = self._watcher.is_off = False
            signal.signal(signal.SIGVTALRM, usual)

    def _may_interrupt(self) -> bool:
        """Only the main thread can be; and the timer may be the program's."""
        is_set = signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0
        is_used = signal.getsignal(signal.SIGVTALRM) is not signal.SIG_DFL
        return not is_set and not is_used and threading.current_thread() is threading.main_thread()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._is_evaluating:
            raise _TooLong

    def _pump(self, walker: Walker) -> None:
        place = 0  # those before it must wait for the program
        while self._requests.has_room:
            if self._ready:
                self._walk(walker, self._ready.popleft())
            elif place < len(self._sources) and len(self._waiting) < _MAX_OPEN * self._requests.width:
                source = self._sources[place]
                if isinstance(source, Loop) and source.may_leave and self._is_far(source):
                    place += 1
                    continue
                unit = source if isinstance(source, Unit) else source.turn()
                if unit is None or unit is source:
                    self._sources.pop(place)
                if unit is not None:
                    self._walk(walker, unit)
            else:
                return

    def _is_far(self, loop: Loop) -> bool:
        """A loop that may end early is looked at as far ahead as it has come half the way already."""
        done = loop.length - left(loop.real) if loop.real is not None else 0
        return loop.length - left(loop.items) - done > done // 2

    def _walk(self, walker: Walker, unit: Unit) -> None:
        self._unit, unit.is_ready = unit, False
        sent = self._requests.sent
        try:
            walker.walk(unit)
        except _Full:
            self._ready.appendleft(unit)
            unit.is_ready = True
            raise
        finally:
            self._unit = None
            fresh = [loop for loop in unit.loops.values() if not loop.is_known]
            for loop in fresh:
                loop.is_known, loop.owner = True, unit.owner
            self._sources[:0] = fresh
        if unit.loop is not None and self._requests.sent > sent:
            unit.loop.is_fruitful()
        if not unit.keys and unit.loop is not None:
            waiting = unit.loop.end_turn(unit)
            if waiting is not None:
                self._make_ready(waiting)

    # --- where the program stands -----------------------------------------------------------------------------

    def _survey(self, walker: Walker) -> None:
        """What lies ahead of the program: the rest of each function it is in, innermost first.

        Done where the program got to a call that nobody had seen coming; else what was found then still holds, but
        for the functions that the program has left.
        """
        frames: dict[int, FrameType] = {}
        frame = program_frame()
        while frame is not None and len(frames) < _MAX_FRAMES:
            if frame.f_code.co_filename == FILENAME and frame.f_code.co_name not in _INNER:
                frames[id(frame)] = frame
            frame = frame.f_back
        if self._requests.is_surprised:
            self._requests.is_surprised = False
            self._forget_the_left()
            self._sources = [source for frame in frames.values() for source in self._rest(frame, walker)]
        else:
            self._sources = [source for source in self._sources if source.owner in frames]

    def _rest(self, frame: FrameType, walker: Walker) -> list[Unit | Loop]:
        number = self._places.current_statement(frame)
        if frame.f_code.co_name == "<lambda>" or number >= len(walker.ahead.statements):
            return []
        env = walker.env_of(frame)
        sources: list[Unit | Loop] = []
        for index in walker.ahead.loops_in.get(number, ()):
            sources += self._loop(walker, index, frame, env)
        statement = walker.ahead.statements[number]
        sources.append(Unit([statement, *walker.ahead.following(statement)], env))
        around = walker.ahead.around(statement)
        while around is not None:
            index = walker.ahead.index.get(around, -1)
            if index >= 0:
                sources += self._loop(walker, index, frame, env)
            following = walker.ahead.following(around)
            if isinstance(around, ast.While) and isinstance(sources[-1], Unit):
                sources[-1].statements += [around, *following]  # it goes on with the next turn
            else:
                env = Env(dict.fromkeys(walker.ahead.touched(around), Env.UNKNOWN), env)
                sources.append(Unit(following, env))
            around = walker.ahead.around(around)
        for source in sources:
            source.owner = id(frame)
        return sources

    def _loop(self, walker: Walker, index: int, frame: FrameType, env: Env) -> list[Unit | Loop]:
        iterator, start = self._entered.get((index, id(frame)), (None, None))
        if iterator is None:
            return []
        known = self._loops.get((index, id(frame)))
        if known is None or known.real is not iterator:
            items = start if start is not None else clone(iterator)
            known = self._loops[index, id(frame)] = walker.loop(index, items, env, real=iterator)
        return [known]
