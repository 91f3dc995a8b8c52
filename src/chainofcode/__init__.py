"""Reason in code: Python runs what it can, a language model runs the rest."""

TYPE_CHECKING = False  # imports nothing here, because `coc` handles Ctrl-C only after this module
if TYPE_CHECKING:
    from typing import Any

    from .emulator import Emulator, Pause, Table
    from .engine import Result, arun, execute, run
    from .errors import ChainOfCodeError, EmulationError, InputError, LMError, ProgramError, SandboxError
    from .lm import LM, Completion, Message, Usage, connect
    from .lm.scripted import ScriptedLM
    from .methods import ask, asolve, solve
    from .methods.queries import sql as sql
    from .program import Program
    from .sandbox import Jail, Limits
    from .trace import Answer, Call, Event, Step, Trace

__version__ = "0.1.0"
__all__ = [
    "LM",
    "Answer",
    "Call",
    "ChainOfCodeError",
    "Completion",
    "EmulationError",
    "Emulator",
    "Event",
    "InputError",
    "Jail",
    "LMError",
    "Limits",
    "Message",
    "Pause",
    "Program",
    "ProgramError",
    "Result",
    "SandboxError",
    "ScriptedLM",
    "Step",
    "Table",
    "Trace",
    "Usage",
    "arun",
    "ask",
    "asolve",
    "connect",
    "execute",
    "run",
    "solve",
]
_HOMES = {
    "emulator": ("Emulator", "Pause", "Table"),
    "engine": ("Result", "arun", "execute", "run"),
    "errors": ("ChainOfCodeError", "EmulationError", "InputError", "LMError", "ProgramError", "SandboxError"),
    "lm": ("LM", "Completion", "Message", "Usage", "connect"),
    "lm.scripted": ("ScriptedLM",),
    "methods": ("ask", "asolve", "solve"),
    "program": ("Program",),
    "sandbox": ("Jail", "Limits"),
    "trace": ("Answer", "Call", "Event", "Step", "Trace"),
}
_OTHER_LANGUAGES = {"methods.queries": ("sql",)}  # not for `import *`: the names of languages are common


def __getattr__(name: str) -> "Any":
    """Import a name when it is first used, so that importing the package is quick."""
    from importlib import import_module

    for module, names in (*_HOMES.items(), *_OTHER_LANGUAGES.items()):
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
