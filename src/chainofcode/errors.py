"""Every exception this package raises.

    ChainOfCodeError
    ├── ProgramError        the text given is not a program: empty, over 1 MB, null bytes (`execute` makes it data)
    ├── InputError          what the user handed in cannot be used: values file, --input, trace file
    ├── LMError             a model cannot be had or does not answer: no weights, nothing reachable, refused
    │   └── BudgetError     calls, tokens or money are spent
    ├── EmulationError      nobody can supply a value for a pause (`execute` makes it data)
    ├── SandboxError        no sandbox can be built here, or a guest cannot be started
    └── TraceError          a trace file that cannot be read

What the *model* caused is data in the trace (an Answer without a value, and its reason); only what we or the world
caused is raised.
"""

from typing import Any


class ChainOfCodeError(Exception):
    """The root: catch this to catch everything of ours."""


class ProgramError(ChainOfCodeError, ValueError):
    """The text is not a program; the message says why and where."""


class InputError(ChainOfCodeError, ValueError):
    """Something the user handed in cannot be used; the message names the file and line."""


class LMError(ChainOfCodeError):
    """A model cannot be had or does not answer; the message says what to do.

    `is_transient`: the same request may work later, after `retry_seconds` where the endpoint says so.
    """

    def __init__(self, message: str, *, is_transient: bool = False, retry_seconds: float | None = None) -> None:
        super().__init__(message)
        self.is_transient, self.retry_seconds = is_transient, retry_seconds


class BudgetError(LMError):
    """A budget is spent; `which` is `calls`, `tokens` or `money`, `calls` what was asked in vain before."""

    def __init__(self, which: str, message: str) -> None:
        super().__init__(message)
        self.which = which
        self.calls: tuple[Any, ...] = ()


class EmulationError(ChainOfCodeError):
    """No value for a pause; the message shows the call's exact text, `calls` are the requests made in vain."""

    def __init__(self, message: str, calls: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.calls = calls


class SandboxError(ChainOfCodeError):
    """The guest could not be started."""


class TraceError(InputError):
    """A trace file that is damaged, cut short or of another version."""
