"""MCP tools with one model and one sandbox, without a server. The last traces are kept in memory."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import secrets
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from ...emulator import First, Table, asking
from ...engine import RunOptions, execute
from ...errors import InputError
from ...lm import LM
from ...methods import ask, compose
from ...sandbox import Limits, Sandbox
from ...trace import Event, Kept, Trace
from ...values.codec import ValueFormatError, decode
from ..refusal import Refusal
from ..workers import Workers
from .tool_list import ProgressReporter, ToolRequest

_MAX_KEPT_RUNS = 100
_MAX_KEPT_BYTES = 100_000_000


class StandaloneBackend:
    """Runs the tools in this process, which holds keys; traces are verified in worker processes.

    There are no owners: anyone who knows the ID of a run can read it.
    """

    def __init__(self, lm: LM | None, sandbox: Sandbox, limits: Limits, *, workers: Workers, at_once: int) -> None:
        self._lm, self._sandbox, self._limits, self._workers = lm, sandbox, limits, workers
        self._slots = asyncio.Semaphore(at_once)
        self._kept: collections.OrderedDict[str, bytes] = collections.OrderedDict()

    async def carry_out(self, request: ToolRequest, owner: str, progress: ProgressReporter) -> tuple[str, Trace]:
        trace = Trace()
        events = self._question(request) if request.program is None else self._program(request, request.program)
        async with self._slots, contextlib.aclosing(events) as stream:  # type: ignore[type-var]
            async for event in stream:
                trace.add(event)
                if isinstance(event, Kept):
                    await progress.note(event)
        return self._keep(trace), trace

    def _question(self, request: ToolRequest) -> AsyncIterator[Event]:
        if self._lm is None:
            raise InputError("this server has no model; run_program takes a program and values for its calls")
        ways: Any = {"method": compose(request.method, repairs=2, fallback=True), "answer_type": request.answer_type}
        return ask(request.question or "", self._lm, sandbox=self._sandbox, limits=self._limits, **ways)

    def _program(self, request: ToolRequest, program: str) -> AsyncIterator[Event]:
        table = Table.of_records(list(request.values), "values")
        emulator = table if self._lm is None else First(table, asking(self._lm))
        options = RunOptions(question=request.question, inputs=_decoded(request.inputs), limits=self._limits)
        return execute(program, emulator, sandbox=self._sandbox, options=options)

    async def lines(self, id: str, owner: str) -> bytes:
        if id not in self._kept:
            raise Refusal(404, "not_found", f"there is no run {id[:100]!r}, or it is no longer kept")
        return self._kept[id]

    async def verified(self, id: str, owner: str) -> dict[str, Any]:
        return await self.verified_text((await self.lines(id, owner)).decode("utf-8", "replace"), owner)

    async def verified_text(self, text: str, owner: str) -> dict[str, Any]:
        job = {"audit": "verify", "text": text, "limits": dataclasses.asdict(self._limits), "scratch": False}
        found: dict[str, Any] = msgspec.json.decode(await self._workers.audited(owner, job))
        return found

    def _keep(self, trace: Trace) -> str:
        id = secrets.token_hex(8)  # cannot be guessed: over HTTP, clients must not read each other's runs
        self._kept[id] = "".join(f"{line}\n" for line in trace.lines()).encode()
        while len(self._kept) > _MAX_KEPT_RUNS or sum(map(len, self._kept.values())) > _MAX_KEPT_BYTES:
            self._kept.popitem(last=False)
        return id


def _decoded(inputs: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {name: decode(value) for name, value in inputs.items()}
    except (ValueFormatError, RecursionError) as error:
        raise InputError(f"inputs: {error}") from None
