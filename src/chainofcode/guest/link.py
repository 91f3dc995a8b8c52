"""The guest's end of the wire: frames are a u32 length and a JSON message. Standard library only.

guest → host  parsed · ran · paused · settled · ended        host → guest  start · resume
"""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

MAX_FRAME_BYTES = 64 * 1024 * 1024
_LENGTH = struct.Struct("<I")


class Link:
    """Sends messages and waits for the host's; `before_pause` flushes what must reach the host first."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd, self._write_fd = read_fd, write_fd
        self._lock = threading.RLock()
        self._outbox = bytearray()
        self._pauses = 0
        self._pid = os.getpid()
        self.before_pause: Callable[[], None] = lambda: None
        self._encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

    def post(self, message: dict[str, Any]) -> None:
        """Leave a message to go with the next one sent: a write wakes the host."""
        body = self._encode(message).encode()
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
        message: dict[str, Any] = json.loads(self._read(length))
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
            self.post({"type": "settled", "id": self._pauses})
            return reply

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = os.read(self._read_fd, size - len(data))
            if not chunk:
                os._exit(0)  # the host is gone: nobody is left to tell
            data += chunk
        return data


@contextmanager
def headroom(frames: int = 120) -> Iterator[None]:
    """Our own few frames must not make a deeply recursive program hit its limit early."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + frames)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def clean(text: str, limit: int) -> str:
    """Text that any JSON reader takes: bounded, lone surrogates written out."""
    if len(text) > limit:
        text = f"{text[:limit]}… ({len(text)} characters)"
    return text.encode("utf-8", "backslashreplace").decode()
