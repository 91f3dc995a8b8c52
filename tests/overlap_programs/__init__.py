"""Random programs with many calls of undefined functions, to compare overlapped runs with sequential ones.

`program(seed)` generates one. Every program ends quickly and sets `answer` to its state; the functions that it leaves
undefined are in `holes.HOLES`. Its features are functions in `functions`, `control`, `classes`, `subclasses`,
`library`, `system` and `coroutines`.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import classes, control, coroutines, functions, library, subclasses, system
from .holes import AWAITED, CALLED, HOLES
from .registry import FEATURES
from .writer import ANSWER, Writer

__all__ = ["AWAITED", "CALLED", "FEATURES", "HOLES", "Program", "program"]

GROUPS = [
    [name for name, one in FEATURES.items() if one.write.__module__ == module.__name__]
    for module in (functions, control, classes, subclasses, library, system, coroutines)
]
# Each program starts with a function that is known by another name, so that all its expressions can use it.
CALLABLES = [
    "alias", "alias", "functions_in_a_dict", "function_as_attribute", "partials", "closure_with_nonlocal",
    "bound_method_alias", "print_alias", "callable_object", "constructor_with_effect", "mutable_default",
]  # fmt: skip
ENDS = ["exit_behind_a_condition", "uncaught_error", "work_behind_an_exit"]
WEIGHTS = [6, 6, 4, 3, 5, 1, 3]


@dataclass(frozen=True)
class Program:
    seed: int
    source: str
    features: tuple[str, ...]


def program(seed: int) -> Program:
    writer = Writer(seed, write_feature)
    write_feature(writer, CALLABLES)
    for _ in range(writer.random.randint(1, 3)):
        writer.ask()
    most = writer.random.choice(
        (1, 2, 7)
    )  # a feature that stops lookahead hides the features after it, so many programs are small
    for _ in range(writer.random.randint(1, most)):
        write_feature(writer)
        writer.ask()
        if writer.chance(0.08):
            write_feature(writer, ENDS)
    writer.show()
    writer.put(f"answer = {ANSWER}")
    return Program(seed, writer.source, tuple(writer.features))


def write_feature(writer: Writer, group: list[str] | None = None) -> None:
    """Write a random feature that may stand where the writer is."""
    if group is None:
        (group,) = writer.random.choices(GROUPS, WEIGHTS)
    here = [name for name in group if writer.place in FEATURES[name].places]
    if not here:
        writer.ask()
        return
    name = writer.random.choice(here)
    writer.features.append(name)
    FEATURES[name].write(writer)
