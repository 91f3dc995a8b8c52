"""Running a program: its options, its events, its result."""

from .loop import arun, execute, execute_program, run
from .options import RunKeywords, RunOptions
from .result import Result

__all__ = ["Result", "RunKeywords", "RunOptions", "arun", "execute", "execute_program", "run"]
