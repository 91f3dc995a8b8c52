"""Tools on the command line: which they are, who approves of their use, and what a person sees of it."""

from __future__ import annotations

import json
import os
import pty
import re
import select
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
    ("tool", "told"),
    [
        ("shop", "--tool must be MODULE:FUNCTION"),
        ("shop:", "--tool must be MODULE:FUNCTION"),
        (":send", "--tool must be MODULE:FUNCTION"),
        ("shop:a.b", "--tool must be MODULE:FUNCTION"),
        ("shp:send", "no module named 'shp' in the working directory or installed"),
        ("shop.more:send", "no module named 'shop.more'"),
        ("shop:snd", "has no snd; did you mean send?"),
        ("shop:stock", "a tool is a function, not 3"),
        ("failing:f", "cannot import failing: SystemExit: no"),
        ("needy:f", "cannot import needy: ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("os:open", "'open': that is a builtin"),
    ],
)
def test_a_tool_that_is_none(shop: Path, tool: str, told: str) -> None:
    for command in (["run", "p.py"], ["ask", "What?", "--model", "scripted:script.jsonl"]):
        done = coc(*command, "--tool", tool, cwd=shop)
        assert done.returncode == 2
        assert told in done.stderr


def test_run(shop: Path) -> None:
    done = coc("run", "p.py", *TOOLS, "--approve", "never", cwd=shop)
    assert done.stdout.startswith("answer: 4.5\n"), done
    assert re.search(r"1  tl  total = price\('fig'\) +price\('fig'\) → 1.5", done.stdout)
    assert sent(shop) == ["Ann"]
    assert done.stderr == ""


def test_run_many(shop: Path) -> None:
    records = [{"id": n, "program": PROGRAM} for n in range(3)]
    (shop / "p.jsonl").write_text("\n".join(map(json.dumps, records)))
    done = coc("run", "p.jsonl", *TOOLS, "--approve", "never", cwd=shop)
    assert [json.loads(line)["value"] for line in done.stdout.splitlines()] == [4.5] * 3
    assert sent(shop) == ["Ann"] * 3


def test_where_nobody_can_be_asked_it_is_refused(shop: Path) -> None:
    done = coc("run", "p.py", *TOOLS, cwd=shop)
    assert done.returncode == 1
    assert "line 2: ToolError: send was not approved: there is no terminal to ask on" in done.stdout
    assert "price('fig') → 1.5" in done.stdout
    assert "--approve never" in done.stderr
    assert sent(shop) == []
    (shop / "p.py").write_text("try: send('Ann')\nexcept Exception as e: answer = str(e)")
    done = coc("run", "p.py", *TOOLS, cwd=shop)
    assert done.stdout.startswith("answer: 'send was not approved")  # the program's to handle
    assert "--approve never" in done.stderr
    assert sent(shop) == []


def test_always_asks_about_read_only_tools_too(shop: Path) -> None:
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


def in_terminal(shop: Path, *arguments: str, typed: list[tuple[str, str]]) -> tuple[int, str]:
    """Run in a pseudo-terminal, typing each text when its prompt is there; what was drawn, and the exit code."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(shop)
        os.environ.update(TERM="xterm", COLUMNS="100", LINES="30")
        os.execv(sys.executable, [*COC, *arguments])
    drawn, seen, started, left = b"", 0, time.monotonic(), list(typed)
    while time.monotonic() - started < 60:
        if left and left[0][0] in drawn[seen:].decode(errors="replace"):
            seen = len(drawn)
            time.sleep(0.3)  # whatever still wants to draw over the prompt has the time to
            os.write(fd, left.pop(0)[1].encode())
        if select.select([fd], [], [], 0.1)[0]:
            try:
                data = os.read(fd, 65536)
            except OSError:
                break
            if not data:
                break
            drawn += data
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    assert not left, drawn.decode()
    return os.waitstatus_to_exitcode(status), drawn.decode()


ASKED = "coc: the program wants to call send('Ann') — allow? [y/N] "
ASK = ("ask", "What?", "--model", "scripted:script.jsonl", *TOOLS, "--repairs", "0", "--no-fallback")


@pytest.mark.parametrize("command", [("run", "p.py", *TOOLS), ASK], ids=["run", "ask"])
def test_yes(shop: Path, command: tuple[str, ...]) -> None:
    code, drawn = in_terminal(shop, *command, typed=[(ASKED, "y\n")])
    assert code == 0, drawn
    assert drawn.count(ASKED) == 1
    assert "price('fig') — allow" not in drawn
    assert sent(shop) == ["Ann"]


@pytest.mark.parametrize("typed", ["n\n", "\n", "\x04", "why?\n"])
def test_anything_else_is_no(shop: Path, typed: str) -> None:
    code, drawn = in_terminal(shop, *ASK, typed=[(ASKED, typed)])
    assert code == 1, drawn
    assert "send was not approved" in drawn
    assert "--approve never" not in drawn
    assert sent(shop) == []


def test_nothing_is_drawn_over_the_question(shop: Path) -> None:
    _, drawn = in_terminal(shop, *ASK, typed=[(ASKED, "y\n")])
    before, _, after = drawn.partition(ASKED)
    assert before.endswith("\x1b[J")  # what was drawn is gone
    assert after.startswith("y\r\n")  # and nothing came in between
    assert "send('Ann') → 3" in after


def test_what_was_typed_before_is_no_answer(shop: Path) -> None:
    price = "price('fig') — allow? [y/N] "
    (shop / "p.py").write_text("x = price('fig')\n" + PROGRAM)
    always = ("run", "p.py", *TOOLS, "--approve", "always")
    code, drawn = in_terminal(shop, *always, typed=[(price, "y\ny\ny\n"), (price, "n\n")])
    assert code == 1, drawn
    assert sent(shop) == []


def test_what_was_refused_is_not_asked_for_again(shop: Path) -> None:
    (shop / "p.py").write_text("for _ in range(3):\n    try: send('Ann')\n    except Exception as e: answer = str(e)")
    code, drawn = in_terminal(shop, "run", "p.py", *TOOLS, typed=[(ASKED, "n\n")])
    assert code == 0
    assert drawn.count(ASKED) == 1
    assert sent(shop) == []


def test_a_call_cannot_paint_over_the_question(shop: Path) -> None:
    (shop / "p.py").write_text("answer = send('\\x1b[2J\\r\\u202eBob' + 'x' * 9000)")
    shown = "x" * 900 + "') — allow? [y/N] "
    code, drawn = in_terminal(shop, "run", "p.py", *TOOLS, typed=[(shown, "n\n")])
    assert code == 1
    question = drawn.partition("allow?")[0]
    assert "\\x1b[2J\\r\\u202eBob" in question
    assert "\x1b" not in question
    assert "more characters" in question


def test_all_of_a_long_call_can_be_seen_before_it_is_allowed(shop: Path) -> None:
    (shop / "p.py").write_text("answer = send('x' * 4000 + '; rm -rf /' + 'x' * 4000)")
    end = "') — allow? [y/N] "
    code, drawn = in_terminal(shop, "run", "p.py", *TOOLS, typed=[(end, "all\n"), (end, "n\n")])
    assert code == 1
    shortened, _, whole = drawn.partition("all\r\n")
    assert "answer `all` to see it in full" in shortened and "rm -rf" not in shortened
    assert "x; rm -rf /x" in whole.replace("\r\n", "")
    assert sent(shop) == []


def test_interrupting_the_question(shop: Path) -> None:
    code, drawn = in_terminal(shop, *ASK, typed=[(ASKED, "\x03")])
    assert code == 130
    assert "coc: interrupted" in drawn
    assert "Traceback" not in drawn
    assert sent(shop) == []
