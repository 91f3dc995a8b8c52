"""Every package that the extras install has a permissive licence, or one that is listed here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement

PERMISSIVE = re.compile(r"apache|bsd|mit\b|isc|psf|python software foundation|zlib|cc0|cnri-python|unlicense", re.I)
# Checked by hand: weak copyleft that covers only changed files, or no licence in the metadata.
CHECKED = {
    "agent-client-protocol": "Apache-2.0, in its licence file",
    "certifi": "MPL-2.0; unchanged",
    "psycopg": "LGPL-3.0; an optional package, unchanged",
    "psycopg-binary": "LGPL-3.0; an optional package, unchanged",
    "quickjs-ng": "MIT, in its licence file",
    "tqdm": "MPL-2.0 and MIT; unchanged",
}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed(name: str, extras: Iterable[str], found: dict[str, set[str]]) -> dict[str, set[str]]:
    """The package and its requirements, with their extras; packages that are not installed are left out."""
    extras, known = {"", *extras}, found.get(canonical(name))
    try:
        requires = distribution(name).requires or []
    except PackageNotFoundError:
        return found
    if known is None or not extras <= known:
        found[canonical(name)] = extras | (known or set())
        for requirement in map(Requirement, requires):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras):
                installed(requirement.name, requirement.extras, found)
    return found


def licences_of(name: str) -> list[str]:
    """The parts of a licence expression or, in older metadata, the classifiers or the free text."""
    about = distribution(name).metadata
    classifiers = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or [] if "License ::" in line]
    stated = about.get("License-Expression") or "; ".join(classifiers) or about.get("License") or "none"
    return re.split(r" AND |; ", stated.split("\n")[0])


def test_licences_of_dependencies() -> None:
    extras = {*(distribution("chainofcode").metadata.get_all("Provides-Extra") or [])} - {"dev", "docs"}
    packages = installed("chainofcode", extras, {}).keys() - {"chainofcode"}
    assert len(packages) > 20  # otherwise the extras are not installed, and this test checks nothing
    others = {name: licences_of(name) for name in packages - CHECKED.keys()}
    bad = {name: found for name, found in others.items() if not all(map(PERMISSIVE.search, found))}
    assert bad == {}


def test_copyleft_and_unknown_licences_are_not_permissive() -> None:
    for text in ("GPL-3.0-only", "GNU Affero General Public License v3", "Proprietary", "none", "LGPL-2.1"):
        assert not PERMISSIVE.search(text)
