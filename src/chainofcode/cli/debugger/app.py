"""The debugger: steps through a trace, forwards and backwards, and continues with changed values."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Static
from textual.worker import Worker

from ...audit import Changes, Timeline, edited, read_value, timelines
from ...audit.replay.alignment import compared_answers, outcome_text
from ...audit.replay.timeline import value_text
from ...emulator import Answering
from ...errors import ChainOfCodeError, GrantError, InputError
from ...render import count, cut, plain
from ...sandbox import Sandbox
from ...trace import Answer, Trace
from ...values.codec import ValueFormatError, decode
from .dialogs import Ask, Detail
from .panes import Lines, detail, output_lines, position, program_line, state_lines, step_lines

_PAGE = 10
_MAX_EDITED = 5000  # characters of a value that can be edited in one line
_HINTS = "← → step · c LM step · / find · e edit · Enter in full · ? all keys · q quit"
_KEYS = """\
→  l  n  Space  a step forward
←  h  p         a step back
Page Down, Up   ten steps forward, back
Home, End       the first step, the last
c, C            the next, the previous step of the LM or a tool
o, O            the next, the previous step that prints
d, D            the next, the previous step that differs from the recorded run
/               find: the next step that changed or mentions a name
g               go to a step by its number
↑, ↓            scroll the names
Enter           everything about the step in full
e               change the value of a step of the LM or a tool, and continue
m               enter a value for the call at which an edited run ended
u               back to the recorded run
w               write the edited run as a trace
a               the next attempt (program) of the trace
Esc             stop a replay
q, Ctrl-C       quit

py  Python ran the line    lm  the LM    tl  a tool    (dim: not run yet)
*   the name changed at this step
≠   differs from the recorded run   +   not in the recorded run
"""


@dataclass
class _Attempt:
    """One program of the trace: as recorded, as shown now, and the edits in between."""

    recorded: Timeline
    now: Timeline
    place: int = 0
    edits: tuple[str, ...] = ()


class Debugger(App[None]):
    """Shows a trace. Replays with edited values run in the sandbox; new calls in them go to the emulator."""

    CSS = """
    #head { height: 2; padding: 0 1; background: $boost; }
    #top { height: 1fr; }
    #bottom { height: 30%; min-height: 6; max-height: 9; }
    .left { width: 3fr; }
    .right { width: 2fr; }
    Lines { border: round $panel-lighten-2; height: 100%; }
    #bar, #status { height: 1; padding: 0 1; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c,ctrl+q", "quit", "quit", priority=True, show=False),
        ("q", "quit", "quit"),
        ("right,l,n,space", "move(1)", "forward"),
        ("left,h,p", "move(-1)", "back"),
        ("pagedown", f"move({_PAGE})", "ten forward"),
        ("pageup", f"move(-{_PAGE})", "ten back"),
        ("home", "end(False)", "first"),
        ("end", "end(True)", "last"),
        ("c", "seek('asked', 1)", "next LM or tool step"),
        ("C", "seek('asked', -1)", "previous LM or tool step"),
        ("o", "seek('printing', 1)", "next step that prints"),
        ("O", "seek('printing', -1)", "previous step that prints"),
        ("d", "seek('differing', 1)", "next step that differs"),
        ("D", "seek('differing', -1)", "previous step that differs"),
        ("slash", "find", "find"),
        ("g", "go", "go to"),
        ("e", "edit", "edit"),
        ("m", "missing", "enter the missing value"),
        ("u", "undo", "as recorded"),
        ("w", "write", "write"),
        ("a", "attempt", "next attempt"),
        ("up", "scroll(-1)", "scroll up"),
        ("down", "scroll(1)", "scroll down"),
        ("enter", "detail", "in full"),
        ("question_mark", "help", "keys"),
        ("escape", "stop", "stop"),
    ]

    def __init__(
        self,
        trace: Trace,
        path: Path,
        *,
        emulator: Answering = None,
        sandbox: Sandbox | str = "auto",
        warnings: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self._path, self._emulator, self._sandbox, self._warnings = path, emulator, sandbox, tuple(warnings)
        self._attempts = [_Attempt(timeline, timeline) for timeline in timelines(trace)]
        self._final_answer = trace.answer
        self._shown = len(self._attempts) - 1
        self._search_text = ""
        self._replaying: Worker[None] | None = None
        self._message = "; ".join(warnings)

    @property
    def attempt(self) -> _Attempt:
        return self._attempts[self._shown]

    @property
    def timeline(self) -> Timeline:
        return self.attempt.now

    @property
    def place(self) -> int:
        return self.attempt.place

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        with Horizontal(id="top"):
            yield Lines(id="program", classes="left")
            yield Lines(id="state", classes="right")
        with Horizontal(id="bottom"):
            yield Lines(id="step", classes="left")
            yield Lines(id="output", classes="right")
        yield Static(id="bar")
        yield Static(id="status")

    def on_mount(self) -> None:
        for name in ("program", "state", "step", "output"):
            self.query_one(f"#{name}").border_title = name
        self._show()

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    # --- showing ----------------------------------------------------------------------------------------------

    def _show(self) -> None:
        if not self.is_running or not self.screen_stack:
            return
        screen, timeline, place = self.screen_stack[0], self.timeline, self.place
        line = timeline.steps[place].line - 1 if timeline.steps else None
        lines = len(timeline.lines)
        at = line if line is not None and 0 <= line < lines else None
        screen.query_one("#program", Lines).show(lines, lambda index: program_line(timeline, place, index), at)
        screen.query_one("#state", Lines).show_all(*state_lines(timeline.state(place if timeline.steps else -1)))
        screen.query_one("#step", Lines).show_all(step_lines(timeline, place), 0)
        printed = output_lines(timeline, place)
        screen.query_one("#output", Lines).show_all(printed, len(printed) - 1)
        screen.query_one("#head", Static).update(self._head())
        screen.query_one("#bar", Static).update(position(timeline, place, max(self.size.width - 2, 10)))
        status = Text(cut(plain(self._message), self.size.width - 2), "bold") if self._message else Text(_HINTS, "dim")
        status.no_wrap = True
        screen.query_one("#status", Static).update(status)

    def _show_message(self, message: str) -> None:
        self._message = message
        self._show()

    def _head(self) -> Text:
        attempt, width = self.attempt, max(self.size.width - 2, 20)
        parts = [plain(self._path.name)]
        if len(self._attempts) > 1:
            then = attempt.recorded.run.then
            parts.append(
                f"attempt {self._shown + 1} of {len(self._attempts)}" + (f" (then {plain(then)})" if then else "")
            )
        if attempt.edits:
            parts.append("edited: " + ", ".join(attempt.edits))
        elif self.timeline.trace.question is not None:
            parts.append(plain(self.timeline.trace.question.replace("\n", " ")[:1000]))
        ended = self._answer()
        answer = compared_answers(self._recorded_answer(), ended) if attempt.edits else f"answer: {outcome_text(ended)}"
        made = Text(cut(" · ".join(parts), width), no_wrap=True)
        return made.append("\n").append(cut(answer, width), "bold")

    def _recorded_answer(self) -> Answer | None:
        """The recorded answer; for the last attempt, the method may have added one."""
        is_last = self._shown == len(self._attempts) - 1
        return self.attempt.recorded.run.answer or (self._final_answer if is_last else None)

    def _answer(self) -> Answer | None:
        return self.timeline.run.answer if self.attempt.edits else self._recorded_answer()

    # --- moving -----------------------------------------------------------------------------------------------

    def _go_to(self, place: int, message: str = "") -> None:
        self.attempt.place = min(max(place, 0), max(len(self.timeline) - 1, 0))
        self._show_message(message)

    def action_move(self, by: int) -> None:
        self._go_to(self.place + by)

    def action_end(self, is_last: bool) -> None:
        self._go_to(len(self.timeline) - 1 if is_last else 0)

    def action_seek(self, kind: str, direction: int) -> None:
        kinds = {"asked": "of the LM or a tool", "printing": "that prints", "differing": "that differs"}
        found: int | None = getattr(self.timeline, kind)(self.place, direction)
        position = "after" if direction > 0 else "before"
        if found is None:
            self._show_message(f"no step {kinds[kind]} {position} this one")
        else:
            self._go_to(found)

    def action_find(self) -> None:
        def find(text: str) -> int:
            self._search_text = text
            found = self.timeline.find(text, self.place) if text and self.timeline.steps else None
            if found is None:
                raise InputError(f"no step changes or mentions {text!r}" if text else "enter a name or a text")
            return found

        self._ask(
            "Find a name or a text (Enter: the next step that changed or mentions it)",
            find,
            self._found,
            self._search_text,
        )

    def _found(self, place: int) -> None:
        again = " (from the top again)" if place <= self.place else ""
        self._go_to(
            place, f"{self._search_text}: step {self.timeline.steps[place].number}{again} · / Enter finds the next"
        )

    def action_go(self) -> None:
        def go(text: str) -> int:
            found = self.timeline.place_of(int(text)) if text.strip().isdecimal() and len(text) < 10 else None
            if found is None:
                raise InputError(f"there is no step {text!r}; the run has {count(len(self.timeline), 'step')}")
            return found

        self._ask(f"Go to step (of {len(self.timeline)})", go, self._go_to)

    def action_attempt(self) -> None:
        if len(self._attempts) == 1:
            self._show_message("the trace has only one program")
            return
        self._shown = (self._shown + 1) % len(self._attempts)
        self._show_message("")

    def action_scroll(self, by: int) -> None:
        self.query_one("#state", Lines).scroll_relative(y=by, animate=False)

    def action_detail(self) -> None:
        self.push_screen(Detail(detail(self.timeline, self.place, self._answer())))

    def action_help(self) -> None:
        self.push_screen(Detail(_KEYS))

    def _ask(self, title: str, read: Callable[[str], Any], then: Callable[[Any], None], value: str = "") -> None:
        def answered(given: Any) -> None:
            if given is not None:
                then(given)

        self.push_screen(Ask(title, read, value), answered)

    # --- what if ----------------------------------------------------------------------------------------------

    def action_edit(self) -> None:
        timeline = self.timeline
        step = timeline.steps[self.place] if timeline.steps else None
        if step is None or step.call is None:
            which = "there are no steps" if step is None else f"step {step.number} was run by Python"
            self._show_message(f"{which}: only values of the LM and of tools can be edited (c goes to the next)")
            return
        if self._is_replaying():
            return
        title = [f"New value for {cut(step.call.splitlines()[0] if step.call else '', 200)}, a Python literal"]
        title += [f"now: {value_text(step, 200)}" if step.error is None else f"now: ✗ {cut(step.error, 200)}"]
        title += [f"({warning})" for warning in self._warnings]

        def read(text: str) -> tuple[Changes, str]:
            return Changes(steps={step.number: read_value(text)}), cut(plain(text.strip()), 60)

        self._ask(
            "\n".join(title),
            read,
            lambda given: self._replay_from(step.call or "", step.number, *given),
            _literal(step.value),
        )

    def action_missing(self) -> None:
        """Ask for a value for the call at which the run ended."""
        call, number = self.timeline.missing, len(self.timeline) + 1
        if not call:
            self._show_message("the run did not end at a call without a value")
            return
        title = f"No value is known for {cut(call.splitlines()[0] if call else '', 200)}; enter one, a Python literal"

        def read(text: str) -> tuple[Changes, str]:
            return Changes(calls={call: read_value(text)}), cut(plain(text.strip()), 60)

        self._ask(title, read, lambda given: self._replay_from(call, number, *given))

    def _replay_from(self, call: str, number: int, changes: Changes, value: str) -> None:
        edit = f"{cut(plain(call), 60)} = {value}"
        self._replaying = self.run_worker(self._edited(self._shown, changes, edit, number), exclusive=True)
        self._show_message(f"running from step {number} on … (Esc stops it)")

    async def _edited(self, which: int, changes: Changes, edit: str, number: int) -> None:
        attempt = self._attempts[which]
        before = attempt.now
        try:
            now = await edited(attempt.recorded, before, changes, self._emulator, self._sandbox)
        except GrantError as error:
            self._show_message("this run needs grants: restart coc debug with the options shown")
            self.push_screen(Detail("\n".join(map(plain, str(error).split("\n")))))
            return
        except ChainOfCodeError as error:
            self._show_message(str(error))
            return
        same = now.place_of(number)
        place = same if same is not None else min(before.place_of(number) or 0, max(len(now) - 1, 0))
        self._attempts[which] = _Attempt(attempt.recorded, now, place, (*attempt.edits, edit))
        self._shown = which
        self._show_message(self._outcome(now))
        if now.missing:
            self._go_to(len(now) - 1, self._outcome(now))
            self.action_missing()

    def _outcome(self, now: Timeline) -> str:
        ended = now.run.answer
        if now.missing:
            return f"no value for {cut(now.missing, 60)}: m to enter one · u to return to the recorded run"
        if ended is None or not ended.is_answered:
            return f"no answer: {ended.reason if ended else 'interrupted'} · u to return to the recorded run"
        return "d: the next step that differs · u: back to the recorded run · w: write"

    def action_stop(self) -> None:
        if self._replaying is not None and self._replaying.is_running:
            self._replaying.cancel()
            self._show_message("stopped; the run is unchanged")
        else:
            self._show_message("")

    def _is_replaying(self) -> bool:
        is_running = self._replaying is not None and self._replaying.is_running
        if is_running:
            self._show_message("a replay is still running (Esc stops it)")
        return is_running

    def action_undo(self) -> None:
        attempt = self.attempt
        if not attempt.edits:
            self._show_message("this is the recorded run")
        elif not self._is_replaying():
            attempt.now, attempt.edits = attempt.recorded, ()
            self._go_to(attempt.place, "back to the recorded run")

    def action_write(self) -> None:
        if not self.attempt.edits:
            self._show_message("nothing to write: the run was not edited")
            return
        trace = self.timeline.trace

        def write(text: str) -> Path:
            path = Path(text.strip()).expanduser() if text.strip() else None
            if path is None:
                raise InputError("enter a file name")
            if path.exists():
                raise InputError(f"{path} already exists; choose another name")
            trace.write(path)
            return path

        name = str(self._path.with_name(f"{self._path.stem}-edited.jsonl"))
        name = name if plain(name) == name else "edited.jsonl"
        self._ask("Write the edited run to", write, lambda path: self._show_message(f"written to {path}"), name)


def _literal(value: Any) -> str:
    """Return a value as a literal to edit; empty if it has none."""
    try:
        text = repr(decode(value))
        ast.literal_eval(text)
    except (ValueFormatError, ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return ""
    return text if len(text) <= _MAX_EDITED else ""
