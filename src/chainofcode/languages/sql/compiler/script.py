"""Reads a source: one query, declarations of functions, and macros. Standard library only.

A function that only a model knows can be declared, in a comment or as a statement:

    -- is_sarcastic(text) -> bool: "Whether the review says the opposite of what it means."
    CREATE FUNCTION sentiment(text VARCHAR) RETURNS ENUM ('positive', 'negative');
    CREATE MACRO opposite(a, b) AS sentiment(a) <> sentiment(b);

The body of a macro replaces its calls, so that the functions in it are called for each row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...source import NotAProgram, check_readable
from .structure import is_query
from .tokens import Group, Node, SqlToken, SyntaxProblem, parts, place, tokens, tree, unquoted

_MAX_TYPE_CHARS = 200
_FENCE = re.compile(r"```[a-zA-Z]*\n(.*?)```", re.S)
_ANNOTATION = re.compile(
    r"(?:--|/\*)[\s*]*([^\W\d]\w*)\s*\(([^()]*)\)\s*->\s*([^:\n]+?)\s*(?::(.*?))?(?:\*/)?\s*$", re.S
)
_TYPE = re.compile(r"""[\w\s\[\],|.'"-]+""")
_SQL_TYPES = {
    "BOOLEAN": "bool", "BOOL": "bool", "LOGICAL": "bool", "INTEGER": "int", "INT": "int", "BIGINT": "int",
    "SMALLINT": "int", "TINYINT": "int", "HUGEINT": "int", "REAL": "float", "DOUBLE": "float", "FLOAT": "float",
    "DECIMAL": "float", "NUMERIC": "float", "NUMBER": "number", "VARCHAR": "str", "TEXT": "str", "STRING": "str",
    "CHAR": "str", "DATE": "date", "TIMESTAMP": "datetime",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """A function that a source declares: its type as the text of a Python annotation, and its place."""

    name: str
    type: str
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Macro:
    """A function with a body in SQL."""

    name: str
    parameters: tuple[str, ...]
    body: list[Node]
    start: int
    end: int


@dataclass(kw_only=True)
class Script:
    """One query, and its source's declarations. `blank` is the source with everything but the query blanked out."""

    source: str
    query: list[Node]
    blank: str
    declarations: dict[str, Declaration] = field(default_factory=dict)  # by name in lower case
    macros: dict[str, Macro] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)  # names of tools, by name in lower case

    @property
    def names(self) -> frozenset[str]:
        """The names that the source defines, which take precedence over functions of the engine."""
        return frozenset(self.declarations) | frozenset(self.macros)


def script_of(reply: str, *, is_reply: bool = False) -> Script:
    """Read a source. Raises NotAProgram with the line and the column."""
    check_readable(reply)
    source = _unfenced(reply) if is_reply else reply
    try:
        return _read(source)
    except SyntaxProblem as problem:
        raise NotAProgram(at(source, problem.offset, str(problem))) from None


def at(source: str, offset: int, message: str) -> str:
    """Return a message with the line and the column of an offset."""
    line, column = place(source, offset)
    return f"line {line}, column {column}: {message}"


def _unfenced(reply: str) -> str:
    """Return the longest code block of a reply, or the reply."""
    blocks = _FENCE.findall(reply)
    return max(blocks, key=len) if blocks else reply


def _read(source: str) -> Script:
    flat, comments = tokens(source)
    script = Script(source=source, query=[], blank="")
    for comment in comments:
        _add_annotation(script, comment)
    for items in parts(tree(flat), ";"):
        if not items:
            continue
        if items[0].word == "CREATE":
            _add_created(script, items)
        elif script.query:
            raise SyntaxProblem("a program can have only one query; this is a second statement", items[0].start)
        else:
            script.query = items
    if not script.query:
        raise SyntaxProblem("there is no query", len(source))
    first = script.query[0]
    if not is_query(script.query):
        what = first.text.upper() if isinstance(first, SqlToken) else "this"
        raise SyntaxProblem(f"{what} is not allowed: a program is one query that only reads (SELECT)", first.start)
    script.blank = _blanked(source, first.start, script.query[-1].end)
    return script


def _blanked(source: str, start: int, end: int) -> str:
    return re.sub(r"[^\n]", " ", source[:start]) + source[start:end]


def _add_annotation(script: Script, comment: SqlToken) -> None:
    match = _ANNOTATION.match(comment.text)
    if match is None or not _TYPE.fullmatch(match[3]) or len(match[3]) > _MAX_TYPE_CHARS:
        return
    kind = match[3].strip()
    declaration = Declaration(
        name=match[1], type=_SQL_TYPES.get(kind.upper(), kind), start=comment.start, end=comment.end
    )
    script.declarations.setdefault(match[1].lower(), declaration)


def _add_created(script: Script, items: Sequence[Node]) -> None:
    """Read CREATE FUNCTION or CREATE MACRO."""
    words = [item.word for item in items]
    kind = next((index for index, word in enumerate(words[:5]) if word in ("FUNCTION", "MACRO")), 0)
    after = items[kind + 1 :]
    if not kind or len(after) < 2 or not isinstance(after[0], SqlToken) or not isinstance(after[1], Group):
        raise SyntaxProblem(
            "only functions and macros can be created: CREATE FUNCTION name(…) RETURNS …", items[0].start
        )
    name, given = unquoted(after[0]), after[1]
    place_of = {"start": items[0].start, "end": items[-1].end}
    rest = after[2:]
    if rest and rest[0].word == "RETURNS":
        declaration = Declaration(name=name, type=_type(rest[1:]), **place_of)
        script.declarations[name.lower()] = declaration
    elif rest and rest[0].word == "AS" and len(rest) > 1:
        parameters = tuple(_parameter(part) for part in parts(given.items) if part)
        script.macros[name.lower()] = Macro(name=name, parameters=parameters, body=list(rest[1:]), **place_of)
    else:
        raise SyntaxProblem(f"{name} needs RETURNS and a type, or AS and an expression", items[0].start)


def _parameter(part: Sequence[Node]) -> str:
    first = part[0]
    if not isinstance(first, SqlToken) or first.kind not in ("word", "name"):
        raise SyntaxProblem("a parameter of a macro must be a name", part[0].start)
    return unquoted(first).lower()


def _type(items: Sequence[Node]) -> str:
    """Return the Python annotation of an SQL type: VARCHAR, ENUM ('a', 'b'), INTEGER."""
    if not items:
        return ""
    if items[0].word == "ENUM" and len(items) > 1 and isinstance(items[1], Group):
        labels = [unquoted(item) for item in items[1].items if isinstance(item, SqlToken) and item.kind == "string"]
        return f"Literal[{', '.join(map(repr, labels))}]" if labels else "str"
    return _SQL_TYPES.get(items[0].word, "")
