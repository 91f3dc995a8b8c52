"""Typed answers: the type in the prompt, checks, second requests, conversion; and queries that only read."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import json
import resource
import sqlite3
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal, TypedDict

import msgspec
import pytest
from shared_jail import solve
from test_cli import coc

from chainofcode import Answer, Call, Event, InputError, Result, ScriptedLM, Trace, ask
from chainofcode.emulator.types import Misfit
from chainofcode.methods import Inquiry, answer_type_of, compose, sql


@dataclasses.dataclass
class Item:
    name: str
    price: float


@dataclasses.dataclass
class Bill:
    items: list[Item]
    paid: bool = False


class Person(msgspec.Struct):
    name: str
    born: datetime.date


class Mood(TypedDict):
    mood: Literal["happy", "sad"]


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 3}}, "required": ["n"]}


TREE = {"type": "object", "properties": {"of": {"type": "array", "items": {"$ref": "#"}}}}


def solved(replies: list[str], answer_type: Any, **options: Any) -> tuple[Result, ScriptedLM]:
    lm = ScriptedLM(replies)
    return solve("What?", lm, answer_type=answer_type, **options), lm


@pytest.mark.parametrize(
    ("answer_type", "program", "value"),
    [
        ("int", "answer = '1,200 apples'", 1200),
        (int, "answer = 3.0", 3),
        ("float", "answer = 3", 3.0),
        ("bool", "answer = 'Yes.'", True),
        (bool, "answer = 1 > 2", False),
        ("str", "answer = 12", "12"),
        ("date", "answer = 'March 4, 2024'", datetime.date(2024, 3, 4)),
        (datetime.date, "import datetime\nanswer = datetime.date(2024, 3, 4)", datetime.date(2024, 3, 4)),
        ("choice:red,Dark Blue", "answer = 'dark blue'", "Dark Blue"),
        (Literal["a", "b"], "answer = 'A'", "a"),
        ("list[int]", "answer = ['1', 2.0]", [1, 2]),
        (list[int], "answer = '[1, 2]'", [1, 2]),
        (dict[str, float], "answer = {'a': 1}", {"a": 1.0}),
        (int | None, "answer = None if 1 > 2 else 'null'", None),
        (Person, "answer = {'name': 'Ada', 'born': '1815-12-10'}", Person("Ada", datetime.date(1815, 12, 10))),
        (Bill, "answer = {'items': [{'name': 'fig', 'price': '2'}]}", Bill([Item("fig", 2.0)])),
        (list[Item], 'answer = \'[{"name": "fig", "price": 2}]\'', [Item("fig", 2.0)]),
        (Mood, "answer = {'mood': 'sad'}", {"mood": "sad"}),
        ("json", "answer = {'a': (1, 2)}", {"a": [1, 2]}),
        ("json", "import json\nanswer = json.dumps([None, 1.5])", [None, 1.5]),
        ("yaml", "answer = 'a: [1, 2]\\nb: 2024-01-01'", {"a": [1, 2], "b": datetime.date(2024, 1, 1)}),
        (SCHEMA, "answer = {'n': 2}", {"n": 2}),
        ("sql", "answer = 'SELECT a FROM t -- all;'", "SELECT a FROM t -- all"),
    ],
)
def test_fitting_answers_are_converted(answer_type: Any, program: str, value: Any) -> None:
    result, _ = solved([program], answer_type)
    assert (result.reason, result.answer) == ("answered", value), result
    assert type(result.answer) is type(value)
    assert result.trace.answer is not None and result.trace.answer.type


@pytest.mark.parametrize(
    ("answer_type", "reply", "value"),
    [
        ("int", "A: It is 12.", None),
        ("int", "A: 12 days", 12),
        (bool, "A: no", False),
        (Bill, '```json\n{"items": [],\n "paid": true}\n```', None),
        ("json", 'Here it is:\n```json\n{"items": [],\n "paid": true}\n```', {"items": [], "paid": True}),
        ("json", 'A: {"a": 1}', {"a": 1}),
        ("yaml", "a: 1\nb:\n- 2", {"a": 1, "b": [2]}),
        ("sql", "```sql\nSELECT 1;\n```", "SELECT 1"),
        (SCHEMA, '```\n{"n": 3}\n```', {"n": 3}),
    ],
)
@pytest.mark.parametrize("method", ["direct", "cot"])
def test_answer_is_read_from_the_reply(answer_type: Any, reply: str, value: Any, method: str) -> None:
    result, _ = solved([reply, "A: no idea"], answer_type, method=method)
    assert result.answer == value, result


class Vote(enum.Enum):
    YES = "yes"
    NO = "no"


@pytest.mark.parametrize(
    ("answer_type", "text", "value"),
    [
        ({"enum": ["yes", "no"]}, "yes", "yes"),
        ({"const": "true"}, "true", "true"),
        ({"type": ["string", "null"]}, "123", "123"),
        ({"anyOf": [{"type": "string", "maxLength": 9}, {"type": "null"}]}, "2024", "2024"),
        ({"type": ["integer", "null"]}, "123", 123),
        ({"type": "string"}, "", ""),
        ({"properties": {"a": {"type": "integer"}}}, '{"a": 1}', {"a": 1}),
        (Vote, "yes", "yes"),
        (Bill, '{"items": []}', {"items": []}),
    ],
)
def test_text_is_kept_if_it_fits_the_type(answer_type: Any, text: str, value: Any) -> None:
    wanted = answer_type_of(answer_type)
    assert wanted is not None and wanted.read(text) == value


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "string", "format": "date"}, "2024-02-29", "2024-02-30"),
        ({"type": "string", "format": "date-time"}, "2024-02-29T10:00:00Z", "xx"),
        ({"type": "string", "format": "time"}, "10:00:00", "25:00"),
        ({"type": "string", "format": "email"}, "a@example.org", "nobody"),
        ({"format": "date-time"}, 3, "xx"),
        ({"uniqueItems": True}, [1, True, "1", [1], {"a": 1}], [{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]),
        ({"uniqueItems": False}, [1, 1], None),
        (TREE, {"of": [{"of": []}]}, {"of": [{"of": [3]}]}),
        (
            {"properties": {"a": {"$id": "urn:a", "$ref": "#/$defs/n", "$defs": {"n": {"type": "null"}}}}},
            {"a": None},
            {"a": 1},
        ),
    ],
)
def test_schema_constraints_are_checked(schema: Any, good: Any, bad: Any) -> None:
    wanted = answer_type_of(schema)
    assert wanted is not None and wanted.read(good) == good
    if bad is not None:
        with pytest.raises(Misfit, match="does not fit"):
            wanted.read(bad)


def test_large_and_deep_data_is_checked_quickly() -> None:
    unique, tree = answer_type_of({"uniqueItems": True}), answer_type_of(TREE)
    assert unique is not None and tree is not None
    started = time.monotonic()
    assert len(unique.read([{"a": n} for n in range(20_000)])) == 20_000
    assert time.monotonic() - started < 5
    deep: Any = {"of": []}
    for _ in range(3000):
        deep = {"of": [deep]}
    for nested in (deep, '{"of": [' * 5000 + "]}" * 5000):
        with pytest.raises(Misfit, match=r"does not fit|not JSON"):
            tree.read(nested)


def test_prompt_describes_answer_type() -> None:
    for answer_type, words in [("int", "a whole number"), (Bill, '"paid"'), (SCHEMA, '"maximum": 3'), ("yaml", "YAML")]:
        lm = ScriptedLM(["answer = 1"] * 2)
        solve("What?", lm, answer_type=answer_type)
        prompt = lm.requests[0][-1].content
        assert "The answer must be" in prompt and words in prompt


def ends(result: Result) -> list[tuple[str, str]]:
    return [(event.reason, event.then) for event in result.trace.events if isinstance(event, Answer)]


def test_program_with_unfitting_answer_is_repaired_once() -> None:
    result, lm = solved(["answer = 'dunno'", "answer = len('abc')"], int)
    assert result.answer == 3
    assert ends(result) == [("error", "repair"), ("answered", "")]
    assert "wanted int, but 'dunno' is not a number" in lm.requests[1][-1].content
    for repairs in (0, 5):
        method = compose(repairs=repairs)
        result, lm = solved(["answer = len('a') * 'x'"] * 9, int, method=method)
        assert result.reason == "error" and len(lm.requests) == 2
        assert result.error is not None
        assert (result.error.type, result.error.message) == ("AnswerType", "wanted int, but 'x' is not a number")
        assert result.answer is None


def test_total_number_of_repairs_is_bounded() -> None:
    programs = ["answer = 1 / 0", "answer = len('') * 'x' + 'y'", "answer = 2 / 0", "answer = 3 / 0"]
    result, _ = solved(programs, int, method=compose(repairs=2))
    assert ends(result) == [("error", "repair"), ("error", "repair"), ("error", "")]
    assert result.error is not None and result.error.type == "ZeroDivisionError"


@pytest.mark.parametrize("method", ["direct", "cot", "react"])
def test_unfitting_reply_is_requested_once_more(method: str) -> None:
    result, lm = solved(["A: perhaps", "A: yes"], bool, method=method)
    assert result.answer is True
    assert "perhaps" in lm.requests[1][-2].content
    assert "wanted bool, but 'perhaps' is neither true nor false" in lm.requests[1][-1].content
    result, lm = solved(["A: perhaps"] * 5, bool, method=method)
    assert result.error is not None and result.error.type == "AnswerType"
    assert len(lm.requests) == 2


def test_answers_of_custom_methods_are_typed() -> None:
    async def guessing(inquiry: Inquiry) -> AsyncIterator[Event]:
        yield Call("", "7 or so")
        yield Answer("answered", "7 or so", "'7 or so'", "reply")

    assert solved([], int, method=guessing)[0].answer == 7


def test_unfitting_answer_leads_to_fallback() -> None:
    replies = ["answer = len('') * 'x' + 'y'"] * 2 + ["A: hm", "A: hm", "A: hm", "A: 4"]
    result, _ = solved(replies, int, method=compose(fallback=True))
    assert result.answer == 4


def test_votes_are_counted_by_value() -> None:
    replies = ["answer = len('ab')", "answer = f\"{len('ab')}.0\"", "answer = str(len('ab')) + ' of them'"]
    result, _ = solved(replies, int, method=compose(votes=3))
    assert result.answer == 2
    assert result.trace.answer is not None and result.trace.answer.votes == {"2": 3}


def test_objects_of_program_classes_are_not_data() -> None:
    program = "class Bill: pass\nanswer = Bill()"
    result, _ = solved([program, program], Bill)
    assert result.error is not None
    assert "the answer is a Bill object, which cannot leave the sandbox" in result.error.message
    result, _ = solved(["class A: pass\nanswer = [A()]"] * 2, "json")
    assert result.error is not None and "it contains a A" in result.error.message
    result, _ = solved(["class A: pass\nanswer = [A()]"] * 2, "list")
    assert result.error is not None and "the answer contains a A" in result.error.message


def test_trace_keeps_data_and_original_text(tmp_path: Path) -> None:
    result, _ = solved(["answer = {'items': [], 'paid': 'true'}"], Bill)
    assert result.answer == Bill([], True)
    result.trace.write(tmp_path / "t.jsonl")
    answer = Trace.read(tmp_path / "t.jsonl").answer
    assert answer is not None
    assert (answer.value, answer.type) == ({"items": [], "paid": "true"}, "Bill")
    result, _ = solved(["answer = '3 figs'"], int)
    assert result.trace.answer is not None
    assert (result.trace.answer.text, result.trace.answer.said) == ("3", "'3 figs'")


def test_pydantic_model_is_checked_and_returned() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Invoice(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        total: float
        lines: list[str]

    result, lm = solved(["answer = {'total': 'much'}", "answer = {'total': 2 + 1, 'lines': ['x'] * 2}"], Invoice)
    assert result.answer == Invoice(total=3, lines=["x", "x"])
    assert "valid number" in lm.requests[1][-1].content


def test_last_event_of_ask_has_the_data() -> None:
    async def last() -> Event:
        return [event async for event in ask("What?", ScriptedLM(["answer = 'yes'"]), answer_type=bool)][-1]

    event = asyncio.run(last())
    assert isinstance(event, Answer) and event.value is True


# --- text that parses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer_type", "program", "message"),
    [
        ("json", "answer = '{1: 2}'", "is not JSON: Expecting property name"),
        ("json", "answer = float('nan') * len('a')", "is not JSON"),
        ("json", "answer = '[NaN]'", "NaN is not a number"),
        ("json", "answer = '[1e999]'", "1e999 is not a number"),
        ("float", "answer = 'NaN'", "is not a number"),
        ("json", "answer = '[' * 100_000", "is not JSON"),
        ("yaml", "answer = 'a: [1'", "is not YAML"),
        ("yaml", "answer = '[' * 50_000", "is not YAML"),
        ("yaml", "answer = 'x' * 300_000", "the limit is 200,000"),
        ("yaml", "answer = '!!python/object/apply:os.system [\"true\"]'", "is not YAML"),
        (SCHEMA, "answer = {'n': 5 + 2}", "7 is more than 3 (at $.n)"),
        (SCHEMA, "answer = 'nothing'", "'nothing' is not of type object"),
        ("choice:a,b", "answer = 'c'", "'c' is not one of 'a', 'b'"),
        (Bill, "answer = {'paid': 1 > 2}", "missing required field `items`"),
        (Bill, r"answer = {'items': [], '\ud800': 1}", "surrogates not allowed"),
    ],
)
def test_unfitting_answer_is_an_error(answer_type: Any, program: str, message: str) -> None:
    result, _ = solved([program] * 2, answer_type)
    assert result.error is not None and result.error.type == "AnswerType"
    assert message in result.error.message, result.error.message
    assert len(result.error.message) < 1000


@pytest.mark.parametrize(
    "kind", ["float", "bool", "str", "date", "Decimal", "choice:a,b", "list[str]", "None", "datetime"]
)
def test_number_too_long_to_print_does_not_fit(kind: str) -> None:
    result, _ = solved(["answer = 10**5000"] * 2, kind, method=compose("coc"))
    assert result.error is not None and result.error.type == "AnswerType"
    assert "<int of 16610 bits>" in result.error.message


@pytest.mark.parametrize(
    ("first", "more"), [("[x, x]", "[{}]"), ("{k: v}", "{{<<: [{}]}}"), ("{k: v}", "{{{}: 1}}"), ("{<<: {k: v}}", "x")]
)
def test_yaml_that_expands_exponentially_is_refused(first: str, more: str) -> None:
    lines = [f"a0: &a0 {first}"] + [f"a{n}: &a{n} {more.format(', '.join([f'*a{n - 1}'] * 9))}" for n in range(1, 12)]
    result, _ = solved([f"answer = {chr(10).join(lines)!r}"] * 2, "yaml")
    assert result.error is not None and "is not YAML" in result.error.message
    assert "write out what that stands for" in result.error.message


@pytest.mark.parametrize(
    ("answer_type", "message"),
    [
        ("nonsense", "unknown answer type 'nonsense'"),
        ("choice:", "choice: requires labels"),
        ("nowhere.json", "cannot read nowhere.json"),
        ({"type": "nonsense"}, "is not a JSON schema"),
        ({"$ref": "http://example.org/s.json"}, "nothing is fetched"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "nothing is fetched"),
        ({"$dynamicRef": "http://example.org/s"}, "nothing is fetched"),
        ({"$ref": "#/nope"}, "refers to '#/nope', which is not in it"),
        ({"properties": {"a": {"$ref": "#/$defs/x"}}}, "refers to '#/\\$defs/x', which is not in it"),
        ({"$ref": "#"}, "refers to itself without end"),
        ({"$schema": 5, "not": {}}, "\\$schema must be a string"),
        ({"maximum": 10**5000}, "is not a JSON schema"),
        (object(), "as an answer type"),
    ],
)
def test_invalid_answer_types(answer_type: Any, message: str) -> None:
    lm = ScriptedLM(["answer = 1"])
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        solve("What?", lm, answer_type=answer_type)
    assert not lm.requests


def test_error_does_not_quote_a_huge_schema() -> None:
    schema = {"type": ["integer"] * 100_000}
    result, lm = solved(["answer = 'x'"] * 2, schema)
    assert result.error is not None and "is not of type integer" in result.error.message
    assert len(result.error.message) < 1000
    assert all(len(message.content) < 50_000 for request in lm.requests for message in request)


@pytest.mark.parametrize(
    ("module", "answer_type", "extra"), [("yaml", "yaml", "yaml"), ("jsonschema", {"pattern": "a"}, "schema")]
)
def test_missing_package_is_named(module: str, answer_type: Any, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"pip install 'chainofcode\[{extra}\]'"):
        solve("What?", ScriptedLM([]), answer_type=answer_type)


# --- queries ------------------------------------------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop?#%20.db"  # characters that have a meaning in URIs
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE sales (item TEXT, price REAL, photo BLOB)")
    rows = [(f"item {n}", n / 2, b"\0x") for n in range(1500)]
    connection.executemany("INSERT INTO sales VALUES (?, ?, ?)", rows)
    connection.commit()
    connection.close()
    return path


def queried(query: str, database: Path | None = None) -> Result:
    program = f"answer = {query!r}"
    return solved([program, program], "sql", database=str(database) if database else None)[0]


def test_rows_of_query_are_the_answer(shop: Path) -> None:
    lm = ScriptedLM(["answer = 'SELECT item, price, price, photo FROM sales ORDER BY price DESC LIMIT 1;'"])
    result = solve("What?", lm, answer_type="sql", database=str(shop), method=compose(repairs=2))
    assert result.answer == [{"item": "item 1499", "price": 749.5, "price_2": 749.5, "photo": b"\0x"}]
    assert "CREATE TABLE sales (item TEXT" in lm.requests[0][-1].content
    assert len(lm.requests) == 1  # a program may contain the query as a constant
    answer = result.trace.answer
    assert answer is not None and "ORDER BY price DESC" in answer.said


def test_failing_query_is_repaired(shop: Path) -> None:
    replies = ["answer = 'SELECT colour FROM sales'", "answer = 'SELECT count(*) AS n FROM sales'"]
    result, lm = solved(replies, "sql", database=str(shop))
    assert result.answer == [{"n": 1500}]
    assert "no such column: colour" in lm.requests[1][-1].content


HOSTILE = [
    "DELETE FROM sales",
    "SELECT 1; DELETE FROM sales",
    "SELECT 1) ; DELETE FROM sales; --",
    "WITH x AS (SELECT 1) DELETE FROM sales",
    "WITH x AS (SELECT 1) INSERT INTO sales SELECT 1, 2, 3",
    "PRAGMA writable_schema = 1",
    "ATTACH DATABASE '/etc/passwd' AS x",
    "VACUUM INTO 'copy.db'",
    "SELECT load_extension('x')",
    "SELECT * FROM pragma_database_list",
    "EXPLAIN SELECT 1",
    "CREATE TEMP TABLE x (a)",
    "/* SELECT */ DROP TABLE sales",
    "-- SELECT\nDROP TABLE sales",
    "REPLACE INTO sales VALUES (1, 2, 3)",
    "sales",
    "",
    "SELECT '\0'",
]


@pytest.mark.parametrize("query", HOSTILE)
def test_queries_only_read(query: str, shop: Path) -> None:
    before = shop.read_bytes()
    result = queried(query, shop)
    assert result.error is not None and result.error.type == "AnswerType", result
    assert shop.read_bytes() == before
    assert [path.name for path in shop.parent.iterdir()] == [shop.name]


@pytest.mark.parametrize("query", [query for query in HOSTILE if "SELECT load" not in query and "pragma_" not in query])
def test_hostile_queries_fail_without_a_database(query: str) -> None:
    assert queried(query).reason == "error"


@pytest.mark.parametrize("query", ["/**/" * 60 + "x", "/*" * 5000, " -- \n" * 3000 + "x", "/* */ " * 3000 + "x"])
def test_comments_without_statement_are_rejected_quickly(query: str) -> None:
    started = time.monotonic()
    with pytest.raises(Misfit, match="only reads"):
        sql.Query(None).read(query)
    assert time.monotonic() - started < 5


def test_comments_before_a_statement_are_accepted() -> None:
    query = "-- all\n/* a */ /**/\nSELECT 1"
    assert sql.Query(None).read(query) == query


@pytest.mark.parametrize("query", ["SELECT 1; SELECT 2", "SELECT ';'; SELECT 2", "SELECT 1;; SELECT 2"])
def test_two_statements_are_recognised(query: str) -> None:
    """They are refused before an engine sees them, because some engines run both."""
    with pytest.raises(Misfit, match="more than one statement"):
        sql.Query(None).read(query)
    assert sql.Query(None).read("SELECT ';'") == "SELECT ';'"


@pytest.mark.parametrize("query", ["SELECT 1\0;drop", "SELECT '\ud800'; SELECT 2"])
def test_characters_that_no_statement_has_are_refused(query: str) -> None:
    with pytest.raises(Misfit, match="characters that no statement has"):
        sql.Query(None).read(query)


def test_queries_are_bounded(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "MAX_SECONDS", 0.5)
    for query, message in [
        ("SELECT * FROM sales", "over 1,000 rows"),
        ("SELECT count(*) FROM sales a, sales b, sales c, sales d", "it took over 0.5 seconds"),
        ("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c", "over 1,000 rows"),
        ("SELECT randomblob(2000000)", "too big"),
        ("SELECT randomblob(900000) FROM sales LIMIT 900", "over 5,000,000 bytes"),
        (f"SELECT {', '.join(['zeroblob(999990)'] * 20)} FROM sales LIMIT 1", "5,000,000 bytes"),
        ("SELECT sum(hex(zeroblob(100000)) LIKE '%' || hex(zeroblob(4000)) || item || '1%') FROM sales", "0.5 seconds"),
        ("SELECT instr(hex(zeroblob(400000)), hex(zeroblob(200000)) || item) FROM sales", "0.5 seconds"),
        ("SELECT " + "a" * 20_001, "20,000 characters"),
    ]:
        result = queried(query, shop)
        assert result.error is not None and message in result.error.message, result


def test_memory_of_queries_is_bounded(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 900) SELECT randomblob(999000), n FROM c"
    )
    monkeypatch.setattr(sql, "MAX_SECONDS", 60.0)
    monkeypatch.setattr(sql, "MAX_MEMORY_BYTES", 200 * 1024**2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Misfit, match="memory"):
        sql.Query(shop).read(f"SELECT max(n) FROM ({rows} ORDER BY 1 LIMIT -1 OFFSET 800)")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 50_000


def test_database_with_write_ahead_log_is_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t AS SELECT 1 AS a")
    connection.commit()
    assert sql.Query(path).read("SELECT a FROM t") == [{"a": 1}]  # the row is only in the log
    connection.close()
    assert sql.Query(path).read("SELECT a FROM t") == [{"a": 1}]
    assert [file.name for file in tmp_path.iterdir()] == ["log.db"]


def test_duplicate_column_names_are_numbered(shop: Path) -> None:
    assert sql.Query(shop).read("SELECT 1 AS a_3, 2 AS a, 3 AS a, 4 AS a, 5 AS a_2") == [
        {"a_3": 1, "a": 2, "a_4": 3, "a_5": 4, "a_2": 5}
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b"", "not a SQLite or DuckDB database"),
        (b"SQLite format 3\0" + b"junk" * 999, "cannot read the database"),
    ],
)
def test_invalid_databases(content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        solve("What?", ScriptedLM([]), answer_type="sql", database=str(path))
    with pytest.raises(InputError, match="Is a directory"):
        solve("What?", ScriptedLM([]), answer_type="sql", database=str(tmp_path))
    with pytest.raises(InputError, match="requires the answer type sql"):
        solve("What?", ScriptedLM([]), answer_type="int", database=str(path))


def test_duckdb_is_queried_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "MAX_SECONDS", 3.0)
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE sales AS SELECT 'fig' AS item, DATE '2024-01-02' AS day")
    result = queried("SELECT item, day FROM sales", path)
    assert result.answer == [{"item": "fig", "day": datetime.date(2024, 1, 2)}]
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    database = sql.Query(path)
    for query in (
        "DELETE FROM sales",
        f"SELECT * FROM read_csv('{secret}')",
        f"SELECT * FROM '{secret}'",
        f"COPY sales TO '{secret}'",
        "SELECT 1; DROP TABLE sales",
        "WITH x AS (SELECT 1) DELETE FROM sales",
        "SELECT range FROM range(2000)",
        "SELECT $$'$$) ; ATTACH ':memory:' AS m; SELECT * FROM (SELECT $$'$$",
        "SELECT $$'$$; CREATE TEMP TABLE z AS SELECT 42; SELECT $$'$$",
        "SELECT repeat('x', 1000000) FROM range(300)",
        "SELECT max(x) FROM (SELECT repeat(i::VARCHAR, 20) AS x, i FROM range(12000000) t(i) ORDER BY hash(i) OFFSET 11999990)",
    ):
        with pytest.raises(Misfit, match=r"fails|only reads|more than one"):
            database.read(query)
        assert {file.name for file in tmp_path.iterdir()} == {path.name, secret.name}
    assert secret.read_text() == "a\n1\n"


# --- the command --------------------------------------------------------------------------------------------------


def ask_scripted(tmp_path: Path, reply: str, *arguments: str | Path) -> Any:
    script = tmp_path / "s.jsonl"
    script.write_text("\n".join([json.dumps(reply)] * 2))
    return coc(
        "ask", "What?", "--model", f"scripted:{script}", "--quiet", "--no-fallback", "--repairs", "0", *arguments
    )


def test_typed_answers_on_the_command_line(tmp_path: Path, shop: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(SCHEMA))
    for reply, answer_type, printed in [
        ("answer = '12 apples'", "int", "12"),
        ("answer = {'ä': [1, None]}", "json", '{"ä": [1, null]}'),
        ("answer = {'n': 1 + 1}", str(schema), '{"n": 2}'),
        ("answer = 'b'.upper()", "choice:A,B", "B"),
        ("answer = '2024-02-03'.strip()", "date", "2024-02-03"),
    ]:
        done = ask_scripted(tmp_path, reply, "--type", answer_type)
        assert (done.returncode, done.stdout) == (0, printed + "\n"), done.stderr
    query = "answer = 'SELECT item, photo FROM sales LIMIT 1'"
    done = ask_scripted(tmp_path, query, "--type", "sql", "--database", shop)
    assert json.loads(done.stdout) == [{"item": "item 0", "photo": {"$bytes": "AHg="}}]
    done = ask_scripted(tmp_path, "answer = 'dunno'", "--type", "int", "--json")
    record = json.loads(done.stdout)
    assert (done.returncode, record["error"]["type"]) == (1, "AnswerType")
    done = ask_scripted(tmp_path, "answer = 1", "--type", "nonsense")
    assert done.returncode == 2 and "unknown answer type 'nonsense'" in done.stderr
    done = ask_scripted(tmp_path, "answer = 1", "--database", shop)
    assert done.returncode == 2 and "a database requires the answer type sql" in done.stderr
