"""An OpenAI-compatible endpoint with a set latency and a set concurrency: python bench/latency.py [--port N] …

It answers requests for the value of a call (the line `call: …` of the last message) from a file of values, and other
requests from a file of programs by question. At most `--in-flight` requests are answered at once. Loopback only.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
from pathlib import Path
from typing import Any

from chainofcode.emulator.table import normal_text
from chainofcode.values.codec import decode, encode

_CALL = re.compile(r"^call: (.*)$", re.M)
_QUESTION = re.compile(r"^Question: (.*)$", re.M)


class Endpoint:
    def __init__(self, values: dict[str, Any], programs: dict[str, str], latency: float, in_flight: int) -> None:
        self._values, self._programs, self._latency = values, programs, latency
        self._slots = asyncio.Semaphore(in_flight)
        self.requests = self.most = self.open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until the client closes it."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found = re.search(rb"content-length: *(\d+)", head, re.I)
                body = await reader.readexactly(int(found.group(1))) if found else b""
                reply = json.dumps(await self._reply(head, body)).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(reply)
                )
                writer.write(reply)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _reply(self, head: bytes, body: bytes) -> Any:
        if head.startswith(b"GET"):
            return {"requests": self.requests, "most": self.most}
        self.requests += 1
        self.open += 1
        self.most = max(self.most, self.open)
        async with self._slots:
            await asyncio.sleep(self._latency)
        self.open -= 1
        text = self._said(json.loads(body)["messages"])
        message = {"role": "assistant", "content": text}
        used = {"prompt_tokens": len(body) // 4, "completion_tokens": len(text) // 4, "total_tokens": len(body) // 4}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": used}

    def _said(self, messages: list[dict[str, Any]]) -> str:
        last = messages[-1]["content"]
        call = _CALL.search(last)
        if call is not None:
            value = self._values.get(call.group(1), self._values.get(normal_text(call.group(1))))
            return json.dumps({"value": value})
        asked = _QUESTION.search(last)
        return f"```python\n{self._programs[asked.group(1) if asked else last.strip()]}\n```"


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="0: a free port; it is printed")
    parser.add_argument("--latency", type=float, default=0.05, help="seconds")
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--values", type=Path, action="append", default=[], help='lines of {"call": …, "value": …}')
    parser.add_argument("--programs", type=Path, help="a JSON object: question → program")
    given = parser.parse_args()
    values: dict[str, Any] = {}
    for path in given.values:
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            values[record["call"]] = values[normal_text(record["call"])] = encode(decode(record["value"]))
    programs = json.loads(given.programs.read_text(encoding="utf-8")) if given.programs else {}
    endpoint = Endpoint(values, programs, given.latency, given.in_flight)
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", given.port, limit=1 << 24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
