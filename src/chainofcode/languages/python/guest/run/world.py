"""A deterministic clock and random numbers. (Hash seed, time zone and locale are set for the process.)

The clock starts at a time that the host sets. Each reading advances it by a microsecond, each sleep by its duration.
Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import gc
import importlib
import operator
import os
import sys
import time
from collections.abc import Callable

from ..recursion import depth_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any


_MAX_DEPTH = 2**31 - 1
_AMPLE_DEPTH = 10_000
_MARK_FRAMES = 3 if sys.version_info >= (3, 12) else 4  # frames of a watch mark before `headroom` applies
_PROBE = compile("set_limit(1)", "<probe>", "exec")  # fails with the stack depth in its message
_PROBED_DEPTH = 1 if sys.version_info >= (3, 12) else 2  # at the bottom of the stack; on 3.11 C calls count, too


class Clock:
    """A clock that depends only on how often it was read and how long the program slept."""

    def __init__(self, start: float, *, sleeps: bool = True) -> None:
        self.start_ns = self._now_ns = int(start * 1e9)
        self._idle_ns = 0  # the part of it spent sleeping or waiting
        self._real_sleep: Callable[[float], None] = time.sleep if sleeps else lambda seconds: None
        self._sleeps = sleeps
        self._selectors_are_done = False

    def time_ns(self) -> int:
        self._now_ns += 1000
        return self._now_ns

    def elapsed_ns(self) -> int:
        return self.time_ns() - self.start_ns

    def busy_ns(self) -> int:
        """Return the CPU time, which stands still while the program sleeps."""
        return self.elapsed_ns() - self._idle_ns

    def sleep(self, seconds: float) -> None:
        self._real_sleep(seconds)
        self._idle(int(seconds * 1e9))

    def _idle(self, nanoseconds: int) -> None:
        self._now_ns += nanoseconds
        self._idle_ns += nanoseconds

    def restart(self) -> None:
        self._now_ns, self._idle_ns = self.start_ns, 0

    def install(self) -> None:
        shown: dict[str, Callable[..., Any]] = {
            "time": lambda: self.time_ns() / 1e9,
            "time_ns": self.time_ns,
            "sleep": self.sleep,
        }
        for name in ("monotonic", "perf_counter"):
            shown |= {name: lambda: self.elapsed_ns() / 1e9, f"{name}_ns": self.elapsed_ns}
        for name in ("process_time", "thread_time"):
            shown |= {name: lambda: self.busy_ns() / 1e9, f"{name}_ns": self.busy_ns}
        for name in ("localtime", "gmtime", "ctime"):
            shown[name] = self._with_default(getattr(time, name))
        for name, function in shown.items():
            setattr(time, name, function)
        strftime = time.strftime
        time.strftime = lambda form, *when: strftime(form, *(when or (time.localtime(),)))
        self._install_in_datetime()

    def settle(self) -> None:
        """Advance the clock while event loops wait in selectors. Call this after each import of the program."""
        module = sys.modules.get("selectors")
        if module is None or self._selectors_are_done:
            return
        self._selectors_are_done = True
        for name in ("SelectSelector", "PollSelector", "EpollSelector"):
            if hasattr(module, name):
                self._move_with(getattr(module, name))

    def _move_with(self, selector: Any) -> None:
        real = selector.select

        def select(this: Any, timeout: float | None = None) -> Any:
            ready = real(this, timeout if self._sleeps or timeout is None else 0)
            if not ready and timeout is not None and timeout > 0:
                self._idle(int(timeout * 1e9) + 1)
            return ready

        selector.select = select

    def _with_default(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def at(seconds: float | None = None) -> Any:
            return real(self.time_ns() / 1e9 if seconds is None else seconds)

        return at

    def _install_in_datetime(self) -> None:
        """Replace `datetime.now` and the like, which read the clock in C. The type is immutable, so change its dict."""
        cls = datetime.datetime

        def now(kind: type[datetime.datetime], tz: datetime.tzinfo | None = None) -> datetime.datetime:
            return kind.fromtimestamp(self.time_ns() / 1e9, tz)

        def utcnow(kind: type[datetime.datetime]) -> datetime.datetime:
            return kind.fromtimestamp(self.time_ns() / 1e9, datetime.UTC).replace(tzinfo=None)

        (members,) = gc.get_referents(cls.__dict__)
        members.update(now=classmethod(now), utcnow=classmethod(utcnow), today=classmethod(lambda kind: now(kind)))
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))  # clear cached lookups


class Depth:
    """The recursion limit as the program sees it: the guest's frames below the program do not count."""

    def __init__(self) -> None:
        self._real, self._limit, self._own = sys.setrecursionlimit, sys.getrecursionlimit(), 0

    def install(self) -> None:
        """Install the limit. Call it from the frame that runs the program with `exec`."""
        try:
            exec(_PROBE, {"set_limit": self._real})
        except RecursionError as error:
            self._own = depth_of(error) - _PROBED_DEPTH - 1  # without the frame of this method
        self._real(self._limit + self._own + _MARK_FRAMES)
        sys.setrecursionlimit, sys.getrecursionlimit = self._set, lambda: self._limit

    def lift(self) -> None:
        """Lift the limit after the program has ended."""
        self._real(_AMPLE_DEPTH)

    def _set(self, limit: int, /) -> None:
        limit = operator.index(limit)
        if not 1 <= limit <= _MAX_DEPTH:
            self._real(limit)  # raises CPython's own error
        try:
            self._real(min(limit + self._own + 1, _MAX_DEPTH))  # plus the frame of this method
        except RecursionError as error:
            depth = depth_of(error) - self._own - 1
            raise RecursionError(
                f"cannot set the recursion limit to {limit} at the recursion depth {depth}: the limit is too low"
            ) from None
        self._limit = limit
        with contextlib.suppress(RecursionError):  # exactly at the new limit
            self._real(min(limit + self._own + _MARK_FRAMES, _MAX_DEPTH))


class RandomGenerators:
    """Seeds each generator that the program has imported; call `settle` after each of its imports."""

    def __init__(self, seed: int) -> None:
        self._seed, self._done, self._drawn = seed, set[str](), 0

    def install(self) -> None:
        def urandom(size: int, /) -> bytes:
            import hashlib

            size = operator.index(size)
            if size < 0:
                raise ValueError("negative argument not allowed")
            self._drawn += 1
            return hashlib.shake_128(f"{self._seed}:{self._drawn}".encode()).digest(size)

        os.urandom = urandom
        self.settle()

    def restart(self) -> None:
        """Restart the random sequences."""
        self._drawn = 0
        for name in self._done:
            sys.modules[name].seed(self._seed)

    def settle(self) -> None:
        _load_numpy_random()
        for name, seed in (("random", self._seed_random), ("numpy.random", self._seed_numpy)):
            if name in sys.modules and name not in self._done:
                self._done.add(name)
                seed(sys.modules[name])

    def _seed_random(self, module: Any) -> None:
        real_seed = module.Random.seed

        def seed(generator: Any, a: Any = None, version: int = 2) -> None:
            if a is None:  # would read entropy from the kernel
                self._drawn += 1
                a = f"{self._seed}:{self._drawn}"
            real_seed(generator, a, version)

        module.Random.seed = seed
        module._urandom = os.urandom
        module.seed(self._seed)

    def _seed_numpy(self, module: Any) -> None:
        module.seed(self._seed)


def _load_numpy_random() -> None:
    """Load `numpy.random`, which numpy loads on first use: seeding it later could undo a seed of the program."""
    spec = getattr(sys.modules.get("numpy"), "__spec__", None)
    if "numpy.random" not in sys.modules and getattr(spec, "origin", None):
        with contextlib.suppress(ImportError):
            importlib.import_module("numpy.random")
