"""Tools on the command line: how they are named, how their calls are approved, and what the user sees."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import sys
import time
from pathlib import Path

import pytest
from test_cli import COC, coc

SHOP = '''
import pathlib
from chainofcode.emulator import read_only

LOG = pathlib.Path(__file__).with_name("sent")

def send(to: str) -> int:
    """Send a message."""
    with LOG.open("a") as log:
        log.write(to + "\\n")
    return len(to)

@read_only
def price(item: str) -> float:
    return 1.5

stock = 3
'''
PROGRAM = "total = price('fig')\nn = send('Ann')\nanswer = n + total\n"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "p.py").write_text(PROGRAM)
    (tmp_path / "failing.py").write_text("raise SystemExit('no')")
    (tmp_path / "needy.py").write_text("import nowhere_to_be_found")
    (tmp_path / "script.jsonl").write_text(json.dumps(f"```python\n{PROGRAM}```"))
    return tmp_path


TOOLS = ("--tool", "shop:send", "--tool", "shop:price")


def sent(shop: Path) -> list[str]:
    return (shop / "sent").read_text().split() if (shop / "sent").exists() else []


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        ("shop", "--tool must be MODULE:FUNCTION"),
        ("shop:", "--tool must be MODULE:FUNCTION"),
        (":send", "--tool must be MODULE:FUNCTION"),
        ("shop:a.b", "--tool must be MODULE:FUNCTION"),
        ("shp:send", "no module named 'shp' in the working directory or installed"),
        ("shop.more:send", "no module named 'shop.more'"),
        ("shop:snd", "has no snd; did you mean send?"),
        ("shop:stock", "a tool must be a function, not 3"),
        ("failing:f", "cannot import failing: SystemExit: no"),
        ("needy:f", "cannot import needy: ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("os:open", "'open': that is a builtin"),
    ],
)
def test_invalid_tools(shop: Path, tool: str, message: str) -> None:
    for command in (["run", "p.py"], ["ask", "What?", "--model", "scripted:script.jsonl"]):
        done = coc(*command, "--tool", tool, cwd=shop)
        assert done.returncode == 2
        assert message in done.stderr


def test_run_calls_tools(shop: Path) -> None:
    done = coc("run", "p.py", *TOOLS, "--approve", "never", cwd=shop)
    assert done.stdout.startswith("answer: 4.5\n"), done
    assert re.search(r"1  tl  total = price\('fig'\) +price\('fig'\) → 1.5", done.stdout)
    assert sent(shop) == ["Ann"]
    assert done.stderr == ""


def test_each_record_calls_its_tools(shop: Path) -> None:
    records = [{"id": n, "program": PROGRAM} for n in range(3)]
    (shop / "p.jsonl").write_text("\n".join(map(json.dumps, records)))
    done = coc("run", "p.jsonl", *TOOLS, "--approve", "never", cwd=shop)
    assert [json.loads(line)["value"] for line in done.stdout.splitlines()] == [4.5] * 3
    assert sent(shop) == ["Ann"] * 3


def test_calls_are_refused_without_a_terminal(shop: Path) -> None:
    done = coc("run", "p.py", *TOOLS, cwd=shop)
    assert done.returncode == 1
    assert "line 2: ToolError: send was not approved: there is no terminal to ask on" in done.stdout
    assert "price('fig') → 1.5" in done.stdout
    assert "--approve never" in done.stderr
    assert sent(shop) == []
    (shop / "p.py").write_text("try: send('Ann')\nexcept Exception as e: answer = str(e)")
    done = coc("run", "p.py", *TOOLS, cwd=shop)
    assert done.stdout.startswith("answer: 'send was not approved")  # the program can handle the error
    assert "--approve never" in done.stderr
    assert sent(shop) == []


def test_always_includes_read_only_tools(shop: Path) -> None:
    done = coc("run", "p.py", *TOOLS, "--approve", "always", cwd=shop)
    assert "price was not approved" in done.stdout


def test_ask(shop: Path) -> None:
    arguments = ("ask", "What?", "--model", "scripted:script.jsonl", *TOOLS, "--repairs", "0", "--no-fallback")
    done = coc(*arguments, "--approve", "never", "--quiet", cwd=shop)
    assert done.stdout == "4.5\n", done.stderr
    done = coc(*arguments, cwd=shop)
    assert done.returncode == 1
    assert "--approve never" in done.stderr
    assert sent(shop) == ["Ann"]


# --- a terminal ---------------------------------------------------------------------------------------------------


def in_terminal(shop: Path, *arguments: str, typed: list[tuple[str, str]], seconds: float = 0.3) -> tuple[int, str]:
    """Run in a pseudo-terminal, typing each text this long after its prompt; return the exit code and the output."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(shop)
        os.environ.update(TERM="xterm", COLUMNS="100", LINES="30")
        os.execv(sys.executable, [*COC, *arguments])
    drawn, seen, started, left = b"", 0, time.monotonic(), list(typed)
    while time.monotonic() - started < 60:
        shown = drawn[seen:].decode(errors="replace")
        reply = next((entry for entry in left if entry[0] in shown), None)
        if reply is not None:
            seen = len(drawn)
            time.sleep(seconds)  # leave time for anything that would draw over the prompt
            os.write(fd, reply[1].encode())
            left.remove(reply)
        if select.select([fd], [], [], 0.1)[0]:
            try:
                data = os.read(fd, 65536)
            except OSError:
                break
            if not data:
                break
            drawn += data
    else:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    assert not left, drawn.decode()
    return os.waitstatus_to_exitcode(status), drawn.decode()


PROMPT = "coc: the program wants to call send('Ann') — allow? [y/N] "
ASK = ("ask", "What?", "--model", "scripted:script.jsonl", *TOOLS, "--repairs", "0", "--no-fallback")


@pytest.mark.parametrize("command", [("run", "p.py", *TOOLS), ASK], ids=["run", "ask"])
def test_call_is_made_after_approval(shop: Path, command: tuple[str, ...]) -> None:
    code, drawn = in_terminal(shop, *command, typed=[(PROMPT, "y\n")])
    assert code == 0, drawn
    assert drawn.count(PROMPT) == 1
    assert "price('fig') — allow" not in drawn
    assert sent(shop) == ["Ann"]


@pytest.mark.parametrize(
    ("options", "prompt", "typed"),
    [((), PROMPT, "y\n"), (("--ask-me", "weight"), "weight('Ann') = ? (a number) ", "3\n")],
    ids=["approval", "value"],
)
def test_time_that_a_person_takes_does_not_count(shop: Path, options: tuple[str, ...], prompt: str, typed: str) -> None:
    program = "n = send('Ann')" if not options else "n = 1 * weight('Ann')"
    (shop / "script.jsonl").write_text(json.dumps(f"```python\n{program}\nanswer = n + 1\n```"))
    code, drawn = in_terminal(shop, *ASK, *options, "--method-seconds", "3", typed=[(prompt, typed)], seconds=4)
    assert code == 0, drawn
    assert "4\r" in re.split("\x1b\\[J|\n", drawn)


def test_votes_ask_a_person_one_after_another(shop: Path) -> None:
    replies = [f"```python\nanswer = 0 * weight('{name}') + 7\n```" for name in "ab"]
    (shop / "script.jsonl").write_text("\n".join(map(json.dumps, replies)))
    typed = [("') = ? (a number) ", "3\n")] * 2  # in either order
    options = ("--repairs", "0", "--no-fallback", "--votes", "2", "--ask-me", "weight", "--method-seconds", "3")
    code, drawn = in_terminal(shop, *ASK[:4], *options, typed=typed, seconds=2)
    assert code == 0, drawn
    assert "7\r" in re.split("\x1b\\[J|\n", drawn)


def test_approvals_and_values_are_requested_one_after_another(shop: Path) -> None:
    replies = [f"```python\nanswer = 0 * {call} + 7\n```" for call in ("weight('a')", "price('b')")]
    (shop / "script.jsonl").write_text("\n".join(map(json.dumps, replies)))
    typed = [("weight('a') = ? (a number) ", "3\n"), ("price('b') — allow? [y/N] ", "y\n")]
    options = ("--tool", "shop:price", "--approve", "always", "--votes", "2", "--ask-me", "weight")
    code, drawn = in_terminal(shop, *ASK[:4], *options, "--repairs", "0", "--no-fallback", typed=typed, seconds=1)
    assert code == 0, drawn
    assert "7\r" in re.split("\x1b\\[J|\n", drawn)


@pytest.mark.parametrize("typed", ["n\n", "\n", "\x04", "why?\n"])
def test_any_other_reply_refuses_the_call(shop: Path, typed: str) -> None:
    code, drawn = in_terminal(shop, *ASK, typed=[(PROMPT, typed)])
    assert code == 1, drawn
    assert "send was not approved" in drawn
    assert "--approve never" not in drawn
    assert sent(shop) == []


def test_nothing_is_drawn_over_the_prompt(shop: Path) -> None:
    _, drawn = in_terminal(shop, *ASK, typed=[(PROMPT, "y\n")])
    before, _, after = drawn.partition(PROMPT)
    assert before.endswith("\x1b[J")  # the live display is erased
    assert after.startswith("y\r\n")  # and nothing was drawn after the prompt
    assert "send('Ann') → 3" in after


def test_input_typed_before_the_prompt_is_ignored(shop: Path) -> None:
    price = "price('fig') — allow? [y/N] "
    (shop / "p.py").write_text("x = price('fig')\n" + PROGRAM)
    always = ("run", "p.py", *TOOLS, "--approve", "always")
    code, drawn = in_terminal(shop, *always, typed=[(price, "y\ny\ny\n"), (price, "n\n")])
    assert code == 1, drawn
    assert sent(shop) == []


def test_user_is_not_asked_again_about_a_refused_call(shop: Path) -> None:
    (shop / "p.py").write_text("for _ in range(3):\n    try: send('Ann')\n    except Exception as e: answer = str(e)")
    code, drawn = in_terminal(shop, "run", "p.py", *TOOLS, typed=[(PROMPT, "n\n")])
    assert code == 0
    assert drawn.count(PROMPT) == 1
    assert sent(shop) == []


def test_call_cannot_draw_over_the_prompt(shop: Path) -> None:
    (shop / "p.py").write_text("answer = send('\\x1b[2J\\r\\u202eBob' + 'x' * 9000)")
    shown = "x" * 900 + "') — allow? [y/N] "
    code, drawn = in_terminal(shop, "run", "p.py", *TOOLS, typed=[(shown, "n\n")])
    assert code == 1
    question = drawn.partition("allow?")[0].rpartition("\x1b[J")[2]  # without the live display
    assert "\\x1b[2J\\r\\u202eBob" in question
    assert "\x1b" not in question
    assert "more characters" in question


def test_long_call_can_be_shown_in_full_before_approval(shop: Path) -> None:
    (shop / "p.py").write_text("answer = send('x' * 4000 + '; rm -rf /' + 'x' * 4000)")
    end = "') — allow? [y/N] "
    code, drawn = in_terminal(shop, "run", "p.py", *TOOLS, typed=[(end, "all\n"), (end, "n\n")])
    assert code == 1
    shortened, _, whole = drawn.partition("all\r\n")
    shortened = shortened.rpartition("\x1b[J")[2]  # without the live display
    assert "answer `all` to see it in full" in shortened and "rm -rf" not in shortened
    assert "x; rm -rf /x" in whole.replace("\r\n", "")
    assert sent(shop) == []


def test_interrupting_the_prompt_makes_no_call(shop: Path) -> None:
    code, drawn = in_terminal(shop, *ASK, typed=[(PROMPT, "\x03")])
    assert code == 130
    assert "coc: interrupted" in drawn
    assert "Traceback" not in drawn
    assert sent(shop) == []
