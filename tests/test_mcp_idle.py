"""`coc serve` closes MCP sessions that their owners no longer use."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed")
pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from test_intake import MemoryStore, intake_of

from chainofcode.server.mcp import hosted
from chainofcode.server.run_kinds import Models

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
HEADERS = {"accept": "application/json, text/event-stream"}


async def initialized(endpoint: hosted.McpEndpoint, owner: str) -> int:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await endpoint({**scope, "owner": owner}, receive, send)

    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return (await client.post("/mcp", json=INITIALIZE, headers=HEADERS)).status_code


def serving() -> int:
    """The number of owners with sessions: each has a task."""
    names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
    return names.count("McpEndpoint._serve")


def test_idle_sessions_of_an_owner_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted, "_IDLE_SECONDS", 0.5)

    async def use(endpoint: hosted.McpEndpoint) -> None:
        async with endpoint.open(), asyncio.timeout(60):
            for _ in range(2):  # an owner may come back
                assert [await initialized(endpoint, owner) for owner in ("ann", "bob")] == [200, 200]
                assert serving() > 0
                while serving():  # noqa: ASYNC110 (there is no event to wait for)
                    await asyncio.sleep(0.1)

    async def check() -> None:
        with contextlib.closing(MemoryStore(tmp_path)) as store, contextlib.closing(Models((), 1)) as models:
            await use(hosted.McpEndpoint(intake_of(store, models, tmp_path)))

    asyncio.run(check())
