"""The debugger as a user sees it, with real keys and screens, and the timeline that it shows."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from processes import descendants, is_alive
from test_cli import COC, coc

from chainofcode import Answer, InputError, Jail, Program, ScriptedLM, Step, Trace, run, solve
from chainofcode.audit import Changes, Timeline, edited, timelines
from chainofcode.emulator import Answered
from chainofcode.methods import compose
from chainofcode.program import Statement

pytest.importorskip("textual", reason="the extra `debug` is not installed")
from textual.pilot import Pilot
from textual.widgets import Input

from chainofcode.cli.debugger.app import Debugger

FRUIT = ROOT / "examples" / "traces" / "fruit.jsonl"
HOSTILE = "[red]markup[/red] [@click=app.quit]x[/] \x1b[31mred\x1b]0;title\x07 \u202e \r\udce9"


@pytest.fixture(scope="module")
def jail() -> Iterator[Jail]:
    with Jail(spares=0) as opened:
        yield opened


def fruit() -> Trace:
    return Trace.read(FRUIT)


def drive(
    trace: Trace,
    script: Callable[[Debugger, Pilot[None]], Awaitable[None]],
    size: tuple[int, int] = (100, 30),
    path: Path = FRUIT,
    **options: Any,
) -> None:
    """Run a script of key presses in the real app."""

    async def main() -> None:
        app = Debugger(trace, path, **options)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await script(app, pilot)

    asyncio.run(main())


def screen(app: Debugger, below: bool = False) -> str:
    """The text of the screen; with `below`, of the main screen below a dialog."""
    shown = app.screen_stack[0] if below else app.screen
    return "\n".join(strip.text for strip in shown._compositor.render_strips())


async def type_in(app: Debugger, pilot: Pilot[None], text: str) -> None:
    app.screen.query_one(Input).value = text
    await pilot.press("enter")
    await app.workers.wait_for_complete()
    await pilot.pause()


def fenced(*programs: str) -> list[str]:
    return [f"```python\n{text}\n```" for text in programs]


# --- the timeline -------------------------------------------------------------------------------------------------


def timeline_of(*steps: Step, **fields: Any) -> Timeline:
    program = Program("a = 1\nb = f(a)\n", (Statement(1, 0, 1, 5, "Assign"), Statement(2, 0, 2, 8, "Assign")))
    return timelines(Trace(events=[program, *steps, Answer("answered", 1, "1", sandbox="A")], **fields))[0]


def test_states_follow_from_the_deltas() -> None:
    line = timeline_of(
        Step(1, "python", 0, 1, delta={"a": "1"}),
        Step(2, "lm", 1, 2, call="f(1)", value=2),
        Step(3, "python", 1, 2, delta={"b": "2", "a": "3"}, output="one\n"),
        Step(4, "python", 1, 2, delta={"a": None}, output="two\n"),
        Step(5, "tool", 1, 2, call="g()", value={"$nope": 1}),
        question="Why?",
        inputs={"n": [1, 2]},
    )
    states = [
        {variable.name: variable.text for variable in line.state(place)}
        | {"*": [variable.name for variable in line.state(place) if variable.is_changed]}
        for place in range(-1, 5)
    ]
    given = {"question": "'Why?'", "n": "[1, 2]"}
    assert states == [
        {**given, "*": []},
        {**given, "a": "1", "*": ["a"]},
        {**given, "a": "1", "*": []},
        {**given, "a": "3", "b": "2", "*": ["a", "b"]},
        {**given, "a": None, "b": "2", "*": ["a"]},
        {**given, "b": "2", "*": []},
    ]
    assert [line.output(place) for place in range(5)] == ["", "", "one\n", "one\ntwo\n", "one\ntwo\n"]
    assert line.output(4, 3) == "wo\n"
    assert line.who(2) == {"lm": 1, "python": 2, "tool": 4}
    assert [line.asked(0), line.asked(1), line.asked(4), line.asked(1, -1)] == [1, 4, None, None]
    assert [line.printing(0), line.printing(3), line.printing(3, -1)] == [2, None, 2]
    assert line.differing(0) is None


def test_find_prefers_whole_words_and_wraps_around() -> None:
    line = timeline_of(
        Step(1, "python", 0, 0, delta={"counter": "1"}),
        Step(2, "lm", 1, 0, call="f('apple')", value="A fruit"),
        Step(3, "python", 1, 0, delta={"count": "2"}),
    )
    assert [line.find("count", place) for place in (0, 1, 2)] == [2, 2, 2]
    assert [line.find("unter", place) for place in (0, 2)] == [0, 0]
    assert line.find("a FRUIT", 2) == line.find("'apple'", 0) == 1
    assert line.find("(", 2) == 1
    assert line.find("nothing", 0) is line.find("", 0) is None
    assert timeline_of().find("x", 0) is None


def test_navigation_in_a_long_run_is_fast() -> None:
    steps = [Step(n, "python", 0, 1, delta={f"name{n}": "1", "a": str(n)}) for n in range(1, 20_001)]
    line = timeline_of(*steps)
    start = time.process_time()
    assert len(line.state(19_999)) == 20_001
    assert line.find("name20000", 0) == 19_999
    assert time.process_time() - start < 5


def test_any_attempt_can_be_edited(jail: Jail) -> None:
    replies = [*fenced("w = weight('stone')\nanswer = w / 0"), "7", *fenced("answer = weight('stone') * 2")]
    trace = solve("What?", ScriptedLM(replies), method=compose("coc", repairs=1), sandbox=jail).trace
    first, last = timelines(trace)
    assert (first.run.answer and first.run.answer.reason, len(last)) == ("error", 2)
    place = first.asked(-1)
    assert place is not None
    number = first.steps[place].number

    async def both() -> None:
        changed = await edited(first, first, Changes(steps={number: "x"}), sandbox=jail)
        assert changed.run.answer is not None
        assert changed.run.answer.error is not None and changed.run.answer.error.type == "TypeError"
        once_more = await edited(first, changed, Changes(steps={number: 7}), sandbox=jail)
        assert all((row := once_more.row(at)) is not None and row.is_same for at in range(len(once_more)))
        with pytest.raises(InputError, match="was run by Python"):
            await edited(last, last, Changes(steps={2: 1}), sandbox=jail)

    asyncio.run(both())


# --- navigation ---------------------------------------------------------------------------------------------------


def test_navigation_keys() -> None:
    async def script(app: Debugger, pilot: Pilot[None]) -> None:
        assert "step 1 of 17" in screen(app)
        assert "answer: '2 of 4 are fruit'" in screen(app)
        places = []
        for key in (
            "right",
            "l",
            "n",
            "space",
            "left",
            "h",
            "p",
            "end",
            "right",
            "home",
            "left",
            "pagedown",
            "pagedown",
        ):
            await pilot.press(key)
            places.append(app.place)
        assert places == [1, 2, 3, 4, 3, 2, 1, 16, 16, 0, 0, 10, 16]
        await pilot.press("pageup", "home", "c")
        assert app.place == 3
        text = screen(app)
        assert "▶4 lm      if is_fruit(item):" in text
        assert "is_fruit('apple')" in text and "→ True" in text
        assert "count = 0" in text and "item = 'apple'" in text
        await pilot.press("c", "c", "C")
        assert app.timeline.steps[app.place].call == "is_fruit('hammer')"
        await pilot.press("home", "C")
        assert app.place == 0
        assert "no step of the LM or a tool before this one" in screen(app)
        await pilot.press("right", "right", "right", "right", "right")
        assert "* count = 1" in screen(app)
        await pilot.press("o")
        assert "no step that prints after this one" in screen(app)

    drive(fruit(), script)


def test_go_to_step_and_find() -> None:
    async def script(app: Debugger, pilot: Pilot[None]) -> None:
        await pilot.press("g", "1", "1", "enter")
        assert app.place == 10
        await pilot.press("g")
        await type_in(app, pilot, "99")
        assert "there is no step '99'; the run has 17" in screen(app)
        await pilot.press("escape", "home", "slash")
        await pilot.press(*"hammer", "enter")
        assert app.timeline.steps[app.place].number == 7
        await pilot.press("slash", "enter")
        assert app.timeline.steps[app.place].number == 8
        await pilot.press("slash")
        await type_in(app, pilot, "no such thing")
        assert "no step changes or mentions 'no such thing'" in screen(app)
        await pilot.press("escape", "question_mark")
        assert "back to the recorded run" in screen(app)
        await pilot.press("q")
        assert app.is_running and app.place == 7

    drive(fruit(), script)


def test_output_and_tools(jail: Jail) -> None:
    def price_of(item: str) -> float:
        return 2.5

    source = (
        "for n in range(3):\n    print('line', n, 'x' * 500)\n" + "pass\n" * 60 + "answer = price_of('fig') + f('fig')"
    )
    trace = run(source, {"f('fig')": 1}, tools=[price_of], sandbox=jail).trace

    async def script(app: Debugger, pilot: Pilot[None]) -> None:
        assert "nothing yet" in screen(app)
        await pilot.press("o", "o")
        text = screen(app)
        assert "■●" in text  # marks of later steps: a tool, the LM
        assert "line 1 xxx" in text and "line 2 xxx" not in text
        assert "x" * 500 not in text
        await pilot.press("enter")
        assert screen(app).count("x" * 60) > 5  # in full
        await pilot.press("enter", "c")
        text = screen(app)
        assert "▶63 lm+tl  answer = price_of('fig')" in text  # the line was scrolled into view
        assert "tl  line 63" in text
        assert "→ 2.5" in text

    drive(trace, script, size=(80, 24))


# --- what if ------------------------------------------------------------------------------------------------------


def test_edit_and_undo_and_write(jail: Jail, tmp_path: Path) -> None:
    async def script(app: Debugger, pilot: Pilot[None]) -> None:
        await pilot.press("e")
        assert "step 1 was run by Python" in screen(app)
        await pilot.press("w")
        assert "the run was not edited" in screen(app)
        await pilot.press("c", "c", "e")
        assert app.screen.query_one(Input).value == "False"
        await pilot.press(*"Tru", "enter")
        assert "Tru is neither a Python literal" in screen(app)
        assert "step:" not in screen(app)
        await pilot.press("e", "enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
        text = screen(app)
        assert "answer: '2 of 4 are fruit' → '3 of 4 are fruit'" in text
        assert "edited: is_fruit('hammer') = True" in text
        assert "step 8 of 18" in text
        assert "≠ recorded: is_fruit('hammer') → False" in text
        await pilot.press("d", "d")
        assert "+ recorded: no such step" in screen(app) or "≠ recorded" in screen(app)
        await pilot.press("home", "c", "e")  # on top of the first edit
        await type_in(app, pilot, "False")
        assert "answer: '2 of 4 are fruit' (as recorded)" in screen(app)
        await pilot.press("w")
        await type_in(app, pilot, str(FRUIT))
        assert "already" in screen(app)
        await type_in(app, pilot, str(tmp_path / "none" / "x.jsonl"))
        assert "cannot write" in screen(app)
        await type_in(app, pilot, str(tmp_path / "new.jsonl"))
        assert "written to" in screen(app)
        await pilot.press("u")
        assert "→ '3 of 4" not in screen(app) and "edited" not in screen(app)
        assert len(app.timeline) == 17
        await pilot.press("u")
        assert "this is the recorded run" in screen(app)

    drive(fruit(), script, sandbox=jail, size=(110, 30))
    written = Trace.read(tmp_path / "new.jsonl")
    assert [step.value for step in written.steps if step.by == "lm"] == [False, True, True, False]
    assert coc("replay", tmp_path / "new.jsonl").returncode == 0
    assert "a what-if, edited: step 8, is_fruit('hammer') = True; step 4, is_fruit('apple') = False\n" in (
        coc("show", tmp_path / "new.jsonl").stdout
    )
    checked = coc("verify", tmp_path / "new.jsonl")
    assert checked.returncode == 1
    assert "✗ it is a what-if, not the original run; edited: step 8, is_fruit('hammer')" in checked.stdout


def test_new_calls_need_a_value(jail: Jail) -> None:
    source = "answer = other('x') if f(1) else 0"
    trace = run(source, {"f(1)": False}, sandbox=jail).trace

    async def edit(app: Debugger, pilot: Pilot[None]) -> None:
        await pilot.press("home", "e")
        await type_in(app, pilot, "True")

    async def without_emulator(app: Debugger, pilot: Pilot[None]) -> None:
        await edit(app, pilot)
        text = screen(app)
        assert "answer: 0 → none (emulation failed" in text
        assert "No value is known for other('x')" in text
        await type_in(app, pilot, "wher")
        assert "wher is neither a Python literal nor JSON; text needs quotes" in screen(app)
        await pilot.press("escape")
        assert "no value for other('x'): m to enter one" in screen(app)
        await pilot.press("m")
        await type_in(app, pilot, "8")
        assert "answer: 0 → 8" in screen(app)
        assert "step 2 of 3" in screen(app)
        await pilot.press("m")
        assert "did not end at a call without a value" in screen(app)

    async def with_emulator(app: Debugger, pilot: Pilot[None]) -> None:
        await edit(app, pilot)
        assert "answer: 0 → 5" in screen(app)

    drive(trace, without_emulator, sandbox=jail)
    drive(trace, with_emulator, sandbox=jail, emulator=lambda pause: 5)


def test_later_recorded_values_are_used_after_a_missing_one(jail: Jail) -> None:
    """The edited run ends before these calls, but their recorded values are still used."""
    source = "a = other('x') if f(1) else 0\nb = [g(n) for n in (1, 2)]\nanswer = (a, b)"
    trace = run(source, {"f(1)": False, "g(1)": 10, "g(2)": 20}, sandbox=jail).trace

    async def script(app: Debugger, pilot: Pilot[None]) -> None:
        await pilot.press("home", "e")
        await type_in(app, pilot, "True")
        await type_in(app, pilot, "5")
        assert "answer: (0, [10, 20]) → (5, [10, 20])" in screen(app)
        assert app.timeline.trace.edited == ["step 1, f(1) = True", "other('x') = 5"]

    drive(trace, script, sandbox=jail)


def test_values_of_other_kinds_are_edited(jail: Jail) -> None:
    source = "the sum of the prices\nwhen = date_of('x')\nanswer = total"
    values = {"the sum of the prices": {"total": 7}, "date_of('x')": 1j}
    trace = run(source, values, sandbox=jail).trace

    async def script(app: Debugger, pilot: Pilot[None]) -> None:
        await pilot.press("e")
        assert app.screen.query_one(Input).value == "{'total': 7}"
        await type_in(app, pilot, "{'total': [8]}")
        assert "answer: 7 → [8]" in screen(app)
        assert "* total = [8]" in screen(app)
        await pilot.press("home", "e")
        await type_in(app, pilot, "...")  # a literal, but not a valid value
        assert app.is_running
        assert len(app.screen_stack) == 1

    drive(trace, script, sandbox=jail)


class Never:
    """An emulator that never answers."""

    async def answer(self, pause: Any) -> Answered:
        await asyncio.sleep(1000)
        raise AssertionError


@pytest.mark.parametrize("key", ["q", "ctrl+c", "escape"])
def test_quitting_and_stopping_during_a_run(key: str) -> None:
    with Jail(spares=0) as jail:
        trace = run("answer = other('x') if f(1) else 0", {"f(1)": False}, sandbox=jail).trace

        async def script(app: Debugger, pilot: Pilot[None]) -> None:
            await pilot.press("home", "e")
            app.screen.query_one(Input).value = "True"
            await pilot.press("enter")
            await pilot.pause(0.5)
            assert "running from step 1 on" in screen(app)
            await pilot.press("end", "e")  # navigation works meanwhile, editing does not
            assert "still running" in screen(app) or "was run by Python" in screen(app)
            await pilot.press(key)
            await pilot.pause()
            if key == "escape":
                assert "stopped" in screen(app)
                assert len(app.timeline) == len(timelines(trace)[0])

        before = set(descendants(os.getpid()))
        drive(trace, script, sandbox=jail, emulator=Never())
        assert not [pid for pid in set(descendants(os.getpid())) - before if is_alive(pid)]


# --- unusual traces -----------------------------------------------------------------------------------------------


def test_hostile_text_is_shown_as_text(jail: Jail) -> None:
    source = f"x = f({HOSTILE[:33]!r})\nprint(x)\nanswer = x  # [red]c[/red] \u202e"
    result = run(source, lambda pause: HOSTILE, question=HOSTILE, inputs={"n": HOSTILE}, sandbox=jail)
    trace = Trace.parse([line.encode() for line in result.trace.lines()])
    odd = Step(99, "python", 77, -5, delta={f"[bold]{HOSTILE}": HOSTILE}, outcome=HOSTILE, output=HOSTILE, call=HOSTILE)
    trace.events.insert(-1, odd)

    async def script(app: Debugger, pilot: Pilot[None]) -> None:
        text = screen(app)
        for key in ("right", "right", "end", "enter", "escape", "home", "e"):
            await pilot.press(key)
            await pilot.pause()
            text += screen(app, below=True) + screen(app)
        await pilot.press("escape", "slash")
        await type_in(app, pilot, "[red]nowhere[/red]")
        text += screen(app)
        await pilot.press("escape", "c", "e")
        await type_in(app, pilot, "'[red]edited[/]'")
        text += screen(app)
        assert text.count("[red]markup[/red]") > 10
        assert "[red]nowhere[/red]" in text and "[red]edited[/]" in text
        assert "[bold][red]markup" in text
        assert "\\x1b[31mred" in text
        assert not {c for c in text if not c.isprintable() and c != "\n"}

    drive(trace, script, size=(160, 40), path=Path("[red]a\x1b.jsonl"), sandbox=jail, warnings=["[red]w[/red]"])


def test_each_attempt_can_be_shown(jail: Jail) -> None:
    replies = [*fenced("w = weight('stone')\nanswer = w / 0"), "7", *fenced("answer = weight('stone') * 2")]
    trace = solve("What?", ScriptedLM(replies), method=compose("coc", repairs=1), sandbox=jail).trace

    async def script(app: Debugger, pilot: Pilot[None]) -> None:
        assert "attempt 2 of 2 · What?" in screen(app)
        assert "weight('stone') * 2" in screen(app)
        await pilot.press("a")
        text = screen(app)
        assert "attempt 1 of 2 (then " in text
        assert "none (error" in text and "answer = w / 0" in text
        await pilot.press("e")
        await type_in(app, pilot, "'x'")
        assert "unsupported operand" in screen(app)
        await pilot.press("a")
        assert "attempt 2 of 2" in screen(app) and "edited" not in screen(app)

    drive(trace, script, sandbox=jail)


@pytest.mark.parametrize(
    "trace",
    [
        Trace(),
        Trace("Why?", events=[Answer("answered", 7, "7", "reply")]),
        Trace(events=[Program("")]),
        Trace(events=[Program("x = 1"), Answer("limit:run", sandbox="A")]),
    ],
)
def test_keys_work_in_a_trace_without_steps(trace: Trace) -> None:
    async def script(app: Debugger, pilot: Pilot[None]) -> None:
        await pilot.press(
            "right", "left", "home", "end", "pagedown", *"cCodeuwa", "up", "down", "enter", "escape", "slash"
        )
        await type_in(app, pilot, "x")
        await pilot.press("escape", "g")
        await type_in(app, pilot, "1")
        assert "there is no step '1'" in screen(app)
        await pilot.press("escape")
        assert "no steps" in screen(app)
        assert "0/0" in screen(app)

    drive(trace, script)


def test_small_terminal_can_be_resized() -> None:
    async def script(app: Debugger, pilot: Pilot[None]) -> None:
        await pilot.press("c", "right", "end", "e", "enter", "escape")
        await pilot.resize_terminal(12, 5)
        await pilot.press("home", "right")
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        assert "step 2 of 17" in screen(app)

    drive(fruit(), script, size=(30, 10))


# --- the command --------------------------------------------------------------------------------------------------


def test_debug_needs_a_terminal() -> None:
    done = coc("debug", FRUIT)
    assert done.returncode == 2
    assert done.stderr == f"coc: coc debug needs a terminal; without one, use coc show {FRUIT}\n"
    assert "cannot read" in coc("debug", "none.jsonl").stderr


class Terminal:
    """A command in its own pseudo-terminal."""

    def __init__(self, *command: str) -> None:
        self._host, guest = pty.openpty()
        fcntl.ioctl(guest, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        env = {**os.environ, "TERM": "xterm-256color"}
        self.child = subprocess.Popen(
            command, stdin=guest, stdout=guest, stderr=guest, env=env, start_new_session=True, cwd=ROOT
        )
        os.close(guest)
        self.seen = ""

    def wait_for(self, text: str, seconds: float = 30) -> None:
        end = time.monotonic() + seconds
        while text not in self.seen and time.monotonic() < end:
            if select.select([self._host], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self._host, 65536).decode(errors="replace")
                except OSError:
                    break
        assert text in self.seen, self.seen[-2000:]

    def press(self, keys: str) -> None:
        self.seen = ""
        os.write(self._host, keys.encode())

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.child.kill()
        self.child.wait()
        os.close(self._host)


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_in_a_terminal(key: str) -> None:
    terminal = Terminal(*COC, "debug", str(FRUIT))
    try:
        terminal.wait_for("step 1 of 17")
        terminal.press("ce")
        terminal.wait_for("Python literal")
        terminal.press("False\r")
        terminal.wait_for("'1 of 4 are fruit'")
        running = descendants(terminal.child.pid)
        terminal.press(key)
        terminal.wait_for("\x1b[?1049l")  # the original screen is restored
        assert terminal.child.wait(20) == 0
        assert "Traceback" not in terminal.seen
        assert not [pid for pid in running if is_alive(pid)]
    finally:
        terminal.close()


def test_missing_textual_names_the_extra() -> None:
    code = "import sys; sys.modules['textual'] = None; from chainofcode.cli import main; sys.exit(main())"
    terminal = Terminal(sys.executable, "-c", code, "debug", str(FRUIT))
    try:
        terminal.wait_for("pip install 'chainofcode[debug]'")
        assert terminal.child.wait(20) == 2
    finally:
        terminal.close()
