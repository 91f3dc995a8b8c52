"""The format of values: round trips, one documented form per value, limits, and nothing is evaluated."""

from __future__ import annotations

import datetime
import json
import math
import random
import time
import zoneinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chainofcode import run
from chainofcode.emulator import Tool
from chainofcode.emulator.tools import ToolFailed
from chainofcode.values.codec import MAX_BYTES, MAX_DEPTH, Opaque, Record, ValueFormatError, brief, decode, encode

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


def test_values_with_time_zones_are_opaque() -> None:
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    for moment in (datetime.datetime(2024, 2, 14, 10, tzinfo=zone), datetime.time(10, tzinfo=zone)):
        expected = {"$object": {"type": type(moment).__name__, "text": "seen"}}
        assert encode([moment], brief=lambda part: "seen") == [expected]


@pytest.mark.parametrize(("value", "form"), TAGGED, ids=lambda item: repr(item)[:30])
def test_values_have_their_documented_form(value: Any, form: Any) -> None:
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


# The time of an example depends on the load of the machine.
settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")


@given(values)
def test_any_value_survives_a_round_trip(value: Any) -> None:
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
def test_wrong_forms_are_rejected(form: Any) -> None:
    with pytest.raises(ValueFormatError):
        decode(form)


def test_unsupported_objects_are_only_named() -> None:
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


def test_brief_of_large_values_is_short() -> None:
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


# --- values that are crafted to be slow ---------------------------------------------------------------------------


def colliding(bits: int, length: int) -> list[int]:
    """Different numbers whose places in a dict of 2**bits entries form one chain: each walks all of it."""
    mask, total = 2**bits - 1, 2**bits * 2 // 3
    position, place = [0] * 2**bits, 0  # in the sequence in which every search ends: 0, 1, 6, 31, …
    for number in range(2**bits):
        position[place] = number
        place = (5 * place + 1) & mask
    arc = [place for place in range(2**bits) if position[place] < total // 2]
    walks: list[tuple[int, int]] = []
    for number in range(2**bits, 2**length):
        place, perturb = number & mask, number
        while position[place] < len(arc):
            if not perturb:
                walks.append((position[place], number))
                break
            perturb >>= 5
            place = (5 * place + perturb + 1) & mask
    return [*arc, *(number for _, number in sorted(walks)[: total - len(arc)])]


@pytest.fixture(scope="module")
def chain() -> list[int]:
    return colliding(12, 19)


def relative_time(numbers: list[Any]) -> float:
    """Return the time to build a dict of these numbers, relative to a dict of plain numbers."""
    times = []
    for keys in (numbers, list(range(len(numbers)))):
        spent = []
        for _ in range(5):
            started = time.perf_counter()
            dict.fromkeys(keys)
            spent.append(time.perf_counter() - started)
        times.append(min(spent))
    return times[0] / times[1]


def test_different_hashes_that_collide_are_refused(chain: list[int]) -> None:
    assert len(set(map(hash, chain))) == len(chain)
    assert relative_time(chain) > 20
    for number in (lambda n: n, float, lambda n: Fraction(n), Decimal):
        keys = [encode(number(n)) for n in chain]
        with pytest.raises(ValueFormatError, match="hashes of too many values collide"):
            decode({"$dict": [[key, 0] for key in keys]})
    filler = list(range(2**20, 2**20 + len(chain)))  # the table grows past the size that they are made for
    with pytest.raises(ValueFormatError, match="hashes of too many values collide"):
        decode({"$dict": [[key, 0] for key in chain + filler]})
    assert decode({"$tuple": chain}) == tuple(chain)


def test_values_with_equal_hashes_are_refused() -> None:
    same = [n * (2**61 - 1) for n in range(1, 40)]
    assert len(set(map(hash, same))) == 1
    for tagged in ({"$set": same}, {"$frozenset": same}, {"$dict": [[key, 0] for key in same]}):
        with pytest.raises(ValueFormatError, match="over 32 values have the same hash"):
            decode(tagged)
    assert decode({"$set": [7] * 1000}) == {7}


def test_honest_keys_are_never_refused() -> None:
    dice = random.Random(0)
    count = 3000
    many: list[list[Any]] = [
        [n << shift for n in range(count)] for shift in range(0, 60, 3)
    ] + [
        [n * factor for n in range(count)] for factor in (10, 1000, 86_400, 0.1, 0.25, 2.0**-10, 2.0**-40, -1)
    ] + [
        [dice.getrandbits(62) for _ in range(count)],
        [(n % 60, n // 60) for n in range(count)],
        [Decimal(n) / 100 for n in range(count)],
        [Fraction(n, 7) for n in range(count)],
        [datetime.date(1900, 1, 1) + datetime.timedelta(n) for n in range(count)],
    ]  # fmt: skip
    for keys in many:
        assert decode(encode(set(keys))) == set(keys)
        assert decode(encode(dict.fromkeys(keys))) == dict.fromkeys(keys)


def test_lists_that_become_sets_at_a_tool_are_checked(chain: list[int]) -> None:
    def count(of: set[int]) -> int:
        return len(of)

    assert Tool("count", count).bound([[7] * 1000 + chain[:100]], {}).args == ({7, *chain[:100]},)
    crafted = [n * (2**61 - 1) for n in range(1, 400)]
    with pytest.raises(ToolFailed, match="over 32 values have the same hash"):
        Tool("count", count).bound([crafted], {})


@pytest.mark.parametrize(
    "tagged",
    [
        {"$fraction": "0x" + "f" * 1_000_000 + "/0x" + "7" * 900_000},
        {"$range": [0, {"$int": "0x" + "f" * 2_000_000}, {"$int": "0x" + "7" * 1_000_000}]},
        {"$int": "9" * 1_000_000},
        {"$object": {"type": [[]], "text": "x"}},
        {"$decimal": [0, [1] * 1_000_000, 0]},
    ],
    ids=lambda tagged: next(iter(tagged)),
)
def test_numbers_with_quadratic_cost_are_refused(tagged: Any) -> None:
    started = time.process_time()
    with pytest.raises(ValueFormatError):
        decode(tagged)
    assert time.process_time() - started < 0.5


def test_long_numbers_are_hashed_quickly() -> None:
    huge = [Decimal("1e999999999999"), Decimal("7" * 1_000_000), 7**400_000, Fraction(1, 3**5000)]
    tagged = encode(set(huge))
    started = time.process_time()
    assert decode(tagged) == set(huge)
    assert time.process_time() - started < 0.5


def test_too_many_parts_are_refused() -> None:
    with pytest.raises(ValueFormatError, match="more than 1,000,000 parts"):
        decode([[[]] * 500_001, [[]] * 500_001])


def test_depth_is_bounded_both_ways() -> None:
    deepest: list[object] = []
    for _ in range(MAX_DEPTH):
        deepest = [deepest]
    assert decode(encode(deepest)) == deepest
    assert encode([deepest]) == {"$object": {"type": "list", "text": "<list>"}}
    with pytest.raises(ValueFormatError, match="nested deeper than 100 levels"):
        decode([deepest])


@pytest.mark.parametrize("part", ["x" * 1000, b"x" * 1000, 1 << 4000], ids=["text", "bytes", "int"])
def test_bytes_of_a_value_are_bounded(part: object) -> None:
    most = [part] * (MAX_BYTES // 1000)
    assert decode(encode(most)) == most
    assert encode([*most, part]) == {"$object": {"type": "list", "text": "<list>"}}
