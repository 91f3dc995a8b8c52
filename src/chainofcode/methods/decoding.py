"""Checks in a separate process that tagged values can be decoded: hostile values may take too long.

No third-party packages.
"""

from __future__ import annotations

from ..platforms import end_after
from ..values.codec import ValueFormatError, decode
from .job_process import carry_out

TYPE_CHECKING = False
if TYPE_CHECKING:  # for start-up time
    from typing import Any


def main() -> None:
    carry_out(_decoded)


def _decoded(job: dict[str, Any]) -> dict[str, Any]:
    """Return why values are `invalid`; an empty dict if they can be decoded and have at most `most` parts together."""
    with end_after(job["seconds"], counts_cpu=True):
        if _count(job["values"]) > job["most"]:
            return {"invalid": f"more than {job['most']:,} parts: upload large data as a file"}
        try:
            for value in job["values"]:
                decode(value)
        except (ValueFormatError, RecursionError) as error:
            return {"invalid": str(error)}
    return {}


def _count(values: list[Any]) -> int:
    """How many parts values have: numbers, texts, lists, objects."""
    left, count = list(values), 0
    while left:
        part = left.pop()
        count += 1
        if isinstance(part, dict):
            left += part.values()
        elif isinstance(part, list):
            left += part
    return count
