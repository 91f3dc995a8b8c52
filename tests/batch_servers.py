"""Stand-ins for the batch endpoints of OpenAI and Anthropic: they refuse what the documentation says the APIs refuse.

OpenAI: API reference of `/v1/files` and `/v1/batches`, and the guide "Batch API", as of 12 November 2026. Anthropic: API
reference of `/v1/messages/batches` and the guide "Batch processing", as of November 2026. Neither was compared with the
real endpoint; the texts of refusals and the codes of OpenAI's validation are assumptions.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from email.parser import BytesParser
from typing import Any

from endpoint import Endpoint, Server

TRUE = '{"value": true}'
USED = {"prompt_tokens": 1000, "completion_tokens": 100}
ENDPOINTS = ("/v1/responses", "/v1/chat/completions", "/v1/embeddings", "/v1/completions", "/v1/moderations")


class Refusal(Exception):
    """An error response."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class BatchServer:
    """The state of a stand-in, and how a test wants it to behave.

    `answer` maps a body to a status and a reply; 408 is a request that expires, 410 one that is cancelled. A batch ends
    after `polls` polls, once `may_end` is set; batches in `held` never end. `paid` are the bodies that were answered in
    batches; `stalls` is the name of a step in which the server hangs until `may_continue` is set.
    """

    max_requests = 0
    max_bytes = 0

    def __init__(self) -> None:
        self.url = ""
        self.answer: Callable[[dict[str, Any]], tuple[int, Any]] = self.usual
        self.polls, self.ending, self.rejection = 1, "completed", "Enqueued token limit reached for m"
        self.may_end, self.may_continue, self.is_stalled = threading.Event(), threading.Event(), threading.Event()
        self.may_end.set()
        self.stalls = ""
        self.failing: dict[str, list[int]] = {}  # the statuses with which a step fails before it succeeds
        self.batches: dict[str, dict[str, Any]] = {}
        self.held: set[str] = set()
        self.paid: list[dict[str, Any]] = []
        self.direct: list[dict[str, Any]] = []
        self.looks: list[float] = []
        self.lock = threading.Lock()

    def usual(self, body: dict[str, Any]) -> tuple[int, Any]:
        raise NotImplementedError

    def step(self, name: str) -> None:
        """A step that a test may cause to fail or hang."""
        if self.failing.get(name):
            raise Refusal(self.failing[name].pop(0), "try later")
        if self.stalls == name:
            self.is_stalled.set()
            self.may_continue.wait(60)

    def get(self, path: str, query: dict[str, str]) -> Any:
        raise NotImplementedError

    def post(self, path: str, headers: Any, data: bytes) -> Any:
        raise NotImplementedError

    def answered(self, body: dict[str, Any]) -> tuple[int, Any]:
        status, reply = self.answer(body)
        if status == 200:
            self.paid.append(body)
        return status, reply

    def page(self, newest: list[dict[str, Any]], after: str | None, limit: int) -> dict[str, Any]:
        ids = [batch["id"] for batch in newest]
        start = ids.index(after) + 1 if after else 0
        shown = newest[start : start + limit]
        return {"data": shown, "has_more": start + limit < len(newest), "last_id": shown[-1]["id"] if shown else None}

    def list_size(self, query: dict[str, str], most: int) -> int:
        limit = int(query.get("limit", 20))
        if not 1 <= limit <= most:
            raise Refusal(400, f"limit: must be between 1 and {most}")
        return limit


def problem_with_ids(custom_ids: list[Any], pattern: str) -> str:
    """Return the reason for refusing custom ids, or an empty string."""
    if not all(isinstance(custom_id, str) and re.fullmatch(pattern, custom_id) for custom_id in custom_ids):
        return f"custom_id: must match {pattern}"
    return "custom_id: must be unique" if len(set(custom_ids)) < len(custom_ids) else ""


class OpenAIServer(BatchServer):
    max_requests, max_bytes = 50_000, 200_000_000
    resource = "/chat/completions"

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}

    def usual(self, body: dict[str, Any]) -> tuple[int, Any]:
        return 200, {"choices": [{"message": {"content": TRUE}, "finish_reason": "stop"}], "usage": USED}

    def post(self, path: str, headers: Any, data: bytes) -> Any:
        if path == self.resource:
            self.direct.append(json.loads(data))
            return self.answer(self.direct[-1])[1]
        if path == "/files":
            return self._upload(headers, data)
        if path == "/batches":
            return self._create(json.loads(data))
        raise Refusal(404, f"Invalid URL (POST {path})")

    def _upload(self, headers: Any, data: bytes) -> Any:
        form = BytesParser().parsebytes(b"Content-Type: " + headers["Content-Type"].encode() + b"\r\n\r\n" + data)
        parts = {part.get_param("name", header="content-disposition"): part for part in form.get_payload()}
        if parts["purpose"].get_payload() != "batch":
            raise Refusal(400, "Invalid value for purpose")
        content = parts["file"].get_payload(decode=True)
        if len(content) > self.max_bytes:
            raise Refusal(400, "File is too large: the limit for batches is 200 MB")
        self.step("upload")
        file_id = f"file-{len(self.files)}"
        self.files[file_id] = content
        return {"id": file_id, "object": "file", "purpose": "batch"}

    def _create(self, body: dict[str, Any]) -> Any:
        unknown = body.keys() - {"input_file_id", "endpoint", "completion_window", "metadata", "output_expires_after"}
        if unknown:
            raise Refusal(400, f"Unknown parameter: '{min(unknown)}'")
        if body["endpoint"] not in ENDPOINTS:
            raise Refusal(400, f"Invalid value: '{body['endpoint']}'")
        if body["completion_window"] != "24h" or body["input_file_id"] not in self.files:
            raise Refusal(400, "Invalid completion_window or input_file_id")
        self.step("create")
        batch = {"id": f"batch_{len(self.batches)}", "object": "batch", "status": "validating", "polls": 0, **body}
        batch |= {"created_at": int(time.time()), "errors": None, "output_file_id": None, "error_file_id": None}
        batch["request_counts"] = {"total": 0, "completed": 0, "failed": 0}
        self.batches[batch["id"]] = batch
        self.step("created")
        return batch

    def _problem(self, batch: dict[str, Any], lines: list[Any]) -> tuple[str, str] | None:
        if len(lines) > self.max_requests:
            return "too_many_requests", f"The batch has over {self.max_requests} requests"
        if why := problem_with_ids([line.get("custom_id") for line in lines], r"(?s).{1,512}"):
            return "invalid_custom_id", why
        if any(line["url"] != batch["endpoint"] or line["method"] != "POST" for line in lines):
            return "invalid_url", "The URL does not match the endpoint of the batch"
        if len({line["body"]["model"] for line in lines}) != 1:
            return "mismatched_model", "The requests of a batch must have one model"
        if any(line["body"].get("stream") for line in lines):
            return "invalid_request", "stream is not supported in a batch"
        if self.ending == "failed":
            return "token_limit_exceeded", self.rejection
        return None

    def _advance(self, batch: dict[str, Any]) -> None:
        batch["polls"] += 1
        if batch["status"] not in ("validating", "in_progress"):
            return
        lines = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        if problem := self._problem(batch, lines):
            code, message = problem
            batch |= {"status": "failed", "errors": {"data": [{"code": code, "message": message, "line": 1}]}}
        elif batch["polls"] <= self.polls or not self.may_end.is_set():
            batch |= {"status": "in_progress", "request_counts": {"total": len(lines), "completed": 0, "failed": 0}}
        else:
            self._end(batch, lines)

    def _end(self, batch: dict[str, Any], lines: list[Any]) -> None:
        good, bad = [], []
        for line in reversed(lines):  # results come in any order
            status, reply = self.answered(line["body"])
            result: dict[str, Any] = {"id": "r", "custom_id": line["custom_id"], "response": None, "error": None}
            if status in (408, 410):
                code = "batch_expired" if status == 408 else "batch_cancelled"
                result["error"] = {"code": code, "message": "This request could not be executed in time."}
            else:
                result["response"] = {"status_code": status, "request_id": "r", "body": reply}
            (good if status == 200 else bad).append(result)
        batch["request_counts"] = {"total": len(lines), "completed": len(good), "failed": len(bad)}
        for name, results in (("output_file_id", good), ("error_file_id", bad)):
            if results:
                batch[name] = f"file-{len(self.files)}"
                self.files[batch[name]] = "\n".join(map(json.dumps, results)).encode()
        batch["status"] = self.ending

    def get(self, path: str, query: dict[str, str]) -> Any:
        if path == "/batches":
            self.step("list")
            newest = sorted(self.batches.values(), key=lambda batch: -int(batch["id"].partition("_")[2]))
            return self.page(newest, query.get("after"), self.list_size(query, 100))
        _, kind, name, *more = path.split("/")
        if kind == "batches" and name in self.batches:
            self.step("look")
            self.looks.append(time.monotonic())
            self._advance(self.batches[name])
            return self.batches[name]
        if kind == "files" and name in self.files and more == ["content"]:
            self.step("results")
            return self.files[name]
        raise Refusal(404, f"No such object: {name}")


class AnthropicServer(BatchServer):
    max_requests, max_bytes = 100_000, 256_000_000
    resource = "/v1/messages"

    def usual(self, body: dict[str, Any]) -> tuple[int, Any]:
        content: list[Any] = [{"type": "text", "text": "True"}]
        if "tools" in body:
            content = [{"type": "tool_use", "id": "t", "name": "value", "input": {"value": True}}]
        used = {"input_tokens": 1000, "output_tokens": 100}
        return 200, {"content": content, "stop_reason": "end_turn", "usage": used}

    def post(self, path: str, headers: Any, data: bytes) -> Any:
        if not headers["anthropic-version"]:
            raise Refusal(400, "anthropic-version: header is required")
        if path == self.resource:
            self.direct.append(json.loads(data))
            return self.answer(self.direct[-1])[1]
        if path != "/v1/messages/batches":
            raise Refusal(404, "Not found")
        if len(data) > self.max_bytes:
            raise Refusal(413, "Request exceeds the maximum size")
        body = json.loads(data)
        if unknown := body.keys() - {"requests"}:
            raise Refusal(400, f"{min(unknown)}: Extra inputs are not permitted")
        return self._create(body["requests"])

    def _create(self, requests: list[Any]) -> Any:
        if not 1 <= len(requests) <= self.max_requests:
            raise Refusal(400, f"requests: must have 1 to {self.max_requests} items")
        if why := problem_with_ids([request.get("custom_id") for request in requests], r"[a-zA-Z0-9_-]{1,64}"):
            raise Refusal(400, f"requests.0.{why}")
        for number, request in enumerate(requests):
            if request["params"].get("stream") or request["params"]["max_tokens"] < 1:
                raise Refusal(400, f"requests.{number}.params.stream: not supported in a batch")
        self.step("create")
        batch: dict[str, Any] = {"id": f"msgbatch_{len(self.batches)}", "type": "message_batch", "requests": requests}
        batch |= {"processing_status": "in_progress", "results_url": None, "cancel_initiated_at": None, "polls": 0}
        batch["created_at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        batch["request_counts"] = {"processing": len(requests)}
        self.batches[batch["id"]] = batch
        self.step("created")
        return self.shown(batch)

    def shown(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in batch.items() if name not in ("requests", "polls", "results")}

    def _advance(self, batch: dict[str, Any]) -> None:
        batch["polls"] += 1
        is_over = batch["polls"] > self.polls and self.may_end.is_set() and batch["id"] not in self.held
        if batch["processing_status"] == "ended" or not is_over:
            return
        kinds = {200: "succeeded", 408: "expired", 410: "canceled"}
        results = []
        for request in reversed(batch["requests"]):
            status, reply = self.answered(request["params"])
            kind = kinds.get(status, "errored")
            result = {"type": kind} | ({"message": reply} if status == 200 else {})
            results.append(
                {"custom_id": request["custom_id"], "result": result | ({"error": reply} if kind == "errored" else {})}
            )
        counts = [request["result"]["type"] for request in results]
        batch["request_counts"] = {"processing": 0, **{kind: counts.count(kind) for kind in set(counts)}}
        batch |= {"processing_status": "ended", "results": results}
        batch["results_url"] = f"{self.url}/v1/messages/batches/{batch['id']}/results"
        if self.ending == "cancelled":
            batch["cancel_initiated_at"] = batch["created_at"]

    def get(self, path: str, query: dict[str, str]) -> Any:
        if path == "/v1/messages/batches":
            self.step("list")
            newest = [self.shown(batch) for batch in reversed(self.batches.values())]
            return self.page(newest, query.get("after_id"), self.list_size(query, 1000))
        name, *more = path.removeprefix("/v1/messages/batches/").split("/")
        if name not in self.batches:
            raise Refusal(404, "Not found")
        batch = self.batches[name]
        if more == ["results"]:
            if batch["processing_status"] != "ended":
                raise Refusal(400, "The batch has not ended: there are no results")
            self.step("results")
            return "\n".join(map(json.dumps, batch["results"])).encode()
        self.step("look")
        self.looks.append(time.monotonic())
        self._advance(batch)
        return self.shown(batch)


@contextlib.contextmanager
def stand_in_server(server: BatchServer) -> Iterator[BatchServer]:
    """Serve a stand-in on loopback."""

    class Handler(Endpoint):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            self.respond(lambda path, _: server.post(path, self.headers, data))

        def do_GET(self) -> None:
            self.respond(server.get)

        def respond(self, act: Callable[[str, dict[str, str]], Any]) -> None:
            path, _, query = self.path.partition("?")
            try:
                body, status = act(path, dict(urllib.parse.parse_qsl(query))), 200
            except Refusal as refusal:
                status, body = refusal.status, {"error": {"message": str(refusal), "type": "error", "param": None}}
            with contextlib.suppress(OSError):  # the client may be gone
                self.reply(status, body if isinstance(body, bytes) else json.dumps(body).encode())

    listening = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    server.url = f"http://127.0.0.1:{listening.server_port}"
    try:
        yield server
    finally:
        server.may_continue.set()
        listening.shutdown()
        listening.server_close()
