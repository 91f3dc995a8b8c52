"""What the attacks share: what an attack is, and what must hold before, while and after one is tried."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from chainofcode import Limits, Result, run
from chainofcode.sandbox import Jail

LIMITS = Limits(run_seconds=5, cpu_seconds=5, wall_seconds=20, memory_bytes=512 * 1024**2)
SECRET = "hunter2-is-planted-here"
MOST_SECONDS = 10  # no attack of ours has a limit above 5 seconds
# A path that is not granted does not exist in tier A, is Landlock's in tier B, and cannot be named in tier C.
NO_FILE = {"A": "ENOENT", "A-": "ENOENT", "B": "EACCES", "C": "EPERM"}
_CAP_SYS_ADMIN = 21
KERNEL = "an answer that only the kernel gives"
IN_TIER_A = pytest.mark.parametrize("wall", ["A", "A-"], indirect=True)  # where there is a scratch directory
WITH_FILES = pytest.mark.parametrize("wall", ["A", "A-", "B"], indirect=True)  # where a granted file can be opened
# For claims about the host alone, which are the same in every tier: where any can be had, C can.
IN_ANY_TIER = pytest.mark.parametrize("wall", ["C"], indirect=True)
# Every program begins with this. `tried` is True for what worked, else the name of what stood in the way.
PRELUDE = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
other = os.getppid() or 2
def syscall(number, *arguments):
    longs = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *longs)
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result
def tried(act, *arguments):
    try:
        act(*arguments)
    except Exception as error:
        return errno.errorcode.get(getattr(error, "errno", None)) or type(error).__name__
    return True
"""


@dataclass(frozen=True)
class Attack:
    """One claim: this program does not get through.

    It sets `answer` to what came of it: `refused` behind the wall (the same in each tier, or one for each), `bare`
    without it. `unsafe` says why it is not tried without; `changes` that it then changes files.
    """

    name: str
    program: str
    refused: Any = "EPERM"
    bare: Any = True
    unsafe: str = ""
    changes: bool = False
    for_root: bool = False  # without a wall it takes root to get through
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    def refused_in(self, tier: str) -> Any:
        """A- is as A, unless it is named."""
        if not isinstance(self.refused, dict):
            return self.refused
        return self.refused.get(tier, self.refused.get(tier[0], self.refused))


def tried_bare(attacks: list[Attack]) -> list[Attack]:
    return [attack for attack in attacks if not attack.unsafe]


class World:
    """A place on the host with a secret in it, and a home directory with a key."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.secret = place / "secret.txt"
        (place / "home" / ".ssh").mkdir(parents=True)
        (place / "empty").mkdir()
        for path in (self.secret, place / "home" / ".ssh" / "id_ed25519"):
            path.write_text(SECRET)
        self._before = self._look()

    @property
    def inputs(self) -> dict[str, str]:
        return {"place": str(self.place), "secret": str(self.secret)}

    def is_untouched(self) -> bool:
        return self._look() == self._before

    def _look(self) -> list[tuple[Any, ...]]:
        found = []
        for path in [self.place, *sorted(self.place.rglob("*"))]:
            seen = path.lstat()
            content = path.read_text() if path.is_file() and not path.is_symlink() else ""
            found.append((str(path), seen.st_mode, seen.st_uid, seen.st_mtime_ns, seen.st_nlink, content))
        return found


@dataclass(frozen=True)
class Wall:
    """One tier's jail, kept for all attacks."""

    tier: str
    jail: Jail

    def run(self, program: str, emulator: Any = None, **options: Any) -> Result:
        """Run a program with everything at hand that attacks use; afterwards the jail still works."""
        result = self.look(program, emulator, **options)
        self.is_healthy()
        return result

    def look(self, program: str, emulator: Any = None, **options: Any) -> Result:
        started = time.monotonic()
        options = {"limits": LIMITS, **options}
        result = run(PRELUDE + program, emulator, sandbox=self.jail, **options)
        assert time.monotonic() - started < MOST_SECONDS
        return result

    def is_healthy(self) -> None:
        assert run("answer = 6 * 7", sandbox=self.jail).answer == 42

    def ends(self, program: str, reason: str, words: str = "", emulator: Any = None, **options: Any) -> Result:
        """The program is stopped for this reason, and for no other."""
        result = self.run(program, emulator, **options)
        assert result.reason == reason, result
        assert result.error is not None
        assert words in result.error.message
        assert "Traceback" not in result.error.message
        return result

    def refuses(self, attack: Attack, world: World) -> None:
        result = self.run(attack.program, inputs=world.inputs, **attack.options)
        assert result.reason == "answered", result
        assert result.answer == attack.refused_in(self.tier)
        assert world.is_untouched()


def is_almighty() -> bool:
    """Whether we are root, and not in a container that has taken root's rights."""
    (rights,) = [line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "CapEff" in line]
    return os.geteuid() == 0 and bool(int(rights, 16) >> _CAP_SYS_ADMIN & 1)


def succeeds_bare(attack: Attack, world: World) -> None:
    """Without a wall the attack gets through: the test that it is refused can fail."""
    skip_without_rights(attack)
    result = run(PRELUDE + attack.program, sandbox="none", inputs=world.inputs, limits=LIMITS, **attack.options)
    assert result.reason == "answered", result
    assert is_success(attack, result.answer)
    assert world.is_untouched() != attack.changes


def skip_without_rights(attack: Attack) -> None:
    if attack.for_root and not is_almighty():
        pytest.skip("without a wall only root gets through, with all its rights")


def is_success(attack: Attack, answer: Any) -> bool:
    return bool(answer != "EPERM" if attack.bare is KERNEL else answer == attack.bare)
