"""Options that a trace records, so that `coc resume` continues with the same ones.

If someone else may have recorded the trace, its models need approval, too.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from ..audit import option_text
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
_COSTLY = ("votes", "value_votes", "repairs", "think", "critique", "effort")  # more requests, or longer replies
_THREE_WAY = ("small", "images")  # also off by --no-…
_CHOICES = ("model", "emulator", "method_seconds")
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
    options = _recorded_options(given, trace)
    for name in _KINDS:
        if getattr(given, name) is not None:
            continue
        setattr(given, name, options.get(name, usual[name]))
        if name in options and name in ("model", "emulator"):
            note(f"asking {options[name]}, as recorded in the trace")


def list_missing_choices(given: argparse.Namespace, trace: Trace) -> Iterator[str]:
    """Yield an option for each recorded model, tool, time limit and costly choice that the command line lacks."""
    options = _recorded_options(given, trace)
    for name in ("model", "emulator"):
        if name in options and getattr(given, name) is None:
            yield option_text(f"--{name}", options[name])
    for name in _COSTLY:
        if getattr(given, name) is None and _is_costly(name, options.get(name)):
            option = f"--{name.replace('_', '-')}"
            yield option if options[name] is True else option_text(option, str(options[name]))
    seconds = options.get("method_seconds", METHOD_SECONDS)
    if not 0 < seconds <= METHOD_SECONDS and given.method_seconds is None:
        yield option_text("--method-seconds", repr(seconds))
    tools = trace.settings.get("tools")
    if isinstance(tools, list) and not (given.tool or given.openapi or given.mcp):
        for tool in tools:
            yield f"--tool, --openapi or --mcp, for the tool {option_text('', str(tool)).strip()}"


def _is_costly(name: str, value: Any) -> bool:
    """Whether a recorded option costs more than its default."""
    return bool(value) and (name not in _USUAL or value > _USUAL[name])


def collect_resumed_options(given: argparse.Namespace, trace: Trace) -> dict[str, Any]:
    """Return the options for the new trace to record: those of the resumed trace, with the models that it now uses."""
    recorded = trace.settings.get("asked")
    options = dict(recorded) if isinstance(recorded, Mapping) else {}
    kept = {name: value for name, value in options.items() if name in _KINDS and name not in _CHOICES}
    return kept | {name: value for name, value in asked_options(given).items() if name in _CHOICES}


def _recorded_options(given: argparse.Namespace, trace: Trace) -> dict[str, Any]:
    """Return the valid options that a trace records, with the model of its first request by default."""
    recorded = trace.settings.get("asked")
    options = dict(recorded) if isinstance(recorded, Mapping) else {}
    if not given.model and not given.emulator and not isinstance(options.get("emulator"), str):
        options.setdefault("model", next((call.model for call in trace.calls if call.model), None))
    if given.sequential or given.in_flight is not None:  # the two exclude each other
        options = {name: value for name, value in options.items() if name not in ("sequential", "in_flight")}
    if str(options.get("type")).endswith(".json"):  # a file
        del options["type"]
    return {name: value for name, value in options.items() if name in _KINDS and type(value) in _KINDS[name]}
