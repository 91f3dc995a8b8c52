"""Whether anything that a program works out makes a difference to its answer: had it come out otherwise, would that?

The program is run again with one value of it another each time (guest/trials.py), all in one guest, without a model:
calls get what was recorded for them, or what the same function gave.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from ...engine import arun
from ...errors import ChainOfCodeError, InputError
from ...languages.python.guest import trials
from ...sandbox import Sandbox
from ...values.codec import ValueFormatError, decode
from ..provenance.followed import Provenance
from ..replay.recorded import given_of
from .sites import Sites, sites_of

_SPEC = "trials_spec"
_CALL = f"\nanswer = Trials({_SPEC}, {{name: globals()[name] for name in {_SPEC}['inputs']}}).report()"

Difference = Literal["yes", "none", "unknown"]


@dataclass(frozen=True)
class Counterfactuals:
    """Whether another value made a difference: of what is worked out, of what chooses, of what was asked for."""

    works: Difference = "unknown"
    chooses: Difference = "unknown"
    said: Difference = "unknown"


async def counterfactuals_of(
    found: Provenance, statements: Collection[int], sandbox: Sandbox, *, tables: Collection[str | int], seconds: float
) -> Counterfactuals:
    """Vary what these statements work with, and what tables have under some keys.

    All is unknown where the program cannot be run that way.
    """
    program, ended = found.run.program, found.run.answer
    options = given_of(found.trace)
    given = dict(options.inputs)
    names = [*given, *(["question"] if found.trace.question is not None else [])]
    sites = sites_of(program, found.lineage.works, names, tables) if not program.prose else None
    if sites is None or ended is None or ended.source not in ("variable", "expression", "output"):
        return Counterfactuals()
    try:
        spec = _spec(found, sites, statements) | {"sink": ended.source, "inputs": names, "seconds": seconds}
        told = dataclasses.replace(options, inputs={**given, _SPEC: spec})
        result = await arun(_trials() + _CALL, None, sandbox=sandbox, options=told)
        report = msgspec.convert(result.answer, _Report)
    except (ChainOfCodeError, msgspec.ValidationError):  # what a guest says may be anything
        return Counterfactuals()
    if report.before is None or _plain(report.before) != _plain(ended.text):
        return Counterfactuals()
    return Counterfactuals(report.works, report.chooses, report.said)


@functools.cache
def _trials() -> str:
    return Path(trials.__file__).read_text(encoding="utf-8")


class _Report(msgspec.Struct):
    before: str | None
    works: Difference = "unknown"
    chooses: Difference = "unknown"
    said: Difference = "unknown"


def _spec(found: Provenance, sites: Sites, statements: Collection[int]) -> dict[str, Any]:
    """The program to vary, what was said to it, and where: what comes last is the nearest to the answer."""
    said = [step for step in found.trace.steps if step.by != "python" and step.error is None and step.call]
    wanted = [one for one in reversed(sites.operations) if one.statement in statements]
    try:
        values = [((step.call or "").partition("(")[0], step.call, decode(step.value)) for step in said]
    except ValueFormatError as error:
        raise InputError(f"a value of the trace cannot be read: {error}") from None
    return {
        "source": sites.source,
        "near": sites.near,
        "literals": sites.literals,
        "said": [list(value) for value in values],
        "operations": [
            {
                "does": one.does,
                "leaves": one.leaves,
                "result": one.result,
                "is_dropped": one.is_dropped,
                "is_open": one.is_open,
            }
            for one in wanted
        ],
    }


def _plain(text: str) -> str:
    return text.strip().strip("'\"")
