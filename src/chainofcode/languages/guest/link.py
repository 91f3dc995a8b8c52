"""The guest's end of the wire: a frame is a u32 length and a JSON message. Standard library only.

guest → host  parsed · ran · paused · settled · wrote · ended      host → guest  start · resume
A shadow of the program sends parsed · paused · surveyed, and receives start · survey.
"""

from __future__ import annotations

import json
import json.encoder
import os
import struct
import threading
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any, NoReturn

MAX_FRAME_BYTES = 64 * 1024 * 1024
MAX_QUESTIONS = 10_000  # module lookups per run
MAX_FRAME_MEMORY = 128 * 1024 * 1024  # of the host, for one frame as objects; see `memory_of`
RUN_FRAMES = 16  # bytes that a run may send in all, in units of the largest frame
_LENGTH = struct.Struct("<I")


class GuestLink:
    """Sends messages and waits for replies; `before_pause` posts messages that the host must get before a pause."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd, self._write_fd = read_fd, write_fd
        for fd in (read_fd, write_fd):
            os.set_inheritable(fd, False)  # child processes must not keep the pipes open
        self._os_read, self._os_write, self._os_exit = os.read, os.write, os._exit  # the program may replace them
        self.lock = self._lock = threading.RLock()
        self._inbox, self._outbox = b"", bytearray()
        self._pauses = self._sent = 0
        self.frame_bytes = MAX_FRAME_BYTES  # the largest frame that the host accepts
        self.exceeded: Callable[[str, str], None] = lambda reason, message: None  # ends the run
        self._getpid, self._pid = os.getpid, os.getpid()
        self.before_pause: Callable[[], None] = lambda: None
        self.settled: Callable[[], None] = lambda: None  # called when the program took a value that becomes a step
        self.text = self._encode = _encoder()  # a message as JSON
        self._decode = json.JSONDecoder().decode

    def leave(self, code: int = 0) -> NoReturn:
        """End the process immediately, so that no destructor of the program sends anything after the last message."""
        self._os_exit(code)

    def is_forked(self) -> bool:
        return self._getpid() != self._pid

    def post(self, message: dict[str, Any]) -> None:
        """Queue a message until the next flush: each write wakes the host."""
        self._post(self._encode(message).encode())

    def _post(self, body: bytes) -> None:
        with self._lock:
            self._check(body)
            self._outbox += _LENGTH.pack(len(body)) + body

    def _check(self, body: bytes) -> None:
        """Enforce the host's limits on frames. Room for one frame is kept for the last message of a run."""
        size, most = len(body), (RUN_FRAMES - 1) * self.frame_bytes
        self._sent += _LENGTH.size + size
        if size > self.frame_bytes:
            self.exceeded("limit:frame", f"the program sent {size:,} bytes at once; the limit is {self.frame_bytes:,}")
        elif memory_of(body) > MAX_FRAME_MEMORY:
            self.exceeded("limit:frame", "the program sent too many parts of values at once")
        elif self._sent > most:
            self.exceeded("limit:bytes", f"the program sent over {most:,} bytes in all")

    def has_room(self, answer: Any) -> bool:
        """Whether an answer fits into a frame together with its text."""
        body = self._encode(answer).encode()
        return 2 * len(body) <= self.frame_bytes and 4 * memory_of(body) <= 3 * MAX_FRAME_MEMORY

    def send(self, message: dict[str, Any]) -> None:
        with self._lock:
            self.post(message)
            self.flush()

    def finish(self, message: dict[str, Any]) -> NoReturn:
        """Send the last message and end the process."""
        with self._lock:
            body = self._encode(message).encode()
            self._outbox += _LENGTH.pack(len(body)) + body
            self.flush()
            self.leave()

    def flush(self) -> None:
        with self._lock:
            if self.is_forked():  # the wire belongs to the parent process
                self._outbox.clear()
            while self._outbox:
                del self._outbox[: self._os_write(self._write_fd, self._outbox)]

    def receive(self) -> dict[str, Any]:
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        if length > MAX_FRAME_BYTES:
            raise EOFError("the host sent an oversized frame")
        message: dict[str, Any] = self._decode(self._read(length).decode())
        return message

    def pause(self, message: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Send a request to the host and wait for the reply. One pause at a time: other threads wait for the lock.

        Call `before_pause` first, without the lock. Returns the number of the pause and the host's reply.
        """
        with self._lock:
            number = self.open(message)
            self.flush()
            reply = self.receive()
            if reply.get("type") != "resume" or reply.get("id") != number:
                raise EOFError("the host resumed another pause")
            self.tell_settled(number, message.get("statement", 0), is_step=message["kind"] != "module")
            return number, reply

    def open(self, message: dict[str, Any]) -> int:
        """Queue a request for the next flush, without waiting. Returns the number that the reply will have."""
        if self.is_forked():
            raise RuntimeError("an undefined function cannot be called in a forked process")
        self._pauses += 1
        self.post({"type": "paused", "id": self._pauses, **message})
        return self._pauses

    def tell_settled(self, number: int, statement: int, *, is_step: bool = True) -> None:
        """Tell the host that the program took the value of a pause."""
        self._post(b'{"type":"settled","id":%d,"statement":%d}' % (number, statement))
        if is_step:
            self.settled()

    def _read(self, size: int) -> bytes:
        while len(self._inbox) < size:
            chunk = self._os_read(self._read_fd, 1 << 16)
            if not chunk:
                self.leave()  # the host has closed the connection
            self._inbox += chunk
        data, self._inbox = self._inbox[:size], self._inbox[size:]
        return data


def memory_of(body: bytes) -> int:
    """Estimate the memory of decoded JSON, on the high side: commas and brackets in strings count, too."""
    parts = 64 * body.count(b",") + 30 * body.count(b":") + 88 * body.count(b"[") + 184 * body.count(b"{")
    return 4 * len(body) + parts  # a string with one character beyond the BMP takes four bytes for each


def _encoder() -> Callable[[Any], str]:
    """Return a faster `json.JSONEncoder.encode`, which builds its C part once, not for every message."""
    slow = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
    make: Callable[..., Any] | None = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return slow.encode
    # No check for circular references: a signal handler that raises would leave stale entries in its table.
    parts = make(None, slow.default, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, False)
    return lambda message: "".join(parts(message, 0))


def clean(text: str, limit: int) -> str:
    """Return text that every JSON parser accepts: of bounded length, with lone surrogates escaped."""
    if len(text) <= limit and text.isascii():
        return text
    if len(text) > limit:
        text = f"{text[:limit]}… ({len(text)} characters)"
    return text.encode("utf-8", "backslashreplace").decode()
