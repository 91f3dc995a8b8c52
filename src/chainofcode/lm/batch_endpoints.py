"""The batch endpoints of OpenAI and Anthropic, as documented in November 2026, through the vendors' packages.

OpenAI: a file of JSON lines is uploaded, a batch refers to it, and the results are one or two files. Batches carry the
token as metadata. Anthropic: the batch contains the requests, and the results are JSON lines. A batch has no metadata:
only its results show the custom ids.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import msgspec

from ..errors import LMError
from .batches import BatchState, Keep
from .remote import NotFound, RemoteLM

_URL = "/v1/chat/completions"
_TOKEN = "chainofcode"  # noqa: S105  (the key of a batch's metadata)
_CLOCK_SECONDS = 3600  # by which this machine's clock may differ from the provider's
_MAX_PAGES, _PAGE = 20, 100
_EXPIRED = 408  # the HTTP status for a request that expired with its batch: it may be sent again
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_Answer = TypeVar("_Answer")
_Responding = Callable[[Any], AbstractAsyncContextManager[Any]]


class _VendorBatches:
    """The common part of both endpoints."""

    def __init__(self, lm: RemoteLM) -> None:
        self._lm = lm

    async def _ask(self, responding: _Responding, kind: type[_Answer]) -> _Answer:
        data = await self._lm.use_client(lambda client: self._lm.read_bounded(responding(client)))
        return self._decoded(self._clean(data, is_transient=True), kind, is_transient=True)

    async def _known(self, batch_id: str, responding: _Responding, kind: type[_Answer]) -> _Answer:
        try:
            return await self._ask(responding, kind)
        except NotFound as error:
            text = f"{self._lm.name} has no batch {batch_id}; was it sent with another key? ({error.detail})"
            raise LMError(text) from None

    async def _create(self, responding: _Responding, kind: type[_Answer]) -> _Answer:
        try:
            return await self._ask(responding, kind)
        except NotFound as error:
            raise LMError(f"{self._lm.base_url_shown} has no batch endpoint ({error.detail})") from None

    async def _read(self, responding: _Responding, take: Callable[[bytes], None]) -> None:
        try:
            await self._lm.use_client(
                lambda client: self._lm.read_lines(responding(client), lambda line: take(self._clean(line)))
            )
        except NotFound as error:
            text = f"{self._lm.name} no longer has the results of a batch ({error.detail}); choose another --out"
            raise LMError(text) from None

    def _clean(self, data: bytes, *, is_transient: bool = False) -> bytes:
        """Return JSON without the key: results are stored, and ids and messages are shown."""
        known: Any = self._decoded(data, object, is_transient=is_transient)
        clean = self._lm.credentials.remove_from(known)
        return data if clean == known else msgspec.json.encode(clean)

    def _decoded(self, data: bytes, kind: type[_Answer], *, is_transient: bool = False) -> _Answer:
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            text = f"{self._lm.name} sent a malformed reply about a batch: {error}"
            raise LMError(text, is_transient=is_transient) from None


# --- OpenAI -------------------------------------------------------------------------------------------------------


class _Uploaded(msgspec.Struct):
    id: str


class _Problem(msgspec.Struct):
    code: str | None = None
    message: str | None = None


class _Problems(msgspec.Struct):
    data: list[_Problem] | None = None


class _FileCounts(msgspec.Struct):
    total: int = 0
    completed: int = 0
    failed: int = 0


class _FileBatch(msgspec.Struct):
    id: str
    status: str
    created_at: float = 0
    request_counts: _FileCounts | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: _Problems | None = None
    metadata: dict[str, str] | None = None


class _FileBatchPage(msgspec.Struct):
    data: list[_FileBatch]
    has_more: bool = False


class _Response(msgspec.Struct):
    status_code: int
    body: msgspec.Raw = msgspec.Raw(b"{}")


class _FileLine(msgspec.Struct):
    custom_id: str
    response: _Response | None = None
    error: _Problem | None = None


class OpenAIBatches(_VendorBatches):
    """`/v1/files` and `/v1/batches`."""

    max_requests, max_bytes, has_tokens = 50_000, 200_000_000, True

    async def send(self, token: str, requests: Sequence[tuple[str, dict[str, Any]]]) -> str:
        lines = [
            msgspec.json.encode({"custom_id": custom_id, "method": "POST", "url": _URL, "body": body})
            for custom_id, body in requests
        ]
        file = (f"{token}.jsonl", b"\n".join([*lines, b""]), "application/jsonl")
        uploaded = await self._create(
            lambda client: client.files.with_streaming_response.create(file=file, purpose="batch"), _Uploaded
        )
        options = {"endpoint": _URL, "completion_window": "24h", "metadata": {_TOKEN: token}}
        batch = await self._create(
            lambda client: client.batches.with_streaming_response.create(input_file_id=uploaded.id, **options),
            _FileBatch,
        )
        return batch.id

    async def look_up(self, batch_id: str) -> BatchState:
        batch = await self._retrieved(batch_id)
        counts = batch.request_counts or _FileCounts()
        problems = ((batch.errors.data if batch.errors is not None else None) or [])[:3]
        problem = {"expired": "has expired", "cancelled": "was cancelled", "failed": "was rejected"}.get(
            batch.status, ""
        )
        if problems:
            problem += ": " + "; ".join((error.message or error.code or "")[:300] for error in problems)
        if any(error.code == "token_limit_exceeded" for error in problems):
            problem += " (--at-once N makes smaller batches)"
        return BatchState(
            is_ended=batch.status in ("completed", "expired", "cancelled", "failed"),
            done=counts.completed + counts.failed,
            total=counts.total,
            problem=problem,
            is_transient=batch.status not in ("cancelled", "failed"),
        )

    async def candidates(self, token: str, noted: float, size: int) -> list[str]:
        after: dict[str, str] = {}
        for _ in range(_MAX_PAGES):
            page = await self._page(after)
            found = [batch.id for batch in page.data if (batch.metadata or {}).get(_TOKEN) == token]
            if found or not page.has_more or not page.data or page.data[-1].created_at < noted - _CLOCK_SECONDS:
                return found
            after = {"after": page.data[-1].id}
        return []

    async def read_results(self, batch_id: str, keep: Keep) -> None:
        def take(data: bytes) -> None:
            line = self._decoded(data, _FileLine)
            if line.response is not None:
                keep(line.custom_id, (line.response.status_code, bytes(line.response.body)))
            elif line.error is not None and line.error.code == "batch_cancelled":
                keep(line.custom_id, None)
            else:
                problem = {"error": line.error or _Problem(message="the batch has no result for this request")}
                keep(line.custom_id, (_EXPIRED, msgspec.json.encode(problem)))

        batch = await self._retrieved(batch_id)
        for file_id in filter(None, (batch.output_file_id, batch.error_file_id)):
            await self._read_file(file_id, take)

    async def _read_file(self, file_id: str, take: Callable[[bytes], None]) -> None:
        await self._read(lambda client: client.files.with_streaming_response.content(file_id), take)

    async def _page(self, after: dict[str, str]) -> _FileBatchPage:
        return await self._ask(
            lambda client: client.batches.with_streaming_response.list(limit=_PAGE, **after), _FileBatchPage
        )

    async def _retrieved(self, batch_id: str) -> _FileBatch:
        return await self._known(
            batch_id, lambda client: client.batches.with_streaming_response.retrieve(batch_id), _FileBatch
        )


# --- Anthropic ----------------------------------------------------------------------------------------------------


class _MessageCounts(msgspec.Struct):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0

    @property
    def total(self) -> int:
        return self.processing + self.succeeded + self.errored + self.canceled + self.expired


class _MessageBatch(msgspec.Struct):
    id: str
    processing_status: str
    created_at: datetime.datetime
    request_counts: _MessageCounts
    results_url: str | None = None
    cancel_initiated_at: str | None = None


class _MessageBatchPage(msgspec.Struct):
    data: list[_MessageBatch]
    has_more: bool = False


class _MessageFault(msgspec.Struct):
    type: str = ""


class _MessageProblem(msgspec.Struct):
    error: _MessageFault = msgspec.field(default_factory=_MessageFault)


class _MessageResult(msgspec.Struct):
    type: str
    message: msgspec.Raw = msgspec.Raw(b"{}")
    error: msgspec.Raw = msgspec.Raw(b"{}")


class _MessageLine(msgspec.Struct):
    custom_id: str
    result: _MessageResult


class AnthropicBatches(_VendorBatches):
    """`/v1/messages/batches`."""

    max_requests, has_tokens = 100_000, False
    max_bytes = 128_000_000  # half of the limit: the package may escape characters

    async def send(self, token: str, requests: Sequence[tuple[str, dict[str, Any]]]) -> str:
        # As an extra body: the package would validate each part against many types.
        extra = {"requests": [{"custom_id": custom_id, "params": body} for custom_id, body in requests]}
        batch = await self._create(
            lambda client: client.messages.batches.with_streaming_response.create(requests=[], extra_body=extra),
            _MessageBatch,
        )
        return batch.id

    async def look_up(self, batch_id: str) -> BatchState:
        batch = await self._retrieved(batch_id)
        counts, is_cancelled = batch.request_counts, batch.cancel_initiated_at is not None
        return BatchState(
            is_ended=batch.processing_status == "ended",
            done=counts.total - counts.processing,
            total=counts.total,
            problem="was cancelled" if is_cancelled else "",
            is_transient=not is_cancelled,
        )

    async def candidates(self, token: str, noted: float, size: int) -> list[str]:
        found: list[str] = []
        after: dict[str, str] = {}
        for _ in range(_MAX_PAGES):
            page = await self._page(after)
            recent = [batch for batch in page.data if batch.created_at.timestamp() > noted - _CLOCK_SECONDS]
            found += [batch.id for batch in recent if batch.request_counts.total == size]
            if not page.has_more or len(recent) < len(page.data) or not page.data:
                return found
            after = {"after_id": page.data[-1].id}
        return found

    async def read_results(self, batch_id: str, keep: Keep) -> None:
        def take(data: bytes) -> None:
            line = self._decoded(data, _MessageLine)
            match line.result.type:
                case "succeeded":
                    keep(line.custom_id, (200, bytes(line.result.message)))
                case "errored":
                    problem = self._decoded(bytes(line.result.error), _MessageProblem)
                    keep(line.custom_id, (_STATUS.get(problem.error.type, 500), bytes(line.result.error)))
                case "expired":
                    text = {"message": f"the batch {batch_id} expired before this request was answered"}
                    keep(line.custom_id, (_EXPIRED, msgspec.json.encode({"error": text})))
                case _:
                    keep(line.custom_id, None)

        batch = await self._retrieved(batch_id)
        if not (batch.results_url or "").startswith(f"{self._lm.base_url}/"):  # no other host may get the key
            raise LMError(f"{self._lm.name} has no results for the batch {batch_id} at {self._lm.base_url_shown}")
        await self._read(lambda client: client.messages.batches.with_streaming_response.results(batch_id), take)

    async def _page(self, after: dict[str, str]) -> _MessageBatchPage:
        return await self._ask(
            lambda client: client.messages.batches.with_streaming_response.list(limit=_PAGE, **after), _MessageBatchPage
        )

    async def _retrieved(self, batch_id: str) -> _MessageBatch:
        return await self._known(
            batch_id, lambda client: client.messages.batches.with_streaming_response.retrieve(batch_id), _MessageBatch
        )
