"""Files that a user names: endless devices, stalled pipes, file names that are not UTF-8; and closed standard streams."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from test_cli import coc

from chainofcode.platforms import read_whole

READERS = {
    "a program": ["run", "{}"],
    "values": ["run", "p.py", "--values", "{}"],
    "tools": ["run", "p.py", "--openapi", "{}"],
    "an edited program": ["replay", "t.jsonl", "--edit", "{}"],
    "a script": ["ask", "x", "--model", "scripted:{}"],
    "a schema": ["ask", "x", "--model", "scripted:s.jsonl", "--type", "{}.json"],
    "replies": ["score", "{}"],
    "a trace to show": ["show", "{}"],
    "a trace to check": ["verify", "{}"],
    "a trace to continue": ["resume", "{}"],
    "a file": ["run", "p.py", "--file", "{}"],
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("files")
    (tmp_path / "p.py").write_text("answer = 1\n")
    (tmp_path / "s.jsonl").write_text('"answer = 1"\n')
    assert coc("run", "p.py", "--trace", "t.jsonl", cwd=tmp_path).returncode == 0
    (tmp_path / "endless").symlink_to("/dev/zero")
    (tmp_path / "endless.json").symlink_to("/dev/zero")
    (tmp_path / "huge").touch()
    os.truncate(tmp_path / "huge", 1 << 40)
    (tmp_path / "huge.json").symlink_to("huge")
    return tmp_path


@pytest.mark.parametrize("name", ["endless", "huge"])
@pytest.mark.parametrize("command", READERS.values(), ids=READERS)
def test_endless_and_huge_files_are_refused(directory: Path, command: list[str], name: str) -> None:
    done = coc(*(word.replace("{}", name) for word in command), cwd=directory)
    assert done.returncode == 2
    assert "bytes" in done.stderr or "not a regular file" in done.stderr
    assert done.stderr.startswith("coc: ")
    assert done.stderr.count("\n") == 1


def test_a_pipe_is_read_and_times_out_without_a_writer(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"x" * 3_000_000,))
    writer.start()
    assert len(read_whole(pipe)) == 3_000_000
    writer.join()
    with pytest.raises(OSError, match=r"no data from the pipe for 0\.1 seconds"):
        read_whole(pipe, silent_seconds=0.1)


def test_number_of_files_is_limited(directory: Path) -> None:
    """Each file would be inspected in its own process."""
    done = coc("run", "p.py", *["--file", "p.py"] * 1_000, cwd=directory)
    assert done.returncode == 2
    assert done.stderr == "coc: 1,000 files given; the limit is 100 (--allow-read grants directories)\n"


@pytest.mark.parametrize("name", ["", ".", "/"])
def test_a_trace_without_a_name(directory: Path, name: str) -> None:
    done = coc("resume", name, cwd=directory)
    assert (done.returncode, done.stderr) == (2, f"coc: cannot read {name or '.'}: Is a directory\n")


def test_a_file_name_that_is_not_utf8(directory: Path) -> None:
    name = os.fsdecode(b"n\xe4me.csv")
    (directory / name).write_text("a\n1\n")
    done = coc("run", "p.py", "--file", name, cwd=directory)
    assert (done.returncode, done.stderr) == (
        2,
        "coc: cannot read n\\udce4me.csv: its name is not valid UTF-8; rename the file\n",
    )


def test_messages_are_short(directory: Path) -> None:
    """An error may quote a file of any size."""
    (directory / "long").write_text('{"event":"' + "x" * 1_000_000 + '"}\n')
    done = coc("show", "long", cwd=directory)
    assert done.returncode == 2
    assert len(done.stderr) < 3000
    done = coc("run", "p.py", "--clock", "9" * 50_000, cwd=directory)
    assert done.returncode == 2
    assert len(done.stderr) < 3000


@pytest.mark.parametrize(
    ("command", "code"),
    [("run - <&-", 1), ("show no-such-trace 2>&-", 2), ("run p.py >&-", 2), ("run p.py 2>&- <&-", 0)],
)
def test_closed_streams_cause_no_traceback(directory: Path, command: str, code: int) -> None:
    done = subprocess.run(
        f"{sys.executable} -m chainofcode {command}", shell=True, cwd=directory, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
