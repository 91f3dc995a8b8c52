"""`python deny.py CALL,CALL… COMMAND…`: run a command with these system calls refused, as container hosts do.

The calls fail with `EPERM`, or with `ENOSYS` if they have the prefix `-`. `prctl:22` refuses one option of a call.
"""

from __future__ import annotations

import errno
import os
import struct
import sys

from chainofcode.sandbox import kernel

NUMBERS = {
    "x86_64": {"unshare": 272, "mount": 165, "pivot_root": 155, "setns": 308, "landlock_create_ruleset": 444, "prctl": 157},
    "aarch64": {"unshare": 97, "mount": 40, "pivot_root": 41, "setns": 268, "landlock_create_ruleset": 444, "prctl": 167},
}  # fmt: skip


def step(code: int, k: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, k)


def main() -> None:
    code = b""
    for name in sys.argv[1].split(","):
        call, _, option = name.lstrip("-").partition(":")
        refusal = step(0x06, 0x00050000 | (errno.ENOSYS if name.startswith("-") else errno.EPERM))
        if option:
            refusal = step(0x20, 16) + step(0x15, int(option), 0, 1) + refusal
        code += step(0x20, 0) + step(0x15, NUMBERS[kernel.MACHINE][call], 0, len(refusal) // 8) + refusal
    kernel.set_no_new_privileges()
    kernel.install_filter(code + step(0x06, 0x7FFF0000))
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
