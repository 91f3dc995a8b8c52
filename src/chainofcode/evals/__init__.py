"""Evaluation: runs a suite of samples and scores each; wrong answers and missing ones are counted separately."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Unpack

import msgspec

from ..emulator.documents import at_line, numbered, read_text
from ..engine import RunKeywords, RunOptions
from ..errors import InputError
from ..lm import LM
from ..methods import Ways
from ..sandbox import Sandbox
from .runner import EvalJob, retries, run_jobs, score
from .samples import Sample, Score
from .scoring import is_same

__all__ = ["SUITES", "EvalJob", "Sample", "Score", "evaluate", "is_same", "load", "retries", "run_jobs", "score"]

SUITES = ("emulation", "questions", "varied")


def load(suite: str) -> list[Sample]:
    """Return a suite by name, or the samples of a file, one JSON object per line."""
    path = Path(__file__).parent / "suites" / f"{suite}.jsonl" if suite in SUITES else Path(suite)
    try:
        text = read_text(path)
    except InputError as error:
        known = ", ".join((*SUITES, "bbh", "bbeh", "gsm8k", "gsm-hard"))
        raise InputError(f"{error}; a suite is one of {known}, or a .jsonl file") from None
    samples = []
    for number, line in numbered(text.split("\n")):
        with at_line(suite, number, "not a sample"):
            samples.append(_sample(msgspec.json.decode(line), f"{path.stem}-{number - 1}"))
    if not samples:
        raise InputError(f"{suite} is empty")
    name, count = Counter(sample.id for sample in samples).most_common(1)[0]
    if count > 1:
        raise InputError(f"{suite}: {count} samples have the id {name!r}")
    return samples


def _sample(record: Any, name: str) -> Sample:
    """Return a record as a sample: `{"question": …, "target": …}` is enough."""
    if isinstance(record, dict):
        record = {"id": name, **record}
        if "target" in record:
            record["targets"] = [record.pop("target")]
    sample = msgspec.convert(record, Sample)
    if sample.question is None and sample.program is None:
        raise ValueError("a sample needs a question or a program")
    if sample.program is None and not sample.targets:
        raise ValueError("a question needs a `target`, or `targets`")
    return sample


async def evaluate(
    samples: Sequence[Sample],
    lm: LM,
    sandbox: Sandbox | str = "auto",
    ways: Ways | None = None,
    options: RunOptions | None = None,
    **given: Unpack[RunKeywords],
) -> AsyncIterator[Score]:
    """Run samples one after another and score each; `ways` controls how questions are answered.

    A sample that cannot be run counts as one without an answer. Raises LMError if the model replies to none of the
    first few samples, and BudgetError when a budget is spent.
    """
    jobs = [EvalJob(sample, ways=ways) for sample in samples]
    async for scored, _ in run_jobs(jobs, lm, sandbox, RunOptions.of(options, given)):
        yield scored
