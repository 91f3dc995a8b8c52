"""What the models of a server do before they can answer: download, load, process their instructions."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Iterator, Sequence

from ..errors import ChainOfCodeError
from ..lm import LM, Message
from ..lm.weights import Progress
from .metrics import ServerLog

_STARTING, _UNAVAILABLE = "starting", "unavailable; see the server's log"
_MAX_CHARS = 500
_LOG_SECONDS = 5.0  # between log lines about one download
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 5.0, 300.0  # before a model that failed is prepared again


class ModelStates:
    """What requests to each model are waiting for; a model that is ready has no entry."""

    def __init__(self) -> None:
        self.waiting_for: dict[str, str] = {}
        self._unready: set[str] = set()  # those whose preparation has not succeeded yet

    def problem(self, name: str) -> str:
        """Return what the preparation of a model is waiting for; empty once the model has been ready."""
        return f"{name}: {self.waiting_for.get(name, _STARTING)}" if name in self._unready else ""

    def progress(self, name: str) -> Progress:
        """Return the function to which a model reports its progress, from any thread."""
        return functools.partial(self._report, name)

    def _report(self, name: str, done: int, total: int, what: str) -> None:
        text = f"downloading {done / 1e6:,.0f} of {total / 1e6:,.0f} MB from {what}" if total else what
        self.waiting_for[name] = text[:_MAX_CHARS]

    @contextlib.contextmanager
    def request(self, name: str) -> Iterator[None]:
        """Watch a request: its success means that the model is ready; a failure while waiting, that it is not."""
        failed = False
        try:
            yield
            self._unready.discard(name)
        except Exception:  # also from a provider in another package
            failed = name in self.waiting_for
            raise
        finally:
            if failed:
                self.waiting_for[name] = _UNAVAILABLE  # the error itself may name paths
            elif name not in self._unready:
                self.waiting_for.pop(name, None)

    async def prepare(self, name: str, lm: LM, messages: Sequence[Message], log: ServerLog) -> None:
        """Prepare a model, with retries, and log its progress. A failure is shown until a request succeeds."""
        self.waiting_for[name] = _STARTING
        self._unready.add(name)
        await self._prepare_once(name, lm, messages, log)
        pause = _FIRST_PAUSE_SECONDS
        while name in self._unready:
            await asyncio.sleep(pause)
            await self._prepare_once(name, lm, messages, log)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def _prepare_once(self, name: str, lm: LM, messages: Sequence[Message], log: ServerLog) -> None:
        started = time.monotonic()
        logging = asyncio.create_task(self._log(name, log))
        try:
            with self.request(name):
                await lm.prepare(messages)
                has_worked = self.waiting_for.get(name) != _STARTING
        except Exception as error:  # also from a provider in another package
            kind = "" if isinstance(error, ChainOfCodeError) else f"{type(error).__name__}: "
            log.write("model unavailable", model=name, why=f"{kind}{error}"[:_MAX_CHARS])
        else:
            if has_worked:
                log.write("model ready", model=name, seconds=round(time.monotonic() - started, 1))
        finally:
            logging.cancel()

    async def _log(self, name: str, log: ServerLog) -> None:
        """Log each new activity immediately, a download from time to time."""
        last, logged_at = self.waiting_for.get(name, _STARTING), 0.0
        while True:
            await asyncio.sleep(0.1)
            text, now = self.waiting_for.get(name, last), time.monotonic()
            is_other = text.partition(" ")[0] != last.partition(" ")[0]
            if text != last and (is_other or now - logged_at >= _LOG_SECONDS):
                last, logged_at = text, now
                log.write("model", model=name, status=text)
