"""One client that floods a server: python tests/flooding.py, with a job as JSON on standard input.

Some connections repeat the first request as fast as they can. The others never read their reply. The flood has its own
process, so that it does not delay the client that is measured. When its standard input ends, it prints the number of
replies by status.
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
from typing import Any

_READ_SECONDS = 2.0  # of one reply: streams may have no end
_SMALL_BUFFER = 4096
_PAUSE_SECONDS = 0.05


def request_bytes(request: dict[str, Any], host: str, token: str) -> bytes:
    body = base64.b64decode(request["body"])
    headers = {"Host": host, "Authorization": f"Bearer {token}", "Content-Length": str(len(body)), **request["headers"]}
    lines = [f"{request['method']} {request['target']} HTTP/1.1", *(f"{name}: {headers[name]}" for name in headers)]
    return "\r\n".join([*lines, "", ""]).encode() + body


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


async def flood(job: dict[str, Any]) -> None:
    host, _, port = job["url"].removeprefix("http://").partition(":")
    first = job["requests"][0]
    closing = {**first, "headers": {**first["headers"], "Connection": "close"}}
    kept = [request_bytes(one, host, job["token"]) for one in job["requests"]]
    repeated = request_bytes(closing, host, job["token"])
    seen: collections.Counter[str] = collections.Counter()
    idle = [never_read((host, int(port)), one) for one in itertools.islice(itertools.cycle(kept), job["idle"])]
    busy = [repeat((host, int(port)), repeated, seen) for _ in range(job["busy"])]
    tasks = [asyncio.create_task(work) for work in [*idle, *busy]]
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    print(json.dumps(seen))


if __name__ == "__main__":
    asyncio.run(flood(json.loads(sys.stdin.readline())))
