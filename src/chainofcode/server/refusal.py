"""Requests that the server refuses, as exceptions; each protocol turns them into its own error responses."""

from __future__ import annotations


class Refusal(Exception):
    """The HTTP status, an error code (`kind`) and the reason; `param` names the invalid part of the request."""

    def __init__(
        self, status: int, kind: str, message: str, *, retry_seconds: float | None = None, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.param = status, kind, message, param
        self.retry_seconds = retry_seconds


class StorageError(Refusal):
    """The store cannot read or write, for example because the disk is full."""

    def __init__(self, reason: str) -> None:
        super().__init__(503, "storage", f"the server's storage is unavailable: {reason}", retry_seconds=60)


class TakenOver(Refusal):
    """The run belongs to another server: this one may not write it."""

    def __init__(self) -> None:
        super().__init__(409, "not_over", "another server has taken over the run")


def invalid(message: str, param: str | None = None) -> Refusal:
    """An invalid request (400)."""
    return Refusal(400, "invalid_request", message, param=param)
