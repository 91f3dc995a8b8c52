"""Tool errors, raised in the program as a built-in exception type with a message.

Only a type's name and a message cross the sandbox boundary, and only names in this table are accepted.
Standard library only: the guest runs this file too.
"""

from __future__ import annotations

# Types that accept a message. `StopIteration` would end a loop of the program, `MemoryError` the run (`limit:memory`).
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
    """A tool failed with an error that has no base type in the table, or its call was not approved."""


def type_and_text(error: BaseException, max_chars: int) -> tuple[str, str] | None:
    """Return the nearest type in the table and a message for an error; None if none of its types is in the table."""
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
    except Exception:  # its `__str__` is the tool's code
        return type(error).__name__


def plain(text: str) -> str:
    """Return text that every JSON parser accepts: lone surrogates are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def error_to_raise(text: str, raised: object) -> Exception:
    """Return the error to raise in the program: a type in the table, else a ToolError with the text."""
    if isinstance(raised, list) and len(raised) == 2 and raised[0] in _BY_NAME:
        return _BY_NAME[raised[0]](raised[1])
    return ToolError(text)
