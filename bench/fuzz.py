"""Fuzz every reader of untrusted data: each must return a value or raise its own error, within seconds.

    python bench/fuzz.py --seconds 60 [--seed S] [--reader NAME ...]

The readers are those of `tests/readers.py`. An input that breaks one is shrunk and kept in `tests/fuzz_cases`, where
`tests/test_fuzz.py` tries it again. The exit code is 1 if a reader broke.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import json
import os
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import hypothesis
import msgspec
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from readers import READERS  # noqa: E402 - from the tests

from chainofcode.sandbox.frames import Lineage, LineageNode  # noqa: E402

CASES = ROOT / "tests" / "fuzz_cases"
READ_SECONDS = 10  # of CPU time, for one input
_EXAMPLES = 40  # inputs per round
_MAX_KEPT_CHARS = 100_000

# --- generated input ----------------------------------------------------------------------------------------------

_TOKENS = [
    "```", "~~~", "```python\n", "\n", "\r\n", "\t", "    ", " ", "(", ")", "[", "]", "{", "}", "'", '"', '"""', "\\",
    "#", "####", "\\boxed{", "A:", "Answer:", "the answer is ", "# CODE START\n", "# CODE END\n", ".", ",", ":", ";",
    "=", "==", "x", "x = ", "f(", "is_fruit('fig')", "answer = ", "def f(a):\n", "if x:\n", "for i in y:\n", "return ",
    "class A:\n", "lambda: ", "import os\n", "import numpy as np\n", "try:\n", "except E:\n", "with f() as x:\n",
    "del x\n", "global x\n", "yield ", "await ", "async ", "match x:\n", "case _:\n", "print(", "please do it now\n",
    "1", "9" * 50, "1e999", "-", "+", "0x", "nan", "true", "null", "None", "$", "\0", "\x1b[2J", "\u202e", "\ud800",
    "é", "漢", "step:1=", "value:", "delta state: ", "(A) ", "1,000", "\ufeff", "\x85", "\u2028", ",\n", "a,b\n1,2\n",
]  # fmt: skip
_SQL = [
    "SELECT ", "FROM ", "WHERE ", "JOIN ", "LEFT JOIN ", "ON ", "USING (a)", "GROUP BY ", "HAVING ", "ORDER BY ",
    "LIMIT 1", "WITH t AS (", "UNION ALL ", "CASE WHEN ", "THEN ", "ELSE ", "END ", "CAST(a AS int)", "count(*)",
    "f(a)", "f(g(a), b)", "AND ", "OR ", "NOT ", "IN (", "EXISTS (", "OVER (", "-- f(a) -> bool\n", "/* ", "*/", "::",
    "||", "$$", "E'", "x''", "t.", "CREATE MACRO m(a) AS ", "CREATE FUNCTION f(a text) RETURNS bool;", "```sql\n",
    "*", "a", "b", "?", "`", "DISTINCT ",
]  # fmt: skip
_JAVASCRIPT = [
    "const ", "let ", "var ", "function f(a) {", "=> ", "async ", "await ", "class A {", "new A()", "`${", "}`",
    "/a/g", "//", "/*", "*/", "...", "?.", "??", "if (x) ", "else ", "for (const a of b) ", "while (x) ",
    "switch (x) { case 1:", "break;", "try {", "} catch (e) {", "throw ", "typeof ", "a: number", "interface A {",
    "as string", "<T>", "import('x')", "yield ", "label: ", "f(a)", "x.map(f)", "x = ", "```js\n", "answer = ", "1n",
    "#a", "get a() {", "static {", "super(", "@f ", "\u2028",
]  # fmt: skip


def mixed(words: list[str]) -> st.SearchStrategy[str]:
    """Texts of a language's words, mixed with other tokens."""
    return st.lists(st.sampled_from(words) | st.sampled_from(_TOKENS) | st.text(max_size=4), max_size=40).map("".join)


_runs = st.tuples(st.sampled_from(_TOKENS), st.integers(1, 400)).map(lambda pair: pair[0] * pair[1])
texts = st.lists(st.sampled_from(_TOKENS) | st.text(max_size=8) | _runs, max_size=40).map("".join)
_TAGS = [
    "$tuple", "$set", "$frozenset", "$dict", "$bytes", "$int", "$float", "$complex", "$decimal", "$fraction", "$date",
    "$datetime", "$time", "$timedelta", "$range", "$text", "$object", "$unknown",
]  # fmt: skip
_WORDS = [
    "type", "properties", "items", "allOf", "anyOf", "oneOf", "$ref", "enum", "const", "required", "format", "pattern",
    "nullable", "additionalProperties", "$defs", "parameters", "in", "name", "schema", "content", "application/json",
    "requestBody", "get", "post", "/a/{b}", "servers", "url", "security", "call", "value", "operationId", "description",
]  # fmt: skip
_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from([*_WORDS, *_TOKENS])
)
jsons = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from([*_WORDS, *_TAGS]) | st.text(max_size=5), inner, max_size=5)
        | st.tuples(st.sampled_from(_TAGS), inner | st.lists(inner, max_size=3)).map(lambda pair: {pair[0]: pair[1]})
        | st.tuples(st.sampled_from(_TAGS), st.lists(st.lists(inner, min_size=2, max_size=2), max_size=3)).map(
            lambda pair: {pair[0]: pair[1]}
        )
    ),
    max_leaves=20,
)
_numbers = st.integers(-3, 12) | st.integers()
_PROGRAM = {
    "event": "program",
    "source": "x = 1\ny = f(x)",
    "statements": [[1, 0, 1, 5, "Assign"], [2, 0, 2, 8, "Assign"]],
}
_EVENTS: list[dict[str, Any]] = [
    {"event": "trace", "version": 1, "python": "3.11.0", "question": "q", "inputs": {"a": 1}, "settings": {"seed": 1}},
    _PROGRAM,
    {"event": "step", "number": 1, "by": "python", "statement": 0, "line": 1, "delta": {"x": "1"}, "output": "a\n"},
    {"event": "step", "number": 2, "by": "lm", "statement": 1, "line": 2, "call": "f(1)", "value": 2, "how": "ahead"},
    {"event": "call", "prompt": "p", "reply": "r", "usage": {"prompt_tokens": 1}},
    {"event": "answer", "reason": "error", "error": {"type": "E", "message": "m", "line": 1}, "sandbox": "A"},
    {
        "event": "answer",
        "reason": "answered",
        "value": 2,
        "text": "2",
        "source": "variable",
        "sandbox": "A",
        "then": "x",
    },
]
_SIGNALS: list[dict[str, Any]] = [
    {"type": "parsed", "program": _PROGRAM},
    {"type": "ran", "steps": [{"statement": 0, "visit": 1, "delta": {"x": "1"}, "output": "o"}]},
    {
        "type": "paused",
        "id": 1,
        "kind": "call",
        "name": "f",
        "text": "f(1)",
        "args": [1],
        "statement": 1,
        "known_by": [],
    },
    {"type": "settled", "id": 1, "statement": 1},
    {"type": "surveyed", "calls": [1], "skipped": [[1, "f(1)"]]},
    {"type": "wrote", "name": "a.txt", "data": "YQ==", "is_last": True},
    {"type": "ended", "reason": "answered", "answer": 2, "text": "2", "source": "variable"},
]


@st.composite
def changed(draw: Any, patterns: list[dict[str, Any]]) -> dict[str, Any]:
    """One of the patterns, with a few fields replaced."""
    made = dict(draw(st.sampled_from(patterns)))
    for name in draw(st.lists(st.sampled_from(sorted(made)), max_size=2)):
        made[name] = draw(jsons | _numbers | texts)
    return made


def _line(event: Any) -> bytes:
    return json.dumps(event).encode() + b"\n"


def _frame(message: Any) -> bytes:
    body = json.dumps(message).encode()
    return len(body).to_bytes(4, "little") + body


_tails = st.binary(max_size=20) | st.just(b"")
traces = st.tuples(st.lists(changed(_EVENTS) | st.sampled_from(_EVENTS), max_size=12), _tails).map(
    lambda pair: _line(_EVENTS[0]) + b"".join(map(_line, pair[0])) + pair[1]
)
frames = st.tuples(st.lists(changed(_SIGNALS) | st.sampled_from(_SIGNALS), max_size=12), _tails).map(
    lambda pair: _frame(_SIGNALS[0]) + b"".join(map(_frame, pair[0])) + pair[1]
)
_nodes = st.lists(_numbers, max_size=4)
lineages = st.builds(
    Lineage,
    st.lists(
        st.builds(
            LineageNode, _numbers, _nodes, _nodes, _nodes, _nodes, st.lists(st.tuples(*[_numbers] * 3), max_size=3)
        ),
        max_size=8,
    ),
    st.lists(st.tuples(_nodes, _nodes), max_size=3),
    st.dictionaries(st.sampled_from(["answer", "$last", "x"]), _numbers),
    st.dictionaries(st.text(max_size=3), _numbers, max_size=3),
    _nodes,
    _nodes,
    _nodes,
)
_apis = jsons.map(
    lambda part: {"openapi": "3.1.0", "info": {}, "paths": {"/a/{b}": {"get": part, "post": part}}, "components": part}
)
_values = st.lists(changed([{"call": "f(1)", "value": 1}]), max_size=5).map(
    lambda records: b"".join(map(_line, records)).decode()
)


def _database() -> bytes:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE replies (a INTEGER PRIMARY KEY, b TEXT, c BLOB)")
        connection.executemany("INSERT INTO replies VALUES (?, 'b', 'c')", [(k,) for k in range(50)])
        connection.execute("CREATE INDEX i ON replies (b)")
        return connection.serialize()


_DATABASE = _database()
_places = st.integers(0, 300) | st.integers(0, len(_DATABASE) - 1)


@st.composite
def damaged(draw: Any) -> bytes:
    """An SQLite file with a few bytes changed, or cut short."""
    made = bytearray(_DATABASE)
    for place, byte in draw(st.lists(st.tuples(_places, st.integers(0, 255)), max_size=8)):
        made[place] = byte
    return bytes(made[: draw(st.just(len(made)) | _places)])


_databases = damaged()
STRATEGIES: dict[str, st.SearchStrategy[Any]] = {
    "text": texts,
    "json": jsons,
    "bytes": traces | st.binary(max_size=300),
    "lineage": lineages,
}
OWN: dict[str, st.SearchStrategy[Any]] = {
    "frames": frames | st.binary(max_size=300),
    "openapi": _apis | jsons,
    "values file": _values | texts,
    "query": mixed(_SQL).map("SELECT f(a) FROM t WHERE ".__add__) | mixed(_SQL) | texts,
    "javascript": mixed(_JAVASCRIPT) | texts,
    "kept value": changed([{"value": 1, "model": "m", "confidence": {"probability": 0.5}}]).map(_line) | st.binary(),
    "kept file": _databases | st.binary(max_size=300),
    "database": _databases | st.binary(max_size=300),
}  # fmt: skip


# --- cases --------------------------------------------------------------------------------------------------------


def encoded(name: str, data: Any) -> str:
    """A case as text."""
    if isinstance(data, bytes):
        told: Any = {"bytes": base64.b64encode(data).decode()}
    elif isinstance(data, Lineage):
        told = {"lineage": msgspec.to_builtins(data)}
    else:
        told = {"data": data}
    return json.dumps({"reader": name, **told}, indent=1) + "\n"


def decoded(text: str) -> tuple[str, Any]:
    case = json.loads(text)
    if "bytes" in case:
        return case["reader"], base64.b64decode(case["bytes"])
    if "lineage" in case:
        return case["reader"], msgspec.convert(case["lineage"], Lineage)
    return case["reader"], case["data"]


class Slow(Exception):
    """A reader took too long."""


def check(name: str, data: Any) -> None:
    """Read data. Raises any error that is not the reader's own, and Slow."""
    reader = READERS[name]

    def interrupt(*ignored: object) -> None:
        raise Slow(f"over {READ_SECONDS} seconds")

    signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, READ_SECONDS)
    try:
        reader.read(data)
    except reader.errors:
        pass
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


# --- rounds -------------------------------------------------------------------------------------------------------


def one_round(name: str, seed: int, current: Path) -> None:
    """Try some inputs. The current one is kept in a file, in case it crashes the interpreter."""
    settings = hypothesis.settings(
        max_examples=_EXAMPLES,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )

    @hypothesis.seed(seed)
    @settings
    @hypothesis.given(OWN.get(name, STRATEGIES[READERS[name].kind]))
    def tried(data: Any) -> None:
        current.write_text(encoded(name, data), encoding="utf-8", errors="surrogatepass")
        try:
            check(name, data)
        except Exception:
            current.with_suffix(".failed").write_text(encoded(name, data), encoding="utf-8", errors="surrogatepass")
            raise

    tried()


def fork_round(name: str, seed: int) -> str:
    """Run a round in a separate process. Returns the case that broke the reader, or an empty text."""
    with tempfile.TemporaryDirectory() as directory:
        current = Path(directory, "current")
        pid = os.fork()
        if pid == 0:
            code = 0
            try:
                one_round(name, seed, current)
            except BaseException:
                traceback.print_exc()
                code = 1
            finally:
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        if status == 0:
            return ""
        failed = current.with_suffix(".failed")
        return (failed if failed.exists() else current).read_text(encoding="utf-8", errors="surrogatepass")


def keep(case: str) -> Path:
    name = decoded(case)[0].replace(" ", "-")
    digest = hashlib.sha256(case.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    path = CASES / f"{name}-{digest}.json"
    CASES.mkdir(exist_ok=True)
    path.write_text(case, encoding="utf-8", errors="surrogatepass")
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", metavar="N", type=float, default=60)
    parser.add_argument("--seed", metavar="S", type=int, default=0)
    parser.add_argument("--reader", metavar="NAME", nargs="+", choices=list(READERS), default=list(READERS))
    given = parser.parse_args()
    started, rounds, broken = time.monotonic(), 0, set[str]()
    while time.monotonic() - started < given.seconds:
        name = given.reader[rounds % len(given.reader)]
        rounds += 1
        if name in broken:
            if broken >= set(given.reader):
                break
            continue
        case = fork_round(name, given.seed * 1_000_003 + rounds)
        if case:
            broken.add(name)
            kept = keep(case[:_MAX_KEPT_CHARS])
            print(f"{name} broke: {kept.relative_to(ROOT)}", flush=True)
    print(f"{rounds} rounds of {_EXAMPLES} inputs in {time.monotonic() - started:.0f} s, {len(broken)} readers broke")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
