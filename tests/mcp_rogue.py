"""An MCP server, without dependencies, whose tool `f` breaks the protocol in the way that the first argument names."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable

FINE = {"content": [{"type": "text", "text": "fine"}]}
MEDIA = [{"type": "image", "data": "AAAA", "mimeType": "image/png"}, {"type": "audio", "data": "", "mimeType": "a/b"}]
RESULTS = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "rogue", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "f", "inputSchema": {"type": "object"}}]},
}
FLOODS = {
    "endless": "x" * 65536,
    "blank": "\n" * 1000,
    "logs": '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n',
    "sampling": '{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}\n',
}


def send(text: str | bytes, end: bytes = b"\n") -> None:
    sys.stdout.buffer.write((text.encode() if isinstance(text, str) else text) + end)
    sys.stdout.buffer.flush()


def reply(number: int, result: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result})


def flood(text: str) -> None:
    while True:
        send(text, b"")


def half(number: int) -> None:
    send(reply(number, FINE)[:40], b"")
    os._exit(1)


def ask(number: int) -> None:
    """Send requests for features that the client did not offer; the result is whether each was rejected."""
    codes = []
    for method in ("sampling/createMessage", "roots/list", "elicitation/create", "ping"):
        send(json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": {}}))
        codes.append("error" in json.loads(sys.stdin.readline()))
    send(reply(number, {"content": [{"type": "text", "text": f"{codes}"}]}))


CALLS: dict[str, Callable[[int], object]] = {
    "large": lambda n: send(reply(n, {"content": [{"type": "text", "text": "x" * int(sys.argv[2])}]})),
    "media": lambda n: send(reply(n, {"content": MEDIA})),
    "unknown": lambda n: send(reply(n, {"content": [{"type": "blob"}]})),
    "null": lambda n: send(reply(n, None)),
    "text": lambda n: send(reply(n, "fine")),
    "cut": lambda n: send(reply(n, FINE)[:40]),
    "deep": lambda n: send(reply(n, 0)[:-2] + "[" * 100_000 + "]" * 100_000 + "}"),
    "half": half,
    "closed": lambda n: os.close(1),
    "ask": ask,
    "binary": lambda n: (send(bytes(range(256)) * 9), send(reply(n, FINE))),
    "banner": lambda n: (send('started {"id": 1}'), send("[]"), send(reply(n, FINE))),
    "twice": lambda n: (send(reply(n, FINE)), send(reply(n, {"content": []}))),
    "crlf": lambda n: send(reply(n, FINE), b"\r\n"),
}


def main(how: str) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        if method in RESULTS:
            send(reply(number, RESULTS[method]))
        elif method == "tools/call" and how in FLOODS:
            threading.Thread(target=flood, args=(FLOODS[how],), daemon=True).start()
        elif method == "tools/call":
            CALLS[how](number)
        elif number is not None and method is not None:
            send(json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no"}}))
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
