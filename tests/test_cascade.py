"""Several models in one run: one writes the program, others answer its calls, and an unsure one passes them on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from endpoint import model_endpoint
from judging import START, Certain, Judge, openai_logprobs, reply, truth
from test_cli import coc

from chainofcode import LM, Completion, InputError, Message, ScriptedLM, Usage, execute, run, solve
from chainofcode.audit import replay
from chainofcode.emulator import Cascade
from chainofcode.emulator.confidence import likelihood
from chainofcode.errors import BudgetError
from chainofcode.lm.wrappers import Budget, Budgeted
from chainofcode.trace import Call, Trace

PROGRAM = "answer = [x for x in ('fig', 'saw', 'kiwi') if is_fruit(x)]"
CALLS = {name: f"is_fruit('{name}')" for name in ("fig", "saw", "kiwi")}


class Counted(Judge):
    """A judge with a name that records the calls in its requests."""

    def __init__(self, name: str, **truths: float) -> None:
        super().__init__({CALLS[item]: share for item, share in truths.items()})
        self.name, self.requested_calls = name, list[str]()

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        self.requested_calls.append(messages[-1].content.rpartition("call: ")[2].partition("\n")[0])
        replies = await super().complete(messages, **options)
        return [Completion(reply.text, Usage(requests=1, prompt_tokens=10), tokens=reply.tokens) for reply in replies]


def models_by_call(trace: Trace) -> dict[str, str]:
    return {step.call or "": step.model for step in trace.steps if step.by == "lm"}


# --- two models ---------------------------------------------------------------------------------------------------


def test_one_model_writes_and_another_answers_calls() -> None:
    writer = ScriptedLM([f"```python\n{PROGRAM}\n```"], "writer")
    values = Counted("values", fig=0.9, saw=0.1, kiwi=0.9)
    result = solve("Which are fruit?", writer, emulator=values)
    assert result.answer == ["fig", "kiwi"]
    assert [call.model for call in result.trace.calls] == ["writer", "values", "values", "values"]
    assert len(writer.requests) == 1
    for emulator in (dict.fromkeys(CALLS.values(), True), lambda pause: "saw" not in pause.text):
        writer = ScriptedLM([f"```python\n{PROGRAM}\n```"])
        assert solve("Which are fruit?", writer, emulator=emulator).answer[0] == "fig"


def test_votes_on_programs_share_the_values_of_the_emulator() -> None:
    from chainofcode.methods import compose

    writer = ScriptedLM(lambda messages: f"```python\n{PROGRAM}\n```")
    values = Counted("values", fig=0.9, saw=0.1, kiwi=0.9)
    result = solve("Which are fruit?", writer, emulator=values, method=compose(votes=3))
    assert (result.answer, sorted(values.requested_calls)) == (["fig", "kiwi"], sorted(CALLS.values()))


# --- cascades -----------------------------------------------------------------------------------------------------


def test_next_model_is_asked_only_if_the_first_is_unsure() -> None:
    small, large = Counted("small", fig=0.95, saw=0.6, kiwi=0.81), Counted("large", saw=0.3)
    result = run(PROGRAM, Cascade([small, large], 0.8))
    assert result.answer == ["fig", "kiwi"]
    assert (len(small.requested_calls), large.requested_calls) == (3, [CALLS["saw"]])
    assert models_by_call(result.trace) == {CALLS["fig"]: "small", CALLS["saw"]: "large", CALLS["kiwi"]: "small"}
    assert result.usage.requests == 4
    confidences = {step.call: step.confidence for step in result.judgements}
    assert confidences[CALLS["saw"]].probability == pytest.approx(0.7)  # type: ignore[union-attr]
    assert replay(result.trace).is_same
    assert Trace.parse(line.encode() for line in result.trace.lines()).steps == result.trace.steps


def test_threshold_of_one_asks_the_next_model_always_and_zero_never() -> None:
    for threshold, requests in ((1.0, 3), (0.0, 0)):
        small, large = Counted("small", fig=0.9, saw=0.1, kiwi=0.9), Counted("large", fig=0.9, saw=0.1, kiwi=0.9)
        assert run(PROGRAM, Cascade([small, large], threshold)).answer == ["fig", "kiwi"]
        assert len(large.requested_calls) == requests
    with pytest.raises(InputError, match=r"a probability from 0 to 1, not 1\.5"):
        Cascade([small, large], 1.5)
    with pytest.raises(InputError, match="at least one model"):
        Cascade([])


def test_three_models_and_an_unfitting_value() -> None:
    unfit = ScriptedLM(lambda messages: "I would rather not say.", "unfit")
    middle, last = Counted("middle", fig=0.9, saw=0.4, kiwi=0.6), Counted("last", saw=0.2, kiwi=0.9)
    result = run(PROGRAM, Cascade([unfit, middle, last]))
    assert result.answer == ["fig", "kiwi"]
    assert models_by_call(result.trace)[CALLS["fig"]] == "middle"
    by_model = [call.model for call in result.trace.calls]
    assert (by_model.count("unfit"), by_model.count("middle"), by_model.count("last")) == (6, 3, 2)


def test_likelihood_is_that_of_the_least_likely_token() -> None:
    completion = reply(*START, (" ", {}), ("4", {"4": 0.9, "7": 0.1}), ("2", {"2": 0.6, "}": 0.4}), ("}", {}))
    assert likelihood(completion, "value") == pytest.approx(0.6)
    assert likelihood(completion, "other") is None
    assert likelihood(Completion('{"value": 42}'), "value") is None
    large = Certain((" 7", {" 7": 0.9}))
    large.name = "large"
    program = "answer = int(number_of_legs('spider'))"
    for share, model in ((0.9, "certain"), (0.5, "large")):
        result = run(program, Cascade([Certain((" 8", {" 8": share, " 6": 1 - share})), large]))
        assert models_by_call(result.trace) == {"number_of_legs('spider')": model}
        assert result.confidence is None  # as without a cascade


def test_a_model_of_unknown_confidence_is_never_sure() -> None:
    plain = ScriptedLM(lambda messages: '{"value": true}', "plain")
    last = Counted("last", fig=0.9, saw=0.1, kiwi=0.9)
    cascade = Cascade([plain, last])
    assert cascade.blind == "plain"
    assert run(PROGRAM, cascade).answer == ["fig", "kiwi"]
    assert len(last.requested_calls) == 3


def test_models_of_a_cascade_share_a_budget() -> None:
    budget = Budget(tokens=45)
    models = [Counted("small", fig=0.6, saw=0.4, kiwi=0.6), Counted("large", fig=0.9, saw=0.1, kiwi=0.9)]
    result = run(PROGRAM, Cascade([Budgeted(lm, budget) for lm in models]), in_flight=1)
    assert result.reason == "limit:tokens"
    assert result.usage.requests == 5  # all requests, including those for the call without a value
    with pytest.raises(BudgetError):
        asyncio.run(Budgeted(models[0], budget).complete([Message("user", "call: is_fruit('fig')")]))


def test_cancelled_run_records_paid_requests() -> None:
    is_asked = asyncio.Event()

    class Hanging(LM):
        name = "hanging"

        async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
            is_asked.set()
            await asyncio.sleep(60)
            raise AssertionError

    # One call at a time: only the first is in flight.
    async def collect(events: list[Any]) -> None:
        async for event in execute(PROGRAM, Cascade([Counted("small", fig=0.6, saw=0.6, kiwi=0.6), Hanging()])):
            events.append(event)  # noqa: PERF401 - events before the cancellation count

    async def cancelled() -> list[Any]:
        events: list[Any] = []
        running = asyncio.create_task(collect(events))
        await is_asked.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return events

    calls = [event for event in asyncio.run(cancelled()) if isinstance(event, Call)]
    assert [call.model for call in calls if call.is_abandoned] == ["hanging"]
    assert [call.model for call in calls if not call.is_abandoned] == ["small"]


# --- the command --------------------------------------------------------------------------------------------------


def rule(when: str, share: float) -> dict[str, Any]:
    completion = truth(share)
    return {"when": when, "reply": completion.text, "logprobs": openai_logprobs(completion)}


def test_commands_accept_an_emulator_and_a_cascade(tmp_path: Path) -> None:
    script, trace = tmp_path / "script.jsonl", tmp_path / "trace.jsonl"
    lines = [{"when": "Question: Which", "reply": f"```python\n{PROGRAM}\n```"}]
    lines += [{"when": call, "reply": '{"value": false}'} for call in CALLS.values()]
    script.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "program.py").write_text(PROGRAM)
    rules = [rule(CALLS["fig"], 0.9), rule(CALLS["saw"], 0.6), rule(CALLS["kiwi"], 0.9)]
    with model_endpoint(rules) as model:
        model_of_values = ("--emulator", "openai:small", "--base-url", f"{model.url}/v1", "--api-key", "none")
        done = coc("run", tmp_path / "program.py", *model_of_values, "--json")
        assert json.loads(done.stdout)["value"] == ["fig", "saw", "kiwi"], done.stderr
        cascade = ("--emulator", f"openai:small,scripted:{script}", *model_of_values[2:])
        done = coc("run", tmp_path / "program.py", *cascade, "--trace", trace)
        assert "answer: ['fig', 'kiwi']" in done.stdout, done.stderr
        assert "is_fruit('fig') → True  (by openai:small)" in done.stdout
        assert models_by_call(Trace.read(trace))[CALLS["saw"]] == f"scripted:{script}"
        done = coc("run", tmp_path / "program.py", *cascade, "--threshold", "0.5", "--json")
        assert json.loads(done.stdout)["value"] == ["fig", "saw", "kiwi"]
    done = coc("ask", "Which are fruit?", "--model", f"scripted:{script}", "--emulator", f"scripted:{script}")
    assert (done.returncode, done.stdout) == (0, "[]\n")


@pytest.mark.nightly
def test_evaluation_reports_usage_of_each_model(tmp_path: Path) -> None:
    (tmp_path / "suite.jsonl").write_text(
        "".join(json.dumps({"program": f"answer = is_fruit('{n}')", "targets": [n != "saw"]}) + "\n" for n in CALLS)
    )
    script = tmp_path / "script.jsonl"
    script.write_text('{"when": "saw", "reply": "{\\"value\\": false}"}\n')
    rules = [rule(CALLS["fig"], 0.9), rule(CALLS["saw"], 0.6), rule(CALLS["kiwi"], 0.9)]
    with model_endpoint(rules) as model:
        emulator = ("--emulator", f"openai:small,scripted:{script}", "--base-url", f"{model.url}/v1")
        command = ("eval", tmp_path / "suite.jsonl", "--model", "openai:small", *emulator, "--api-key", "none")
        done = coc(*command, "--out", tmp_path / "out")
        assert "3 of 3 right" in done.stdout, done.stderr
        counts = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines() if ":" in line.split(" ")[0]}
        assert counts["openai:small"] == "3"
        assert any(name.startswith("scripted:") and n == "1" for name, n in counts.items())
        totals = json.loads(coc(*command, "--json").stdout.splitlines()[-1])
        assert totals["usage"]["openai:small"]["requests"] == 3
        other = coc(*command, "--threshold", "0.5", "--out", tmp_path / "out")
        assert other.returncode == 2 and "has a run with emulator = " in other.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--emulator", "scripted:a,"], "--emulator must name different models"),
        (["--emulator", "scripted:a,scripted:a"], "--emulator must name different models"),
        (["--emulator", "scripted:a", "--threshold", "2"], "--threshold must be a probability from 0 to 1, not 2"),
        (["--emulator", "scripted:a", "--model", "scripted:b"], "use --model or --emulator, not both"),
        (["--emulator", "gpt-4o"], "did you mean openai:gpt-4o?"),
    ],
)
def test_invalid_emulators(tmp_path: Path, options: list[str], message: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = coc("run", tmp_path / "program.py", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
