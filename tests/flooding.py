"""One client that floods a server: python tests/flooding.py, with a job as JSON on standard input.

Some connections repeat the first request as fast as they can. The others never read their reply. The flood has its own
process, so that it does not delay the client that is measured. When its standard input ends, it prints the number of
replies by status. If the job has `tiny_chunks`, all connections send a body without an end, each byte as a chunk.
"""

from __future__ import annotations

import asyncio
import base64
import collections
import contextlib
import itertools
import json
import socket
import sys
from collections.abc import Coroutine
from typing import Any

_READ_SECONDS = 2.0  # of one reply: streams may have no end
_SMALL_BUFFER = 4096
_PAUSE_SECONDS = 0.05
_TINY_CHUNKS = b"1\r\nx\r\n" * 20_000


def request_bytes(request: dict[str, Any], host: str, token: str) -> bytes:
    body = base64.b64decode(request["body"])
    headers = {"Host": host, "Authorization": f"Bearer {token}", "Content-Length": str(len(body)), **request["headers"]}
    lines = [f"{request['method']} {request['target']} HTTP/1.1", *(f"{name}: {headers[name]}" for name in headers)]
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunked_head(request: dict[str, Any], host: str, token: str) -> bytes:
    headers = {"Host": host, "Authorization": f"Bearer {token}", "Transfer-Encoding": "chunked", **request["headers"]}
    lines = [f"{request['method']} {request['target']} HTTP/1.1", *(f"{name}: {headers[name]}" for name in headers)]
    return "\r\n".join([*lines, "", ""]).encode()


async def send_tiny_chunks(address: tuple[str, int], head: bytes, seen: collections.Counter[str]) -> None:
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(*address)
            seen["connections"] += 1
            try:
                writer.write(head)
                while True:
                    writer.write(_TINY_CHUNKS)
                    await writer.drain()
            finally:
                writer.transport.abort()
        await asyncio.sleep(_PAUSE_SECONDS)


async def never_read(address: tuple[str, int], request: bytes) -> None:
    wire = socket.socket()
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BUFFER)
    wire.setblocking(False)
    loop = asyncio.get_running_loop()
    await asyncio.sleep(_PAUSE_SECONDS)  # until the others have begun
    with wire, contextlib.suppress(OSError):
        await loop.sock_connect(wire, address)
        await loop.sock_sendall(wire, request)
        await asyncio.sleep(3600)


async def repeat(address: tuple[str, int], request: bytes, seen: collections.Counter[str]) -> None:
    while True:
        with contextlib.suppress(OSError, TimeoutError):
            reader, writer = await asyncio.open_connection(*address)
            try:
                writer.write(request)
                seen[(await reader.readline()).decode()[9:12]] += 1
                async with asyncio.timeout(_READ_SECONDS):
                    while await reader.read(2**18):
                        pass
            finally:
                writer.transport.abort()
        await asyncio.sleep(_PAUSE_SECONDS)


def work_of(job: dict[str, Any], seen: collections.Counter[str]) -> list[Coroutine[Any, Any, None]]:
    host, _, port = job["url"].removeprefix("http://").partition(":")
    address = (host, int(port))
    first = job["requests"][0]
    closing = {**first, "headers": {**first["headers"], "Connection": "close"}}
    kept = [request_bytes(one, host, job["token"]) for one in job["requests"]]
    repeated = request_bytes(closing, host, job["token"])
    if job["tiny_chunks"]:
        head = chunked_head(first, host, job["token"])
        return [send_tiny_chunks(address, head, seen) for _ in range(job["busy"])]
    idle = [never_read(address, one) for one in itertools.islice(itertools.cycle(kept), job["idle"])]
    return [*idle, *(repeat(address, repeated, seen) for _ in range(job["busy"]))]


async def flood(job: dict[str, Any]) -> None:
    seen: collections.Counter[str] = collections.Counter()
    tasks = [asyncio.create_task(work) for work in work_of(job, seen)]
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    print(json.dumps(seen))


if __name__ == "__main__":
    asyncio.run(flood(json.loads(sys.stdin.readline())))
