"""The page of a trace as an HTML file, in a real browser; hostile text stays text."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from browsing import ALL_HOSTILE, ELEMENTS, PIXEL, UNNAMED, Seen, assert_harmless, hostile_trace
from conftest import ROOT

from chainofcode.program import Program, Statement
from chainofcode.sandbox.frames import Failure
from chainofcode.server.sharing import PAGE, as_html
from chainofcode.trace import Answer, Artifact, Call, Confidence, Step, Trace

FRUIT = ROOT / "examples" / "traces" / "fruit.jsonl"


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


# --- an HTML file -------------------------------------------------------------------------------------------------


def test_file_shows_the_answer_first_and_sends_no_requests(seen: Seen, fruit_file: str) -> None:
    requests: list[str] = []
    seen.page.on("request", lambda request: requests.append(request.url))
    seen.page.goto(fruit_file)
    assert seen.text("#said") == "2 of 4 are fruit"
    assert "13 Python steps" in seen.text("#facts") and "4 LM calls" in seen.text("#facts")
    assert seen.text("#where") == "17 / 17"
    assert not seen.page.locator("#ask").is_visible() and not seen.page.locator("#runs").is_visible()
    assert [url for url in requests if not url.startswith("data:")] == [fruit_file]
    assert seen.complaints == []


def test_stepping_with_keys_buttons_and_slider(seen: Seen, fruit_file: str) -> None:
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
    seen.wait_for("[2, 3, 4, 5, 6].includes(parseInt(document.querySelector('#where').textContent))")
    seen.page.keyboard.press("Space")
    stopped = seen.text("#where")
    seen.page.wait_for_timeout(900)
    assert seen.text("#where") == stopped


def test_hovering_over_a_line_shows_its_dependencies(seen: Seen, fruit_file: str) -> None:
    seen.page.goto(fruit_file)
    seen.page.hover(".line[data-line='4'] .source")
    seen.wait_for("document.querySelector('.lines.slicing')")
    marked = seen.page.locator(".line.in-slice").evaluate_all("rows => rows.map(row => Number(row.dataset.line))")
    assert 4 in marked and 3 in marked and 1 in marked and 2 not in marked and 6 not in marked
    seen.shows("#slice-text", "depends on")
    seen.page.keyboard.press("ArrowLeft")  # stepping hides the slice, even if the pointer rests on a line
    seen.wait_for("!document.querySelector('.lines.slicing')")
    seen.page.wait_for_timeout(200)
    assert seen.page.locator(".lines.slicing").count() == 0
    seen.page.hover(".line[data-line='3'] .source")
    seen.wait_for("document.querySelector('.lines.slicing')")
    seen.page.hover("#facts")
    seen.wait_for("!document.querySelector('.lines.slicing')")
    seen.page.keyboard.press("End")
    seen.page.focus("#said")
    seen.has(".line.in-slice", 6)
    seen.page.focus("#play")
    seen.wait_for("!document.querySelector('.lines.slicing')")


def test_narrow_step_list_truncates_the_call_not_the_value(seen: Seen, fruit_file: str) -> None:
    seen.page.set_viewport_size({"width": 660, "height": 800})
    seen.page.goto(fruit_file)
    seen.page.keyboard.press("Home")
    cut = "[...document.querySelectorAll('.step.by-lm %s')].map(e => e.scrollWidth > e.clientWidth)"
    seen.wait_for("document.querySelectorAll('.step.by-lm').length > 1")
    assert True in seen.page.evaluate(cut % ".call")
    assert True not in seen.page.evaluate(cut % ".value")
    assert seen.page.locator(".step.by-lm .what").first.get_attribute("title") == "is_fruit('apple') → True"
    seen.page.set_viewport_size({"width": 1090, "height": 800})
    assert True not in seen.page.evaluate(cut % ".call")


def test_lines_are_reachable_by_keyboard(seen: Seen, fruit_file: str) -> None:
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


def test_theme_button_switches_colours(browser: Any, fruit_file: str) -> None:
    for scheme in ("light", "dark"):
        seen = Seen(browser, color_scheme=scheme, reduced_motion="reduce")
        seen.page.goto(fruit_file)
        colour = "getComputedStyle(document.body).backgroundColor"
        before = seen.page.evaluate(colour)
        seen.page.click("#theme")
        assert seen.page.evaluate(colour) != before
        seen.context.close()


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_page_fits_the_window(browser: Any, fruit_file: str, width: int) -> None:
    seen = Seen(browser, viewport={"width": width, "height": 740})
    seen.page.goto(fruit_file)
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert seen.page.locator("#next").is_visible() and seen.page.locator("#slider").is_visible()
    seen.context.close()


def test_every_control_has_a_name(seen: Seen, fruit_file: str) -> None:
    seen.page.goto(fruit_file)
    assert seen.page.evaluate(UNNAMED) == []


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


@pytest.mark.alone
def test_stepping_through_6000_steps_is_fast(seen: Seen, tmp_path: Path) -> None:
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


def test_attempts_are_tabs_with_the_reason_of_the_next_attempt(seen: Seen, tmp_path: Path) -> None:
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
    assert "division by zero. Tried next: repair." in seen.text("#then")
    assert seen.page.locator(".line.failed").get_attribute("data-line") == "1"
    seen.page.click("#calls > summary")
    seen.shows("#calls-list", "answer = 1 / 0")


def test_answer_that_was_kept_is_shown_as_final(seen: Seen, tmp_path: Path) -> None:
    """A repair gave no new answer: the model was unavailable, or its next program failed."""
    program = Program("answer = 42\n", (Statement(1, 0, 1, 11, "Assign"),))
    worse = Program("answer = 1 / 0\n", (Statement(1, 0, 1, 14, "Assign"),))
    step = Step(1, "python", 0, 1, 1, {"answer": "42"})
    rejected = Answer("answered", 42, "42", "variable", sandbox="A", then="repair")
    last = Answer("answered", 42, "42", "variable", sandbox="A")
    kept = "This is the final answer: what was tried next (repair) gave no other answer."
    seen.page.goto(written(tmp_path / "gone.html", Trace(events=[program, step, rejected, last])))
    assert seen.text("#said") == "42" and seen.text("#then") == kept
    error = Failure("ZeroDivisionError", "division by zero", 1, 0)
    failing = [worse, Answer("error", error=error, sandbox="A", then="earlier answer")]
    seen.page.goto(written(tmp_path / "worse.html", Trace(events=[program, step, rejected, *failing, last])))
    assert seen.text("#said") == "42"
    assert seen.text("#then") == "Not the final answer: error: division by zero. Tried next: earlier answer."
    seen.page.click("[role=tab] >> nth=0")
    assert seen.text("#then") == kept
    seen.page.goto(written(tmp_path / "again.html", Trace(events=[program, step, rejected, program, step, last])))
    seen.page.click("[role=tab] >> nth=0")
    assert seen.text("#then") == "Not the final answer: answer 42. Tried next: repair."


def test_no_answer_and_its_reason(seen: Seen, tmp_path: Path) -> None:
    program = Program("a = 1\nb = a / 0\n", (Statement(1, 0, 1, 5, "Assign"), Statement(2, 0, 2, 9, "Assign")))
    error = Failure("ZeroDivisionError", "division by zero", 2, 1)
    events = [program, Step(1, "python", 0, 1, 1, {"a": "1"}), Answer("error", error=error, sandbox="A")]
    seen.page.goto(written(tmp_path / "error.html", Trace(events=events)))
    assert seen.text("#answer-label") == "No answer: error"
    assert seen.text("#said") == "Line 2: ZeroDivisionError: division by zero"
    assert seen.page.locator(".line.failed").get_attribute("data-line") == "2"


def test_edited_run_lists_its_changes(seen: Seen, tmp_path: Path) -> None:
    changed = dataclasses.replace(Trace.read(FRUIT), settings={"edited": ["is_fruit('kiwi') = False", "<b>n</b> = 1"]})
    seen.page.goto(written(tmp_path / "what-if.html", changed))
    assert "What if: is_fruit('kiwi') = False; <b>n</b> = 1" in seen.text("#asked")


def test_unfinished_run_has_no_answer(seen: Seen, tmp_path: Path) -> None:
    """An answer that was not final is not shown as the answer."""
    program = Program("answer = 1\n", (Statement(1, 0, 1, 10, "Assign"),))
    events = [program, Answer("answered", 1, "1", "variable", sandbox="A", then="repair")]
    seen.page.goto(written(tmp_path / "broken.html", Trace(events=events)))
    assert seen.text("#answer-label") == "No answer: unfinished"
    assert seen.text("#said") == "The trace ends before the run did."
    assert seen.text("#then") == "Not the final answer: answer 1. Tried next: repair."


def test_values_are_shown_as_python_literals(seen: Seen, tmp_path: Path) -> None:
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


def test_hostile_text_in_a_file_stays_text(seen: Seen, tmp_path: Path) -> None:
    url = written(tmp_path / "hostile.html", hostile_trace(), title=ALL_HOSTILE)
    page = (tmp_path / "hostile.html").read_text(encoding="utf-8")
    assert page.count("</script>") == 2 and page.count("<script") == 2
    seen.page.goto(url)
    assert "<script>window.__xss=1</script>" in seen.text("#asked")
    assert "\\u202e" in seen.text("#asked") and "\u202e" not in seen.page.content().partition('id="data"')[0]
    seen.page.click("#calls > summary")
    seen.shows("#calls-list", "onerror")
    for place in range(40):
        seen.page.keyboard.press("Home" if not place else "ArrowRight")
    seen.page.click("[role=tab] >> nth=0")
    seen.page.click(".line .chip >> nth=0")
    seen.page.hover(".line[data-line='2'] .source")
    seen.page.wait_for_timeout(200)  # a slice would have been drawn by now
    assert "onerror" in seen.text("#said") or "onerror" in seen.text("#then")
    assert_harmless(seen, ELEMENTS)


def test_data_cannot_leave_its_block() -> None:
    trace = Trace("</script><!-- \u2028 & <b>", events=[])
    page = as_html(trace)
    block = page.partition('id="data">')[2].partition("</script>")[0]
    assert not set("<>&\u2028\u2029") & set(block)
    assert json.loads(block)["events"][0]["question"] == trace.question


def test_csp_has_the_digests_of_inline_code() -> None:
    page = as_html(Trace(events=[]))
    script = page.partition('<script type="module">')[2].partition("</script>")[0]
    style = page.partition("<style>")[2].partition("</style>")[0]
    for text in (script, style):
        assert "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in page
    assert not re.search(r"^(import|export) ", script, re.M)


def test_page_never_parses_text_as_markup() -> None:
    for path in PAGE.iterdir():
        text = path.read_text(encoding="utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc", text
        ), path
        if path.suffix == ".html":
            assert not re.search(r"\son\w+=|\sstyle=|https?://", text), path
        if path.suffix == ".js":
            assert text.count("\n") <= 400, path


def test_figures_are_embedded_in_the_file(seen: Seen, tmp_path: Path) -> None:
    files = tmp_path / "t.jsonl.files"
    files.mkdir()
    (files / "plot.png").write_bytes(PIXEL)
    (files / "other.png").write_bytes(PIXEL + b"x")  # its digest differs from that in the trace
    kept = Artifact("plot.png", len(PIXEL), hashlib.sha256(PIXEL).hexdigest())
    gone = Artifact("table.csv", 12, "0" * 64)
    trace = Trace(events=[Answer("answered", 1, "1", artifacts=(kept, gone))])
    seen.page.goto(written(tmp_path / "figures.html", trace, files=files))
    seen.wait_for("document.querySelector('#figures img')?.naturalWidth === 1")
    assert seen.page.locator("#figures img").count() == 1
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


def test_unneeded_lines_have_their_own_slice(seen: Seen, tmp_path: Path) -> None:
    lines = ["a = f(1)", "b = a + 1", "c = b + a", "answer = f(2)"]
    program = Program("\n".join(lines), tuple(Statement(n + 1, 0, n + 1, 9, "Assign") for n in range(4)), ("f",))
    steps = [
        Step(1, "lm", 0, 1, call="f(1)", value=1),
        *(Step(n + 2, "python", n, n + 1, 1, {"abc"[n]: str(n)}) for n in range(3)),
        Step(5, "lm", 3, 4, call="f(2)", value=2),
        Step(6, "python", 3, 4, 1, {"answer": "2"}),
    ]
    unused: dict[str, list[int]] = {"1": [], "2": [1], "3": [2], "4": [2, 3]}
    why = {"steps": {"5": [], "6": [5]}, "unused": {"steps": unused}}
    trace = Trace(events=[program, *steps, Answer("answered", 2, "2", "variable", sandbox="A")])
    seen.page.goto(written(tmp_path / "unused.html", trace, why))
    seen.page.hover(".line[data-line='2'] .source")
    seen.shows("#slice-text", "the answer does not need this", "depends on 2 lines, 1 value of the model")
    marked = "[...document.querySelectorAll('.line.in-slice')].map(row => row.dataset.line).join()"
    assert seen.page.evaluate(marked) == "1,2"
    seen.page.hover(".line[data-line='3'] .source")
    seen.shows("#slice-text", "depends on 3 lines")
    seen.page.hover(".line[data-line='4'] .source")
    seen.says("#slice-text", "depends on 1 line, 1 value of the model")
    seen.page.hover("#said")
    seen.wait_for(f"{marked} === '4'")


def test_group_of_values_can_be_expanded(seen: Seen, tmp_path: Path) -> None:
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


# --- confidence ---------------------------------------------------------------------------------------------------


def judged_trace(*confidences: Confidence | None, value: Any = True, name: str = "f") -> Trace:
    """A program of one line whose values have these confidences."""
    program = Program("x = [f(n) for n in y]\n", (Statement(1, 0, 1, 21, "Assign"),), ("f",))
    asked = [
        Step(n + 1, "lm", 0, 1, call=f"{name}({n})", value=value, confidence=one) for n, one in enumerate(confidences)
    ]
    ran = Step(len(asked) + 1, "python", 0, 1, 1, {"x": "[…]"})
    return Trace(events=[program, *asked, ran, Answer("answered", 1, "1", "variable")])


@pytest.mark.parametrize(
    ("confidence", "value", "label", "explanation"),
    [
        (Confidence(0.73, {"False": 0.27}), True, "73% sure", "The model was 73% sure; otherwise: False 27%."),
        (Confidence(0.997), True, ">99% sure", "The model was >99% sure."),
        (
            Confidence(0.4, {"7": 0.5, "6": 0.4, "2": 0.1}, spread=1.21),
            6.1,
            "± 1.2",
            "The model’s score is about 6.1 ± 1.2: 7 50%, 6 40%, 2 10%.",
        ),
        (
            Confidence(0.6, {"sad": 0.4}, samples=5),
            "glad",
            "60% of 5 replies",
            "60% of 5 replies gave this value; otherwise: sad 40%.",
        ),
    ],
)
def test_value_shows_its_confidence(
    seen: Seen, tmp_path: Path, confidence: Confidence, value: Any, label: str, explanation: str
) -> None:
    seen.page.goto(written(tmp_path / "sure.html", judged_trace(confidence, value=value)))
    chip = seen.page.locator(".line .chip")
    assert chip.locator(".sure").inner_text() == label
    assert f", {label}. Change it" in (chip.get_attribute("aria-label") or "")  # for screen readers
    assert seen.page.locator(".step.by-lm .sure").inner_text() == label
    chip.click()
    assert seen.text(".editor .sureness") == explanation
    seen.page.keyboard.press("Escape")
    seen.page.click("#back")
    assert (seen.page.locator("#live-step").text_content() or "").endswith(label)
    assert seen.complaints == []


def test_unknown_confidence_is_not_shown(seen: Seen, tmp_path: Path) -> None:
    seen.page.goto(written(tmp_path / "unknown.html", judged_trace(None)))
    seen.page.click(".line .chip")
    assert seen.page.locator(".sure, .sureness").count() == 0
    assert "sure" not in seen.text("body")


def test_group_of_values_shows_the_lowest_confidence(seen: Seen, tmp_path: Path) -> None:
    seen.page.goto(written(tmp_path / "least.html", judged_trace(*map(Confidence, (0.9, 0.61, 0.8)))))
    assert seen.text(".line .group .sure") == "61% sure or more"
    assert "61% sure or more" in (seen.page.locator(".line .group").get_attribute("aria-label") or "")
    assert "least sure value: 61%" in seen.text("#facts")
    seen.page.click(".line .group")
    assert seen.page.locator(".values-row .sure").all_inner_texts() == ["90% sure", "61% sure", "80% sure"]
    seen.page.goto(written(tmp_path / "partly.html", judged_trace(Confidence(0.9), None)))
    assert seen.page.locator(".line .group .sure").count() == 0  # the confidence of the other value is unknown


MISSING = """(element => {
    const text = document.createRange();
    text.selectNodeContents(element);
    return text.getBoundingClientRect().width - element.getBoundingClientRect().width;
})(document.querySelector("%s"))"""


def test_confidence_is_never_truncated(browser: Any, tmp_path: Path) -> None:
    """Even with long values on a narrow page: the call is truncated first."""
    trace = judged_trace(Confidence(0.73), value="a long story about a dog and a cat and what they did")
    for width in (360, 900, 1280):
        seen = Seen(browser, viewport={"width": width, "height": 740})
        seen.page.goto(written(tmp_path / "narrow.html", trace))
        for place in (".line .chip", ".step.by-lm .pair"):
            outer, inner = seen.page.locator(place).bounding_box(), seen.page.locator(f"{place} .sure").bounding_box()
            assert inner["x"] + inner["width"] <= outer["x"] + outer["width"] + 1, (width, place)
        assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        seen.page.goto(written(tmp_path / "long.html", judged_trace(Confidence(0.73), value=False, name="is_" * 30)))
        for place in (".line .chip", ".step.by-lm"):  # even a fraction of a pixel too little truncates the text
            seen.page.locator(f"{place} .value").first.wait_for()
            assert seen.page.evaluate(MISSING % f"{place} .value") <= 0.01, (width, place)
        assert seen.page.evaluate(MISSING % ".step.by-lm .call") > 1, width
        assert seen.page.evaluate(MISSING % ".line .chip .call") <= 0.01, width  # next to a line, the call wraps
        seen.context.close()


def test_stated_answer_shows_its_confidence(seen: Seen, tmp_path: Path) -> None:
    stated = Answer("answered", "yes", "'yes'", "reply", confidence=0.8)
    seen.page.goto(written(tmp_path / "stated.html", Trace("Is it?", events=[Call("Is it?", "yes"), stated])))
    assert "as the model states it · 80% sure" in re.sub(r"\s+", " ", seen.text("#facts"))
