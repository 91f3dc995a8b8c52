"""Opaque values and records, and type inspection that runs no program code.

Standard library only.
"""

from __future__ import annotations

import datetime

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any


class Opaque:
    """A value that stayed in the guest: its type's name and a short text."""

    __slots__ = ("text", "type_name")

    def __init__(self, type_name: str, text: str) -> None:
        self.type_name, self.text = type_name, text

    def __repr__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and (self.type_name, self.text) == (other.type_name, other.text)

    def __hash__(self) -> int:
        return hash((self.type_name, self.text))


class Record(dict):  # type: ignore[type-arg]
    """An emulated object: a dict with attribute access. The methods of a dict take precedence over its keys."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"the emulated object has no {name!r}; it has {', '.join(self) or 'nothing'}"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __reduce__(self) -> Any:  # a pickle may be read where this class is unknown
        return dict, (dict(self),)

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError:
            raise AttributeError(name) from None


def type_name(value: object) -> str:
    """Return the name of a value's type, without running code of its metaclass."""
    return exact(type.__dict__["__name__"].__get__(type(value)))


def exact(text: object) -> str:
    """Return a plain `str`, without running methods of a subclass that the program may have set."""
    return str.__str__(text) if issubclass(type(text), str) else "?"


def ids_of(*kinds: type) -> frozenset[int]:
    """Return the ids of types, for lookups by identity: hashing or comparing a type may run its metaclass."""
    return frozenset(map(id, kinds))


def has_plain_zone(value: datetime.datetime | datetime.time) -> bool:
    """Whether a time zone is absent or a fixed offset: another `tzinfo` class may run program code."""
    zone = value.tzinfo
    if type(zone) is not datetime.timezone:
        return zone is None
    return all(id(type(part)) in _ZONE_PARTS for part in zone.__getinitargs__())  # type: ignore[attr-defined]


_ZONE_PARTS = ids_of(datetime.timedelta, str)
