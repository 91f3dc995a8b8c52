"""MCP servers over stdio that break the protocol: bounded time and memory, one-line errors, other servers continue."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT
from processes import descendants, is_alive

from chainofcode.emulator import Tool

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from chainofcode.emulator.mcp_client import MCPFailure, mcp_tools

ROGUE = f"{sys.executable} -S {ROOT / 'tests' / 'mcp_rogue.py'}"


def call_tool(tool: Tool) -> str:
    async def call() -> object:
        return await tool.function()

    try:
        return str(asyncio.run(call()))
    except MCPFailure as error:
        return str(error)


def memory_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("media", "[image/png: not text]\n[a/b: not text]"),
        ("unknown", "the server sent a malformed result: content.0.TextContent.text: Field required"),
        ("null", "the server sent a malformed reply"),
        ("text", "the server sent a malformed reply"),
        ("cut", "the server sent a malformed reply"),
        ("deep", "the server sent a malformed reply"),
        ("half", "the server is gone"),
        ("closed", "the server is gone"),
        ("ask", "[True, True, True, False]"),
        ("binary", "fine"),
        ("banner", "fine"),
        ("twice", "fine"),
        ("crlf", "fine"),
    ],
)
def test_malformed_message_fails_its_call_at_once(fault: str, expected: str) -> None:
    with mcp_tools([f"{ROGUE} {fault}"], seconds=20) as (tool,):
        started = time.monotonic()
        assert call_tool(tool) == expected
        assert time.monotonic() - started < 10


def test_endless_line_ends_only_its_server() -> None:
    before = set(descendants(os.getpid()))
    with mcp_tools([f"{ROGUE} endless", f"{ROGUE} crlf"], seconds=20) as (endless, other):
        started, memory = time.process_time(), memory_mb()
        for _ in range(2):
            assert call_tool(endless) == "the server sent over 16,777,216 bytes in a line"
        assert time.process_time() - started < 2
        assert memory_mb() - memory < 100
        assert call_tool(other) == "fine"
        deadline = time.monotonic() + 10
        while len(alive := [pid for pid in set(descendants(os.getpid())) - before if is_alive(pid)]) > 1:
            assert time.monotonic() < deadline, f"still running: {alive}"
            time.sleep(0.05)


def seconds_for(size: int) -> float:
    with mcp_tools([f"{ROGUE} large {size}"], seconds=20) as (tool,):
        started = time.process_time()
        assert len(call_tool(tool)) == size
        return time.process_time() - started


def test_a_large_result_takes_linear_time() -> None:
    small, large = (min(seconds_for(size) for _ in range(2)) for size in (3_000_000, 12_000_000))
    assert large < 7 * small + 0.05


@pytest.mark.alone
@pytest.mark.parametrize("kind", ["blank", "logs", "sampling"])
def test_flood_of_messages_is_throttled(kind: str) -> None:
    with mcp_tools([f"{ROGUE} {kind}"], seconds=1) as (tool,):
        assert (
            call_tool(tool) == "no reply within 1 s"
        )  # until then, messages were read at full speed, up to the allowance of a request
        started, memory = time.process_time(), memory_mb()
        time.sleep(0.5)
        assert time.process_time() - started < 0.25
        assert memory_mb() - memory < 20
