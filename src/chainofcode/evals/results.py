"""An evaluation on disk: what was asked for, one line a result as it comes, one trace a sample. It can be resumed.

DIR/run.json          the settings, which must be the same when it is resumed, and how many samples were planned
DIR/results.jsonl     one Score a line, appended; where several voted, one more for each of them
DIR/traces/…          the trace of each sample
DIR/results.parquet   the same rows as a table, written at the end
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec

from ..errors import InputError
from ..trace import Trace
from .runner import Job, tries
from .samples import Sample, Score

_UNSAFE = re.compile(r"[^\w.-]+", re.ASCII)
_Planned = dict[tuple[str, str, str], int]  # method, task, split → samples: they are taken from the front


# What a setting is to who typed the command, where its name does not say it.
_OPTIONS = {"no_fallback": "no_fallback (which --methods brings along)", "sha256": "questions of the sha256"}


class Store:
    """Where an evaluation keeps what it has; opening one that is there goes on with it."""

    def __init__(self, directory: Path, settings: dict[str, Any]) -> None:
        self.directory = directory
        self._samples: dict[tuple[str, str], Sample] = {}
        self._folders: set[str] = set()
        with contextlib.ExitStack() as opened:
            try:
                directory.mkdir(parents=True, exist_ok=True)
                opened.callback(os.close, _locked(directory))
                self._check(settings)
                self._known = {(score.id, score.method): score for score in self._mend() if not score.attempt}
                self._file = opened.enter_context((directory / "results.jsonl").open("ab"))
            except OSError as error:
                raise InputError(f"cannot keep results in {directory}: {error.strerror}") from None
            self._opened = opened.pop_all()

    def _check(self, settings: dict[str, Any]) -> None:
        if not (self.directory / "run.json").exists():
            self._note(settings)
            return
        known = read_settings(self.directory)
        for name, value in known.items():  # what an older run did not note cannot be held against this one
            if name != "planned" and settings.get(name) != value:
                raise InputError(
                    f"{self.directory} has a run with {_OPTIONS.get(name, name)} = {value!r}, not "
                    f"{settings.get(name)!r}: give another --out, or the same settings to go on"
                )

    def _note(self, settings: dict[str, Any]) -> None:
        with replacing(self.directory / "run.json") as partial:
            partial.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")

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

    def plan(self, jobs: Sequence[Job]) -> list[Job]:
        """Note what is to be done, beside what was planned before; gives what is left. What was not run is."""
        self._samples = {job.key: job.sample for job in jobs}
        settings = read_settings(self.directory)
        planned, more = _planned(settings, self.directory), Counter(map(_group, jobs))
        planned = {group: max(planned.get(group, 0), more[group]) for group in {**planned, **more}}
        told = [[*group, count] for group, count in planned.items()]
        if settings.get("planned") != told:
            self._note({**settings, "planned": told})
        return [job for job in jobs if not self._is_done(job)]

    def _is_done(self, job: Job) -> bool:
        known = self._known.get(job.key)
        if known is None or not known.was_run:
            return False
        if known.sample and known.sample != job.sample.digest:
            raise InputError(f"{self.directory} has a result of {job.sample.id!r}, which was another sample then")
        return True

    def keep(self, score: Score, trace: Trace | None) -> Score:
        """Keep a result: first its trace, then the lines that say so, the one that counts last."""
        sample, rows, name = self._samples.get((score.id, score.method)), [score], ""
        if trace is not None:
            rows = [*(tries(sample, score, trace) if sample is not None else ()), score]
            name = self._keep_trace(score, trace)
        noted = {"trace": name, "sample": sample.digest if sample is not None else ""}
        rows = [msgspec.structs.replace(row, **noted) for row in rows]
        try:
            self._file.write(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
            self._file.flush()
        except OSError as error:
            raise InputError(f"cannot keep results in {self.directory}: {error.strerror}") from None
        return rows[-1]

    def _keep_trace(self, score: Score, trace: Trace) -> str:
        folder = f"traces/{safe_name(score.method or 'program')}/{safe_name(score.task or 'samples')}"
        name = f"{folder}/{safe_name(score.id)}.jsonl"
        if folder not in self._folders:
            (self.directory / folder).mkdir(parents=True, exist_ok=True)
            self._folders.add(folder)
        trace.write(self.directory / name)
        return name

    def scores(self) -> list[Score]:
        return read_scores(self.directory)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # a write that failed was told when it did
            self._opened.close()
        with contextlib.suppress(InputError):  # the lines are there; a table is a convenience
            write_table(self.directory)


def _locked(directory: Path) -> int:
    """The directory, held: two runs at once would write into each other's lines. The kernel lets go of it."""
    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(place)
        raise InputError(f"another run is keeping its results in {directory} right now") from None
    except OSError:  # a file system that has no locks
        pass
    return place


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file that takes the place of another when it is whole; a link that lies there leads nobody astray."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}{path.suffix}")
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield partial
        partial.replace(path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


# --- what is there ------------------------------------------------------------------------------------------------


def read_settings(directory: Path) -> dict[str, Any]:
    """What an evaluation was asked for."""
    path = directory / "run.json"
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged: {error}") from None
    return settings if isinstance(settings, dict) else {}


def read_planned(directory: Path) -> dict[str, int]:
    """How many samples were planned, by method; nothing where nobody noted it."""
    settings = read_settings(directory) if (directory / "run.json").exists() else {}
    counted = Counter[str]()
    for (method, _, _), count in _planned(settings, directory).items():
        counted[method] += count
    return dict(counted)


def _planned(settings: dict[str, Any], directory: Path) -> _Planned:
    try:
        told = msgspec.convert(settings.get("planned", []), list[tuple[str, str, str, int]])
    except msgspec.ValidationError as error:
        raise InputError(f"{directory / 'run.json'} is damaged: planned: {error}") from None
    return {(method, task, split): count for method, task, split, count in told}


def _group(job: Job) -> tuple[str, str, str]:
    return job.method, job.sample.task, job.sample.split


def read_scores(directory: Path, *, with_tries: bool = False) -> list[Score]:
    """The results, one for each sample and method; with what each vote was worth, where there were some."""
    path = directory / "results.jsonl"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; coc eval … --out DIR makes one") from None
    # A last line may be cut off; what was run again counts as it came out last.
    scores = _scores(data[: data.rfind(b"\n") + 1], path)
    last = {(score.id, score.method, score.attempt): score for score in scores if with_tries or not score.attempt}
    return list(last.values())


def _scores(data: bytes, path: Path) -> Iterator[Score]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                yield msgspec.json.decode(line, type=Score)
            except (msgspec.DecodeError, RecursionError) as error:
                raise InputError(f"{path}, line {number}: not a result: {error}") from None


def trace_of(score: Score) -> Path | None:
    """Where a result's trace is, below the directory; None where it has none there, whatever the result says."""
    path = Path(score.trace)
    return path if path.parts[:1] == ("traces",) and ".." not in path.parts else None


def write_table(directory: Path) -> Path:
    """The results as Parquet, one row a sample and attempt."""
    try:
        import pyarrow as pa  # type: ignore[import-untyped]
        import pyarrow.parquet as pq  # type: ignore[import-untyped]
    except ImportError:
        raise InputError("a Parquet table needs pyarrow: pip install 'chainofcode[report]'") from None
    kinds = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    columns = []
    for field in msgspec.structs.fields(Score):
        known = [kinds[kind] for kind in (get_args(field.type) or (field.type,)) if kind in kinds]
        columns.append((field.name, known[0] if known else pa.string()))
    rows = [
        {**msgspec.structs.asdict(score), "targets": json.dumps(score.targets, ensure_ascii=False)}
        for score in read_scores(directory, with_tries=True)
    ]
    try:
        table = pa.Table.from_pylist(rows, schema=pa.schema(columns))
    except (pa.ArrowException, OverflowError) as error:
        raise InputError(f"{directory / 'results.jsonl'} does not fit into a table: {error}") from None
    path = directory / "results.parquet"
    with replacing(path) as partial:
        pq.write_table(table, partial)
    return path


def safe_name(name: str) -> str:
    """A file name that is one, whatever a sample is called; names that differ stay different."""
    safe = _UNSAFE.sub("_", name)[:120].lstrip(".") or "_"
    digest = hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()
    return safe if safe == name else f"{safe}-{digest[:8]}"
