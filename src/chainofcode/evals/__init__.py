"""Measuring: a suite of samples, each run and scored; what is right, wrong, or no answer is counted apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Unpack

import msgspec

from ..engine import RunKeywords, RunOptions
from ..errors import InputError
from ..lm import LM
from ..methods import Ways
from ..sandbox import Sandbox
from .runner import Job, retries, run_jobs, score
from .samples import Sample, Score
from .scoring import is_same

__all__ = ["SUITES", "Job", "Sample", "Score", "evaluate", "is_same", "load", "retries", "run_jobs", "score"]

SUITES = ("emulation", "questions", "varied")


def load(suite: str) -> list[Sample]:
    """A suite by name, or a file of samples, one JSON object a line."""
    path = Path(__file__).parent / "suites" / f"{suite}.jsonl" if suite in SUITES else Path(suite)
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join((*SUITES, "bbh", "gsm8k", "gsm-hard"))
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {suite}: {why}; a suite is one of {known}, or a .jsonl file") from None
    samples = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                sample = _sample(msgspec.json.decode(line), f"{path.stem}-{number - 1}")
            except (msgspec.MsgspecError, RecursionError) as error:
                raise InputError(f"{suite}, line {number}: not a sample: {error}") from None
            if sample.question is None and sample.program is None:
                raise InputError(f"{suite}, line {number}: a sample has a question or a program")
            if sample.program is None and not sample.targets:
                raise InputError(f"{suite}, line {number}: a question needs a `target`, or `targets`")
            samples.append(sample)
    if not samples:
        raise InputError(f"{suite} is empty")
    for name, count in Counter(sample.id for sample in samples).items():
        if count > 1:
            raise InputError(f"{suite}: {count} samples have the id {name!r}")
    return samples


def _sample(record: Any, name: str) -> Sample:
    """A record as a sample: `{"question": …, "target": …}` will do."""
    if isinstance(record, dict):
        record = {"id": name, **record}
        if "target" in record:
            record["targets"] = [record.pop("target")]
    return msgspec.convert(record, Sample)


async def evaluate(
    samples: Sequence[Sample],
    lm: LM,
    sandbox: Sandbox | str = "auto",
    ways: Ways | None = None,
    options: RunOptions | None = None,
    **given: Unpack[RunKeywords],
) -> AsyncIterator[Score]:
    """Run samples one after the other and score each; `ways` are how questions are answered.

    A sample that cannot be run is one without an answer. Raises LMError where the first few all bring no reply,
    and BudgetError, after what was left of it, where a budget is spent.
    """
    async for scored, _ in run_jobs(
        [Job(sample, ways=ways) for sample in samples], lm, sandbox, RunOptions.of(options, given)
    ):
        yield scored
