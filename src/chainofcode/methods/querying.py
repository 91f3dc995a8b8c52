"""Checks or runs one SQL query in a worker process, where there is no guest to run it in.

Without a database, the engine only parses the query. With one, this runs on systems without the sandbox (macOS and
Windows) only; on Linux, a guest does (`databases`). No third-party packages, except DuckDB for its own databases.
"""

from __future__ import annotations

from ..languages.database.guest.main import result_of
from ..languages.database.guest.sqlite_queries import syntax_problem
from ..platforms import end_after
from ..values.codec import encode
from .job_process import carry_out

TYPE_CHECKING = False
if TYPE_CHECKING:  # for start-up time
    from typing import Any


def main() -> None:
    carry_out(_queried)


def _queried(job: dict[str, Any]) -> dict[str, Any]:
    """Return the tagged `found` of `result_of`; without a `path`, the `error` of a query, if it has one."""
    with end_after(job["seconds"]):
        if job["path"] is None:
            problem = syntax_problem(job["query"])
            return {"error": problem} if problem else {}
        return {"found": encode(result_of(job["path"], job))}
