"""HTML pages for the runs of an evaluation, made from their traces: the question, the run, the model's replies."""

from __future__ import annotations

import html
import os
import string
from collections.abc import Iterable
from pathlib import Path, PurePath

from ..errors import TraceError
from ..markup import as_html
from ..render import plain
from ..trace import Call, Trace
from .results import replacing, trace_of
from .samples import Score

_MAX_CHARS = 20_000  # of a question or a reply
_MAX_REPLIES = 50


def write_run_pages(scores: Iterable[Score], directory: Path) -> dict[str, PurePath]:
    """Write a page for each trace that has none yet. Return the pages, relative to the directory, by trace."""
    template = string.Template(Path(__file__).with_name("run_page.html").read_text(encoding="utf-8"))
    pages: dict[str, PurePath] = {}
    for score in scores:
        place = trace_of(score)
        if place is None or not (directory / place).is_file():
            continue
        page = PurePath("runs", *place.parts[1:]).with_suffix(".html")
        if not (directory / page).resolve().is_relative_to(directory.resolve()):  # a link leads elsewhere
            continue
        if not _is_newer(directory / page, directory / place):
            try:
                trace = Trace.read(directory / place)
            except TraceError:  # damaged: the report has only its score
                continue
            (directory / page).parent.mkdir(parents=True, exist_ok=True)
            with replacing(directory / page) as partial:
                partial.write_text(_page(template, score, trace, page), encoding="utf-8")
        pages[score.trace] = page
    return pages


def _is_newer(page: Path, trace: Path) -> bool:
    return page.is_file() and page.stat().st_mtime_ns >= trace.stat().st_mtime_ns


def _page(template: string.Template, score: Score, trace: Trace, page: PurePath) -> str:
    facts = {
        "Method": score.method,
        "Verdict": score.verdict,
        "Answer": score.answer or score.error or score.reason,
        "Target": ", ".join(map(str, score.targets)),
    }
    replies = [event.reply for event in trace.events if isinstance(event, Call) and event.reply]
    return template.substitute(
        name=_text(score.id),
        report=html.escape(os.path.relpath("report.html", page.parent)),
        facts="".join(f"<dt>{name}</dt><dd>{_text(fact)}</dd>" for name, fact in facts.items() if fact),
        question=_text(trace.question or ""),
        run=as_html(trace),
        replies="".join(f"<pre>{_text(reply)}</pre>" for reply in replies[:_MAX_REPLIES]),
    )


def _text(text: str) -> str:
    return html.escape("\n".join(map(plain, text[:_MAX_CHARS].split("\n"))))
