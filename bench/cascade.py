"""Whether the confidence of a small model, as the first of a cascade, predicts which of its values are right.

python bench/cascade.py PROVIDER:MODEL [SUITE.jsonl]    (default: bench/cascade.jsonl, 60 calls that tuned no prompt)

Requests each value twice: with the usual worked examples, and with others. A value is accepted if its probability
reaches a threshold; "agreed" also requires the same value with the other examples, and takes the mean of both
probabilities. Prints, for thresholds and types, how many values are accepted and how many of these are wrong. In a
cascade, the larger model supplies the other values.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chainofcode import LM, Completion, Message, run
from chainofcode.emulator import Answered, Asking, Emulator, Pause
from chainofcode.emulator.model import fixed_part
from chainofcode.lm import connect
from chainofcode.lm.interface import Around
from chainofcode.sandbox import Jail

KINDS = ("bool", "label", "int", "str", "list")
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True)
class Judged:
    """A value of the small model, and how sure it was with either set of examples."""

    kind: str
    is_right: bool
    first: float
    second: float
    is_agreed: bool


class OtherExamples(Around):
    """The same model; its prompts have other worked examples."""

    def __init__(self, lm: LM) -> None:
        super().__init__(lm)
        usual, self.is_small = fixed_part(lm), False
        task, *others = fixed_part(self)
        self._others, self._usual = [task, *others[len(usual) - 1 :]], len(usual)
        self.is_small = lm.is_small

    def prefers_longer(self, tokens: int, longer: int) -> bool:
        return True

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        return await super().complete([*self._others, *messages[self._usual :]], **options)


class Twice(Emulator):
    """A model with two sets of worked examples: the value comes from the usual ones."""

    reads_state = True

    def __init__(self, lm: LM) -> None:
        self._usual, self._other = Asking(lm), Asking(OtherExamples(lm))
        self.pairs: list[tuple[Answered, Answered]] = []

    def fresh(self) -> Twice:
        return self

    async def answer(self, pause: Pause) -> Answered:
        pair = await self._usual.answer(pause), await self._other.answer(pause)
        self.pairs.append(pair)
        return pair[0]


def probability(answered: Answered) -> float:
    if answered.confidence is not None:
        return answered.confidence.probability
    return answered.likelihood or 0.0


def judged(lm: LM, suite: Path) -> list[Judged]:
    values = []
    with Jail() as jail:
        for line in suite.read_text(encoding="utf-8").splitlines():
            sample = json.loads(line)
            emulator = Twice(lm)
            result = run(sample["program"], emulator, sandbox=jail, question=sample["question"], in_flight=1)
            is_right = result.is_answered and result.answer in sample["targets"]
            for one, other in emulator.pairs[:1]:  # empty if no reply fitted the type: the larger model is asked
                sure = probability(one), probability(other)
                values.append(Judged(sample["kind"], is_right, *sure, is_agreed=one.value == other.value))
    return values


MEASURES: dict[str, Callable[[Judged, float], bool]] = {
    "probability": lambda value, least: value.first >= least,
    "agreed": lambda value, least: value.is_agreed and (value.first + value.second) / 2 >= least,
}


def counts(values: Sequence[Judged]) -> str:
    return f"{len(values)} ({sum(not value.is_right for value in values)})"


def main() -> None:
    suite = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).with_suffix(".jsonl")
    lm = connect(sys.argv[1])
    try:
        values = judged(lm, suite)
    finally:
        lm.close()
    of_kind = {kind: [value for value in values if value.kind == kind] for kind in KINDS}
    print(f"values (wrong ones)   {'':<6}{'all':>10}" + "".join(f"{kind:>10}" for kind in KINDS))
    print(f"{'all':<28}{counts(values):>10}" + "".join(f"{counts(of_kind[kind]):>10}" for kind in KINDS))
    for name, accepts in MEASURES.items():
        for least in THRESHOLDS:
            cells = [counts([value for value in some if accepts(value, least)]) for some in (values, *of_kind.values())]
            print(f"{name + ' ≥ ' + str(least):<28}" + "".join(f"{cell:>10}" for cell in cells))


if __name__ == "__main__":
    main()
