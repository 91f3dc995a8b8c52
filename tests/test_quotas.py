"""Quotas of token holders: rate limits refill, and daily budgets are renewed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed")

from chainofcode.errors import BudgetError
from chainofcode.lm import Usage
from chainofcode.server import quotas
from chainofcode.server.quotas import Ledger, RateLimiter
from chainofcode.server.refusal import StorageError
from chainofcode.server.sqlite_store import SQLiteStore


def test_rate_limit_refills_for_each_client() -> None:
    rates = RateLimiter(600)  # ten a second
    assert [rates.take("ann") for _ in range(600)] == [0.0] * 600
    assert 0 < rates.take("ann") <= 0.1
    assert rates.take("bob") == 0.0
    time.sleep(0.35)
    assert [rates.take("ann") for _ in range(3)] == [0.0] * 3
    assert max(rates.take("ann") for _ in range(1000)) > 0, "the refill grants more than the time that passed"


def test_full_bucket_holds_requests_for_one_minute() -> None:
    rates = RateLimiter(60)
    rates.take("ann")
    time.sleep(1.5)  # more than it lacks
    assert sum(rates.take("ann") == 0.0 for _ in range(100)) == 60


@pytest.mark.parametrize(("budget", "usage"), [("tokens", Usage(prompt_tokens=70)), ("dollars", Usage(dollars=70.0))])
def test_a_budget_is_renewed_at_midnight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: str, usage: Usage
) -> None:
    async def use(store: SQLiteStore) -> None:
        ledger = Ledger({budget: 70}, store)
        monkeypatch.setattr(quotas, "today", lambda: "2026-02-28")
        await ledger.open()
        ledger.check("ann")
        ledger.add("ann", usage)
        with pytest.raises(BudgetError, match=f"the budget of 70 {budget} a day is spent"):
            ledger.check("ann")
        ledger.check("bob")
        await ledger.flush()
        monkeypatch.setattr(quotas, "today", lambda: "2026-03-01")
        ledger.check("ann")
        ledger.add("ann", usage)
        with pytest.raises(BudgetError):
            ledger.check("ann")
        await ledger.flush()
        assert [len(await store.spent(day)) for day in ("2026-02-28", "2026-03-01")] == [1, 1]

    with contextlib.closing(SQLiteStore(tmp_path)) as store:
        asyncio.run(use(store))


def test_spending_before_midnight_counts_for_that_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(store: SQLiteStore) -> None:
        ledger = Ledger({"tokens": 100}, store)
        monkeypatch.setattr(quotas, "today", lambda: "2026-02-28")
        await ledger.open()
        ledger.add("ann", Usage(prompt_tokens=7))
        monkeypatch.setattr(quotas, "today", lambda: "2026-03-01")
        ledger.check("ann")
        ledger.add("ann", Usage(prompt_tokens=9))
        await ledger.flush()
        assert await store.spent("2026-02-28") == {"ann": (7, 0.0)}
        assert await store.spent("2026-03-01") == {"ann": (9, 0.0)}

    with contextlib.closing(SQLiteStore(tmp_path)) as store:
        asyncio.run(use(store))


class FullDisk(SQLiteStore):
    """A store that cannot record spending until `error` is cleared."""

    error: Exception | None = StorageError("no space left on device")

    async def spend(self, day: str, amounts: Mapping[str, tuple[int, float]]) -> None:
        if self.error is not None:
            raise self.error
        await super().spend(day, amounts)


@pytest.mark.parametrize("error", [StorageError("no space left on device"), RuntimeError("unexpected")])
def test_spending_is_recorded_once_the_disk_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def use(store: FullDisk) -> None:
        ledger = Ledger({"tokens": 70}, store)
        for day in ("2026-02-28", "2026-03-01"):
            monkeypatch.setattr(quotas, "today", lambda day=day: day)
            ledger.check("ann")
            ledger.add("ann", Usage(prompt_tokens=7))
        store.error = error
        with pytest.raises(type(error)):
            await ledger.flush()
        ledger.add("ann", Usage(prompt_tokens=1))
        store.error = None
        await ledger.flush()
        await ledger.flush()  # nothing is written twice
        assert await store.spent("2026-02-28") == {"ann": (7, 0.0)}
        assert await store.spent("2026-03-01") == {"ann": (8, 0.0)}

    with contextlib.closing(FullDisk(tmp_path)) as store:
        asyncio.run(use(store))
