"""What a trace grants its program, and the approval that it needs if someone else may have recorded it.

A trace without a seal of this user (see `seals`) may come from anyone. Its program then gets the files, packages,
scratch directory and raised limits that the trace recorded only if the user grants them again.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import msgspec

from ...errors import GrantError, InputError, TraceError
from ...sandbox import LIMIT_OPTIONS, Limits
from ...trace import Settings, Trace

_MAX_LISTED = 1000  # options in a refusal
_MAX_BYTES = 4096  # of a path or a name: longer ones do not exist
_CHOICES = ("model", "emulator", "method_seconds")  # how a question was asked; only a resumed run uses these


@dataclass(frozen=True, kw_only=True)
class Grants:
    """What a user grants the program of a trace. `recorded` stands for everything that the trace recorded."""

    reads: Sequence[str] = ()
    files: Sequence[str] = ()  # some of those that the trace recorded
    packages: Sequence[str] = ()
    scratch: bool = False
    limits: Mapping[str, float] = field(default_factory=dict)  # by the fields of Limits, in place of the recorded ones
    recorded: bool = False


def approve(trace: Trace, grants: Grants | None = None, *, choices: Sequence[str] | None = None) -> Trace:
    """Return a trace whose program may be run, with these grants in addition to the recorded ones.

    Raises GrantError if someone else may have recorded the trace, and it has grants that are not given again.
    `choices` lists, as options, the recorded choices that the user has not repeated, such as the model. None means that
    choices have no effect; an approved trace then leaves them out.
    """
    grants = grants or Grants()
    if not trace.is_foreign and grants == Grants(recorded=grants.recorded):
        return trace
    settings = settings_of(trace)
    _check_files(settings, grants)
    if trace.is_foreign and not grants.recorded:
        _refuse(trace, [*_list_missing(settings, grants), *(choices or ())])
    changed = {**trace.settings, **_merge_settings(settings, grants)}
    if not trace.is_foreign:
        return replace(trace, settings=changed)
    if choices is None and settings.asked:
        changed["asked"] = {name: value for name, value in settings.asked.items() if name not in _CHOICES}
    return replace(trace, settings=changed, is_approved=True)


def without_files(trace: Trace) -> Trace:
    """Return a trace without its recorded files, and without the grants to read them."""
    settings = settings_of(trace)
    files = set(map(_absolute, settings.files.values()))
    reads = [read for read in settings.reads if _absolute(os.path.join(settings.directory, read)) not in files]
    return replace(trace, settings={**trace.settings, "files": {}, "file_kinds": {}, "reads": reads})


def check_approved(trace: Trace) -> None:
    """Raise GrantError for a trace with grants that need approval."""
    if trace.is_foreign:
        _refuse(trace, list(_list_missing(settings_of(trace), Grants())))


def settings_of(trace: Trace) -> Settings:
    """Return the recorded settings. Raises TraceError if they are invalid."""
    try:
        settings = msgspec.convert(dict(trace.settings), Settings)
        Limits(**cast(Any, settings.limits))
    except (msgspec.ValidationError, TypeError) as error:
        raise TraceError(f"the trace's settings cannot be used: {error}") from None
    for name in [settings.directory, *settings.reads, *settings.files.values(), *settings.packages]:
        if "\0" in name or len(os.fsencode(name)) > _MAX_BYTES:
            raise TraceError(f"the trace's settings cannot be used: {name[:100]!r} is not a path or a name")
    for name in settings.files:
        if name not in settings.file_kinds:
            raise TraceError(f"the trace's settings cannot be used: they do not say how the file {name!r} was read")
    return settings


def grant_options(trace: Trace) -> list[str]:
    """Return everything that a trace grants its program, as the options that grant it."""
    return list(_list_missing(settings_of(trace), Grants()))


def option_text(name: str, value: str) -> str:
    """Return an option with its value, in full, as a user can type it in a shell."""
    if len(os.fsencode(value)) > _MAX_BYTES:
        raise TraceError(f"the trace's settings cannot be used: the value of {name} is too long")
    return f"{name}{'=' if value.startswith('-') else ' '}{_quote(value)}"


def _quote(value: str) -> str:
    if value.isprintable():
        return shlex.quote(value)
    return f"$'{''.join(map(_escape, value))}'"


def _escape(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    return f"\\x{ord(character):02x}" if character < "\x80" else f"\\U{ord(character):08x}"


def _list_missing(settings: Settings, grants: Grants) -> Iterator[str]:
    """Yield an option for each recorded grant that is not given again."""
    files = dict.fromkeys(settings.files.values())
    known = {_absolute(path) for path in [*files, *grants.reads]}
    for path in dict.fromkeys(_absolute(os.path.join(settings.directory, read)) for read in settings.reads):
        if path not in known:
            yield option_text("--allow-read", path)
    given = set(map(_absolute, grants.files))
    for path in files:
        if _absolute(path) not in given:
            yield option_text("--file", path)
    for package in dict.fromkeys(settings.packages):
        if package not in grants.packages:
            yield option_text("--allow-package", package)
    if settings.scratch and not grants.scratch:
        yield "--scratch"
    usual = Limits()
    for short, name in LIMIT_OPTIONS.items():
        value = settings.limits.get(name, 0)
        if value > getattr(usual, name) and name not in grants.limits:
            yield option_text("--limit", f"{short}={value!r}")


def _absolute(path: str) -> str:
    """Return a path in a comparable form. Keep `..`, which after a link leads to the parent of the link's target."""
    if ".." in path.split("/"):
        return path
    found = os.path.abspath(path)
    return found[1:] if found.startswith("//") else found  # the same file on Linux


def _refuse(trace: Trace, missing: Sequence[str]) -> None:
    if not missing:
        return
    whose = f"the trace may be someone else's: {trace.seal_problem}"
    if len(missing) > _MAX_LISTED:
        raise GrantError(f"{whose}; it asks for {len(missing):,} grants, more than you can review")
    how = "to run it anyway, pass these options, or --grant-recorded (in Python: grant_recorded=True) for all of them:"
    raise GrantError("\n".join([whose, how, *missing]))


def _check_files(settings: Settings, grants: Grants) -> None:
    recorded = set(map(_absolute, settings.files.values()))
    unknown = [path for path in grants.files if _absolute(path) not in recorded]
    if unknown:
        known = ", ".join(map(repr, settings.files.values())) or "none"
        raise InputError(f"the recorded run had no file {unknown[0]!r} (its files: {known[:500]})")


def _merge_settings(settings: Settings, grants: Grants) -> dict[str, Any]:
    """Return the settings that the grants change, with their new values."""
    usual = Limits()
    limits = {**settings.limits, **grants.limits}
    Limits(**cast(Any, limits))  # raises InputError
    added: dict[str, Any] = {}
    if grants.reads:
        added["reads"] = list(dict.fromkeys([*settings.reads, *map(os.path.abspath, grants.reads)]))
    if grants.packages:
        added["packages"] = list(dict.fromkeys([*settings.packages, *grants.packages]))
    if grants.scratch:
        added["scratch"] = True
    if grants.limits:
        added["limits"] = {name: value for name, value in limits.items() if value != getattr(usual, name)}
    return added


__all__ = ["Grants", "approve", "check_approved", "grant_options", "option_text", "settings_of", "without_files"]
