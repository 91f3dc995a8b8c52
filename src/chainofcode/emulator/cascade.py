"""A cascade of models: a cheap one answers, and a better one is asked only for values that the first is unsure of."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from ..errors import BudgetError, EmulationError, InputError
from ..lm import LM, as_lm
from ..trace import Call
from .image_arguments import has_images
from .model import ONE_REPLY, Asking, Judging
from .pause import Answered, Emulator, Pause
from .rows import Rows

THRESHOLD = 0.8


def asking(lm: LM, judging: Judging = ONE_REPLY) -> Emulator:
    """Return an emulator that asks a model, with `lm.rows` calls per prompt."""
    rows = as_lm(lm).rows
    return Rows(lm, rows, judging) if rows > 1 and judging.votes == 1 else Asking(lm, judging)


class Cascade(Emulator):
    """Asks models in turn, the cheapest first, until a value has a probability of at least `threshold`.

    A value of unknown probability counts as unsure, so all models but the last need log probabilities (`has_logprobs`)
    or votes. A score, which is the mean of a distribution, counts as sure. Each step of the trace names the model that
    answered.
    """

    def __init__(self, models: Sequence[LM], threshold: float = THRESHOLD, judging: Judging = ONE_REPLY) -> None:
        if not models:
            raise InputError("a cascade needs at least one model")
        if not 0 <= threshold <= 1:
            raise InputError(f"the threshold of a cascade must be a probability from 0 to 1, not {threshold:g}")
        self.models, self.threshold, self.judging = [as_lm(lm) for lm in models], threshold, judging
        # Only the last model is asked for reasons: if another is unsure, the next model is asked instead.
        *first, last = self.models
        self._levels = [asking(lm, replace(judging, thinks=False)) for lm in first]
        self._levels.append(asking(last, judging))
        self.in_flight = self._levels[0].in_flight
        self.reads_state = any(level.reads_state for level in self._levels)
        self.gathers = self._levels[0].gathers
        self._paid: list[Call] = []  # requests to cheaper models for values whose next request was cancelled

    def fresh(self) -> Cascade:
        return Cascade(self.models, self.threshold, self.judging)

    def judged_by(self, judging: Judging) -> Cascade:
        """Return the same cascade with other settings for each model."""
        return Cascade(self.models, self.threshold, judging)

    def abandoned(self) -> list[Call]:
        paid, self._paid = self._paid, []
        return [*paid, *(call for level in self._levels for call in level.abandoned())]

    async def answer(self, pause: Pause) -> Answered:
        spent: tuple[Call, ...] = ()
        levels = list(zip(self.models, self._levels, strict=True))
        if has_images(pause):  # only for models that see; without any, the last raises the error
            levels = [(lm, level) for lm, level in levels if lm.has_images] or levels[-1:]
        *cheaper, last = levels
        for lm, level in cheaper:
            try:
                answered = await self._asked(level, pause, spent)
            except EmulationError as error:  # no value that fits: the next model may do better
                spent = error.calls
                continue
            if self._is_sure(answered):
                return replace(answered, model=lm.name)
            spent = answered.calls
        lm, level = last
        return replace(await self._asked(level, pause, spent), model=lm.name)

    async def _asked(self, level: Emulator, pause: Pause, spent: tuple[Call, ...]) -> Answered:
        """Ask one model. Earlier requests for the value are counted with its answer, even if it fails."""
        try:
            answered = await level.answer(pause)
        except (EmulationError, BudgetError) as error:
            error.calls = (*spent, *error.calls)
            raise
        except asyncio.CancelledError:
            self._paid += spent
            raise
        return replace(answered, calls=(*spent, *answered.calls))

    def _is_sure(self, answered: Answered) -> bool:
        confidence = answered.confidence
        if confidence is None:
            return answered.likelihood is not None and answered.likelihood >= self.threshold
        return confidence.spread is not None or confidence.probability >= self.threshold

    @property
    def blind(self) -> str:
        """The name of a model, before the last, that reports no confidence: all its values go to the next model."""
        is_voting = self.judging.votes > 1
        return next((lm.name for lm in self.models[:-1] if not lm.has_logprobs and not is_voting), "")
