"""Linux system calls that Python lacks, through ctypes. Each raises an OSError that names the call.

Standard library only: this runs in the zygote and in guests.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` takes longer than importing all guest modules
    from typing import Any

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
_MS_REC, _MS_PRIVATE, _MNT_DETACH, _MOUNT_ATTR_IDMAP = 16384, 1 << 18, 2, 1 << 20
_AT_FDCWD, _AT_RECURSIVE, _AT_EMPTY_PATH, _OPEN_TREE_CLONE, _MOVE_FROM_DESCRIPTOR = -100, 0x8000, 0x1000, 1, 4

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_KEEPCAPS, _PR_SET_SECCOMP, _PR_CAPBSET_DROP = 1, 4, 8, 22, 24
_PR_GET_DUMPABLE, _PR_GET_NO_NEW_PRIVS = 3, 39
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
_SECCOMP_MODE_FILTER, _SECCOMP_SET_MODE_FILTER, _SECCOMP_ALL_THREADS = 2, 1, 1
_CAPABILITY_VERSION_3, _CAP_SYS_ADMIN = 0x20080522, 1 << 21
NOBODY = 65_534
CAP_READ_FILES = 1 << 2  # CAP_DAC_READ_SEARCH: read all files, regardless of their owner

MACHINE = os.uname().machine
_PIVOT_ROOT, _CAPGET, _CAPSET = {"x86_64": (155, 125, 126), "aarch64": (41, 90, 91)}.get(MACHINE, (-1, -1, -1))
_SECCOMP = {"x86_64": 317, "aarch64": 277}.get(MACHINE, -1)
_OPEN_TREE, _MOVE_MOUNT, _CLOSE_RANGE = 428, 429, 436
_MOUNT_SETATTR, _LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 442, 444, 445, 446

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: Any, function: Any = None) -> int:
    result: int = (function or getattr(_libc, name))(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def _syscall(name: str, number: int, *arguments: Any) -> int:
    longs = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _call(name, ctypes.c_long(number), *longs, function=_libc.syscall)


def raw_errno(number: int) -> int:
    """Make a system call with invalid arguments. Return its errno, 0 if it succeeded."""
    return ctypes.get_errno() if _libc.syscall(ctypes.c_long(number), *[ctypes.c_long(-1)] * 6) < 0 else 0


def _prctl(name: str, option: int, *arguments: Any) -> None:
    values = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments]
    _call(f"prctl({name})", option, *values, *[ctypes.c_ulong(0)] * (4 - len(values)), function=_libc.prctl)


# --- namespaces and mounts ----------------------------------------------------------------------------------------


def unshare(flags: int) -> None:
    _call("unshare", flags)


def setns(fd: int, kind: int) -> None:
    _call("setns", fd, kind)


def sethostname(name: bytes) -> None:
    _call("sethostname", name, len(name))


def make_mounts_private() -> None:
    _call("mount", None, b"/", None, _MS_REC | _MS_PRIVATE, None)


def mount_tmpfs(target: str, size_bytes: int, mode: int) -> None:
    options = f"size={size_bytes},nr_inodes={max(size_bytes // 4096, 256)},mode={mode:o}"
    _call("mount", b"tmpfs", os.fsencode(target), b"tmpfs", MS_NOSUID | MS_NODEV, options.encode())


def bind(source: str, target: str, flags: int, owners: int | None = None) -> None:
    """Bind a path to another one. `flags` are MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC.

    Mounts below it are included: the kernel does not let ordinary users hide them. `owners` is a user namespace that
    maps the owners of the files.
    """
    kinds = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_RECURSIVE
    tree = _syscall("open_tree", _OPEN_TREE, _AT_FDCWD, ctypes.c_char_p(os.fsencode(source)), kinds)
    try:
        if owners is not None:
            with contextlib.suppress(OSError):  # not all file systems can map owners
                _set_mount(tree, b"", _AT_EMPTY_PATH, _MOUNT_ATTR_IDMAP, owners)
        _set_mount(tree, b"", _AT_EMPTY_PATH | _AT_RECURSIVE, flags)
        place = ctypes.c_char_p(os.fsencode(target))
        _syscall("move_mount", _MOVE_MOUNT, tree, ctypes.c_char_p(b""), _AT_FDCWD, place, _MOVE_FROM_DESCRIPTOR)
    finally:
        os.close(tree)


def restrict_mount(target: str, flags: int) -> None:
    """Set the flags of `bind` on an existing mount."""
    _set_mount(_AT_FDCWD, os.fsencode(target), 0, flags)


def _set_mount(directory: int, path: bytes, how: int, flags: int, owners: int = 0) -> None:
    attributes = struct.pack("<QQQQ", flags, 0, 0, owners)  # these flags have the values that mount(2) gives them
    where = ctypes.c_char_p(path)
    _syscall("mount_setattr", _MOUNT_SETATTR, directory, where, how, attributes, len(attributes))


def pivot_root(new_root: str) -> None:
    """Make a mount the root, and unmount the old root."""
    os.chdir(new_root)
    _syscall("pivot_root", _PIVOT_ROOT, ctypes.c_char_p(b"."), ctypes.c_char_p(b"."))
    _call("umount2", b".", _MNT_DETACH)
    os.chdir("/")


# --- a process's own rights ---------------------------------------------------------------------------------------


def die_with_parent() -> None:
    _prctl("PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, 9)


def set_dumpable(is_dumpable: bool) -> None:
    _prctl("PR_SET_DUMPABLE", _PR_SET_DUMPABLE, int(is_dumpable))


def set_no_new_privileges() -> None:
    _prctl("PR_SET_NO_NEW_PRIVS", _PR_SET_NO_NEW_PRIVS, 1)


def find_unused_uid(wanted: int) -> int:
    """Return this user id, or that of the user nobody; 0 if the current user namespace has neither."""
    with open("/proc/self/uid_map") as file:
        ranges = [(int(first), int(count)) for first, _, count in map(str.split, file)]
    candidates = (wanted, NOBODY)
    return next((uid for uid in candidates if any(first <= uid < first + count for first, count in ranges)), 0)


def become(uid: int) -> None:
    """Change user and group irrevocably, but keep the right to create namespaces until `drop_capabilities`."""
    change_user(uid, keeps_capabilities=True)
    _set_capabilities(_CAP_SYS_ADMIN)


def change_user(uid: int, *, keeps_capabilities: bool = False) -> None:
    """Change user and group irrevocably. Kept capabilities last until `drop_capabilities`."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    _prctl("PR_SET_KEEPCAPS", _PR_SET_KEEPCAPS, int(keeps_capabilities))
    os.setresuid(uid, uid, uid)
    set_dumpable(True)  # otherwise /proc/self belongs to root, and the id maps cannot be written


def close_from(first: int) -> None:
    """Close this descriptor and all above it."""
    _syscall("close_range", _CLOSE_RANGE, first, 0x7FFFFFFF, 0)


def capabilities() -> int:
    """The bits of all capabilities that this process has or could acquire."""
    data = ctypes.create_string_buffer(24)
    _syscall("capget", _CAPGET, struct.pack("<Ii", _CAPABILITY_VERSION_3, 0), data)
    bits = 0
    for place in (0, 4, 8):  # effective, permitted, inheritable: low halves, then high halves
        bits |= int.from_bytes(data.raw[place : place + 4] + data.raw[place + 12 : place + 16], "little")
    return bits


def is_locked_in() -> bool:
    """Whether this process cannot gain privileges, and other processes cannot inspect it."""
    nothing = [ctypes.c_ulong(0)] * 4
    return bool(_libc.prctl(_PR_GET_NO_NEW_PRIVS, *nothing) == 1 and _libc.prctl(_PR_GET_DUMPABLE, *nothing) == 0)


def drop_capabilities(but: int = 0) -> None:
    for number in range(64):
        try:
            _prctl("PR_CAPBSET_DROP", _PR_CAPBSET_DROP, number)
        except OSError:  # after the last capability, or no right to shrink the set; exec gains nothing anyway
            break
    try:
        _prctl("PR_CAP_AMBIENT", _PR_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL)
    finally:
        _set_capabilities(but)


def keep_capabilities(which: int) -> None:
    """Drop all other capabilities irrevocably. Programs that this process executes can have those that it keeps."""
    for number in range(64):
        if not which >> number & 1:
            try:
                _prctl("PR_CAPBSET_DROP", _PR_CAPBSET_DROP, number)
            except OSError:  # after the last capability, or no right to shrink the set
                break
    _set_capabilities(which & capabilities())


def _set_capabilities(which: int) -> None:
    header = struct.pack("<Ii", _CAPABILITY_VERSION_3, 0)
    low, high = which & 0xFFFFFFFF, which >> 32
    _syscall("capset", _CAPSET, header, struct.pack("<6I", low, low, 0, high, high, 0))


def install_filter(program: bytes) -> None:
    """Install a seccomp filter (an array of BPF instructions) for this thread and all threads that it starts."""
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    _prctl("PR_SET_SECCOMP", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.c_char_p(header))


def install_filter_everywhere(program: bytes) -> None:
    """Install a seccomp filter for all threads of this process. They can gain no privileges afterwards."""
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    held_up_by = _syscall("seccomp", _SECCOMP, _SECCOMP_SET_MODE_FILTER, _SECCOMP_ALL_THREADS, ctypes.c_char_p(header))
    if held_up_by:
        raise OSError(0, f"seccomp: thread {held_up_by} has another filter")


# --- Landlock -----------------------------------------------------------------------------------------------------

READ_FILE, READ_DIR, WRITE_FILE = 1 << 2, 1 << 3, 1 << 1
_REMOVE, _MAKE_DIR_REG, _MAKE_SYM, _REFER, _TRUNCATE = 0b11 << 4, 1 << 7 | 1 << 8, 1 << 12, 1 << 13, 1 << 14
_SINCE = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}  # file rights by the ABI that introduced them
_ALL_NET, _ALL_SCOPES = 0b11, 0b11
CHANGE_FILES = READ_FILE | READ_DIR | WRITE_FILE | _REMOVE | _MAKE_DIR_REG | _MAKE_SYM | _REFER | _TRUNCATE


def landlock_abi() -> int:
    """The kernel's Landlock version. Raises OSError without Landlock."""
    return _syscall("landlock_create_ruleset", _LANDLOCK_CREATE, None, 0, 1)


def restrict_files(rights: dict[str, int]) -> None:
    """Allow only these rights below these paths; no TCP, and no signals or abstract sockets to other processes.

    A rule applies to the file that is at its path now, so mount first.
    """
    abi = landlock_abi()
    handled = sum(bits for since, bits in _SINCE.items() if since <= abi)
    attributes = struct.pack("<Q", handled)
    if abi >= 4:
        attributes += struct.pack("<Q", _ALL_NET)
    if abi >= 6:
        attributes += struct.pack("<Q", _ALL_SCOPES)
    ruleset = _syscall("landlock_create_ruleset", _LANDLOCK_CREATE, attributes, len(attributes), 0)
    try:
        for path, bits in rights.items():
            parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                if not os.path.isdir(path):
                    bits &= READ_FILE | WRITE_FILE | _TRUNCATE
                rule = struct.pack("<Qi", bits & handled, parent)
                _syscall("landlock_add_rule", _LANDLOCK_ADD, ruleset, 1, rule, 0)
            finally:
                os.close(parent)
        _syscall("landlock_restrict_self", _LANDLOCK_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)
