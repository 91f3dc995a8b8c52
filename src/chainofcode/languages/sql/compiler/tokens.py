"""SQL text as tokens, and tokens as a tree of brackets. Standard library only.

Nothing here depends on a dialect, except that SQLite also quotes names as [name], where DuckDB has lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

MAX_DEPTH = 200  # of brackets
_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))
  | (?P<string>[eExXbB]?'(?:[^']|'')*+'|\$\$.*?\$\$)
  | (?P<name>"(?:[^"]|"")*+"|`(?:[^`]|``)*+`)
  | (?P<number>0[xX][0-9a-fA-F]+|(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
  | (?P<word>[^\W\d][\w$]*)
  | (?P<open>[(\[{])
  | (?P<close>[)\]}])
  | (?P<symbol>::|->>|->|<=|>=|<>|!=|==|\|\||<<|>>|:=|=>|~~|.)
    """,
    re.X | re.S,
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_UNCLOSED = {"'": "unterminated string", '"': "unterminated quoted name"}


class SyntaxProblem(ValueError):
    """Text that cannot be SQL, with its place as an offset."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class SqlToken:
    """A word, name, string, number or symbol, and its place in the source."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """The word in upper case; empty for anything else, including a quoted name."""
        return self.text.upper() if self.kind == "word" else ""


@dataclass(slots=True)
class Group:
    """Nodes between two brackets, or between CASE and END."""

    kind: str  # ( [ { or case
    opened: SqlToken
    items: list[Node] = field(default_factory=list)
    closed: SqlToken | None = None

    @property
    def start(self) -> int:
        return self.opened.start

    @property
    def end(self) -> int:
        return self.closed.end if self.closed is not None else self.opened.end

    @property
    def word(self) -> str:
        return ""


Node = SqlToken | Group


def tokens(source: str) -> tuple[list[SqlToken], list[SqlToken]]:
    """Return the tokens of a source, and its comments. Raises SyntaxProblem for an unterminated string or name."""
    found: list[SqlToken] = []
    comments: list[SqlToken] = []
    for match in _TOKEN.finditer(source):
        kind, text = match.lastgroup or "", match.group()
        token = SqlToken(kind, text, match.start(), match.end())
        if kind == "comment":
            comments.append(token)
        elif kind == "symbol" and text in _UNCLOSED:
            raise SyntaxProblem(_UNCLOSED[text], match.start())
        elif kind != "space":
            found.append(token)
    return found, comments


def tree(flat: Sequence[SqlToken]) -> list[Node]:
    """Return tokens as nested groups. Raises SyntaxProblem for brackets that do not match."""
    top: list[Node] = []
    stack: list[Group] = []
    for token in flat:
        here = stack[-1].items if stack else top
        if token.kind == "open" or token.word == "CASE":
            if len(stack) == MAX_DEPTH:
                raise SyntaxProblem(f"the query is nested over {MAX_DEPTH} levels deep", token.start)
            group = Group("case" if token.word else token.text, token)
            here.append(group)
            stack.append(group)
        elif token.kind == "close":
            _close(stack, token)
        elif token.word == "END" and stack and stack[-1].kind == "case":
            stack.pop().closed = token
        else:
            here.append(token)
    if stack:
        raise SyntaxProblem(f"{stack[-1].opened.text!r} was never closed", stack[-1].start)
    return top


def _close(stack: list[Group], token: SqlToken) -> None:
    if not stack or _CLOSING.get(stack[-1].kind) != token.text:
        raise SyntaxProblem(f"unmatched {token.text!r}", token.start)
    stack.pop().closed = token


def parts(items: Sequence[Node], separator: str = ",") -> list[list[Node]]:
    """Split nodes at a symbol or a word, on this level only."""
    found: list[list[Node]] = [[]]
    for item in items:
        if isinstance(item, SqlToken) and (item.text == separator or item.word == separator):
            found.append([])
        else:
            found[-1].append(item)
    return found


def walk(items: Sequence[Node]) -> Iterator[tuple[Sequence[Node], int]]:
    """Yield every level of a tree with each of its indices, outer levels first."""
    pending = [items]
    while pending:
        level = pending.pop()
        for index, item in enumerate(level):
            yield level, index
            if isinstance(item, Group):
                pending.append(item.items)


def place(source: str, offset: int) -> tuple[int, int]:
    """Return the line and the column of an offset, both counted from 1."""
    line = source.count("\n", 0, offset) + 1
    return line, offset - (source.rfind("\n", 0, offset) + 1) + 1


def unquoted(token: SqlToken) -> str:
    """Return the name or the text that a token stands for."""
    if token.kind in ("name", "string") and len(token.text) > 1:
        mark = token.text[-1]
        return token.text[token.text.index(mark) + 1 : -1].replace(mark * 2, mark)
    return token.text
