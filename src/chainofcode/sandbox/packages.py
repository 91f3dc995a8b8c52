"""Which of the host's installed packages a program may import, and what those need themselves."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from ..errors import InputError


def is_installed(name: str) -> bool:
    """Whether the host could import a top-level module."""
    if not name.isidentifier() or name in sys.builtin_module_names:
        return False
    try:
        spec = importlib.util.find_spec(name)
        return spec is not None and spec.origin is not None  # a bare directory of that name is no package
    except (ImportError, ValueError):
        return False


def grant(packages: Iterable[str]) -> dict[str, list[str]]:
    """The modules that come with granted packages (their dependencies too) and the directories they lie in."""
    pending, names, paths = list(packages), set[str](), set[str]()
    if not pending:
        return {"package_names": [], "package_paths": []}
    import importlib.metadata  # late: it takes longer to import than the rest of us

    homes = importlib.metadata.packages_distributions()
    seen: set[str] = set()
    for name in pending:
        if not is_installed(name):
            raise InputError(f"cannot grant {name!r}: no such package is installed here (pip install {name})")
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        names.add(name)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin:
            origin = Path(spec.origin)
            paths.add(str(origin.parent.parent if spec.submodule_search_locations else origin.parent))
        for distribution in homes.get(name, []):
            for needed in _requirements(distribution):
                pending.extend(module for module, owners in homes.items() if needed in {_normal(o) for o in owners})
            names.update(module for module, owners in homes.items() if distribution in owners)
    return {"package_names": sorted(names), "package_paths": sorted(paths)}


def _requirements(distribution: str) -> set[str]:
    import importlib.metadata

    wanted = importlib.metadata.requires(distribution) or []
    return {_normal(re.split(r"[ ;<>=!~\[(]", line, maxsplit=1)[0]) for line in wanted if "extra ==" not in line}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
