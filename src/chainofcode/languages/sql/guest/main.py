"""Runs one query, inside the guest process: files become tables, calls are made in rounds, and the rows are the answer.

Standard library only; DuckDB is a granted package, SQLite comes with Python.
"""

from __future__ import annotations

import re
import sqlite3

from ....values.codec import decode, encode
from ...guest.link import GuestLink, clean
from ...guest.requests import value_in
from ...python.compiler.computation import PASSES_ON, WORKS
from ...source import NotAProgram
from ..compiler.query_plan import QueryPlan, plan_of
from ..compiler.script import at, script_of
from ..compiler.tokens import place
from .duck_engine import DuckEngine
from .engine import QueryError
from .query_rounds import Rounds, Wanted, records
from .sqlite_engine import SqliteEngine

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any, NoReturn

    from .engine import Engine

MAX_ANSWER_CHARS = 1_000_000
_MAX_TABLES_NAMED = 20
_ABOUT_TABLES = re.compile(
    r'no such table: |Table with name .+ does not exist|near "\w+": syntax error|syntax error at or near "\w+"', re.S
)
_MAX_ROWS = 10_000  # whose calls are recorded separately
_REHEARSAL = "SELECT 1 AS one WHERE is_good(1)"


def rehearse() -> None:
    """Prepare a query without running it, so that a fresh fork copies the memory it writes to in advance."""
    functions = frozenset(name for (name,) in sqlite3.connect(":memory:").execute("SELECT 'abs'"))
    plan_of(script_of(_REHEARSAL), functions, frozenset()).description()


def describe(start: dict[str, Any]) -> dict[str, Any]:
    """Parse a query without running it, and return its description; functions that only DuckDB has are undefined."""
    engine = SqliteEngine(0)
    script = script_of(start["source"], is_reply=start.get("is_reply", False))
    return plan_of(script, *engine.functions()).description()


def serve(link: GuestLink, start: dict[str, Any]) -> dict[str, Any]:
    """Run one query and return how it ended."""
    script = script_of(start["source"], is_reply=start["is_reply"])
    try:
        engine = _engine(start)
        functions, aggregates = engine.functions()
        script.tools = {name.lower(): name for name in start["tools"]}
        plan = plan_of(script, functions - script.tools.keys(), aggregates)
        link.send({"type": "parsed", "program": plan.description()})
        return _Run(link, start, plan, engine).run()
    except QueryError as error:
        message = str(error) if error.offset is None else at(script.source, error.offset, str(error))
        line = place(script.source, error.offset)[0] if error.offset is not None else None
        return {"reason": "error", "error": {"type": error.kind, "message": clean(message, 2000), "line": line}}
    except MemoryError:
        return {"reason": "limit:memory", "error": {"type": "MemoryError", "message": "the query ran out of memory"}}


def _engine(start: dict[str, Any]) -> Engine:
    """Return the engine: DuckDB if it is granted."""
    databases = [path for _, path, kind, _ in start["prelude"] if kind == "database"]
    database = databases[0] if databases else None
    kind: Any = DuckEngine if "duckdb" in start["packages"] else SqliteEngine
    engine: Engine = kind(start["memory_bytes"], database)
    return engine


def _naming_tables(error: QueryError, tables: list[str]) -> QueryError:
    """Return an error that also names the tables, if it may be about the name of one."""
    if not _ABOUT_TABLES.search(str(error)):
        return error
    named = ", ".join(tables[:_MAX_TABLES_NAMED]) + (", …" if len(tables) > _MAX_TABLES_NAMED else "")
    return QueryError(f"{error} ({f'tables: {named}' if tables else 'no tables'})", error.offset, error.kind)


class _Run:
    """One query: loads the files, asks the host for values, and reports the rows."""

    def __init__(self, link: GuestLink, start: dict[str, Any], plan: QueryPlan, engine: Engine) -> None:
        self._link, self._start, self._plan, self._engine = link, start, plan, engine
        self._known: dict[str, Any] = {}  # a shadow's values, by call
        self._has_begun = False  # a shadow's first round
        self._pairs: int | None = None  # that a join on judgements compares
        self._statements: list[int] = []  # of calls that have a value
        link.exceeded = self._exceed

    def run(self) -> dict[str, Any]:
        for name, path, kind, separator in self._start["prelude"]:
            if kind != "database":
                self._engine.load(name, path, kind, separator)
        self._engine.seal()
        tables = self._engine.tables()
        self._report_tables(tables)
        rounds = Rounds(self._plan, self._engine)
        try:
            checked = self._check()
        except QueryError as error:
            raise _naming_tables(error, [name for name, _ in tables]) from None
        ask = self._survey if self._start["is_shadow"] else self._ask
        names, rows = rounds.results(ask, self._start["frame_bytes"] // 4, checked)
        if self._start["is_shadow"]:
            self._end_survey()
        ended = self._answered(list(records(names, rows)))
        return {**ended, "lineage": self._lineage(rounds)} if self._start["is_recorded"] else ended

    def _check(self) -> list[str]:
        """Check the original query, so that errors have its places, and columns its names."""
        plan = self._plan
        written = {site.function: site.function for site in plan.full.sites}
        if not plan.script.names:
            return self._checked(plan.script.blank, written)
        # The rewritten query, too: macros are expanded there, and a declared function may replace one of the engine.
        names: list[str] = []
        problem: QueryError | None = None
        try:
            macros = {macro.name: macro.name for macro in plan.script.macros.values()}
            names = self._checked(plan.script.blank, written | macros)
        except QueryError as error:
            problem = error
        try:  # last, because a check determines how the engine calls functions
            self._checked(plan.full.text, {site.name: site.function for site in plan.full.sites})
        except QueryError as error:  # its place is in the rewritten query
            raise problem or QueryError(str(error), kind=error.kind) from None
        return names

    def _checked(self, text: str, names: dict[str, str]) -> list[str]:
        """Check a query; `names` maps names in it to undefined functions. Returns the names of its columns."""
        plan = self._plan
        bare = {name for site in plan.full.sites if not site.arguments for name in (site.name, site.function)}
        problem: QueryError | None = None
        for kind in ("", "float", "bool"):  # of functions whose type cannot be inferred
            for function in {function for function in names.values() if not plan.types.get(function)}:
                plan.guesses[function] = kind
            try:
                return self._engine.check(text, {name: plan.column_kind(own) for name, own in names.items()}, bare)
            except QueryError as error:
                problem = problem or error
        plan.guesses.clear()
        raise problem or QueryError("the query cannot be checked")

    # --- the trace ------------------------------------------------------------------------------------------------

    def _report_tables(self, tables: list[tuple[str, int]]) -> None:
        delta = {name: f"{count:,} rows" for name, count in tables[:50]}
        self._report_step(self._first("FROM"), delta)

    def _first(self, word: str) -> int:
        found = (start for start, _, own in self._plan.full.clauses if own == word)
        return self._plan.statement(next(found, self._plan.full.clauses[0][0]))

    def _report_step(self, statement: int, delta: dict[str, str]) -> None:
        if not self._start["is_shadow"]:
            self._link.post({"type": "ran", "steps": [{"statement": statement, "visit": 1, "delta": delta}]})

    def _answered(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        self._report_step(self._first("SELECT"), {"rows": f"{len(rows):,}"})
        data = [{name: encode(cell) for name, cell in row.items()} for row in rows]
        if not self._link.has_room(data):
            raise QueryError(f"the result has {len(rows):,} rows, too many at once: use LIMIT, or --limit frame=N")
        return {
            "reason": "answered",
            "answer": data,
            "text": clean(repr(rows), MAX_ANSWER_CHARS),
            "source": "expression",
        }

    def _lineage(self, rounds: Rounds) -> dict[str, Any]:
        """Return what the answer and each of its rows depend on; the names of rows are row1, row2…

        A row of a simple query depends on the calls that are made for it. Any other result, a count for example,
        depends on all calls, including those that excluded a row.
        """
        # The nodes of a lineage are lists: statement, visits, values, data.
        nodes: list[list[Any]] = [[self._first("FROM"), [1], [], []]]
        nodes += [[self._statements[number], [], [number], [0]] for number in rounds.call_numbers.values()]
        nodes.append([self._first("SELECT"), [1], [], list(range(len(nodes)))])
        ends = {"$last": len(nodes) - 1}
        calls = rounds.calls_of_rows(self._start["frame_bytes"] // 4) or []
        for number, own in enumerate(calls[:_MAX_ROWS], 1):
            ends[f"row{number}"] = len(nodes)
            nodes.append([self._first("SELECT"), [1], [], [0, *(call + 1 for call in sorted(own))]])
        does = WORKS if any(word == "FROM" for _, _, word in self._plan.full.clauses) else PASSES_ON
        return {"nodes": nodes, "ends": ends, "works": [does] * len(self._plan.places)}

    def _exceed(self, reason: str, message: str) -> None:
        self._link.finish({"type": "ended", "reason": reason, "error": {"type": reason, "message": message}})

    # --- calls ----------------------------------------------------------------------------------------------------

    def _message(self, wanted: Wanted) -> dict[str, Any]:
        return {
            "kind": "call",
            "name": wanted.site.function,
            "text": wanted.text,
            "args": [encode(arg) for arg in wanted.args],
            "kwargs": {},
            "statement": self._plan.statement(wanted.site.clause),
            "known_by": [],
        }

    def _ask(self, wanted: list[Wanted]) -> list[Any]:
        """Request all calls of a round from the host, and wait for all values."""
        numbers = [self._link.open(self._message(call)) for call in wanted]
        self._link.flush()
        replies: dict[int, dict[str, Any]] = {}
        pending = dict(zip(numbers, wanted, strict=True))
        settled = iter(pending.items())
        following = next(settled, None)
        while len(replies) < len(numbers):
            reply = self._link.receive()
            if reply.get("type") != "resume" or reply.get("id") not in pending:
                raise EOFError("the host resumed another pause")
            replies[reply["id"]] = reply
            while following is not None and following[0] in replies:  # in order, and immediately: the run may be ended
                self._settle(*following)
                following = next(settled, None)
            self._link.flush()
        return [self._value(replies[number], call) for number, call in pending.items()]

    def _settle(self, number: int, wanted: Wanted) -> None:
        self._statements.append(self._plan.statement(wanted.site.clause))
        self._link.tell_settled(number, self._statements[-1])

    @staticmethod
    def _value(reply: dict[str, Any], wanted: Wanted) -> Any:
        try:
            return value_in(reply)
        except Exception as error:  # raised by a tool
            raise QueryError(f"{wanted.text}: {error}", wanted.site.start, type(error).__name__) from None

    def _survey(self, wanted: list[Wanted]) -> list[Any]:
        """Report the calls of a round to the host, until the values of all of them have arrived."""
        self._begin_survey()
        unknown = [call for call in wanted if call.text not in self._known]
        numbers = [self._link.open({**self._message(call), "state": self._counts(call)}) for call in unknown]
        later = sorted({self._plan.statement(site.clause) for site in self._plan.full.sites})
        while any(call.text not in self._known for call in wanted):
            skipped = [[statement, unknown[0].text] for statement in later]
            self._link.send({"type": "surveyed", "calls": numbers, "skipped": skipped})
            numbers = []
            self._hear_survey()
        return [self._known[call.text] for call in wanted]

    def _counts(self, wanted: Wanted) -> dict[str, str]:
        """Return the number of rows that make a call, and the number of pairs of rows that a join compares by it."""
        found, number = {"rows": str(wanted.rows)}, wanted.site.number
        pairs = self._plan.full.pairs
        if pairs is not None and number in pairs.by_row | pairs.by_pair:
            if self._pairs is None:
                self._pairs = self._counted(pairs.count)
            found |= {"pairs": str(self._pairs), "judges": "pair" if number in pairs.by_pair else "row"}
        return found

    def _counted(self, query: str) -> int:
        """Return what a query counts; 0 if it cannot run, because a condition names a column of the result."""
        try:
            return int(next(iter(self._engine.run(query)[1]))[0])
        except QueryError:
            return 0

    def _begin_survey(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._hear_survey()

    def _hear_survey(self) -> None:
        for known_value in self._link.receive().get("values", []):
            self._known[known_value["text"]] = decode(known_value["reply"].get("value"))

    def _end_survey(self) -> NoReturn:
        self._begin_survey()
        while True:
            self._link.send({"type": "surveyed", "calls": [], "skipped": []})
            self._hear_survey()


__all__ = ["NotAProgram", "describe", "rehearse", "serve"]
