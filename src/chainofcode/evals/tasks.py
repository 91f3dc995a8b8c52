"""BIG-Bench Hard, BIG-Bench Extra Hard and GSM8K as samples: their files, examples, and published accuracies."""

from __future__ import annotations

import functools
import json
import math
import os
import random
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..emulator.documents import at_line, numbered, read_text
from ..errors import InputError
from .benchmarks import fetched
from .samples import Sample
from .shots import Shot, shots

SIZES = ("three", "five", "seven")
BBEH = "bbeh_"  # prefix of its tasks: some have the same names as tasks of BIG-Bench Hard
# The leaderboard of BIG-Bench Extra Hard, on all 4,520 examples: micro average, adjusted harmonic mean.
BBEH_PUBLISHED = {
    "random": (8.4, 2.4),
    "Llama-3.1-8B": (10.6, 3.6),
    "Gemma3-4B": (11.0, 3.4),
    "GPT-4o": (22.3, 6.0),
}
_BBEH_TASKS = (
    "boardgame_qa",
    "boolean_expressions",
    "buggy_tables",
    "causal_understanding",
    "disambiguation_qa",
    "dyck_languages",
    "geometric_shapes",
    "hyperbaton",
    "linguini",
    "movie_recommendation",
    "multistep_arithmetic",
    "nycc",
    "object_counting",
    "object_properties",
    "sarc_triples",
    "shuffled_objects",
    "spatial_reasoning",
    "sportqa",
    "temporal_sequence",
    "time_arithmetic",
    "web_of_lies",
    "word_sorting",
    "zebra_puzzles",
)
_LETTER = re.compile(r"\([A-Z]\)")
_PAIR = re.compile(r"^Q: (.*?)\nA: (.*?)(?=\n\nQ: |\Z)", re.M | re.S)


class Facts(msgspec.Struct, frozen=True, rename={"kind": "class"}):
    """The paper's facts about a task: its class, what executes its programs, accuracies in per cent."""

    kind: str
    execution: str
    random: int
    human_average: int
    human_best: int
    methods: dict[str, int] = {}


class _Example(msgspec.Struct):
    input: str
    target: str


class _File(msgspec.Struct):
    """A file of BIG-Bench Hard, or of BIG-Bench Extra Hard."""

    examples: list[_Example]


class _Problem(msgspec.Struct):
    """A line of GSM8K; the answer's number comes after `####`."""

    question: str
    answer: str | float


@functools.cache
def paper() -> dict[str, Facts]:
    """Return the paper's Table A1, by task; files of several sizes are one task there."""
    table: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("paper.json").read_text(encoding="utf-8"))
    fields = {"class", "execution", "random", "human_average", "human_best"}
    return {
        task: msgspec.convert({**facts, "methods": {k: v for k, v in facts.items() if k not in fields}}, Facts)
        for task, facts in table.items()
    }


def files() -> list[str]:
    """Return the names of the 27 files of BIG-Bench Hard."""
    split = ("logical_deduction", "tracking_shuffled_objects")
    return [name for task in paper() for name in ([f"{task}_{n}_objects" for n in SIZES] if task in split else [task])]


def task_of(file: str) -> str:
    """Return the paper's task that a file belongs to."""
    return re.sub(rf"_({'|'.join(SIZES)})_objects$", "", file)


# --- samples ------------------------------------------------------------------------------------------------------


def bbh(tasks: Sequence[str] = (), data: Path | None = None) -> list[Sample]:
    """Return the questions of some tasks, or of all."""
    _check_tasks(tasks, files(), paper())
    chosen = [file for file in files() if not tasks or {file, task_of(file)} & {*tasks}]
    return [sample for file in chosen for sample in _questions(file, directory("bbh", data) / f"{file}.json")]


def _questions(file: str, path: Path) -> list[Sample]:
    return [
        Sample(f"{file}-{index}", example.input, targets=[example.target], kind=_kind(file, example.target), task=file)
        for index, example in enumerate(_read(path).examples)
    ]


def bbeh(tasks: Sequence[str] = (), data: Path | None = None) -> list[Sample]:
    """Return the questions of some tasks of BIG-Bench Extra Hard, or of all."""
    names = [task.removeprefix(BBEH) for task in tasks]
    _check_tasks(names, _BBEH_TASKS)
    return [
        Sample(f"{BBEH}{name}-{index}", example.input, targets=[example.target], kind="bbeh", task=f"{BBEH}{name}")
        for name in _BBEH_TASKS
        if not names or name in names
        for index, example in enumerate(_read(directory("bbeh", data) / f"{name}.json").examples)
    ]


def _check_tasks(tasks: Sequence[str], *known: Collection[str]) -> None:
    unknown = [task for task in tasks if not any(task in names for names in known)]
    if unknown:
        raise InputError(f"unknown task {unknown[0]!r} (expected one of: {', '.join(known[0])})")


def _kind(file: str, target: str) -> str:
    if _LETTER.fullmatch(target):
        return "choice"
    return "words" if file == "word_sorting" else "exact"


def gsm8k(data: Path | None = None, name: str = "gsm8k") -> list[Sample]:
    """Return the test questions of GSM8K, or of GSM-Hard in the same form."""
    path = directory(name, data) / "test.jsonl"
    samples = []
    for index, (number, line) in enumerate(numbered(read_text(path).split("\n"))):
        with at_line(path, number, f"not a problem of {name}"):
            fields = msgspec.json.decode(line)
            if isinstance(fields, dict) and "input" in fields:  # the format of GSM-Hard
                fields = {"question": fields["input"], "answer": fields.get("target")}
            record = msgspec.convert(fields, _Problem)
            target = float(str(record.answer).rpartition("####")[2].replace(",", ""))
            if not math.isfinite(target):
                raise ValueError(f"{target} is not an answer")
        samples.append(Sample(f"{name}-{index}", record.question, targets=[target], kind="number", task=name))
    return samples


def directory(name: str, data: Path | None) -> Path:
    """Return the directory of a benchmark: `data`, else COC_DATA, else the cache, after a download."""
    chosen = data or (Path(os.environ["COC_DATA"]) if os.environ.get("COC_DATA") else None)
    if chosen is None:
        return fetched(name)
    place = chosen / name if (chosen / name).is_dir() else chosen
    if not place.is_dir():
        raise InputError(f"there is no directory {chosen} (--data, COC_DATA)")
    return place


def _read(path: Path) -> _File:
    try:
        return msgspec.json.decode(read_text(path), type=_File)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{path}: not a file of BIG-Bench Hard or Extra Hard: {error}") from None


# --- examples -----------------------------------------------------------------------------------------------------


class Examples(msgspec.Struct, frozen=True):
    """Worked examples for a prompt: questions with replies, and calls with values."""

    pairs: tuple[tuple[str, str], ...] = ()
    calls: tuple[tuple[str, Any], ...] = ()


def examples(file: str, method: str, how: str, data: Path | None = None, seed: int = 0) -> Examples | None:
    """Return three examples of the task itself (`single`) or of others (`cross`); None: the method uses its own."""
    if how == "0":
        return Examples()
    if file not in files():
        return None
    if method == "cot":
        path = directory("bbh", data) / "cot-prompts" / f"{file}.txt"
        return Examples(tuple(_cot(read_text(path)))) if how == "single" else None
    chosen = shots(file) if how == "single" else _others(file, seed)
    return _shown(chosen, method) if chosen else None


def _shown(chosen: Sequence[Shot], method: str) -> Examples:
    """Return examples for a method that states the answer, or for one that writes a program."""
    if method == "direct":
        return Examples(tuple((shot.question, f"A: {shot.answer}") for shot in chosen))
    pairs = tuple((shot.question, f"```python\n{shot.program}\n```") for shot in chosen)
    return Examples(pairs, tuple(call for shot in chosen for call in shot.calls))


def _others(file: str, seed: int) -> list[Shot]:
    """Return one example each of three other tasks."""
    dice = random.Random(f"{seed} {file}")  # noqa: S311
    tasks = [task for task in paper() if task != task_of(file) and shots(task)]
    return [dice.choice(shots(task)) for task in dice.sample(tasks, min(3, len(tasks)))]


def _cot(text: str) -> list[tuple[str, str]]:
    """Split BIG-Bench Hard's own prompt: the task, then questions with reasoned answers."""
    prompt = text.partition("-----\n")[2].strip()
    task = prompt.partition("\n\nQ: ")[0].strip()
    pairs = [(question.strip(), reply.strip()) for question, reply in _PAIR.findall(prompt)]
    return [(f"{task}\n\n{pairs[0][0]}", pairs[0][1]), *pairs[1:]] if pairs else []
