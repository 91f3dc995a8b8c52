"""Ends a program that has reached a limit while QuickJS runs it. Standard library only.

Python runs signal handlers between its own instructions, so none would run before the program returns. A thread waits
for the signals instead, and reports to the host where the program is.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

_SIGNALS = (signal.SIGUSR1, signal.SIGXCPU)
_STACK_BYTES = 1 << 18


class Halting:
    """Waits for the signals that the host and the kernel send when a limit is reached."""

    def __init__(self, stop: Callable[[str, str], None]) -> None:
        self._stop = stop

    def begin(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # in this thread, and in those that it starts
        usual = threading.stack_size(_STACK_BYTES)
        threading.Thread(target=self._wait, daemon=True).start()
        threading.stack_size(usual)

    def _wait(self) -> None:
        if signal.sigwait(_SIGNALS) == signal.SIGXCPU:
            self._stop("limit:cpu", "the program used up its CPU seconds")
        else:
            self._stop("halted", "the host stopped the program")
