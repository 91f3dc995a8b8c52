"""The wire between the host and one guest: its interface, and pipes to a process on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import Protocol

_READ_BYTES = 1 << 18


class Wire(Protocol):
    """The host's end of the connection with a guest."""

    @property
    def has_exited(self) -> bool:
        """Whether the guest process has ended. A process that it started may still keep the wire open."""

    def begin(self, wake: Callable[[], bool], noise: Callable[[bytes], None]) -> None:
        """Start listening. `wake` is called when there are bytes to receive or the process has ended; it returns
        whether the session was waiting. `noise` receives what the process writes outside the protocol."""

    def receive(self) -> bytes | None:
        """Return the bytes that have arrived; empty if the guest has closed its end, None if no bytes have arrived."""

    def listen(self) -> None:
        """Call `wake` when the next bytes arrive."""

    def send(self, data: bytes) -> None:
        """Send bytes as soon as the guest accepts them."""

    def read_noise(self) -> None:
        """Read the noise that has arrived."""

    def end(self) -> None:
        """Stop listening."""


class Pipes:
    """The host's ends of a guest's pipes, and a descriptor of its process."""

    def __init__(self, *, read_fd: int, write_fd: int, noise_fd: int, exit_fd: int) -> None:
        """`noise_fd` is what the process writes outside the protocol; `exit_fd` is readable when it has ended."""
        self.read_fd, self.write_fd, self.noise_fd, self.exit_fd = read_fd, write_fd, noise_fd, exit_fd
        self.has_exited = self._is_listening = False
        self._outbox = bytearray()

    def close(self) -> None:
        for fd in (self.read_fd, self.write_fd, self.noise_fd, self.exit_fd):
            os.close(fd)

    def begin(self, wake: Callable[[], bool], noise: Callable[[bytes], None]) -> None:
        self._wake, self._noise = wake, noise
        self._loop = asyncio.get_running_loop()
        for fd in (self.read_fd, self.write_fd, self.noise_fd):
            os.set_blocking(fd, False)
        self._loop.add_reader(self.noise_fd, self.read_noise)
        self._loop.add_reader(self.exit_fd, self._on_exit)

    def end(self) -> None:
        self._loop.remove_writer(self.write_fd)
        for fd in (self.read_fd, self.noise_fd, self.exit_fd):
            self._loop.remove_reader(fd)

    def receive(self) -> bytes | None:
        try:
            return os.read(self.read_fd, _READ_BYTES)
        except BlockingIOError:
            return None

    def listen(self) -> None:
        if not self._is_listening:
            self._loop.add_reader(self.read_fd, self._on_readable)
            self._is_listening = True

    def _on_readable(self) -> None:
        """Handle readable data. If the session is not waiting, stop listening until it is."""
        if not self._wake():
            self._loop.remove_reader(self.read_fd)
            self._is_listening = False

    def _on_exit(self) -> None:
        self._loop.remove_reader(self.exit_fd)
        self.has_exited = True
        self._wake()

    def read_noise(self) -> None:
        try:
            data = os.read(self.noise_fd, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self.noise_fd)
        self._noise(data)

    def send(self, data: bytes) -> None:
        self._outbox += data
        self._write()

    @property
    def unsent_bytes(self) -> int:
        return len(self._outbox)

    def _write(self) -> None:
        """Write what the pipe accepts now; the event loop calls again for the rest."""
        try:
            with _without_sigpipe():
                while self._outbox:
                    del self._outbox[: os.write(self.write_fd, self._outbox)]
        except BlockingIOError:
            self._loop.add_writer(self.write_fd, self._write)
            return
        except BrokenPipeError:  # the guest died; the session notices when it reads
            self._outbox.clear()
        self._loop.remove_writer(self.write_fd)


@contextlib.contextmanager
def _without_sigpipe() -> Iterator[None]:
    """Block SIGPIPE: a guest that closes its pipe must not kill a host with the default handler."""
    if signal.getsignal(signal.SIGPIPE) is not signal.SIG_DFL:
        yield
        return
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPIPE])
    try:
        yield
    finally:
        signal.sigtimedwait([signal.SIGPIPE], 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
