"""The guest's end of the wire: frames are a u32 length and a JSON message. Standard library only.

guest → host  parsed · ran · paused · settled · wrote · ended      host → guest  start · resume
A shadow of a program speaks otherwise: parsed · paused · surveyed, and hears start · survey.
"""

from __future__ import annotations

import builtins
import json
import json.encoder
import os
import struct
import sys
import threading
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take a guest longer than all of ours
    from typing import Any, NoReturn

MAX_FRAME_BYTES = 64 * 1024 * 1024
_LENGTH = struct.Struct("<I")


class Link:
    """Sends messages and waits for the host's; `before_pause` flushes what must reach the host first."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd, self._write_fd = read_fd, write_fd
        for fd in (read_fd, write_fd):
            os.set_inheritable(fd, False)  # what the program starts must not hold our pipes open
        self._os_read, self._os_write, self._os_exit = os.read, os.write, os._exit  # the program may replace them
        self.lock = self._lock = threading.RLock()
        self._inbox, self._outbox = b"", bytearray()
        self._pauses = 0
        self._getpid, self._pid = os.getpid, os.getpid()
        self.before_pause: Callable[[], None] = lambda: None
        self.settled: Callable[[], None] = lambda: None  # the program took a value that becomes a step
        self.text = self._encode = _encoder()  # a message as JSON
        self._decode = json.JSONDecoder().decode

    def leave(self, code: int = 0) -> NoReturn:
        """End the process at once: no destructor of the program's speaks after the end."""
        self._os_exit(code)

    def is_forked(self) -> bool:
        return self._getpid() != self._pid

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
            if self.is_forked():  # a forked child: the wire is its parent's
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
        """Ask the host and wait for what it says. One pause at a time: other threads wait for their turn.

        Call `before_pause` first, without the lock. Gives the number of the pause and the host's reply.
        """
        with self._lock:
            number = self.open(message)
            self.flush()
            reply = self.receive()
            if reply.get("type") != "resume" or reply.get("id") != number:
                raise EOFError("the host resumed something else")
            self.tell_settled(number, message.get("statement", 0), is_step=message["kind"] != "module")
            return number, reply

    def open(self, message: dict[str, Any]) -> int:
        """Ask the host, with the next flush and without waiting. Gives the number by which it will answer."""
        if self.is_forked():
            raise RuntimeError("a hole cannot be called in a forked process")
        self._pauses += 1
        self.post({"type": "paused", "id": self._pauses, **message})
        return self._pauses

    def tell_settled(self, number: int, statement: int, *, is_step: bool = True) -> None:
        """Say that the program took the value of a pause."""
        self._post(b'{"type":"settled","id":%d,"statement":%d}' % (number, statement))
        if is_step:
            self.settled()

    def _read(self, size: int) -> bytes:
        while len(self._inbox) < size:
            chunk = self._os_read(self._read_fd, 1 << 16)
            if not chunk:
                self.leave()  # the host is gone: nobody is left to tell
            self._inbox += chunk
        data, self._inbox = self._inbox[:size], self._inbox[size:]
        return data


def _encoder() -> Callable[[Any], str]:
    """`json.JSONEncoder.encode`, which builds its C part anew for every message, with that part built once."""
    slow = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
    make: Callable[..., Any] | None = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return slow.encode
    # No record of what is being encoded: a signal handler that raises would leave entries in it.
    parts = make(None, slow.default, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, False)
    return lambda message: "".join(parts(message, 0))


_get_limit, _set_limit = sys.getrecursionlimit, sys.setrecursionlimit  # the program may replace them


class headroom:
    """Our own few frames must not make a deeply recursive program hit its limit early."""

    __slots__ = ("_frames", "_usual")
    _raised_to = _lent = 0  # what was lent and could not be taken back yet

    def __init__(self, frames: int = 120) -> None:
        self._frames = frames

    def __enter__(self) -> None:
        limit = _get_limit()
        self._usual = limit - headroom._lent if limit == headroom._raised_to else limit
        headroom._raised_to = min(self._usual + self._frames, 2**31 - 1)
        headroom._lent = headroom._raised_to - self._usual
        _set_limit(headroom._raised_to)

    def __exit__(self, *exc: object) -> None:
        try:
            _set_limit(self._usual)
            headroom._raised_to = headroom._lent = 0
        except RecursionError as error:  # refused where the stack is that deep just now: the next to leave tries again
            if not is_ours(error):
                raise


_FAILURES = frozenset(
    id(kind)
    for kind in vars(builtins).values()
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, TimeoutError)
)


def is_ours(error: BaseException) -> bool:
    """Whether our own code failed, on our own behalf. Such an error must not reach the program.

    Others only came up while it ran: a signal handler of the program raised them, or another thread sent them.
    """
    if id(type(error)) not in _FAILURES:
        return False
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith("<"):  # the program, or text that it runs
            return False
        trace = trace.tb_next
    return True


def clean(text: str, limit: int) -> str:
    """Text that any JSON reader takes: bounded, lone surrogates written out."""
    if len(text) <= limit and text.isascii():
        return text
    if len(text) > limit:
        text = f"{text[:limit]}… ({len(text)} characters)"
    return text.encode("utf-8", "backslashreplace").decode()
