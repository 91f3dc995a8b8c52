"""Reason in code: Python runs what it can, a language model runs the rest."""

from typing import TYPE_CHECKING, Any

from .emulator import Emulator, Pause, Table
from .engine import Result, arun, execute, run
from .errors import ChainOfCodeError, EmulationError, InputError, LMError, ProgramError, SandboxError
from .lm import LM, Completion, Message, Usage, connect
from .lm.scripted import ScriptedLM
from .program import Program
from .sandbox import Jail, Limits
from .trace import Answer, Call, Event, Step, Trace

if TYPE_CHECKING:
    from .methods import ask, asolve, solve

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


def __getattr__(name: str) -> Any:
    """Methods are imported when they are used: whoever only runs programs does not wait for them."""
    if name in ("ask", "asolve", "solve"):
        from . import methods

        return getattr(methods, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
