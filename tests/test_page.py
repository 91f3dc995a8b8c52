"""The page in a real browser: a file to share, and a server's runs as they happen; hostile text stays text."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import ROOT
from stand_in import StandIn

from chainofcode.program import Program, Statement
from chainofcode.sandbox.frames import Failure
from chainofcode.server.sharing import PAGE, as_html
from chainofcode.trace import Answer, Artifact, Call, Step, Trace

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright's Python package is not installed")
FRUIT = ROOT / "examples" / "traces" / "fruit.jsonl"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
BROWSERS = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome", "/usr/bin/google-chrome-stable")
# What markup, scripts, URLs, attributes, templates and odd characters would have to offer.
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = next((path for path in BROWSERS if Path(path).exists()), None)
    with playwright.sync_playwright() as play:
        try:
            started = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except playwright.Error:
            pytest.skip("no Chromium is installed here (Debian: apt-get install chromium)")
        yield started
        started.close()


class Seen:
    """A page, and what it complained of."""

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

    def wait_for(self, expression: str) -> None:
        """Playwright's own way would need the page to evaluate text, which its policy forbids."""
        for _ in range(600):
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(25)
        raise AssertionError(f"never: {expression}")


@pytest.fixture
def seen(browser: Any) -> Iterator[Seen]:
    one = Seen(browser)
    yield one
    one.context.close()


def written(path: Path, trace: Trace, why: dict[str, Any] | None = None, **options: Any) -> str:
    path.write_text(as_html(trace, why, **options), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def fruit_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page that `coc show --html` writes."""
    path = tmp_path_factory.mktemp("page") / "fruit.html"
    command = [sys.executable, "-m", "chainofcode", "show", str(FRUIT), "--html", str(path)]
    subprocess.run(command, check=True, cwd=ROOT)
    return path.as_uri()


# --- a file to share ----------------------------------------------------------------------------------------------


def test_answer_comes_first_and_nothing_is_asked_of_anyone(seen: Seen, fruit_file: str) -> None:
    asked: list[str] = []
    seen.page.on("request", lambda request: asked.append(request.url))
    seen.page.goto(fruit_file)
    assert seen.text("#said") == "2 of 4 are fruit"
    assert "13 Python steps" in seen.text("#facts") and "4 LM calls" in seen.text("#facts")
    assert seen.text("#where") == "17 / 17"
    assert not seen.page.locator("#ask").is_visible() and not seen.page.locator("#runs").is_visible()
    assert [url for url in asked if not url.startswith("data:")] == [fruit_file]
    assert seen.complaints == []


def test_steps_by_keys_buttons_and_slider(seen: Seen, fruit_file: str) -> None:
    seen.page.goto(fruit_file)
    seen.page.keyboard.press("Home")
    assert seen.text("#where") == "0 / 17" and "nothing yet" in seen.text("#state")
    for _ in range(4):
        seen.page.keyboard.press("ArrowRight")
    assert seen.text("#where") == "4 / 17"
    assert seen.page.locator(".line.now").get_attribute("data-line") == "4"
    assert "by-lm" in (seen.page.locator(".line.now").get_attribute("class") or "")
    assert seen.page.locator(".line.now .chip").text_content() == "is_fruit('apple') → True"
    assert "the model: is_fruit('apple') → True" in (seen.page.locator("#live-step").text_content() or "")
    seen.page.click("#next")
    seen.page.click("#next")
    assert seen.text("#state .changed th").startswith("count") and "1" in seen.text("#state .changed td")
    seen.page.click("#back")
    assert seen.page.locator("#state .changed").count() == 0
    seen.page.locator("#slider").focus()
    seen.page.keyboard.press("End")
    assert seen.text("#where") == "17 / 17"
    seen.page.locator("#slider").fill("2")
    assert seen.text("#where") == "2 / 17" and seen.page.locator("#state tr").count() == 2
    assert seen.complaints == []


def test_space_plays_and_stops(seen: Seen, fruit_file: str) -> None:
    seen.page.goto(fruit_file)
    seen.page.keyboard.press("Space")
    seen.wait_for("document.querySelector('#where').textContent.startsWith('2 ')")
    seen.page.keyboard.press("Space")
    stopped = seen.text("#where")
    seen.page.wait_for_timeout(900)
    assert seen.text("#where") == stopped


def test_looking_at_a_value_shows_what_it_depends_on(seen: Seen, fruit_file: str) -> None:
    seen.page.goto(fruit_file)
    seen.page.hover(".line[data-line='4'] .source")
    seen.wait_for("document.querySelector('.lines.slicing')")
    marked = seen.page.locator(".line.in-slice").evaluate_all("rows => rows.map(row => Number(row.dataset.line))")
    assert 4 in marked and 3 in marked and 1 in marked and 2 not in marked and 6 not in marked
    assert seen.text("#slice-text").startswith("depends on")
    seen.page.keyboard.press("ArrowLeft")  # steps are seen whole, wherever the pointer rests
    seen.wait_for("!document.querySelector('.lines.slicing')")
    seen.page.wait_for_timeout(200)
    assert seen.page.locator(".lines.slicing").count() == 0
    seen.page.hover(".line[data-line='3'] .source")
    seen.wait_for("document.querySelector('.lines.slicing')")
    seen.page.hover("#facts")
    seen.wait_for("!document.querySelector('.lines.slicing')")
    seen.page.keyboard.press("End")
    seen.page.focus("#said")
    seen.wait_for("document.querySelectorAll('.line.in-slice').length === 6")
    seen.page.focus("#play")
    seen.wait_for("!document.querySelector('.lines.slicing')")


def test_lines_are_walked_by_keys(seen: Seen, fruit_file: str) -> None:
    seen.page.goto(fruit_file)
    seen.page.focus(".line[data-line='1']")
    for _ in range(3):
        seen.page.keyboard.press("ArrowDown")
    assert seen.page.evaluate("document.activeElement.dataset.line") == "4"
    seen.wait_for("document.querySelector('.lines.slicing')")
    seen.page.keyboard.press("Enter")
    seen.page.keyboard.type("tru")
    assert "Text needs quotes" in seen.text("#editor-fault")
    seen.page.keyboard.press("Control+a")
    seen.page.keyboard.type("True")
    assert seen.text("#editor-fault") == ""
    assert seen.text(".editor .command") == "coc replay TRACE --set 'step:15=True'"
    seen.page.keyboard.press("Escape")
    assert seen.page.locator(".editor").count() == 0


def test_light_and_dark(browser: Any, fruit_file: str) -> None:
    for scheme in ("light", "dark"):
        seen = Seen(browser, color_scheme=scheme, reduced_motion="reduce")
        seen.page.goto(fruit_file)
        colour = "getComputedStyle(document.body).backgroundColor"
        before = seen.page.evaluate(colour)
        seen.page.click("#theme")
        assert seen.page.evaluate(colour) != before
        seen.context.close()


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_nothing_sticks_out(browser: Any, fruit_file: str, width: int) -> None:
    seen = Seen(browser, viewport={"width": width, "height": 740})
    seen.page.goto(fruit_file)
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert seen.page.locator("#next").is_visible() and seen.page.locator("#slider").is_visible()
    seen.context.close()


def test_every_control_has_a_name(seen: Seen, fruit_file: str) -> None:
    seen.page.goto(fruit_file)
    unnamed = """[...document.querySelectorAll('button, input, select, textarea, [role=list], [tabindex="0"]')].filter(e =>
        e.checkVisibility() && !e.textContent.trim() && !e.getAttribute('aria-label') && !e.labels?.length).map(e => e.id)"""
    assert seen.page.evaluate(unnamed) == []


def long_trace(steps: int) -> Trace:
    program = Program(
        "total = 0\nfor n in range(9999):\n    total += n\n",
        (Statement(1, 0, 1, 9, "Assign"), Statement(2, 0, 3, 14, "For"), Statement(3, 4, 3, 14, "AugAssign")),
    )
    events: list[Any] = [program, Step(1, "python", 0, 1, 1, {"total": "0"})]
    for number in range(2, steps + 1):
        at = (1, 2, "n") if number % 2 == 0 else (2, 3, "total")
        events.append(Step(number, "python", at[0], at[1], number // 2, {at[2]: str(number)}, output=f"{number}\n"))
    return Trace("How long?", events=[*events, Answer("answered", 6000, "6000", "variable", sandbox="A")])


def test_six_thousand_steps_are_quick(seen: Seen, tmp_path: Path) -> None:
    seen.page.goto(written(tmp_path / "long.html", long_trace(6000)))
    assert seen.text("#where") == "6,000 / 6,000"
    assert seen.page.evaluate("document.querySelectorAll('*').length") < 500
    seconds = """() => { const before = performance.now(); const slider = document.querySelector('#slider');
        for (let i = 0; i < 100; i++) { slider.value = String(i * 60); slider.dispatchEvent(new Event('input')); }
        return (performance.now() - before) / 100000; }"""
    assert seen.page.evaluate(seconds) < 0.1  # a step; the machine may be busy
    seen.page.keyboard.press("End")
    assert seen.text("#state td >> nth=0").startswith("5999")
    assert seen.text("#output").endswith("6000\n")


def test_attempts_are_tabs_and_say_why_they_were_not_the_last(seen: Seen, tmp_path: Path) -> None:
    program = Program("answer = 1 / 0\n", (Statement(1, 0, 1, 14, "Assign"),))
    good = Program("answer = 7\n", (Statement(1, 0, 1, 10, "Assign"),))
    error = Failure("ZeroDivisionError", "division by zero", 1, 0)
    events = [
        Call("write", "```python\nanswer = 1 / 0\n```", "m"),
        program,
        Answer("error", error=error, sandbox="A", then="repair"),
        Call("again", "answer = 7", "m"),
        good,
        Step(1, "python", 0, 1, 1, {"answer": "7"}),
        Answer("answered", 7, "7", "variable", sandbox="A", then="vote"),
        Answer("answered", 7, "7", "variable", sandbox="A", votes={"7": 2, "8": 1}),
    ]
    seen.page.goto(written(tmp_path / "attempts.html", Trace("How many?", events=events)))
    assert seen.text("#said") == "7" and "votes: 7 × 2, 8 × 1" in seen.text("#facts")
    assert seen.page.locator("[role=tab]").count() == 2
    seen.page.focus("[role=tab][aria-selected=true]")
    seen.page.keyboard.press("ArrowLeft")
    assert seen.page.locator("[role=tab][aria-selected=true]").inner_text().startswith("1")
    assert "division by zero → repair" in seen.text("#then")
    assert seen.page.locator(".line.failed").get_attribute("data-line") == "1"
    seen.page.click("#calls > summary")
    assert "answer = 1 / 0" in seen.text("#calls-list")


def test_no_answer_and_its_reason(seen: Seen, tmp_path: Path) -> None:
    program = Program("a = 1\nb = a / 0\n", (Statement(1, 0, 1, 5, "Assign"), Statement(2, 0, 2, 9, "Assign")))
    error = Failure("ZeroDivisionError", "division by zero", 2, 1)
    events = [program, Step(1, "python", 0, 1, 1, {"a": "1"}), Answer("error", error=error, sandbox="A")]
    seen.page.goto(written(tmp_path / "error.html", Trace(events=events)))
    assert seen.text("#answer-label") == "No answer" and seen.text("#said") == "error"
    assert seen.text("#error") == "Line 2: ZeroDivisionError: division by zero"
    assert seen.page.locator(".line.failed").get_attribute("data-line") == "2"


def test_a_what_if_says_so(seen: Seen, tmp_path: Path) -> None:
    changed = dataclasses.replace(Trace.read(FRUIT), settings={"edited": ["is_fruit('kiwi') = False", "<b>n</b> = 1"]})
    seen.page.goto(written(tmp_path / "what-if.html", changed))
    assert "What if: is_fruit('kiwi') = False; <b>n</b> = 1" in seen.text("#asked")


def test_run_that_was_broken_off(seen: Seen, tmp_path: Path) -> None:
    """What was not the last word is not shown as if it were."""
    program = Program("answer = 1\n", (Statement(1, 0, 1, 10, "Assign"),))
    events = [program, Answer("answered", 1, "1", "variable", sandbox="A", then="repair")]
    seen.page.goto(written(tmp_path / "broken.html", Trace(events=events)))
    assert seen.text("#answer-label") == "No answer" and seen.text("#said") == "unfinished"
    assert "answer 1 → repair" in seen.text("#then")


def test_values_are_written_as_python_writes_them(seen: Seen, tmp_path: Path) -> None:
    values = [
        2.0,
        2**60,
        True,
        None,
        {"$tuple": [1]},
        {"$set": []},
        {"$dict": [[1, "it's"]]},
        {"$int": "9" * 20},
        {"a": [1.5]},
    ]
    program = Program("x = f()\n", (Statement(1, 0, 1, 7, "Assign"),), ("f",))
    events: list[Any] = [
        program,
        *(Step(n + 1, "lm", 0, 1, call=f"f({n})", value=value) for n, value in enumerate(values)),
    ]
    seen.page.goto(written(tmp_path / "values.html", Trace(events=[*events, Answer("answered", 1, "1")])))
    shown = [seen.text(f".step[data-place='{n}'] .what").partition("→ ")[2] for n in range(len(values))]
    assert shown == ["2.0", str(2**60), "True", "None", "(1,)", "set()", '{1: "it\'s"}', "9" * 20, "{'a': [1.5]}"]


# --- hostile text -------------------------------------------------------------------------------------------------


def hostile_trace() -> Trace:
    """The corpus in every place that a model, a program or a file can write to."""
    source = "\n".join(f"x{n} = f({text!r})  # {text}".replace("\n", " ") for n, text in enumerate(HOSTILE))
    lines = source.split("\n")
    statements = tuple(Statement(n + 1, 0, n + 1, 9, "Assign") for n in range(len(lines)))
    program = Program(source, statements, ("f", ALL_HOSTILE), imports=(ALL_HOSTILE,))
    events: list[Any] = [Call(ALL_HOSTILE, ALL_HOSTILE, ALL_HOSTILE), program]
    for n, text in enumerate(HOSTILE):
        events.append(Step(2 * n + 1, "lm", n, n + 1, call=f"f({text})", value=text))
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
    said = Call(ALL_HOSTILE, ALL_HOSTILE)
    return Trace(ALL_HOSTILE, {"given": ALL_HOSTILE, "<b>": {"<i>": HOSTILE}}, events=[*events, said, last])


def is_harmless(seen: Seen, inventory: set[str]) -> None:
    """Nothing ran, and there is no element of a kind, and no attribute, that the page itself does not make."""
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
}


def test_hostile_text_in_a_file_stays_text(seen: Seen, tmp_path: Path) -> None:
    url = written(tmp_path / "hostile.html", hostile_trace(), title=ALL_HOSTILE)
    page = (tmp_path / "hostile.html").read_text(encoding="utf-8")
    assert page.count("</script>") == 2 and page.count("<script") == 2
    seen.page.goto(url)
    assert "<script>window.__xss=1</script>" in seen.text("#asked")
    assert "\\u202e" in seen.text("#asked") and "\u202e" not in seen.page.content().partition('id="data"')[0]
    seen.page.click("#calls > summary")
    for place in range(40):
        seen.page.keyboard.press("Home" if not place else "ArrowRight")
    seen.page.click("[role=tab] >> nth=0")
    seen.page.click(".line .chip >> nth=0")
    seen.page.hover(".line[data-line='2'] .source")
    seen.page.wait_for_timeout(200)
    assert "onerror" in seen.text("#error") or "onerror" in seen.text("#then")
    is_harmless(seen, ELEMENTS)


def test_hostile_text_from_a_server_stays_text(seen: Seen, tmp_path: Path) -> None:
    hostile_trace().write(tmp_path / "hostile.jsonl")
    stand_in = StandIn(tmp_path / "hostile.jsonl", files=dict.fromkeys(HOSTILE, PIXEL))
    seen.page.goto(stand_in.url)
    seen.page.set_input_files(
        "#file", {"name": "<img src=x onerror=window.__xss=1>.csv", "mimeType": "text/csv", "buffer": b"a"}
    )
    assert "onerror" in seen.text("#files")
    seen.page.fill("#question", ALL_HOSTILE)
    seen.page.keyboard.press("Enter")
    seen.wait_for("document.querySelector('#said').textContent.includes('onerror')")
    seen.wait_for("document.querySelector('#runs-list .end')?.textContent.includes('script')")
    is_harmless(seen, ELEMENTS)
    stand_in.shutdown()


def test_data_cannot_leave_its_block() -> None:
    trace = Trace("</script><!-- \u2028 & <b>", events=[])
    page = as_html(trace)
    block = page.partition('id="data">')[2].partition("</script>")[0]
    assert not set("<>&\u2028\u2029") & set(block)
    assert json.loads(block)["events"][0]["question"] == trace.question


def test_policy_holds_the_digests_of_what_is_inlined() -> None:
    page = as_html(Trace(events=[]))
    script = page.partition('<script type="module">')[2].partition("</script>")[0]
    style = page.partition("<style>")[2].partition("</style>")[0]
    for text in (script, style):
        assert "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in page
    assert not re.search(r"^(import|export) ", script, re.M)


def test_page_never_reads_text_as_markup() -> None:
    for path in PAGE.iterdir():
        text = path.read_text(encoding="utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc", text
        ), path
        if path.suffix == ".html":
            assert not re.search(r"\son\w+=|\sstyle=|https?://", text), path
        if path.suffix == ".js":
            assert text.count("\n") <= 400, path


def test_figures_of_the_trace_are_in_the_file(seen: Seen, tmp_path: Path) -> None:
    files = tmp_path / "t.jsonl.files"
    files.mkdir()
    (files / "plot.png").write_bytes(PIXEL)
    (files / "other.png").write_bytes(PIXEL + b"x")  # not what the trace says
    kept = Artifact("plot.png", len(PIXEL), hashlib.sha256(PIXEL).hexdigest())
    gone = Artifact("table.csv", 12, "0" * 64)
    trace = Trace(events=[Answer("answered", 1, "1", artifacts=(kept, gone))])
    seen.page.goto(written(tmp_path / "figures.html", trace, files=files))
    assert seen.page.locator("#figures img").count() == 1
    assert seen.page.evaluate("document.querySelector('#figures img').naturalWidth") == 1
    assert "table.csv" in seen.text("#left")
    assert seen.complaints == []


def test_show_writes_to_standard_output(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "chainofcode", "show", str(FRUIT), "--no-why", "--html", "-"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("<!doctype html>") and '"why":null' in done.stdout
    refused = subprocess.run(
        [*command[:-1], str(tmp_path / "no" / "x.html")], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2 and "cannot write" in refused.stderr


# --- a server's runs ----------------------------------------------------------------------------------------------


def test_ask_watch_answer_and_what_if(seen: Seen) -> None:
    stand_in = StandIn(FRUIT, pace=0.05)
    seen.page.goto(stand_in.url)
    assert seen.page.locator("#method option").count() == 2
    seen.page.fill("#question", "How many are fruit?")
    seen.page.keyboard.press("Enter")
    seen.wait_for(
        "document.querySelector('.chip.pending') && document.querySelector('#progress').innerText.includes('in flight')"
    )
    height = seen.page.locator(".code").bounding_box()["height"]
    seen.wait_for("document.querySelector('#said').textContent === '2 of 4 are fruit'")
    assert seen.page.locator(".code").bounding_box()["height"] == height  # nothing moved while it ran
    assert seen.page.url.endswith("#run=r1") and stand_in.asked[0]["method"] == "coc"
    seen.wait_for("!document.querySelector('#progress').checkVisibility()")
    assert seen.page.locator("#live").text_content() == "Answer: 2 of 4 are fruit"
    seen.page.hover(".line[data-line='4'] .source")
    seen.wait_for("document.querySelector('.lines.slicing')")
    seen.page.click(".line[data-line='4'] .chip")
    seen.page.keyboard.press("Control+a")
    seen.page.keyboard.type("True")
    seen.page.keyboard.press("Enter")
    seen.wait_for("document.querySelector('#said').textContent === '3 of 4 are fruit'")
    assert seen.page.url.endswith("#run=r2")
    seen.wait_for("document.querySelector('#was').textContent === 'was 2 of 4 are fruit, is 3 of 4 are fruit'")
    seen.page.click("#was a")
    seen.wait_for("document.querySelector('#said').textContent === '2 of 4 are fruit'")
    seen.page.reload()
    seen.wait_for("document.querySelector('#said').textContent === '2 of 4 are fruit'")
    assert seen.complaints == []
    stand_in.shutdown()


def test_history_is_searched_and_walked(seen: Seen) -> None:
    stand_in = StandIn(FRUIT)
    for question in ("How many apples?", "Which day?", "How many pears?"):
        stand_in.finish(stand_in.start(question, stand_in.trace))
    seen.page.goto(stand_in.url)
    seen.wait_for("document.querySelectorAll('#runs-list a').length === 3")
    assert "pears" in seen.text("#runs-list a >> nth=0")
    seen.page.evaluate("document.activeElement.blur()")
    seen.page.keyboard.press("/")
    seen.page.keyboard.type("how many")
    assert seen.page.locator("#runs-list a").count() == 2
    seen.page.keyboard.press("ArrowDown")
    seen.page.keyboard.press("ArrowDown")
    seen.page.keyboard.press("Enter")
    seen.wait_for("location.hash === '#run=r1'")
    seen.wait_for("document.querySelector('#said').textContent === '2 of 4 are fruit'")
    assert seen.page.locator("#runs-list a[aria-current=page]").count() == 1
    stand_in.shutdown()


def test_cancel(seen: Seen) -> None:
    stand_in = StandIn(FRUIT, pace=0.4)
    seen.page.goto(stand_in.url)
    seen.page.fill("#question", "How many?")
    seen.page.click("#send")
    seen.wait_for("document.querySelector('.line.now')")
    seen.page.click("#cancel")
    seen.wait_for("document.querySelector('#said').textContent === 'cancelled'")
    assert seen.text("#answer-label") == "No answer"
    stand_in.shutdown()


def test_lost_connection_is_taken_up_again(seen: Seen) -> None:
    stand_in = StandIn(FRUIT)
    stand_in.breaks = 1
    seen.page.goto(stand_in.url)
    seen.page.fill("#question", "How many?")
    seen.page.click("#send")
    seen.wait_for("document.querySelector('#notice').checkVisibility()")
    assert "gone" in seen.text("#notice")
    seen.wait_for("document.querySelector('#said').textContent === '2 of 4 are fruit'")
    assert seen.text("#where") == "17 / 17"  # each step once
    assert not seen.page.locator("#notice").is_visible()
    stand_in.shutdown()


def test_token_is_asked_for_and_kept_in_the_tab(seen: Seen) -> None:
    stand_in = StandIn(FRUIT, token="open sesame")
    seen.page.goto(stand_in.url)
    seen.page.fill("#token", "wrong")
    seen.page.keyboard.press("Enter")
    seen.wait_for("document.querySelector('#token-title').textContent.includes('not the one')")
    seen.page.fill("#token", "open sesame")
    seen.page.keyboard.press("Enter")
    seen.wait_for("document.querySelectorAll('#method option').length === 2")
    seen.page.reload()
    seen.wait_for("document.querySelectorAll('#method option').length === 2")
    assert not seen.page.locator("#token-dialog").is_visible()
    seen.page.evaluate("sessionStorage.clear()")
    seen.page.goto(stand_in.url + "?token=open%20sesame#x")
    seen.wait_for("document.querySelectorAll('#method option').length === 2")
    assert "sesame" not in seen.page.url
    stand_in.shutdown()


def test_too_many_runs_say_when_to_try_again(seen: Seen) -> None:
    stand_in = StandIn(FRUIT)
    seen.page.goto(stand_in.url)
    seen.page.fill("#question", "too many")
    seen.page.click("#send")
    seen.wait_for("document.querySelector('#notice').checkVisibility()")
    assert seen.text("#notice-text") == "Two runs are under way. Try again in 7 s."
    assert seen.page.input_value("#question") == "too many"
    stand_in.shutdown()


def test_files_go_along_and_figures_come_back(seen: Seen, tmp_path: Path) -> None:
    trace = Trace.read(FRUIT)
    digest = hashlib.sha256(PIXEL).hexdigest()
    left = (Artifact("plot.png", len(PIXEL), digest), Artifact("fake.png", 9, "f" * 64))
    trace.events[-1] = msgspec.structs.replace(trace.events[-1], artifacts=left)
    trace.write(tmp_path / "t.jsonl")
    stand_in = StandIn(tmp_path / "t.jsonl", files={digest: PIXEL, "f" * 64: b"<svg onload=x>"})
    seen.page.goto(stand_in.url)
    seen.page.set_input_files("#file", {"name": "sales.csv", "mimeType": "text/csv", "buffer": b"a,b\n1,2\n"})
    seen.wait_for("document.querySelector('#files').textContent.includes('8 bytes')")
    seen.page.fill("#question", "How many?")
    seen.page.click("#send")
    seen.wait_for("document.querySelector('#figures img')?.naturalWidth === 1")
    assert stand_in.asked[0]["files"] == ["f-8"]
    assert seen.page.locator("#figures img").count() == 1  # what only says that it is a picture is not shown
    with seen.page.expect_download() as saved:
        seen.page.click("#left button >> nth=0")
    assert saved.value.suggested_filename == "plot.png"
    assert seen.complaints == []
    stand_in.shutdown()


def test_several_values_of_one_line_are_spread_out(seen: Seen, tmp_path: Path) -> None:
    program = Program("x = [f(n) for n in y]\n", (Statement(1, 0, 1, 21, "Assign"),), ("f",))
    asked = [Step(n + 1, "lm", 0, 1, call=f"f({n})", value=n % 2 == 0) for n in range(4)]
    ran = Step(5, "python", 0, 1, 1, {"x": "[True, False, True, False]"})
    seen.page.goto(written(tmp_path / "many.html", Trace(events=[program, *asked, ran, Answer("answered", 1, "1")])))
    group = seen.page.locator(".line .group")
    assert group.text_content() == "4 True, False, True, False"
    group.click()
    assert seen.page.locator(".values-row .chip").count() == 4
    seen.page.click("#back")
    seen.page.click("#back")
    assert seen.page.locator(".values-row .chip").count() == 3
    seen.page.focus(".line")
    seen.page.keyboard.press("Enter")
    assert seen.page.evaluate("document.activeElement.dataset.step") == "1"
    seen.page.keyboard.press("Enter")
    assert seen.page.locator(".editor").count() == 1
