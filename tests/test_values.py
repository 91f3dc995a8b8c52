"""The value language: there and back, in one documented form, bounded and never evaluated."""

from __future__ import annotations

import datetime
import json
import math
import zoneinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainofcode import run
from chainofcode.values.codec import Opaque, Record, ValueFormatError, brief, decode, encode

TAGGED: list[tuple[Any, Any]] = [
    (None, None),
    (True, True),
    (2**62, 2**62),
    (2**63, {"$int": "9223372036854775808"}),
    (-(2**70), {"$int": str(-(2**70))}),
    (1.5, 1.5),
    (math.inf, {"$float": "inf"}),
    ((1, "a"), {"$tuple": [1, "a"]}),
    ({3}, {"$set": [3]}),
    (frozenset({3}), {"$frozenset": [3]}),
    ({"a": [1]}, {"a": [1]}),
    ({1: "one"}, {"$dict": [[1, "one"]]}),
    ({"$set": 1}, {"$dict": [["$set", 1]]}),
    (b"hi", {"$bytes": "aGk="}),
    (1 + 2j, {"$complex": [1.0, 2.0]}),
    (Decimal("1.10"), {"$decimal": "1.10"}),
    (Fraction(1, 3), {"$fraction": "1/3"}),
    (datetime.date(2024, 2, 14), {"$date": "2024-02-14"}),
    (datetime.datetime(2024, 2, 14, 10), {"$datetime": "2024-02-14T10:00:00"}),
    (datetime.time(10), {"$time": "10:00:00"}),
    (datetime.timedelta(1, 2, 3), {"$timedelta": [1, 2, 3]}),
    (range(0, 9, 2), {"$range": [0, 9, 2]}),
    ("a\ud800b", {"$text": "Ye2ggGI="}),
]


def test_a_zone_is_no_data() -> None:
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    for moment in (datetime.datetime(2024, 2, 14, 10, tzinfo=zone), datetime.time(10, tzinfo=zone)):
        told = {"$object": {"type": type(moment).__name__, "text": "seen"}}
        assert encode([moment], brief=lambda part: "seen") == [told]


@pytest.mark.parametrize(("value", "form"), TAGGED, ids=lambda item: repr(item)[:30])
def test_documented_form(value: Any, form: Any) -> None:
    assert encode(value) == form
    back = decode(json.loads(json.dumps(form)))
    assert (back, type(back)) == (value, type(value))


@pytest.mark.parametrize(("value", "form"), TAGGED, ids=lambda item: repr(item)[:30])
def test_through_guest_and_back(value: Any, form: Any) -> None:
    result = run("answer = (f(x), x)", {f"f({value!r})": value}, inputs={"x": value})
    assert result.answer == (value, value), result.trace.answer


def test_nan_and_huge_ints() -> None:
    assert math.isnan(decode(encode(math.nan)))
    assert encode(2**20_000)["$int"].startswith("0x")
    assert decode(encode(-(2**20_000))) == -(2**20_000)


atoms = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters())
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.dates()
    | st.datetimes()
    | st.fractions()
    | st.timedeltas()
)
keys = st.text() | st.integers() | st.tuples(st.integers(), st.text())
values = st.recursive(
    atoms,
    lambda inner: (
        st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(keys, inner) | st.sets(st.integers() | st.text())
    ),
    max_leaves=20,
)


@given(values)
def test_any_value_comes_back(value: Any) -> None:
    assert decode(json.loads(json.dumps(encode(value), allow_nan=False))) == value


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda x: (
            st.lists(x)
            | st.dictionaries(st.text() | st.sampled_from(["$set", "$int", "$dict", "$date", "$range", "$complex"]), x)
        ),
    )
)
def test_any_json_is_a_value_or_a_clear_error(data: Any) -> None:
    try:
        value = decode(data)
    except ValueFormatError:
        return
    assert brief(value)


@pytest.mark.parametrize(
    "form",
    [
        {"$nope": 1},
        {"$int": "x"},
        {"$set": 3},
        {"$set": [[1]]},
        {"$date": "yesterday"},
        {"$dict": [1]},
        {"$bytes": "§"},
    ],
)
def test_wrong_forms(form: Any) -> None:
    with pytest.raises(ValueFormatError):
        decode(form)


def test_what_the_language_lacks_is_only_named() -> None:
    assert decode(encode(object())) == Opaque("object", "<object>")
    nested: list[Any] = []
    nested.append(nested)
    assert "$object" in json.dumps(encode(nested))


class Trap:
    """Any use of its own code is a failure."""

    def __repr__(self) -> str:
        raise AssertionError("repr was called")

    __eq__ = __hash__ = __len__ = __iter__ = __getattr__ = __bool__ = __repr__  # type: ignore[assignment]


def test_brief_never_runs_the_programs_code() -> None:
    class List(list[int]):
        def __iter__(self) -> Any:
            raise AssertionError("iterated")

    assert brief([Trap(), List([1])]) == "[<Trap>, <List>]"
    assert brief({"k": Trap()}) == "{'k': <Trap>}"
    assert brief(Trap) == "<class 'Trap'>"


@given(values)
def test_brief_is_bounded(value: Any) -> None:
    assert len(brief(value)) < 2000


def test_brief_of_large_things() -> None:
    assert len(brief([list(range(1000))] * 1000)) < 400
    assert len(brief("x" * 10**6)) < 400
    assert brief(10**1000) == "<int of 3322 bits>"
    assert brief((1,)) == "(1,)"
    assert brief([1] * 100).endswith("… 100 in all]")


def test_record_is_a_dict_with_attributes() -> None:
    record = decode({"name": "Rex", "tags": {"a": 1}}, record=Record)
    assert (record.name, record["name"], record.tags.a, repr(record)) == (
        "Rex",
        "Rex",
        1,
        "{'name': 'Rex', 'tags': {'a': 1}}",
    )
    record.age = 3
    assert record["age"] == 3
    with pytest.raises(AttributeError, match="has no 'owner'"):
        _ = record.owner
