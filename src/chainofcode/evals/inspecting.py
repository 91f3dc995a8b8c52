"""Support for Inspect (`inspect_ai`): methods as a solver, BIG-Bench Hard as a task, results in its log format.

    inspect eval chainofcode/bbh --model openai/gpt-4o-mini -T tasks=navigate -T method=coc

Inspect provides the model. Each trace is in the transcript of its sample, where Inspect's viewer shows it.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset
from inspect_ai.dataset import Sample as InspectSample
from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSample, EvalSpec, EvalStats, transcript, write_eval_log
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    Model,
    ModelOutput,
    ResponseSchema,
    get_model,
)
from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import JSONSchema

from ..errors import LMError
from ..lm import LM, Completion, Message, Usage, turns
from ..methods import asolve, compose
from ..render import Page
from ..trace import Trace
from .results import read_planned, read_scores, read_settings, trace_of
from .samples import Sample, select
from .samples import Score as SampleScore
from .scoring import is_target
from .tasks import bbh as bbh_samples
from .tasks import examples

_ROLES: dict[str, type[Any]] = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}


class InspectLM(LM):
    """An adapter for models of Inspect, whose limits, retries, cache and logs apply."""

    in_flight = 8

    def __init__(self, model: Model) -> None:
        self._model, self.name = model, str(model)

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: dict[str, Any] | None = None,
        stop: Sequence[str] = (),
        max_tokens: int = 1024,
        temperature: float = 0.0,
        n: int = 1,
        seed: int | None = None,
        logprobs: bool = False,
    ) -> list[Completion]:
        config = GenerateConfig(
            max_tokens=max_tokens,
            temperature=temperature,
            stop_seqs=list(stop) or None,
            seed=seed,
            response_schema=ResponseSchema(name="value", json_schema=JSONSchema(**schema)) if schema else None,
        )
        given: list[ChatMessage] = [_ROLES[turn.role](content=turn.content) for turn in turns(messages)]
        outputs = [await self._model.generate(given, config=config) for _ in range(n)]
        for output in outputs:
            if output.error:
                raise LMError(f"{self.name}: {output.error}")
        return [Completion(output.completion, _usage(output)) for output in outputs]


def _usage(output: ModelOutput) -> Usage:
    if output.usage is None:
        return Usage(requests=1)
    used = output.usage
    return Usage(requests=1, prompt_tokens=used.input_tokens, completion_tokens=used.output_tokens, dollars=None)


@solver
def chain_of_code(method: str = "coc", shots: str = "single", repairs: int = 2, data: str | None = None) -> Solver:
    """Answer with a method of chainofcode; the answer is the completion, the trace is in the transcript."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        sample = Sample(str(state.sample_id), state.input_text, task=str((state.metadata or {}).get("task", "")))
        chosen = examples(sample.task, method, shots, Path(data) if data else None)
        more: dict[str, Any] = {"examples": chosen.pairs, "seen": chosen.calls} if chosen is not None else {}
        whole = compose(method, repairs=repairs)
        result = await asolve(state.input_text, InspectLM(get_model()), method=whole, **more)
        state.output = ModelOutput.from_content(str(get_model()), "" if result.answer is None else str(result.answer))
        state.output.completion = state.output.completion or ""
        state.store.set("reason", result.reason)
        transcript().info({"reason": result.reason, "trace": _text(result.trace)}, source="chainofcode")
        return state

    return solve


def _text(trace: Trace) -> str:
    return "\n".join(Page(100).trace(trace))


@scorer(metrics=[accuracy(), stderr()])
def target_scorer() -> Scorer:
    """Score an answer by the rules of the sample's task."""

    async def score(state: TaskState, target: Target) -> Score:
        kind = str((state.metadata or {}).get("kind", ""))
        sample = Sample(str(state.sample_id), state.input_text, kind=kind)
        completion = state.output.completion
        is_right = bool(completion) and is_target(completion, target.text, sample)
        return Score(value=CORRECT if is_right else INCORRECT, answer=completion, explanation=state.store.get("reason"))

    return score


@task
def bbh(
    tasks: str = "",
    method: str = "coc",
    shots: str = "single",
    data: str | None = None,
    limit: int = 0,
    *,
    split: str | None = None,
) -> Task:
    """BIG-Bench Hard, or some tasks of it; `limit` questions of each file, `split` by index, such as `100:`."""
    names = [name.strip() for name in tasks.split(",") if name.strip()]
    chosen = [
        InspectSample(
            sample.question or "",
            target=sample.targets[0],
            id=sample.id,
            metadata={"task": sample.task, "kind": sample.kind},
        )
        for sample in select(bbh_samples(names, Path(data) if data else None), split, limit or None)
    ]
    return Task(
        dataset=MemoryDataset(chosen, name="bbh"),
        solver=chain_of_code(method, shots, data=data),
        scorer=target_scorer(),
    )


def export(directory: Path, path: Path, method: str) -> None:
    """Write the results of one method as a log that Inspect's viewer opens."""
    samples = [_exported(directory, score) for score in read_scores(directory) if score.method == method]
    moment = datetime.datetime.now(datetime.UTC).isoformat()
    spec = EvalSpec(
        created=moment,
        task=f"chainofcode {method}",
        dataset=EvalDataset(name=directory.name, samples=len(samples)),
        model=str(read_settings(directory).get("model", "none")),
        config=EvalConfig(),
    )
    is_whole = len(samples) >= read_planned(directory).get(method, 0)
    stats = EvalStats(started_at=moment, completed_at=moment)
    log = EvalLog(eval=spec, samples=samples, status="success" if is_whole else "cancelled", stats=stats)
    write_eval_log(log, str(path))


def _exported(directory: Path, score: SampleScore) -> EvalSample:
    place = trace_of(score)
    trace = Trace.read(directory / place) if place is not None else Trace()
    value = CORRECT if score.verdict == "right" else INCORRECT
    return EvalSample(
        id=score.id,
        epoch=1,
        input=trace.question or score.id,
        target=[str(target) for target in score.targets],
        messages=[ChatMessageAssistant(content=_text(trace))] if place is not None else [],
        output=ModelOutput.from_content("", score.answer),
        scores={"target": Score(value=value, answer=score.answer, explanation=score.error or score.reason)},
        metadata={"task": score.task, "reason": score.reason},
    )
