"""Shared by the tests: which tests run when, where the shared test material is, what the machine supports."""

from __future__ import annotations

import asyncio
import functools
import json
import math
import os
import signal
import sys
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from browsing import Seen, chromium
from forked import is_measured
from measured_boot import begin_measuring, save_lines

from chainofcode import Result, SandboxError, Trace, sandbox
from chainofcode.audit import areplay, runs_of
from chainofcode.errors import LMError
from chainofcode.lm.weights import MODELS, fetch
from chainofcode.sandbox import Jail
from chainofcode.sandbox.pool import TIERS

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as after `nohup … &`: then, commands would ignore Ctrl-C, too
    signal.signal(signal.SIGINT, signal.default_int_handler)
Case = TypeVar("Case")
# Runs that differ each time: threads, addresses, processes started without a sandbox, a deleted file.
BY_CHANCE = {
    "test_same_as_with_real_functions[threads]",
    "test_under_the_engine[threads_basics]",
    "test_under_the_engine[decorators]",
    "test_threads_that_print_while_others_call_holes",
    "test_forked_children_send_no_frames",
    "test_child_that_holds_the_pipes_does_not_delay_the_end",
    "test_guest_that_never_stops[fork]",
    "test_guest_that_never_stops[child]",
    "test_nothing_is_left_behind",
    "test_program_that_breaks_its_own_environment",
    "test_file_is_not_a_hole_and_can_also_be_opened",
}
# Files that depend most on the version of Python: `check.py` runs them on each version, the others on one version. The
# nightly run runs all on all versions.
VERSIONED = {
    "cases",
    "conformance",
    "cpython",
    "engine",
    "equivalence",
    "exact",
    "expect",
    "holes",
    "lookahead",
    "overlap",
    "parallel",
    "protocol",
    "provenance",
    "python314",
    "regressions",
    "sandbox",
    "semantics",
    "traces",
    "values",
    "watching",
}
# Files that `check.py --quick` runs, at most two cases of each test: every package, nothing slow.
QUICK = {
    "cases",
    "conformance",
    "dialects",
    "emulator",
    "engine",
    "expect",
    "holes",
    "house",
    "intake",
    "javascript",
    "judging",
    "kernel",
    "lookahead",
    "network",
    "openai",
    "printing",
    "protocol",
    "provenance",
    "record",
    "regressions",
    "sql",
    "traces",
    "values",
    "wire",
    "words",
    "wrappers",
}
# Files whose results depend on the user's rights: root also runs them as an ordinary user (ordinary_user.py).
ORDINARY = {
    "artifacts",
    "files",
    "grants",
    "kernel",
    "network",
    "poison",
    "pool",
    "processes",
    "resources",
    "sandbox",
    "secrets",
    "sql_isolation",
    "weights",
    "wire",
    "witness",
}
SHARE, OTHERS_SHARE = 6, 12  # every sixth case of each test; on the other versions of Python, every twelfth
# Files that need no sandbox, and so work on every platform (test_portable.py).
PORTABLE = {"connect", "expect", "wrappers"}
WHOLE = {"docs", "examples", "house", "words"}  # one case per file or example of the project: all of them run
ROOT = Path(__file__).parent.parent
ALONE = {
    path.stem.removeprefix("test_")
    for path in Path(__file__).parent.glob("test_*.py")
    if "mark.alone" in path.read_text(encoding="utf-8")
}
for variable in ("COLUMNS", "LINES"):  # which readline sets: `coc` prints as wide as they say
    os.environ.pop(variable, None)
    os.unsetenv(variable)  # readline sets them past `os.environ`
STATE = (
    tempfile.TemporaryDirectory()
)  # has the key that seals traces, instead of the key of the user who runs the tests
os.environ["XDG_STATE_HOME"] = STATE.name
FILES = {"quick": QUICK, "not once": VERSIONED, "alone": ALONE, "portable": PORTABLE, "ordinary": ORDINARY}  # for -m
SHARED = ROOT.parent / "shared"
ALL = bool(os.environ.get("COC_ALL"))  # the nightly run: all cases, more random programs


def random_programs(few: int, many: int) -> int:
    """How many random programs a test runs: `few`, or `many` in the nightly run."""
    return int(os.environ.get("COC_RANDOM_PROGRAMS", many if ALL else few))


def part(cases: list[Case], every: int) -> list[Case]:
    """Every n-th case, different ones in each version of Python; in the nightly run, all cases."""
    return cases if ALL else cases[sys.version_info[1] % every :: every]


def subject(path: Path) -> str:
    return path.stem.removeprefix("test_")


def pytest_configure() -> None:
    if is_measured:
        begin_measuring()


def pytest_unconfigure() -> None:
    if is_measured:
        save_lines()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files without a selected test."""
    chosen = FILES.get(config.option.markexpr)
    is_test = collection_path.name.startswith("test_")
    return True if chosen is not None and is_test and subject(collection_path) not in chosen else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    is_named = config.option.keyword or any("::" in argument for argument in config.args)
    share = OTHERS_SHARE if config.option.markexpr == "not once" else SHARE
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
        if subject(item.path) not in VERSIONED:
            item.add_marker("once")
        if subject(item.path) in PORTABLE:
            item.add_marker("portable")
        if subject(item.path) in ORDINARY:
            item.add_marker("ordinary")
    left_out: set[pytest.Item] = set()
    for cases in tests.values():
        cases.sort(key=draw)
        if subject(cases[0].path) in QUICK:
            for item in cases if subject(cases[0].path) in WHOLE else cases[:2]:
                item.add_marker("quick")
        if not (ALL or is_named):
            left_out |= not_sampled(cases, 1 if subject(cases[0].path) in WHOLE else share)
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def not_sampled(cases: list[pytest.Item], share: int) -> set[pytest.Item]:
    """The cases of one test that a run leaves out.

    A run keeps one of `share` cases, one of `share * n` cases marked `sampled(n)`, and at least one case of each test.
    """
    nightly = {item for item in cases if item.get_closest_marker("nightly")}
    marks = {item: item.get_closest_marker("sampled") for item in cases if item not in nightly}
    steps = {item: share * (mark.args[0] if mark else 1) for item, mark in marks.items()}
    sampled = {item: 1 / step for item, step in steps.items() if step > 1}
    return nightly | set(list(sampled)[math.ceil(sum(sampled.values())) :])


def draw(item: pytest.Item) -> int:
    """A number that orders the cases differently in each version of Python, so that the versions share the work."""
    return zlib.crc32(f"{item.nodeid} {sys.version_info[:2]}".encode())


def shared(path: str) -> Path:
    """A file of the shared test material; skips the test if the file is absent."""
    found = SHARED / path
    if not found.exists():
        pytest.skip(f"the shared test material has no {path} here")
    return found


def records(path: str) -> list[dict[str, Any]]:
    if not (SHARED / path).exists():
        return []
    return [json.loads(line) for line in (SHARED / path).read_text(encoding="utf-8").splitlines()]


@functools.cache
def has_tier(tier: str) -> bool:
    with Jail(tier, spares=0) as jail:
        try:
            return asyncio.run(jail.status()).tier == tier
        except SandboxError:
            return False


@pytest.fixture(autouse=True)
def skip_unavailable_tiers(request: pytest.FixtureRequest) -> None:
    """Skip tests of a sandbox tier that is not available on this machine."""
    call = getattr(request.node, "callspec", None)
    tier = call.params.get("tier") if call is not None else None
    if tier in TIERS and not has_tier(tier):
        pytest.skip(f"tier {tier} of the sandbox is not available on this machine")


@pytest.fixture(autouse=True)
def runs_replay(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """With COC_REPLAY=1, every run of every test is replayed afterwards and must have the same result."""
    traces: list[Trace] = []
    if os.environ.get("COC_REPLAY"):

        def keep(cls: type[Result], trace: Trace, *more: Any) -> Result:
            traces.append(trace)
            return made(trace, *more)

        made = Result.of_trace
        monkeypatch.setattr(Result, "of_trace", classmethod(keep))
    yield
    if traces and request.node.name.partition("[import gc")[0] not in BY_CHANCE:
        monkeypatch.undo()
        for trace in filter(runs_of, traces):
            again = asyncio.run(areplay(trace))
            assert again.is_same, again.difference


class SharedJail(Jail):
    """A sandbox that stays open for the programs of all tests."""

    def close(self) -> None:
        """Do nothing: each run closes the sandbox that it opened by name."""

    def end(self) -> None:
        super().close()


@pytest.fixture(scope="session", autouse=True)
def programs_share_a_sandbox() -> Iterator[None]:
    """Tests that use `auto` share one sandbox: opening one takes longer than most of their programs."""
    shared = SharedJail()

    def opened_or_shared(name: str, *, spares: int = 0) -> sandbox.Sandbox:
        return shared if name == "auto" else opened(name, spares=spares)

    opened, sandbox.open_sandbox = sandbox.open_sandbox, opened_or_shared
    yield
    sandbox.open_sandbox = opened
    shared.end()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, for one test file: its event loop must not run when other files start theirs."""
    yield from chromium()


@pytest.fixture
def seen(browser: Any) -> Iterator[Seen]:
    view = Seen(browser)
    yield view
    view.context.close()


@pytest.fixture(scope="session")
def small_model() -> str:
    """The smallest real model: it shows that the parts work together; the quality of its replies is not tested."""
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    try:
        return str(fetch(MODELS["smollm2-135m"]))
    except LMError as error:
        pytest.skip(f"no source for a small model here: {error}")
