"""An evaluation on disk: what was asked for, one line a result as it comes, one trace a sample. It can be resumed.

DIR/run.json          the settings, which must be the same when it is resumed
DIR/results.jsonl     one Score a line, appended
DIR/traces/…          the trace of each sample
DIR/results.parquet   the same rows as a table, written at the end
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ..errors import InputError
from ..trace import Trace
from .samples import Score

_UNSAFE = re.compile(r"[^\w.-]+")


class Store:
    """Where an evaluation keeps what it has; opening one that is there goes on with it."""

    def __init__(self, directory: Path, settings: dict[str, Any]) -> None:
        self.directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._check(settings)
            # What could not be run is tried again.
            self.done = {_key(score) for score in self._mend() if score.reason != "not run"}
            self._file = (directory / "results.jsonl").open("ab")
        except OSError as error:
            raise InputError(f"cannot keep results in {directory}: {error.strerror}") from None

    def _check(self, settings: dict[str, Any]) -> None:
        path = self.directory / "run.json"
        if not path.exists():
            partial = path.with_suffix(".partial")
            partial.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
            partial.replace(path)
            return
        known = read_settings(self.directory)
        for name in settings.keys() | known.keys():
            if settings.get(name) != known.get(name):
                raise InputError(
                    f"{self.directory} has a run with {name} = {known.get(name)!r}, not {settings.get(name)!r}: "
                    "give another --out, or the same settings to go on"
                )

    def _mend(self) -> list[Score]:
        """What is there; a last line that was cut off is taken away."""
        path = self.directory / "results.jsonl"
        if not path.exists():
            return []
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            with path.open("r+b") as file:
                file.truncate(len(whole))
        return list(_scores(whole, path))

    def keep(self, score: Score, trace: Trace | None) -> Score:
        """Keep a result: first its trace, then the line that says so."""
        if trace is not None:
            folder = Path("traces", _safe(score.method or "program"), _safe(score.task or "samples"))
            name = folder / f"{_safe(score.id)}{f'.{score.attempt}' if score.attempt else ''}.jsonl"
            (self.directory / folder).mkdir(parents=True, exist_ok=True)
            trace.write(self.directory / name)
            score = msgspec.structs.replace(score, trace=str(name))
        self._file.write(msgspec.json.encode(score) + b"\n")
        self._file.flush()
        return score

    def scores(self) -> list[Score]:
        return read_scores(self.directory)

    def close(self) -> None:
        self._file.close()
        with contextlib.suppress(InputError):  # the lines are there; a table is a convenience
            write_table(self.directory)


def read_settings(directory: Path) -> dict[str, Any]:
    """What an evaluation was asked for."""
    path = directory / "run.json"
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}") from None
    return settings if isinstance(settings, dict) else {}


def read_scores(directory: Path) -> list[Score]:
    path = directory / "results.jsonl"
    try:
        data = path.read_bytes()
        # A last line may be cut off; what was run again counts as it came out last.
        return list({_key(score): score for score in _scores(data[: data.rfind(b"\n") + 1], path)}.values())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; coc eval … --out DIR makes one") from None


def _key(score: Score) -> tuple[str, str, int]:
    return score.id, score.method, score.attempt


def _scores(data: bytes, path: Path) -> Iterator[Score]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                yield msgspec.json.decode(line, type=Score)
            except msgspec.DecodeError as error:
                raise InputError(f"{path}, line {number}: not a result: {error}") from None


def write_table(directory: Path) -> Path:
    """The results as Parquet, one row a sample and attempt."""
    try:
        import pyarrow as pa  # type: ignore[import-untyped]
        import pyarrow.parquet as pq  # type: ignore[import-untyped]
    except ImportError:
        raise InputError("a Parquet table needs pyarrow: pip install 'chainofcode[report]'") from None
    rows = [
        {**msgspec.structs.asdict(score), "targets": json.dumps(score.targets, ensure_ascii=False)}
        for score in read_scores(directory)
    ]
    path = directory / "results.parquet"
    partial = path.with_suffix(f".{os.getpid()}.partial")
    pq.write_table(pa.Table.from_pylist(rows), partial)
    partial.replace(path)
    return path


def _safe(name: str) -> str:
    """A name that is one, whatever a sample is called."""
    return _UNSAFE.sub("_", name)[:120].lstrip(".") or "_"
