"""A stand-in for the server: it plays recorded traces as the contract has it. Small, and only for tests of the page."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from chainofcode.audit import Changes, follow, replay, why_data
from chainofcode.errors import ChainOfCodeError
from chainofcode.server.sharing import PAGE
from chainofcode.trace import Trace

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
KINDS = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css"}


class StandIn(ThreadingHTTPServer):
    """Plays `trace` for every question; `pace` is the seconds between events, `token` what it asks for, if anything."""

    daemon_threads = True

    def __init__(
        self, trace: Path, *, pace: float = 0.0, token: str = "", files: dict[str, bytes] | None = None
    ) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.trace, self.pace, self.token, self.files = Trace.read(trace), pace, token, files or {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.traces: dict[str, Trace] = {}
        self.asked: list[dict[str, Any]] = []
        self.breaks = 0  # how many connections are cut in the middle
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def start(self, question: str | None, trace: Trace, parent: str | None = None) -> dict[str, Any]:
        made = {"id": f"r{len(self.runs) + 1}", "state": "running", "question": question, "method": "coc"}
        more = {"model": "scripted:x", "created": time.time(), "seconds": None, "answer": None, "reason": None}
        self.runs[made["id"] or ""] = run = {**made, **more, "parent": parent, "artifacts": []}
        self.traces[run["id"]] = trace
        return run

    def finish(self, run: dict[str, Any], state: str = "done") -> None:
        answer = self.traces[run["id"]].answer
        run["state"] = state if run["state"] == "running" else run["state"]
        if answer is not None and run["state"] == "done":
            run.update(answer=answer.text if answer.reason == "answered" else None, reason=answer.reason)
            run["artifacts"] = [{"name": a.name, "bytes": a.bytes, "sha256": a.sha256} for a in answer.artifacts]


class Handler(BaseHTTPRequestHandler):
    server: StandIn
    protocol_version = "HTTP/1.0"

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self, body: Any, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Security-Policy": POLICY, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status: int, message: str, **headers: str) -> None:
        self.answer({"error": {"type": "refused", "message": message}}, status, **headers)

    def parts(self) -> list[str]:
        return [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]

    def is_welcome(self) -> bool:
        return not self.server.token or self.headers["Authorization"] == f"Bearer {self.server.token}"

    def do_GET(self) -> None:
        match self.parts():
            case [""]:
                self.answer((PAGE / "index.html").read_bytes(), kind=KINDS[".html"])
            case ["static", name] if (PAGE / name).is_file():
                self.answer((PAGE / name).read_bytes(), kind=KINDS[Path(name).suffix])
            case _ if not self.is_welcome():
                self.refuse(401, "a token is needed")
            case ["api", "info"]:
                methods = {"coc": "the model writes a program", "cot": "reasoning in words"}
                self.answer({"version": "0", "model": "scripted:x", "models": [], "methods": methods, "limits": {}})
            case ["api", "runs"]:
                self.answer({"runs": list(self.server.runs.values())[::-1]})
            case ["api", "runs", name, *rest] if name in self.server.runs:
                self.run(self.server.runs[name], rest)
            case _:
                self.refuse(404, "there is nothing of that name")

    def run(self, run: dict[str, Any], rest: list[str]) -> None:
        match rest:
            case []:
                self.answer(run)
            case ["events"]:
                self.stream(run)
            case ["why"]:
                self.answer(why_data(follow(self.server.traces[run["id"]])))
            case ["artifacts", digest] if digest in self.server.files:
                self.answer(self.server.files[digest], kind="application/octet-stream")
            case _:
                self.refuse(404, "there is nothing of that name")

    def stream(self, run: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        first = int(self.headers["Last-Event-ID"] or -1) + 1
        lines = [json.loads(line) for line in self.server.traces[run["id"]].lines()]
        for number, line in enumerate(lines[first:], first):
            if run["state"] == "cancelled":
                break
            if number == 8 and self.server.breaks:
                self.server.breaks -= 1
                return
            if line.get("by") == "lm" and self.server.pace:
                place = {"id": str(number), "line": line["line"], "statement": line["statement"], "text": line["call"]}
                self.message(None, "waiting", {"calls": [place]})
                time.sleep(self.server.pace)
            line.pop("chain", None)
            self.message(number, line["event"], line)
            time.sleep(self.server.pace)
        self.server.finish(run)
        self.message(len(lines), "end", {"state": run["state"]})

    def message(self, number: int | None, event: str, data: Any) -> None:
        head = f"id: {number}\n" if number is not None else ": keep\n"
        self.wfile.write(f"{head}event: {event}\ndata: {json.dumps(data)}\n\n".encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        match self.parts():
            case _ if not self.is_welcome():
                self.refuse(401, "a token is needed")
            case ["api", "files"]:
                name = parse_qs(urlsplit(self.path).query)["name"][0]
                self.answer({"id": f"f-{len(body)}", "name": name, "bytes": len(body), "sha256": "0"})
            case ["api", "runs"]:
                asked = json.loads(body)
                if asked["question"] == "too many":
                    return self.refuse(429, "Two runs are under way.", Retry_After="7")
                self.server.asked.append(asked)
                self.answer(self.server.start(asked["question"], self.server.trace), 202)
            case ["api", "runs", name, "cancel"]:
                self.server.runs[name]["state"] = "cancelled"
                self.answer(self.server.runs[name])
            case ["api", "runs", name, "replay"]:
                self.replay(name, json.loads(body))
            case _:
                self.refuse(404, "there is nothing of that name")
        return None

    def replay(self, name: str, asked: dict[str, Any]) -> None:
        trace = self.server.traces[name]
        try:
            again = replay(trace, changes=Changes.parse(asked["set"], trace))
        except ChainOfCodeError as error:
            return self.refuse(400, str(error))
        self.answer(self.server.start(self.server.runs[name]["question"], again.trace, name), 202)
        return None
