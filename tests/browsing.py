"""The page in a real browser: its contents, its errors and warnings, and hostile text that must stay text."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chainofcode.program import Program, Statement
from chainofcode.sandbox.frames import Failure
from chainofcode.trace import Answer, Artifact, Call, Confidence, Step, Trace

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
BROWSERS = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome", "/usr/bin/google-chrome-stable")
# Injections by markup, scripts, URLs, attributes, templates and unusual characters.
HOSTILE = [
    "<script>window.__xss=1</script>",
    "</script><script>window.__xss=1</script>",
    "<img src=x onerror=window.__xss=1>",
    "<svg/onload=window.__xss=1>",
    "javascript:window.__xss=1",
    '" onmouseover="window.__xss=1" x="',
    "' autofocus onfocus='window.__xss=1",
    "<!--<script>window.__xss=1//-->",
    "]]><script>window.__xss=1</script>",
    "{{constructor.constructor('window.__xss=1')()}} ${window.__xss=1} <%= 1 %>",
    "<iframe srcdoc='<script>parent.__xss=1</script>'>",
    "<a href=javascript:window.__xss=1>x</a><base href=//evil.example/>",
    "<style>*{display:none}</style><link rel=stylesheet href=//evil.example/>",
    "\u2028window.__xss=1\u2029",
    "\u202e<tpircs>1=ssx__.wodniw\u202c \u200b\ufeff\u0000\x1b[31m",
    "＜script＞window.__xss=1＜/script＞ %3Cscript%3E &lt;script&gt; \\u003cscript\\u003e",
    "__proto__",
    "constructor",
]
ALL_HOSTILE = " ".join(HOSTILE)


def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright's Python package is not installed")
    path = next((path for path in BROWSERS if Path(path).exists()), None)
    with playwright.sync_playwright() as play:
        try:
            started = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except playwright.Error:
            pytest.skip("no Chromium is installed here (Debian: apt-get install chromium)")
        yield started
        started.close()


class Seen:
    """A page, and the errors, warnings and dialogs that it caused."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: message.type in ("error", "warning") and self.complain(message.text))
        self.page.on("pageerror", lambda error: self.complain(str(error)))
        self.page.on("dialog", lambda dialog: (self.complain("a dialog"), dialog.dismiss()))
        self.page.add_init_script(
            "addEventListener('securitypolicyviolation', e => console.error('CSP ' + e.blockedURI))"
        )

    def complain(self, text: str) -> None:
        self.complaints.append(text)

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).inner_text())

    def shows(self, selector: str, *texts: str) -> None:
        """Wait until the element contains these texts: toggles, requests, streams and timers take time."""
        self._until(lambda: all(text in self._now(selector) for text in texts), f"{selector} shows {texts}", selector)

    def says(self, selector: str, text: str) -> None:
        """Wait until the text of the element is exactly this."""
        self._until(lambda: self._now(selector) == text, f"{selector} says {text!r}", selector)

    def has(self, selector: str, number: int) -> None:
        """Wait until this number of elements match."""
        self._until(lambda: self.page.locator(selector).count() == number, f"{number} of {selector}", selector)

    def wait_for(self, expression: str) -> None:
        """Wait for an expression. Playwright's own method evaluates text in the page, which its policy forbids."""
        self._until(lambda: bool(self.page.evaluate(expression)), expression, "body")

    def _now(self, selector: str) -> str:
        return "".join(self.page.locator(selector).all_inner_texts()[:1])

    def _until(self, is_met: Callable[[], bool], condition: str, selector: str) -> None:
        for _ in range(800):
            if is_met():
                return
            self.page.wait_for_timeout(25)
        raise AssertionError(f"never: {condition}; it is {self._now(selector)[:500]!r}; complaints: {self.complaints}")


def hostile_trace() -> Trace:
    """A trace with the hostile texts in every field that a model, a program or a file can write to."""
    source = "\n".join(f"x{n} = f({text!r})  # {text}".replace("\n", " ") for n, text in enumerate(HOSTILE))
    lines = source.split("\n")
    statements = tuple(Statement(n + 1, 0, n + 1, 9, "Assign") for n in range(len(lines)))
    program = Program(source, statements, ("f", ALL_HOSTILE), imports=(ALL_HOSTILE,))
    events: list[Any] = [Call(ALL_HOSTILE, ALL_HOSTILE, ALL_HOSTILE), program]
    for n, text in enumerate(HOSTILE):
        confidence = Confidence(0.5, {text: 0.3, ALL_HOSTILE: 0.2})
        events.append(Step(2 * n + 1, "lm", n, n + 1, call=f"f({text})", value=text, confidence=confidence))
        events.append(
            Step(2 * n + 2, "python", n, n + 1, 1, {text: text, f"x{n}": text}, outcome=text, output=text + "\n")
        )
    events.append(Step(99, "tool", 0, 1, call=ALL_HOSTILE, error=ALL_HOSTILE))
    error = Failure(ALL_HOSTILE, ALL_HOSTILE, 1, 0)
    events.append(Answer("error", error=error, sandbox=ALL_HOSTILE, then=ALL_HOSTILE))
    files = tuple(Artifact(f"{text}.png", 3, text) for text in HOSTILE)
    last = Answer(
        "answered",
        ALL_HOSTILE,
        ALL_HOSTILE,
        "reply",
        votes=dict.fromkeys(HOSTILE, 1),
        artifacts=files,
        unsent=(ALL_HOSTILE,),
    )
    reply = Call(ALL_HOSTILE, ALL_HOSTILE)
    return Trace(ALL_HOSTILE, {"given": ALL_HOSTILE, "<b>": {"<i>": HOSTILE}}, events=[*events, reply, last])


def assert_harmless(seen: Seen, inventory: set[str]) -> None:
    """Check that no script ran, and that the page has only elements and attributes that it creates itself."""
    assert seen.page.evaluate("window.__xss") is None
    kinds = set(seen.page.evaluate("[...new Set([...document.querySelectorAll('*')].map(e => e.localName))]"))
    assert not kinds & {"iframe", "svg", "base", "object", "embed", "template"}
    assert kinds <= inventory, kinds - inventory
    handlers = "[...document.querySelectorAll('*')].flatMap(e => [...e.attributes]).filter(a => a.name.startsWith('on')).length"
    assert seen.page.evaluate(handlers) == 0
    urls = (
        "[...document.querySelectorAll('a[href], img[src]')].map(e => e.getAttribute('href') ?? e.getAttribute('src'))"
    )
    assert all(re.match(r"#|blob:|data:image/", url) for url in seen.page.evaluate(urls))
    assert seen.complaints == []


UNNAMED = """[...document.querySelectorAll('button, input, select, textarea, [role=list], [tabindex="0"]')].filter(e =>
    e.checkVisibility() && !e.textContent.trim() && !e.getAttribute('aria-label') && !e.labels?.length).map(e => e.id)"""
ELEMENTS = {
    "html",
    "head",
    "meta",
    "title",
    "link",
    "style",
    "script",
    "body",
    "a",
    "header",
    "button",
    "p",
    "i",
    "ul",
    "li",
    "b",
    "div",
    "nav",
    "input",
    "main",
    "form",
    "textarea",
    "label",
    "select",
    "option",
    "span",
    "section",
    "h1",
    "h2",
    "h3",
    "output",
    "ol",
    "code",
    "table",
    "tbody",
    "tr",
    "th",
    "td",
    "pre",
    "details",
    "summary",
    "dialog",
    "article",
    "figure",
    "img",
    "figcaption",
    "dl",
    "dt",
    "dd",
    "kbd",
    "mark",
}
