"""Grants of a program: installed packages with their dependencies, and files to read."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from .foreign import file_system, foreign_below, is_storage
from .job import Job

_NEVER = ("/proc", "/sys", "/dev")
_MAX_LINKS = 10_000
# Packages whose name on PyPI is not that of their module.
_PYPI_NAMES = {
    "PIL": "pillow", "bs4": "beautifulsoup4", "cv2": "opencv-python", "dateutil": "python-dateutil",
    "sklearn": "scikit-learn", "yaml": "PyYAML",
}  # fmt: skip


@dataclass(frozen=True)
class Grant:
    """`shown` are the paths that a guest may read, `links` are names in its working directory and their targets."""

    language: str = "python"
    packages: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()  # that may be imported
    search: tuple[str, ...] = ()  # directories of these modules
    shown: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()  # below shown paths, but not granted
    links: tuple[tuple[str, str], ...] = ()
    identities: tuple[tuple[int, int], ...] = ()  # device and inode of each path: a replaced file is a new grant

    @classmethod
    def of(cls, packages: Packages, job: Job) -> Grant:
        """Make the grant for the files of a job and packages. Raises InputError for those that do not exist."""
        paths = {read: _readable(os.path.join(job.directory, read)) for read in job.reads}
        return cls(
            language=job.language.name,
            packages=packages.names,
            modules=tuple(sorted(packages.modules)),
            search=tuple(sorted(packages.search)),
            shown=tuple(dict.fromkeys([*packages.shown, *paths.values()])),
            foreign=tuple(_foreign(paths.values())),
            links=tuple(_links(paths, job.directory).items()),
            identities=tuple((found.st_dev, found.st_ino) for found in map(os.stat, paths.values())),
        )

    def message(self) -> dict[str, Any]:
        return {"package_names": self.modules, "package_paths": self.search}


def is_below(path: str, directory: str) -> bool:
    """Whether a path is that directory or in it, with links resolved."""
    directory = os.path.realpath(directory)
    return os.path.commonpath([os.path.realpath(path), directory]) == directory


def is_installed(name: str) -> bool:
    """Whether the host can import a top-level module."""
    if not name.isidentifier() or name in ("__main__", *sys.builtin_module_names):
        return False
    try:
        spec = importlib.util.find_spec(name)
        return spec is not None and spec.origin is not None  # a bare directory of that name is not a package
    except (ImportError, ValueError):
        return False


def _namespace(name: str) -> list[str]:
    """The directories of a namespace package, which several distributions may share."""
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


def _why_not(missing: Sequence[str]) -> str:
    """Return why packages cannot be granted: the first that is named wrongly, else all of them."""
    for package in missing:
        if why := _misnamed(package):
            return f"cannot grant {package!r}: {why}"
    what = "no such package is" if len(missing) == 1 else "no such packages are"
    wanted = " ".join(_PYPI_NAMES.get(package, package) for package in missing)
    return f"cannot grant {', '.join(map(repr, missing))}: {what} installed here (pip install {wanted})"


def _misnamed(package: str) -> str:
    """Return what is wrong with the name of a package that is not found; empty if it is only not installed."""
    if not package:
        return "the name is empty"
    if package in sys.stdlib_module_names:
        return "it is part of Python and needs no grant"
    import importlib.metadata

    homes = importlib.metadata.packages_distributions()
    modules = [module for module, owners in homes.items() if _normal(package) in map(_normal, owners)]
    if modules:
        public = min(modules, key=lambda module: module.startswith("_"))  # PyYAML has `_yaml` and `yaml`
        return f"use the name that programs import; did you mean {public}?"
    return ""


def _readable(read: str) -> str:
    if not read:
        raise InputError("cannot grant '' for reading: name a file or a directory")
    path = os.path.abspath(read)
    if not os.access(path, os.R_OK):
        why = "you may not read it" if os.path.exists(path) else "there is no such file or directory"
        raise InputError(f"cannot grant {read!r} for reading: {why}")
    real = os.path.realpath(path)
    if real == "/" or any(real == never or real.startswith(never + "/") for never in _NEVER):
        raise InputError(f"cannot grant {read!r} for reading: {real} is never granted; name the files that are needed")
    if not os.path.isfile(real) and not os.path.isdir(real):
        raise InputError(f"cannot grant {read!r} for reading: it is neither a regular file nor a directory")
    kind = file_system(real)
    if kind and not is_storage(kind):
        raise InputError(f"cannot grant {read!r} for reading: a {kind} file system exposes this machine")
    return path


def _foreign(paths: Iterable[str]) -> list[str]:
    try:
        return foreign_below([os.path.realpath(path) for path in paths])
    except OSError as error:
        raise InputError(f"cannot grant files for reading: {error.strerror}") from None


def _links(paths: Mapping[str, str], directory: str) -> dict[str, str]:
    """Links in the guest's working directory for paths relative to a directory of the host."""
    names: dict[str, str] = {}
    for read, path in paths.items():
        relative = os.path.relpath(path, directory or os.curdir) if not os.path.isabs(read) else ".."
        if relative == ".":
            names |= _entries(read, path)
        elif relative.partition("/")[0] != "..":
            names[relative] = path
    return {name: path for name, path in names.items() if not any(parent in names for parent in _parents(name))}


def _entries(read: str, path: str) -> dict[str, str]:
    entries = os.listdir(path)
    if len(entries) > _MAX_LINKS:
        raise InputError(
            f"cannot grant {read!r} for reading: over {_MAX_LINKS:,} entries; name the files that are needed"
        )
    return {entry: os.path.join(path, entry) for entry in entries}


def _parents(name: str) -> list[str]:
    return [name[:place] for place, letter in enumerate(name) if letter == "/"]


class Packages:
    """Granted packages and their dependencies. Raises InputError for packages that are not installed."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(dict.fromkeys(names))
        self.modules, self.search, self._shown = set[str](), set[str](), set[str]()
        self._homes: dict[str, list[str]] | None = None
        self._seen: set[str] = set()
        missing = [name for name in self.names if not is_installed(name) and not _namespace(name)]
        if missing:
            raise InputError(_why_not(missing))
        for name in self.names:
            self._add(name)

    @property
    def shown(self) -> list[str]:
        return sorted(self._shown)

    def _add(self, package: str) -> None:
        if self._homes is None:
            import importlib.metadata  # slow to import

            self._homes = dict(importlib.metadata.packages_distributions())
        pending = [package]
        while pending:
            name = pending.pop()
            if name not in self._seen:
                self._seen.add(name)
                pending += self._add_module(name, self._homes)

    def _add_module(self, name: str, homes: dict[str, list[str]]) -> list[str]:
        """Add a module, with everything that its distributions installed. Return the modules that they require."""
        self.modules.add(name)
        self._add_paths(name)
        needed: list[str] = []
        for distribution in homes.get(name, []):
            self._shown.update(_files(distribution))
            self.modules.update(module for module, owners in homes.items() if distribution in owners)
            self.modules.update(_extension_modules(distribution))
            wanted = _requirements(distribution)
            needed += [module for module, owners in homes.items() if not wanted.isdisjoint(map(_normal, owners))]
        return needed

    def _add_paths(self, name: str) -> None:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin:
            origin = Path(spec.origin)
            place = origin.parent if spec.submodule_search_locations else origin
            self.search.add(str(place.parent))
            self._shown.add(str(place))
        for part in _namespace(name):
            self.search.add(os.path.dirname(part))
            self._shown.add(part)


def _files(distribution: str) -> set[str]:
    """The top-level files and directories of a distribution: modules, data, shared libraries, metadata."""
    import importlib.metadata

    found = importlib.metadata.distribution(distribution)
    home = str(found.locate_file(""))
    tops = {file.parts[0] for file in found.files or [] if file.parts[0] not in ("..", "__pycache__")}
    return {os.path.join(home, top) for top in tops if os.path.exists(os.path.join(home, top))}


def _extension_modules(distribution: str) -> set[str]:
    """The top-level extension modules of a distribution, which `packages_distributions` does not list."""
    import importlib.metadata

    files = importlib.metadata.distribution(distribution).files or []
    names = [file.parts[0] for file in files if len(file.parts) == 1]
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    return {name.partition(".")[0] for name in names if name.endswith(suffixes)}


def _requirements(distribution: str) -> set[str]:
    import importlib.metadata

    wanted = importlib.metadata.requires(distribution) or []
    return {_normal(re.split(r"[ ;<>=!~\[(]", line, maxsplit=1)[0]) for line in wanted if "extra ==" not in line}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
