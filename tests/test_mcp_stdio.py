"""MCP servers over standard output that break the protocol: bounded time and memory, one clear line, others go on."""

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


def called(tool: Tool) -> str:
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
    ("how", "told"),
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
def test_a_broken_message_fails_its_call_at_once(how: str, told: str) -> None:
    with mcp_tools([f"{ROGUE} {how}"], seconds=20) as (tool,):
        started = time.monotonic()
        assert called(tool) == told
        assert time.monotonic() - started < 10


def test_an_endless_line_ends_its_server_alone() -> None:
    before = set(descendants(os.getpid()))
    with mcp_tools([f"{ROGUE} endless", f"{ROGUE} crlf"], seconds=20) as (endless, other):
        started, size = time.process_time(), memory_mb()
        for _ in range(2):
            assert called(endless) == "the server sent over 16,777,216 bytes in a line"
        assert time.process_time() - started < 2
        assert memory_mb() - size < 100
        assert called(other) == "fine"
        deadline = time.monotonic() + 10
        while len(alive := [one for one in set(descendants(os.getpid())) - before if is_alive(one)]) > 1:
            assert time.monotonic() < deadline, f"still running: {alive}"
            time.sleep(0.05)


def seconds_for(size: int) -> float:
    with mcp_tools([f"{ROGUE} large {size}"], seconds=20) as (tool,):
        started = time.process_time()
        assert len(called(tool)) == size
        return time.process_time() - started


def test_a_large_result_takes_linear_time() -> None:
    small, large = (min(seconds_for(size) for _ in range(2)) for size in (3_000_000, 12_000_000))
    assert large < 7 * small + 0.05


@pytest.mark.parametrize("how", ["blank", "logs", "sampling"])
def test_a_flood_of_messages_is_read_slowly(how: str) -> None:
    with mcp_tools([f"{ROGUE} {how}"], seconds=1) as (tool,):
        assert called(tool) == "no reply within 1 s"  # and what the request allows was read at full speed
        started, size = time.process_time(), memory_mb()
        time.sleep(0.5)
        assert time.process_time() - started < 0.25
        assert memory_mb() - size < 20
