"""Reason in code: Python runs what it can, a language model runs the rest."""

from .emulator import Emulator, Pause, Table
from .engine import Result, arun, execute, run
from .errors import ChainOfCodeError, EmulationError, InputError, ProgramError, SandboxError, TraceError
from .lm import LM, Completion, Message, Usage
from .lm.scripted import ScriptedLM
from .program import Program, Statement
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
    "Limits",
    "Message",
    "Pause",
    "Program",
    "ProgramError",
    "Result",
    "SandboxError",
    "ScriptedLM",
    "Statement",
    "Step",
    "Table",
    "Trace",
    "TraceError",
    "Usage",
    "arun",
    "execute",
    "run",
]
