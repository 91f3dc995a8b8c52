"""The kernel: a harmful system call made directly is refused, and so is every call that is not on a list."""

from __future__ import annotations

import platform
from typing import Any

import pytest

from chainofcode import run

from .harness import KERNEL, LIMITS, PRELUDE, Attack, HostFiles, TierSandbox, is_success, skip_without_rights

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers here are those of x86_64")

INFO = "bytes(8) + (-1).to_bytes(4, 'little', signed=True) + bytes(116)"  # siginfo of a queued signal
NOWHERE = "b'/nowhere/at-all'"

# name: number, harmless arguments, and the result without a sandbox
ANYONE = {
    "mount": (165, "None, None, None, 0, None", "EFAULT"),
    "umount2": (166, f"{NOWHERE}, 0", "ENOENT"),
    "setns": (308, "-1, 0", "EBADF"),
    "unshare nothing": (272, "0", True),
    "clone a namespace with a thread": (56, "0x10010f00, 0, 0, 0, 0", "EINVAL"),
    "execve": (59, "None, None, None", "EFAULT"),
    "execveat": (322, "-1, b'', None, None, 0x1000", "EBADF"),
    "tkill": (200, "other, 0", True),
    "tgkill": (234, "other, other, 0", True),
    "rt_sigqueueinfo": (129, f"other, 0, {INFO}", True),
    "rt_tgsigqueueinfo": (297, f"other, other, 0, {INFO}", True),
    "pidfd_send_signal": (424, "-1, 0, None, 0", "EBADF"),
    "pidfd_getfd": (438, "-1, 0, 0", "EBADF"),
    "waitid": (247, "99, 0, None, 0, None", "EINVAL"),
    "ptrace": (101, "2, other, 0, 0", "ESRCH"),
    "process_vm_readv": (310, "other, None, 0, None, 0, 0", True),
    "process_vm_writev": (311, "other, None, 0, None, 0, 0", True),
    "process_madvise": (440, "-1, None, 0, 0, 0", "EBADF"),
    "name_to_handle_at": (303, "-100, b'/', None, None, 0", "EFAULT"),
    "inotify_init": (253, "", True),
    "inotify_init1": (294, "0", True),
    "memfd_create": (319, "b'x', 0", True),
    "shmget": (29, "0, 0, 0", "EINVAL"),
    "shmat": (30, "-1, None, 0", "EINVAL"),
    "msgget": (68, "0x7abcdef1, 0", "ENOENT"),
    "semget": (64, "0x7abcdef1, 0, 0", "ENOENT"),
    "mq_open": (240, "b'coc-nothing', 0, 0, None", "ENOENT"),
    "personality": (135, "0xffffffff", True),
    "ioctl TIOCSTI": (16, "0, 0x5412, b'x'", "ENOTTY"),
    "ioctl TIOCLINUX": (16, "0, 0x541c, b'x'", "ENOTTY"),
    "fcntl F_SETOWN_EX": (72, "0, 15, None", "EFAULT"),
    "capset": (126, "None, None", "EFAULT"),
    "capget": (125, "None, None", "EFAULT"),
    "setresuid": (117, "-1, -1, -1", True),
    "setrlimit": (160, "7, None", "EFAULT"),
    "prctl PR_SET_SECCOMP": (157, "22, 2, 0", "EFAULT"),
    "prctl PR_SET_NAME": (157, "15, b'attack'", True),
    "prctl PR_SET_SYSCALL_USER_DISPATCH": (157, "59, 0, 0, 0, 0", KERNEL),
    "arch_prctl": (158, "0x1003, ctypes.create_string_buffer(8)", True),
    "ioprio_get": (252, "1, other", True),
    "sched_setattr": (314, "0, None, 0", "EINVAL"),
    "timer_create": (222, "999, None, None", "EINVAL"),
    "timerfd_create": (283, "999, 0", "EINVAL"),
    "signalfd4": (289, "-1, None, 0, 0", "EINVAL"),
    "mlock": (149, "0, 0", True),
    "splice": (275, "-1, None, -1, None, 1, 0", "EBADF"),
    "vmsplice": (278, "-1, None, 0, 0", "EBADF"),
    "clock_settime": (227, "999, None", "EINVAL"),
    "adjtimex": (159, "ctypes.create_string_buffer(208)", True),
    "clock_adjtime": (305, "0, ctypes.create_string_buffer(208)", True),
    "creat": (85, f"{NOWHERE}, 0o600", "ENOENT"),
    "mknod": (133, f"{NOWHERE}, 0, 0", "ENOENT"),
    "landlock_create_ruleset": (444, "None, 0, 1", KERNEL),
    "modify_ldt": (154, "0, None, 0", KERNEL),
    "iopl": (172, "99", KERNEL),
    "ioperm": (173, "65535, 99, 0", KERNEL),
    "quotactl": (179, "0, None, 0, None", KERNEL),
    "kcmp": (312, "os.getpid(), os.getpid(), 1, 0, 0", KERNEL),
    "get_robust_list": (274, "other, None, None", KERNEL),
    "x32 getpid": (0x40000027, "", KERNEL),
}
# The same for calls that need privileges, or that a machine may have disabled for ordinary users.
ROOT = {
    "pivot_root": (155, "None, None", "EFAULT"),
    "fsopen": (430, "None, 0", "EFAULT"),
    "open_tree": (428, "-1, b'', 1, 0", KERNEL),
    "move_mount": (429, "-1, b'', -1, b'', 0", KERNEL),
    "mount_setattr": (442, "-1, b'', 0, None, 0", "EINVAL"),
    "bpf": (321, "9999, None, 0", "EINVAL"),
    "keyctl": (250, "9999", "ENOTSUP"),
    "add_key": (248, "None, None, None, 0, 0", "EFAULT"),
    "request_key": (249, "None, None, None, 0", "EFAULT"),
    "io_uring_setup": (425, "1, None", "EFAULT"),
    "io_uring_enter": (426, "-1, 0, 0, 0, None, 0", "EBADF"),
    "userfaultfd": (323, "0xffff", "EINVAL"),
    "perf_event_open": (298, "None, 0, -1, -1, 0", "EFAULT"),
    "seccomp": (317, "2, 0, ctypes.create_string_buffer(4)", True),
    "init_module": (175, "None, 0, None", KERNEL),
    "finit_module": (313, "-1, None, 0", KERNEL),
    "delete_module": (176, "b'coc_nothing', 0", KERNEL),
    "kexec_load": (246, "0, 0, None, 0xffff", KERNEL),
    "kexec_file_load": (320, "-1, -1, 0, None, 0xffff", KERNEL),
    "reboot": (169, "0, 0, 0, None", "EINVAL"),
    "swapon": (167, f"{NOWHERE}, 0", KERNEL),
    "swapoff": (168, NOWHERE, KERNEL),
    "acct": (163, NOWHERE, KERNEL),
    "sethostname": (170, "None, 65", "EINVAL"),
    "setdomainname": (171, "None, 65", "EINVAL"),
    "open_by_handle_at": (304, "-1, None, 0", KERNEL),
    "fanotify_init": (300, "0xffff, 0", KERNEL),
    "settimeofday to nothing": (164, "None, None", True),
    "syslog": (103, "10, None, 0", True),
    "chroot": (161, "b'/'", True),
    "unshare the host's name": (272, "0x04000000", True),
    "unshare users": (272, "0x10000000", True),  # must be the last: afterwards the process has no rights on the host
}

PAGE = (
    "libc.mmap.restype = ctypes.c_void_p\n"
    "address = libc.mmap(None, ctypes.c_size_t(4096), 3, 0x22, -1, ctypes.c_long(0))\n"
)
LOCK = "lock = ctypes.create_string_buffer(4)\n"
ITS_CLOCK = "clock, place = ~other << 3 | 2, ctypes.create_string_buffer(16)\n"  # CPU time of another process
# Calls that are allowed, with arguments that are not.
ARGUMENTS = {
    "lock with priority inheritance": (LOCK + "answer = tried(syscall, 202, lock, 6, 0, None)", True),
    "the same within a process": (LOCK + "answer = tried(syscall, 202, lock, 6 | 128, 0, None)", True),
    "requeue with priority inheritance": (LOCK + "answer = tried(syscall, 202, lock, 12, 1, 0, lock, 0)", KERNEL),
    "wait for a requeue": (LOCK + "answer = tried(syscall, 202, lock, 11 | 256, 1, 0, lock, 0)", KERNEL),
    "the clock of another process": (ITS_CLOCK + "answer = tried(syscall, 228, clock, place)", True),
    "its resolution": (ITS_CLOCK + "answer = tried(syscall, 229, clock, place)", True),
    "sleep by its clock": (ITS_CLOCK + "answer = tried(syscall, 230, clock, 1, place, None)", KERNEL),
    "a clock from a descriptor": (ITS_CLOCK + "answer = tried(syscall, 228, ~0 << 3 | 3, place)", "EINVAL"),
    "share equal pages with other processes": (PAGE + "answer = tried(syscall, 28, address, 4096, 12)", KERNEL),
    "push a page out of memory": (PAGE + "answer = tried(syscall, 28, address, 4096, 21)", KERNEL),
    "mark a page as cold": (PAGE + "answer = tried(syscall, 28, address, 4096, 20)", KERNEL),
    "the size of the library's file system": ("answer = tried(os.statvfs, os.__file__)", True),
    "the same by descriptor": ("answer = tried(os.fstatvfs, 0)", True),
}

ATTACKS = [
    *[Attack(name, program, bare=bare) for name, (program, bare) in ARGUMENTS.items()],
    Attack("flock", "answer = tried(syscall, 73, 0, 1)"),
    Attack("clone3, whose flags no filter sees", "answer = tried(syscall, 435, None, 0)", refused="ENOSYS", bare="EINVAL"),
    *[Attack(name, f"answer = tried(syscall, {n}, {a})", bare=bare) for name, (n, a, bare) in ANYONE.items()],
    *[
        Attack(name, f"answer = tried(syscall, {n}, {a})", bare=bare, for_root=True)
        for name, (n, a, bare) in ROOT.items()
    ],
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_attack_is_refused(sandbox: TierSandbox, attack: Attack, host_files: HostFiles) -> None:
    sandbox.assert_refused(attack, host_files)


@pytest.fixture(scope="module")
def unconfined_results() -> Any:
    """The result of each call without a sandbox; one guest makes all of them, to save time."""
    calls = [f"{attack.program}\nfound[{attack.name!r}] = answer" for attack in ATTACKS]
    result = run("\n".join([PRELUDE, "found = {}", *calls, "answer = found"]), sandbox="none", limits=LIMITS)
    assert result.reason == "answered", result
    return result.answer


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_attack_succeeds_without_sandbox(attack: Attack, unconfined_results: Any) -> None:
    skip_without_rights(attack)
    assert is_success(attack, unconfined_results[attack.name])


# --- lists --------------------------------------------------------------------------------------------------------

# Calls that a guest may make; those on paths, in tiers A and B only; those whose arguments the filter checks.
ALWAYS = {
    *(0, 1, 3, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 19, 20, 22, 23, 24, 25, 28, 32, 33, 34, 35, 36, 37, 38, 39, 45),
    *(
        48,
        51,
        55,
        60,
        63,
        79,
        95,
        96,
        98,
        99,
        100,
        102,
        104,
        107,
        108,
        110,
        111,
        115,
        118,
        120,
        127,
        128,
        131,
        138,
        186,
    ),
    *(
        201,
        202,
        213,
        218,
        219,
        221,
        228,
        229,
        230,
        231,
        232,
        233,
        270,
        271,
        273,
        281,
        290,
        291,
        292,
        293,
        309,
        318,
        334,
    ),
    441,
}
ON_PATHS = {4, 6, 21, 80, 81, 89, 137, 217, 262, 267, 269, 332, 439}
GUARDED = {16, 44, 53, 56, 62, 72, 204, 234, 302}
OPENING = {2, 257}
ABSENT = {435, 437}
PROBES = {335, 336}  # uretprobe and uprobe, which no filter sees; fatal except in a trampoline that the kernel creates


def test_only_listed_system_calls_are_allowed(sandbox: TierSandbox) -> None:
    """Invalid arguments keep an allowed call harmless. A call added to the filter's list must be added here."""
    allowed = ALWAYS | GUARDED | (ON_PATHS | OPENING if sandbox.tier != "C" else set())
    others = sorted(set(range(700)) - allowed - ABSENT - PROBES)
    result = sandbox.run(
        "answer = [n for n in others if tried(syscall, n, *[-1] * 6) != 'EPERM']", inputs={"others": others}
    )
    assert result.answer == []


def test_no_x32_system_call_is_allowed(sandbox: TierSandbox) -> None:
    """x32 has the same numbers with another bit set, and some of its own."""
    result = sandbox.run("answer = {tried(syscall, n | 0x40000000, *[-1] * 6) for n in range(700)}")
    assert result.answer == {"EPERM"}


@pytest.mark.parametrize(
    ("call", "commands", "allowed"),
    [
        (72, [*range(64), *range(1024, 1060)], [0, 1, 2, 3, 4, 1030, 1032]),
        (16, [*range(0x5400, 0x5480), *range(0x8900, 0x89FF)], [0x5401, 0x541B, 0x5421, 0x5450, 0x5451]),
    ],
    ids=["fcntl", "ioctl"],
)
def test_only_listed_fcntl_and_ioctl_commands_are_allowed(
    sandbox: TierSandbox, call: int, commands: list[int], allowed: list[int]
) -> None:
    """On a descriptor that is not open, so that commands that pass the filter fail."""
    program = f"answer = [c for c in commands if tried(syscall, {call}, -1, c, 0) != 'EPERM']"
    assert sandbox.run(program, inputs={"commands": commands}).answer == allowed


def test_clone_creates_only_threads(sandbox: TierSandbox) -> None:
    """Tried: each flag alone, a thread without one of its flags, a thread with a namespace."""
    program = (
        "thread, namespaces = (8, 9, 10, 11, 16, 18), (7, 17, 25, 26, 27, 28, 29, 30)\n"
        "whole = sum(1 << bit for bit in thread)\n"
        "flags = [*(1 << b for b in range(32)), *(whole & ~(1 << b) for b in thread), *(whole | 1 << b for b in namespaces)]\n"
        "answer = {tried(syscall, 56, flag, 0, 0, 0, 0) for flag in flags}"
    )
    assert sandbox.run(program).answer == {"EPERM"}


# --- machine code of the program's own ----------------------------------------------------------------------------

CODE = """
libc.mmap.restype = ctypes.c_void_p
def execute(code):
    page = libc.mmap(None, ctypes.c_size_t(4096), 7, 0x22, -1, ctypes.c_long(0))  # to read, write and execute
    ctypes.memmove(page, code, len(code))
    return ctypes.CFUNCTYPE(ctypes.c_long)(page)()
"""
GETPID = "execute(bytes.fromhex('b827000000 0f05 c3'))"  # mov eax, 39; syscall; ret
SOCKET = "execute(bytes.fromhex('bf02000000 be01000000 31d2 b829000000 0f05 c3'))"  # socket(2, 1, 0)
GETPID_32 = "execute(bytes.fromhex('53 b814000000 cd80 5b c3'))"  # mov eax, 20; int 0x80


def test_machine_code_runs_but_stays_confined(sandbox: TierSandbox) -> None:
    result = sandbox.run(CODE + f"answer = ({GETPID} == os.getpid(), {SOCKET})")
    assert result.answer == (True, -1)


def test_machine_code_opens_socket_without_sandbox() -> None:
    result = run(PRELUDE + CODE + f"answer = {SOCKET} > 2", sandbox="none", limits=LIMITS)
    assert result.answer is True


def test_i386_system_calls_are_fatal(sandbox: TierSandbox) -> None:
    sandbox.assert_ends(CODE + f"answer = {GETPID_32}", "guest died", "by signal 31")
