"""What the tests share: where the given cases lie, and one way to run a program."""

from __future__ import annotations

import asyncio
import functools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import Seen, chromium

from chainofcode import Result, SandboxError, Trace
from chainofcode.audit import areplay, runs_of
from chainofcode.errors import LMError
from chainofcode.lm.weights import MODELS, fetch
from chainofcode.sandbox import Jail
from chainofcode.sandbox.pool import TIERS

# What is not the same every time: threads, addresses, processes started without a sandbox, a file that is gone.
BY_CHANCE = {
    "test_same_as_with_real_functions[threads]",
    "test_under_the_engine[threads_basics]",
    "test_under_the_engine[decorators]",
    "test_threads_that_print_while_others_ask",
    "test_forks_do_not_speak_for_their_parent",
    "test_child_that_holds_the_pipes_open",
    "test_guest_that_never_stops[fork]",
    "test_guest_that_never_stops[child]",
    "test_nothing_is_left_behind",
    "test_program_that_breaks_its_own_world",
    "test_a_file_is_no_hole_and_can_be_opened_too",
}
# What depends on the version of Python: `check.py` runs it on each; everything else on one of them.
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
    "pool",
    "protocol",
    "provenance",
    "regressions",
    "replay",
    "sandbox",
    "semantics",
    "structure",
    "traces",
    "values",
    "verify",
    "watching",
}
ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem.removeprefix("test_") not in VERSIONED:
            item.add_marker("once")


def shared(path: str) -> Path:
    """A file of the shared test material; skips the test where it is absent."""
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
def tiers_that_are_here(request: pytest.FixtureRequest) -> None:
    """Tests of one tier of the sandbox skip, and say so, where that tier cannot be had."""
    call = getattr(request.node, "callspec", None)
    tier = call.params.get("tier") if call is not None else None
    if tier in TIERS and not has_tier(tier):
        pytest.skip(f"tier {tier} of the sandbox cannot be had on this machine")


@pytest.fixture(autouse=True)
def runs_replay(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """With COC_REPLAY=1 every run of every test is run again afterwards, and must come out the same."""
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, for one file of tests: its loop must not be there when others start theirs."""
    yield from chromium()


@pytest.fixture
def seen(browser: Any) -> Iterator[Seen]:
    one = Seen(browser)
    yield one
    one.context.close()


@pytest.fixture(scope="session")
def small_model() -> str:
    """The smallest real model: it proves the plumbing, what it says is not judged."""
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    try:
        return str(fetch(MODELS["smollm2-135m"]))
    except LMError as error:
        pytest.skip(f"no source for a small model here: {error}")
