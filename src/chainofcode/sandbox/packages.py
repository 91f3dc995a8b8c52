"""What is granted to a program: packages of the host's and what those need themselves, files to read."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError

_NEVER = ("/proc", "/sys", "/dev")  # the kernel's own, and the processes'
_MAX_LINKS = 10_000


@dataclass(frozen=True)
class Grant:
    """`shown` are the paths that a guest may read, `links` names in its working directory and where they lead."""

    packages: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()  # what may be imported
    search: tuple[str, ...] = ()  # and where it lies
    shown: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    identities: tuple[tuple[int, int], ...] = ()  # a path that leads to another file than before is another grant

    @classmethod
    def of(cls, packages: Packages, reads: Iterable[str]) -> Grant:
        """Raises InputError for what is not there."""
        paths = {read: _readable(read) for read in reads}
        return cls(
            packages.names,
            tuple(sorted(packages.modules)),
            tuple(sorted(packages.search)),
            tuple(dict.fromkeys([*packages.shown, *paths.values()])),
            tuple(_links(paths).items()),
            tuple((found.st_dev, found.st_ino) for found in map(os.stat, paths.values())),
        )

    def message(self) -> dict[str, Any]:
        return {"package_names": self.modules, "package_paths": self.search}


def is_below(path: str, directory: str) -> bool:
    """Whether a path is that directory, or lies in it, wherever links lead."""
    directory = os.path.realpath(directory)
    return os.path.commonpath([os.path.realpath(path), directory]) == directory


def is_installed(name: str) -> bool:
    """Whether the host could import a top-level module."""
    if not name.isidentifier() or name in sys.builtin_module_names:
        return False
    try:
        spec = importlib.util.find_spec(name)
        return spec is not None and spec.origin is not None  # a bare directory of that name is no package
    except (ImportError, ValueError):
        return False


def _namespace(name: str) -> list[str]:
    """The directories of a package without a file of its own, which several distributions may share."""
    try:
        spec = importlib.util.find_spec(name) if name.isidentifier() else None
    except (ImportError, ValueError):
        return []
    if spec is None or spec.origin is not None or not spec.submodule_search_locations:
        return []
    return [
        part
        for part in spec.submodule_search_locations
        if os.path.basename(os.path.dirname(part)).endswith("-packages")
    ]


def _why_not(package: str) -> str:
    if package in sys.stdlib_module_names:
        return "it is part of Python, which is there anyway"
    import importlib.metadata

    homes = importlib.metadata.packages_distributions()
    modules = [module for module, owners in homes.items() if _normal(package) in map(_normal, owners)]
    if modules:
        return f"a package is granted by the name it is imported by; did you mean {modules[0]}?"
    return f"no such package is installed here (pip install {package})" if package else "name a package"


def _readable(read: str) -> str:
    if not read:
        raise InputError("cannot grant '' for reading: name a file or a directory")
    path = os.path.abspath(read)
    if not os.access(path, os.R_OK):
        why = "you may not read it" if os.path.exists(path) else "there is no such file or directory"
        raise InputError(f"cannot grant {read!r} for reading: {why}")
    real = os.path.realpath(path)
    if real == "/" or any(real == never or real.startswith(never + "/") for never in _NEVER):
        raise InputError(f"cannot grant {read!r} for reading: a program gets no {real}; name what it needs")
    return path


def _links(paths: Mapping[str, str]) -> dict[str, str]:
    """How a program may call granted paths that were named relative to the host's working directory."""
    names: dict[str, str] = {}
    for read, path in paths.items():
        below = os.path.relpath(path) if not os.path.isabs(read) else ".."
        if below == ".":
            entries = os.listdir(path)
            if len(entries) > _MAX_LINKS:
                raise InputError(f"cannot grant {read!r} for reading: over {_MAX_LINKS:,} entries; name what is needed")
            names |= {entry: os.path.join(path, entry) for entry in entries}
        elif below != ".." and not below.startswith("../"):
            names[below] = path
    parents = {name: [name[:i] for i, letter in enumerate(name) if letter == "/"] for name in names}
    return {name: path for name, path in names.items() if not any(parent in names for parent in parents[name])}


class Packages:
    """Granted packages and, step by step, what they need. Raises InputError for what is not installed."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(dict.fromkeys(names))
        self.modules, self.search, self._shown = set[str](), set[str](), set[str]()
        self._homes: dict[str, list[str]] | None = None
        self._seen: set[str] = set()
        for name in self.names:
            self._add(name)

    @property
    def shown(self) -> list[str]:
        return sorted(self._shown)

    def _add(self, package: str) -> None:
        if not is_installed(package) and not _namespace(package):
            raise InputError(f"cannot grant {package!r}: {_why_not(package)}")
        if self._homes is None:
            import importlib.metadata  # late: it takes longer to import than the rest of us

            self._homes = dict(importlib.metadata.packages_distributions())
        pending = [package]
        while pending:
            name = pending.pop()
            if name not in self._seen:
                self._seen.add(name)
                pending += self._add_module(name, self._homes)

    def _add_module(self, name: str, homes: dict[str, list[str]]) -> list[str]:
        """Add one module with all that its distributions brought; returns the modules those need."""
        self.modules.add(name)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin:
            origin = Path(spec.origin)
            place = origin.parent if spec.submodule_search_locations else origin
            self.search.add(str(place.parent))
            self._shown.add(str(place))
        for part in _namespace(name):
            self.search.add(os.path.dirname(part))
            self._shown.add(part)
        needed: list[str] = []
        for distribution in homes.get(name, []):
            self._shown.update(_files(distribution))
            self.modules.update(module for module, owners in homes.items() if distribution in owners)
            for other in _requirements(distribution):
                needed += [module for module, owners in homes.items() if other in {_normal(o) for o in owners}]
        return needed


def _files(distribution: str) -> set[str]:
    """The top of everything a distribution installed beside its modules: data, shared libraries, metadata."""
    import importlib.metadata

    found = importlib.metadata.distribution(distribution)
    home = str(found.locate_file(""))
    tops = {file.parts[0] for file in found.files or [] if file.parts[0] not in ("..", "__pycache__")}
    return {os.path.join(home, top) for top in tops if os.path.exists(os.path.join(home, top))}


def _requirements(distribution: str) -> set[str]:
    import importlib.metadata

    wanted = importlib.metadata.requires(distribution) or []
    return {_normal(re.split(r"[ ;<>=!~\[(]", line, maxsplit=1)[0]) for line in wanted if "extra ==" not in line}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
