"""Errors of tools, which are raised in the program: by the name of a type of Python's own, and a text.

Nothing but a name and a text crosses the wall, and a name means only what stands in this table.
Standard library only: the guest runs this file too.
"""

from __future__ import annotations

# Those that take a text. `StopIteration` would end a loop of the program's, `MemoryError` the run as a limit.
_TYPES: tuple[type[Exception], ...] = (
    ArithmeticError, AssertionError, AttributeError, BlockingIOError, BrokenPipeError, BufferError, BytesWarning,
    ChildProcessError, ConnectionAbortedError, ConnectionError, ConnectionRefusedError, ConnectionResetError,
    DeprecationWarning, EOFError, EncodingWarning, FileExistsError, FileNotFoundError, FloatingPointError,
    FutureWarning, ImportError, ImportWarning, IndentationError, IndexError, InterruptedError, IsADirectoryError,
    KeyError, LookupError, ModuleNotFoundError, NameError, NotADirectoryError, NotImplementedError, OSError,
    OverflowError, PendingDeprecationWarning, PermissionError, ProcessLookupError, RecursionError, ReferenceError,
    ResourceWarning, RuntimeError, RuntimeWarning, SyntaxError, SyntaxWarning, SystemError, TabError, TimeoutError,
    TypeError, UnboundLocalError, UnicodeError, UnicodeWarning, UserWarning, ValueError, Warning, ZeroDivisionError,
)  # fmt: skip
_BY_NAME = {kind.__name__: kind for kind in _TYPES}


class ToolError(RuntimeError):
    """A tool failed in a way that no type of Python's own tells, or was not approved."""


def told(error: BaseException, max_chars: int) -> tuple[str, str] | None:
    """An error as a name of the table and a text; None where no type of it is in the table."""
    kinds = type(error).__mro__
    known = next((kind for kind in kinds if kind in _TYPES), None)
    if known is None:
        return None
    has_text = len(error.args) == 1 and type(error.args[0]) is str  # `str` of a KeyError has quotes around it
    message = error.args[0] if has_text else text_of(error)
    prefix = "" if known is kinds[0] else f"{kinds[0].__name__}: "
    return known.__name__, plain(prefix + message)[:max_chars]


def text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a method of whoever wrote the type
        return type(error).__name__


def plain(text: str) -> str:
    """Text that any JSON reader takes: lone surrogates are written out."""
    return text.encode("utf-8", "backslashreplace").decode()


def made(text: str, raised: object) -> Exception:
    """The error that the program gets: of a type in the table, else a ToolError with the text."""
    if isinstance(raised, list) and len(raised) == 2 and raised[0] in _BY_NAME:
        return _BY_NAME[raised[0]](raised[1])
    return ToolError(text)
