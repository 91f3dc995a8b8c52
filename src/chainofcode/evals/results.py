"""An evaluation on disk: its settings, one line per result, one trace per sample. It can be resumed.

DIR/run.json          the settings, which a resumed run must share, and the number of planned samples
DIR/results.jsonl     one Score per line, appended; with votes, one more for each vote
DIR/traces/…          the trace of each sample
DIR/batches.sqlite    with --batch: the requests of each batch, and the replies
DIR/results.parquet   the same rows as a table, written at the end
"""

from __future__ import annotations

import contextlib
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

from ..emulator.documents import at_line, numbered, read_text
from ..errors import InputError
from ..platforms import lock, lock_directory, read_whole
from ..trace import Trace
from .runner import EvalJob, tries
from .samples import Sample, Score

_UNSAFE = re.compile(r"[^\w.-]+", re.ASCII)
_Planned = dict[tuple[str, str, str], int]  # method, task, split → number of samples, taken from the front


# Names of settings in error messages, where the key is not clear enough.
_OPTIONS = {"no_fallback": "no_fallback (which --methods implies)", "sha256": "the SHA-256 of the questions"}


class ResultsDirectory:
    """The directory of an evaluation; opening an existing one resumes it."""

    def __init__(self, directory: Path, settings: dict[str, Any]) -> None:
        self.directory = directory
        self._samples: dict[tuple[str, str], Sample] = {}
        self._folders: set[str] = set()
        with contextlib.ExitStack() as opened:
            try:
                directory.mkdir(parents=True, exist_ok=True)
                opened.callback(os.close, _locked(directory))
                self._check(settings)
                self._known = {(score.id, score.method): score for score in self._mended_scores() if not score.attempt}
                self._file = opened.enter_context((directory / "results.jsonl").open("ab"))
            except OSError as error:
                raise InputError(f"cannot store results in {directory}: {error.strerror}") from None
            self._opened = opened.pop_all()

    def _check(self, settings: dict[str, Any]) -> None:
        if not (self.directory / "run.json").exists():
            self._note(settings)
            return
        older = {"split": "", "emulator": "", "batch": ""}  # older versions did not record these
        known, settings = {**older, **read_settings(self.directory)}, {**older, **settings}
        for name, value in known.items():
            if name != "planned" and settings.get(name) != value:
                raise InputError(
                    f"{self.directory} has a run with {_OPTIONS.get(name, name)} = {value!r}, not "
                    f"{settings.get(name)!r}: choose another --out, or resume with the same settings"
                )

    def _note(self, settings: dict[str, Any]) -> None:
        with replacing(self.directory / "run.json") as partial:
            partial.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")

    def _mended_scores(self) -> list[Score]:
        """Return the scores in the file; a last line that was cut off is removed."""
        path = self.directory / "results.jsonl"
        if not path.exists():
            return []
        data = read_whole(path)
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            with path.open("r+b") as file:
                file.truncate(len(whole))
        return list(_scores(whole, path))

    def plan(self, jobs: Sequence[EvalJob]) -> list[EvalJob]:
        """Add jobs to the plan; return those that are left. Samples that could not be run are run again."""
        self._samples = {job.key: job.sample for job in jobs}
        settings = read_settings(self.directory)
        planned, more = _planned(settings, self.directory), Counter(map(_group, jobs))
        planned = {group: max(planned.get(group, 0), more[group]) for group in {**planned, **more}}
        groups = [[*group, count] for group, count in planned.items()]
        if settings.get("planned") != groups:
            self._note({**settings, "planned": groups})
        return [job for job in jobs if not self._is_done(job)]

    def _is_done(self, job: EvalJob) -> bool:
        known = self._known.get(job.key)
        if known is None or not known.was_run:
            return False
        if known.sample and known.sample != job.sample.digest:
            raise InputError(f"{self.directory} has a result of {job.sample.id!r}, but for another sample with this id")
        return True

    def keep(self, score: Score, trace: Trace | None) -> Score:
        """Write a result: first its trace, then a line for each of its votes, last its own line."""
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
            raise InputError(f"cannot store results in {self.directory}: {error.strerror}") from None
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
        with contextlib.suppress(OSError):  # a failed write was reported before
            self._opened.close()
        with contextlib.suppress(InputError):  # the table is optional
            write_table(self.directory)


def _locked(directory: Path) -> int:
    """Lock the directory: two runs at once would mix their lines. The kernel removes the lock at exit."""
    place = lock_directory(directory)
    try:
        lock(place, waits=False)
    except BlockingIOError:
        os.close(place)
        raise InputError(f"another run is writing its results to {directory}") from None
    except OSError:  # a file system without locks
        pass
    return place


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write a new file and rename it when it is complete; a symbolic link at the path is replaced, not followed."""
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


# --- reading -----------------------------------------------------------------------------------------------------


def read_settings(directory: Path) -> dict[str, Any]:
    """Return the settings of an evaluation."""
    path = directory / "run.json"
    text = read_text(path)
    try:
        settings = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged: {error}") from None
    return settings if isinstance(settings, dict) else {}


def describe_run(directory: Path) -> str:
    """Describe a run in one line: suite, split, model and examples; empty if they were not recorded."""
    settings = read_settings(directory) if (directory / "run.json").exists() else {}
    labels = {
        "suite": "{}",
        "split": "indices {} of each task",
        "model": "{}",
        "batch": "in batches {}",
        "shots": "shots {}",
        "repairs": "repairs {}",
    }
    return ", ".join(
        label.format(settings[name]) for name, label in labels.items() if settings.get(name) not in (None, "")
    )


def read_planned(directory: Path) -> dict[str, int]:
    """Return how many samples were planned, by method, if that was recorded."""
    settings = read_settings(directory) if (directory / "run.json").exists() else {}
    counted = Counter[str]()
    for (method, _, _), count in _planned(settings, directory).items():
        counted[method] += count
    return dict(counted)


def _planned(settings: dict[str, Any], directory: Path) -> _Planned:
    try:
        groups = msgspec.convert(settings.get("planned", []), list[tuple[str, str, str, int]])
    except msgspec.ValidationError as error:
        raise InputError(f"{directory / 'run.json'} is damaged: planned: {error}") from None
    return {(method, task, split): count for method, task, split, count in groups}


def _group(job: EvalJob) -> tuple[str, str, str]:
    return job.method, job.sample.task, job.sample.split


def read_scores(directory: Path, *, with_tries: bool = False) -> list[Score]:
    """Return the scores, one for each sample and method; `with_tries` adds those of each vote."""
    path = directory / "results.jsonl"
    try:
        data = read_whole(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; coc eval … --out DIR creates one") from None
    # A last line may be cut off; of samples that were run again, the last score counts.
    scores = _scores(data[: data.rfind(b"\n") + 1], path)
    last = {(score.id, score.method, score.attempt): score for score in scores if with_tries or not score.attempt}
    return list(last.values())


def _scores(data: bytes, path: Path) -> Iterator[Score]:
    for number, line in numbered(data.split(b"\n")):
        with at_line(path, number, "not a result"):
            score = msgspec.json.decode(line, type=Score)
        yield score


def trace_of(score: Score) -> Path | None:
    """Return the path of a score's trace, below the directory; None for a path outside."""
    path = Path(score.trace)
    return path if path.parts[:1] == ("traces",) and ".." not in path.parts else None


def write_table(directory: Path) -> Path:
    """Write the scores as Parquet, one row per sample and vote."""
    try:
        import pyarrow as pa  # type: ignore[import-untyped]  # optional
        import pyarrow.parquet as pq  # type: ignore[import-untyped]
    except ImportError:
        raise InputError("a Parquet table needs pyarrow: pip install 'chainofcode[report]'") from None
    kinds = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    columns = []
    for field in msgspec.structs.fields(Score):
        known = [kinds[kind] for kind in (get_args(field.type) or (field.type,)) if kind in kinds]
        columns.append((field.name, known[0] if known else pa.string()))
    rows = [
        {
            **msgspec.structs.asdict(score),
            "targets": json.dumps(score.targets, ensure_ascii=False),
            "usage": msgspec.json.encode(score.usage).decode(),
        }
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
    """Return a safe file name; different names stay different."""
    safe = _UNSAFE.sub("_", name)[:120].lstrip(".") or "_"
    digest = hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()
    return safe if safe == name else f"{safe}-{digest[:8]}"
