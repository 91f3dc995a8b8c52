"""Plant defects, one at a time, in a copy of the source, and print which of them the tests do not notice.

    python bench/mutants.py [--only NAME ...] [--sample N] [--seed S] [--log FILE [--again]] [--list]

`mutants.txt` lists the defects: a name, a file, the nearest test files or tests, and a fragment of the source with its
replacement. A fragment must occur exactly once: if the source has changed, this command fails until the defect is
adapted. A defect is noticed if a test fails with it, fails with it again, and passes without it: neither a flaky test
nor a loaded machine notices a defect. A defect that makes its tests hang counts too, and is printed as such.
`--log` appends each verdict to a file as soon as it is known, and skips the defects that this file lists as noticed;
`--again` does not skip them, but runs the test that noticed a defect first. The exit code is 1 if a defect survives.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
_DEFECTS = Path(__file__).with_name("mutants.txt")
_COPIED = ("src", "tests", "bench", "docs", "examples", "pyproject.toml", "README.md", "CHANGELOG.md")
_TEST_SECONDS = 600
_MAX_TRIES = 4
NOTICED = ("noticed", "hangs")


@dataclass(frozen=True)
class Mutant:
    """A deliberate defect."""

    name: str
    file: str
    tests: tuple[str, ...]
    before: str
    after: str

    def applied(self, source: str) -> str:
        found = source.count(self.before)
        if found != 1:
            raise ValueError(f"{self.name}: {self.file} contains this {found} times: {self.before!r}")
        return source.replace(self.before, self.after)


@dataclass(frozen=True)
class Verdict:
    """The result for a defect: noticed, hangs or SURVIVES, and which test noticed it."""

    name: str
    state: str
    seconds: float
    by: str

    def line(self) -> str:
        return f"{self.state}\t{self.seconds:.1f}\t{self.name}\t{self.by}"


def read(text: str) -> list[Mutant]:
    """Read blocks of `## name`, `file: …`, `tests: …`, removed lines (`- …`) and added lines (`+ …`)."""
    return [_mutant(block) for block in text.split("## ")[1:]]


def _mutant(block: str) -> Mutant:
    name, *lines = block.rstrip().split("\n")
    facts = dict(line.split(": ", 1) for line in lines if line.startswith(("file: ", "tests: ")))
    before, after = ("\n".join(line[2:] for line in lines if line[:2].rstrip() == mark) for mark in ("-", "+"))
    if not before or before == after:
        raise ValueError(f"{name}: no fragment, or the same one twice")
    return Mutant(name.strip(), facts["file"], tuple(facts["tests"].split()), before, after)


def check(mutants: list[Mutant], source: Path) -> list[str]:
    """Return all reasons why defects cannot be planted."""
    problems = []
    for mutant in mutants:
        try:
            changed = mutant.applied((source / mutant.file).read_text(encoding="utf-8"))
            compile(changed, mutant.file, "exec")
        except (OSError, ValueError, SyntaxError) as error:
            problems.append(str(error) if mutant.name in str(error) else f"{mutant.name}: {error}")
        problems += [f"{mutant.name}: {test} not found" for test in mutant.tests if not _is_test(test)]
    names = [mutant.name for mutant in mutants]
    return problems + [f"{name}: defined twice" for name in sorted({name for name in names if names.count(name) > 1})]


def _is_test(name: str) -> bool:
    path, _, function = name.partition("::")
    file = ROOT / "tests" / f"{path}.py"
    return file.is_file() and f"def {function}" in file.read_text(encoding="utf-8")


class Copy:
    """A copy of a repository, in which one defect at a time is planted and tested."""

    def __init__(self, repository: Path, directory: Path) -> None:
        self._root = directory / "copy"
        self._cache = directory / "cache"
        self._sound: dict[str, bool] = {}  # whether a test passes without a defect
        self._root.mkdir()
        for name in _COPIED:
            place = repository / name
            if place.exists():
                (shutil.copytree if place.is_dir() else shutil.copy)(place, self._root / name)

    def verdict(self, mutant: Mutant, first: str = "") -> Verdict:
        """Run a `first` test, then the tests that the mutant names, then its test files, until a failure repeats."""
        started = time.monotonic()
        doubtful: list[str] = []
        state, by = "SURVIVES", ""
        tests = ["tests/{}.py{}{}".format(*name.partition("::")) for name in mutant.tests]
        named, files = ([test for test in tests if ("::" in test) == is_named] for is_named in (True, False))
        for stage in filter(None, ([first] if first else [], named, files)):
            state, by = self._noticed(mutant, stage, doubtful)
            if state in NOTICED:
                break
        by = by or " ".join(f"(failed once: {test})" for test in doubtful)
        return Verdict(name=mutant.name, state=state, seconds=time.monotonic() - started, by=by)

    def _noticed(self, mutant: Mutant, tests: list[str], doubtful: list[str]) -> tuple[str, str]:
        """Return the state of a mutant and the test that noticed it; add tests that failed only once to `doubtful`."""
        for _ in range(_MAX_TRIES):
            unsound = [test for test, is_sound in self._sound.items() if not is_sound]
            failed = self._failed(tests, mutant, without=[*unsound, *doubtful])
            if failed is None:
                return "hangs", ""
            if not failed:
                break
            if not self._is_sound(failed[0]):
                continue
            if self._failed(failed, mutant) != []:
                return "noticed", failed[0]
            doubtful += failed
        return "SURVIVES", ""

    def _is_sound(self, test: str) -> bool:
        if test not in self._sound:
            self._sound[test] = self._failed([test]) == []
        return self._sound[test]

    @contextlib.contextmanager
    def _planted(self, mutant: Mutant | None) -> Iterator[None]:
        if mutant is None:
            yield
            return
        path = self._root / "src" / "chainofcode" / mutant.file
        original = path.read_text(encoding="utf-8")
        path.write_text(mutant.applied(original), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(original, encoding="utf-8")

    def _failed(
        self, tests: list[str], mutant: Mutant | None = None, *, without: Sequence[str] = ()
    ) -> list[str] | None:
        """Return the first test that fails, in a list; None if the tests do not end."""
        shutil.rmtree(self._cache, ignore_errors=True)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-o", f"cache_dir={self._cache}"]
        command += [*tests, *(f"--deselect={test}" for test in without)]
        environment = {**os.environ, "PYTHONPATH": str(self._root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # importing them takes longer than most tests
        environment["COC_ALL"] = "1"  # every case, not a sample
        with self._planted(mutant), subprocess.Popen(
            command, cwd=self._root, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:  # fmt: skip
            try:
                code = process.wait(_TEST_SECONDS)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                if isinstance(error, subprocess.TimeoutExpired):
                    return None
                raise
        if code in (0, 4, 5):  # 4 and 5: a test of an old log no longer exists
            return []
        last = self._cache / "v" / "cache" / "lastfailed"
        return list(json.loads(last.read_text(encoding="utf-8"))) if last.is_file() else list(tests)


def logged(text: str) -> dict[str, Verdict]:
    """Read a log; the last line about a defect counts."""
    lines = (line.split("\t") for line in text.splitlines())
    verdicts = (Verdict(state=state, seconds=float(seconds), name=name, by=by) for state, seconds, name, by in lines)
    return {verdict.name: verdict for verdict in verdicts}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", nargs="+", help="only these defects")
    parser.add_argument("--sample", metavar="N", type=int, help="N defects, chosen at random")
    parser.add_argument("--seed", metavar="S", type=int, default=0)
    parser.add_argument("--log", metavar="FILE", type=Path, help="append verdicts here; skip noticed defects")
    parser.add_argument("--again", action="store_true", help="run all defects; first the test that noticed it before")
    parser.add_argument("--list", action="store_true", help="only check that all can be planted, and list them")
    given = parser.parse_args()
    mutants = read(_DEFECTS.read_text(encoding="utf-8"))
    problems = check(mutants, ROOT / "src" / "chainofcode")
    if problems:
        sys.exit("\n".join(problems))
    if given.only:
        unknown = set(given.only) - {mutant.name for mutant in mutants}
        if unknown:
            sys.exit(f"unknown defects: {', '.join(sorted(unknown))}; --list shows all")
        mutants = [mutant for mutant in mutants if mutant.name in given.only]
    if given.sample:
        mutants = random.Random(given.seed).sample(mutants, min(given.sample, len(mutants)))
    if given.list:
        print("\n".join(f"{mutant.name:<44} {mutant.file}" for mutant in mutants))
        return 0
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # ends the tests, removes the copy
    return _run(mutants, given.log or Path(os.devnull), is_again=given.again)


def _run(mutants: list[Mutant], log: Path, *, is_again: bool) -> int:
    before = logged(log.read_text(encoding="utf-8")) if log.exists() else {}
    noticed = {name: verdict for name, verdict in before.items() if verdict.state in NOTICED}
    known = {} if is_again else dict(noticed)
    with tempfile.TemporaryDirectory() as directory, log.open("a", encoding="utf-8") as lines:
        copy = Copy(ROOT, Path(directory))
        for number, mutant in enumerate(mutants, start=1):
            if mutant.name in known:
                continue
            first = noticed[mutant.name].by if mutant.name in noticed else ""
            verdict = known[mutant.name] = copy.verdict(mutant, first)
            print(verdict.line(), file=lines, flush=True)
            print(
                f"{number}/{len(mutants)} {verdict.state:<8} {verdict.seconds:6.1f} s  {mutant.name}  {verdict.by}",
                flush=True,
            )
    return _summed_up([known[mutant.name] for mutant in mutants])


def _summed_up(verdicts: list[Verdict]) -> int:
    noticed = sum(verdict.state in NOTICED for verdict in verdicts)
    print(f"{noticed} of {len(verdicts)} noticed ({noticed / max(len(verdicts), 1):.1%})")
    for verdict in verdicts:
        if verdict.state != "noticed":
            print(f"  {verdict.state}: {verdict.name} {verdict.by}")
    return 1 if noticed < len(verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
