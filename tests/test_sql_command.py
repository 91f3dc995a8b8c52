"""`coc sql` and related commands: formats, explain, replay, why, verify, budgets, errors; and `chainofcode.sql`."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chainofcode
from chainofcode import Pause, Program, ScriptedLM, Trace
from chainofcode.cli import main
from chainofcode.emulator import as_emulator
from chainofcode.engine import RunOptions
from chainofcode.evals.rank_correlation import kendall, spearman
from chainofcode.evals.sembench import QUERIES, MovieScenario
from chainofcode.languages import SQL
from chainofcode.lm.wrappers import Budgeted
from chainofcode.methods.queries import (
    QueryResult,
    RecordingEmulator,
    asql,
    execute_query,
    known_rows,
    query_options,
    tables_of,
)

pytest.importorskip("duckdb")
SEMBENCH = Path(__file__).parent.parent.parent / "shared" / "data" / "sembench-movie"
REVIEWS = """id,movie,text,stars,day,seen,code
1,taken,great fun,4,2020-01-01,true,007
2,taken,"oh sure, brilliant",1,2020-01-02,false,010
3,up,lovely,5,2020-01-03,true,100
4,up,yeah right,2,2020-01-04,false,101
5,heat,"oh sure, brilliant",1,2020-01-05,false,102
6,heat,,3,2020-01-06,true,103
"""
SARCASTIC = {"great fun": False, "oh sure, brilliant": True, "lovely": False, "yeah right": True}
VALUES = {f"is_sarcastic({text!r})": value for text, value in SARCASTIC.items()}
COUNT = "SELECT movie, count(*) AS n FROM reviews WHERE is_sarcastic(text) GROUP BY movie ORDER BY movie"
COUNTED = [{"movie": "heat", "n": 1}, {"movie": "taken", "n": 1}, {"movie": "up", "n": 1}]
Coc = Callable[..., tuple[int, str, str]]


@pytest.fixture
def coc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Coc:
    """Run `coc` in a directory with reviews.csv and values.jsonl; in SQLite, which starts faster."""
    monkeypatch.chdir(tmp_path)
    Path("reviews.csv").write_text(REVIEWS)
    lines = [json.dumps({"call": call, "value": value}) for call, value in VALUES.items()]
    Path("values.jsonl").write_text("\n".join(lines))

    def run(*arguments: str) -> tuple[int, str, str]:
        is_query = arguments[0] in ("sql", "run", "explain") and "--engine" not in arguments
        code = main([*arguments, *(["--engine", "sqlite"] if is_query else [])])
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


def test_rows_as_a_table_json_and_csv(coc: Coc) -> None:
    given = (COUNT, "--file", "reviews.csv", "--values", "values.jsonl")
    code, out, err = coc("sql", *given)
    assert (code, out) == (0, "movie  n\nheat   1\ntaken  1\nup     1\n")
    assert "3 rows, 4 calls" in err
    data = json.loads(coc("sql", *given, "--json")[1])
    assert (data["value"], data["lm_calls"], data["reason"], data["steps"]) == (COUNTED, 4, "answered", 6)
    first, *_ = csv.DictReader(io.StringIO(coc("sql", *given, "--csv")[1]))
    assert first == {"movie": "heat", "n": "1"}


def test_rows_in_files(coc: Coc) -> None:
    for name in ("out.csv", "out.jsonl", "out.parquet"):
        assert coc("sql", COUNT, "--file", "reviews.csv", "--values", "values.jsonl", "--out", name)[0] == 0
    assert Path("out.csv").read_text() == "movie,n\nheat,1\ntaken,1\nup,1\n"
    assert [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()] == COUNTED
    data = json.loads(
        coc("sql", "SELECT * FROM out WHERE is_short(movie)", "--file", "out.parquet", "--json", "--engine", "duckdb")[
            1
        ]
    )
    assert data["reason"] == "emulation failed"
    assert "is_short('heat')" in data["error"]["message"]


def test_queries_in_files_and_as_programs(coc: Coc, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("q.sql").write_text(f"-- counts sarcastic reviews\n{COUNT};\n")
    for arguments in (("sql", "q.sql"), ("run", "q.sql")):
        out = coc(*arguments, "--file", "reviews.csv", "--values", "values.jsonl", "--json")[1]
        assert json.loads(out)["value"] == COUNTED
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(COUNT.encode())))
    out = coc("sql", "-", "--file", "reviews.csv", "--values", "values.jsonl", "--engine", "auto", "--json")[1]
    assert json.loads(out)["value"] == COUNTED


def test_values_of_an_emulator_are_cached(coc: Coc) -> None:
    lines = [{"when": call, "reply": json.dumps({"value": value})} for call, value in VALUES.items()]
    Path("model.jsonl").write_text("\n".join(map(json.dumps, lines)))
    command = ("sql", COUNT, "--file", "reviews.csv", "--emulator", "scripted:model.jsonl", "--rows", "1", "--json")
    for cached in (0, 4):
        data = json.loads(coc(*command, "--cache", "kept", "--trace", "trace.jsonl")[1])
        assert (data["value"], data["cached"]) == (COUNTED, cached)
        assert len(Trace.read(Path("trace.jsonl")).calls) == 4 - cached
    code, _, err = coc(*command, "--model", "scripted:model.jsonl")
    assert (code, "use --model or --emulator, not both" in err) == (2, True)


def test_query_with_a_cascade(coc: Coc) -> None:
    """The first model is never sure: scripts have no log probabilities."""
    for name, is_right in (("small", False), ("large", True)):
        lines = [{"when": call, "reply": json.dumps({"value": value is is_right})} for call, value in VALUES.items()]
        Path(f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    emulators = ("--emulator", "scripted:small.jsonl,scripted:large.jsonl", "--rows", "1", "--trace", "trace.jsonl")
    code, out, err = coc("sql", COUNT, "--file", "reviews.csv", *emulators, "--json")
    assert (code, json.loads(out)["value"]) == (0, COUNTED), err
    assert "returns no log probabilities" in err
    assert {step.model for step in Trace.read(Path("trace.jsonl")).steps if step.call} == {"scripted:large.jsonl"}


def test_explain_lists_the_calls(coc: Coc) -> None:
    Path("q.sql").write_text("SELECT id FROM reviews WHERE is_sarcastic(text) AND sentiment(text) = 'bad'")
    assert coc("explain", "q.sql", "--file", "reviews.csv", "--model", "local")[0] == 0
    code, out, _ = coc("explain", "q.sql", "--file", "reviews.csv", "--model", "local:qwen2.5-coder-1.5b")
    assert code == 0
    assert "round 1: 4 calls together" in out
    assert "is_sarcastic('oh sure, brilliant')  2 rows" in out
    assert "5 rows to judge, 4 distinct calls" in out
    assert "tokens, about $0.0000" in out
    calls = [json.loads(line) for line in coc("explain", "q.sql", "--file", "reviews.csv", "--json")[1].splitlines()]
    assert sum(call["rows"] for call in calls) == 5
    assert all(call["tokens"] > 50 for call in calls if call["round"] == 1)
    out = coc("explain", "q.sql", "--file", "reviews.csv", "--values", "values.jsonl")[1]
    assert "round 2: 2 calls together" in out


def test_replay_why_verify_and_show(coc: Coc) -> None:
    query = "SELECT id\nFROM reviews\nWHERE is_sarcastic(text) AND stars < 3"
    coc("sql", query, "--file", "reviews.csv", "--values", "values.jsonl", "--trace", "t.jsonl")
    assert not Path("t.jsonl.journal").exists()
    assert "the same: 4 steps, 2 LM values" in coc("replay", "t.jsonl")[1]
    changed = coc("replay", "t.jsonl", "--set", "is_sarcastic('yeah right')=False")[1]
    assert "[{'id': 2}, {'id': 4}, {'id': 5}] → [{'id': 2}, {'id': 5}]" in changed
    why = json.loads(coc("why", "t.jsonl", "row2", "--json")[1])
    assert [value["call"] for link in why["statements"] for value in link["values"]] == ["is_sarcastic('yeah right')"]
    whole = json.loads(coc("why", "t.jsonl", "--json")[1])
    assert len([value for link in whole["statements"] for value in link["values"]]) == 2
    verdict = json.loads(coc("verify", "t.jsonl", "--json")[1])
    assert (verdict["replays"], verdict["origin"], verdict["flags"]) == (True, "program", [])
    assert {flip["outcome"] for flip in verdict["flips"]} == {"changes"}
    assert "sq  FROM reviews" in coc("show", "t.jsonl")[1]


def test_why_of_a_count_has_all_judgements(coc: Coc) -> None:
    coc("sql", COUNT, "--file", "reviews.csv", "--values", "values.jsonl", "--trace", "t.jsonl")
    why = json.loads(coc("why", "t.jsonl", "--json")[1])
    assert len([value for link in why["statements"] for value in link["values"]]) == 4


@pytest.mark.parametrize("engine", ["duckdb", "sqlite"])
def test_errors_name_line_and_column(engine: str, tmp_path: Path) -> None:
    (tmp_path / "reviews.csv").write_text(REVIEWS)
    places = {
        "SELECT id\nFROM reviews WHERE is_sarcastic(txt)": "line 2, column 33: ",
        "SELECT id\nFROM reviews\nWHERE is_sarcastic(text) id > 3": "line 3, column ",
        "SELECT (1 + 2 FROM reviews": "line 1, column 8: '(' was never closed",
        "SELECT id FROM nowhere WHERE is_x(id)": "line 1, column 16: ",
        "CREATE MACRO m(x) AS is_sarcastic(x);\nSELECT id FROM reviews\nWHERE m(txt)": "line 3, column 9: ",
        "CREATE MACRO m(x) AS m(x) + 1;\nSELECT m(id) FROM reviews": "line 1, column 1: the macro m uses itself",
        "SELECT id FROM reviews\nWHERE count(*) > 1 AND is_sarcastic(text)": "line 2, column 7: ",
        "DELETE FROM reviews": "line 1, column 1: DELETE is not allowed: a program is one query that only reads (SELECT)",
    }

    async def run_all() -> list[QueryResult]:
        options = query_options(RunOptions(), await tables_of([tmp_path / "reviews.csv"], engine=engine))
        with chainofcode.Jail(spares=1) as jail:
            runs = [[event async for event in execute_query(query, None, jail, options)] for query in places]
        return [QueryResult.of(events) for events in runs]

    for (query, place), result in zip(places.items(), asyncio.run(run_all()), strict=True):
        assert result.reason == "error"
        assert result.error is not None
        assert result.error.message.startswith(place), query


@pytest.mark.parametrize("engine", ["duckdb", "sqlite"])
def test_errors_about_a_table_name_the_tables(engine: str, coc: Coc) -> None:
    def message(query: str, *files: str) -> str:
        return coc("sql", query, *files, "--engine", engine)[1].splitlines()[1]

    given = ("--file", "reviews.csv")
    assert '"order"' in message("SELECT * FROM order", *given)
    for query in ("* FROM order", "* FROM review", "* FROM review WHERE is_sarcastic(text)"):
        assert message(f"SELECT {query}", *given).endswith(" (tables: reviews)")
    assert "(tables" not in message("SELECT nope FROM reviews", *given)
    assert message("SELECT * FROM reviews").endswith(" (no tables)")


@pytest.mark.parametrize("engine", ["duckdb", "sqlite"])
def test_columns_of_csv_have_types(engine: str, coc: Coc) -> None:
    query = "SELECT stars + 1 AS a, seen = true AS b, code || '!' AS c, typeof(stars) AS d FROM reviews WHERE id <= 1"
    out = coc("sql", query, "--file", "reviews.csv", "--engine", engine, "--json")[1]
    ((a, b, c, d),) = [row.values() for row in json.loads(out)["value"]]
    assert (a, bool(b), c, d.lower() in ("bigint", "integer")) == (5, True, "007!", True)
    out = coc(
        "sql", "SELECT typeof(day) AS d FROM reviews LIMIT 1", "--file", "reviews.csv", "--engine", engine, "--json"
    )[1]
    assert json.loads(out)["value"][0]["d"].lower() == ("date" if engine == "duckdb" else "text")


@pytest.mark.parametrize("engine", ["duckdb", "sqlite"])
def test_cells_with_line_breaks_and_unusual_names(engine: str, coc: Coc) -> None:
    Path("books.csv").write_text(
        '"The Title",año,select\n"two\nlines",1999,novel\n"with ""quotes"", and commas",,essay\n百年,1967,novel\n'
    )
    values = {r"is_old('two\nlines')": False, "is_old('百年')": True}
    Path("v.jsonl").write_text("\n".join(json.dumps({"call": call, "value": v}) for call, v in values.items()))
    query = 'SELECT "The Title" FROM books WHERE is_old("The Title") AND "select" = \'novel\' AND año > 0'
    out = coc("sql", query, "--file", "books.csv", "--values", "v.jsonl", "--engine", engine, "--json")[1]
    assert json.loads(out)["value"] == [{"The Title": "百年"}]


@pytest.mark.parametrize("engine", ["duckdb", "sqlite"])
def test_a_declared_function_replaces_one_of_the_engine(engine: Any, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("text\nhello\n")
    query = (
        "-- reverse(text) -> str\nCREATE FUNCTION lower(t TEXT) RETURNS VARCHAR;\n"
        "SELECT reverse(text) AS a, lower(text) AS b, upper(text) AS c FROM r"
    )
    result = asyncio.run(asql(query, lambda pause: pause.text, files=[tmp_path / "r.csv"], engine=engine))
    assert result.rows == [{"a": "reverse('hello')", "b": "lower('hello')", "c": "HELLO"}]


def test_judgement_may_have_the_name_of_a_table_function(tmp_path: Path) -> None:
    """DuckDB has `summary` only for FROM."""
    (tmp_path / "r.csv").write_text("text\nhello\n")
    result = chainofcode.sql("SELECT summary(text) AS s FROM r", lambda pause: "hi", files=[tmp_path / "r.csv"])
    assert result.rows == [{"s": "hi"}]


@pytest.mark.parametrize("engine", ["duckdb", "sqlite"])
def test_a_macro_keeps_the_names_of_columns(engine: Any, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("body\nhello\n")
    query = "CREATE MACRO m(x) AS mood(x) || '!'; SELECT m(body), mood(body) FROM r"
    result = asyncio.run(asql(query, lambda pause: "good", files=[tmp_path / "r.csv"], engine=engine))
    assert result.rows == [{"m(body)": "good!", "mood(body)": "good"}]


def test_spent_budget_leaves_the_known_rows(tmp_path: Path) -> None:
    (tmp_path / "reviews.csv").write_text(REVIEWS)
    replies = ScriptedLM(lambda messages: '{"value": true}')
    query = "SELECT id FROM reviews WHERE is_sarcastic(text) ORDER BY id"

    async def run() -> tuple[QueryResult, QueryResult]:
        options = query_options(RunOptions(), await tables_of([tmp_path / "reviews.csv"], engine="sqlite"))
        emulator = RecordingEmulator(as_emulator(Budgeted(replies, calls=2)))
        ended = QueryResult.of([event async for event in execute_query(query, emulator, "auto", options)])
        return ended, await known_rows(query, emulator.values, "auto", options)

    ended, partial = asyncio.run(run())
    assert ended.reason.is_budget
    assert partial.rows == [{"id": 1}, {"id": 2}, {"id": 5}]  # two of four texts are known


def test_command_prints_the_known_rows(coc: Coc) -> None:
    """A limit of calls ends a run as a budget does."""
    query = "SELECT id, mood(text) AS m FROM reviews WHERE is_sarcastic(text)"
    code, out, err = coc("sql", query, "--file", "reviews.csv", "--values", "values.jsonl", "--limit", "calls=4")
    assert code == 1
    assert "these are the rows known so far" in err
    assert out.startswith("id  m\n2\n4\n5\n")


# --- types, declarations, calls -------------------------------------------------------------------------------------


def holes(query: str) -> dict[str, str]:
    return {use.name: use.type for use in Program.parse(query, SQL).uses}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT 1 FROM t WHERE f(x)", "bool"),
        ("SELECT 1 FROM t WHERE x = 1 OR NOT f(x)", "bool"),
        ("SELECT 1 FROM t WHERE f(x) > 3", "number"),
        ("SELECT 1 FROM t WHERE 3 <= f(x)", "number"),
        ("SELECT 1 FROM t WHERE f(x) BETWEEN 1 AND 5", "number"),
        ("SELECT sum(f(x)) FROM t", "number"),
        ("SELECT f(x) + 1 FROM t", "number"),
        ("SELECT f(x) || '!' FROM t", "str"),
        ("SELECT f(x) || '!', f(x) + 1 FROM t", "number"),
        ("SELECT 1 FROM t WHERE f(x) = 'good'", "Literal['good'] | str"),
        ("SELECT 1 FROM t WHERE f(x) = 'good' OR f(y) = 'bad'", "Literal['good', 'bad']"),
        ("SELECT CASE f(x) WHEN 'a' THEN 1 WHEN 'b' THEN 2 END FROM t", "Literal['a', 'b']"),
        ("SELECT CASE WHEN f(x) THEN 1 ELSE 0 END FROM t", "bool"),
        ("SELECT count(*) FILTER (WHERE f(x)) FROM t", "bool"),
        ('-- f(x) -> list[str]: "words"\nSELECT f(x) FROM t', "list[str]"),
        ("/* f(x) -> int: how many */ SELECT f(x) FROM t", "int"),
        ("CREATE FUNCTION f(x TEXT) RETURNS ENUM ('a', 'b'); SELECT f(x) FROM t", "Literal['a', 'b']"),
        ("CREATE FUNCTION f(x) RETURNS DOUBLE; SELECT f(x) FROM t", "float"),
    ],
)
def test_types_are_inferred_from_the_query(query: str, expected: str) -> None:
    assert holes(query) == {"f": expected}


def test_what_is_not_an_undefined_function() -> None:
    query = """
    WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < 3), t(a, b) AS (VALUES (1, 2))
    SELECT CAST(a AS DECIMAL(10, 2)), count(*) OVER (PARTITION BY a), 'f(x)' AS "g(y)" -- h(z)
    FROM t JOIN (VALUES (1)) AS v(a) USING (a) WHERE a IN (1, 2) AND EXISTS (SELECT 1) AND (a) NOT IN (3)
    GROUP BY (a) ORDER BY abs(a)
    """
    assert Program.parse(query, SQL).holes == ()


@pytest.mark.parametrize("engine", ["duckdb", "sqlite"])
def test_pairs_are_judged_row_by_row(engine: Any, tmp_path: Path) -> None:
    """A macro judges a pair by a judgement of each row: 4 calls instead of 12."""
    (tmp_path / "r.csv").write_text("id,text\n1,a\n2,b\n3,c\n4,d\n")
    query = (
        "CREATE MACRO opposite(x, y) AS mood(x) <> mood(y);\n"
        "SELECT one.id AS i, other.id AS j FROM r one JOIN r other ON one.id <> other.id\n"
        "WHERE opposite(one.text, other.text) ORDER BY 1, 2"
    )
    result = asyncio.run(asql(query, lambda pause: pause.args[0] < "c", files=[tmp_path / "r.csv"], engine=engine))
    assert [tuple(row.values()) for row in result.rows] == [
        (1, 3),
        (1, 4),
        (2, 3),
        (2, 4),
        (3, 1),
        (3, 2),
        (4, 1),
        (4, 2),
    ]
    assert result.trace.lm_calls == 4


JOINS = {
    "macro": (
        "CREATE MACRO opposite(x, y) AS mood(x) <> mood(y);\n"
        "SELECT a.id FROM r a JOIN r b ON a.id <> b.id WHERE opposite(a.text, b.text) AND a.id < 5",
        "join: 16 pairs of rows, compared by a judgement of each row: 4 calls instead of up to 16",
    ),
    "written out": (
        "SELECT count(*) FROM r AS a, r AS b WHERE mood(a.text) <> mood(b.text)",
        "join: 25 pairs of rows, compared by a judgement of each row: 4 calls instead of up to 25",
    ),
    "pair": (
        "SELECT a.id FROM r a JOIN r b ON a.id < b.id AND contradicts(a.text, b.text)",
        "join: 10 pairs of rows, judged pair by pair: 10 calls; if judging each row separately is enough, define a macro",
    ),
    "one side": ("SELECT a.id FROM r a JOIN r b ON a.id < b.id WHERE mood(a.text) = 'x.b.y'", None),
    "names in text": ("SELECT a.id FROM r a, r b WHERE mood(a.text, 'b.text') = 'good'", None),
    "outer join": ("SELECT a.id FROM r a LEFT JOIN r b ON mood(a.text) = mood(b.text)", None),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ["duckdb", "sqlite"])
@pytest.mark.parametrize("name", JOINS)
def test_explain_counts_the_pairs_of_a_join(
    name: str, engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r.csv").write_text("id,text\n1,a\n2,b\n3,c\n4,d\n5,a\n")
    query, expected = JOINS[name]
    (tmp_path / "q.sql").write_text(query)
    given = ["explain", str(tmp_path / "q.sql"), "--file", str(tmp_path / "r.csv"), "--engine", engine]
    assert main(given) == 0
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("join: ")]
    assert len(shown) == (0 if expected is None else 1) and all(line.startswith(str(expected)) for line in shown)
    assert main([*given, "--json"]) == 0
    calls = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {call.get("judges") for call in calls} == {
        {"macro": "row", "pair": "pair"}.get(name, "row" if expected else None)
    }


def test_a_condition_on_a_column_of_the_result_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """DuckDB lets WHERE refer to columns of the result, which the query that counts pairs does not have."""
    (tmp_path / "r.csv").write_text("id,text\n1,a\n2,b\n")
    query = "SELECT a.id + 1 AS more FROM r a, r b WHERE more > 1 AND mood(a.text) <> mood(b.text)"
    (tmp_path / "q.sql").write_text(query)
    assert main(["explain", str(tmp_path / "q.sql"), "--file", str(tmp_path / "r.csv"), "--engine", "duckdb"]) == 0
    shown = capsys.readouterr().out
    assert "2 distinct calls" in shown and "join: " not in shown


def test_sql_inside_a_running_loop(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("text\nhello\n")

    async def cell() -> QueryResult:
        return chainofcode.sql("SELECT mood(text) AS m FROM r", lambda pause: "good", files=[tmp_path / "r.csv"])

    assert asyncio.run(cell()).rows == [{"m": "good"}]


def test_the_model_sees_declaration_and_type(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("text\nhello\n")
    seen: list[Pause] = []

    def judge(pause: Pause) -> bool:
        seen.append(pause)
        return True

    query = '-- is_kind(text) -> bool: "Whether the text is kind."\nSELECT text FROM r WHERE is_kind(text)'
    result = chainofcode.sql(query, judge, files=[tmp_path / "r.csv"])
    assert result.rows == [{"text": "hello"}]
    assert (seen[0].text, seen[0].type, seen[0].line) == ("is_kind('hello')", "bool", 2)
    assert seen[0].spec.endswith('-> bool: "Whether the text is kind."')


def test_rows_as_a_dataframe(tmp_path: Path) -> None:
    (tmp_path / "reviews.csv").write_text(REVIEWS)
    result = chainofcode.sql(COUNT, VALUES, files=[tmp_path / "reviews.csv"])
    assert result.dataframe()["n"].sum() == 3
    assert Trace.of(result.trace.events).lm_calls == 4


# --- SemBench -------------------------------------------------------------------------------------------------------


def test_rank_correlations() -> None:
    assert spearman([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 1, 2, 3], [1, 2, 3, 3]) == pytest.approx(8 / 9)
    assert kendall([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx(2 / 3)
    assert spearman([1, 1], [1, 2]) == 0


@pytest.mark.skipif(not SEMBENCH.is_dir(), reason="the SemBench data is not here")
def test_sembench_with_perfect_judgements() -> None:
    scenario = MovieScenario(SEMBENCH)

    async def run_all() -> list[Any]:
        options = await scenario.options()
        with chainofcode.Jail(spares=1) as jail:
            return [await scenario.run(query, scenario.perfect(query), jail, options) for query in QUERIES]

    scores = asyncio.run(run_all())
    for score in scores:
        best = 0 if score.metric == "relative_error" else 1
        assert score.score == pytest.approx(best, abs=1e-6), score
    calls = {score.name: score.calls for score in scores}
    assert calls["Q7"] <= 300
    assert calls["Q1"] < 20  # LIMIT ends the query early
    assert scores[6].published["lotus"]["score"] == pytest.approx(0.227, abs=0.001)


@pytest.mark.nightly
@pytest.mark.skipif(not SEMBENCH.is_dir(), reason="the SemBench data is not here")
def test_sembench_repeats_no_request_with_a_cache(coc: Coc) -> None:
    """An evaluation takes an hour; with a cache, an interrupted one continues where it stopped."""
    given = ("eval", "sembench", "--data", str(SEMBENCH), "--tasks", "Q1", "--json", "--cache", "kept")
    results = []
    for value in ("true", "false"):
        Path("model.jsonl").write_text(json.dumps({"when": "call: ", "reply": f'{{"value": {value}}}'}))
        results.append(json.loads(coc(*given, "--model", "scripted:model.jsonl")[1]))
    assert [(result["rows"], result["calls"]) for result in results] == [(5, 5), (5, 5)]


def test_unknown_query_of_sembench_is_an_error(coc: Coc) -> None:
    data = Path("scenario")
    code, _, error = coc("eval", "sembench", "--data", str(data), "--perfect", "--tasks", "Q1,Q99")
    assert code == 2
    assert "unknown query 'Q99' in --tasks" in error


def test_ask_has_a_model_write_sql(coc: Coc) -> None:
    reply = (
        "```sql\nSELECT movie, count(*) AS n FROM reviews WHERE is_sarcastic(text) GROUP BY movie ORDER BY movie\n```"
    )
    rules = [
        {"when": f"call: is_sarcastic({text!r})", "reply": json.dumps({"value": value})}
        for text, value in SARCASTIC.items()
    ]
    Path("script.jsonl").write_text("\n".join(map(json.dumps, [*rules, reply])))
    question = "How many sarcastic reviews has each movie?"
    code, out, _ = coc(
        "ask", question, "--file", "reviews.csv", "--language", "sql", "--model", "scripted:script.jsonl", "--json"
    )
    data = json.loads(out)
    assert (code, data["value"], data["reason"]) == (0, COUNTED, "answered")
    assert data["program"].startswith("SELECT movie")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("wide.csv", ",".join(f"c{n}" for n in range(5000)), "it has 5,000 columns"),
        ("object.json", '{"a": 1}', "a table in JSON must be a list of objects"),
        ("numbers.json", "[1, 2]", "each row of a table in JSON must be an object, not int"),
        ("nothing.json", "[]", "it has no columns"),
    ],
)
def test_files_that_are_not_tables_are_refused(coc: Coc, name: str, content: str, message: str) -> None:
    Path(name).write_text(content)
    code, out, _ = coc("sql", f"SELECT * FROM {Path(name).stem}", "--file", name)
    assert code == 1 and f"QueryError: cannot read {name}: {message}" in out


def test_json_tables_and_unsupported_files_and_engines(coc: Coc) -> None:
    Path("t.json").write_text('[{"day": "2020-02-30", "n": 1}, {"day": "2020-02-28", "n": null}]')
    assert coc("sql", "SELECT day, n FROM t ORDER BY n", "--file", "t.json", "--csv")[1].split() == [
        "day,n", "2020-02-28,", "2020-02-30,1",
    ]  # fmt: skip
    Path("t.parquet").write_bytes(b"PAR1")
    Path("t.exe").write_bytes(b"MZ")
    wrong = {"t.parquet": "SQLite cannot read", "t.exe": "as a table (expected one of:"}
    for name, message in wrong.items():
        code, _, err = coc("sql", "SELECT 1", "--file", name)
        assert code == 2 and message in err
    sqlite3.connect("kept.db").execute("CREATE TABLE t (n)").connection.close()
    code, _, err = coc("sql", "SELECT 1", "--database", "kept.db", "--engine", "duckdb")
    assert code == 2 and "is a sqlite database; duckdb cannot read it" in err
