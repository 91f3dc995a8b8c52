"""The page as a person uses it: nothing is truncated, the current line is in view, a first visit shows an example.

Other tests of the page: the model's progress and the program as it is written (test_page_loading.py),
confidence (test_page.py), questions to a person (test_page_questions.py), the report (test_page_report.py), notebooks
(test_notebook.py).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import ELEMENTS, Seen, assert_harmless
from endpoint import model_endpoint
from serving import Serving, served
from test_cli import coc
from test_page_live import OUTCOME, PROGRAM, SCRIPT, ask, open_page, rule, serving

from chainofcode.program import Program, Statement
from chainofcode.server.sharing import as_html
from chainofcode.trace import Answer, Call, Step, Trace

pytest.importorskip("starlette", reason="the extra `server` is not installed")
LINES = 60
LONG = "\n".join([*(f"value_{n} = {n}" for n in range(LINES)), "answer = 'x' * 9000"])
WORDS = "There are twelve in a dozen.\nSo the answer is 12."
# A real guest writes these values: `repr` escapes joiners, tags and marks of direction.
FAMILY = "family = '👩‍👩‍👧'\nflags = ['🏴󠁧󠁢󠁥󠁮󠁧󠁿', 'pass' + chr(0x200d) + 'word']\nשם = greeting_of(family)\nanswer = [family]"
RULES = [
    {"when": "call: greeting_of(", "reply": '"صباح الخير"'},
    *SCRIPT,
    rule("family", FAMILY),
    rule("long text", "text = ' '.join(str(n) for n in range(50))\nanswer = 1"),
    rule("sixty lines", LONG),
    rule("divide", "answer = 1 / 0"),
    {"when": "dozen", "reply": WORDS},
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with served(tmp_path_factory.mktemp("people"), "--rate", "100000", script=RULES) as server:
        yield server


# Whether an element is completely visible: inside the window and all surrounding panes, and not covered.
IN_VIEW = """const inView = selector => { const box = document.querySelector(selector).getBoundingClientRect();
    const [x, low, high] = [box.left + 30, box.top + 2, box.bottom - 2];
    return [low, high].every(y => y > 0 && y < innerHeight && document.elementFromPoint(x, y)?.closest(selector)); };"""
STEPPING = f"""async () => {{ {IN_VIEW}
    const frame = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    const hidden = [], press = key => document.body.dispatchEvent(new KeyboardEvent('keydown', {{key, bubbles: true}}));
    press('Home');
    for (let step = 1; step <= {LINES}; step++) {{
        press('ArrowRight');
        await frame();
        for (const what of ['.line.now', '#state .changed', '#slider']) if (!inView(what)) hidden.push([step, what]);
    }}
    return hidden; }}"""


# --- complete values and answers ----------------------------------------------------------------------------------


def test_values_are_not_truncated_if_there_is_room(browser: Any, tmp_path: Path) -> None:
    value = "a text of some sixty characters that has to be read to its end"
    program = Program("x = describe(7)\n", (Statement(1, 0, 1, 15, "Assign"),), ("describe",))
    steps = [
        Step(1, "lm", 0, 1, call="describe(7)", value=value),
        Step(2, "python", 0, 1, 1, {"x": repr(value)}),
    ]
    page = as_html(Trace("Which?", events=[program, *steps, Answer("answered", value, repr(value), "variable")]))
    (tmp_path / "value.html").write_text(page, encoding="utf-8")
    for width in (360, 900, 1280):
        seen = Seen(browser, viewport={"width": width, "height": 740})
        seen.page.goto((tmp_path / "value.html").as_uri())
        cut = "[...document.querySelectorAll('.line .came *, #state td')].filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflow !== 'visible').length"
        assert seen.page.evaluate(cut) == 0, width
        assert seen.text(".line .chip").endswith(f"→ '{value}'")
        assert seen.page.evaluate(f"(() => {{ {IN_VIEW} return inView('.line .chip'); }})()"), width
        seen.context.close()


def test_long_answer_can_be_expanded(seen: Seen, server: Serving) -> None:
    open_page(seen, server.url)
    ask(seen, "sixty lines?")
    seen.says("#said-all", "Show all 9,000 characters")
    assert len(seen.text("#said")) == 2000
    seen.page.click("#said-all")
    assert seen.text("#said") == "x" * 9000
    seen.says("#said-all", "Show less")
    assert seen.complaints == []


def test_answer_program_and_run_are_copied_and_saved(browser: Any, server: Serving) -> None:
    seen = Seen(browser, accept_downloads=True)
    seen.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_page(seen, server.url)
    id = ask(seen)
    seen.says("#said", OUTCOME)
    seen.page.locator("#share").wait_for(state="visible")

    def copied(button: str) -> str:
        seen.page.click(button)
        seen.says(button, "Copied")
        return str(seen.page.evaluate("navigator.clipboard.readText()"))

    def saved(button: str) -> str:
        with seen.page.expect_download() as download:
            seen.page.click(button)
        return Path(download.value.path()).read_text(encoding="utf-8")

    assert copied("#copy-answer") == OUTCOME
    assert copied("#copy-program").strip() == PROGRAM.strip()
    seen.page.click("#share")
    assert copied("#copy-link") == f"{server.url}/#run={id}"
    assert saved("#save-trace") == server.client.get(f"/api/runs/{id}/trace").text
    assert saved("#save-answer") == OUTCOME
    rows = list(csv.DictReader(io.StringIO(saved("#save-csv"))))
    assert len(rows) == 17 and rows[3]["call"] == "is_fruit('apple')" and rows[3]["value"] == "True"
    page = saved("#save-html")
    assert page.startswith("<!doctype html>") and "2 of 4 are fruit" in page
    seen.page.keyboard.press("Escape")
    assert not seen.page.locator("#share-panel").is_visible()
    assert seen.page.evaluate("document.activeElement.id") == "share"
    assert seen.complaints == []
    seen.context.close()


def test_saved_page_is_served_as_an_attachment(server: Serving) -> None:
    id = server.begin()
    server.over(id)
    reply = server.client.get(f"/api/runs/{id}/page")
    assert reply.headers["content-disposition"].startswith("attachment") and "sandbox" not in reply.text[:200]
    assert "script-src 'self'" in reply.headers["content-security-policy"]
    assert server.client.get(f"/api/runs/{'0' * 24}/page").status_code == 404


def test_csv_cells_are_not_formulas(seen: Seen, tmp_path: Path) -> None:
    program = Program("x = f()\n", (Statement(1, 0, 1, 7, "Assign"),), ("f",))
    step = Step(1, "lm", 0, 1, call="=HYPERLINK(1)", value=-2, output='@SUM("a")')
    page = as_html(Trace(events=[program, step, Answer("answered", 1, "1")]))
    (tmp_path / "formula.html").write_text(page, encoding="utf-8")
    seen.page.goto((tmp_path / "formula.html").as_uri())
    seen.page.click("#share")
    with seen.page.expect_download() as download:
        seen.page.click("#save-csv")
    row = next(csv.DictReader(io.StringIO(Path(download.value.path()).read_text(encoding="utf-8"))))
    assert row["call"] == "'=HYPERLINK(1)" and row["printed"] == '\'@SUM("a")' and row["value"] == "-2"


def test_value_of_the_current_line_is_not_truncated(seen: Seen, server: Serving) -> None:
    open_page(seen, server.url)
    ask(seen, "A long text?")
    seen.says("#said", "1")
    seen.page.keyboard.press("ArrowLeft")
    seen.shows(".line.now .result", "text = '0 1 2", "48 49'")
    cut = "(e => e.scrollHeight > e.clientHeight + 1)(document.querySelector('.line.now .result'))"
    assert not seen.page.evaluate(cut)


@pytest.mark.parametrize(
    ("language", "command"),
    [
        (
            "SQL",
            ("sql", "examples/sarcasm.sql", "--file", "examples/reviews.csv", "--values", "examples/sarcasm.jsonl"),
        ),
        ("JavaScript", ("run", "examples/fruit.js", "--values", "examples/fruit_js.jsonl")),
    ],
    ids=["sql", "js"],
)
def test_syntax_highlighting_of_other_languages(seen: Seen, tmp_path: Path, language: str, command: Any) -> None:
    pytest.importorskip({"SQL": "duckdb", "JavaScript": "_quickjs"}[language])
    assert coc(*command, "--trace", tmp_path / "run.jsonl").returncode == 0
    assert coc("show", tmp_path / "run.jsonl", "--html", tmp_path / "run.html").returncode == 0
    seen.page.goto((tmp_path / "run.html").as_uri())
    seen.shows(".legend", language)
    coloured = "kind => [...document.querySelectorAll(`.lines .k-${kind}`)].map(e => e.textContent)"
    expected = {
        "SQL": (["is_sarcastic"], ["SELECT", "AS", "FROM", "WHERE", "AND", "GROUP", "BY", "ORDER", "BY", "DESC"]),
        "JavaScript": (["isFruit"], ["const", "const"]),
    }
    found = seen.page.evaluate(coloured, "hole"), seen.page.evaluate(coloured, "keyword")
    assert found == expected[language]
    assert seen.page.evaluate(coloured, "comment" if language == "SQL" else "string")
    assert seen.complaints == []


def test_holes_are_highlighted_where_the_host_found_them(seen: Seen, tmp_path: Path) -> None:
    source = """class Axes:
    def bar(self, x): return x
Axes().bar(1)
y = bar(2)
é = 'ä'; answer = f"{é} {is_odd(3)} and {nlp.mood(é)}" """
    program = Program.parse(source)
    assert program.hole_places
    page = as_html(Trace(events=[program, Answer("answered", 1, "1")]))
    (tmp_path / "colours.html").write_text(page, encoding="utf-8")
    seen.page.goto((tmp_path / "colours.html").as_uri())
    holes = "[...document.querySelectorAll('.line')].map(row => [...row.querySelectorAll('.k-hole')].map(e => e.textContent))"
    assert seen.page.evaluate(holes) == [[], [], [], ["bar"], ["is_odd", "nlp.mood"]]


# --- what changes is in view --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (900, 700), (390, 844)])
def test_line_and_state_stay_in_view_while_stepping(browser: Any, server: Serving, width: int, height: int) -> None:
    seen = Seen(browser, viewport={"width": width, "height": height})
    open_page(seen, server.url)
    ask(seen, "sixty lines?")
    seen.page.locator("#again").wait_for(state="visible")  # the run is over
    assert seen.page.evaluate(STEPPING) == []
    assert seen.page.evaluate("document.documentElement.scrollHeight <= innerHeight")  # panes scroll, not the page
    seen.context.close()


# --- a first visit ------------------------------------------------------------------------------------------------


def test_start_page_shows_an_example_run(seen: Seen, server: Serving) -> None:
    open_page(seen, server.url)
    seen.wait_for("document.activeElement.id === 'question'")
    seen.says("#said", OUTCOME)
    seen.shows("#empty", "The model writes a program", "Question", "Answer")
    seen.shows("#example-note", "An example run")
    assert not seen.page.locator("#rewrite").is_visible() and not seen.page.locator("#remove").is_visible()
    seen.page.evaluate("document.activeElement.blur()")
    seen.page.keyboard.press("ArrowLeft")
    seen.says("#where", "16 / 17")
    seen.page.hover(".line[data-line='4'] .source")
    seen.shows("#slice-text", "depends on")
    seen.page.click(".line .chip")
    seen.shows(".editor", "Ask this question yourself")
    assert seen.text("#method option >> nth=0") == "Code and judgement"
    seen.page.click("#ideas button >> nth=0")  # one click asks the question
    seen.wait_for("location.hash.startsWith('#run=')")
    seen.says("#asked", "How many of these are fruit: apple, hammer, kiwi, saw?")
    seen.says("#said", OUTCOME)
    assert not seen.page.locator("#example-note").is_visible()
    assert seen.complaints == []


# --- reasoning, attempts, failures --------------------------------------------------------------------------------


def test_reasoning_of_a_model_is_shown(seen: Seen, server: Serving) -> None:
    open_page(seen, server.url)
    seen.page.select_option("#method", "cot")
    ask(seen, "How many is a dozen?")
    seen.shows("#words", "There are twelve in a dozen.")
    seen.shows("#program-title", "The model’s words")
    assert not seen.page.locator("#lines").is_visible() and not seen.page.locator("#player").is_visible()
    assert seen.complaints == []


def test_fallback_shows_earlier_attempts(seen: Seen, tmp_path: Path) -> None:
    program = Program("answer = 1 / 0\n", (Statement(1, 0, 1, 14, "Assign"),))
    failed = Answer("error", sandbox="A", then="cot")
    events = [Call("write", "answer = 1 / 0", "m"), program, failed, Call("think", WORDS, "m")]
    trace = Trace("How many is a dozen?", events=[*events, Answer("answered", 12, "12", "reply")])
    (tmp_path / "fallback.html").write_text(as_html(trace), encoding="utf-8")
    seen.page.goto((tmp_path / "fallback.html").as_uri())
    tabs = seen.page.locator("[role=tab]").all_inner_texts()
    assert [text.split()[:2] for text in tabs] == [["1", "Program"], ["2", "Reasoning"]]
    seen.shows("#words", "There are twelve")
    seen.page.click("[role=tab] >> nth=0")
    assert seen.page.locator("#lines").is_visible() and "1 / 0" in seen.text("#lines")


def test_failed_run_suggests_a_next_step(seen: Seen, server: Serving) -> None:
    id = server.client.post("/api/runs", json={"program": "answer = 1 / 0"}).json()["id"]
    server.over(id)
    open_page(seen, f"{server.url}/#run={id}")
    seen.shows("#said", "Line 1: ZeroDivisionError")
    seen.shows("#next-step", "Next: correct the program with “Edit” and run it again.")
    assert seen.complaints == []


def test_timeline_shows_overlapping_and_wasted_requests(seen: Seen, tmp_path: Path) -> None:
    program = Program("x = [f(n) for n in y]\n", (Statement(1, 0, 1, 21, "Assign"),), ("f",))
    calls = [
        Call("f(0)", "1", "m", seconds=2.0, started=100.0, answers={"f(0)": 1}),
        Call("f(1)", "1", "m", seconds=2.0, started=101.0),
        Call("f(2)", "", "m", seconds=1.0, started=103.5, is_abandoned=True),
    ]
    steps = [Step(n + 1, "lm", 0, 1, call=f"f({n})", value=1, how="ahead" if n else "") for n in range(2)]
    trace = Trace(events=[program, *calls, *steps, Answer("answered", 1, "1", wasted=1)])
    (tmp_path / "timeline.html").write_text(as_html(trace), encoding="utf-8")
    seen.page.goto((tmp_path / "timeline.html").as_uri())
    seen.page.click("#calls > summary")
    seen.shows(".timeline", "3 requests in 4.50 s, 5.00 s one by one", "at most 2 at once", "1 sent ahead", "1 wasted")
    bars = seen.page.locator(".bar").evaluate_all("bars => bars.map(bar => bar.getBoundingClientRect().left)")
    assert bars[0] < bars[1] < bars[2] and seen.page.locator(".bar.wasted").count() == 1
    seen.shows(".timeline li", "f(0)")
    cached = [Call("f(0)", "1", "m", seconds=0.1, started=100.0, answers={"f(0)": 1}, is_cached=True)]
    (tmp_path / "cached.html").write_text(as_html(Trace(events=[program, *cached, *steps[:1]])), encoding="utf-8")
    seen.page.goto((tmp_path / "cached.html").as_uri())
    seen.page.click("#calls > summary")
    seen.shows(".timeline", "1 cached", "0.10 s · cached")
    assert seen.complaints == []


# --- what if ------------------------------------------------------------------------------------------------------


def test_what_if_shows_changes_and_all_versions(seen: Seen, server: Serving) -> None:
    open_page(seen, server.url)
    ask(seen)
    seen.page.locator("#again").wait_for(state="visible")
    seen.page.click(".line[data-line='4'] .chip")
    seen.page.keyboard.press("Control+a")
    seen.page.keyboard.type("True")
    seen.page.keyboard.press("Enter")
    seen.says("#said", "3 of 4 are fruit")
    seen.shows("#changes", "is_fruit('saw'): False → True", "count: 2 → 3")
    seen.shows("#versions", "Original", OUTCOME, "What if 1", "3 of 4 are fruit")
    first = seen.page.evaluate("location.hash")
    seen.page.click("#rewrite")
    seen.page.fill(".rewrite textarea", PROGRAM.replace('"saw"', '"saw", "apple"').replace("{count}", "All: {count}"))
    seen.page.click(".rewrite .primary")
    seen.says("#said", "All: 4 of 5 are fruit")
    seen.shows("#changes", "+ ", "apple", "− ")
    seen.has("#versions a", 3)
    places = "[...document.querySelectorAll('#versions a')].map(e => [e.getBoundingClientRect().left, e.offsetTop])"
    (root, *_), (child, _), (grandchild, _) = seen.page.evaluate(places)
    assert root < child < grandchild  # a tree: each version is indented below its parent
    assert [top for _, top in seen.page.evaluate(places)] == sorted({top for _, top in seen.page.evaluate(places)})
    seen.page.click("#versions a >> nth=1")
    seen.wait_for(f"location.hash === {json.dumps(first)}")
    seen.page.click("#versions a >> nth=0")
    seen.says("#said", OUTCOME)
    assert seen.complaints == []


def test_new_call_of_an_edited_program_is_sent_to_the_model(seen: Seen, tmp_path: Path) -> None:
    rules = [{"when": "is_fruit('plum')", "reply": "true"}, *SCRIPT]
    with served(tmp_path, "--rate", "100000", script=rules) as server:
        open_page(seen, server.url)
        ask(seen)
        seen.page.locator("#again").wait_for(state="visible")
        seen.page.click("#rewrite")
        seen.page.fill(".rewrite textarea", "answer = [is_fruit('apple'), is_fruit('plum')]")
        seen.page.select_option(".rewrite select", index=1)
        seen.page.click(".rewrite .primary")
        seen.says("#said", "[True, True]")
        seen.shows("#changes", "is_fruit('plum'): new → True")
        assert seen.complaints == []


# --- writing systems and accessibility ----------------------------------------------------------------------------


def test_every_writing_system_is_shown_as_written(seen: Seen, tmp_path: Path) -> None:
    """Combined emoji, flags, joiners in words and direction marks are shown; characters that hide text are escaped."""
    written = "👩‍👩‍👧 🏴󠁧󠁢󠁥󠁮󠁧󠁿 می‌خواهم क्‍ष שלום\u200f! 田中"
    program = Program("x = f()\n", (Statement(1, 0, 1, 7, "Assign"),), ("f",))
    steps = [Step(1, "lm", 0, 1, call="f()", value=written), Step(2, "python", 0, 1, 1, {"שם": f"'{written}'"})]
    trace = Trace(f"{written}?", events=[program, *steps, Answer("answered", written, repr(written), "variable")])
    (tmp_path / "scripts.html").write_text(as_html(trace), encoding="utf-8")
    seen.page.goto((tmp_path / "scripts.html").as_uri())
    assert seen.text("#said") == written and seen.text("#asked") == f"{written}?"
    assert written in seen.text(".line .chip") and written in seen.text("#state td")
    hidden = "pass\u200dword \u200bx \u202ey a\u200fb"
    (tmp_path / "hidden.html").write_text(as_html(Trace(hidden, events=[Answer("answered", 1, "1")])), encoding="utf-8")
    seen.page.goto((tmp_path / "hidden.html").as_uri())
    assert seen.text("#asked") == "pass\\u200dword \\u200bx \\u202ey a\\u200fb"
    (tmp_path / "rtl.html").write_text(
        as_html(Trace("שלום עולם?", events=[Answer("answered", "כן", "'כן'")])), encoding="utf-8"
    )
    seen.page.goto((tmp_path / "rtl.html").as_uri())
    assert seen.page.evaluate("getComputedStyle(document.querySelector('#said')).direction") == "rtl"


def test_values_of_a_program_are_shown_as_written(seen: Seen, server: Serving) -> None:
    open_page(seen, server.url)
    ask(seen, "Which family?")
    seen.says("#said", "['👩‍👩‍👧']")
    seen.shows("#state", "'👩‍👩‍👧'", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "pass\\u200dword", "صباح")
    seen.shows(".line[data-line='3'] .chip", "greeting_of('👩‍👩‍👧')")
    apart = "[...document.querySelectorAll('.line[data-line=\"3\"] .apart')].map(e => e.getBoundingClientRect().left)"
    name, value = seen.page.evaluate(apart)
    assert name < value  # a right-to-left name still comes before its value
    assert seen.complaints == []


def test_axe_finds_no_violations(browser: Any, server: Serving) -> None:
    """Contrast in both themes, names, roles and structure, in ten states of the page."""
    axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    source = next(Path(axe.__file__).parent.rglob("axe.min.js")).read_text(encoding="utf-8")
    seen = Seen(browser, reduced_motion="reduce")
    found: list[Any] = []

    seen.page.add_init_script(source)
    run = "axe.run(document, {options}).then(found => found.violations)"

    def check(state: str) -> None:
        for scheme, options in (("dark", "{runOnly: ['color-contrast']}"), ("light", "{resultTypes: ['violations']}")):
            seen.page.emulate_media(color_scheme=scheme)
            violations = seen.page.evaluate(run.replace("{options}", options))
            found.extend((state, scheme, one["id"], one["nodes"][0]["html"][:200]) for one in violations)

    open_page(seen, server.url)
    seen.says("#said", OUTCOME)
    check("an example")
    ask(seen)
    seen.page.locator("#again").wait_for(state="visible")
    seen.page.keyboard.press("ArrowLeft")
    check("a run")
    seen.page.hover(".line[data-line='4'] .source")
    seen.has(".lines.slicing", 1)
    check("a slice")
    seen.page.click(".line[data-line='4'] .chip")
    check("a value to change")
    seen.page.keyboard.press("Escape")
    seen.page.click("#check")
    seen.shows("#check-found", "1.00")
    check("a check")
    seen.page.click("#share")
    seen.page.click("#calls > summary")
    check("requests and the menu")
    seen.page.click("#rewrite")
    check("a program to change")
    seen.page.click("#filters > summary")
    seen.page.fill("#runs-search", "fruit")
    seen.wait_for("document.querySelector('#runs-list mark')")
    check("a search")
    seen.page.focus("#question")
    seen.page.click("#mode")
    check("a program of one's own")
    id = server.client.post("/api/runs", json={"program": "answer = 1 / 0"}).json()["id"]
    server.over(id)
    seen.page.evaluate(f"location.hash = 'run={id}'")
    seen.shows("#said", "ZeroDivisionError")
    check("a failure")
    assert found == []
    seen.context.close()


@pytest.mark.nightly
def test_six_tabs_with_running_runs_do_not_block_a_seventh(browser: Any, tmp_path: Path) -> None:
    with model_endpoint(SCRIPT) as model, serving(tmp_path, model) as server:
        model.hold("is_fruit('kiwi')")
        context = browser.new_context()
        ids = [server.begin(f"How many are fruit? ({n})", model="openai") for n in range(7)]
        pages = [context.new_page() for _ in ids]
        for page, id in zip(pages, ids, strict=True):
            page.goto(f"{server.url}/#run={id}")
            page.locator(".chip.pending").wait_for(timeout=20_000)
        model.release()
        for page in pages:
            page.get_by_text(OUTCOME, exact=True).first.wait_for(timeout=20_000)
        context.close()


# --- runs ---------------------------------------------------------------------------------------------------------


def test_ask_again_new_question_and_home_button(seen: Seen, server: Serving) -> None:
    open_page(seen, server.url)
    first = ask(seen)
    seen.says("#again", "Ask again")
    seen.page.click("#again")
    seen.wait_for(f"location.hash !== '#run={first}'")
    seen.says("#said", OUTCOME)
    second = seen.page.evaluate("location.hash.slice(5)")
    assert server.run(second)["question"] == server.run(first)["question"] and server.run(second)["parent"] is None
    seen.page.click("#home")
    seen.shows("#example-note", "An example run")
    seen.wait_for("document.activeElement.id === 'question'")
    seen.page.go_back()
    seen.wait_for(f"location.hash === '#run={second}'")
    seen.says("#said", OUTCOME)
    seen.page.evaluate("document.activeElement.blur()")
    seen.page.keyboard.press("n")
    seen.wait_for("document.activeElement.id === 'question' && location.hash === ''")
    assert seen.complaints == []


def test_run_list_has_filters_and_durations(seen: Seen, tmp_path: Path) -> None:
    with served(tmp_path, "--rate", "100000", script=RULES) as server:
        with_program, with_reasoning = (
            server.begin("How many are fruit?"),
            server.begin("How many is a dozen?", method="cot"),
        )
        failed = server.client.post("/api/runs", json={"program": "answer = 1 / 0"}).json()["id"]
        for id in (with_program, with_reasoning, failed):
            server.over(id)
        open_page(seen, server.url)
        seen.has("#runs-list a", 3)
        seen.shows(f"#runs-list a[data-id='{with_program}'] .when", "Code and judgement", " s")
        seen.page.fill("#runs-search", "FRUIT")
        seen.has("#runs-list a", 1)
        assert {text.lower() for text in seen.page.locator("#runs-list mark").all_inner_texts()} == {"fruit"}
        seen.page.fill("#runs-search", "")
        seen.page.click("#filters > summary")
        seen.page.select_option("#filter-method", "cot")
        seen.has("#runs-list a", 1)
        seen.shows("#runs-list a", "dozen")
        seen.shows("#filters-text", "1 set")
        seen.page.select_option("#filter-method", "")
        seen.page.select_option("#filter-state", "cancelled")
        seen.says("#runs-none", "No runs.")
        seen.page.select_option("#filter-state", "done")
        seen.page.fill("#filter-day", seen.page.evaluate("new Date().toLocaleDateString('en-CA')"))
        seen.has("#runs-list a", 3)
        seen.page.fill("#filter-day", "2001-02-03")
        seen.says("#runs-none", "No runs.")
        assert seen.complaints == []


def test_filters_over_http(server: Serving) -> None:
    id = server.begin("forty?")
    server.over(id)
    run = server.client.get("/api/runs", params={"method": "coc", "q": "forty"}).json()["runs"][0]
    assert run["id"] == id and {"tokens", "dollars", "seconds"} <= run.keys()
    for wanted in ({"state": "odd"}, {"since": "yesterday"}, {"until": "-1"}, {"since": "1e300"}):
        refused = server.client.get("/api/runs", params=wanted)
        assert refused.status_code == 400 and next(iter(wanted)) in refused.json()["error"]["message"]
    assert server.client.get("/api/runs", params={"since": run["created"] + 1e6}).json()["runs"] == []


def test_hostile_words_are_highlighted_as_text(seen: Seen, server: Serving) -> None:
    open_page(seen, server.url)
    ask(seen, "fruit <img src=x onerror=window.__xss=1> \\ [a-z]* ( $& ?")
    seen.says("#said", OUTCOME)
    for words in ("<img", "[a-z]*", "( $&", "\\", "onerror=window.__xss=1>"):
        seen.page.fill("#runs-search", words)
        seen.wait_for(f"document.querySelector('#runs-list mark')?.textContent === {json.dumps(words.split()[0])}")
    assert_harmless(seen, ELEMENTS)


# --- a first visit --------------------------------------------------------------------------------------------------


def test_five_tasks_take_three_clicks_at_most(seen: Seen, server: Serving) -> None:
    """Ask, see which steps the model did, change a value, check the answer, share it; typing is not counted."""
    seen.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_page(seen, server.url)
    clicks: dict[str, int] = {}

    def click(task: str, selector: str) -> None:
        clicks[task] = clicks.get(task, 0) + 1
        seen.page.locator(selector).first.click()

    click("ask", "#ideas button")
    seen.shows("#said", OUTCOME)
    who = "[...document.querySelectorAll('.line .badge')].map(badge => badge.title)"
    assert {"Python", "the model"} <= set(seen.page.evaluate(who))  # seen without a click
    click("check", "#check")
    seen.shows("#check-found", "The answer follows from the reasoning.")
    click("share", "#share")
    click("share", "#copy-link")
    seen.wait_for("navigator.clipboard.readText().then(text => text === location.href)")
    click("change", ".line .chip[data-step], .line .chip")
    if seen.page.locator(".editor").count() == 0:  # a group of values opens first
        click("change", ".line button[data-step]")
    seen.page.locator(".editor input").first.fill("False")
    click("change", ".editor button[type=submit]")
    seen.shows("#was", f"was {OUTCOME}")
    assert clicks.keys() == {"ask", "check", "share", "change"} and max(clicks.values()) <= 3, clicks
