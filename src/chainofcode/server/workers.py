"""Worker processes for untrusted data: audits, file inspections, large values.

Data from clients and their programs is read in processes that hold no keys, no tokens and no other user's data. Owners
share them fairly. A process is killed at its limits, and when its client disconnects.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import sys
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any

import msgspec

from ..errors import InputError
from ..methods.input_files import inspected
from ..methods.isolated import TURN, Worker, arun_isolated, ended, finished, message_of, started, why_ended
from ..sandbox.container import ENGINES
from ..trace import as_json
from .fair_share import FairSlots
from .refusal import Refusal

AUDIT_SECONDS = 120.0  # waiting included
_AUDIT_BYTES = 1024**3
_DECODE_SECONDS, _DECODE_BYTES = 5.0, 1024**3
_MAX_PARTS = 50_000  # of all values of a run: numbers, texts, lists, objects
_LARGE_BYTES = 2 * _MAX_PARTS  # smaller values have fewer parts, and are decoded in the server itself
_MAX_WAITING = 64  # audits of one owner
_AUDITOR = [sys.executable, "-P", "-X", "utf8", "-m", "chainofcode.server.auditor"]
_ENGINE_VARIABLES = ("PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST")  # for docker and podman


class _Audited(msgspec.Struct):
    """The result of an audit, unparsed, or why there is none."""

    data: msgspec.Raw = msgspec.Raw()
    refused: str = ""
    error: str = ""


class Workers:
    """All worker processes of a server; `sandbox` names the sandbox in which audits run programs again."""

    def __init__(self, owners: Collection[str], guest_bytes: int, sandbox: str = "auto") -> None:
        self._sandbox = sandbox
        self._slots = FairSlots(max(4, os.cpu_count() or 1), owners)
        self._audit_bytes = max(_AUDIT_BYTES, guest_bytes)
        self._spare: asyncio.subprocess.Process | None = None
        self._is_open = False
        self._starting = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Keep an auditor ready: it takes a second to start."""
        self._is_open = True
        await self._start_spare()
        try:
            yield
        finally:
            async with self._starting:
                self._is_open = False
                if self._spare is not None:
                    await ended(self._spare)

    async def _start_spare(self) -> None:
        async with self._starting:
            if self._is_open and self._spare is None:
                self._spare = await self._started()

    async def _started(self) -> asyncio.subprocess.Process:
        needs_engine = self._sandbox.partition(":")[0] in ENGINES
        return await started([*_AUDITOR, self._sandbox], _ENGINE_VARIABLES if needs_engine else ())

    # --- audits -----------------------------------------------------------------------------------------------

    async def audited(self, owner: str, job: Mapping[str, Any]) -> msgspec.Raw:
        """The result of an audit as JSON; see `auditor` for jobs. Raises Refusal."""
        if self._slots.count_waiting(owner) >= _MAX_WAITING:
            raise Refusal(429, "busy", "too many audits are waiting", retry_seconds=5)
        message = message_of(
            job,
            seconds=AUDIT_SECONDS,
            memory=self._audit_bytes,
            write=as_json,
            starts_guests=job["audit"] != "page",
        )
        try:
            async with asyncio.timeout(AUDIT_SECONDS), self._slots.taken(owner):
                found = await self._audit(message)
        except TimeoutError:
            raise Refusal(503, "too_slow", f"the audit took over {AUDIT_SECONDS:g} seconds", retry_seconds=30) from None
        if found.refused:
            raise Refusal(409, "cannot_follow", found.refused)
        if found.error:
            raise Refusal(422, "cannot_follow", f"the run cannot be audited: {found.error}")
        return found.data

    async def _audit(self, message: bytes) -> _Audited:
        process, self._spare = self._spare, None
        if process is None or process.returncode is not None:
            process = await self._started()
        code, output = await finished(process, message, AUDIT_SECONDS)
        await self._start_spare()
        if code != 0:
            return _Audited(error=why_ended(code, AUDIT_SECONDS))
        return msgspec.json.decode(output, type=_Audited)

    # --- files and values -------------------------------------------------------------------------------------

    def inspecting(self, owner: str) -> Worker:
        """Return the worker that inspects the files of an owner."""
        return functools.partial(self._inspected, owner)

    def share(self, owner: str) -> None:
        """Have the processes that this task starts take turns with those of other owners."""
        TURN.set(functools.partial(self._slots.taken, owner))

    async def check_values(self, owner: str, values: Sequence[msgspec.Raw]) -> None:
        """Raise InputError for tagged values that cannot be decoded, take too long, or have too many parts."""
        if sum(len(memoryview(value)) for value in values) < _LARGE_BYTES:
            return
        async with self._slots.taken(owner):
            job = {"values": values, "most": _MAX_PARTS}
            reply = await arun_isolated(
                "methods.decoding", job, seconds=_DECODE_SECONDS, memory=_DECODE_BYTES, write=as_json
            )
        if why := reply.get("invalid") or reply.get("error"):
            raise InputError(f"inputs or values: {why}")

    async def _inspected(self, owner: str, module: str, job: dict[str, Any]) -> dict[str, Any]:
        async with self._slots.taken(owner):
            return await inspected(module, job)


__all__ = ["AUDIT_SECONDS", "Workers"]
