"""The confinement of a worker process: the rights that it gives up before it reads untrusted data.

A worker parses data of models, clients, traces and files with code that may have bugs. By then, it has opened the
files of its job. From then on, the kernel lets it read only Python, its packages and this package, and write only to
the descriptors that it has.

| layer | effect |
|---|---|
| own user | if the parent is root: an unused user id, which owns no files and no processes; else the user stays |
| rights | no capabilities (except to read Python, if only root may), no way to gain privileges, not inspectable |
| Landlock | reads only below the directories of Python and of this package; no TCP, no signals to other processes |
| seccomp | the system calls of a guest: no sockets, no processes, no changes of files; without Landlock also no paths |

A layer that this system lacks is left out: macOS and Windows have none of them. `coc doctor` names missing layers.
Standard library only, for start-up time.
"""

from __future__ import annotations

import errno
import os
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # for start-up time
    from collections.abc import Iterable

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo")
# System calls refused to a process that starts guests, on x86_64 and on aarch64. It may create UNIX sockets only.
_REFUSED = {
    "connect": (42, 203), "bind": (49, 200), "listen": (50, 201), "ptrace": (101, 117), "kcmp": (312, 272),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438), "bpf": (321, 280),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "init_module": (175, 105), "finit_module": (313, 273),
}  # fmt: skip
# The capabilities with which root builds the tiers: CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, KILL, SETGID,
# SETUID, SETPCAP, SYS_CHROOT, SYS_ADMIN, SYS_NICE, SYS_RESOURCE, SETFCAP.
_TO_BUILD_TIERS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 18, 21, 23, 24, 31)
_SOCKET, _AF_UNIX = (41, 198), 1
_AUDIT_ARCHITECTURES, _X32 = (0xC000003E, 0xC00000B7), 0x3FFFFFFF
_LOAD, _JUMP_EQUAL, _JUMP_ABOVE, _RETURN = 0x20, 0x15, 0x25, 0x06
_ARCHITECTURE, _FIRST_ARGUMENT = 4, 16
_ALLOW, _DENY, _KILL_PROCESS = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
_FIRST_UID = 1_800_000_000  # not the user ids of guests


def confine_worker(readable: Iterable[str] = ()) -> dict[str, str]:
    """Give up the rights of this process irrevocably; `readable` are further paths that it reads.

    Return the layers that this system lacks, and why. Raises OSError if it cannot tell, as without /proc.
    """
    if sys.platform != "linux":
        return dict.fromkeys(("Landlock", "seccomp"), "needs Linux")
    from . import kernel, seccomp

    missing: dict[str, str] = {}
    is_alone = len(os.listdir("/proc/self/task")) == 1  # Landlock confines only the thread that calls it
    paths = [path for path in dict.fromkeys((*_python_paths(), *readable)) if os.path.exists(path)]
    kept = _leave_root(paths, missing) if os.geteuid() == 0 else 0
    kernel.drop_capabilities(but=kept)
    kernel.set_dumpable(False)
    kernel.set_no_new_privileges()
    has_landlock = _restrict_files(paths, missing)
    if kept and not has_landlock:
        kernel.drop_capabilities()
    if seccomp.is_supported():
        _restrict_calls(seccomp.assemble(os.getpid(), paths=has_landlock and is_alone, changes=False), missing)
    else:
        missing["seccomp"] = f"no list of system calls for {kernel.MACHINE} processors"
    return missing


def main() -> None:
    """Confine this process, and print what this system lacks as JSON: a check for `coc doctor`."""
    import json

    try:
        print(json.dumps(confine_worker()))
    except OSError as error:
        sys.exit(explain_failure(error))


def explain_failure(error: OSError) -> str:
    """Return why a worker did not begin: what its confinement could not do."""
    where = f": {error.filename}" if error.filename else ""
    return f"a worker process could not give up its rights: {error.strerror or error}{where}"


def can_import_later() -> bool:
    """Whether a confined worker can still open the files of Python and of its packages: not without Landlock."""
    if sys.platform != "linux":
        return True
    from . import kernel

    try:
        return kernel.landlock_abi() > 0
    except OSError:
        return False


def _python_paths() -> list[str]:
    """The directories of Python, its packages and this package."""
    library = os.path.dirname(os.__file__)
    packages = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    return [library, os.path.join(sys.base_prefix, "lib"), *packages, _PACKAGE, *_SYSTEM]


def _leave_root(paths: list[str], missing: dict[str, str]) -> int:
    """Become an unused user. Return the capability to read all files if only root may read Python."""
    from . import kernel

    uid = kernel.find_unused_uid(_FIRST_UID + os.getpid())
    private = next((path for path in paths if not _is_public(path)), "")
    kept = kernel.CAP_READ_FILES & kernel.capabilities() if private else 0
    if not uid:
        missing["own user"] = "this user namespace has no other user"
    elif private and not kept:
        missing["own user"] = f"only root may read {private}"
    else:
        try:
            kernel.change_user(uid, keeps_capabilities=True)
            return kept
        except OSError as error:
            missing["own user"] = str(error.strerror)
    return 0


def _is_public(path: str) -> bool:
    """Whether all users may read a file or a directory, as far as its mode and those of its parents say."""
    real = os.path.realpath(path)
    if not os.stat(real).st_mode & 0o4:
        return False
    while real != "/":
        real = os.path.dirname(real)
        if not os.stat(real).st_mode & 0o1:
            return False
    return True


def _restrict_files(paths: list[str], missing: dict[str, str]) -> bool:
    from . import kernel

    rights = dict.fromkeys(paths, kernel.READ_FILE | kernel.READ_DIR)
    try:
        kernel.restrict_files(rights)
    except OSError as error:
        missing["Landlock"] = str(error.strerror)
        return False
    return True


def _restrict_calls(code: bytes, missing: dict[str, str]) -> None:
    from . import kernel

    try:
        kernel.install_filter_everywhere(code)
    except OSError:
        try:
            kernel.install_filter(code)  # an older call, for this thread
        except OSError as error:
            missing["seccomp"] = str(error.strerror)


def hide_from_others() -> None:
    """Keep other processes of this user from reading the memory, the environment and the files of this one.

    For processes that hold keys, because their children may turn hostile. Root can still read them. The kernel writes
    no core dumps of them. Programs that this process executes are not hidden.
    """
    if sys.platform == "linux":
        from . import kernel

        kernel.set_dumpable(False)


def confine_host() -> dict[str, str]:
    """Give up the rights that a process does not need to start guests. Return what this system lacks, and why.

    It keeps its user and its files, which a zygote inherits and needs to build the tiers. It cannot open a connection,
    inspect other processes, gain privileges, or be inspected. Not covered: root keeps the capability SYS_ADMIN, with
    which recent kernels let it read other processes.
    """
    if sys.platform != "linux":
        return {"seccomp": "needs Linux"}
    from . import kernel, seccomp

    missing: dict[str, str] = {}
    kernel.keep_capabilities(sum(1 << number for number in _TO_BUILD_TIERS))
    kernel.set_dumpable(False)
    kernel.set_no_new_privileges()
    if seccomp.is_supported():
        _restrict_calls(_build_filter(("x86_64", "aarch64").index(kernel.MACHINE)), missing)
    else:
        missing["seccomp"] = f"no list of system calls for {kernel.MACHINE} processors"
    return missing


def _build_filter(column: int) -> bytes:
    """A filter that refuses a few calls; zygotes inherit it, and refuse more."""
    code = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_JUMP_EQUAL, _AUDIT_ARCHITECTURES[column], 1, 0),
        _step(_RETURN, _KILL_PROCESS),
        _step(_LOAD, 0),
        *([_step(_JUMP_ABOVE, _X32, 0, 1), _step(_RETURN, _DENY)] if column == 0 else []),
    ]
    for numbers in _REFUSED.values():
        code += [_step(_JUMP_EQUAL, numbers[column], 0, 1), _step(_RETURN, _DENY)]
    family = [_step(_LOAD, _FIRST_ARGUMENT), _step(_JUMP_EQUAL, _AF_UNIX, 1, 0), _step(_RETURN, _DENY)]
    code += [_step(_JUMP_EQUAL, _SOCKET[column], 0, len(family)), *family]
    return b"".join([*code, _step(_RETURN, _ALLOW)])


def _step(code: int, k: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, k)
