"""Calls that a person answers, and runs that are resumed, on the page of a real server in a real browser."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed")

from browsing import HOSTILE, Seen
from serving import Serving, served
from test_page_live import open_page

PROGRAM = """def approve_payment(amount: int) -> bool: ...
def approve_amount(text: str) -> int: ...
paid = approve_payment(10)
answer = approve_amount('how many') + 1 if paid else 0"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    with served(tmp_path) as server:
        yield server


def start_program(seen: Seen, server: Serving, program: str = PROGRAM, ask_me: str = "approve_.*") -> str:
    """Start a program on the page; return the run's id."""
    open_page(seen, server.url)
    seen.page.click("#mode")
    seen.page.fill("#program", program)
    seen.page.fill("#ask-me", ask_me)
    seen.page.select_option("#model", "")
    seen.page.click("#send")
    seen.wait_for("location.hash.includes('run=')")
    return str(seen.page.evaluate("new URLSearchParams(location.hash.slice(1)).get('run')"))


def test_a_person_answers_on_the_page(seen: Seen, server: Serving) -> None:
    id = start_program(seen, server)
    seen.shows("#questions", "approve_payment(10)", "true or false")
    seen.shows("#progress", "waiting for your answer")
    seen.shows("#runs-list a[aria-current] .end", "waiting")
    seen.page.get_by_role("button", name="yes").click()
    seen.shows("#questions", "approve_amount('how many')", "a whole number")
    field = seen.page.locator("#questions input")
    field.fill("several")
    field.press("Enter")
    seen.shows("#questions .fault", "'several' is not a number")
    assert server.run(id)["state"] == "waiting"
    seen.complaints.clear()  # the browser logs the 400
    field.fill("41")
    field.press("Enter")
    seen.says("#said", "42")
    assert not seen.page.locator("#questions").is_visible() and not seen.page.locator("#resume").is_visible()
    assert (server.run(id)["answer"], seen.complaints) == ("42", [])
    steps = seen.page.locator("#steps").inner_text()
    assert steps.count("approve_payment(10)") == 1


def test_question_answered_elsewhere_disappears(seen: Seen, server: Serving) -> None:
    id = start_program(seen, server, "answer = approve(1)", "approve")
    seen.shows("#questions", "approve(1)")
    (question,) = server.client.get("/api/questions", params={"run": id}).json()["questions"]
    assert server.client.post(f"/api/questions/{question['id']}", json={"value": "done"}).status_code == 202
    seen.says("#said", "done")
    assert not seen.page.locator("#questions").is_visible()


def test_question_survives_a_restart_of_the_server(seen: Seen, tmp_path: Path) -> None:
    with served(tmp_path) as server:
        id = start_program(seen, server, "answer = approve(1)", "approve")
        seen.shows("#questions", "approve(1)")
        server.stop(signal.SIGKILL)
    with served(tmp_path) as server:
        seen.page.goto("about:blank")
        seen.complaints.clear()  # the server was unavailable for a while
        seen.page.goto(f"{server.url}/#run={id}")
        seen.page.locator("#questions input").fill("seven")
        seen.page.get_by_role("button", name="Answer").click()
        seen.says("#said", "seven")
        assert seen.complaints == []


def test_a_hostile_call_stays_text(seen: Seen, server: Serving) -> None:
    hostile = [text for text in HOSTILE if "\0" not in text]
    start_program(seen, server, f"answer = approve({hostile!r})", "approve")
    seen.shows("#questions", "<script>window.__xss=1</script>")
    assert seen.page.evaluate("window.__xss") is None
    assert seen.complaints == []


def test_cancelled_run_can_be_resumed(seen: Seen, server: Serving) -> None:
    id = start_program(seen, server, "answer = approve(1)", "approve")
    seen.shows("#questions", "approve(1)")
    seen.page.click("#cancel")
    seen.shows("#facts, #said", "cancelled")
    seen.page.click("#resume")
    seen.shows("#questions", "approve(1)")
    assert server.until(id, "waiting")["resumed"] == 1
    seen.page.locator("#questions input").fill("8")
    seen.page.keyboard.press("Enter")
    seen.says("#said", "8")
    assert seen.complaints == []
