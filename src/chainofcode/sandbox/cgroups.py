"""Control groups (cgroup v2): kernel limits on the memory, processes and CPU of each guest, kernel memory included.

Used if this process may create groups: as root, or in a subtree that is delegated to its user. Each zygote of this
process has a directory of groups, locked while the process lives; a later process removes those of a killed one.
"""

from __future__ import annotations

import contextlib
import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from ..platforms import lock, lock_directory
from .foreign import mounts
from .job import Limits

CONTROLLERS = ("memory", "pids", "cpu")
_PREFIX = "chainofcode-"
_KERNEL_BYTES = 96 << 20  # for the kernel and the runtime, on top of the program's own limit
_LARGE_BYTES = 32 << 20
_SPARE_PROCESSES = 16
_CPU = "100000 100000"  # one processor: Python runs one thread at a time, and libraries are configured to
_LEAVE_SECONDS = 1.0


class GuestGroups:
    """The groups of one zygote's guests. Only the limits of the given `controllers` are set.

    Moving a process into a group takes the kernel about ten milliseconds, so threads do it.
    """

    def __init__(self, place: Path, controllers: tuple[str, ...]) -> None:
        """Raises OSError if no group can be created in `place`, the directory of a group."""
        self._controllers = controllers
        remove_stale(place)
        self._home = place / f"{_PREFIX}{os.getpid()}-{time.monotonic_ns():x}"
        self._home.mkdir()
        self._adding, self._removing = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._added: dict[int, Future[None]] = {}
        self._lock = lock_directory(self._home)
        lock(self._lock, waits=True)
        try:
            _enable(self._home, controllers)
        except OSError:
            self.close()
            raise

    @classmethod
    def open(cls) -> GuestGroups | None:
        """Create groups in the subtree that is delegated to this process. Return None if there is no such subtree."""
        place, controllers, _ = delegated()
        if place is None:
            return None
        try:
            return cls(place, controllers)
        except OSError:  # removed, or no longer delegated
            return None

    def add(self, number: int, pid: int) -> Future[None]:
        """Put a guest into its own group. The future is done when the guest is in it."""
        self._added[number] = self._adding.submit(self._add, number, pid)
        return self._added[number]

    def _add(self, number: int, pid: int) -> None:
        group = self._home / str(number)
        with contextlib.suppress(OSError):  # the guest has died; without a group, the other limits still apply
            group.mkdir()
            (group / "cgroup.procs").write_text(str(pid))

    def limit(self, number: int, limits: Limits, scratch_bytes: int) -> None:
        most = str(limits.memory_bytes + scratch_bytes + _KERNEL_BYTES)
        wanted = {
            "memory": {"memory.max": most, "memory.swap.max": "0", "memory.oom.group": "1"},
            "pids": {"pids.max": str(limits.processes + _SPARE_PROCESSES)},
            "cpu": {"cpu.max": _CPU},
        }
        for controller in self._controllers:
            for file, value in wanted[controller].items():
                with contextlib.suppress(OSError):  # no swap
                    (self._home / str(number) / file).write_text(value)

    def was_out_of_memory(self, number: int) -> bool:
        try:
            events = (self._home / str(number) / "memory.events").read_text().split()
        except OSError:
            return False
        return "oom_kill" in events and events[events.index("oom_kill") + 1] != "0"

    def remove(self, number: int) -> None:
        """Schedule the removal of a killed guest's group."""
        added = self._added.pop(number, None)
        if added is not None:
            with contextlib.suppress(RuntimeError):  # closed: `close` removes all groups
                self._removing.submit(self._remove, number, added)

    def _remove(self, number: int, added: Future[None]) -> None:
        """Free the memory that the kernel holds for a guest, then remove its group."""
        added.result()
        group = self._home / str(number)
        with contextlib.suppress(OSError, ValueError):
            used = int((group / "memory.current").read_text())
            if used > _LARGE_BYTES:
                (group / "memory.reclaim").write_text(str(used))
        _remove(group)

    def close(self) -> None:
        """Remove all groups. Their guests must be dead."""
        self._adding.shutdown()
        self._removing.shutdown()
        _remove_all(self._home)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def delegated() -> tuple[Path | None, tuple[str, ...], str]:
    """Return where this process may create groups and with which controllers, or why it may not.

    Groups are siblings of this process's own group, because a group that has processes cannot have controllers for
    groups below it; this needs write access to the parent. If the own group has a memory limit, no groups are created,
    because siblings would escape the limit.
    """
    place, why = _place()
    if place is None:
        return None, (), why
    try:
        available = (place / "cgroup.controllers").read_text().split()
        controllers = tuple(name for name in CONTROLLERS if name in available)
        if "memory" not in controllers:
            return None, (), f"no memory controller in {place}"
        _enable(place, controllers)
    except OSError as error:
        return None, (), f"{error.strerror}: {error.filename or place}"
    return place, controllers, ""


def _place() -> tuple[Path | None, str]:
    top = next((Path(path) for path, kind in mounts().items() if kind == "cgroup2"), None)
    own = ""
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        own = next((line[3:] for line in lines if line.startswith("0::")), "")
    if top is None or not own:
        return None, "no cgroup v2 is mounted"
    group = top / own.strip("/")
    if not (group / "cgroup.type").exists():  # the root group: only it may have both processes and controllers
        place = group
    elif group == top:
        return None, "this process is in the topmost group that it can see"
    elif _limit_on(group):
        return None, f"{group} has limits, which sibling groups would escape"
    else:
        place = group.parent
    if not os.access(place, os.W_OK) or not os.access(place / "cgroup.procs", os.W_OK):
        return None, f"{place} is not delegated to this user"
    return place, ""


def _limit_on(group: Path) -> bool:
    try:
        return (group / "memory.max").read_text().strip() != "max"
    except OSError:
        return False


def _enable(place: Path, controllers: tuple[str, ...]) -> None:
    control = place / "cgroup.subtree_control"
    missing = [name for name in controllers if name not in control.read_text().split()]
    if missing:
        control.write_text(" ".join(f"+{name}" for name in missing))


def remove_stale(place: Path) -> None:
    """Remove the groups of killed processes of this user."""
    for home in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # in use, or another process is removing it
            held = lock_directory(home)
            try:
                if os.fstat(held).st_uid == os.geteuid():
                    lock(held, waits=False)
                    _remove_all(home)
            finally:
                os.close(held)


def _remove_all(home: Path) -> None:
    with contextlib.suppress(OSError):  # before Linux 5.14; the guests die with their host anyway
        (home / "cgroup.kill").write_text("1")
    with contextlib.suppress(OSError):
        for group in [path for path in home.iterdir() if path.is_dir()]:
            _remove(group)
    _remove(home)


def _remove(group: Path) -> None:
    """Remove a group as soon as its processes are gone."""
    deadline = time.monotonic() + _LEAVE_SECONDS
    while True:
        try:
            group.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                return
        time.sleep(0.001)
