"""A real `coc serve` in its own process, on a free port, with a scripted model."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
from forked import COC, Forked, can_fork, is_measured

SCRIPT = [
    {
        "when": "How many of these are fruit",
        "reply": "```python\nthings = ['apple', 'saw']\nanswer = sum(is_fruit(t) for t in things)\n```",
    },
    {"when": "is_fruit('apple')", "reply": "true"},
    {"when": "is_fruit('saw')", "reply": "false"},
    {"when": "Sleep", "reply": "```python\nimport time\nbegun = 1\ntime.sleep(50)\nanswer = 1\n```"},
    {"when": "A little", "reply": "```python\nimport time\ntime.sleep(2)\nanswer = 'rested'\n```"},
    {"when": "table", "reply": "```python\nanswer = sum(int(row['n']) for row in sales)\n```"},
]
FRUIT = "How many of these are fruit: apple, saw?"


def started(command: list[str], stderr: int) -> Forked | subprocess.Popen[bytes]:
    """Start `coc` without a token in its environment."""
    environment = {**os.environ, "COC_TOKEN": ""}
    if can_fork(command):
        return Forked(command, (0, 1, stderr), env=environment)
    return subprocess.Popen([*COC, *command], stderr=stderr, env=environment)


class Serving:
    """A running server: `client` sends requests to it, `log` has its output."""

    def __init__(
        self, directory: Path, *options: str, token: str = "", model: str = "", script: Sequence[Any] = SCRIPT
    ) -> None:
        self.directory, self.log, self.token = directory, list[dict[str, Any]](), token
        path = directory / "script.jsonl"
        path.write_text("\n".join(map(json.dumps, script)))
        command = ["serve", "--port", "0", "--log", "json", "--data", str(directory / "data")]
        command += ["--drain", "1"] if is_measured else []  # `close` waits until it has stopped
        command += ["--model", model or f"scripted:{path}", *options]
        output, stderr = os.pipe()
        self.process = started(command, stderr)
        os.close(stderr)
        self._output = os.fdopen(output)
        self.url = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._wait()
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=60)

    def _read(self) -> None:
        for line in self._output:
            self.log.append(json.loads(line) if line.startswith("{") else {"event": "output", "text": line})

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            self.url = self.url or next((line["url"] for line in self.log if line["event"] == "serving"), "")
            with contextlib.suppress(httpx.TransportError):
                if self.url and httpx.get(f"{self.url}/healthz", timeout=5).status_code == 200:
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        self._reader.join(10 if self.process.poll() is not None else 0)
        raise AssertionError(f"the server did not start: {self.log}")

    def begin(self, question: str = FRUIT, **more: Any) -> str:
        reply = self.client.post("/api/runs", json={"question": question, **more})
        assert reply.status_code == 202, reply.text
        return str(reply.json()["id"])

    def run(self, id: str) -> dict[str, Any]:
        run: dict[str, Any] = self.client.get(f"/api/runs/{id}").json()
        return run

    def until(self, id: str, *states: str) -> dict[str, Any]:
        for _ in range(600):
            if (run := self.run(id))["state"] in states:
                return run
            time.sleep(0.05)
        raise AssertionError(f"still {run['state']}")

    def over(self, id: str) -> dict[str, Any]:
        return self.until(id, "done", "cancelled", "interrupted", "failed")

    def events(self, id: str, last: int | None = None) -> list[dict[str, Any]]:
        headers = {} if last is None else {"last-event-id": str(last)}
        with self.client.stream("GET", f"/api/runs/{id}/events", headers=headers) as reply:
            assert reply.headers["content-type"].startswith("text/event-stream")
            return list(parsed(reply.iter_lines()))

    def stop(self, kind: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(kind)
        return self.process.wait(60)

    def close(self) -> None:
        self.client.close()
        if is_measured and self.process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):  # a killed server saves no coverage data
                self.process.send_signal(signal.SIGTERM)
                self.process.wait(10)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(10)
        self._output.close()


def parsed(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    message: dict[str, Any] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "data":
            message["data"] = json.loads(value)
        elif name in ("id", "event"):
            message[name] = int(value) if name == "id" else value
        elif not line and message:
            yield message
            message = {}


@contextlib.contextmanager
def served(
    directory: Path, *options: str, token: str = "", model: str = "", script: Sequence[Any] = SCRIPT
) -> Iterator[Serving]:
    server = Serving(directory, *options, token=token, model=model, script=script)
    try:
        yield server
    finally:
        server.close()
