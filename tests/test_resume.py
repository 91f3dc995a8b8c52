"""Resumed runs: after an interruption, a kill or a limit, no request and no tool call is repeated, no value is lost."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from endpoint import Endpoint, Server
from test_cli import COC, coc

from chainofcode import LM, Completion, InputError, Message, Trace, Usage, arun, ask, execute, run
from chainofcode.audit import replay
from chainofcode.audit.replay.resume import Resumed
from chainofcode.emulator import Table, Toolbox
from chainofcode.emulator.person import AskMe, Question
from chainofcode.engine import Result, execute_program
from chainofcode.engine.journal import Journal, journal_of, read_interrupted
from chainofcode.lm.wrappers import Batched, Budgeted
from chainofcode.trace import Answer, Call, Event, Step

PROGRAM = "answer = sum(bool(is_good(n)) for n in range(200))"
QUESTION = "How many of the numbers are good?"


class Model(LM):
    """Writes the program and answers its calls; hangs after `most` requests."""

    name, in_flight = "model", 8

    def __init__(self, most: int = 10**6) -> None:
        self.prompts, self._most = list[str](), most

    async def complete(self, messages: Sequence[Message], n: int = 1, **options: Any) -> list[Completion]:
        last = messages[-1].content
        if len(self.prompts) >= self._most:
            await asyncio.sleep(60)
        self.prompts.append(last)
        await asyncio.sleep(0)
        if "delta state:" not in last:
            return [Completion(f"```python\n{PROGRAM}\n```", Usage(requests=1, prompt_tokens=10))] * n
        calls = [line.partition(": ")[2] for line in last.split("\n") if line.startswith("call")]
        keys = ["value"] if "\ncall: " in f"\n{last}" else [str(number) for number in range(1, len(calls) + 1)]
        values = {key: int(call[8:-1]) % 2 == 0 for key, call in zip(keys, calls, strict=True)}
        return [Completion(json.dumps(values), Usage(requests=1, prompt_tokens=5))] * n


async def until(events: Any, *, calls: int) -> list[Event]:
    """Collect the events of a run until it has `calls` values; then abandon it, as a kill would."""
    seen: list[Event] = []

    async def collect() -> None:
        async for event in events:
            seen.append(event)
            if sum(len(one.answers) for one in seen if isinstance(one, Call)) >= calls:
                return

    await asyncio.wait_for(collect(), 60)
    return seen


def resumed_run(trace: Trace, lm: LM, **options: Any) -> Result:
    resumed = Resumed(trace)
    assert resumed.program is not None
    chosen = resumed.options(Toolbox.of(options.pop("tools", ())))

    async def collect() -> Result:
        assert resumed.program is not None
        events = execute_program(resumed.program, lm, "auto", chosen)
        return Result.of([trace.header, *[event async for event in events]])

    return asyncio.run(collect())


# --- requests -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 8], ids=["one by one", "in rows"])
def test_only_missing_values_are_requested(rows: int) -> None:
    lm = Model()
    events = asyncio.run(until(execute(PROGRAM, Batched(lm, rows)), calls=150))
    trace = Trace.of(events)
    values = {text for call in trace.calls for text in call.answers}
    assert len(values) >= 150
    rest = Model()
    result = resumed_run(trace, rest)
    assert result.answer == 100
    assert len(rest.prompts) == 200 - len(values)
    assert replay(result.trace).is_same
    assert result.usage.requests == len(trace.calls) + len(rest.prompts)  # as if it had not been interrupted


def test_program_is_not_requested_again() -> None:
    lm = Model()
    trace = Trace.of(asyncio.run(until(ask(QUESTION, lm), calls=150)))
    known = {text for call in trace.calls for text in call.answers}
    resumed, rest = Resumed(trace), Model()
    assert resumed.program is None

    async def collect() -> list[Event]:
        options = resumed.options(Toolbox.of(()))
        return [event async for event in ask(resumed.question, resumed.model(rest), emulator=rest, options=options)]

    result = Result.of(asyncio.run(collect()))
    assert (result.answer, len(rest.prompts)) == (100, 200 - len(known))
    assert all("delta state:" in prompt for prompt in rest.prompts)
    assert replay(result.trace).is_same


def test_a_spent_budget_and_a_limit_are_resumed() -> None:
    lm = Model()
    first = asyncio.run(arun(PROGRAM, Budgeted(lm, calls=60), in_flight=1))
    assert (first.reason, len(lm.prompts)) == ("limit:calls", 60)
    result = resumed_run(first.trace, lm)
    assert (result.answer, len(lm.prompts)) == (100, 200)


def test_statements_and_repeated_calls_keep_their_values() -> None:
    program = "answer = [str(next_word('x')) for _ in range(4)]"
    whole = asyncio.run(arun(program, Table([("next_word('x')", w) for w in "abcd"]), share=False))
    steps = [event for event in whole.trace.events if isinstance(event, Step)]
    events = [e for e in whole.trace.events if not isinstance(e, Answer) and e not in steps[2:]]
    trace = Trace(None, {}, whole.trace.settings, events)
    assert resumed_run(trace, Table([("next_word('x')", w) for w in "yz"])).answer == ["a", "b", "y", "z"]


# --- tools --------------------------------------------------------------------------------------------------------


def test_tools_with_effects_are_not_called_again() -> None:
    done: list[str] = []

    def send(text: str) -> int:
        """Send a message."""
        done.append(text)
        return len(done)

    program = "first = send('a')\nsecond = send('b')\nanswer = [first, second, bool(is_good(2))]"

    async def begin() -> list[Event]:
        return await until(execute(program, Model(), tools=[send]), calls=3)

    trace = Trace.of(asyncio.run(begin()))
    result = resumed_run(trace, Model(), tools=[send])
    assert (result.answer, done) == ([1, 2, True], ["a", "b"])
    with pytest.raises(InputError, match="the run had the tool 'send': grant it again"):
        Resumed(trace).options(Toolbox.of(()))


def test_a_tool_that_was_under_way_is_not_called_again(tmp_path: Path) -> None:
    """Its outcome is unknown: the program gets an error that says so, and can handle it."""
    journal = Journal(tmp_path / "t.jsonl")
    done: list[str] = []

    def send(text: str) -> None:
        """Send a message."""
        done.append(text)

    def look(text: str) -> int:
        """Look something up."""
        return 5

    look.has_effect = False  # type: ignore[attr-defined]
    program = (
        "try:\n    send('a')\n    told = 'sent'\nexcept Exception as error:\n    told = str(error)\n"
        "answer = [told, look('x')]"
    )

    async def begin() -> None:
        async for event in execute(program, tools=[send, look]):
            if isinstance(event, (Call, Step)):
                return  # killed while the tool was under way
            journal.add(event)

    asyncio.run(begin())
    trace = read_interrupted(tmp_path / "t.jsonl")
    before = len(done)
    result = resumed_run(trace, Table([]), tools=[send, look])
    assert result.is_answered, result
    assert "was in progress when the run was interrupted; it may have taken effect" in result.answer[0]
    assert (result.answer[1], len(done)) == (5, before)


# --- the journal --------------------------------------------------------------------------------------------------


class Answering:
    """An OpenAI-compatible endpoint that counts requests, and stops answering after `most` of them."""

    def __init__(self, most: int) -> None:
        self.requests, self.most = 0, most
        answering = self

        class Handler(Endpoint):
            def act(self, body: dict[str, Any]) -> None:
                answering.requests += 1
                if answering.requests > answering.most:
                    time.sleep(60)
                text = body["messages"][-1]["content"]
                call = text.rpartition("call: is_good(")[2].partition(")")[0]
                reply = json.dumps({"value": int(call) % 2 == 0})
                self.reply(200, json.dumps({"choices": [{"message": {"content": reply}}]}).encode())

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        import threading

        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", [["--sequential"], []], ids=["one by one", "overlapping"])
def test_run_killed_at_call_150_requests_only_the_other_50(tmp_path: Path, way: list[str]) -> None:
    pytest.importorskip("openai")
    program, trace = tmp_path / "program.py", tmp_path / "t.jsonl"
    program.write_text(PROGRAM)
    endpoint = Answering(150)
    options = ["--model", "openai:m", "--base-url", endpoint.url, "--api-key", "none"]
    try:
        command = [*COC, "run", str(program), "--trace", str(trace), *options, *way]
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while _values(journal_of(trace)) < 150 and time.monotonic() < deadline:
            time.sleep(0.05)
        running.send_signal(signal.SIGKILL)
        running.wait()
        assert (_values(journal_of(trace)), trace.exists()) == (150, False)
        endpoint.requests, endpoint.most = 0, 1000
        done = coc("resume", trace, *options, "--json")
        assert done.returncode == 0, done.stderr
        assert (json.loads(done.stdout)["value"], endpoint.requests) == (100, 50)
        assert "the same" in coc("replay", trace).stdout
        assert not journal_of(trace).exists()
        again = coc("resume", trace, *options)
        assert again.returncode == 2 and "nothing is left to do: the run ended (answered)" in again.stderr
    finally:
        endpoint.close()


def _values(journal: Path) -> int:
    return journal.read_bytes().count(b'"answers":{') if journal.exists() else 0


def test_journal_longer_than_the_trace_is_used(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    events = asyncio.run(until(execute(PROGRAM, Model()), calls=20))
    Trace.of(events[: len(events) // 2]).write(path)
    journal = Journal(path)
    for event in events:
        journal.add(event)
    assert len(read_interrupted(path).events) == len(Trace.of(events).events)
    assert path.exists() and not journal_of(path).exists()  # the next journal will not overwrite it
    shorter = Journal(path)
    for event in events[:5]:
        shorter.add(event)
    with journal_of(path).open("ab") as file:
        file.write(b'{"event": "step", "numb')  # the line that was being written
    assert len(read_interrupted(path).events) == len(Trace.of(events).events)


def test_the_journal_of_an_earlier_run_is_kept(tmp_path: Path) -> None:
    for _ in range(2):
        warnings: list[str] = []
        journal = Journal(tmp_path / "t.jsonl", warnings.append)
        for event in asyncio.run(until(execute("answer = 1"), calls=0)):
            journal.add(event)
    kept = tmp_path / "t.jsonl.journal.old"
    assert warnings == [f"an earlier run was interrupted; its journal is kept as {kept}"]
    assert kept.exists() and journal_of(tmp_path / "t.jsonl").exists()


def test_react_is_not_resumed() -> None:
    from chainofcode import ScriptedLM

    events = asyncio.run(until(ask(QUESTION, ScriptedLM(["```python\nx = 1\n```"] * 9), method="react"), calls=2))
    with pytest.raises(InputError, match="a run of the method react cannot be resumed"):
        Resumed(Trace.of(events))


def test_unwritable_journal_does_not_stop_the_run(tmp_path: Path) -> None:
    warnings: list[str] = []
    journal = Journal(tmp_path / "nowhere" / "t.jsonl", warnings.append)
    for event in asyncio.run(until(execute("answer = 1"), calls=0)):
        journal.add(event)
    assert len(warnings) == 1 and "the run cannot be resumed if it is killed: cannot write" in warnings[0]


# --- what cannot be resumed ---------------------------------------------------------------------------------------


def test_traces_that_cannot_be_resumed(tmp_path: Path) -> None:
    def message(trace: Trace) -> str:
        trace.write(tmp_path / "t.jsonl")
        done = coc("resume", tmp_path / "t.jsonl", "--model", f"scripted:{script}")
        assert (done.returncode, done.stdout) == (2, "")
        return done.stderr

    script = tmp_path / "script.jsonl"
    script.write_text('"nothing"\n')
    events = asyncio.run(until(ask(QUESTION, Model()), calls=3))
    trace = Trace.of(events)
    assert "the trace is of another run: its first request is not the one" in message(
        Trace("Another question?", {}, trace.settings, trace.events)
    )
    assert "neither a program nor a question" in message(Trace())
    edited = Trace(None, {}, {**trace.settings, "edited": ["x"]}, trace.events)
    assert "the trace is a what-if" in message(edited)
    (tmp_path / "none").write_text("not a trace\n")
    assert "is not a trace" in coc("resume", tmp_path / "none").stderr
    assert "cannot read" in coc("resume", tmp_path / "missing").stderr
    bad = Call("p", "r", answers={"is_good(1)": {"$nonsense": 1}})
    assert "the value of a request cannot be read" in message(
        Trace(QUESTION, {}, {}, [event for event in trace.events if not isinstance(event, (Step, Answer))] + [bad])
    )


def test_trace_with_steps_of_another_program_is_refused(tmp_path: Path) -> None:
    """The file stays unchanged, because its values were paid for. A trace whose steps fit is resumed."""
    known = {f"is_good({number})": True for number in range(9)}
    path, script = tmp_path / "t.jsonl", tmp_path / "script.jsonl"
    script.write_text('{"when": "is_good", "reply": "{\\"value\\": true}"}\n')
    whole = run("a = is_good(1)\nb = is_good(2)\nc = is_good(3)\nanswer = a + b + c", known).trace
    steps = whole.events[1:-2]
    for source in ("answer = is_good(1)", "def f():\n    return 1\n\n\n\nanswer = is_good(f()) + is_good(2)"):
        other = run(source, known).trace
        other.events = [other.events[0], *steps]
        other.write(path)
        before = path.read_bytes()
        done = coc("resume", path, "--model", f"scripted:{script}")
        assert (done.returncode, done.stdout) == (2, "")
        assert "the trace is of another program: step" in done.stderr
        assert path.read_bytes() == before
    whole.events = [whole.events[0], *steps]
    whole.write(path)
    assert coc("resume", path, "--model", f"scripted:{script}", "--json").returncode == 0


def test_method_and_model_come_from_the_trace(tmp_path: Path) -> None:
    """Permissions do not come from the trace."""
    script, path = tmp_path / "script.jsonl", tmp_path / "t.jsonl"
    program = "```python\nanswer = [str(word('a')), str(word('b'))]\n```"
    lines: list[Any] = [{"when": "Question: Which", "reply": program}, {"when": "call: word('a')", "reply": '"x"'}]
    script.write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = (
        "ask",
        "Which words?",
        "--model",
        f"scripted:{script}",
        "--method",
        "coc",
        "--no-fallback",
        "--sequential",
    )
    done = coc(*command, "--repairs", "0", "--trace", path)
    assert done.returncode == 2 and "('coc resume' continues the run)" in done.stderr, done.stderr
    assert Trace.read(path).settings["asked"] == {
        "repairs": 0,
        "no_fallback": True,
        "model": f"scripted:{script}",
        "sequential": True,
    }
    script.write_text(json.dumps({"when": "call: word('b')", "reply": '"y"'}) + "\n")
    done = coc("resume", path)
    assert done.returncode == 0, done.stderr
    assert "answer: ['x', 'y']" in done.stdout
    assert f"coc: asking scripted:{script}, as recorded in the trace" in done.stderr


def test_resumed_question_keeps_the_time_limit_of_its_methods(tmp_path: Path) -> None:
    script, path = tmp_path / "script.jsonl", tmp_path / "t.jsonl"
    script.write_text(json.dumps({"when": "heavy", "reply": "", "seconds": 60}))
    limit = ("--no-fallback", "--method-seconds", "0.5")
    assert coc("ask", "How heavy?", "--model", f"scripted:{script}", *limit, "--trace", path).returncode == 1
    assert Trace.read(path).settings["asked"]["method_seconds"] == 0.5
    done = coc("resume", path)
    assert done.returncode == 1, done.stderr
    assert "coc took over 0.5 seconds" in done.stdout
    script.write_text(json.dumps({"when": "heavy", "reply": "```python\nanswer = 6 * 7\n```", "seconds": 1}))
    done = coc("resume", path, "--method-seconds", "600")  # the default of coc ask replaces the recorded limit, too
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("has_second_limit", [False, True])
def test_trace_of_a_resumed_run_that_needs_no_fallback_is_written(tmp_path: Path, has_second_limit: bool) -> None:
    script, path = tmp_path / "script.jsonl", tmp_path / "t.jsonl"
    program = f"```python\nx = 1\ny = 2\nanswer = f(3){' + f(4)' if has_second_limit else ''}\n```\nA: no number"
    slow = [{"when": f"call: f({n})", "reply": "5", "seconds": 60} for n in (3, 4)]
    lines = [*slow, {"when": "heavy", "reply": program}]  # the fallback's reply is no number, and it has no other
    script.write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = ("--type", "int", "--method-seconds", "2", "--sequential", "--repairs", "0")
    done = coc("ask", "How heavy?", "--model", f"scripted:{script}", *options, "--trace", path)
    assert done.returncode == 2 and "coc took over 2 seconds" in done.stderr, done.stderr
    lines = [{"when": "call: f(3)", "reply": "5"}, slow[1] if has_second_limit else {**slow[1], "seconds": 0}]
    script.write_text("".join(json.dumps(line) + "\n" for line in lines))
    limits = ("--no-fallback", "--method-seconds", "2") if has_second_limit else ("--method-seconds", "30")
    assert coc("resume", path, *limits).returncode == has_second_limit
    trace = Trace.read(path)
    assert "f(3)" in [step.call for step in trace.steps]
    assert trace.answer is not None and trace.answer.text == ("" if has_second_limit else "5")


def test_resumed_question_keeps_its_options_for_images_and_overlap(tmp_path: Path) -> None:
    script, path = tmp_path / "script.jsonl", tmp_path / "t.jsonl"
    script.write_text(json.dumps("```python\nanswer = [f(n) for n in range(3)]\n```"))
    options = ("--no-images", "--no-small", "--sequential", "--no-fallback", "--repairs", "0")
    assert coc("ask", "What?", "--model", f"scripted:{script}", *options, "--trace", path).returncode == 2
    asked = Trace.read(path).settings["asked"]
    assert (asked["images"], asked["small"], asked["sequential"]) == (False, False, True)
    lines = [{"when": f"call: f({n})", "reply": str(n), "seconds": 0.3} for n in range(3)]
    script.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for more, is_ahead in (((), False), (("--in-flight", "3"), True)):
        assert coc("resume", path, *more, "--trace", tmp_path / "other.jsonl").returncode == 0
        resumed = Trace.read(tmp_path / "other.jsonl")
        assert any(step.how == "ahead" for step in resumed.steps) == is_ahead
        assert resumed.settings["asked"] == asked


def test_a_resumed_question_keeps_its_language(tmp_path: Path) -> None:
    """The run ended before the model wrote a program; when resumed, it writes one in the recorded language."""
    script, path = tmp_path / "script.jsonl", tmp_path / "t.jsonl"
    script.write_text(json.dumps({"when": "nothing", "reply": ""}) + "\n")
    data = tmp_path / "rows.csv"
    data.write_text("n\n1\n2\n")
    command = ("ask", "What is the sum?", "--model", f"scripted:{script}", "--language", "js", "--file", data)
    assert coc(*command, "--trace", path).returncode == 2
    reply = "```javascript\nanswer = rows.reduce((sum, row) => sum + row.n, 0);\n```"
    script.write_text(json.dumps({"when": "an array of 2 objects", "reply": reply}) + "\n")
    done = coc("resume", path, "--file", data)
    assert done.returncode == 0, done.stderr
    assert "answer: 3" in done.stdout
    program = Trace.read(path).program
    assert program is not None and program.language == "javascript"


# --- people -------------------------------------------------------------------------------------------------------


def test_person_answers_matching_calls_without_lookahead() -> None:
    asked: list[str] = []

    async def person(question: Question) -> str | None:
        asked.append(str(question))
        return "perhaps" if len(asked) == 1 else "yes"

    program = (
        "good = [n for n in range(3) if is_good(n)]\nif approve_list(good):\n    answer = good\nelse:\n    answer = 0"
    )
    lm = Model()
    result = asyncio.run(arun(program, AskMe("approve_.*", person).emulator(lm)))
    assert (result.answer, len(lm.prompts)) == ([0, 2], 3)
    assert asked[0].startswith("approve_list([0, 2]) = ? (")
    assert len(asked) == 2 and "approve_list([0, 2]) = ?" in asked[1]  # the first answer did not fit
    (step,) = [step for step in result.trace.steps if step.call == "approve_list([0, 2])"]
    assert (step.model, step.value) == ("you", True)
    unmade = "answer = is_good(2) or approve_it('x')"
    asyncio.run(arun(unmade, AskMe("approve_.*", person).emulator(Model())))
    assert len(asked) == 2  # the person is not asked about a call that the program does not make
    with pytest.raises(InputError, match=r"invalid pattern 'approve_\('"):
        AskMe("approve_(", person)


def test_run_waits_for_a_person_and_resumes_in_a_terminal(tmp_path: Path) -> None:
    program, path = tmp_path / "program.py", tmp_path / "t.jsonl"
    program.write_text("name = str(word('a'))\nanswer = [name, bool(approve_it(name))]")
    (tmp_path / "values.jsonl").write_text(json.dumps({"call": "word('a')", "value": "fig"}) + "\n")
    done = coc("run", program, "--values", tmp_path / "values.jsonl", "--ask-me", "approve_.*", "--trace", path)
    assert done.returncode == 1
    assert "the call approve_it('fig') waits for a person" in done.stdout
    leader, follower = pty.openpty()
    command = [*COC, "resume", str(path), "--json"]
    running = subprocess.Popen(command, stdin=follower, stdout=subprocess.PIPE, stderr=follower)
    os.close(follower)
    seen, deadline = b"", time.monotonic() + 60
    while b"= ?" not in seen and time.monotonic() < deadline:
        if select.select([leader], [], [], 0.5)[0]:
            seen += os.read(leader, 4096)
    os.write(leader, b"yes\n")
    out = running.communicate(timeout=60)[0]
    os.close(leader)
    assert json.loads(out)["value"] == ["fig", True]
    assert "the same" in coc("replay", path).stdout
