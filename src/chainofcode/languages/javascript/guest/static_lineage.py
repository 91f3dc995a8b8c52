"""The provenance of a JavaScript run: what its statements may depend on, with the visits and values of this run.

The dependencies are the compiler's, by variable and for all runs (lineage.js): there may be too many, never too few.
Standard library only.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

_UNSEEN = frozenset(["For", "While", "Match", "Try", "Raise", "Break", "Continue", "FunctionDef", "ClassDef"])


def lineage_of(
    found: Mapping[str, Any],
    statements: Sequence[Sequence[Any]],
    *,
    visits: Mapping[int, int],
    values: Mapping[int, Sequence[int]],
    inputs: Iterable[str],
    failed: int | None,
) -> dict[str, Any]:
    """Return the lineage in the form of the protocol. `visits` and `values` are by statement."""
    ran = _ran(found["parents"], statements, {*visits, *values, *([] if failed is None else [failed])})
    nodes: list[list[Any]] = []
    hubs, deciding = found["hubs"], set(found["control"])
    for number in range(len(found["data"])):
        if number in ran:
            own, around = list(range(1, visits.get(number, 0) + 1)), found["parents"][number]
            read = _read(hubs, found["data"][number])
            read.append([found["control"][number], 0, len(hubs[found["control"][number]])])
            control = [around] if around >= 0 else []
            nodes.append([number, own, list(values.get(number, ())), [], control, read, []])
        else:
            nodes.append([-1, [], [], [], [], [], []])
    ends = {"$output": _add(nodes, found["says"])}
    if found["last"]:
        ends["$last"] = _add(nodes, found["last"])
    ends |= {name: _add(nodes, [], _read(hubs, own)) for name, own in found["ends"].items()}
    given = {}
    for name in inputs:
        given[name] = _add(nodes, [])
        for number in found["inputs"].get(name, ()):
            nodes[number][3] = [*nodes[number][3], given[name]]
    return {
        "nodes": nodes,
        "logs": [[[], hub] if number in deciding else [hub, []] for number, hub in enumerate(hubs)],
        "ends": ends,
        "inputs": given,
        "guards": found["guards"],
        "failed": [] if failed is None else [failed],
        "works": found["works"],
    }


def _add(nodes: list[list[Any]], behind: Sequence[int], read: Sequence[list[int]] = ()) -> int:
    """Add a node that is not a statement. Returns its number."""
    nodes.append([-1, [], [], list(behind), [], list(read), []])
    return len(nodes) - 1


def _read(hubs: Sequence[Sequence[int]], own: Iterable[int]) -> list[list[int]]:
    """Return what a node reads: hubs, which are groups of statements, with all their members."""
    return [[hub, len(hubs[hub]), 0] for hub in own]


def _ran(parents: Sequence[int], statements: Sequence[Sequence[Any]], seen: set[int]) -> set[int]:
    """Return the statements that ran, or may have: those with visits, those around them, and some without a probe."""
    ran = set(seen)
    for number in seen:
        around = parents[number]
        while around >= 0 and around not in ran:
            ran.add(around)
            around = parents[around]
    for number, around in enumerate(parents):  # parents come before the statements in them
        if statements[number][4] in _UNSEEN and (around < 0 or around in ran):
            ran.add(number)
    return ran
