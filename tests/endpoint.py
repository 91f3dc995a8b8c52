"""A real HTTP server on loopback with scripted replies, including invalid ones."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any


class Endpoint(http.server.BaseHTTPRequestHandler):
    """Replies with the entries of the test's script in order, then repeats the last one."""

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
        """Ignore clients that disconnect in the middle, which tests do on purpose."""


@contextlib.contextmanager
def serving(*script: Any) -> Iterator[Any]:
    kind = type("Serving", (Endpoint,), {"script": list(script), "seen": []})
    server = Server(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    kind.url = f"http://127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
    yield kind
    server.shutdown()
    server.server_close()


class Model:
    """A model that replies with the first matching rule of its script; `hold` delays some of the replies."""

    def __init__(self, script: Sequence[dict[str, Any]]) -> None:
        self.script, self.url = script, ""
        self._held: dict[str, threading.Event] = {}

    def hold(self, *texts: str) -> None:
        """Hold back replies to requests with one of these texts until `release` is called."""
        for text in texts:
            self._held[text] = threading.Event()

    def release(self, text: str | None = None) -> None:
        for held, event in self._held.items():
            if text in (None, held):
                event.set()

    def reply(self, prompt: str) -> bytes:
        for text, event in self._held.items():
            if text in prompt:
                event.wait(60)
        rule = next((rule for rule in self.script if rule["when"] in prompt), {"reply": "nothing"})
        choice = {"message": {"content": rule["reply"]}, "logprobs": rule.get("logprobs")}
        return json.dumps({"choices": [choice]}).encode()


@contextlib.contextmanager
def model_endpoint(script: Sequence[dict[str, Any]]) -> Iterator[Model]:
    """An OpenAI-compatible endpoint that serves a scripted model."""
    model = Model(script)

    class ModelEndpoint(Endpoint):
        def act(self, body: dict[str, Any]) -> None:
            content = body["messages"][-1]["content"]
            text = content if isinstance(content, str) else content[-1]["text"]
            with contextlib.suppress(OSError):  # the client may be gone
                self.reply(200, model.reply(text))

    server = Server(("127.0.0.1", 0), ModelEndpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    model.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield model
    finally:
        model.release()
        server.shutdown()
        server.server_close()


class Relay:
    """A relay between a browser and a server that cuts connections: each number in `cuts` is the number of bytes after
    which one connection for `path` is cut; while `is_down`, the relay forwards nothing."""

    def __init__(self, url: str, path: bytes = b"/events") -> None:
        self._host, self._port = url.removeprefix("http://").split(":")
        self._path, self.cuts, self.is_down, self.reached = path, list[int](), False, 0
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._relay, args=(self._listener.accept()[0],), daemon=True).start()

    def _relay(self, near: socket.socket) -> None:
        self._open.append(near)
        with near, contextlib.suppress(OSError):
            head = near.recv(65536)
            if self.is_down or not head:
                return
            left = -1
            if self._path in head.split(b"\r\n")[0]:
                self.reached += 1
                left = self.cuts.pop(0) if self.cuts else -1
            with socket.create_connection((self._host, int(self._port))) as far:
                far.sendall(head.replace(b"Connection: keep-alive", b"Connection: close"))
                threading.Thread(target=self._forward, args=(near, far), daemon=True).start()
                while left and (data := far.recv(left if left > 0 else 65536)):
                    near.sendall(data)
                    left -= len(data) if left > 0 else 0
                near.shutdown(socket.SHUT_RDWR)  # another thread reads from it, for which closing alone would wait

    def _forward(self, near: socket.socket, far: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := near.recv(65536):
                far.sendall(data)

    def cut(self) -> None:
        """Cut all open connections."""
        for near in self._open:
            with contextlib.suppress(OSError):
                near.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()


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
