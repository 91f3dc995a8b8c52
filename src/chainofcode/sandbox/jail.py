"""The sandbox of a guest: layers in the kernel that take its rights away before it receives a program.

| tier | layers | where it works |
|---|---|---|
| A | user, mount, pid, net, ipc, uts, cgroup namespaces; an empty read-only root; Landlock; seccomp; rlimits | Linux |
| A- | as A, without Landlock | Linux without Landlock |
| B | Landlock, seccomp, rlimits | containers with default settings, systems without unprivileged user namespaces |
| C | seccomp without any call that takes a path, rlimits; modules imported in advance | no Landlock either |

Covered in every tier: only granted files can be opened, only files in the scratch directory can be written; no sockets
except connected pairs within the process; no new processes, no signals to others, no execution of programs; limits on
memory, CPU, threads, file size and descriptors; never the user root; no capabilities (except one in `_leave_root`) and
no way to gain them; nothing of the host's environment. Covered in tiers A and A-: files that are not granted do not
exist; tier B shows their names and sizes. Not covered: bugs of the kernel, its version, side channels (timing, load,
caches), what the guest reports about its own run. In tiers B and C, the host's name, the user id and the working
directory are visible.

Standard library only: this runs in the zygote and in its children.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Callable

from . import kernel, seccomp
from .cgroup_limits import find_limit_files
from .tiers import NAMESPACED, WORK

KEPT = "/.kept"  # for files that packages write while they are imported; read-only afterwards
CANARY = "/.canary"  # an empty file that only Landlock protects
HOST_NAME = "guest"
_NEW_ROOT = "/sys"  # where the new root is built; grants cannot be there
_NAMESPACES = kernel.NEWNS | kernel.NEWIPC | kernel.NEWUTS | kernel.NEWNET | kernel.NEWCGROUP
_READ_ONLY = kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV
_ROOT_BYTES, _COVER_BYTES = 64 << 20, 4096
_MAX_DESCRIPTORS = 128  # with epoll, the memory that the kernel holds for them grows with the third power
_FIRST_UID = 1_900_000_000
_READ = kernel.READ_FILE | kernel.READ_DIR
_NULL = {"/dev/null": kernel.READ_FILE | kernel.WRITE_FILE}


class Wall:
    """The layers of one tier. A zygote enters the outer ones, then each guest the rest.

    `runtime` and `granted` are the paths that a guest may read, except for `foreign` files below them; `hidden` are
    directories in `runtime` that tier A hides; `links` are names in the working directory and their targets.
    `directory` is a descriptor of the host's working directory, which tiers B and C share. With `locks`, locks of files
    succeed and do nothing.
    """

    def __init__(
        self,
        tier: str,
        *,
        runtime: list[str],
        hidden: list[str],
        granted: list[str],
        foreign: list[str],
        links: dict[str, str],
        directory: int,
        locks: bool = False,
    ) -> None:
        if not seccomp.is_supported():
            raise OSError(0, f"seccomp: no list of system calls for {kernel.MACHINE} processors")
        self.tier = tier
        self.has_namespaces = tier in NAMESPACED
        self.missing: dict[str, str] = {}  # layers that this kernel lacks, and why
        self.shown = [os.path.realpath(path) for path in (*runtime, *granted) if os.path.exists(path)]
        self._foreign = foreign
        self._runtime, self._hidden, self._granted, self._links = runtime, hidden, granted, links
        self._directory, self._locks = directory, locks
        self._uid, self._uids = 0, 1  # the first user id for guests, and how many; 0 if guests keep the user
        self.capabilities = 0  # those that guests keep
        self._own_pids: int | None = None
        self._rights: dict[str, int] | None = None
        self._proc = os.open("/proc", os.O_PATH | os.O_CLOEXEC) if self.has_namespaces else -1
        self.counts_processes = False  # whether a limit on processes counts only those of one guest
        self.has_landlock = tier in ("A", "B") and self._find_landlock()
        if tier == "A-":
            self.missing["Landlock"] = "not used in this tier"

    def _find_landlock(self) -> bool:
        abi = kernel.landlock_abi()
        if abi < 6:
            new = {2: "moving files", 3: "truncation", 4: "TCP", 5: "devices", 6: "signals and abstract sockets"}
            lacks = ", ".join(what for since, what in new.items() if since > abi)
            self.missing["Landlock"] = f"version {abi} of 6: no rules for {lacks}"
        return True

    # --- in the zygote ----------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Leave the host's namespaces. Then the caller forks, and calls `settle` in the child."""
        if self.has_namespaces:
            os.close(self._directory)
            is_exempt = os.getuid() == 0  # the kernel does not count processes of real root
            unused_uid = kernel.find_unused_uid(_FIRST_UID + os.getpid())
            is_root = self._leave_namespaces(as_root=os.geteuid() == 0 and unused_uid > 0)
            self._build_root(self._roots_files_for(unused_uid) if is_root else None)
            kernel.sethostname(HOST_NAME.encode())
            if is_root:
                self._become(unused_uid)
            self.counts_processes = is_root or not is_exempt
            kernel.unshare(kernel.NEWPID)
        elif os.geteuid() == 0:
            self._leave_root()

    def settle(self) -> None:
        """Prepare the pid namespaces of guests, and the paths that they may read."""
        if self.has_namespaces:
            self._own_pids = os.open("self/ns/pid", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
            os.close(self._proc)
        if self.has_landlock:
            own = [KEPT, WORK] if self.has_namespaces else []
            self._rights = dict.fromkeys(own, _READ)
            for path in self.shown:  # with namespaces, foreign files are covered already
                self._rights |= _rights_without(path, [] if self.has_namespaces else self._foreign)
            self._rights |= _NULL

    def seal(self) -> None:
        """After the imports: make `KEPT` read-only; in tiers B and C, enter the host's working directory."""
        if self.has_namespaces:
            kernel.restrict_mount(KEPT, _READ_ONLY)
        else:
            os.fchdir(self._directory)
            os.close(self._directory)

    def _leave_namespaces(self, *, as_root: bool) -> bool:
        """Unshare namespaces. Return whether this worked as root, without a user namespace."""
        if as_root:
            with contextlib.suppress(PermissionError):
                kernel.unshare(_NAMESPACES)
                return True
            self._become_unprivileged()
        uid, gid = os.geteuid(), os.getegid()
        kernel.unshare(_NAMESPACES | kernel.NEWUSER)
        self._map_ids(uid, gid)
        return False

    def _become(self, uid: int) -> None:
        """Become an unused user with its own user namespace, because limits on processes do not apply to real root."""
        kernel.become(uid)
        kernel.unshare(kernel.NEWUSER | kernel.NEWNS)
        self._map_ids(uid, uid)

    def _roots_files_for(self, uid: int) -> int:
        """Open a user namespace that maps root to that user: granted files of root then belong to the user."""
        ready, go = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(ready)
            kernel.unshare(kernel.NEWUSER)
            os.write(go, b"!")
            signal.pause()
        os.close(go)
        try:
            if not os.read(ready, 1):
                raise OSError(0, "unshare: no user namespace for root")
            self._map_ids(uid, uid, str(child))
            return os.open(f"{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        finally:
            os.close(ready)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def _map_ids(self, uid: int, gid: int, process: str = "self") -> None:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            fd = os.open(f"{process}/{name}", os.O_WRONLY, dir_fd=self._proc)
            try:
                os.write(fd, text.encode())
            finally:
                os.close(fd)

    def _become_unprivileged(self) -> None:
        """Continue as an ordinary user, because root cannot create namespaces here, and guests must not run as root."""
        uid = kernel.find_unused_uid(_FIRST_UID + os.getpid())
        unreadable = self._unreadable_for(uid)
        if unreadable:
            kernel.unshare(kernel.NEWUSER)  # if this fails, its error is the reason to report
            raise OSError(0, f"guests never run as root, and only root may read {unreadable}")
        kernel.change_user(uid)

    def _leave_root(self) -> None:
        """In tiers B and C, if the host runs as root: choose other users for the guests.

        If only root may read something that guests must read, they keep the capability to read all files; Landlock
        limits which files they can open.
        """
        unused_uid = kernel.find_unused_uid(_FIRST_UID + os.getpid())
        if not unused_uid:
            raise OSError(0, "guests never run as root, and this user namespace has no other user")
        if unused_uid != kernel.NOBODY:
            self._uid, self._uids = _FIRST_UID + os.getpid() % 500_000 * 1000, 1000
            self.counts_processes = True
        else:
            self._uid = kernel.NOBODY
        unreadable = self._unreadable_for(self._uid)
        if unreadable and not kernel.capabilities() & kernel.CAP_READ_FILES:
            raise OSError(0, f"guests never run as root, and only root may read {unreadable}")
        if unreadable:
            self.capabilities = kernel.CAP_READ_FILES

    def _unreadable_for(self, uid: int) -> str:
        """The first path that guests must read but this user cannot. Raises OSError if root cannot become this user."""
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                kernel.change_user(uid)
                for path in self.shown if self.tier != "C" else ():
                    if not os.access(path, os.R_OK | (os.X_OK if os.path.isdir(path) else 0)):
                        os.write(write_end, os.fsencode(path))
                        break
                os._exit(0)
            finally:
                os._exit(1)
        os.close(write_end)
        with os.fdopen(read_end, "rb") as file:
            path = os.fsdecode(file.read())
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
            raise OSError(0, "guests never run as root, and root may not change its user here")
        return path

    # --- an empty root ----------------------------------------------------------------------------------------------

    def _build_root(self, owners: int | None) -> None:
        kernel.make_mounts_private()
        kernel.mount_tmpfs(_NEW_ROOT, _ROOT_BYTES, 0o755)
        os.close(os.open(_NEW_ROOT + CANARY, os.O_CREAT | os.O_WRONLY, 0o444))
        self._show_paths(owners)
        self._cover_foreign()
        _show("/dev/null", kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NOEXEC)
        os.makedirs(_NEW_ROOT + WORK, exist_ok=True)
        for name, target in self._links.items():
            _link(_NEW_ROOT + WORK, name, target)
        os.makedirs(_NEW_ROOT + KEPT)
        kernel.mount_tmpfs(_NEW_ROOT + KEPT, _ROOT_BYTES, 0o1777)
        kernel.restrict_mount(_NEW_ROOT, _READ_ONLY)
        kernel.pivot_root(_NEW_ROOT)

    def _show_paths(self, owners: int | None) -> None:
        """Bind the runtime, with hidden directories covered, then granted paths; parents before their contents."""
        shown: list[str] = []
        covers: list[str] = []
        for path in [*sorted(self._runtime, key=len), *sorted(self._granted, key=len)]:
            real = os.path.realpath(path)
            _copy_links(path)
            closest = max((p for p in [*shown, *covers] if _is_below(real, p)), key=len, default="")
            if not os.path.exists(real) or (closest and closest not in covers):
                continue
            _show(real, _READ_ONLY, owners)
            shown.append(real)
            if path in self._runtime:
                covers += self._cover_hidden(real, covers)
        for cover in covers:
            if cover not in shown:  # otherwise a granted path is mounted on top
                kernel.restrict_mount(_NEW_ROOT + cover, _READ_ONLY)

    def _cover_hidden(self, directory: str, covered: list[str]) -> list[str]:
        """Cover the hidden directories below a shown one. Return the new covers."""
        inside = [path for path in map(os.path.realpath, self._hidden) if _is_below(path, directory)]
        covers = [path for path in dict.fromkeys(inside) if path not in covered and os.path.isdir(path)]
        for cover in covers:
            kernel.mount_tmpfs(_NEW_ROOT + cover, _ROOT_BYTES, 0o755)
        return covers

    def _cover_foreign(self) -> None:
        """Mount empty files and directories over those below the grants that no grant covers."""
        for place in (_NEW_ROOT + path for path in self._foreign):
            if os.path.isdir(place):
                kernel.mount_tmpfs(place, _COVER_BYTES, 0o755)
                kernel.restrict_mount(place, _READ_ONLY)
            elif os.path.exists(place):  # otherwise another mount hides it
                kernel.bind(_NEW_ROOT + CANARY, place, _READ_ONLY)

    # --- in a guest -------------------------------------------------------------------------------------------------

    def fork(self) -> int:
        """Fork; with namespaces, the child is alone in a pid namespace."""
        if self._own_pids is None:
            return os.fork()
        kernel.unshare(kernel.NEWPID)
        child = -1
        try:
            child = os.fork()
            return child
        finally:
            if child != 0:
                kernel.setns(self._own_pids, kernel.NEWPID)

    def close_in(self, scratch_bytes: int, number: int, look: Callable[[str], None] = lambda stage: None) -> None:
        """In a guest, before it gets a program: drop all rights irrevocably. `look` is called between the layers."""
        kernel.die_with_parent()
        if self.has_namespaces:
            if scratch_bytes:  # in its own mount namespace: other programs do not see it
                kernel.unshare(kernel.NEWNS)
                kernel.mount_tmpfs(WORK, scratch_bytes, 0o700)
                for name, target in self._links.items():
                    _link(WORK, name, target)
            kernel.unshare(kernel.NEWUSER)  # processes are counted by user and namespace
        elif self._uid:
            kernel.change_user(self._uid + number % self._uids, keeps_capabilities=self.capabilities > 0)
            kernel.die_with_parent()  # again: a change of user resets it
        if self.has_namespaces:
            os.chdir(WORK)
        for which, most in limits(scratch_bytes):
            resource.setrlimit(which, (most, most))
        kernel.drop_capabilities(but=self.capabilities)
        kernel.set_dumpable(False)
        kernel.set_no_new_privileges()
        look("rights")
        if self._rights is not None:
            scratch = {WORK: kernel.CHANGE_FILES} if scratch_bytes else {}
            own = dict.fromkeys(find_limit_files() if self._locks and not self.has_namespaces else [], kernel.READ_FILE)
            kernel.restrict_files({**self._rights, **own, **scratch})
        look("files")
        paths = self.tier != "C"
        kernel.install_filter(seccomp.assemble(os.getpid(), paths=paths, changes=scratch_bytes > 0, locks=self._locks))


def limits(scratch_bytes: int) -> list[tuple[int, int]]:
    """The limits that all programs share, never above the current ones. The limits of a job come with the job."""
    found = []
    for which, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, scratch_bytes),
        (resource.RLIMIT_NOFILE, _MAX_DESCRIPTORS),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_SIGPENDING, 64),
    ):
        hard = resource.getrlimit(which)[1]
        found.append((which, most if hard == resource.RLIM_INFINITY else min(most, hard)))
    return found


def _rights_without(path: str, foreign: list[str]) -> dict[str, int]:
    """Landlock's rules for reading below a path, except for foreign files."""
    if not any(_is_below(other, path) for other in foreign):
        return {path: _READ}
    rights = {path: kernel.READ_DIR} if path not in foreign else {}
    if path in rights and os.path.isdir(path):
        with os.scandir(path) as listed:
            for entry in listed:
                if not entry.is_symlink():  # a link needs no right; its target has its own
                    rights |= _rights_without(entry.path, foreign)
    return rights


def _show(real: str, flags: int, owners: int | None = None) -> None:
    """Bind a file or directory of the host into the new root, at the same path."""
    target = _NEW_ROOT + real
    if os.path.isdir(real):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o444))
    kernel.bind(real, target, flags, owners)


def _copy_links(path: str) -> None:
    """Copy the symbolic links on the way to a path into the new root."""
    done = "/"
    for part in path.strip("/").split("/"):
        here = os.path.join(done, part)
        done = os.path.realpath(here)
        if os.path.islink(here) and not os.path.lexists(_NEW_ROOT + here):
            with contextlib.suppress(OSError):  # below a read-only bind, which already has the link
                os.makedirs(os.path.dirname(_NEW_ROOT + here), exist_ok=True)
                os.symlink(done, _NEW_ROOT + here)


def _link(directory: str, name: str, target: str) -> None:
    place = os.path.join(directory, name)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    os.symlink(target, place)


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")
