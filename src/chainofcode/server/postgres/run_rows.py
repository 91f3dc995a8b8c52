"""Runs and questions as rows of PostgreSQL, and the rule that only one server writes a run."""

from __future__ import annotations

import msgspec

from ...trace import as_json
from ..refusal import TakenOver
from ..search_index import searched_words
from ..store import PendingQuestion, RunRecord, RunSummary, take_first_questions
from .connections import Postgres
from .shipped_traces import NOTIFY

_INSERT = """INSERT INTO runs (id, owner, state, method, model, created, record, words, summary, server)
VALUES (%(id)s, %(owner)s, %(state)s, %(method)s, %(model)s, %(created)s, %(record)s, %(words)s, %(summary)s,
%(server)s)
ON CONFLICT (id) DO NOTHING"""
# A run belongs to its server; without a server it may be changed unless it is active.
_UPDATE = """UPDATE runs SET state = %(state)s, model = %(model)s, record = %(record)s, words = %(words)s,
summary = %(summary)s, server = %(server)s, is_cancelled = false
WHERE id = %(id)s AND (server = %(me)s OR (server IS NULL AND state NOT IN ('queued', 'running')))"""
OWN_QUESTION = "SELECT questions.* FROM questions JOIN runs ON runs.id = run WHERE questions.id = %s AND owner = %s"
QUESTION_OF = "SELECT questions.* FROM questions WHERE run = %s AND sha256(call) = sha256(%s)"
_OPEN_QUESTIONS = """SELECT questions.* FROM questions JOIN runs ON runs.id = run
WHERE owner = %(owner)s AND answer IS NULL AND state IN ('queued', 'running', 'waiting')
AND (%(run)s::text IS NULL OR run = %(run)s) ORDER BY asked LIMIT %(limit)s"""
KEEP_QUESTION = """INSERT INTO questions VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (run, sha256(call)) DO UPDATE SET id = excluded.id, type = excluded.type, line = excluded.line,
asked = excluded.asked, answer = excluded.answer"""
_SETTLE = "UPDATE runs SET state = %s, record = %s, summary = %s, server = NULL, is_cancelled = false WHERE id = %s"
_WITHOUT_SUMMARY = "SELECT id, record, state FROM runs WHERE summary IS NULL ORDER BY number LIMIT 1"
_IS_ANSWERED = "SELECT bool_and(answer IS NOT NULL) FROM questions WHERE run = %s"


def write(
    connection: Postgres, run: RunRecord, me: str, *, request: bytes | None = None, is_shared: bool = False
) -> None:
    """Insert or replace a run. Raises TakenOver if it belongs to another server.

    A shared run can be claimed by any server; any other active run belongs to this server, `me`.
    """
    if run.state == "waiting" and _is_answered(connection, run.id):
        run = msgspec.structs.replace(run, state="queued", resumed=run.resumed + 1)  # answered just now
        is_shared = True
    is_held = run.state in ("queued", "running") and not is_shared
    row = {
        "id": plain(run.id),
        "owner": run.owner,
        "state": run.state,
        "method": plain(run.method),
        "model": plain(run.model) if run.model is not None else None,
        "created": run.created,
        "record": as_json(run),
        "words": searched_words(run),
        "summary": as_json(RunSummary.of(run)),
        "server": me if is_held else None,
        "me": me,
    }
    is_new = run.resumed == 0 and connection.execute(_INSERT, row).rowcount == 1
    if not is_new and connection.execute(_UPDATE, row).rowcount != 1:
        raise TakenOver
    if request is not None:
        sql = "INSERT INTO requests VALUES (%s, %s) ON CONFLICT (run) DO UPDATE SET request = excluded.request"
        connection.execute(sql, (run.id, request))
    for file in run.files if is_new else ():
        connection.execute("INSERT INTO uses VALUES (%s, %s) ON CONFLICT DO NOTHING", (plain(file), run.id))
    if run.is_final:
        connection.execute("DELETE FROM requests WHERE run = %s", (run.id,))
        connection.execute("DELETE FROM questions WHERE run = %s", (run.id,))
    connection.execute(NOTIFY, (f"changed {run.id}",))
    if run.state == "queued":
        connection.execute(NOTIFY, ("queued",))


def _is_answered(connection: Postgres, run: str) -> bool:
    """Whether all questions of a run have answers."""
    connection.execute("SELECT 1 FROM runs WHERE id = %s FOR UPDATE", (run,))  # see `answer`
    row = connection.execute(_IS_ANSWERED, (run,)).fetchone()
    return bool(row and row[0])


def answer(connection: Postgres, id: str, text: str) -> bool:
    """Keep an answer, unless there is one. The run is locked, so that it does not begin to wait at the same time."""
    locking = "SELECT 1 FROM runs WHERE id = (SELECT run FROM questions WHERE id = %s) FOR UPDATE"
    connection.execute(locking, (plain(id),))
    sql = "UPDATE questions SET answer = %s WHERE id = %s AND answer IS NULL"
    return connection.execute(sql, (as_bytes(text), plain(id))).rowcount == 1


def read_run(record: bytes, state: str) -> RunRecord:
    """Decode a run; its state comes from the row, not from the record."""
    run = msgspec.json.decode(record, type=RunRecord)
    run.state = state  # type: ignore[assignment]
    return run


def read_summary(summary: bytes, state: str) -> RunSummary:
    """Decode a summary; its state comes from the row."""
    found = msgspec.json.decode(summary, type=RunSummary)
    found.state = state  # type: ignore[assignment]
    return found


def settle(connection: Postgres, run: RunRecord) -> None:
    """Write a run that no longer belongs to a server."""
    connection.execute(_SETTLE, (run.state, as_json(run), as_json(RunSummary.of(run)), run.id))
    connection.execute(NOTIFY, (f"changed {run.id}",))
    if run.state == "queued":
        connection.execute(NOTIFY, ("queued",))


def add_summaries(connection: Postgres) -> None:
    """Write the missing summaries, of runs from an older version. It reads one record at a time."""
    while row := connection.execute(_WITHOUT_SUMMARY).fetchone():
        run = read_run(row[1], row[2])
        connection.execute("UPDATE runs SET summary = %s WHERE id = %s", (as_json(RunSummary.of(run)), row[0]))


def open_questions(connection: Postgres, owner: str, limit: int, run: str | None) -> list[PendingQuestion]:
    rows = connection.execute(_OPEN_QUESTIONS, {"owner": owner, "limit": limit, "run": run})
    return take_first_questions(question for row in rows if (question := read_question(row)) is not None)


def question_row(question: PendingQuestion) -> tuple[object, ...]:
    answer = as_bytes(question.answer) if question.answer is not None else None
    return (
        question.id,
        question.run,
        as_bytes(question.call),
        as_bytes(question.type),
        question.line,
        question.asked,
        answer,
    )


def read_question(row: tuple[str, str, bytes, bytes, int, float, bytes | None] | None) -> PendingQuestion | None:
    if row is None:
        return None
    id, run, call, kind, line, asked, answer = row
    answered = as_text(answer) if answer is not None else None
    return PendingQuestion(id, run, as_text(call), as_text(kind), line, asked, answered)


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def as_text(data: bytes) -> str:
    return bytes(data).decode("utf-8", "surrogatepass")


def plain(text: str) -> str:
    """Text that PostgreSQL can hold: ids and names from clients may contain any character."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()
