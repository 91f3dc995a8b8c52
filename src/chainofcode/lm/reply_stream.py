"""Replies that arrive as server-sent events, joined into the body that an endpoint sends without streaming."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import msgspec

from ..credentials import Credentials, Removal
from ..errors import LMError

OnText = Callable[[str], None]  # called with the whole reply so far, in the event loop of the request
_NO_CREDENTIALS = Credentials(())


class ReplyStream(abc.ABC):
    """Reads the bytes of a streamed reply, calls `on_text` as its text grows, and returns the joined body.

    The credentials are removed from what `on_text` gets and from an error that the endpoint reports, not from the body.
    """

    events: msgspec.json.Decoder[Any]

    def __init__(self, on_text: OnText, credentials: Credentials = _NO_CREDENTIALS) -> None:
        self._on_text, self._credentials, self._rest = on_text, credentials, bytearray()
        self._removal, self._shown = Removal(credentials), ""
        self.text, self.finish = "", ""

    @abc.abstractmethod
    def body(self) -> bytes:
        """Return the whole reply. Raises LMError if the stream ended early."""

    @abc.abstractmethod
    def _take(self, event: Any) -> None: ...

    def feed(self, data: bytes) -> None:
        """Process bytes. Raises LMError for malformed events and for errors that an endpoint reports."""
        self._rest += data
        if b"\n" not in data:  # a line may arrive byte by byte
            return
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                self._read(line[5:].strip())

    def _read(self, data: bytes | bytearray) -> None:
        if data == b"[DONE]":
            self.finish = self.finish or "stop"
            return
        try:
            event = self.events.decode(data)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:  # ValueError: not UTF-8
            raise LMError(f"malformed event in a streamed reply: {error}", is_transient=True) from None
        self._take(event)

    def _write(self, text: str | None) -> None:
        if text:
            self.text += text
            self._show(self._removal.feed(text))

    def _show(self, text: str) -> None:
        if text:
            self._shown += text
            self._on_text(self._shown)

    def _refuse(self, error: Any) -> None:
        if error is not None:
            message = self._credentials.remove(str(error.get("message", error) if isinstance(error, dict) else error))
            raise LMError(f"the model stopped in the middle of its reply: {message[:300]}", is_transient=True)

    def _end(self) -> None:
        if not self.finish:
            raise LMError("the connection ended in the middle of a reply", is_transient=True)
        self._show(self._removal.finish())


class _Delta(msgspec.Struct, frozen=True):
    content: str | None = None


class _ChunkChoice(msgspec.Struct):
    delta: _Delta = _Delta()
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_ChunkChoice] = []
    usage: Any = None
    timings: dict[str, Any] | None = None  # from llama.cpp only
    error: Any = None


class ChatStream(ReplyStream):
    """One reply in OpenAI's chat format."""

    events = msgspec.json.Decoder(_Chunk)

    def __init__(self, on_text: OnText, credentials: Credentials = _NO_CREDENTIALS) -> None:
        super().__init__(on_text, credentials)
        self._facts: dict[str, Any] = {}

    def _take(self, event: _Chunk) -> None:
        self._refuse(event.error)
        for name in ("usage", "timings"):
            if getattr(event, name) is not None:
                self._facts[name] = getattr(event, name)
        for choice in event.choices[:1]:
            self.finish = choice.finish_reason or self.finish
            self._write(choice.delta.content)

    def body(self) -> bytes:
        self._end()
        choice = {"message": {"content": self.text}, "finish_reason": self.finish}
        return msgspec.json.encode({"choices": [choice], **self._facts})


class _MessageDelta(msgspec.Struct):
    text: str | None = None
    stop_reason: str | None = None


class _MessageStart(msgspec.Struct):
    usage: Any = None


class _MessageEvent(msgspec.Struct):
    message: _MessageStart | None = None
    delta: _MessageDelta | None = None
    usage: Any = None
    error: Any = None


class MessageStream(ReplyStream):
    """One text reply in Anthropic's format."""

    events = msgspec.json.Decoder(_MessageEvent)

    def __init__(self, on_text: OnText, credentials: Credentials = _NO_CREDENTIALS) -> None:
        super().__init__(on_text, credentials)
        self._usage: dict[str, Any] = {}

    def _take(self, event: _MessageEvent) -> None:
        self._refuse(event.error)
        usage = event.usage if event.message is None else event.message.usage
        self._usage |= usage if isinstance(usage, dict) else {}  # a reply with malformed token counts stays valid
        if event.delta is not None:
            self.finish = event.delta.stop_reason or self.finish
            self._write(event.delta.text)

    def body(self) -> bytes:
        self._end()
        block = {"type": "text", "text": self.text}
        return msgspec.json.encode({"content": [block], "stop_reason": self.finish, "usage": self._usage})
