"""A process that audits one trace: `python -m chainofcode.server.auditor SANDBOX`, with a job on standard input.

A job has a trace (a `path`, or the lines as `text`) and an `audit`: `why` (optionally for a variable `name`), `verify`,
or `page` (the trace as HTML, with a `title`). The process opens its own sandbox, SANDBOX as in `open_sandbox`, and
closes it at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import os
import sys
from typing import Any

from ..audit import afollow, averify, check_chain, recorded_options, verify_data, why_data
from ..errors import ChainOfCodeError, InputError, SandboxError, TraceError
from ..methods.job_process import carry_out, file_of
from ..platforms import end_after
from ..sandbox import Jail, Limits, Sandbox, open_sandbox
from ..sandbox.worker_confinement import confine_host, confine_worker
from ..trace import Trace, as_json
from .sharing import as_html

_NICENESS = 5


def main() -> None:
    os.nice(_NICENESS)  # inherited by the guests
    with contextlib.closing(open_sandbox(sys.argv[1], spares=1)) as sandbox:
        with contextlib.suppress(SandboxError):
            asyncio.run(_prepared(sandbox))
        carry_out(
            lambda job: _carried_out(job, sandbox),
            write=_json,
            confine=functools.partial(_confine, sandbox),
        )


def _confine(sandbox: Sandbox, limits: dict[str, Any]) -> None:
    """Give up what the audit does not need. A process that starts guests keeps its user and files."""
    if not limits["starts_guests"]:
        sandbox.close()  # now: it could not wait for the guests later
        confine_worker()
    elif isinstance(sandbox, Jail):  # other sandboxes need a network
        confine_host()


async def _prepared(sandbox: Sandbox) -> None:
    """Build the sandbox before a job arrives."""
    if isinstance(sandbox, Jail):
        await sandbox.status()


def _carried_out(job: dict[str, Any], sandbox: Sandbox) -> dict[str, Any]:
    with end_after(job["seconds"]):  # if the server was killed, nothing else ends this process
        return asyncio.run(_audited(job, sandbox))


async def _audited(job: dict[str, Any], sandbox: Sandbox) -> dict[str, Any]:
    try:
        lines = _lines(job)
        trace = _trace(job, lines)
        if job["audit"] == "page":
            return {"data": as_html(trace, title=job["title"])}
        if job["audit"] == "why":
            return {"data": why_data(await afollow(trace, job.get("name"), sandbox=sandbox))}
        return {"data": verify_data(await averify(trace, chain=check_chain(lines), sandbox=sandbox))}
    except InputError as error:
        return {"refused": str(error)}
    except (ChainOfCodeError, OSError, RecursionError) as error:
        return {"error": str(error)}


def _lines(job: dict[str, Any]) -> list[bytes]:
    if "text" in job:
        return list(job["text"].encode("utf-8", "replace").splitlines())
    with open(file_of(job, job["path"]), "rb") as file:
        return file.read().splitlines()


def _trace(job: dict[str, Any], lines: list[bytes]) -> Trace:
    if "text" in job:
        # `bounded` refuses or caps all grants, whoever recorded the trace: this process needs no key to check its seal.
        return bounded(Trace.parse(lines, is_own=True), Limits(**job["limits"]), scratch=job["scratch"])
    try:
        return Trace.parse(lines, is_own=True)  # the server wrote it
    except TraceError:  # damaged, or being removed
        raise ChainOfCodeError("its trace cannot be read") from None


def bounded(trace: Trace, limits: Limits, *, scratch: bool = False) -> Trace:
    """A trace from any source, with its limits capped at `limits`. Raises InputError if its program had grants."""
    given = recorded_options(trace)
    grants = {"files": given.prelude, "reads": given.reads, "packages": given.packages}
    for name, value in {**grants, "scratch": given.scratch and not scratch}.items():
        if value:
            raise InputError(f"the trace's program was granted {name}, which this server does not grant")
    own = given.limits
    names = [field.name for field in dataclasses.fields(Limits)]
    most = {name: min(getattr(own, name), getattr(limits, name)) for name in names}
    return dataclasses.replace(trace, settings={**trace.settings, "limits": most})


def _json(data: dict[str, Any]) -> str:
    return as_json(data).decode()  # without lone surrogates


if __name__ == "__main__":
    main()
