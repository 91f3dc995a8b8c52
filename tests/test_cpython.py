"""CPython's own tests have the same results under the engine, apart from the differences listed in LIMITATIONS.md."""

from __future__ import annotations

import pytest
from conftest import ALL
from cpython import NAMES, QUICK, differences, source_of, under_cpython, under_engine

TRACING = {
    "test_default_capture",
    "test_default_wildcard",
    "test_no_default",
    "test_only_default_capture",
    "test_only_default_wildcard",
    "test_unreachable_code",
}
KNOWN = {
    "test_patma": TRACING,
    "test_scope": {"testInteractionWithTraceFunc"},
    "test_descr": {"test_slots"},
    "test_exceptions": {"testRaising", "test_WindowsError", "test_lineno_in_try"},
    "test_positional_only_arg": {"test_pos_only_definition"},
}


@pytest.mark.parametrize("name", NAMES if ALL else QUICK)
def test_same_as_under_cpython(name: str) -> None:
    source = source_of(name)
    if source is None:
        pytest.skip(f"this Python has no test.{name}")
    plain, engine = under_cpython(source), under_engine(source)
    assert plain["run"] > 0
    assert differences(plain, engine) <= KNOWN.get(name, set()), engine["texts"]
