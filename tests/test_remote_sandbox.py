"""Programs in a sandbox on another machine: the same runs, hostile clients, hostile servers."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import part, records
from guest_servers import TOKEN, Serving, guest_server
from processes import descendants, is_alive, wait_for
from test_cli import coc

from chainofcode import InputError, Limits, Pause, Result, SandboxError, Table, arun, run
from chainofcode.sandbox import Jail, Job, RemoteSandbox
from chainofcode.sandbox.frames import encode
from chainofcode.sandbox.packets import PACKET_BYTES, PATH, PROTOCOL, Packet, packet
from chainofcode.sandbox.usage import ProcessUsage
from chainofcode.trace import Step

HOLES = records("cases/holes.jsonl")


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    limits = ["--limit", "memory=300000000", "--limit", "cpu=20"]
    with guest_server("--scratch", "--runs", "4", "--queue", "2", "--drain", "1", *limits) as serving:
        yield serving


@pytest.fixture(scope="module")
def remote(server: Serving) -> RemoteSandbox:
    return RemoteSandbox(server.url, TOKEN)


def steps(result: Result) -> list[tuple[Any, ...]]:
    events = result.trace.events
    return [(e.statement, e.by, e.delta, e.output) for e in events if isinstance(e, Step)]


# --- the same runs ------------------------------------------------------------------------------------------------


def test_cases_have_the_same_steps_and_answers(remote: RemoteSandbox) -> None:
    assert HOLES
    with Jail() as jail:
        for case in part(HOLES, 20):
            table = Table.of_records(case["calls"], case["id"])
            question = case.get("question")
            here, there = (run(case["program"], table, question=question, sandbox=place) for place in (jail, remote))
            assert there.trace.answer.text == case["expect"], case["id"]
            assert steps(here) == steps(there), case["id"]


def test_files_and_artifacts(remote: RemoteSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "n.txt").write_text("41")
    (tmp_path / "m.txt").write_bytes(b"x" * 3_000_000)
    program = """
n = int(open('data/n.txt').read())
size = len(open('m.txt').read())
open('out.txt', 'w').write(str(n + 1))
answer = (n, size)
"""
    absolute = str(tmp_path / "m.txt")  # in the working directory, like every granted file
    result = run(program, sandbox=remote, reads=("data", absolute), scratch=True)
    assert result.answer == (41, 3_000_000), result.trace.answer
    assert result.artifacts == {"out.txt": b"42"}
    (tmp_path / "large").write_bytes(b"x" * (65 << 20))
    with pytest.raises(InputError, match="cannot send over"):
        run("answer = 1", sandbox=remote, reads=("large",))


def test_links_lead_only_to_granted_files(
    remote: RemoteSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on this machine: a link in a granted directory grants nothing outside of it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "n.txt").write_text("41")
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "data" / "inside").symlink_to("n.txt")
    (tmp_path / "data" / "outside").symlink_to("../secret.txt")
    program = "import os\nanswer = (open('data/inside').read(), os.path.exists('data/outside'))"
    with Jail() as jail:
        assert run(program, sandbox=jail, reads=("data",)).answer == ("41", False)
    assert run(program, sandbox=remote, reads=("data",)).answer == ("41", False)
    assert run(program, sandbox=remote, reads=("data", "secret.txt")).answer == ("41", True)
    (tmp_path / "data" / ".hidden").write_text("x")
    with pytest.raises(InputError, match=r"cannot send 'data/\.hidden'"):
        run(program, sandbox=remote, reads=("data",))


def test_lookahead_works_remotely(remote: RemoteSandbox) -> None:
    """Lookahead runs in its own guest on the server, too."""
    pending, most = 0, 0

    async def judge(pause: Pause) -> int:
        nonlocal pending, most
        pending += 1
        most = max(most, pending)
        await asyncio.sleep(2)
        pending -= 1
        return 1

    program = "answer = 0\nfor word in ['a', 'bb', 'ccc', 'dddd']:\n    answer += judge(word)"
    assert run(program, judge, sandbox=remote, in_flight=4).answer == 4
    assert most > 1


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("x = bytearray(500_000_000)", "limit:memory"),
        ("while True: pass", "limit:run"),
        ("import os\nos._exit(3)", "guest died"),
        ("print('x' * 2_000_000)", "limit:output"),
    ],
)
def test_lower_limit_applies(remote: RemoteSandbox, program: str, reason: str) -> None:
    """The lower of the client's and the server's limits applies."""
    result = run(program, sandbox=remote, limits=Limits(run_seconds=3))
    assert result.reason == reason, result.trace.answer


def test_wrong_tokens_packages_and_urls_are_refused(server: Serving, remote: RemoteSandbox) -> None:
    with pytest.raises(SandboxError, match="COC_SANDBOX_TOKEN"):
        run("answer = 1", sandbox=RemoteSandbox(server.url, "wrong"))
    with pytest.raises(SandboxError, match="does not grant the package 'numpy'"):
        run("answer = 1", sandbox=remote, packages=("numpy",))
    with pytest.raises(InputError, match="URL"):
        RemoteSandbox("ftp://somewhere")
    with pytest.raises(InputError, match="must not contain a user name or password") as error:
        RemoteSandbox("https://me:secret@somewhere")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("option", ["--model=openai:x", "--store=postgresql://x/y", "--engine=ray"])
def test_sandbox_server_refuses_options_that_it_would_ignore(option: str) -> None:
    """Above all a PostgreSQL store: a server that ignored its tokens would be open to anyone."""
    done = coc("serve", "--sandbox-only", "--port", "0", option)
    assert done.returncode == 2
    assert "--sandbox-only" in done.stderr


def test_a_lost_server_ends_the_run() -> None:
    with guest_server() as server:
        remote = RemoteSandbox(server.url, TOKEN)

        def judge(pause: Pause) -> int:
            server.process.kill()
            server.process.wait()
            return 1

        with pytest.raises(SandboxError, match="lost the connection to the sandbox at 127"):
            run("answer = judge('a') + judge('b')", judge, sandbox=remote)
    with pytest.raises(SandboxError, match="cannot reach the sandbox"):
        run("answer = 1", sandbox=remote)


# --- hostile clients ----------------------------------------------------------------------------------------------

UPGRADE = (
    f"GET {PATH} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n"
    f"Authorization: Bearer {TOKEN}\r\n\r\n"
).encode()
ORDER = (
    b'{"language":"python","limits":{"cpu_seconds":1e9,"wall_seconds":1e9,"memory_bytes":1000000000000}'
    b',"files":[%s],"packages":[]}'
)
TWO_FILES = b'{"name":"a","size":1},{"name":"a/b","size":1}'  # tier A cannot have both; no lower one is used


def connected(server: Serving, *sent: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    for data in sent:
        with contextlib.suppress(OSError):
            client.sendall(data)
    return client


def read_all(client: socket.socket) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionError):
        while more := client.recv(1 << 16):
            data += more
    client.close()
    return data


def arrived(client: socket.socket) -> bytes:
    """Return bytes that have arrived, without consuming them."""
    if not select.select([client], [], [], 0)[0]:  # a socket with a timeout would wait, regardless of the flags
        return b""
    try:
        return client.recv(100, socket.MSG_PEEK)
    except OSError:
        return b""


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"x" * 100_000, b""),  # headers that never end
        (b"GET /runs HTTP/1.1\r\n\r\n", b"401"),
        (UPGRADE.replace(TOKEN.encode(), b"t"), b"401"),
        (UPGRADE.replace(PROTOCOL.encode(), b"websocket"), b"404"),
        (UPGRADE + b"\x09\x00\x00\x00\x00", b"101"),  # no such packet
        (UPGRADE + struct.pack("<BI", Packet.ORDER, PACKET_BYTES + 1), b"101"),
        (UPGRADE + packet(Packet.WIRE, b"{}"), b"101"),
        (UPGRADE + packet(Packet.ORDER, b"[]"), b"101"),
        (UPGRADE + packet(Packet.ORDER, ORDER.replace(b"python", b"../x") % b""), b"unknown language"),
        (UPGRADE + packet(Packet.ORDER, ORDER % b'{"name":"../../x","size":1}'), b"101"),
        (UPGRADE + packet(Packet.ORDER, ORDER % b'{"name":"a","size":1000000000000}'), b"101"),
        (UPGRADE + packet(Packet.ORDER, ORDER % b'{"name":"a","size":1}') + packet(Packet.FILES, b"xx"), b"101"),
        (UPGRADE + packet(Packet.ORDER, ORDER % TWO_FILES) + packet(Packet.FILES, b"x") * 2, b"tier A"),
        (UPGRADE + packet(Packet.ORDER, ORDER % b"") + packet(Packet.WIRE, b"\xff" * 8), b"101"),
        (UPGRADE + packet(Packet.ORDER, ORDER % b"") + packet(Packet.WIRE, struct.pack("<I", 2) + b"{}"), b"101"),
    ],
)
def test_hostile_client_does_not_stop_the_server(server: Serving, sent: bytes, expected: bytes) -> None:
    assert expected in read_all(connected(server, sent))
    assert server.process.poll() is None


def test_disconnected_clients_leave_nothing_behind(server: Serving, remote: RemoteSandbox) -> None:
    """When a client disconnects, its guest is killed and its files are removed."""
    run("answer = 1", sandbox=remote)
    before = len(descendants(server.process.pid))
    files = ORDER % b'{"name":"a","size":1}'
    clients = [connected(server, UPGRADE + packet(Packet.ORDER, ORDER % b"")) for _ in range(2)]
    clients.append(connected(server, UPGRADE + packet(Packet.ORDER, files) + packet(Packet.FILES, b"x")))
    for client in clients:
        data = b""
        while b'"wall"' not in data:
            data += client.recv(1000)
        client.close()
    wait_for(lambda: len(descendants(server.process.pid)) <= before + 1, 30)
    assert not list(Path("/tmp").glob("coc-sandbox-*")) or wait_for(
        lambda: not list(Path("/tmp").glob("coc-sandbox-*")), 30
    )
    assert run("answer = 1", sandbox=remote).answer == 1


def test_guest_that_reads_nothing_is_killed_with_its_client(server: Serving, remote: RemoteSandbox) -> None:
    run("answer = 1", sandbox=remote)
    busy = packet(Packet.WIRE, encode(Job("while True: pass").message()))
    client = connected(server, UPGRADE + packet(Packet.ORDER, ORDER % b"") + busy)
    guest = wait_for(lambda: [pid for pid in descendants(server.process.pid) if cpu_seconds(pid) > 0.5])[0]
    client.sendall(packet(Packet.WIRE, b"x" * PACKET_BYTES) * 2)
    client.close()
    wait_for(lambda: not is_alive(guest), 5)


def cpu_seconds(pid: int) -> float:
    use = ProcessUsage.of(pid)
    return use.cpu_seconds if use is not None and is_alive(pid) else 0.0


def test_one_token_cannot_use_all_connections() -> None:
    with guest_server("--runs", "2", "--queue", "5000") as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected(server, UPGRADE)) for _ in range(510)]
        for client in clients:
            client.setblocking(False)
        wait_for(lambda: any(b"429" in arrived(client) for client in clients))
        assert run("answer = 1", sandbox=RemoteSandbox(server.url, f"another-{TOKEN}")).answer == 1


def test_server_raises_its_descriptor_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))  # inherited by the server
    try:
        with guest_server() as server:
            assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[0] > 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_token_does_not_starve_another(server: Serving) -> None:
    """One token fills its share of the slots; its next programs wait, and further ones are refused."""
    order = UPGRADE + packet(Packet.ORDER, ORDER % b"")
    clients = [connected(server, order) for _ in range(8)]
    wait_for(lambda: any(b"429" in arrived(client) for client in clients))
    other = RemoteSandbox(server.url, f"another-{TOKEN}")
    assert run("answer = 1", sandbox=other).answer == 1
    for client in clients:
        client.close()


def test_a_revoked_token_ends_its_guest(tmp_path: Path) -> None:
    secret = coc("tokens", "add", "ann", "--data", tmp_path).stdout.strip()
    with guest_server("--data", str(tmp_path)) as server:

        def judge(pause: Pause) -> int:
            coc("tokens", "revoke", "ann", "--data", tmp_path)
            return 1

        with pytest.raises(SandboxError, match=r"lost the connection to the sandbox at .*: it was closed"):
            run("judge('a')\nwhile True: pass", judge, sandbox=RemoteSandbox(server.url, secret))


# --- hostile servers ----------------------------------------------------------------------------------------------

SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
STARTED = packet(Packet.STARTED, b'{"wall":"A"}')


@contextlib.contextmanager
def lying(*replies: bytes) -> Iterator[str]:
    """A server that sends these bytes, regardless of what it receives."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                client, _ = listening.accept()
                with client:
                    client.recv(1 << 16)
                    for reply in replies:
                        client.sendall(reply)
                        time.sleep(0.2)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def frame(body: bytes) -> bytes:
    return packet(Packet.WIRE, struct.pack("<I", len(body)) + body)


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ([b"HTTP/1.1 200 OK\r\n\r\n"], "did not start a guest: it replied"),
        ([b"\x00" * 100_000], "did not start a guest"),
        ([SWITCHED], "lost the connection"),
        ([SWITCHED, packet(Packet.REFUSED, b"no\x1b[31m room")], "did not start a guest: no.\\[31m room"),
        ([SWITCHED, packet(Packet.STARTED, b"[]")], "lost the connection .* malformed packet"),
        ([SWITCHED, STARTED, b"\xff" * 100], "lost the connection .* packet of kind 255"),
        ([SWITCHED, STARTED, STARTED], "lost the connection .* unexpected packet"),
        ([SWITCHED, STARTED], "lost the connection"),
        ([SWITCHED, STARTED, packet(Packet.EXIT, b"{}")], "lost the connection .* malformed packet"),
    ],
)
def test_servers_that_break_the_protocol(replies: list[bytes], expected: str) -> None:
    with lying(*replies) as url, pytest.raises(SandboxError, match=expected):
        run("answer = 1", sandbox=RemoteSandbox(url, TOKEN))


def test_a_server_that_does_not_read() -> None:
    """The run ends at its limit even if the server never reads."""
    with socket.create_server(("127.0.0.1", 0)) as listening, contextlib.ExitStack() as held:

        def serve() -> None:
            client = held.enter_context(listening.accept()[0])
            client.recv(1000)
            client.sendall(SWITCHED + STARTED)

        threading.Thread(target=serve, daemon=True).start()
        remote = RemoteSandbox(f"http://127.0.0.1:{listening.getsockname()[1]}", TOKEN)
        inputs = {f"text{n}": "x" * 900_000 for n in range(20)}
        running = arun("answer = 1", sandbox=remote, inputs=inputs, limits=Limits(wall_seconds=1))
        assert asyncio.run(asyncio.wait_for(running, 20)).reason == "limit:wall"


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ([frame(b"{}")], "it broke the protocol: malformed frame"),
        ([packet(Packet.WIRE, b"\xff\xff\xff\xff")], "it broke the protocol: a frame of 4,294,967,295 bytes"),
        ([frame(b'{"type":"ended","reason":"limit:wall"}')], "it broke the protocol: an end for the reason"),
        ([packet(Packet.EXIT, b'{"code":-9,"cpu_seconds":0,"reason":"answered"}')], "was killed by signal 9 (Killed)"),
        ([packet(Packet.EXIT, b'{"code":0,"cpu_seconds":0,"reason":"limit:wall","message":"late"}')], "late"),
        ([packet(Packet.NOISE, b"x" * 1_000_000)] * 2, "outside the protocol"),
    ],
)
def test_lying_server_is_treated_like_a_lying_guest(replies: list[bytes], expected: str) -> None:
    with lying(SWITCHED, STARTED, *replies) as url:
        answer = run("answer = 1", sandbox=RemoteSandbox(url, TOKEN)).trace.answer
    assert answer is not None and answer.error is not None and expected in answer.error.message
