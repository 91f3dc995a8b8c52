"""A trace as HTML, for notebooks: one self-contained element, readable on light and dark pages.

Text from programs, models and tools is escaped; there are no scripts, links or external resources.
"""

from __future__ import annotations

import html
from collections.abc import Iterator

from .program import Program
from .render import GUTTER, Page, code_steps, count, cut, plain, what
from .trace import Answer, Kept, Step, Trace

MAX_STEPS = 200
_MAX_ANSWER_CHARS = 5000
_MAX_OUTPUT_CHARS = 5000
# Text has the page's own colour; a background tint shows who took the step.
_TINTS = {"python": "rgba(8,145,178,.25)", "lm": "rgba(192,38,211,.25)", "tool": "rgba(217,119,6,.3)"}
_BOX = "font:13px/1.5 ui-monospace,Menlo,Consolas,monospace;color:inherit;background:transparent;max-width:100%"
_CELL = "padding:0 .7em 0 0;border:0;text-align:left;vertical-align:top;white-space:pre-wrap;background:transparent"
_DIM = "opacity:.7"


def as_html(trace: Trace) -> str:
    """Return a trace as HTML: the answer, then the steps in a section that can be collapsed."""
    return f'<div style="{_BOX}">{"".join(_parts(trace))}</div>'


def _parts(trace: Trace) -> Iterator[str]:
    page, answer = Page(width=200), trace.answer
    if answer is None:
        yield _line("no answer: the trace ends before the run did", "font-weight:bold")
    else:
        for number, line in enumerate(page.answer(answer)):
            yield _line(line[:_MAX_ANSWER_CHARS], "" if number else "font-weight:bold")
    rows = [row for attempt in trace.attempts for row in _attempt(attempt, page)]
    if rows:
        shown = "".join(rows[:MAX_STEPS])
        yield f'<details open><summary style="{_DIM}">{_text(_summary(trace))}</summary>'
        yield f'<table style="border-collapse:collapse;border:0;background:transparent">{shown}</table>'
        if len(rows) > MAX_STEPS:
            yield _line(f"… {count(len(rows) - MAX_STEPS, 'more step')}", _DIM)
        yield "</details>"
    if trace.output:
        yield f'<details><summary style="{_DIM}">output</summary>{_line(trace.output[:_MAX_OUTPUT_CHARS])}</details>'


def _attempt(events: list[Kept], page: Page) -> Iterator[str]:
    program = next((event for event in events if isinstance(event, Program)), None)
    for event in events if program is not None else ():
        if isinstance(event, Step) and program is not None:
            yield _row(event, program)
    last = events[-1]
    if isinstance(last, Answer) and last.then:
        text = _text(" ".join(page.turn(last)))
        yield f'<tr style="background:transparent"><td colspan="4" style="{_CELL};{_DIM}">{text}</td></tr>'


def _row(step: Step, program: Program) -> str:
    source = program.first_line(step.statement) if 0 <= step.statement < len(program.statements) else ""
    tint = _TINTS.get(step.by, _TINTS["python"])
    actor = f'<span style="background:{tint};border-radius:3px;padding:0 .35em">{GUTTER[step.by]}</span>'
    cells = [(str(step.line), _DIM), (actor, ""), (_text(cut(source, 80)), ""), (_text(what(step, 160)), "")]
    made = "".join(f'<td style="{_CELL};{style}">{text}</td>' for text, style in cells)
    return f'<tr style="background:transparent">{made}</tr>'


def _summary(trace: Trace) -> str:
    seconds = f" · {trace.answer.run_seconds:.2f} s" if trace.answer is not None else ""
    return f"{code_steps(trace)} · {count(trace.lm_calls, 'LM call')}{seconds}"


def _line(text: str, style: str = "") -> str:
    return f'<div style="white-space:pre-wrap;{style}">{_text(text)}</div>'


def _text(text: str) -> str:
    return html.escape("\n".join(map(plain, text.split("\n"))))
