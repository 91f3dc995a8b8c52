"""Write a trace during its run, so that a run that was killed can be resumed.

The journal of `FILE` is `FILE.journal`. It is a trace without an end, with an additional kind of line for a tool call
that has begun. When the run ends, the trace itself is written and the journal removed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from ..seals import Seals, find_key_problem, make_key
from ..trace import Call, Event, Header, Produced, Returned, Sent, Trace, as_json, chained, linked

BEGUN = "begun"  # as the reply of a tool call: it is in progress


def journal_of(path: Path) -> Path:
    return path.parent / f"{path.name}.journal"


class Journal:
    """Writes each event of a run immediately. A failed write ends the journal, not the run."""

    def __init__(self, path: Path, warn: Callable[[str], None] = lambda text: None) -> None:
        self._path, self._warn, self._digest = journal_of(path), warn, ""
        self._seals = Seals(None)
        self._file: BinaryIO | None = None
        self._tools: set[str] = set()

    def add(self, event: Event) -> None:
        if isinstance(event, Header):
            self._begin(event)
        elif isinstance(event, Sent):
            name = event.call.partition("(")[0]
            if name in self._tools:
                self._write(Call(prompt=event.call, reply=BEGUN, tool=name, is_abandoned=True))
        elif not isinstance(event, (Returned, Produced)):
            self._write(event)

    def _begin(self, header: Header) -> None:
        tools = header.settings.get("tools")
        self._tools = set(tools) if isinstance(tools, list) else set()
        try:
            if self._path.exists():  # keep the values that an earlier run paid for
                kept = self._path.with_name(f"{self._path.name}.old")
                self._path.replace(kept)
                self._warn(f"an earlier run was interrupted; its journal is kept as {kept}")
            self._file = self._path.open("xb", buffering=0)
            key = make_key()
            self._seals = Seals(key)
            if key is None:
                self._warn(f"the trace gets no seal, and will count as someone else's: {find_key_problem()}")
        except OSError as error:
            self._fail(error)
        self._write(header)

    def _write(self, item: object) -> None:
        if self._file is None:
            return
        line = self._seals.seal(as_json(item))
        self._digest = linked(self._digest, line)
        try:
            self._file.write(chained(line, self._digest) + b"\n")
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self._file = None
        self._warn(f"the run cannot be resumed if it is killed: cannot write {self._path}: {error.strerror}")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def remove_journal(path: Path) -> None:
    """Remove the journal of a trace, once the trace is written."""
    with contextlib.suppress(OSError):
        journal_of(path).unlink(missing_ok=True)


def read_interrupted(path: Path) -> Trace:
    """Read the trace of an interrupted run: the file, or its journal if that has more events.

    Then the journal replaces the file, because the resumed run writes a journal of its own.
    """
    journal = journal_of(path)
    if not journal.exists():
        return Trace.read(path, is_whole=False)
    continued = Trace.read(journal, is_whole=False)
    if path.exists() and len(Trace.read(path, is_whole=False).events) >= len(continued.events):
        journal.unlink()
        return Trace.read(path, is_whole=False)
    journal.replace(path)
    return continued
