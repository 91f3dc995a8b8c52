"""Options that a trace records, so that `coc resume` continues with the same ones.

Options that grant access are not recorded: a trace may come from someone else.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from ..trace import Trace
from .method_options import METHOD_SECONDS
from .terminal import note

_KINDS: dict[str, tuple[type, ...]] = {
    "method": (str,),
    "shots": (int,),
    "repairs": (int,),
    "no_fallback": (bool,),
    "method_seconds": (float, int),
    "votes": (int,),
    "value_votes": (int,),
    "think": (bool,),
    "critique": (bool,),
    "type": (str,),
    "language": (str,),
    "model": (str,),
    "emulator": (str,),
    "threshold": (float, int),
    "rows": (int,),
    "small": (bool,),
    "images": (bool,),
    "effort": (str,),
    "in_flight": (int,),
    "sequential": (bool,),
    "ask_me": (str,),
}
_THREE_WAY = ("small", "images")  # also off by --no-…
_USUAL = {
    "method": "coc",
    "language": "auto",
    "repairs": 2,
    "method_seconds": METHOD_SECONDS,
    "votes": 1,
    "value_votes": 1,
    "threshold": 0.8,
}


def asked_options(given: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a command that its trace records: those that differ from the defaults."""
    values = {name: getattr(given, name, None) for name in _KINDS}
    return {
        name: value
        for name, value in values.items()
        if value is not None and (value is not False or name in _THREE_WAY) and value != _USUAL.get(name)
    }


def leave_open(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Give options that a trace records the default None, for `fill_from`. Return their usual defaults."""
    usual = {action.dest: action.default for action in parser._actions if action.dest in _KINDS}
    parser.set_defaults(**dict.fromkeys(usual))
    return usual


def fill_from(given: argparse.Namespace, trace: Trace, usual: Mapping[str, Any]) -> None:
    """Set the options that the command line of `coc resume` leaves out to those in the trace, else to the usual."""
    recorded = trace.settings.get("asked")
    options = dict(recorded) if isinstance(recorded, Mapping) else {}
    if not given.model and not given.emulator and not isinstance(options.get("emulator"), str):
        options.setdefault("model", next((call.model for call in trace.calls if call.model), None))
    if given.sequential or given.in_flight is not None:  # the two exclude each other
        options = {name: value for name, value in options.items() if name not in ("sequential", "in_flight")}
    for name, kinds in _KINDS.items():
        value = options.get(name)
        is_fitting = type(value) in kinds and not (name == "type" and str(value).endswith(".json"))
        if getattr(given, name) is not None:
            continue
        setattr(given, name, value if is_fitting else usual[name])
        if is_fitting and name in ("model", "emulator"):
            note(f"asking {value}, as recorded in the trace")
