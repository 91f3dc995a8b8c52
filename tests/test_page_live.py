"""The page of a real `coc serve`, in a real browser: a live run, and everything that a user can do with it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from browsing import ALL_HOSTILE, ELEMENTS, HOSTILE, PIXEL, UNNAMED, Seen, assert_harmless, hostile_trace
from conftest import ROOT, has_tier
from endpoint import Model, Relay, model_endpoint
from judging import openai_logprobs, truth
from serving import Serving, served

from chainofcode.server.sqlite_store import SQLiteStore
from chainofcode.server.store import RunRecord
from chainofcode.trace import Trace

pytest.importorskip("starlette", reason="the extra `server` is not installed")
FRUIT = ROOT / "examples" / "traces" / "fruit.jsonl"
PROGRAM = Trace.read(FRUIT).program.source  # type: ignore[union-attr]
THINGS = {"apple": "true", "hammer": "false", "kiwi": "true", "saw": "false"}
# Two files with names of images, one of which is not an image, and the sum of a column.
DRAWING = f"""import base64
open('plot.png', 'wb').write(base64.b64decode({base64.b64encode(PIXEL).decode()!r}))
open('fake.png', 'w').write('<svg onload=window.__xss=1>')
answer = sum(int(row['b']) for row in sales)"""
# Hostile text wherever a program can put it: source, calls, values, output, errors.
MISCHIEF = f"""given = {ALL_HOSTILE!r}
print(given)
said = describe(given)  # {ALL_HOSTILE.replace(chr(0), "").encode("ascii", "ignore").decode()}
class Odd(Exception): pass
raise Odd(said)"""


def rule(when: str, program: str) -> dict[str, str]:
    return {"when": when, "reply": f"```python\n{program}\n```"}


SCRIPT = [
    *({"when": f"call: is_fruit('{name}')", "reply": value} for name, value in THINGS.items()),
    {"when": "describe(", "reply": json.dumps(ALL_HOSTILE.replace("\0", ""))},
    rule("fruit", PROGRAM),
    rule("draw", DRAWING),
    rule("mischief", MISCHIEF),
    rule("forty", "unneeded = len('some work')\nanswer = 42"),
]
QUESTION = "How many are fruit?"
OUTCOME = "2 of 4 are fruit"


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with model_endpoint(SCRIPT) as model:
        yield model


@pytest.fixture(scope="module")
def server(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with two models: a script, and an endpoint with the same script whose replies can be held back."""
    with serving(tmp_path_factory.mktemp("live"), model) as server:
        yield server


@contextlib.contextmanager
def serving(directory: Path, model: Model, *options: str, **more: Any) -> Iterator[Serving]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", f"{model.url}/v1")
        patch.setenv("OPENAI_API_KEY", "k")
        with served(directory, "--model", "openai:m", "--rate", "100000", *options, script=SCRIPT, **more) as server:
            yield server


def ask(seen: Seen, question: str = QUESTION, model: str = "") -> str:
    """Ask a question on the page; return the run's id."""
    before = seen.page.evaluate("location.hash")
    seen.page.fill("#question", question)
    if model:
        seen.page.select_option("#model", model)
    seen.page.focus("#question")
    seen.page.keyboard.press("Enter")
    seen.wait_for(f"location.hash !== {json.dumps(before)}")
    return str(seen.page.evaluate("new URLSearchParams(location.hash.slice(1)).get('run')"))


def open_page(seen: Seen, url: str) -> None:
    seen.page.goto(url)
    seen.wait_for("document.querySelectorAll('#method option').length > 1")


def store_runs(directory: Path, *runs: tuple[RunRecord, Trace]) -> None:
    """Store runs in the directory of a server, the last one as the newest."""
    store = SQLiteStore(directory / "data")
    for run, trace in runs:
        in_thread(lambda run=run: asyncio.run(store.keep(run)))
        trace.write(store.trace_path(run.id))
    store.close()


def in_thread(function: Callable[[], Any]) -> Any:
    """Call a function in a separate thread: in this one, Playwright's loop is running."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function).result()


# --- a live run ---------------------------------------------------------------------------------------------------


def test_lines_are_highlighted_during_the_run(seen: Seen, server: Serving, model: Model) -> None:
    model.hold("is_fruit('kiwi')")
    open_page(seen, server.url)
    id = ask(seen, model="openai:m")
    seen.shows(".line[data-line='4'] .chip.pending", "is_fruit('kiwi')")
    seen.shows("#progress", "running", "1 call in flight")
    seen.says("#asked", QUESTION)
    seen.shows("#runs-list a[aria-current] .end", "running")
    assert server.run(id)["state"] == "running" and server.run(id)["method"] == "coc"
    rows = "[...document.querySelectorAll('.line')].map(row => row.querySelector('.badge')?.textContent ?? '').join()"
    assert seen.page.evaluate(rows) == "py,py,py,lm,py,"
    assert "basket = ['apple', 'hammer', 'kiwi', 'saw']" in seen.text(".line[data-line='1'] .came")
    assert "count = 1" in seen.text(".line[data-line='5'] .came")
    assert "by-python" in (seen.page.locator(".line.now").get_attribute("class") or "")
    seen.says("#where", "10 / 10")
    seen.page.evaluate("document.activeElement.blur()")
    seen.page.keyboard.press("ArrowLeft")
    seen.page.keyboard.press("ArrowLeft")  # back, while the program runs
    seen.says("#where", "8 / 10")
    assert "by-lm" in (seen.page.locator(".line.now").get_attribute("class") or "")
    seen.page.keyboard.press("ArrowLeft")
    seen.page.keyboard.press("End")
    height = seen.page.locator(".code").bounding_box()["height"]
    assert not seen.page.locator("#rewrite").is_visible() and not seen.page.locator("#check").is_visible()
    model.release()
    seen.says("#said", OUTCOME)
    seen.says("#where", "17 / 17")
    assert seen.page.locator(".code").bounding_box()["height"] == height  # nothing moved during the run
    seen.wait_for("!document.querySelector('#progress').checkVisibility()")
    seen.says("#live", f"Answer: {OUTCOME}")
    assert seen.page.evaluate("document.title") == OUTCOME
    assert seen.complaints == []


def test_calls_in_flight_are_shown_in_full(seen: Seen, server: Serving, model: Model) -> None:
    model.hold("is_fruit(")
    program = "answer = [is_fruit(thing) for thing in ('apple', 'hammer', 'kiwi', 'saw')]"
    id = server.client.post("/api/runs", json={"program": program, "model": "openai"}).json()["id"]
    open_page(seen, f"{server.url}/#run={id}")
    calls = ", ".join(f"is_fruit('{name}')" for name in THINGS)
    seen.says(".chip.pending .call", calls)
    seen.shows(".chip.pending .count", "4")
    seen.has(".chip.pending", 1)
    fits = "(({scrollWidth, clientWidth}) => scrollWidth <= clientWidth)(document.querySelector('.pending'))"
    assert seen.page.evaluate(fits)  # no call is truncated
    model.release()
    seen.says("#said", "[True, False, True, False]")


def test_changing_a_value_changes_the_answer(seen: Seen, server: Serving) -> None:
    open_page(seen, server.url)
    before = ask(seen)
    seen.says("#said", OUTCOME)
    seen.page.hover(".line[data-line='4'] .source")
    seen.has(".lines.slicing", 1)
    seen.shows("#slice-text", "depends on")
    seen.page.click(".line[data-line='4'] .chip")
    seen.page.keyboard.press("Control+a")
    seen.page.keyboard.type("True")
    seen.page.keyboard.press("Enter")
    seen.says("#said", "3 of 4 are fruit")
    seen.says("#was", f"was {OUTCOME}")
    after = seen.page.evaluate("new URLSearchParams(location.hash.slice(1)).get('run')")
    assert server.run(after)["parent"] == before
    seen.page.click("#was a")
    seen.says("#said", OUTCOME)
    seen.page.reload()
    seen.says("#said", OUTCOME)
    seen.says("#where", "17 / 17")
    assert seen.complaints == []


def test_resting_pointer_selects_no_line(seen: Seen, server: Serving) -> None:
    """After a click on *Run again*, the pointer is over a line of the new run."""
    open_page(seen, server.url)
    ask(seen)
    seen.says("#said", OUTCOME)
    seen.page.click(".line[data-line='4'] .chip")
    seen.page.click(".editor .primary")
    seen.shows("#was", "(unchanged)")
    box = seen.page.locator(".line[data-line='5']").bounding_box()
    seen.page.wait_for_timeout(400)  # longer than the delay before a slice is shown
    assert seen.page.locator(".line:hover").count() == 1 and seen.page.locator(".slicing").count() == 0
    assert seen.text("#slice-text") == ""
    seen.page.mouse.move(box["x"] + 90, box["y"] + 9)
    seen.has(".lines.slicing", 1)
    assert seen.complaints == []


def test_run_continues_after_a_reload(seen: Seen, server: Serving, model: Model) -> None:
    model.hold("is_fruit('hammer')")
    open_page(seen, server.url)
    id = ask(seen, model="openai:m")
    seen.shows(".chip.pending", "is_fruit('hammer')")
    seen.page.reload()
    seen.shows(".chip.pending", "is_fruit('hammer')")
    assert server.run(id)["state"] == "running"
    model.release()
    seen.says("#said", OUTCOME)
    seen.says("#where", "17 / 17")
    assert seen.complaints == []


def test_cancel_button_ends_the_run(seen: Seen, server: Serving, model: Model) -> None:
    model.hold("is_fruit('saw')")
    open_page(seen, server.url)
    id = ask(seen, model="openai:m")
    seen.shows(".chip.pending", "is_fruit('saw')")
    seen.page.click("#cancel")
    seen.says("#said", "cancelled")
    seen.says("#answer-label", "No answer")
    seen.has(".chip.pending", 0)
    seen.shows("#runs-list a[aria-current] .end", "cancelled")
    assert server.run(id)["state"] == "cancelled"
    model.release()
    assert seen.complaints == []


def test_run_states_are_distinguishable_in_the_list(seen: Seen, model: Model, tmp_path: Path) -> None:
    """By a symbol and a colour: active and cancelled runs do not look like failed ones."""
    model.hold("is_fruit('apple')")
    with serving(tmp_path, model, "--runs", "1") as server:
        failed = server.client.post("/api/runs", json={"program": "answer = 1 / 0", "model": None}).json()["id"]
        server.over(failed)
        running = server.begin(QUESTION, model="openai")
        queued, cancelled = server.begin("a second?", model="openai"), server.begin("a third?", model="openai")
        server.client.post(f"/api/runs/{cancelled}/cancel", json={})
        open_page(seen, server.url)
        seen.has("#runs-list a", 4)
        ends = {id: f"#runs-list a[data-id='{id}'] .end" for id in (failed, running, queued, cancelled)}
        seen.says(ends[failed], "✗error")
        seen.shows(ends[running], "running")
        seen.has(f"{ends[running]} .spinner", 1)
        seen.says(ends[queued], "◷queued")
        seen.says(ends[cancelled], "⊘cancelled")
        colour = "getComputedStyle(document.querySelector(%s)).color"
        colours = {id: seen.page.evaluate(colour % json.dumps(end)) for id, end in ends.items()}
        assert colours[failed] not in [colours[id] for id in (running, queued, cancelled)]
        model.release()


def test_event_stream_is_resumed_after_lost_connections(seen: Seen, server: Serving, model: Model) -> None:
    """Connections end within a message, a line or a character; each event arrives exactly once."""
    relay = Relay(server.url)
    model.hold("is_fruit('kiwi')")
    relay.cuts = [700, 1500, 900, 1237]
    open_page(seen, relay.url)
    id = ask(seen, "How many are fruit? (äöü 🍐 …)", model="openai:m")
    seen.shows("#notice", "Connection lost")
    seen.shows(".chip.pending", "is_fruit('kiwi')")
    assert relay.cuts == [] and relay.reached >= 5
    seen.wait_for("!document.querySelector('#notice').checkVisibility()")
    model.release()
    seen.says("#said", OUTCOME)
    events = server.events(id)
    steps = [event["data"]["number"] for event in events if event["event"] == "step"]
    assert steps == list(range(1, 18))
    seen.says("#where", "17 / 17")
    shown = "[...document.querySelectorAll('.step .number')].map(e => Number(e.textContent))"
    assert seen.page.evaluate(shown) == steps[-len(seen.page.evaluate(shown)) :]
    seen.shows("#facts", "13 Python steps", "4 LM calls", "5 requests")
    relay.close()


def test_server_unavailable_during_a_run(seen: Seen, server: Serving, model: Model) -> None:
    relay = Relay(server.url)
    model.hold("is_fruit('kiwi')")
    open_page(seen, relay.url)
    ask(seen, model="openai:m")
    seen.shows(".chip.pending", "is_fruit('kiwi')")
    relay.is_down = True
    relay.cut()
    seen.shows("#notice", "Connection lost")
    model.release()
    relay.is_down = False
    seen.says("#said", OUTCOME)
    seen.wait_for("!document.querySelector('#notice').checkVisibility()")
    relay.close()


def test_server_unavailable_when_a_run_is_opened(seen: Seen, server: Serving) -> None:
    id = server.begin(QUESTION)
    server.over(id)
    relay = Relay(server.url)
    open_page(seen, relay.url)
    relay.is_down = True
    relay.cut()
    seen.page.evaluate(f"location.hash = 'run={id}'")
    seen.shows("#notice", "Connection lost")
    relay.is_down = False
    seen.says("#said", OUTCOME)
    seen.wait_for("!document.querySelector('#notice').checkVisibility()")
    seen.page.evaluate("location.hash = 'run=000000000000000000000000'")
    seen.says(
        "#notice-text", "No such run: it was deleted, or it belongs to another token."
    )  # this error is permanent: the page does not retry
    relay.close()


# --- tokens and limits --------------------------------------------------------------------------------------------


def test_token_is_requested_and_kept_in_the_tab(seen: Seen, tmp_path: Path) -> None:
    token = "open-sesame-and-more"
    with served(tmp_path, "--token", token, token=token, script=SCRIPT) as server:
        seen.page.goto(server.url)
        seen.page.fill("#token", "wrong")
        seen.page.keyboard.press("Enter")
        seen.shows("#token-title", "Wrong token")
        seen.shows("#token-form", "person who runs the server")
        seen.page.fill("#token", token)
        seen.page.keyboard.press("Enter")
        seen.wait_for("document.querySelectorAll('#method option').length > 1")
        ask(seen)
        seen.says("#said", OUTCOME)  # the request for events carries the token, too
        seen.page.reload()
        seen.says("#said", OUTCOME)
        assert not seen.page.locator("#token-dialog").is_visible()
        seen.page.evaluate("sessionStorage.clear()")
        open_page(seen, f"{server.url}/?token={token}#x")
        assert token not in seen.page.url
        assert all("401" in complaint for complaint in seen.complaints)  # Chromium itself logs failed requests


def test_busy_server_notice_says_when_to_retry(seen: Seen, model: Model, tmp_path: Path) -> None:
    model.hold("is_fruit('apple')")
    with serving(tmp_path, model, "--runs", "1", "--queue", "0") as server:
        server.begin(QUESTION, model="openai")
        open_page(seen, server.url)
        seen.page.fill("#question", "one too many")
        seen.page.click("#send")
        seen.says("#notice-text", "Too many runs are active or waiting. Try again in 5 s.")
        assert seen.page.input_value("#question") == "one too many"
        model.release()


# --- files, figures, history --------------------------------------------------------------------------------------


def test_files_are_uploaded_and_figures_are_shown(seen: Seen, model: Model, tmp_path: Path) -> None:
    if not in_thread(lambda: has_tier("A")):
        pytest.skip("a scratch directory needs tier A")
    with serving(tmp_path, model, "--scratch") as server:
        open_page(seen, server.url)
        dropped = seen.page.evaluate_handle(
            "() => { const data = new DataTransfer(); data.items.add(new File(['x'], 'notes.txt')); return data; }"
        )
        seen.page.dispatch_event("body", "drop", {"dataTransfer": dropped})
        seen.shows("#files", "notes.txt", "1 bytes")
        seen.page.click("#files button")
        seen.has("#files li", 0)
        seen.page.set_input_files("#file", {"name": "sales.csv", "mimeType": "text/csv", "buffer": b"a,b\n1,2\n1,5\n"})
        seen.shows("#files", "sales.csv", "12 bytes")
        ask(seen, "draw the sales")
        seen.says("#said", "7")
        seen.wait_for("document.querySelector('#figures img')?.naturalWidth === 1")
        seen.shows("#left", "plot.png", "fake.png")
        assert seen.page.locator("#figures img").count() == 1  # a file that is not an image is not shown as one
        with seen.page.expect_download() as saved:
            seen.page.click("#left button >> nth=1")
        assert saved.value.suggested_filename in ("plot.png", "fake.png")
        assert seen.complaints == []


def test_history_search_and_keyboard_navigation(seen: Seen, tmp_path: Path) -> None:
    """The search covers all runs, not only the loaded ones."""
    trace = Trace.read(FRUIT)
    questions = ["How many apples?", "Which day?", "How many pears (100%)?", *(f"Filler {n}" for n in range(60))]
    runs = [
        RunRecord(f"{n:024}", "done", text, "coc", None, float(n), answer=OUTCOME) for n, text in enumerate(questions)
    ]
    store_runs(tmp_path, *((run, trace) for run in runs))
    with served(tmp_path) as server:
        open_page(seen, server.url)
        seen.has("#runs-list a", 50)
        seen.shows("#runs-list a >> nth=0", "Filler 59")
        seen.page.evaluate("document.activeElement.blur()")
        seen.page.keyboard.press("/")
        seen.page.keyboard.type("how MANY")
        seen.has("#runs-list a", 2)
        seen.shows("#runs-list a >> nth=0", "pears")
        seen.page.keyboard.press("ArrowDown")
        seen.page.keyboard.press("ArrowDown")
        seen.page.keyboard.press("Enter")
        seen.wait_for(f"location.hash === '#run={runs[0].id}'")
        seen.says("#said", OUTCOME)
        seen.has("#runs-list a[aria-current=page]", 1)
        seen.page.fill("#runs-search", "100%")
        seen.has("#runs-list a", 1)
        seen.page.fill("#runs-search", "filler")
        seen.has("#runs-list a", 50)
        seen.page.click("#runs-more")
        seen.has("#runs-list a", 60)
        seen.page.fill("#runs-search", "nobody asked this")
        seen.says("#runs-none", "No runs.")
        seen.page.fill("#runs-search", "")
        seen.has("#runs-list a", 50)
        assert seen.complaints == []


def test_deleting_a_run_needs_confirmation(seen: Seen, server: Serving, model: Model) -> None:
    model.hold("is_fruit('kiwi')")
    open_page(seen, server.url)
    id = ask(seen, model="openai:m")
    seen.shows(".chip.pending", "is_fruit('kiwi')")
    assert not seen.page.locator("#remove").is_visible()  # it is running
    model.release()
    seen.says("#said", OUTCOME)
    seen.page.locator("#remove").wait_for(state="visible")  # the run is over a moment after its answer
    seen.page.focus("#remove")
    seen.page.keyboard.press("Enter")
    seen.page.keyboard.press("Enter")  # pressed twice quickly: the run is kept
    assert seen.page.evaluate("document.activeElement.id") == "remove" and server.run(id)["state"] == "done"
    seen.page.keyboard.press("Enter")
    seen.shows("#remove-panel", "Delete this run permanently?")
    seen.page.keyboard.press("Escape")
    assert not seen.page.locator("#remove-panel").is_visible()
    seen.page.click("#remove")
    seen.page.click("#remove-yes")
    seen.wait_for("location.hash === '' && document.activeElement.id === 'question'")
    seen.has(f"#runs-list a[data-id='{id}']", 0)
    seen.says("#live", "The run was deleted.")
    seen.shows("#example-note", "An example run")
    assert seen.page.evaluate("document.title") == "chainofcode" and not seen.page.locator("#remove").is_visible()
    assert server.client.get(f"/api/runs/{id}").status_code == 404
    assert seen.complaints == []


def test_switching_runs_replaces_all_content(seen: Seen, server: Serving) -> None:
    ids = []
    for name, value in (("one", 1), ("two", 2)):
        body = {"program": f"answer = describe({name!r})", "inputs": {"given": value}, "model": "scripted"}
        ids.append(server.client.post("/api/runs", json=body).json()["id"])
        server.over(ids[-1])
    for id, name, value in ((ids[0], "one", "1"), (ids[1], "two", "2")):
        if name == "one":
            open_page(seen, f"{server.url}/#run={id}")
        else:
            seen.page.evaluate(f"location.hash = 'run={id}'")
        seen.shows("#inputs", "given", f" = {value}")
        seen.page.click("#calls > summary")
        seen.page.click("#calls-list summary >> nth=0")
        seen.shows("#calls-list", f"describe('{name}')")


# --- what if ------------------------------------------------------------------------------------------------------


def test_own_program_runs_with_values(seen: Seen, server: Serving) -> None:
    open_page(seen, server.url)
    seen.page.click("#mode")
    assert seen.page.evaluate("document.activeElement.id") == "program"
    assert seen.text("#method-text") == ""
    assert not seen.page.locator("#method").is_visible() and seen.text("#send") == "Run"
    seen.page.keyboard.type("answer = [price('a=1'), size(of='b')]")
    seen.page.fill("#values", "# what is known\nprice('a=1') = 2.0\nsize(of='b') = large")
    seen.page.select_option("#model", "")
    seen.page.keyboard.press("Control+Enter")
    seen.shows("#values-fault", "size(of='b') = large", "text in quotes")
    seen.page.fill("#values", "# what is known\nprice('a=1') = 2.0\n\nsize(of='b') = 'large'")
    seen.says("#values-fault", "")
    seen.page.click("#send")
    seen.says("#said", "[2.0, 'large']")
    seen.shows("#runs-list a[aria-current]", "A program")
    id = seen.page.evaluate("new URLSearchParams(location.hash.slice(1)).get('run')")
    assert server.run(id)["model"] is None and server.run(id)["method"] == "run"
    seen.page.focus("#program")
    seen.page.fill("#program", "answer = is_fruit('apple')")
    seen.page.fill("#values", "")
    seen.page.select_option("#model", label="openai:m")
    seen.page.focus("#program")
    seen.page.keyboard.press("Control+Enter")
    seen.says("#said", "True")
    seen.page.focus("#program")
    seen.page.click("#mode")
    assert seen.page.locator("#no-model").count() == 0
    ask(seen)
    seen.says("#said", OUTCOME)
    assert seen.complaints == []


def test_program_field_shrinks_to_one_line_next_to_a_run(seen: Seen, server: Serving) -> None:
    open_page(seen, server.url)
    seen.page.click("#mode")
    seen.page.fill("#program", "\n".join(f"value_{n} = {n}" for n in range(9)) + "\nanswer = value_8")
    seen.page.keyboard.press("Control+Enter")
    seen.says("#said", "8")
    box = "(({clientHeight, scrollTop}, {lineHeight, paddingTop}) => [clientHeight, scrollTop, parseFloat(lineHeight) + 2 * parseFloat(paddingTop)])"
    height, scrolled, one_line = seen.page.evaluate(
        f"{box}(document.querySelector('#program'), getComputedStyle(document.querySelector('#program')))"
    )
    assert scrolled == 0 and height == one_line
    seen.page.focus("#program")
    assert seen.page.locator("#program").bounding_box()["height"] > 5 * one_line


def test_editing_and_rerunning_a_program(seen: Seen, server: Serving) -> None:
    open_page(seen, server.url)
    before = ask(seen)
    seen.says("#said", OUTCOME)
    seen.page.click("#rewrite")
    assert seen.page.input_value(".rewrite textarea").strip() == PROGRAM.strip()
    assert not seen.page.locator("#lines").is_visible()
    seen.page.keyboard.press("Escape")
    assert seen.page.locator("#lines").is_visible() and seen.page.evaluate("document.activeElement.id") == "rewrite"
    seen.page.keyboard.press("Enter")
    seen.page.fill(".rewrite textarea", PROGRAM.replace("{count} of", "all but {len(basket) - count} of"))
    seen.page.keyboard.press("Control+Enter")
    seen.says("#said", "all but 2 of 4 are fruit")
    seen.shows("#was", f"was {OUTCOME}")
    assert seen.page.locator("#lines").is_visible() and seen.page.locator(".rewrite").count() == 0
    after = seen.page.evaluate("new URLSearchParams(location.hash.slice(1)).get('run')")
    assert server.run(after)["parent"] == before
    seen.page.click("#rewrite")
    seen.page.fill(".rewrite textarea", "answer = is_fruit('a pear that nobody asked about')")
    seen.page.click(".rewrite .primary")
    seen.says("#answer-label", "No answer: emulation failed")
    seen.shows("#said", "a pear that nobody asked about")
    assert seen.complaints == []


def test_check_panel_explains_the_verdict(seen: Seen, server: Serving) -> None:
    open_page(seen, server.url)
    ask(seen)
    seen.says("#said", OUTCOME)
    seen.page.click("#check")
    seen.shows("#check-found", "1.00", "The answer follows from the reasoning.", "the same, step for step")
    seen.shows("#check-found", "unchanged", "the program, which computes it", "100% of the work")
    seen.shows("#check-found", "is_fruit('kiwi') = False → 1 of 4 are fruit", "the model")
    assert seen.page.locator("#check").get_attribute("aria-expanded") == "true"
    seen.page.click("#check-close")
    assert not seen.page.locator("#check-panel").is_visible()
    ask(seen, "forty and two?")
    seen.says("#said", "42")
    assert not seen.page.locator("#check-panel").is_visible()
    seen.page.click("#check")
    seen.shows("#check-found", "0.00", "Do not rely on it.", "which only states it")
    seen.shows("#check-found .flags", "constant", "line 1")
    assert seen.complaints == []


def test_check_panel_names_the_decisive_value(seen: Seen, tmp_path: Path) -> None:
    """From the log probabilities of an endpoint to the page and to HTTP clients."""
    shares = {"apple": 0.98, "hammer": 0.004, "kiwi": 0.61, "saw": 0.1}
    script: list[dict[str, Any]] = [rule("fruit?", PROGRAM)]
    for name, share in shares.items():
        completion = truth(share)
        script.insert(
            0, {"when": f"call: is_fruit('{name}')", "reply": completion.text, "logprobs": openai_logprobs(completion)}
        )
    jsonschema = pytest.importorskip("jsonschema", reason="the extra `schema` is not installed")
    message = "The answer depends most on is_fruit('kiwi') → True (line 4, 61% sure): with False it would be"
    with model_endpoint(script) as model, serving(tmp_path, model) as server:
        open_page(seen, server.url)
        id = ask(seen, model="openai:m")
        seen.says("#said", OUTCOME)
        seen.shows("#facts", "least sure value: 61%")
        assert server.run(id)["confidence"] == pytest.approx(0.61)
        seen.page.click("#check")
        seen.shows("#check-found .hangs", message)
        seen.shows("#check-found dd li", "is_fruit('kiwi') = False → 1 of 4 are fruit (now True, 61% sure)")
        verdict = server.client.get(f"/api/runs/{id}/verify").json()
        assert verdict["hangs_on"]["text"].startswith(message)
        assert verdict["hangs_on"]["confidence"] == {"probability": 0.61, "alternatives": {"False": 0.39}}
        components = server.client.get("/openapi.json").json()["components"]
        jsonschema.validate(verdict, {"$ref": "#/components/schemas/Verdict", "components": components})
    assert seen.complaints == []


def test_unneeded_lines_have_their_own_slice(seen: Seen, server: Serving) -> None:
    program = "a = is_fruit('apple')\nb = [a, 1]\nc = 5\nanswer = c * 2"
    id = server.client.post("/api/runs", json={"program": program, "model": "scripted"}).json()["id"]
    server.over(id)
    open_page(seen, f"{server.url}/#run={id}")
    seen.says("#said", "10")
    seen.page.hover(".line[data-line='2'] .source")
    seen.shows("#slice-text", "the answer does not need this", "depends on 2 lines, 1 value of the model")
    seen.page.hover(".line[data-line='4'] .source")
    seen.says("#slice-text", "depends on 2 lines")
    assert seen.complaints == []


def test_unknown_dependencies_are_not_shown_as_unneeded(seen: Seen, server: Serving, model: Model) -> None:
    model.hold("is_fruit('kiwi')")
    body = {"program": "begun = 1\nother = 2\nanswer = is_fruit('kiwi')", "model": "openai"}
    id = server.client.post("/api/runs", json=body).json()["id"]
    open_page(seen, f"{server.url}/#run={id}")
    seen.shows(".line[data-line='2'] .came", "other = 2")
    seen.page.click("#cancel")
    seen.says("#said", "cancelled")
    seen.page.hover(".line[data-line='2'] .source")
    seen.shows("#slice-text", "what it depends on is not known")
    assert seen.page.locator(".lines.slicing").count() == 0
    model.release()


# --- hostile text and accessibility -------------------------------------------------------------------------------


def test_hostile_text_of_a_live_run_stays_text(seen: Seen, server: Serving) -> None:
    open_page(seen, server.url)
    name = "<img src=x onerror=window.__xss=1>.csv"
    seen.page.set_input_files("#file", {"name": name, "mimeType": "text/csv", "buffer": b"a"})
    seen.shows("#files", "onerror", "1 bytes")
    seen.page.set_input_files("#file", {"name": "a\u202eb<svg onload=x>.csv", "mimeType": "text/csv", "buffer": b"a"})
    seen.shows("#notice", "\\u202eb<svg onload=x>.csv")
    ask(seen, f"mischief {ALL_HOSTILE}")
    seen.shows("#asked", "<script>window.__xss=1</script>", "\\u202e")
    seen.shows("#answer-label", "No answer: ")
    seen.page.click("[role=tab] >> nth=0")  # the first attempt
    seen.shows("#then", "onerror")
    seen.page.focus("#question")
    seen.page.click("#mode")
    seen.page.fill("#program", MISCHIEF)
    seen.page.keyboard.press("Control+Enter")
    seen.has("[role=tab]:visible", 0)
    seen.shows("#said", "onerror")
    seen.shows("#output", "onerror")
    seen.page.click(".line .chip >> nth=0")
    seen.page.click("#calls > summary")
    seen.shows("#calls-list", "onerror")
    seen.page.fill("#runs-search", "<script>")
    seen.shows("#runs-list .asked", "<script>")
    assert not seen.page.locator("#check").is_visible()  # there is no answer
    seen.page.click("#rewrite")
    seen.shows(".rewrite", "New calls are answered by")
    seen.complaints = [one for one in seen.complaints if "400" not in one]  # the rejected file name
    assert_harmless(seen, ELEMENTS)


def test_hostile_text_of_a_recorded_run_stays_text(seen: Seen, tmp_path: Path) -> None:
    """A trace that the engine would not write: hostile text even in tools, votes, artifacts and digests."""
    files = [{"name": f"{text}.png", "bytes": 3, "sha256": text} for text in HOSTILE]
    fields = {"answer": ALL_HOSTILE, "reason": ALL_HOSTILE, "artifacts": files}
    run = RunRecord("0" * 24, "done", ALL_HOSTILE.replace("\0", ""), ALL_HOSTILE, ALL_HOSTILE, 1.0, **fields)  # type: ignore[arg-type]
    store_runs(tmp_path, (run, hostile_trace()))
    with served(tmp_path) as server:
        open_page(seen, f"{server.url}/#run={run.id}")
        seen.shows("#said", "onerror")
        seen.shows("#runs-list .end", "script")
        seen.shows("#left", "onerror")
        seen.page.click("[role=tab] >> nth=0")
        seen.shows("#then", "onerror")
        seen.page.click("#check")
        seen.shows("#check-found", ".")
        missing = [complaint for complaint in seen.complaints if "404" in complaint]  # artifacts that were never stored
        seen.complaints = [complaint for complaint in seen.complaints if complaint not in missing]
        assert_harmless(seen, ELEMENTS)


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (768, "dark"), (1280, "light")])
def test_every_view_fits_and_has_labels(browser: Any, server: Serving, width: int, scheme: str) -> None:
    seen = Seen(browser, viewport={"width": width, "height": 740}, color_scheme=scheme)
    open_page(seen, server.url)

    def fits() -> None:
        assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert seen.page.evaluate(UNNAMED) == []

    fits()
    says = "(({scrollWidth, clientWidth}) => scrollWidth <= clientWidth)(document.querySelector('#method-text'))"
    assert seen.text("#method-text").endswith("calls to undefined functions") and seen.page.evaluate(says)
    seen.page.click("#mode")
    fits()
    seen.page.click("#mode")
    ask(seen)
    seen.says("#said", OUTCOME)
    seen.page.click("#check")
    seen.shows("#check-found", "1.00")
    seen.page.click("#remove")
    fits()
    seen.page.click("#rewrite")
    fits()
    assert seen.complaints == []
    seen.context.close()
