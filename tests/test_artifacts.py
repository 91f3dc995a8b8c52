"""Files that programs leave in their scratch directories: returned, bounded, and written only where they may be."""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from conftest import has_tier
from test_ask import in_terminal
from test_cli import coc

from chainofcode import Limits, Result, SandboxError, ScriptedLM, Trace, run, solve
from chainofcode.cli import artifact_output as artifacts
from chainofcode.errors import InputError
from chainofcode.languages.guest.scratch import MAX_BYTES, MAX_FILE_BYTES, MAX_FILES
from chainofcode.methods import compose
from chainofcode.sandbox.artifacts import is_name
from chainofcode.sandbox.frames import FrameError, Reader, encode

pytestmark = pytest.mark.skipif(not has_tier("A"), reason="a scratch directory needs tier A of the sandbox")


def run_in_scratch(program: str, **options: Any) -> Result:
    return run(program, scratch=True, **options)


def unsent(result: Result) -> tuple[str, ...]:
    assert result.trace.answer is not None
    return result.trace.answer.unsent


def test_files_are_returned(tmp_path: Path) -> None:
    result = run_in_scratch("""
import os
os.makedirs('plots/old')
open('plots/old/a.txt', 'w').write('ä')
open('data.bin', 'wb').write(bytes(range(256)) * 4000)
open('empty', 'w').close()
os.chdir('/')
answer = 1
""")
    assert result.answer == 1
    assert result.artifacts == {
        "data.bin": bytes(range(256)) * 4000, "empty": b"", "plots/old/a.txt": "ä".encode(),
    }  # fmt: skip
    result.trace.write(tmp_path / "t.jsonl")
    answer = Trace.read(tmp_path / "t.jsonl").answer
    assert answer is not None
    assert [(file.name, file.bytes) for file in answer.artifacts] == [
        ("data.bin", 1_024_000), ("empty", 0), ("plots/old/a.txt", 2),
    ]  # fmt: skip
    assert answer.artifacts[1].sha256 == hashlib.sha256(b"").hexdigest()
    assert "data.bin" not in str(run_in_scratch("answer = 2").artifacts)


def test_failed_program_leaves_files() -> None:
    result = run_in_scratch("open('x', 'w').write('half')\n1 / 0")
    assert result.reason == "error"
    assert result.artifacts == {"x": b"half"}
    assert not run_in_scratch("open('x', 'w').write('half')\nimport os\nos._exit(3)").artifacts


def test_no_files_without_scratch_directory() -> None:
    assert not run("answer = 1").artifacts
    with pytest.raises(SandboxError, match="no scratch directory"):
        run("answer = 1", scratch=True, sandbox="none")
    if has_tier("B"):
        with pytest.raises(SandboxError, match="needs tier A"):
            run("answer = 1", scratch=True, sandbox="B")


def test_figures_are_drawn_without_a_window() -> None:
    program = """
import matplotlib
import matplotlib.pyplot as plt
plt.plot([1, 2, 4])
plt.show()
plt.savefig('plot.png')
plt.savefig('plot.svg')
answer = matplotlib.get_backend()
"""
    result = run_in_scratch(program, packages=["matplotlib"])
    assert result.answer.lower() == "agg", result
    assert list(result.artifacts) == ["plot.png", "plot.svg"]
    assert result.artifacts["plot.png"].startswith(b"\x89PNG")
    assert run_in_scratch(program, packages=["matplotlib"]).artifacts["plot.png"] == result.artifacts["plot.png"]


def test_files_of_a_question() -> None:
    lm = ScriptedLM(["open('a.txt', 'w').write('no')\nanswer = 1 / 0", "open('b.txt', 'w').write('yes')\nanswer = 1"])
    result = solve("What?", lm, scratch=True, method=compose(repairs=1))
    assert result.artifacts == {"b.txt": b"yes"}  # only those of the program that answered
    assert "working directory are kept" in lm.requests[0][-1].content
    replies = [f"open('a.txt', 'w').write('{n}')\nanswer = len('ab') + {n // 2}" for n in range(3)]
    result = solve("What?", ScriptedLM(replies), scratch=True, method=compose(votes=3))
    assert result.answer == 2 and result.artifacts == {"a.txt": b"0"}


# --- bounds -------------------------------------------------------------------------------------------------------


def test_links_and_hidden_files_are_not_returned(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("granted, not written")
    result = run_in_scratch(
        """
import os
os.symlink('/etc/passwd', 'passwd')
os.symlink('/proc/self/environ', 'environ')
os.symlink('.', 'loop')
os.symlink(path, 'granted')
open('.hidden', 'w').write('x')
os.mkdir('.git'); open('.git/config', 'w').write('x')
try: os.mkfifo('fifo')
except OSError: pass
answer = 1
""",
        reads=[str(tmp_path / "secret.txt")],
        inputs={"path": str(tmp_path / "secret.txt")},
    )
    assert result.reason == "answered", result
    assert not result.artifacts and not unsent(result)


def test_unreadable_files_do_not_block_others() -> None:
    program = """
import os
os.mkdir('shut')
for name in ('a', 'shut/b', 'z'):
    open(name, 'w').write(name)
os.chmod('a', 0); os.chmod('shut', 0)
answer = 1
"""
    result = run_in_scratch(program)
    assert result.artifacts == {"z": b"z"}
    assert sorted(unsent(result)) == ["a: Permission denied", "shut: Permission denied"]


def test_large_files_are_not_returned() -> None:
    result = run_in_scratch(f"""
open('huge', 'wb').truncate({MAX_FILE_BYTES + 1})
for n in range(7): open(f'part{{n}}', 'wb').truncate({MAX_FILE_BYTES})
answer = 1
""")
    assert list(result.artifacts) == ["part0", "part1", "part2", "part3"]
    assert sum(map(len, result.artifacts.values())) == MAX_BYTES
    assert unsent(result)[0] == "huge: 8,388,609 bytes; the limit is 8,388,608"
    assert "over 33,554,432 bytes in all" in unsent(result)[1]


def test_a_million_files_fill_the_scratch_directory() -> None:
    result = run_in_scratch(
        """
made = 0
try:
    while made < 10**6:
        open(f'f{made}', 'w').close()
        made += 1
except OSError as error:
    answer = error.errno
""",
        limits=Limits(cpu_seconds=60),
    )
    assert result.answer == 28, result  # no space left: each file counts
    assert len(result.artifacts) == MAX_FILES
    assert any("over 10,000 files" in why for why in unsent(result))
    assert len(unsent(result)) <= 20


def test_names_that_are_not_plain_text() -> None:
    result = run_in_scratch(r"""
for name in (b'\xff\xfe', 'a\nb', 'a\x1b[31mb', 'x' * 250, 'b\\c', ' ', 'a:b', '-rf'):
    open(name, 'w').close()
import os
os.makedirs('d' * 200 + '/' + 'e' * 200); open('d' * 200 + '/' + 'e' * 200 + '/f', 'w').close()
answer = 1
""")
    assert set(result.artifacts) == {" ", "a:b", "-rf", "x" * 250}
    assert len(unsent(result)) == 5 and all(line.isprintable() or "\\" in repr(line) for line in unsent(result))


def test_program_that_breaks_os_functions() -> None:
    result = run_in_scratch(
        "import os\nopen('x', 'w').close()\nos.scandir = os.open = lambda *a, **k: 1 / 0\nanswer = 1"
    )
    assert (result.reason, result.artifacts) == ("answered", {})
    assert unsent(result) == ("the rest: ZeroDivisionError: division by zero",)


# --- hostile guests -----------------------------------------------------------------------------------------------

WIRE = """
import base64, json, os, struct
def wrote(name, data=b'x', **more):
    body = json.dumps({'type': 'wrote', 'name': name, 'data': base64.b64encode(data).decode(), **more}).encode()
    data = struct.pack('<I', len(body)) + body
    while data:
        data = data[os.write(4, data):]
"""
HOSTILE = {
    "upwards": "wrote('../x')",
    "upwards later": "wrote('a/../../x')",
    "absolute": "wrote('/etc/passwd')",
    "nothing": "wrote('')",
    "nothing within": "wrote('a//b')",
    "here": "wrote('./x')",
    "hidden": "wrote('.bashrc')",
    "hidden within": "wrote('a/.git/hooks/x')",
    "backslash": "wrote('..\\\\x')",
    "backslash within": "wrote('a\\\\b')",
    "null": "wrote('a\\0b')",
    "escape": "wrote('a\\x1b]0;b')",
    "long": "wrote('x' * 401)",
    "twice": "wrote('a')\nwrote('a')",
    "two at once": "wrote('a', is_last=False)\nwrote('b')",
    "without end": "while True: wrote('a', b'', is_last=False)",
    "huge": f"wrote('a', b'x' * {MAX_FILE_BYTES + 1})",
    "huge in parts": "while True: wrote('a', b'x' * 10**6, is_last=False)",
    "many": "for n in range(10**6): wrote(str(n))",
    "much": "for n in range(9): wrote(str(n), b'x' * 8 * 10**6)",
}


@pytest.mark.parametrize("how", HOSTILE)
def test_hostile_guest_breaks_the_protocol(how: str) -> None:
    result = run_in_scratch(f"{WIRE}\n{HOSTILE[how]}\nanswer = 1")
    assert result.reason == "guest died", result
    assert result.error is not None and "it broke the protocol: " in result.error.message
    for name in result.artifacts:
        assert is_name(name)


def test_guest_without_scratch_directory_may_send_no_files() -> None:
    result = run(f"{WIRE}\nwrote('a')\nanswer = 1")
    assert result.error is not None and "without a scratch directory" in result.error.message


def test_list_of_unsent_files_is_bounded() -> None:
    reader = Reader(1 << 20, 1 << 20, may_write=True)
    reader.feed(encode({"type": "ended", "reason": "answered", "unsent": ["x"] * 100}))
    with pytest.raises(FrameError, match="over 20 files"):
        reader.next()


# --- written by the host ------------------------------------------------------------------------------------------


def test_host_writes_nothing_outside_and_overwrites_nothing(tmp_path: Path) -> None:
    into, outside = tmp_path / "into", tmp_path / "outside"
    into.mkdir()
    outside.mkdir()
    (into / "plot.png").write_text("mine")
    (into / "link").symlink_to(outside)
    (into / "to").symlink_to(outside / "x")
    names = ["plot.png", "to", "../x", "/x", ".bashrc", "a/../x", "-rf", "a\x1bb", "x" * 300, "d/.git/e", "README", ""]
    written = artifacts.write(dict.fromkeys(names, b"new"), into)
    for path in written.values():
        assert path.read_bytes() == b"new" and not path.is_symlink()
        assert path.resolve().is_relative_to(into.resolve())
        assert not any(part.startswith((".", "-")) for part in path.relative_to(into).parts)
        assert path.stat().st_mode & 0o777 == 0o644 & ~os.umask(os.umask(0))
    assert (into / "plot.png").read_text() == "mine"
    assert written["plot.png"] == into / "plot.2.png"
    assert written["to"] == into / "to.2"
    assert len(set(written.values())) == len(names)
    assert artifacts.write({"link/x": b"new"}, into) == {"link/x": into / "link.2" / "x"}
    assert not list(outside.iterdir())
    with pytest.raises(InputError, match="cannot write into"):
        artifacts.write({"x": b"new"}, into / "plot.png")


def test_names_that_collide_when_sanitised(tmp_path: Path) -> None:
    names = ["q?", "q_/x", "q_/y", "q*/x", "z/a", "z"]
    written = artifacts.write({name: name.encode() for name in names}, tmp_path)
    assert {name: path.read_bytes().decode() for name, path in written.items()} == {name: name for name in names}
    assert written["q_/x"] == tmp_path / "q_.2" / "x"
    assert written["z"] == tmp_path / "z.2"


def test_one_failing_file_does_not_block_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(1, 1000):
        (tmp_path / (f"full.{number}" if number > 1 else "full")).write_text("taken")
    names = ["a", "𝄞" * 100, "full", "d/" + "é" * 195, "z"]
    written = artifacts.write({name: name.encode() for name in names}, tmp_path)
    assert {name: path.read_bytes().decode() for name, path in written.items()} == {
        name: name for name in names if name != "full"
    }
    assert "cannot write 'full' into" in capsys.readouterr().err


def test_command_keeps_files_after_a_long_name(tmp_path: Path) -> None:
    program = tmp_path / "p.py"
    program.write_text(f"{WIRE}\nwrote('𝄞' * 100)\nwrote('after.txt')\nopen('last.txt', 'w').write('z')\nanswer = 1")
    done = coc("run", program, "--artifacts", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["after.txt", "last.txt", "𝄞" * 50]


HOSTILE_NAMES = r"""
import os
names = [
    'd' * 200 + '/' + 'e' * 200 + '/f', b'd/\xff\xfe', b'\xff/inside', 'd/a\nb', 'a\nb/inside', 'd/\x1b[2J',
    'd/' + 'n' * 255, 'd/' + '𝄞' * 63, 'd/' * 100 + 'deep',
]
for name in names:
    os.makedirs(os.path.dirname(name), exist_ok=True)
    open(name, 'w').write('x')
for name in ('0.txt', 'd/0.txt', 'd/z.txt', 'zz/z.txt', 'zz.txt'):
    os.makedirs(os.path.dirname(name) or '.', exist_ok=True)
    open(name, 'w').write(name)
answer = 1
"""


def test_command_keeps_all_files_despite_hostile_names(tmp_path: Path) -> None:
    program, out = tmp_path / "p.py", tmp_path / "out"
    program.write_text(HOSTILE_NAMES)
    done = coc("run", program, "--artifacts", out)
    assert done.returncode == 0, done.stderr
    kept = {str(path.relative_to(out)): path.read_text() for path in out.rglob("*") if path.is_file()}
    expected = {name: name for name in ("0.txt", "d/0.txt", "d/z.txt", "zz/z.txt", "zz.txt")}
    assert {name: text for name, text in kept.items() if text != "x"} == expected
    assert all(name.isprintable() for name in kept)
    assert "\x1b[2J" not in done.stderr


def png(width: int, height: int) -> bytes:
    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", zlib.compress(b"\0\0")) + part(b"IEND", b"")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "starts"),
    [
        ({"TERM": "xterm-kitty"}, "\x1b_Ga=T,f=100,q=2,m="),
        ({"TERM": "xterm-ghostty"}, "\x1b_G"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "\x1b]1337;File=inline=1;size="),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "\x1b]1337;"),
        ({"TERM": "xterm-256color"}, ""),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "iTerm.app"}, ""),
        ({}, ""),
    ],
)
def test_images_in_terminals_that_support_them(environment: dict[str, str], starts: str) -> None:
    terminal = Terminal()
    artifacts.show(png(1, 1), terminal, environment)
    assert terminal.getvalue().startswith(starts) and bool(terminal.getvalue()) == bool(starts)
    for data in (b"", b"\x89PNG", b"GIF89a" + bytes(99), png(100_000, 100_000), png(1, 1) + bytes(5 * 10**6)):
        silent = Terminal()
        artifacts.show(data, silent, environment)
        assert not silent.getvalue()
    pipe = io.StringIO()
    artifacts.show(png(1, 1), pipe, environment)
    assert not pipe.getvalue()


# --- the command --------------------------------------------------------------------------------------------------


def test_artifacts_on_the_command_line(tmp_path: Path) -> None:
    program, script = tmp_path / "p.py", tmp_path / "s.jsonl"
    program.write_text("open('a.txt', 'w').write('hi')\nanswer = len('ab')")
    script.write_text(json.dumps(program.read_text()))
    done = coc("run", program, "--artifacts", tmp_path / "out")
    assert (tmp_path / "out" / "a.txt").read_text() == "hi"
    assert f"coc: the program left {tmp_path}/out/a.txt (2 bytes)" in done.stderr
    assert "      left a.txt, 2 bytes" in done.stdout
    done = coc("run", program, "--artifacts", tmp_path / "out", "--json")
    assert json.loads(done.stdout)["artifacts"][0]["name"] == "a.txt"
    assert (tmp_path / "out" / "a.2.txt").read_text() == "hi"
    done = coc("run", program, "--scratch", "--trace", tmp_path / "t.jsonl")
    assert (tmp_path / "t.jsonl.files" / "a.txt").read_text() == "hi"
    assert "      left a.txt, 2 bytes" in coc("show", tmp_path / "t.jsonl").stdout
    done = coc("run", program, "--scratch")
    assert "a.txt (2 bytes; --artifacts DIR keeps it)" in done.stderr
    done = coc("ask", "What?", "--model", f"scripted:{script}", "--artifacts", tmp_path / "new" / "dir", "--quiet")
    assert (done.stdout, done.stderr) == ("2\n", "")
    assert (tmp_path / "new" / "dir" / "a.txt").read_text() == "hi"


def test_bad_directory_is_reported(tmp_path: Path) -> None:
    program = tmp_path / "p.py"
    program.write_text("answer = 1")
    done = coc("run", program, "--artifacts", program)
    assert done.returncode == 2 and "must be a directory, not the file" in done.stderr
    done = coc("run", tmp_path / "x.jsonl", "--artifacts", tmp_path)
    assert done.returncode == 2 and "--artifacts works with one program" in done.stderr
    done = coc("run", program, "--artifacts", tmp_path / "out", "--sandbox", "none")
    assert done.returncode == 2 and "no scratch directory without a sandbox" in done.stderr


def test_image_is_shown_in_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "p.py"
    program.write_text(f"open('dot.png', 'wb').write({png(1, 1)!r})\nanswer = 1")
    monkeypatch.setenv("TERM_PROGRAM", "iTerm.app")
    code, drawn = in_terminal("run", str(program), "--scratch")
    assert code == 0
    assert "\x1b]1337;File=inline=1;size=" in drawn
