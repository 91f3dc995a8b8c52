"""Opens SQLite files from untrusted sources, with the precautions that SQLite recommends. Standard library only.

A hostile file may have a schema that calls functions, or damaged pages. Therefore, its schema is not trusted, cells are
checked when a page is loaded, nothing is mapped into memory, and a query may call only known functions.
See https://www.sqlite.org/security.html.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection

TYPE_CHECKING = False
if TYPE_CHECKING:  # `sqlite3` is imported on use, for start-up time
    import sqlite3
    from typing import Any

_PRAGMAS = ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "temp_store = MEMORY")
# Only Python 3.12 and later can set these: older ones have no way to call sqlite3_db_config.
_SETTINGS = (
    ("SQLITE_DBCONFIG_DEFENSIVE", True),
    ("SQLITE_DBCONFIG_TRUSTED_SCHEMA", False),
    ("SQLITE_DBCONFIG_ENABLE_TRIGGER", False),
    ("SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION", False),
    ("SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER", False),
)
_LIMITS = (
    ("SQLITE_LIMIT_ATTACHED", 0),
    ("SQLITE_LIMIT_WORKER_THREADS", 0),
    ("SQLITE_LIMIT_TRIGGER_DEPTH", 10),
    ("SQLITE_LIMIT_LIKE_PATTERN_LENGTH", 10_000),
)
# The functions that only compute a value from their arguments. Others load code, reveal addresses or the
# engine's settings, or read the internal format of tables.
_NAMES = """
-> ->> abs acos acosh asin asinh atan atan2 atanh avg bm25 ceil ceiling changes char coalesce concat concat_ws cos
cosh count cume_dist current_date current_time current_timestamp date datetime degrees dense_rank exp first_value
floor format glob group_concat hex highlight if ifnull iif instr json json_array json_array_insert json_array_length
json_each json_error_position json_extract json_group_array json_group_object json_insert json_object json_patch
json_pretty json_quote json_remove json_replace json_set json_tree json_type json_valid jsonb jsonb_array
jsonb_array_insert jsonb_extract jsonb_group_array jsonb_group_object jsonb_insert jsonb_object jsonb_patch
jsonb_remove jsonb_replace jsonb_set julianday lag last_insert_rowid last_value lead length like likelihood likely
ln log log10 log2 lower ltrim match max median min mod nth_value ntile nullif octet_length percent_rank percentile
percentile_cont percentile_disc pi pow power printf quote radians random randomblob rank regexp replace round
row_number rtrim sign sin sinh snippet soundex sqlite_version sqrt strftime string_agg substr substring subtype sum
tan tanh time timediff total total_changes trim trunc typeof unhex unicode unistr unistr_quote unixepoch unlikely
upper zeroblob
"""
FUNCTIONS = frozenset(_NAMES.split())


def open_sqlite(path: str, *, has_log: bool = False, **options: Any) -> sqlite3.Connection:
    """Open a file read-only; nothing may change it meanwhile. Raises sqlite3.Error.

    With `has_log`, its last changes are in a write-ahead log next to it. The log is read, and neither file is changed;
    the caller makes sure that no other process changes them meanwhile.
    """
    import sqlite3
    from urllib.parse import quote

    address = f"file:{quote(path)}?mode=ro{'' if has_log else '&immutable=1'}"
    connection: sqlite3.Connection = sqlite3.connect(address, uri=True, **options)
    distrust(connection)
    if has_log:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # keeps the index of the log in memory, not in a file
    return connection


def distrust(connection: sqlite3.Connection) -> None:
    """Apply the settings for untrusted files to a connection."""
    import sqlite3

    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    change: Callable[[int, bool], object] | None = getattr(connection, "setconfig", None)
    for name, value in _SETTINGS if change is not None else ():
        with contextlib.suppress(sqlite3.Error):  # this SQLite lacks the feature
            change(getattr(sqlite3, name), value)  # type: ignore[misc]


def allow_only_reading(
    connection: sqlite3.Connection, *, cell_bytes: int, defined: Collection[str] = frozenset()
) -> None:
    """Restrict later statements to reading what is open now, and to calling known functions and `defined` ones."""
    import sqlite3

    connection.execute("PRAGMA query_only = ON")
    for limit, most in (*_LIMITS, ("SQLITE_LIMIT_LENGTH", cell_bytes)):
        connection.setlimit(getattr(sqlite3, limit), most)
    reading = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE)
    built_in = frozenset(name for name, _ in functions())

    def authorize(what: int, first: str | None, second: str | None, *_: object) -> int:
        name = str(second).lower()
        is_allowed = name in FUNCTIONS or (name in defined and name not in built_in)
        if what == sqlite3.SQLITE_FUNCTION:
            return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK if what in reading else sqlite3.SQLITE_DENY

    connection.set_authorizer(authorize)


@functools.cache
def functions() -> list[tuple[str, str]]:
    """Return the names of all functions of SQLite, with their kinds: scalar, aggregate or window."""
    import sqlite3

    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        return connection.execute("SELECT DISTINCT lower(name), type FROM pragma_function_list").fetchall()
