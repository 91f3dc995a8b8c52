"""Shared by the attacks: the description of an attack, and the checks before, during and after it."""

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
MOST_SECONDS = 10  # no attack has a limit above 5 seconds
# A path that is not granted does not exist in tier A; Landlock refuses it in tier B; in tier C no path can be opened.
NO_FILE = {"A": "ENOENT", "A-": "ENOENT", "B": "EACCES", "C": "EPERM"}
_CAP_SYS_ADMIN = 21
KERNEL = "any result of the kernel except EPERM, which is what the filter returns"
IN_TIER_A = pytest.mark.parametrize("sandbox", ["A", "A-"], indirect=True)  # the tiers with a scratch directory
WITH_FILES = pytest.mark.parametrize("sandbox", ["A", "A-", "B"], indirect=True)  # where granted files can be opened
# For claims about the host alone, which are the same in every tier. A machine that has any tier has C.
IN_ANY_TIER = pytest.mark.parametrize("sandbox", ["C"], indirect=True)
# Every program begins with this. `tried` returns True if the operation succeeded, else the name of the error.
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
    """One claim: this program fails in the sandbox.

    It sets `answer` to the result: `refused` in the sandbox (one value, or one per tier), `bare` without a sandbox.
    `unsafe` is the reason why it is not tried without a sandbox; `changes` means that it would change files there.
    """

    name: str
    program: str
    refused: Any = "EPERM"
    bare: Any = True
    unsafe: str = ""
    changes: bool = False
    for_root: bool = False  # without a sandbox, the attack succeeds only as root
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    def refused_in(self, tier: str) -> Any:
        """The result in a tier; A- has that of A, unless it has its own."""
        if not isinstance(self.refused, dict):
            return self.refused
        return self.refused.get(tier, self.refused.get(tier[0], self.refused))


def safe_unconfined(attacks: list[Attack]) -> list[Attack]:
    return [attack for attack in attacks if not attack.unsafe]


class HostFiles:
    """A directory on the host with a secret in it, and a home directory with a key."""

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
class TierSandbox:
    """The jail of one tier, shared by all attacks."""

    tier: str
    jail: Jail

    def run(self, program: str, emulator: Any = None, **options: Any) -> Result:
        """Run a program after the prelude, and check that the jail still works afterwards."""
        result = self.run_unchecked(program, emulator, **options)
        self.assert_healthy()
        return result

    def run_unchecked(self, program: str, emulator: Any = None, **options: Any) -> Result:
        started = time.monotonic()
        options = {"limits": LIMITS, **options}
        result = run(PRELUDE + program, emulator, sandbox=self.jail, **options)
        assert time.monotonic() - started < MOST_SECONDS
        return result

    def assert_healthy(self) -> None:
        assert run("answer = 6 * 7", sandbox=self.jail).answer == 42

    def assert_ends(self, program: str, reason: str, words: str = "", emulator: Any = None, **options: Any) -> Result:
        """Run a program that is stopped for this reason, with these words in the error message."""
        result = self.run(program, emulator, **options)
        assert result.reason == reason, result
        assert result.error is not None
        assert words in result.error.message
        assert "Traceback" not in result.error.message
        return result

    def assert_refused(self, attack: Attack, host_files: HostFiles) -> None:
        result = self.run(attack.program, inputs=host_files.inputs, **attack.options)
        assert result.reason == "answered", result
        assert result.answer == attack.refused_in(self.tier)
        assert host_files.is_untouched()


def has_all_root_rights() -> bool:
    """Whether this process is root with all capabilities, which many containers drop."""
    (rights,) = [line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "CapEff" in line]
    return os.geteuid() == 0 and bool(int(rights, 16) >> _CAP_SYS_ADMIN & 1)


def assert_succeeds_unconfined(attack: Attack, host_files: HostFiles) -> None:
    """Without a sandbox the attack succeeds, so the test that it is refused can fail."""
    skip_without_rights(attack)
    result = run(PRELUDE + attack.program, sandbox="none", inputs=host_files.inputs, limits=LIMITS, **attack.options)
    assert result.reason == "answered", result
    assert is_success(attack, result.answer)
    assert host_files.is_untouched() != attack.changes


def skip_without_rights(attack: Attack) -> None:
    if attack.for_root and not has_all_root_rights():
        pytest.skip("without a sandbox, only root with all capabilities succeeds")


def is_success(attack: Attack, answer: Any) -> bool:
    return bool(answer != "EPERM" if attack.bare is KERNEL else answer == attack.bare)
