"""Ctrl-C while `coc` starts or ends: the process exits at once, without output. In between, `cli` reports it."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:  # for start-up time
    from typing import Any

INTERRUPTED = 130  # the exit code, as in shells


def exit_on_interrupt() -> None:
    """Exit at the next interrupt, unless interrupts are ignored or the program handles them."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def raise_on_interrupt() -> None:
    """Undo `exit_on_interrupt`: an interrupt is a KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(*arguments: Any) -> None:
    os._exit(INTERRUPTED)
