"""The directory of a server belongs to its user, and no other user can read it."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from forked import COC
from serving import served

if sys.platform == "win32":
    pytest.skip("directories have no owners and modes as on POSIX", allow_module_level=True)
pytest.importorskip("starlette", reason="the extra `server` is not installed")

from chainofcode.errors import InputError
from chainofcode.server import data_directory
from chainofcode.server.sqlite_store import SQLiteStore

STRANGER = 12_345
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


def serve(directory: Path) -> subprocess.CompletedProcess[str]:
    command = [*COC, "serve", "--port", "0", "--model", "scripted:none", "--data", str(directory)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_existing_directory_becomes_private(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for path in (data, data / "traces", data / "files"):
        path.mkdir()
        path.chmod(0o755)
    with served(tmp_path) as server:
        server.client.post("/api/files", params={"name": "a.csv"}, content=b"x").raise_for_status()
        server.over(server.begin())
        paths = [data, *data.rglob("*")]
        open_to_others = [f"{path.relative_to(data)} {mode(path)}" for path in paths if path.stat().st_mode & 0o077]
        assert {path.name for path in paths} >= {"runs.sqlite", "a.csv", "traces", "artifacts"}
        assert open_to_others == []


def test_directory_that_is_group_writable_becomes_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o2775)
    with contextlib.closing(SQLiteStore(tmp_path)):
        assert mode(tmp_path) == "0o700"


@as_root
@pytest.mark.parametrize("part", ["", "traces", "artifacts"])
def test_directory_of_another_user_is_refused(tmp_path: Path, part: str) -> None:
    data = tmp_path / "data"
    (data / part).mkdir(parents=True)
    os.chown(data / part, STRANGER, STRANGER)
    done = serve(data)
    expected = f"coc: {data / part} belongs to another user (user id {STRANGER}); name another directory"
    assert done.returncode == 2 and done.stderr.startswith(expected), done.stderr
    assert not (data / "runs.sqlite").exists()


@as_root
def test_tokens_of_another_user_are_not_read(tmp_path: Path) -> None:
    """The owner of the directory could add tokens, so the server refuses it before it reads them."""
    (tmp_path / "tokens.json").write_text("not a list of tokens")
    os.chown(tmp_path, STRANGER, STRANGER)
    assert "belongs to another user" in serve(tmp_path).stderr


@as_root
def test_link_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir(mode=0o755)
    link = tmp_path / "data"
    link.symlink_to(tmp_path / "own")
    os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
    with pytest.raises(InputError, match=rf"data is a link that belongs to another user \(user id {STRANGER}\)"):
        data_directory.make_private(link)
    assert mode(tmp_path / "own") == "0o755"


@as_root
def test_link_to_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "foreign").mkdir(mode=0o755)
    os.chown(tmp_path / "foreign", STRANGER, STRANGER)
    link = tmp_path / "data"
    link.symlink_to(tmp_path / "foreign")
    with pytest.raises(InputError, match="data belongs to another user"):
        data_directory.make_private(link)
    assert mode(tmp_path / "foreign") == "0o755"


def test_own_link_is_followed(tmp_path: Path) -> None:
    """The data may be on another disk."""
    (tmp_path / "disk").mkdir(mode=0o755)
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    with contextlib.closing(SQLiteStore(tmp_path / "data")):
        assert mode(tmp_path / "disk") == "0o700"


@pytest.mark.parametrize("kind", ["file", "link"])
def test_path_that_is_not_a_directory_is_refused(tmp_path: Path, kind: str) -> None:
    data = tmp_path / "data"
    if kind == "file":
        data.write_bytes(b"")
    else:
        data.symlink_to(tmp_path / "nothing")
    with pytest.raises(InputError, match="cannot use"):
        data_directory.make_private(data)


@as_root
def test_copies_of_a_shared_store_are_private(tmp_path: Path) -> None:
    """The directory is checked before the database is opened."""
    os.chown(tmp_path, STRANGER, STRANGER)
    command = [*COC, "serve", "--port", "0", "--model", "scripted:none", "--data", str(tmp_path)]
    command += ["--store", "postgresql://coc@127.0.0.1:1/none", "--objects", str(tmp_path / "objects")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "belongs to another user" in done.stderr, done.stderr
