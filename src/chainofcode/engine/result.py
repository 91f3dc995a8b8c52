"""The result of a run, collected from its events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from ..lm import Usage
from ..markup import as_html
from ..reasons import Reason
from ..sandbox.frames import Failure, Lineage
from ..trace import Answer, Event, Produced, Step, Trace
from ..values.codec import Opaque, ValueFormatError, brief, decode


@dataclass(frozen=True, repr=False, kw_only=True)
class Result:
    """The outcome of a run. `answer` is None if there is none, and an Opaque if its value could not leave the guest."""

    trace: Trace
    reason: Reason
    usage: Usage
    answer: Any = None
    artifacts: Mapping[str, bytes] = field(default_factory=dict)  # files that the program left in its scratch directory
    lineage: Lineage | None = None  # of the last program, if the run recorded provenance

    @property
    def is_answered(self) -> bool:
        return self.reason is Reason.ANSWERED

    @property
    def error(self) -> Failure | None:
        """Why there is no answer, and on which line."""
        return self.trace.answer.error if self.trace.answer is not None else None

    @property
    def confidence(self) -> float | None:
        """How sure the model was of an answer that it states, otherwise of its least sure judgement.

        This is not the probability that the answer is right. None if no confidence is known.
        """
        return self.trace.confidence

    @property
    def judgements(self) -> list[Step]:
        """The model's values for the last program whose confidence is known, without those of repeated calls."""
        return self.trace.judgements

    def __repr__(self) -> str:
        outcome = f"answer={brief(self.answer)}" if self.error is None else f"error={self.error.message!r}"
        return f"<Result {self.reason}: {outcome}, {len(self.trace.steps)} steps, {self.trace.lm_calls} LM calls>"

    def _repr_html_(self) -> str:  # what a notebook shows
        return as_html(self.trace)

    @classmethod
    def of(cls, events: Iterable[Event]) -> Self:
        """Collect the events of a run."""
        events = list(events)
        trace = Trace.of(events)
        files: dict[str, bytes] = {}
        lineage = None
        for event in events:
            if isinstance(event, Produced):
                files |= event.files
                lineage = event.lineage
        return cls.of_trace(trace, files, lineage)

    @classmethod
    def of_trace(cls, trace: Trace, files: Mapping[str, bytes], lineage: Lineage | None = None) -> Self:
        """Make a result from a trace, and files by their SHA-256."""
        ended = trace.answer or Answer(Reason.GUEST_DIED)
        try:
            value = decode(ended.value)
        except ValueFormatError:
            value = Opaque("unknown", ended.text)
        kept = {file.name: files[file.sha256] for file in ended.artifacts if file.sha256 in files}
        return cls(trace=trace, reason=ended.reason, usage=trace.usage, answer=value, artifacts=kept, lineage=lineage)
