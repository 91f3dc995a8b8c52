"""The panes of the debugger: a place of a timeline as lines of text.

Text of a trace is untrusted: it goes through `plain`, and into `Text`, which does not parse markup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ...audit import Timeline, Variable
from ...audit.replay.timeline import value_text
from ...render import GUTTER, how_sure, otherwise, plain, what
from ...trace import Answer, Step
from ...values.codec import ValueFormatError, decode

_STYLES = {"lm": "bold magenta", "tool": "bold yellow"}
CURRENT, CHANGED, DIFFERENT = "bold on grey30", "bold green", "bold red"
MAX_DETAIL = 100_000  # characters of one part of the detail
_MAX_LINE = 2000  # characters of a line; a pane cuts the line to its width
_MAX_OUTPUT = 20_000


class Lines(ScrollView, can_focus=False):
    """Lines that are rendered when they become visible, each cut at the end of the pane."""

    DEFAULT_CSS = "Lines { overflow-x: hidden; scrollbar-size-vertical: 1; }"

    _count = 0
    _line: Callable[[int], Text] = staticmethod(lambda _: Text(""))
    _at: int | None = None

    def show(self, count: int, line: Callable[[int], Text], at: int | None = None) -> None:
        """Show lines; scroll to the line `at`."""
        self._count, self._line, self._at = count, line, at
        self.virtual_size = Size(0, count)
        self._follow()
        self.refresh()

    def show_all(self, lines: Sequence[Text], at: int | None = None) -> None:
        self.show(len(lines), lines.__getitem__, at)

    def on_resize(self) -> None:
        self._follow()

    def _follow(self) -> None:
        height, top = self.scrollable_content_region.height, self.scroll_offset.y
        if self._at is not None and height and not top <= self._at < top + height:
            self.scroll_to(y=max(self._at - height // 2, 0), animate=False, force=True, immediate=True)

    def render_line(self, y: int) -> Strip:
        width, index = self.scrollable_content_region.width, y + self.scroll_offset.y
        if index >= self._count:
            return Strip.blank(width, self.rich_style)
        text = self._line(index).copy()
        text.truncate(width, overflow="ellipsis")
        strip = Strip(text.render(self.app.console), text.cell_len)
        return strip.adjust_cell_length(width).apply_style(self.rich_style)


def line_of(text: str, style: str = "") -> Text:
    """A line of untrusted text."""
    return Text(plain(text[:_MAX_LINE].expandtabs(4).rstrip("\r")), style)


def style_of(by: str) -> str:
    """Return the style for the `by` of a step: one for the LM, one for tools, one for all languages."""
    return _STYLES.get(by, "cyan")


# --- the program ----------------------------------------------------------------------------------------------------


def program_line(timeline: Timeline, place: int, index: int) -> Text:
    """A line of the program: a mark if it is current, its number, who runs it; dim if it has not run yet."""
    line = index + 1
    is_current = bool(timeline.steps) and timeline.steps[place].line == line
    runners = timeline.who(line)
    by = next((by for by in ("lm", "tool", *runners) if by in runners), "")
    is_reached = bool(runners) and min(runners.values()) <= place
    style = style_of(by) if is_reached else "dim"
    made = Text("▶" if is_current else " ")
    made.append(f"{line:>{len(str(len(timeline.lines)))}} ", "dim")
    made.append("lm+tl" if {"lm", "tool"} <= set(runners) else GUTTER.get(by, "  "), style)
    made.append("  ")
    made.append_text(line_of(timeline.lines[index], style if by else ""))
    if is_current:
        made.stylize(CURRENT)
    return made


# --- the state ------------------------------------------------------------------------------------------------------


def state_lines(state: Sequence[Variable]) -> tuple[list[Text], int | None]:
    """One line per name, and the index of the line to scroll to."""
    if not state:
        return [Text("no names yet", "dim")], None
    made = [_variable(variable) for variable in state]
    return made, next((at for at, variable in enumerate(state) if variable.is_changed), None)


def _variable(variable: Variable) -> Text:
    made = Text("* " if variable.is_changed else "  ", CHANGED)
    made.append(plain(variable.name[:_MAX_LINE]), CHANGED if variable.is_changed else "bold")
    if variable.text is None:
        return made.append(" deleted", CHANGED)
    made.append(" = ", "dim")
    return made.append_text(line_of(variable.text, CHANGED if variable.is_changed else ""))


# --- the step, and what was printed ---------------------------------------------------------------------------------


def step_lines(timeline: Timeline, place: int) -> list[Text]:
    if not timeline.steps:
        return [Text("no steps: nothing of this program was run", "dim")]
    step = timeline.steps[place]
    made = [_step_heading(timeline, step, place)]
    if step.call is not None:
        made.append(line_of(step.call.replace("\n", "⏎"), style_of(step.by)))
        outcome = f"→ {value_text(step, _MAX_LINE)}" if step.error is None else f"✗ {step.error}"
        made.append(line_of(outcome, "bold"))
    if step.confidence is not None:
        others = otherwise(step.confidence)
        made.append(line_of(how_sure(step.confidence) + (f"; otherwise {others}" if others else "")))
    if step.outcome is not None:
        made.append(line_of(f"→ {step.outcome}", "bold"))
    made += [line_of(_assignment(name[:_MAX_LINE], text), CHANGED) for name, text in step.delta.items()]
    if step.output:
        made.append(line_of(f"prints {step.output.rstrip()}"))
    row = timeline.row(place)
    if row is not None and not row.is_same:
        recorded = "no such step" if row.recorded is None else _recorded(row.recorded)
        made.append(line_of(f"{row.mark} recorded: {recorded}", DIFFERENT))
    return made


def _step_heading(timeline: Timeline, step: Step, place: int) -> Text:
    made = Text(f"step {step.number} of {len(timeline)}  ", "bold")
    made.append(f"{GUTTER[step.by]}", style_of(step.by))
    made.append(f"  line {step.line}")
    notes: list[str] = [step.how] if step.how else []
    notes += [f"visit {step.visit}"] if step.visit > 1 else []
    notes += [f"{step.seconds:.2f} s"] if step.seconds is not None and step.seconds >= 0.01 else []
    return made.append("".join(f"  {note}" for note in notes), "dim")


def _recorded(step: Step) -> str:
    summary = what(step, _MAX_LINE)
    return f"{summary}   prints {step.output.rstrip()}".strip() if step.output else summary


def output_lines(timeline: Timeline, place: int) -> list[Text]:
    printed = timeline.output(place, _MAX_OUTPUT)
    if not printed:
        return [Text("nothing yet", "dim")]
    return [line_of(line) for line in printed.removesuffix("\n").split("\n")]


# --- the position ---------------------------------------------------------------------------------------------------


def position(timeline: Timeline, place: int, width: int) -> Text:
    """Draw all steps on one line: ● the LM, ■ a tool, ≠ different from the recorded step, █ the current step."""
    size = len(timeline)
    label = f" {place + 1 if size else 0}/{size}"
    cells = max(width - len(label), 1)
    made = Text()
    for cell in range(cells if size else 0):
        start, end = cell * size // cells, max((cell + 1) * size // cells, cell * size // cells + 1)
        is_first = cell == 0 or (cell - 1) * size // cells != start  # of a step that takes several cells
        if start <= place < end and is_first:
            made.append("█", "bold")
        else:
            made.append(*_mark(timeline, range(start, end), is_first, place))
    return made.append(label, "bold")


def _mark(timeline: Timeline, places: range, is_first: bool, place: int) -> tuple[str, str]:
    passed = "━" if places.start <= place else "─"
    if not is_first:
        return passed, "dim"
    checked = places[:1000]
    if any((row := timeline.row(at)) is not None and not row.is_same for at in checked):
        return "≠", DIFFERENT
    origins = {timeline.steps[at].by for at in checked}
    if "lm" in origins:
        return "●", style_of("lm")
    return ("■", style_of("tool")) if "tool" in origins else (passed, "dim")


# --- in full --------------------------------------------------------------------------------------------------------


def detail(timeline: Timeline, place: int, answer: Answer | None) -> str:
    """Everything about a place in full, as lines that a terminal can show."""
    parts: list[tuple[str, str | None]] = []
    if timeline.steps:
        step = timeline.steps[place]
        title = f"step {step.number} of {len(timeline)}, line {step.line}, by {step.by}"
        parts += [(title, _source(timeline, step)), ("call", step.call)]
        if step.call is not None:
            parts.append(("value", _whole_value(step) if step.error is None else f"error: {step.error}"))
        parts += [("outcome", step.outcome), ("printed by this step", step.output)]
    state = timeline.state(place if timeline.steps else -1)
    parts += [
        ("state", "\n".join(_assignment(variable.name, variable.text) for variable in state)),
        ("printed so far", timeline.output(place)),
        ("question", timeline.trace.question),
    ]
    if answer is not None:
        parts += [("end", answer.reason), ("answer", answer.text), ("error", _error_text(answer))]
        parts.append(("standard error", answer.stderr))
    return "\n\n".join(f"── {title}\n{_safe(text)}" for title, text in parts if text)


def _error_text(answer: Answer) -> str | None:
    if answer.error is None:
        return None
    where = f" (line {answer.error.line})" if answer.error.line else ""
    return f"{answer.error.type}: {answer.error.message}{where}"


def _source(timeline: Timeline, step: Step) -> str:
    program = timeline.run.program
    return program.text(step.statement) if 0 <= step.statement < len(program.statements) else ""


def _whole_value(step: Step) -> str:
    try:
        return repr(decode(step.value))
    except (ValueFormatError, ValueError):  # an int may have too many digits to be written out
        return value_text(step, MAX_DETAIL)


def _assignment(name: str, text: str | None) -> str:
    return f"{name} = {text}" if text is not None else f"{name} deleted"


def _safe(text: str) -> str:
    left = len(text) - MAX_DETAIL
    text = "\n".join(plain(line.rstrip("\r")) for line in text[:MAX_DETAIL].split("\n"))
    return text + (f"\n… {left:,} more characters" if left > 0 else "")
