"""Reason in code: Python runs what it can, a language model runs the rest."""

from .emulator import Emulator, Pause, Table
from .engine import Result, arun, execute, run
from .errors import ChainOfCodeError, EmulationError, InputError, LMError, ProgramError, SandboxError
from .lm import LM, Completion, Message, Usage, connect
from .lm.scripted import ScriptedLM
from .methods import ask, asolve, solve
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
