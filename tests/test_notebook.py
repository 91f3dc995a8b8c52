"""Notebooks, with IPython's shell: the cell magic, its inputs and results, and how results are displayed."""

from __future__ import annotations

import asyncio
import html.parser
import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chainofcode import InputError, Result, ScriptedLM, Trace, run, solve

pytest.importorskip("IPython")

from IPython.core.interactiveshell import InteractiveShell


@pytest.fixture
def shell() -> Iterator[Any]:
    made = InteractiveShell()
    made.run_line_magic("load_ext", "chainofcode.notebook")
    yield made
    made.run_line_magic("unload_ext", "chainofcode.notebook")
    assert "coc" not in made.magics_manager.magics["cell"]


@pytest.fixture
def model(tmp_path: Path) -> str:
    rules = [
        {"when": "How many", "reply": "```python\nanswer = sum(is_fruit(x) for x in things)\n```"},
        {"when": "is_fruit('fig')", "reply": "true"},
        {"when": "is_fruit('saw')", "reply": "false"},
    ]
    (tmp_path / "script.jsonl").write_text("".join(json.dumps(rule) + "\n" for rule in rules))
    return f"scripted:{tmp_path / 'script.jsonl'}"


def test_cell_with_a_question(shell: Any, model: str) -> None:
    shell.user_ns["things"] = ["fig", "saw"]
    result = shell.run_cell(f"%%coc --model {model} --input things --type int\nHow many are fruit?").result
    assert isinstance(result, Result)
    assert shell.user_ns["answer"] == 1
    assert shell.user_ns["_coc"] is result


def test_program_reads_variables_of_the_notebook(shell: Any, model: str) -> None:
    shell.run_cell("things, other, f, answer = ['fig'], {1, 2}, print, 7")
    result = shell.run_cell(f"%%coc --program --model {model}\nanswer = [len(other), *map(is_fruit, things)]").result
    assert result.answer == shell.user_ns["answer"] == [2, True]
    assert sorted(result.trace.inputs) == ["other", "things"]
    again = shell.run_cell("%%coc --program\nanswer = things * 2").result  # no model is needed
    assert again.answer == ["fig", "fig"]


def test_failed_cell_sets_answer_to_none(shell: Any) -> None:
    shell.run_cell("%%coc --program\nanswer = 1")
    assert shell.user_ns["answer"] == 1
    result = shell.run_cell("%%coc --program\nanswer = 1 / 0").result
    assert result.reason == "error"
    assert shell.user_ns["answer"] is None
    assert shell.user_ns["_coc"] is result


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--program --input nope", "there is no variable 'nope'"),
        ("--program --input thing", "a value of type object"),
        ("--bogus", "unrecognized arguments"),
        ("--program --model nope", "unknown model 'nope'"),
        ("--model scripted:/dev/null --method magic", "unknown method"),
        ("--model scripted:/dev/null --type magic", "unknown answer type"),
    ],
)
def test_invalid_options(shell: Any, line: str, message: str) -> None:
    shell.user_ns["thing"] = object()
    done = shell.run_cell(f"%%coc {line}\nanswer = 1")
    error = done.error_in_exec or done.error_before_exec
    assert message in str(error)
    assert shell.user_ns.get("answer") is None


def test_cell_in_a_running_event_loop(shell: Any) -> None:
    async def main() -> None:
        assert shell.run_cell("%%coc --program\nanswer = 6 * 7").result.answer == 42

    asyncio.run(main())


def test_an_interrupt_ends_the_program(shell: Any) -> None:
    main = threading.main_thread().ident or 0
    threading.Timer(2, signal.pthread_kill, (main, signal.SIGINT)).start()
    started = time.monotonic()
    done = shell.run_cell("%%coc --program\nwhile True: pass")
    assert isinstance(done.error_in_exec, KeyboardInterrupt)
    assert time.monotonic() - started < 20
    assert shell.run_cell("%%coc --program\nanswer = 1").result.answer == 1


# --- how results are displayed ------------------------------------------------------------------------------------


class Tags(html.parser.HTMLParser):
    """The elements, attributes and text of an HTML fragment; checks that all elements are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


HOSTILE = "<script>alert(1)</script><img src=x onerror='x'>\"'&\x1b[2J"


def shown(trace: Trace | Result) -> Tags:
    tags = Tags(trace._repr_html_())
    assert tags.names <= {"div", "details", "summary", "table", "tr", "td", "span"}
    assert tags.attributes <= {"style", "open", "colspan"}
    assert "\x1b" not in tags.text
    return tags


def test_results_and_traces_have_html() -> None:
    result = run(
        "n = 0\nfor x in ['fig']:\n    n += is_fruit(x)\nprint('hello')\nanswer = n", {"is_fruit('fig')": True}
    )
    assert result._repr_html_() == result.trace._repr_html_()
    text = shown(result).text
    assert text.startswith("answer: 1")
    assert "is_fruit('fig') → True" in text
    assert "5 Python steps" in text and "1 LM call" in text and "hello" in text
    assert repr(result.trace) == f"<Trace answered: {len(result.trace.steps)} steps, 1 LM calls>"
    style = result._repr_html_()
    assert "color:inherit" in style and "color:#" not in style  # readable on light and dark pages


def test_all_text_is_escaped_in_html() -> None:
    program = f"x = say()\nprint(x)\nanswer = x + {HOSTILE!r}  # {HOSTILE[:40]}"
    text = shown(run(program, lambda pause: HOSTILE)).text
    assert "<script>alert(1)</script>" in text
    assert "<script>" in shown(run(f"raise ValueError({HOSTILE!r})")).text
    lm = ScriptedLM(lambda messages: f"```python\nraise ValueError({HOSTILE!r})\n```")
    shown(solve("?", lm))
    shown(Trace())


def test_long_traces_are_truncated() -> None:
    result = run("n = 0\n" + "n += 1\n" * 500 + "answer = 'x' * 100000")
    assert len(result._repr_html_()) < 300_000
    assert "302 more steps" in shown(result).text


def test_ipython_displays_html_and_text(shell: Any) -> None:
    result = run("answer = 1")
    data, _ = shell.display_formatter.format(result)
    assert data["text/html"] == result._repr_html_()
    assert data["text/plain"].startswith("<Result answered")


def test_cells_class_outside_a_notebook() -> None:
    from chainofcode.notebook import Cells

    variables: dict[str, Any] = {}
    cells = Cells(variables)
    with pytest.raises(InputError, match="the cell is empty"):
        cells.coc("", " ")
    assert cells.coc("--program --sandbox none", "answer = 2").answer == variables["answer"] == 2
    cells.close()


def test_run_and_solve_work_inside_a_running_event_loop() -> None:
    """As in a cell of Jupyter, where an event loop is running; errors reach the caller."""

    async def cell() -> tuple[Any, Any]:
        lm = ScriptedLM(["```python\nanswer = int('6') * 7\n```"])
        with pytest.raises(InputError):
            solve("How many?", lm, method="none of them")
        return run("answer = 40 + 2").answer, solve("How many?", lm).answer

    assert asyncio.run(cell()) == (42, 42)


def test_user_errors_are_one_line(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("%%coc --program --input missing\nanswer = missing")
    output = capsys.readouterr()
    lines = [line for line in (output.out + output.err).splitlines() if line.strip()]
    assert len(lines) == 1 and lines[0].startswith("InputError: "), lines


def test_jupyter_kernel_runs_programs_and_shortens_errors(tmp_path: Path) -> None:
    """In Jupyter's kernel, whose event loop is running while a cell runs."""
    manager = pytest.importorskip("jupyter_client.manager", reason="jupyter_client is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    kernel, client = manager.start_new_kernel(kernel_name="python3", startup_timeout=120, cwd=str(tmp_path))

    def cell(code: str) -> tuple[dict[str, Any], str]:
        shown: list[str] = []

        def take(message: dict[str, Any]) -> None:
            content = message["content"]
            shown.append(content.get("text", "") or content.get("data", {}).get("text/plain", ""))
            shown.extend(content.get("traceback", ()))

        reply = client.execute_interactive(code, timeout=120, output_hook=take)
        return reply["content"], "".join(shown)

    try:
        cell("import asyncio\nfrom chainofcode import run")
        assert cell("asyncio.get_running_loop().is_running()")[1] == "True"
        assert cell("run('answer = 40 + 2').answer")[1] == "42"
        assert cell("%load_ext chainofcode.notebook")[0]["status"] == "ok"
        assert cell("%%coc --program\nanswer = 6 * 7")[0]["status"] == "ok"
        output = cell("%%coc --program --input missing\nanswer = missing")[1]
        lines = [line for line in output.splitlines() if line.strip()]
        assert len(lines) == 1 and "InputError" in lines[0], lines
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
