"""The features of random programs by name, and where in a program each may stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .writer import Place, Writer

Write = Callable[[Writer], None]
EVERYWHERE: tuple[Place, ...] = ("module", "function", "coroutine")


@dataclass(frozen=True)
class Feature:
    name: str
    write: Write
    places: tuple[Place, ...]


FEATURES: dict[str, Feature] = {}


def feature(*places: Place) -> Callable[[Write], Write]:
    """Register the function as a feature that may stand in these places, everywhere by default."""

    def register(write: Write) -> Write:
        FEATURES[write.__name__] = Feature(write.__name__, write, places or EVERYWHERE)
        return write

    return register
