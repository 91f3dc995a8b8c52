"""Imports in a guest: the guest of a language, and granted packages. Standard library only."""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from collections.abc import Collection, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any


class GrantedPackages:
    """Finds granted packages and their dependencies among the host's packages; all others stay invisible."""

    def __init__(self, names: Collection[str], paths: Sequence[str]) -> None:
        self._names, self._paths = frozenset(names), list(paths)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if path is None and name in self._names:
            return importlib.machinery.PathFinder.find_spec(name, self._paths)
        return None

    def find_distributions(self, context: Any = None) -> Any:
        """Find the metadata of granted packages: some read their own version when they are imported."""
        from importlib.metadata import DistributionFinder, MetadataPathFinder

        name = getattr(context, "name", None)
        return MetadataPathFinder.find_distributions(DistributionFinder.Context(name=name, path=self._paths))

    def install(self) -> None:
        if self._names:
            sys.meta_path.append(self)


def guest_of(language: str) -> Any:
    """Import the guest of a language."""
    return importlib.import_module(f"..{language}.guest.main", __package__)
