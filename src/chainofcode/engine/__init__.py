"""Run a program: options, events, result."""

from .loop import arun, execute, execute_program, run
from .options import RunKeywords, RunOptions
from .result import Result

__all__ = ["Result", "RunKeywords", "RunOptions", "arun", "execute", "execute_program", "run"]
