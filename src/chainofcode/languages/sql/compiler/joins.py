"""The FROM clause of a query: conditions of inner joins belong to WHERE. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .expressions import Context, Expressions
from .structure import Join, alias_of, conjuncts, joins_of
from .tokens import Group, Node, SqlToken

_TABLES_CHANGE = frozenset(["RIGHT", "FULL", "ASOF", "POSITIONAL", "SEMI", "ANTI"])


@dataclass(kw_only=True)
class Joined:
    """A FROM clause. `gate` are conditions that hold for all its rows, `moved` those with sites, for WHERE.

    `aliases` are the names of its tables, if all joins are inner and all names are known.
    """

    text: str
    gate: list[str] = field(default_factory=list)
    moved: list[Sequence[Node]] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)


def joined(
    rewriter: Expressions, items: Sequence[Node], level: int, context: Context, *, may_move: bool = True
) -> tuple[Joined, int]:
    """Rewrite a FROM clause, and return the level after it.

    A row that reaches WHERE satisfies the conditions of all inner joins, unless a later outer join adds rows. So
    conditions with sites can be evaluated after all other conditions, and sites in WHERE after all of these.
    """
    joins = joins_of(items)
    can_move = may_move and not any(_TABLES_CHANGE & set(join.words) for join in joins)
    found = Joined(text="")
    texts: list[str] = []
    end = level
    for join in joins:
        text, after = rewriter.table(join.table, level, context)
        end = max(end, after)
        texts.append(f"{_words(join)}{text}")
    for number, join in enumerate(joins):
        if join.on is not None:
            condition, end = _on(rewriter, join, end, context, found if can_move and join.is_inner else None)
            texts[number] += f" ON {condition}"
        elif join.rest:
            texts[number] += " " + rewriter.plain(join.rest)
            found.gate += _using(joins) if can_move and join.is_inner else []
    found.text = " ".join(texts)
    names = [alias_of(join.table) for join in joins]
    found.aliases = names if all(names) and all(join.is_inner for join in joins) else []
    return found, end


def _words(join: Join) -> str:
    words = " ".join(join.words)
    return f"{words} " if words else ""


def _on(rewriter: Expressions, join: Join, level: int, context: Context, found: Joined | None) -> tuple[str, int]:
    """Return the condition of a join. With `found`, its parts with sites are moved there."""
    items = join.on or []
    if found is None:
        cheap, hot, level = rewriter.condition(items, level, context)
        return gated(cheap, hot, cheap), level
    pieces = [items] if len(conjuncts(items, "OR")) > 1 else conjuncts(items)
    cheap = []
    for piece in pieces:
        if rewriter.holds(piece):
            found.moved.append(piece)
        else:
            text, level = rewriter.expression(piece, context, level)
            cheap.append(f"({text})")
    found.gate += cheap
    return " AND ".join(cheap) or "1 = 1", level


def gated(cheap: Sequence[str], hot: Sequence[str], gate: Sequence[str]) -> str:
    """Return a condition whose parts with sites are evaluated in order, only for rows that pass all other parts."""
    if not hot:
        return " AND ".join(cheap)
    text = hot[-1]
    for before in reversed(hot[:-1]):
        text = f"CASE WHEN {before} THEN {text} END"
    if gate:
        text = f"CASE WHEN {' AND '.join(gate)} THEN {text} END"
    return " AND ".join([*cheap, text])


def _using(joins: Sequence[Join]) -> list[str]:
    """Return USING as conditions, for two tables with plain names."""
    names = [alias_of(join.table) for join in joins]
    group = joins[-1].rest[-1]
    if len(joins) != 2 or not all(names) or not isinstance(group, Group):
        return []
    columns = [item.text for item in group.items if isinstance(item, SqlToken) and item.kind in ("word", "name")]
    return [f"({names[0]}.{column} = {names[1]}.{column})" for column in columns]
