"""The guest's end of the wire: frames are a u32 length and a JSON message. Standard library only.

guest → host  parsed · ran · paused · settled · ended        host → guest  start · resume
"""

from __future__ import annotations

import json
import json.encoder
import os
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any

MAX_FRAME_BYTES = 64 * 1024 * 1024
_LENGTH = struct.Struct("<I")


class Link:
    """Sends messages and waits for the host's; `before_pause` flushes what must reach the host first."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd, self._write_fd = read_fd, write_fd
        self._lock = threading.RLock()
        self._inbox, self._outbox = b"", bytearray()
        self._pauses = 0
        self._pid = os.getpid()
        self.before_pause: Callable[[], None] = lambda: None
        self._encode = _encoder()
        self._decode = json.JSONDecoder().decode

    def post(self, message: dict[str, Any]) -> None:
        """Leave a message to go with the next one sent: a write wakes the host."""
        self._post(self._encode(message).encode())

    def _post(self, body: bytes) -> None:
        with self._lock:
            self._outbox += _LENGTH.pack(len(body)) + body

    def send(self, message: dict[str, Any]) -> None:
        with self._lock:
            self.post(message)
            self.flush()

    def flush(self) -> None:
        with self._lock:
            while self._outbox:
                del self._outbox[: os.write(self._write_fd, self._outbox)]

    def receive(self) -> dict[str, Any]:
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        if length > MAX_FRAME_BYTES:
            raise EOFError("the host sent an oversized frame")
        message: dict[str, Any] = self._decode(self._read(length).decode())
        return message

    def pause(self, message: dict[str, Any]) -> dict[str, Any]:
        """Ask the host and wait for what it says. One pause at a time: other threads wait for their turn."""
        if os.getpid() != self._pid:
            raise RuntimeError("a hole cannot be called in a forked process")
        with self._lock:
            self.before_pause()
            self._pauses += 1
            self.send({"type": "paused", "id": self._pauses, **message})
            reply = self.receive()
            if reply.get("type") != "resume" or reply.get("id") != self._pauses:
                raise EOFError("the host resumed something else")
            self._post(b'{"type":"settled","id":%d}' % self._pauses)
            return reply

    def _read(self, size: int) -> bytes:
        while len(self._inbox) < size:
            chunk = os.read(self._read_fd, 1 << 16)
            if not chunk:
                os._exit(0)  # the host is gone: nobody is left to tell
            self._inbox += chunk
        data, self._inbox = self._inbox[:size], self._inbox[size:]
        return data


def _encoder() -> Callable[[Any], str]:
    """`json.JSONEncoder.encode`, which builds its C part anew for every message, with that part built once."""
    slow = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
    make: Callable[..., Any] | None = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return slow.encode
    parts = make({}, slow.default, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, False)
    return lambda message: "".join(parts(message, 0))


class headroom:
    """Our own few frames must not make a deeply recursive program hit its limit early."""

    __slots__ = ("_frames", "_limit")

    def __init__(self, frames: int = 120) -> None:
        self._frames = frames

    def __enter__(self) -> None:
        self._limit = sys.getrecursionlimit()
        sys.setrecursionlimit(self._limit + self._frames)

    def __exit__(self, *exc: object) -> None:
        sys.setrecursionlimit(self._limit)


def clean(text: str, limit: int) -> str:
    """Text that any JSON reader takes: bounded, lone surrogates written out."""
    if len(text) > limit:
        text = f"{text[:limit]}… ({len(text)} characters)"
    return text.encode("utf-8", "backslashreplace").decode()
