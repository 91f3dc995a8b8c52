"""The native API: runs, their events, audits and files; health, metrics and the API document."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec
from starlette.requests import Request as HTTPRequest
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route

from ..trace import as_json
from ..values.image_bytes import HEAD_BYTES, media_type
from . import patterns
from .access import Access
from .api_document import document
from .intake import Intake
from .metrics import Metrics
from .refusal import Refusal, invalid
from .resuming import AnswerRequest, Resuming
from .run_kinds import ReplayRequest, ResumeRequest, RunRequest, decoded
from .runs import Runs
from .store import RunFilter, RunRecord, RunSummary, State
from .streams import EventStream, event_parts, unless_gone
from .trace_reader import Line, LongLine, TraceReader

MAX_LISTED = 200
_LISTED_CHARS, _SEARCHED_CHARS = 500, 2000
_MAX_SECONDS = 1e11
_JSON_NUMBER = r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?"


class Api:
    """The handlers. They raise Refusal."""

    def __init__(self, intake: Intake, resuming: Resuming, metrics: Metrics, access: Access) -> None:
        self._intake, self._runs, self._resuming = intake, intake.runs, resuming
        self._metrics, self._access = metrics, access

    @property
    def routes(self) -> list[Route]:
        one = "/api/runs/{id}"
        return [
            *self.operator_routes,
            Route("/openapi.json", self.openapi),
            Route("/api/info", self.info),
            Route("/api/files", self.keep_file, methods=["POST"]),
            Route("/api/runs", self.runs, methods=["GET", "POST"]),
            Route("/api/questions", self.questions),
            Route("/api/questions/{id}", self.answer, methods=["POST"]),
            Route(one, self.run, methods=["GET", "DELETE"]),
            Route(f"{one}/events", self.events),
            Route(f"{one}/trace", self.trace),
            Route(f"{one}/page", self.page),
            Route(f"{one}/cancel", self.cancel, methods=["POST"]),
            Route(f"{one}/resume", self.resume, methods=["POST"]),
            Route(f"{one}/replay", self.replay, methods=["POST"]),
            Route(f"{one}/why", self.why),
            Route(f"{one}/verify", self.verify),
            Route(f"{one}/artifacts/{{sha256}}", self.artifact),
        ]

    @property
    def operator_routes(self) -> list[Route]:
        """Routes that the admin port also serves, without tokens."""
        return [
            Route("/healthz", self.healthz),
            Route("/readyz", self.readyz),
            Route("/metrics", self.metrics),
        ]

    # --- the server itself ------------------------------------------------------------------------------------

    async def healthz(self, request: HTTPRequest) -> Response:
        return answered({"status": "ok"})

    async def readyz(self, request: HTTPRequest) -> Response:
        problems = await self._intake.problems()
        status, code = ("not ready", 503) if problems else ("ready", 200)
        return answered({"status": status, "problems": problems}, code)

    async def metrics(self, request: HTTPRequest) -> Response:
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def openapi(self, request: HTTPRequest) -> Response:
        needs_token = self._access.is_required
        return answered(document(self._intake.settings, self._intake.models.names, needs_token=needs_token))

    async def info(self, request: HTTPRequest) -> Response:
        return answered(self._intake.info())

    async def keep_file(self, request: HTTPRequest) -> Response:
        name = request.query_params.get("name", "")
        file = await self._intake.keep_file(owner_of(request), name, await request.body())
        return answered(msgspec.to_builtins(file), 201)

    # --- runs -------------------------------------------------------------------------------------------------

    async def runs(self, request: HTTPRequest) -> Response:
        return await (self.begin(request) if request.method == "POST" else self.listed(request))

    async def begin(self, request: HTTPRequest) -> Response:
        body = decoded(await json_body(request), RunRequest)
        return _accepted(await self._intake.start(owner_of(request), body))

    async def listed(self, request: HTTPRequest) -> Response:
        limit = _number(request.query_params.get("limit", "50"), 0)
        if not 1 <= limit <= MAX_LISTED:
            raise invalid(f"limit must be from 1 to {MAX_LISTED}")
        words = request.query_params.get("q", "")
        if len(words) > patterns.MAX_WORDS_CHARS:
            raise invalid(f"q can have at most {patterns.MAX_WORDS_CHARS} characters")
        before = request.query_params.get("before")
        if before is not None and not patterns.fits(patterns.RUN_ID, before):
            raise invalid("before must be the id of a run")
        run_filter = _filter(request.query_params, tuple(words.split()))
        runs = await self._runs.listed(owner_of(request), limit, before, run_filter)
        max_chars = _SEARCHED_CHARS if words else _LISTED_CHARS  # search results must show what matched
        return answered({"runs": [run.as_data(max_chars) for run in runs]})

    async def _found(self, request: HTTPRequest) -> RunRecord:
        return await self._runs.find(request.path_params["id"], owner_of(request))

    async def _summary(self, request: HTTPRequest) -> RunSummary:
        return await self._runs.find_summary(request.path_params["id"], owner_of(request))

    async def run(self, request: HTTPRequest) -> Response:
        if request.method == "DELETE":
            await self._intake.remove(owner_of(request), request.path_params["id"])
            return Response(status_code=204)
        return answered((await self._found(request)).as_data())

    async def events(self, request: HTTPRequest) -> Response:
        run, after = await self._summary(request), _number(request.headers.get("last-event-id", ""), -1)
        live = request.query_params.get("live", "1")
        if live not in ("0", "1"):
            raise invalid(f"live must be 0 or 1, not {live[:50]!r}")
        return EventStream(_events(self._runs, run, after, is_live=live == "1"), {"x-coc-run": run.id})

    async def trace(self, request: HTTPRequest) -> Response:
        run = await self._summary(request)
        path, kind = await self._intake.store.local_trace(run.id), "application/x-ndjson"
        if not path.exists():
            raise Refusal(404, "no_trace", "the run has no trace: it has no events yet")
        if run.is_over:
            return FileResponse(path, media_type=kind, headers={"cache-control": "no-store"})
        return StreamingResponse(_lines_so_far(path), media_type=kind)

    async def page(self, request: HTTPRequest) -> Response:
        """The run as one HTML file, sent as an attachment, so that it never runs as a page of this server."""
        run = await self._intake.finished(request.path_params["id"], owner_of(request))
        await request.body()
        page = await unless_gone(request, self._intake.page(run))
        name = f'attachment; filename="run-{run.id}.html"'
        return Response(page, media_type="text/html", headers={"content-disposition": name})

    async def cancel(self, request: HTTPRequest) -> Response:
        run = await self._runs.cancel(await self._found(request))
        return answered({"id": run.id, "state": run.state})

    async def resume(self, request: HTTPRequest) -> Response:
        body = decoded(await json_body(request) or b"{}", ResumeRequest)
        return _accepted(await self._resuming.resume(owner_of(request), request.path_params["id"], body.model))

    async def questions(self, request: HTTPRequest) -> Response:
        run = request.query_params.get("run")
        if run is not None and not patterns.fits(patterns.RUN_ID, run):
            raise invalid("run must be the id of a run")
        found = await self._intake.store.questions(owner_of(request), MAX_LISTED, run)
        return answered({"questions": [question.as_data() for question in found]})

    async def answer(self, request: HTTPRequest) -> Response:
        given = decoded(await json_body(request), AnswerRequest)
        return _accepted(await self._resuming.answer(owner_of(request), request.path_params["id"], given))

    async def replay(self, request: HTTPRequest) -> Response:
        body = decoded(await json_body(request) or b"{}", ReplayRequest)
        active = await self._intake.replay(owner_of(request), request.path_params["id"], body)
        return _accepted(active.run)

    async def why(self, request: HTTPRequest) -> Response:
        name = request.query_params.get("name") or None
        await request.body()
        audit = self._intake.why(owner_of(request), request.path_params["id"], name)
        return answered(await unless_gone(request, audit))

    async def verify(self, request: HTTPRequest) -> Response:
        await request.body()
        return answered(await unless_gone(request, self._intake.verify(owner_of(request), request.path_params["id"])))

    async def artifact(self, request: HTTPRequest) -> Response:
        run, sha256 = await self._found(request), request.path_params["sha256"]
        names = [str(file["name"]) for file in run.artifacts if file["sha256"] == sha256]
        path = await self._intake.store.local_artifact(sha256) if names else Path()
        if not names or not path.is_file():
            raise Refusal(404, "not_found", "the run has no artifact with this SHA-256")
        image = await asyncio.to_thread(_image_kind, path)
        return FileResponse(
            path,
            media_type=image or "application/octet-stream",
            filename=names[0].rpartition("/")[2],
            content_disposition_type="inline" if image else "attachment",
        )


async def _lines_so_far(path: Path) -> AsyncGenerator[bytes, None]:
    """The lines of a growing trace so far, in pieces: a client that does not read costs no memory."""
    with contextlib.closing(TraceReader(path)) as reader:
        while lines := await reader.batch():
            for piece in _pieces(lines):
                yield piece
                await asyncio.sleep(0)
            yield b"\n"


def _pieces(lines: Sequence[Line]) -> Iterator[bytes]:
    """A batch of lines, without the last line end."""
    if isinstance(lines[0], LongLine):
        yield from lines[0].pieces()
    else:
        yield b"\n".join(line for line in lines if isinstance(line, bytes))


async def _events(runs: Runs, run: RunSummary, after: int, *, is_live: bool) -> AsyncGenerator[bytes, None]:
    async with contextlib.aclosing(runs.follow(run, after, is_live=is_live)) as batches:
        async for batch in batches:
            async with contextlib.aclosing(event_parts(batch)) as parts:
                async for part in parts:
                    yield part


def _filter(given: Mapping[str, str], words: tuple[str, ...]) -> RunFilter:
    state = given.get("state")
    if state is not None and state not in get_args(State):
        raise invalid(f"state must be one of {', '.join(get_args(State))}, not {state[:50]!r}")
    return RunFilter(
        words=words,
        state=state,
        method=given.get("method"),
        model=given.get("model"),
        since=_timestamp(given, "since"),
        until=_timestamp(given, "until"),
    )


def _timestamp(given: Mapping[str, str], name: str) -> float | None:
    """A query parameter that is a time in seconds since 1970; None if it is missing."""
    if name not in given:
        return None
    seconds = float(given[name]) if re.fullmatch(_JSON_NUMBER, given[name]) else -1.0
    if not 0 <= seconds <= _MAX_SECONDS:
        raise invalid(f"{name} must be a number of seconds since 1970, not {given[name][:50]!r}")
    return seconds


def _number(text: str, default: int) -> int:
    return int(text) if re.fullmatch("[0-9]{1,11}", text) else default


def _image_kind(path: Path) -> str | None:
    """The media type of an image that a browser may show, by its first bytes. Not SVG: it can contain scripts."""
    with path.open("rb") as file:
        return media_type(file.read(HEAD_BYTES)) or None


def owner_of(request: HTTPRequest) -> str:
    return str(request.scope.get("owner", ""))


async def json_body(request: HTTPRequest) -> bytes:
    data = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if data and kind != "application/json":
        raise Refusal(415, "unsupported_media_type", "the body must be application/json")
    return data


def answered(data: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(as_json(data), status, headers, "application/json")


def _accepted(run: RunRecord) -> Response:
    return answered({"id": run.id, "state": run.state}, 202, {"location": f"/api/runs/{run.id}", "x-coc-run": run.id})
