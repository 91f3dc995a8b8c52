"""Requests to models and how their replies are read: types, prompts, vocabulary, one repair."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import decimal
import json
import time
from collections.abc import Sequence
from typing import Any

import pytest

from chainofcode import Message, ScriptedLM, arun, run
from chainofcode.emulator.replies import data_in, delta_in, value_in
from chainofcode.emulator.types import Misfit, kind_of
from chainofcode.lm import Completion, Usage
from chainofcode.values.codec import Opaque

# --- replies, as models write them --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('{"value": true}', True),
        ("true", True),
        ("True", True),
        ("Yes.", True),
        ("```json\n{\"value\": [1, 2]}\n```", [1, 2]),
        ("```\n'Tokyo'\n```", "Tokyo"),
        ('Sure!\n```json\n{"value": 3}\n```\nHope it helps.', 3),
        ('{"value": 3} because there are three of them', 3),
        ("value: 42", 42),
        ("delta state: {\"value\": false}", False),
        ("answer = ['a', 'b']", ["a", "b"]),
        ("('a', 1)", ("a", 1)),
        ("{1, 2}", {1, 2}),
        ("Paris", "Paris"),
        ("3 apples", "3 apples"),
        ('{"$date": "2024-02-14"}', datetime.date(2024, 2, 14)),
        ("null", None),
        ("[1, 2, 3]\n\nThese are the numbers.", [1, 2, 3]),
    ],
)  # fmt: skip
def test_reply(reply: str, value: object) -> None:
    found = value_in(reply)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "reply", ["{x = True, y = [1]}", '{"x": true, "y": [1]}', "```python\n{'x': True, 'y': [1]}\n```"]
)
def test_delta(reply: str) -> None:
    assert delta_in(reply) == {"x": True, "y": [1]}


@pytest.mark.parametrize("reply", ["", "   ", "```\n```"])
def test_empty_reply_has_no_value(reply: str) -> None:
    with pytest.raises(Misfit):
        data_in(reply)


@pytest.mark.parametrize(
    "reply", ["__import__('os').system('true')", "(lambda: 1)()", "open('/etc/passwd').read()", "[x for x in range(9)]"]
)
def test_a_reply_is_never_evaluated(reply: str) -> None:
    assert data_in(reply) == reply


@pytest.mark.parametrize("reply", ["[" * 100_000, "{" * 100_000, "-" * 100_000 + "1", '{"a":' * 50_000, "9" * 100_000])
def test_hostile_replies_are_text(reply: str) -> None:
    assert value_in(reply) == reply


# --- types --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "data", "value"),
    [
        ("bool", "yes", True),
        ("int", "1,234", 1234),
        ("int", 8.0, 8),
        ("float", 3, 3.0),
        ("number", "$4.50", 4.5),
        ("str", 7, "7"),
        ("list[int]", ["1", 2], [1, 2]),
        ("tuple[int, str]", [1, "a"], (1, "a")),
        ("tuple[int, ...]", [1, 2, 3], (1, 2, 3)),
        ("set[str]", ["a", "a"], {"a"}),
        ("dict[str, int]", {"a": "1"}, {"a": 1}),
        ("dict[int, str]", {"1": "a"}, {1: "a"}),
        ("Optional[int]", None, None),
        ("int | None", "5", 5),
        ("Literal['Pos', 'Neg']", "neg.", "Neg"),
        ("Literal['a'] | str", "A", "a"),
        ("Literal['a'] | str", "zebra", "zebra"),
        ("Literal[1, 2]", 2, 2),
        ("datetime.date", "2024-02-14", datetime.date(2024, 2, 14)),
        ("date", "February 14, 2024", datetime.date(2024, 2, 14)),
        ("datetime", "2024-02-14T10:00:00", datetime.datetime(2024, 2, 14, 10)),
        ("time", "09:30", datetime.time(9, 30)),
        ("date", datetime.datetime(2024, 2, 14, 10), datetime.date(2024, 2, 14)),
        ("date", "2024-02-14T10:00:00Z", datetime.date(2024, 2, 14)),
        ("date", '"2024-02-14".', datetime.date(2024, 2, 14)),
        ("datetime", datetime.date(2024, 2, 14), datetime.datetime(2024, 2, 14)),
        ("int", "12 Apples", 12),
        ("int", "7 or so", 7),
        ("list[int]", [10**5000], [10**5000]),
        ("float", "40 Km per Hour", 40.0),
        ("Decimal", 1.1, decimal.Decimal("1.1")),
        ("{'name': str, 'age': int}", {"name": "Ann", "age": "7", "extra": 1}, {"name": "Ann", "age": 7, "extra": 1}),
        ("list[{'name': str}]", [{"name": "Ann"}], [{"name": "Ann"}]),
        ("'list[str]'", ["a"], ["a"]),
        ("SomethingElse", [1], [1]),
        ("", {"a": None}, {"a": None}),
        ("list[", 3, 3),
    ],
)
def test_fits(annotation: str, data: Any, value: Any) -> None:
    found = kind_of(annotation).fit(data)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("annotation", "data"),
    [
        ("bool", "perhaps"),
        ("bool", None),
        ("int", "many"),
        ("int", 1.5),
        ("int", True),
        ("number", [1]),
        ("str", None),
        ("str", ["a"]),
        ("list[int]", "1, 2"),
        ("list[int]", ["a"]),
        ("tuple[int, int]", [1]),
        ("dict[str, int]", [1]),
        ("Literal['a', 'b']", "c"),
        ("Literal[1, 2]", True),
        ("Literal[True, 'x']", 1),
        ("tuple[int, int]", [1, 2, 3]),
        ("date", "soon"),
        ("time", "noon"),
        ("{'name': str}", {"age": 1}),
        ("set[str]", "abc"),
        ("set", [[1]]),
        *(
            (annotation, text)
            for annotation in ("int", "float", "Decimal")
            for text in (
                "5 Million",
                "5 K",
                "5 B",
                "3 and a half",
                "12 minus four",
                "2 DOZEN",
                "4 point five",
                "1 to two",
                "7 or eight",
            )
        ),
        ("float", "1.5 Billion"),
        ("float", "1e999"),
        ("float", float("nan")),
        ("timedelta", float("inf")),
        ("date", "2024-02-1499"),
        ("date", "2024-02-14 or later 2024-03-01"),
        ("date", 20240214),
        ("datetime", 20240214),
        ("time", 10),
        ("str", Opaque("Basket", "<Basket>")),
        ("dict[str, str]", {"a": Opaque("Basket", "<Basket>")}),
        ("Literal['none', 'some']", None),
        ("Literal['<Basket>']", Opaque("Basket", "<Basket>")),
    ],
)
def test_misfits(annotation: str, data: Any) -> None:
    with pytest.raises(Misfit):
        kind_of(annotation).fit(data)


def test_null_is_allowed_only_if_the_type_allows_it() -> None:
    assert {"type": "null"} not in kind_of("").schema["anyOf"]
    assert {"type": "null"} in kind_of("Optional[str]").schema["anyOf"]


@pytest.mark.parametrize(
    "annotation", ["list[" * 500 + "int" + "]" * 500, "x" * 5000, "int | " * 400 + "int", "(" * 1000]
)
def test_hostile_annotations_are_any(annotation: str) -> None:
    assert kind_of(annotation).fit({"a": 1}) == {"a": 1}


# --- requests -----------------------------------------------------------------------------------------------------


class Recording:
    """A model whose reply depends on the text of the call, and that records its requests with their options."""

    name = "recording"

    def __init__(self, replies: dict[str, str] | None = None, reply: str = '{"value": 1}') -> None:
        self._replies, self._reply = replies or {}, reply
        self.requests: list[tuple[Sequence[Message], dict[str, Any]]] = []

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        self.requests.append((messages, options))
        last = messages[-1].content
        content = next((reply for text, reply in self._replies.items() if f"call: {text}" in last), self._reply)
        return [Completion(content, Usage(1, 10, 2))]


def test_unchanged_parts_of_prompt_come_first() -> None:
    lm = Recording()
    run("total = 0\nfor n in [3, 4, 5]:\n    total += weight(n)\nanswer = total", lm, question="How heavy?")
    prompts = [messages for messages, _ in lm.requests]
    assert len(prompts) == 3
    for prompt in prompts[1:]:
        assert [m.content for m in prompt[:-1]] == [m.content for m in prompts[0][:-1]]
    assert "How heavy?" in prompts[0][-2].content
    assert "total += weight(n)" in prompts[0][-2].content
    assert "call: weight(4)" in prompts[1][-1].content
    assert "line: total += weight(n)" in prompts[1][-1].content


def test_state_begins_with_variables_that_the_line_reads() -> None:
    lm = Recording()
    program = """
from dataclasses import dataclass
import datetime
@dataclass
class Trip:
    city: str
    days: int
long = "x" * 5000
when = datetime.date(2024, 2, 14)
seen = {1, 2}
trip = Trip("Rome", 3)
answer = price(trip, when)
"""
    run(program, lm)
    last = lm.requests[0][0][-1].content
    state = next(line for line in last.split("\n") if line.startswith("state: "))
    assert state.startswith("state: trip = Trip(city='Rome', days=3); when = datetime.date(2024, 2, 14)")
    assert "seen = {1, 2}" in state
    assert len(last) < 3000


def test_earlier_calls_are_in_prompt_and_only_appended() -> None:
    lm = Recording({"sport('puck')": '{"value": "hockey"}', "sport('net')": '{"value": "tennis"}'}, '{"value": "golf"}')
    run("answer = [sport(t) for t in ['puck', 'net', 'tee', 'bat']]", lm)
    last = lm.requests[3][0][-1].content
    earlier = "earlier calls:\nsport('puck') → \"hockey\"\nsport('net') → \"tennis\"\nsport('tee') → \"golf\"\n"
    assert last.startswith(earlier)
    before = lm.requests[2][0][-1].content.partition("\n\n")[0]
    assert last.startswith(before)


def test_the_type_constrains_the_reply() -> None:
    lm = Recording(reply='{"value": "b"}')
    result = run("k = kind('x')\nif k == 'a': answer = 1\nelif k == 'b': answer = 2", lm)
    assert result.answer == 2
    schema = lm.requests[0][1]["schema"]
    assert schema["properties"]["value"] == {"enum": ["a", "b"]}
    assert schema["required"] == ["value"]
    assert "type: one of 'a', 'b'" in lm.requests[0][0][-1].content


def test_prompt_contains_specification() -> None:
    lm = Recording(reply='{"value": true}')
    run("def ripe(fruit: str) -> bool:\n    '''Whether it can be eaten today.'''\n\nanswer = ripe('plum')", lm)
    assert "Whether it can be eaten today." in lm.requests[0][0][-1].content


def test_unfitting_reply_is_requested_once_more() -> None:
    lm = ScriptedLM(["perhaps", '{"value": true}'])
    result = run("answer = 'yes' if is_ripe('plum') else 'no'", lm)
    assert result.answer == "yes"
    assert len(result.trace.calls) == 2
    assert "neither true nor false" in lm.requests[1][-1].content
    assert result.trace.lm_calls == 1


def test_second_unfitting_reply_fails_step_and_keeps_requests() -> None:
    lm = ScriptedLM(["perhaps", "who knows"])
    result = run("answer = 1 if is_ripe('plum') else 2", lm)
    assert result.reason == "emulation failed"
    assert result.error is not None
    assert result.error.line == 1
    assert "is_ripe('plum')" in result.error.message
    assert [call.reply for call in result.trace.calls] == ["perhaps", "who knows"]
    assert result.usage.requests == 2


def test_prose_instruction_changes_variables() -> None:
    program = "words = ['b', 'a']\nsort the words by how funny they are into ranked\nanswer = ranked[0]"
    lm = Recording(reply='{"ranked": ["a", "b"]}')
    assert run(program, lm).answer == "a"
    schema = lm.requests[0][1]["schema"]
    assert schema["required"] == ["ranked"]
    assert set(schema["properties"]) >= {"ranked", "words"}
    wrong = ScriptedLM(['{"nonsense": 1}', '{"ranked": ["a"]}'])
    assert run(program, wrong).answer == "a"


@pytest.mark.parametrize(
    ("before", "after"), [("['plum']", ["pear"]), ("{'plum': 1}", {"pear": 2}), ("{'plum'}", {"pear"})]
)
def test_prose_changes_a_container_in_place(before: str, after: object) -> None:
    program = f"basket = {before}\nsame = basket\nput into the basket what is ripe\nanswer = (same, same is basket)"
    assert run(program, lambda pause: {"basket": after}).answer == (after, True)


def test_values_have_their_python_types() -> None:
    lm = Recording(
        {"when(1)": '{"value": "2024-02-29"}', "pair(1)": '{"value": [1, 2]}', "who(1)": '{"value": {"name": "Ann"}}'}
    )
    program = """
import datetime
def when(x) -> datetime.date: ...
a, b = pair(1)
answer = (when(1).year, a + b, who(1).name, who(1)["name"])
"""
    assert run(program, lm).answer == (2024, 3, "Ann", "Ann")


def test_state_is_collected_only_for_models() -> None:
    """Other emulators do not use the state, so guests do not send it to them."""
    seen: list[Any] = []
    run("x = 1\nanswer = f(x)", lambda pause: seen.append(pause) or 1)
    assert seen[0].state == {}
    lm = Recording()
    asyncio.run(arun("x = 1\nanswer = f(x)", lm))
    assert "x = 1" in lm.requests[0][0][-1].content


def test_spent_budget_is_a_limit() -> None:
    from chainofcode.lm.wrappers import Budgeted

    lm = Budgeted(Recording(), tokens=30)
    result = run("answer = [f(n) for n in range(9)]", lm)
    assert result.reason == "limit:tokens"
    assert result.error is not None
    assert "budget of 30 tokens" in result.error.message
    lm = Budgeted(Recording(), calls=2)
    assert run("answer = [f(n) for n in range(9)]", lm).reason == "limit:calls"


def test_huge_and_unusual_arguments_fit_into_a_prompt() -> None:
    lm = Recording(reply='{"value": "short"}')
    result = run("text = 'word ' * 100_000 + '\\ud800'\nanswer = summary(text)", lm)
    assert result.answer == "short"
    assert sum(len(m.content) for m in lm.requests[0][0]) < 20_000
    json.dumps([m.content for m in lm.requests[0][0]]).encode()


# --- findings of a review -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "data"),
    [
        ("int", "5 million"),
        ("number", "1.5 billion"),
        ("number", "3 - 4"),
        ("timedelta", "2 hours"),
        ("timedelta", 1e300),
        ("Fraction", float("inf")),
        ("float", 10**400),
    ],
)
def test_no_value_is_silently_changed(annotation: str, data: Any) -> None:
    with pytest.raises(Misfit):
        kind_of(annotation).fit(data)


@pytest.mark.parametrize(
    ("annotation", "data", "value"),
    [
        ("int | str", "5 apples", "5 apples"),
        ("str | int", 12, 12),
        ("bool | str", "yes", "yes"),
        ("list[()]", [1], [1]),
    ],
)
def test_data_of_a_listed_type_is_unchanged(annotation: str, data: Any, value: Any) -> None:
    assert kind_of(annotation).fit(data) == value


@pytest.mark.parametrize(
    ("reply", "text"),
    [("No", "No"), ("1.10", "1.10"), ("1\n2\n3", "1\n2\n3"), ("'a b'", "a b"), ('{"value": "x"}', "x")],
)
def test_reply_is_literal_where_text_is_expected(reply: str, text: str) -> None:
    assert value_in(reply, is_text=True) == text
    assert run("answer = describe('x').strip()", ScriptedLM([reply])).answer == text


@pytest.mark.parametrize(
    "program",
    [
        "class P: pass\na = [P()]\na.append(a)\nanswer = weight('x')",
        "class P: pass\no = P()\nx = [o]\nfor _ in range(7): x = [o] + [x] * 9\nanswer = weight('x')",
    ],
)
def test_state_may_contain_cyclic_and_deep_objects(program: str) -> None:
    assert run(program, Recording()).answer == 1


def test_earlier_calls_with_identical_answers_are_not_shown() -> None:
    lm = Recording({"is_odd(2)": '{"value": false}'}, '{"value": true}')
    run("answer = [is_odd(n) for n in [1, 3, 2, 5]]", lm)
    shown = ["earlier calls" in request[0][-1].content for request in lm.requests]
    assert shown == [False, False, False, True]


def test_true_is_not_the_label_1() -> None:
    numbers, answers = kind_of("Literal[0, 1]"), kind_of("Literal[True, 'unknown']")
    assert numbers.fit(1) == 1 and type(numbers.fit(1)) is int
    assert answers.fit(True) is True
    for kind, value in ((numbers, True), (numbers, False), (answers, 1)):
        with pytest.raises(Misfit):
            kind.fit(value)


@pytest.mark.parametrize("unit", ["f(1),", "x = 1\n", "(1,", "{x = 1, "])
def test_long_replies_are_not_parsed_as_python(unit: str) -> None:
    """The parser would take seconds and hundreds of megabytes for text that no model writes."""
    started = time.process_time()
    with contextlib.suppress(Misfit):
        data_in(unit * (1_000_000 // len(unit)))
    assert time.process_time() - started < 1
    assert data_in("[" + "1, " * 300_000 + "1]") == [1] * 300_001
