"""A real HTTP server on loopback that answers as a test wants it to, and as no endpoint should."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time
from collections.abc import Iterator
from typing import Any


class Endpoint(http.server.BaseHTTPRequestHandler):
    """Answers with what the test put on its list, the last one for ever."""

    protocol_version = "HTTP/1.1"
    url: str
    script: list[Any]
    seen: list[tuple[dict[str, str], dict[str, Any]]]

    def do_POST(self) -> None:
        self.act(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def do_GET(self) -> None:
        self.act({})

    def act(self, body: dict[str, Any]) -> None:
        self.seen.append(({name.lower(): value for name, value in self.headers.items()}, body))
        act = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if callable(act):
            act(self)
        else:
            self.reply(200, json.dumps(act).encode())

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *arguments: Any) -> None:
        """Clients that hang up in the middle are what the tests are about."""


@contextlib.contextmanager
def serving(*script: Any) -> Iterator[Any]:
    kind = type("Serving", (Endpoint,), {"script": list(script), "seen": []})
    server = Server(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    kind.url = f"http://127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
    yield kind
    server.shutdown()
    server.server_close()


def cut(e: Any) -> None:
    e.send_response(200)
    e.send_header("Content-Length", "1000")
    e.end_headers()
    e.wfile.write(b'{"choices": [')
    e.close_connection = True


def drip(e: Any) -> None:
    e.send_response(200)
    e.send_header("Content-Length", "100000")
    e.end_headers()
    for _ in range(200):
        try:
            e.wfile.write(b" ")
            e.wfile.flush()
        except OSError:
            return
        time.sleep(0.05)


def endless(e: Any) -> None:
    e.send_response(500)
    e.end_headers()
    with contextlib.suppress(OSError):
        while True:
            e.wfile.write(b"x" * 100_000)
