"""The exceptions of this package.

    ChainOfCodeError
    ├── ProgramError        the text is not a program: empty, over 1 MB, null bytes (`execute` records it)
    ├── InputError          invalid input from the user: values file, --input, trace file
    │   └── GrantError      someone else's trace has grants that need approval
    ├── LMError             a model is unavailable: no weights, unreachable, refused
    │   └── BudgetError     the budget for calls, tokens or money is used up
    ├── EmulationError      no value for a pause (`execute` records it)
    ├── SandboxError        no sandbox can be built here, or a guest cannot be started
    │   └── WorkerLostError the machine of a guest was lost; the same run may work on another
    └── TraceError          a trace file cannot be read or written

A failure that the *model* causes is data in the trace (an Answer without a value, and its reason); only other failures
are raised. Each exception has a `code` for programs; its message is for people.
"""

from typing import Any

from .reasons import Reason


class ChainOfCodeError(Exception):
    """The base of all exceptions of this package."""

    code = "error"


class ProgramError(ChainOfCodeError, ValueError):
    """The text is not a program; the message gives the reason and the line."""

    code = "program"


class InputError(ChainOfCodeError, ValueError):
    """Invalid input from the user; the message names the option, or the file and line."""

    code = "input"


class GrantError(InputError):
    """A trace that someone else may have recorded has grants; the message lists an option for each, one per line."""

    code = "grants"


class LMError(ChainOfCodeError):
    """A model is unavailable; the message says what to do.

    `is_transient`: the same request may work later, after `retry_seconds` if the endpoint gives a time.
    """

    code = "model"

    def __init__(self, message: str, *, is_transient: bool = False, retry_seconds: float | None = None) -> None:
        super().__init__(message)
        self.is_transient, self.retry_seconds = is_transient, retry_seconds


class BudgetError(LMError):
    """A budget is used up. `which` is `calls`, `tokens` or `money`; `calls` are the requests that were made before."""

    about = ""

    def __init__(self, which: str, message: str) -> None:
        super().__init__(message)
        self.which = which
        self.calls: tuple[Any, ...] = ()

    @property
    def reason(self) -> Reason:
        return Reason(f"limit:{self.which}")


class EmulationError(ChainOfCodeError):
    """No value for a pause. The message shows the call; `calls` are the requests that were made for it.

    With the codes `call without value` and `statement without value`, `about` is the text of that call or statement.
    """

    code = "emulation"
    reason = Reason.EMULATION_FAILED

    def __init__(self, message: str, calls: tuple[Any, ...] = (), *, code: str = "", about: str = "") -> None:
        super().__init__(message)
        self.calls, self.about = calls, about
        if code:
            self.code = code


class SandboxError(ChainOfCodeError):
    """No sandbox can be built here, or the guest could not be started."""

    code = "sandbox"


class WorkerLostError(SandboxError):
    """The Ray worker of a guest was lost."""

    code = "worker_lost"


class TraceError(InputError):
    """A trace file is damaged, cut short or of another version, or cannot be written."""
