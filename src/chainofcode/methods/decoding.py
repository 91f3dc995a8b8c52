"""Checks in a separate process that tagged values can be decoded: hostile ones may take too long.

Standard library only.
"""

from __future__ import annotations

import signal

from ..values.codec import ValueFormatError, decode
from .job_process import carry_out, timed

TYPE_CHECKING = False
if TYPE_CHECKING:  # for start-up time
    from typing import Any


def main() -> None:
    carry_out(_decoded)


def _decoded(job: dict[str, Any]) -> dict[str, Any]:
    """Return why values are `invalid`; an empty dict if they can be decoded."""
    with timed(job["seconds"], signal.ITIMER_PROF):  # CPU time, so that a busy machine makes no difference
        try:
            for value in job["values"]:
                decode(value)
        except (ValueFormatError, RecursionError) as error:
            return {"invalid": str(error)}
    return {}
