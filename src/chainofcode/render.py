"""A trace as text: one line per step, with the actor in the gutter."""

from __future__ import annotations

import itertools
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .languages import language_named
from .program import Program
from .trace import Answer, Confidence, Kept, Step, Trace
from .values.codec import ValueFormatError, brief, decode

GUTTER = {"python": "py", "javascript": "js", "sql": "sq", "lm": "lm", "tool": "tl"}
# Painted text contains marks, which `for_terminal` turns into colours. Marks are Unicode noncharacters: `plain` escapes
# them like every other unprintable character, so text from elsewhere cannot contain one.
_MARKS = {"python": "\ufdd0", "lm": "\ufdd1", "tool": "\ufdd2", "dim": "\ufdd3", "bold": "\ufdd4"}
_END_MARK = "\ufdd5"
_CODES = {"python": "\x1b[36m", "lm": "\x1b[35m", "tool": "\x1b[33m", "dim": "\x1b[2m", "bold": "\x1b[1m"}
_CODE_OF_MARK = {_END_MARK: "\x1b[0m", **{_MARKS[style]: code for style, code in _CODES.items()}}
_MAX_ANSWER = 2000
_SURE = 0.9  # smaller probabilities are shown
_MAX_OTHERS = 8  # alternative values
_LEAST_VALUE, _LEAST_CALL = 20, 9  # columns
USUAL_WIDTH = 100  # of text for pipes and files
MAX_VISITS = 3  # of one statement, unless all steps are requested
MAX_OUTPUT_LINES = 100  # likewise, of what the program printed


@dataclass
class Page:
    """How to show a trace: how wide, in colour or plain, all steps or the first few of each statement, numbered."""

    width: int = USUAL_WIDTH
    colour: bool = False
    all_steps: bool = False
    has_numbers: bool = False  # of the steps, for `coc replay --set step:N=…`
    _seen: dict[tuple[int, str], int] = field(default_factory=dict)
    _held: list[Step] = field(default_factory=list)
    _output_lines: int = 0
    _digits: int = 4  # of a step's number
    _longest: int = 0  # columns of the longest statement

    def trace(self, trace: Trace) -> Iterator[str]:
        """The whole trace: the answer first, then the steps."""
        self._digits = max(self._digits, *(len(str(step.number)) for step in trace.steps), 0)
        if trace.answer is not None:
            yield from self.answer(trace.answer)
        else:
            yield self._paint("bold", "no answer: the trace ends before the run did")
        if trace.edited:
            yield f"  a what-if, edited: {cut(plain('; '.join(trace.edited)), 5 * self.width)}"
        yield from self.attempts(trace)
        if trace.answer is not None:
            yield self._paint("dim", self.summary(trace, trace.answer))
            for file in trace.answer.artifacts:
                yield self._paint("dim", f"      left {plain(file.name)}, {file.bytes:,} bytes")

    def attempts(self, trace: Trace) -> Iterator[str]:
        """The steps of all programs."""
        for attempt in trace.attempts:
            yield from self._attempt(attempt)

    def _attempt(self, events: list[Kept]) -> Iterator[str]:
        """One program and its steps; for all but the last, also why it ended and what was tried next."""
        program = next((event for event in events if isinstance(event, Program)), None)
        if program is not None:
            yield ""
            yield from self.begin(program)
            if self.has_numbers:
                yield self._paint("dim", f"{'step':>{self._digits}} line")
            yield from self.steps(program, [event for event in events if isinstance(event, Step)])
        last = events[-1]
        if isinstance(last, Answer) and last.then:
            yield from self.turn(last)

    def turn(self, answer: Answer) -> Iterator[str]:
        """The end of an attempt that another one followed."""
        outcome = f"answer {cut(plain(answer.text), 60)}" if answer.is_answered else answer.reason
        why = f": {plain(answer.error.message)}" if answer.error is not None else ""
        then = cut(plain(answer.then), self.width // 2)
        yield self._paint("bold", cut(f"   ↓  {outcome}{why}", self.width - _columns(then) - 4)) + f" → {then}"

    def answer(self, answer: Answer) -> Iterator[str]:
        if answer.is_answered:
            text = cut(plain(answer.text), _MAX_ANSWER)
            yield self._paint("bold", f"answer: {text}") + _from(answer)
            return
        where = f"line {answer.error.line}: " if answer.error and answer.error.line else ""
        yield self._paint("bold", f"no answer: {answer.reason}")
        if answer.error is not None:
            kind = answer.error.type
            named = "" if kind in (answer.reason, "NotAProgram", "NoAnswer") else f"{kind}: "
            yield f"  {where}{plain(named + answer.error.message)}"

    def begin(self, program: Program) -> Iterator[str]:
        """The start of a program: the imports that were added."""
        self._seen.clear()
        if self.width > USUAL_WIDTH:
            sources = (program.first_line(number) for number in range(len(program.statements)))
            self._longest = max((_columns(plain(_expand(source))) + 2 for source in sources), default=0)
        for line in program.imports:
            yield self._paint("dim", f"      py  {plain(line)}   (missing import, added)")

    def steps(self, program: Program, steps: Iterable[Step]) -> Iterator[str]:
        for step in steps:
            yield from self.next(program, step)
        yield from self.rest(program)

    def next(self, program: Program, step: Step) -> Iterator[str]:
        """Show the next step, or hold it back if many like it were shown; `rest` then shows how many."""
        if self._is_shown(step):
            yield from self.rest(program)
            yield from self.step(program, step)
        else:
            self._held.append(step)

    def rest(self, program: Program) -> Iterator[str]:
        """Show the steps that were held back: a single one in full, more of them as a count."""
        held, self._held = self._held, []
        if len(held) == 1:
            yield from self.step(program, held[0])
        elif held:
            more = count(len(held), "more step")
            yield self._paint("dim", f"   ⋮  {self._margin}{more} like these (--all shows them)")

    def step(self, program: Program, step: Step) -> Iterator[str]:
        """One step: line, gutter, source, and the result."""
        first, is_cut = "", False
        if 0 <= step.statement < len(program.statements):
            first, place = _expand(program.first_line(step.statement)), program.statements[step.statement]
            is_cut = place.end_line > place.line and not first.rstrip().endswith(":")  # a body has steps of its own
        source = plain(first + (" …" if is_cut else ""))
        room = self._source_columns()
        both = self.width - len(self._margin) - 12
        value = what(step, max(both - room, _LEAST_VALUE))
        if self.all_steps:  # the value leaves its room to the source
            room = max(room, min(_columns(source), both - _columns(value)))
        gutter = self._paint(step.by, f"{GUTTER[step.by]:<4}")
        number = self._paint("dim", f"{step.number:>{self._digits}} ") if self.has_numbers else ""
        yield f"{number}{step.line:>4}  {gutter}{fit(source, room)}  {value}".rstrip()
        lines = step.output.splitlines()
        room_left = len(lines) if self.all_steps else max(MAX_OUTPUT_LINES - self._output_lines, 1)
        self._output_lines += len(lines)
        margin = " " * 10 + self._margin
        for line in lines[:room_left]:
            yield f"{margin}{self._paint('dim', cut('│ ' + plain(line), self.width - len(margin)))}"
        if lines[room_left:]:
            yield margin + self._paint("dim", f"│ ⋮ {count(len(lines) - room_left, 'more line')} (--all shows them)")

    def _source_columns(self) -> int:
        """The columns for sources: at most 40, and as many of those beyond the usual width as the sources need."""
        usual = max(24, min(40, self.width * 4 // 10))
        return max(usual, min(self._longest, usual + self.width - USUAL_WIDTH))

    def summary(self, trace: Trace, answer: Answer) -> str:
        parts = [code_steps(trace), _calls(trace), f"{answer.run_seconds:.2f} s"]
        if answer.votes:
            votes = (f"{cut(plain(text), 30)} × {count}" for text, count in answer.votes.items())
            parts.append("votes: " + ", ".join(votes))
        return "      " + " · ".join(parts)

    @property
    def _margin(self) -> str:
        return " " * (self._digits + 1) if self.has_numbers else ""

    def _is_shown(self, step: Step) -> bool:
        key = (step.statement, step.by)
        self._seen[key] = self._seen.get(key, 0) + 1
        has_news = bool(step.output) and self._output_lines < MAX_OUTPUT_LINES
        return self.all_steps or self._seen[key] <= MAX_VISITS or has_news

    def _paint(self, style: str, text: str) -> str:
        return paint(style, text, self.colour)


def paint(style: str, text: str, colour: bool = True) -> str:
    """Mark text with the colour of its actor (a language, `lm`, `tool`), or as `dim` or `bold`."""
    return f"{_MARKS.get(style, _MARKS['python'])}{text}{_END_MARK}" if colour else text


def for_terminal(line: str, colour: bool) -> str:
    """A line for a terminal: marks become colours, every other control character is escaped."""
    if not colour or line.isprintable():
        return plain(line)
    return "".join(_CODE_OF_MARK.get(character) or _printable(character) for character in line)


def code_steps(trace: Trace) -> str:
    """How many steps the program took, by language, without those of models and tools."""
    counts = Counter(step.by for step in trace.steps if step.is_code) or {"python": 0}
    return ", ".join(count(number, f"{language_named(by).title} step") for by, number in counts.items())


def _calls(trace: Trace) -> str:
    """How many calls there were, and how their values were obtained."""
    hows = [step.how for step in trace.steps]
    counts = {"ahead": hows.count("ahead"), "wasted": trace.wasted, "batched": hows.count("batched")}
    counts["cached"] = hows.count("cached")
    counts["shared"], counts["unsettled"] = hows.count("shared"), trace.unsettled
    details = ", ".join(f"{count} {how}" for how, count in counts.items() if count)
    return count(trace.lm_calls, "LM call") + (f" ({details})" if details else "")


def _marks(step: Step) -> list[str]:
    """How a value was obtained, and how sure the model was, if it was not sure."""
    marks: list[str] = [step.how] if step.how else []
    if step.model:
        marks.append(f"by {plain(step.model)}")
    if step.confidence is not None and step.confidence.probability < _SURE:
        marks.append(how_sure(step.confidence))
    return marks


def how_sure(confidence: Confidence) -> str:
    """How sure the model was of a value: `73% sure`; for a score `± 1.2`; for several replies `60% of 5 replies`."""
    if confidence.spread is not None:
        return f"± {confidence.spread:.1f}"
    share = per_cent(confidence.probability)
    return f"{share} of {confidence.samples} replies" if confidence.samples else f"{share} sure"


def otherwise(confidence: Confidence) -> str:
    """The values that the model might have given instead, the likeliest first."""
    likeliest = itertools.islice(confidence.alternatives.items(), _MAX_OTHERS)
    return ", ".join(f"{cut(plain(text), 60)} {per_cent(share)}" for text, share in likeliest)


def per_cent(probability: float) -> str:
    """A probability as text. Only a probability of exactly 1 is shown as 100%."""
    if 0.99 < probability < 1:
        return ">99%"
    return "<1%" if 0 < probability < 0.01 else f"{probability:.0%}"


def what(step: Step, width: int) -> str:
    """The result of a step: a call and its value, the variables that changed, or the outcome of a condition.

    Text that is longer than `width` is cut, except for the note in parentheses at its end.
    """
    parts, note, room = [], "", width
    if step.call is not None and not step.delta:
        note = f"  ({', '.join(_marks(step))})" if _marks(step) else ""
        room = max(width - _columns(note), _LEAST_VALUE)
        parts.append(_call_and_value(step, room, least=max(room - width // 2, _LEAST_CALL)))
    parts += [f"{name} = {text}" if text is not None else f"{name} deleted" for name, text in step.delta.items()]
    if step.outcome is not None and not parts:
        parts.append(f"→ {step.outcome}")
    elif step.outcome is not None:
        parts.insert(0, step.outcome)
    return cut(plain("   ".join(parts)), room) + note


def _call_and_value(step: Step, width: int, least: int) -> str:
    """A call and its value. Where both are long, `least` columns are left to the call."""
    call = plain((step.call or "").replace("\n", "⏎"))
    value = plain(f" → {shown(step.value)}" if step.error is None else f" ✗ {step.error}")
    value = cut(value, width - min(_columns(call), least))
    return cut(call, width - _columns(value)) + value


def shown(value: object, width: int = 120) -> str:
    """A tagged value, in short."""
    try:
        return brief(decode(value), width)
    except ValueFormatError:
        return "?"


def _from(answer: Answer) -> str:
    sources = {
        "expression": "   (the value of its last expression)",
        "output": "   (what it printed last)",
        "reply": "   (the model states it)",
    }
    if answer.source == "reply" and answer.confidence is not None:
        return f"   (the model states it, {per_cent(answer.confidence)} sure)"
    return sources.get(answer.source, "")


def plain(text: str) -> str:
    """Text in one line, with control characters escaped so that a terminal does not interpret them."""
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(character: str) -> str:
    if character == "\t":
        return "    "
    return character if character.isprintable() else repr(character)[1:-1]


def count(number: int, what: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def _expand(line: str) -> str:
    return line.expandtabs(4)


def _columns(text: str) -> int:
    return sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.east_asian_width(character) in "WF":
        return 2
    return 0 if unicodedata.combining(character) or character in _CODE_OF_MARK else 1


def fit(text: str, width: int) -> str:
    """Pad or cut text to exactly this many columns."""
    text = cut(text, width)
    return text + " " * (width - _columns(text))


def cut(text: str, width: int) -> str:
    """Cut text to at most this many columns."""
    if _columns(text) <= width:
        return text
    kept, used = [], 1
    for character in text:
        used += _columns(character)
        if used > width:
            break
        kept.append(character)
    return "".join(kept) + "…"
