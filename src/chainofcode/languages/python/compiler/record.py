"""Plain records. The guest starts a quarter faster without `dataclasses`, which compiles source for every class.

Standard library only.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import dataclass_transform
else:

    def dataclass_transform(**_):
        return lambda kind: kind


@dataclass_transform(frozen_default=True)
class Data:
    """Fields are the class's annotations, defaults its attributes; the type checker sees a frozen dataclass."""

    def __init__(self, *values: object, **named: object) -> None:
        self.__dict__.update(zip(type(self).__annotations__, values, strict=False), **named)
