"""Rewrites expressions: finds calls of undefined functions, and prevents evaluation where it is not needed.

Each call of an undefined function is a site, with a function name of its own in the rewritten query. A site can depend
only on sites of lower levels. Standard library only.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .script import Macro, Script
from .structure import conjuncts, is_query, lambda_head
from .tokens import Group, Node, SqlToken, SyntaxProblem, parts, unquoted, walk
from .used_types import kind_at, labels_of_case
from .words import LAZY, NOT_FUNCTIONS, VOLATILE

SITE = "coc_site_"
_MAX_SITES = 200
_MAX_EXPANSIONS = 1000
_LITERAL = re.compile(r"('(?:[^']|'')*'|\$\$.*?\$\$)", re.S)
_MAX_TEXT_CHARS = 1_000_000  # an operand of AND is written twice: the text doubles with each level of nesting


@dataclass(kw_only=True)
class Site:
    """One call of an undefined function in the rewritten query."""

    number: int
    function: str
    level: int
    arguments: list[str]  # in SQL
    start: int
    clause: int  # where its clause begins
    kind: str
    depth: int  # 0: in the outermost SELECT itself

    @property
    def name(self) -> str:
        return f"{SITE}{self.number}"


@dataclass(frozen=True, kw_only=True)
class Context:
    """The place of an expression in the query."""

    depth: int
    clause: int = 0
    inside: str = ""  # the function that it is an argument of
    is_condition: bool = False
    is_table: bool = False
    bound: Mapping[str, tuple[Sequence[Node], Context]] = field(default_factory=dict)  # parameters of a macro
    expanding: frozenset[str] = frozenset()  # macros that are being expanded


class Expressions(ABC):
    """Rewrites the expressions of one query. `functions` are the names that the engine knows, in lower case."""

    def __init__(self, script: Script, functions: frozenset[str], aggregates: frozenset[str]) -> None:
        self._script, self._functions = script, functions
        self.aggregates = aggregates
        self.judged: frozenset[str] = frozenset()  # columns of the current tables that depend on sites
        self._spellings = {name: declaration.name for name, declaration in script.declarations.items()} | script.tools
        self.columns_of: dict[int, list[tuple[str, bool]]] = {}  # of queries, by identity: the tree outlives this
        self.sites: list[Site] = []
        self.shared: dict[tuple[str, ...], Site] | None = None  # equal calls that must stay equal, as in GROUP BY
        self._expanded = 0

    @abstractmethod
    def subquery(self, items: Sequence[Node], level: int, context: Context) -> tuple[str, int]:
        """Return the text of a query in brackets, without the brackets, and the level after it."""

    @abstractmethod
    def joins(self, items: Sequence[Node], level: int, context: Context) -> tuple[str, int]:
        """Return the text of joins in brackets, without the brackets, and the level after them."""

    # --- which calls are sites ----------------------------------------------------------------------------------

    def _is_call(self, level: Sequence[Node], index: int) -> bool:
        """Whether a call of a function that the engine does not have, or of a macro, begins here."""
        name = level[index]
        if not isinstance(name, SqlToken) or name.kind not in ("word", "name") or name.word in NOT_FUNCTIONS:
            return False
        following = level[index + 1] if index + 1 < len(level) else None
        if not isinstance(following, Group) or following.kind != "(":
            return False
        before = level[index - 1] if index else None
        if isinstance(before, SqlToken) and (before.text in (".", "::") or before.word in ("AS", "WITH", "RECURSIVE")):
            return False
        return self.lower(name) not in self._functions or self.lower(name) in self._script.names

    @staticmethod
    def lower(name: Node) -> str:
        return unquoted(name).lower() if isinstance(name, SqlToken) else ""

    def holds(self, items: Sequence[Node], names: Iterable[str] = ()) -> bool:
        """Whether there is a site in an expression, a judged column, or one of these names."""
        wanted = self.judged.union(names)
        for level, index in walk(items):
            item = level[index]
            if self._is_call(level, index) or (wanted and self.lower(item) in wanted):
                return True
        return False

    def mentions(self, items: Sequence[Node], name: str) -> bool:
        return any(self.lower(level[index]) == name for level, index in walk(items))

    # --- expressions ----------------------------------------------------------------------------------------------

    def expression(self, items: Sequence[Node], context: Context, level: int) -> tuple[str, int]:
        """Return an expression, and the level after it."""
        if head := lambda_head(items):
            own = replace(
                context, inside="", is_condition=False, depth=context.depth + 1
            )  # its parameters are not columns
            text, end = self.expression(items[head:], own, level)
            return f"{self.plain(items[:head])} {text}", end
        for word in ("OR", "AND"):
            operands = conjuncts(items, word)
            if len(operands) > 1:
                return self._junction(operands, word, replace(context, is_condition=True, inside=""), level)
        if items and items[0].word in ("NOT", "DISTINCT", "ALL"):
            is_condition = items[0].word == "NOT" and not (len(items) > 1 and items[1].word == "EXISTS")
            own = replace(context, is_condition=is_condition or (context.is_condition and items[0].word == "NOT"))
            text, end = self.expression(items[1:], own, level)
            return f"{items[0].word} {text}", end
        return self._leaf(items, context, level)

    def _junction(self, operands: Sequence[Sequence[Node]], word: str, context: Context, level: int) -> tuple[str, int]:
        """Return AND or OR of several operands: those without sites first, evaluated only as far as needed."""
        is_hot = [self.holds(operand) for operand in operands]
        order = [o for o, hot in zip(operands, is_hot, strict=True) if not hot]
        cheap = f" {word} ".join(f"({self.expression(operand, context, level)[0]})" for operand in order)
        chain = [cheap] if cheap else []
        for operand in (o for o, hot in zip(operands, is_hot, strict=True) if hot):
            text, level = self.expression(operand, context, level)
            chain.append(text)
        text = chain[-1]
        for before in reversed(chain[:-1]):
            if any(self._is_volatile(operand) for operand in order):
                text = f"({before}) {word} ({text})"
            elif word == "AND":
                text = f"CASE WHEN NOT ({before}) THEN FALSE ELSE ({before}) AND ({text}) END"
            else:
                text = f"CASE WHEN ({before}) THEN TRUE ELSE ({before}) OR ({text}) END"
            if len(text) > _MAX_TEXT_CHARS:
                raise SyntaxProblem("this condition is nested too deeply", operands[0][0].start if operands[0] else 0)
        return text, level

    def _is_volatile(self, items: Sequence[Node]) -> bool:
        return any(self.lower(level[index]) in VOLATILE for level, index in walk(items))

    def _leaf(self, items: Sequence[Node], context: Context, level: int) -> tuple[str, int]:
        """Return an expression that has no AND or OR at its top level."""
        pieces: list[str] = []
        end, index, previous = level, 0, None
        while index < len(items):
            item = items[index]
            gap = self._script.source[previous.end : item.start] if previous is not None else ""
            text, after, width = self._node(items, index, context, level)
            pieces += [gap, text]
            end, previous, index = max(end, after), items[index + width - 1], index + width
        return "".join(pieces), end

    def _node(self, items: Sequence[Node], index: int, context: Context, level: int) -> tuple[str, int, int]:
        """Return the text of the node at `index`, the level after it, and how many nodes it covers."""
        item = items[index]
        if isinstance(item, Group):
            text, end = self._group(item, context, level)
            return text, end, 1
        is_call = not context.is_table and self._is_call(items, index)
        following = items[index + 1] if index + 1 < len(items) else None
        if is_call and isinstance(following, Group):
            macro = self._script.macros.get(self.lower(item))
            if macro is not None:
                text, end = self._expand(macro, following, context, level)
            else:
                kind = kind_at(items, index, is_condition=context.is_condition, inside=context.inside)
                text, end = self._site(item, following, kind, context, level)
            return text, end, 2
        if isinstance(following, Group) and following.kind == "(" and item.kind in ("word", "name"):
            inner = replace(context, inside=item.word, is_condition=False, is_table=False)
            text, end = self._group(following, inner, level)
            gap = self._script.source[item.end : following.start]
            return f"{item.text}{gap}{text}", end, 2
        return self._token(items, index, context, level)

    def _token(self, items: Sequence[Node], index: int, context: Context, level: int) -> tuple[str, int, int]:
        """Return the text of a token; for a parameter of a macro, that of the argument."""
        item = items[index]
        assert isinstance(item, SqlToken)
        before = items[index - 1] if index else None
        bound = context.bound.get(self.lower(item)) if item.kind in ("word", "name") else None
        if bound is None or (isinstance(before, SqlToken) and before.text == "."):
            return item.text, level, 1
        text, end = self.expression(*bound, level)
        return f"({text})", end, 1

    def _site(self, name: SqlToken, given: Group, kind: str, context: Context, level: int) -> tuple[str, int]:
        own = replace(context, is_condition=False, inside="")
        arguments: list[str] = []
        end = level
        for part in parts(given.items) if given.items else ():
            text, after = self.expression(part, own, level)
            arguments.append(text)
            end = max(end, after)
        if len(self.sites) >= _MAX_SITES:
            raise SyntaxProblem(f"the query calls undefined functions in over {_MAX_SITES} places", name.start)
        function = self._spellings.get(self.lower(name), self.lower(name))
        same = (function, str(context.depth), *map(_folded, arguments))
        if self.shared is not None and same in self.shared:
            if kind and self.shared[same].kind in ("", "str"):  # `||` accepts numbers, too
                self.shared[same].kind = kind
            return f"{self.shared[same].name}({', '.join(arguments)})", max(end, self.shared[same].level) + 1
        site = Site(
            number=len(self.sites),
            function=function,
            level=end,
            arguments=arguments,
            start=name.start,
            clause=context.clause,
            kind=kind,
            depth=context.depth,
        )
        self.sites.append(site)
        if self.shared is not None:
            self.shared[same] = site
        return f"{site.name}({', '.join(arguments)})", end + 1

    def _expand(self, macro: Macro, given: Group, context: Context, level: int) -> tuple[str, int]:
        arguments = parts(given.items) if given.items else []
        if len(arguments) != len(macro.parameters):
            message = f"{macro.name} takes {len(macro.parameters)} arguments, not {len(arguments)}"
            raise SyntaxProblem(message, given.start)
        self._expanded += 1
        if macro.name in context.expanding:
            raise SyntaxProblem(f"the macro {macro.name} uses itself", macro.start)
        if self._expanded > _MAX_EXPANSIONS:
            raise SyntaxProblem(f"macros are used over {_MAX_EXPANSIONS:,} times", given.start)
        plain = replace(context, is_condition=False, inside="")
        bound = {name: (argument, plain) for name, argument in zip(macro.parameters, arguments, strict=True)}
        own = replace(context, bound=bound, inside="", expanding=context.expanding | {macro.name})
        text, end = self.expression(macro.body, own, level)
        return f"({text})", end

    def _group(self, group: Group, context: Context, level: int) -> tuple[str, int]:
        """Return the contents of brackets: a query, joins, arguments, an expression; or CASE … END."""
        if group.kind == "case":
            return self._case(group, context, level)
        closing = group.closed.text if group.closed is not None else ""
        if group.kind == "(" and is_query(group.items):
            inner = replace(context, depth=context.depth + 1, is_table=False)
            text, end = self.subquery(group.items, level, inner)
            return f"({text})", end
        is_comprehension = group.kind == "[" and any(item.word == "FOR" for item in group.items)
        own = replace(context, is_table=False, depth=context.depth + is_comprehension)
        if context.is_table and any(item.word == "JOIN" for item in group.items):
            text, end = self.joins(group.items, level, own)
            return f"({text})", end
        texts, end = list[str](), level
        is_lazy = own.inside in LAZY
        for part in parts(group.items):
            text, after = self._argument(part, own, end if is_lazy else level)
            texts.append(text)
            end = max(end, after)
        return f"{group.opened.text}{', '.join(texts)}{closing}", end

    def _argument(self, part: Sequence[Node], context: Context, level: int) -> tuple[str, int]:
        """Return one part of the contents of brackets: `x`, `x AS INTEGER`, `WHERE x`, `x ORDER BY y`."""
        if part and part[0].word == "WHERE":
            text, end = self.expression(part[1:], replace(context, is_condition=True), level)
            return f"WHERE {text}", end
        marks = ("AS", "ORDER", "SEPARATOR", "PARTITION")
        count = next((i for i, item in enumerate(part) if item.word in marks), len(part))
        text, end = self.expression(part[:count], context, level)
        rest, after = self._leaf(part[count:], replace(context, inside="", is_condition=False), level)
        return f"{text} {rest}".rstrip(), max(end, after)

    def _case(self, group: Group, context: Context, level: int) -> tuple[str, int]:
        """Return CASE: a branch depends on the conditions before it."""
        texts, end, conditions = ["CASE"], level, level
        word, has_operand = "", bool(group.items) and group.items[0].word != "WHEN"
        for heading, items in _branches(group.items):
            own = replace(context, is_condition=heading == "WHEN" and not has_operand, inside="")
            first = len(self.sites)
            text, after = self.expression(items, own, conditions) if items else ("", conditions)
            if not heading and len(items) == 2 and len(self.sites) == first + 1:
                self.sites[first].kind = labels_of_case(group.items)
            if heading in ("", "WHEN"):
                conditions = after
            word = f"{heading} {text}".strip()
            texts.append(word)
            end = max(end, after)
        return " ".join([*filter(None, texts), "END"]), end

    def plain(self, items: Sequence[Node]) -> str:
        """Return the unchanged source of nodes."""
        return self._script.source[items[0].start : items[-1].end] if items else ""

    def table(self, items: Sequence[Node], level: int, context: Context) -> tuple[str, int]:
        """Return a table in FROM: a name, a subquery, a table function, joins in brackets."""
        return self._leaf(items, replace(context, is_table=True), level)

    def condition(
        self, items: Sequence[Node], level: int, context: Context, aliases: Iterable[str] = ()
    ) -> tuple[list[str], list[str], int]:
        """Split a condition into texts without and with sites, and return the level after it."""
        pieces = [list(items)] if len(conjuncts(items, "OR")) > 1 else conjuncts(items)
        own = replace(context, is_condition=True)
        cheap, hot = list[str](), list[str]()
        for piece in pieces:
            is_hot = self.holds(piece, aliases)
            text, level = self.expression(piece, own, level)
            (hot if is_hot else cheap).append(f"({text})")
        return cheap, hot, level


def _folded(text: str) -> str:
    """Return an expression with its names in lower case: engines ignore the case of names."""
    return "".join(part if number % 2 else part.lower() for number, part in enumerate(_LITERAL.split(text)))


def _branches(items: Sequence[Node]) -> list[tuple[str, list[Node]]]:
    """Return the parts of CASE, each with its keyword; the operand has no keyword."""
    found: list[tuple[str, list[Node]]] = [("", [])]
    for item in items:
        if item.word in ("WHEN", "THEN", "ELSE"):
            found.append((item.word, []))
        else:
            found[-1][1].append(item)
    return found
