"""The network: no sockets, except a connected pair inside the guest that reaches no other process."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from chainofcode import run

from .harness import (
    KERNEL,
    LIMITS,
    PRELUDE,
    Attack,
    HostFiles,
    TierSandbox,
    assert_succeeds_unconfined,
    safe_unconfined,
)

# family, type, protocol; and who can open one without a sandbox
SOCKETS = {
    "IPv4, TCP": (2, 1, 0, "everyone"),
    "IPv4, UDP": (2, 2, 0, "everyone"),
    "IPv4, raw": (2, 3, 1, "root"),
    "IPv4, SCTP": (2, 5, 132, ""),
    "IPv4, multipath TCP": (2, 1, 262, ""),
    "IPv6, TCP": (10, 1, 0, ""),
    "IPv6, UDP": (10, 2, 0, ""),
    "Unix, stream": (1, 1, 0, "everyone"),
    "Unix, datagrams": (1, 2, 0, "everyone"),
    "Unix, packets": (1, 5, 0, "everyone"),
    "netlink, routes": (16, 3, 0, "everyone"),
    "netlink, audit": (16, 3, 9, ""),
    "packets": (17, 3, 0, "root"),
    "virtual machines (VSOCK)": (40, 1, 0, ""),
    "the kernel's ciphers (ALG)": (38, 5, 0, ""),
    "Bluetooth": (31, 3, 1, ""),
    "CAN": (29, 3, 1, ""),
    "XDP": (44, 3, 0, ""),
    "TIPC": (30, 5, 0, ""),
    "RDS": (21, 5, 0, ""),
    "SMC": (43, 1, 0, ""),
    "KCM": (41, 5, 0, ""),
    "X.25": (9, 5, 0, ""),
    "AppleTalk": (5, 2, 0, ""),
    "NFC": (39, 5, 1, ""),
    "Qualcomm routers": (42, 2, 0, ""),
}
ODD = "not every kernel has it; asking for it makes some load a module"
PAIR = "import socket\nleft, right = socket.socketpair()\n"

ATTACKS = [
    *[
        Attack(
            name,
            f"import socket\nanswer = tried(socket.socket, *{numbers})",
            unsafe="" if available_to else ODD,
            for_root=available_to == "root",
        )
        for name, (*numbers, available_to) in SOCKETS.items()
    ],
    Attack(
        "every family and type there is",
        "import _socket\n"
        "answer = {tried(_socket.socket, f, t | flag) for f in range(48) for t in range(1, 11) for flag in (0, 2048)}",
        refused={"EPERM"},
        unsafe=ODD,
    ),
    Attack("a pair for datagrams", "import socket\nanswer = tried(socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM)"),
    Attack("a pair for packets", "import socket\nanswer = tried(socket.socketpair, socket.AF_UNIX, socket.SOCK_SEQPACKET)"),
    Attack("a pair of another family", "import socket\nanswer = tried(socket.socketpair, 30, socket.SOCK_STREAM)",
           unsafe=ODD),
    Attack("send to an address", PAIR + "answer = tried(left.sendto, b'x', '/nowhere')", bare="EISCONN"),
    Attack(
        "send to an address in memory whose number ends in 32 zeros",
        PAIR + "libc.mmap.restype = ctypes.c_void_p\n"
        "place = libc.mmap(ctypes.c_void_p(1 << 32), ctypes.c_size_t(4096), 3, 0x32, -1, ctypes.c_long(0))\n"
        "ctypes.memmove(place, b'\\1\\0/nowhere', 10)\n"
        "def send():\n"
        "    if libc.sendto(left.fileno(), b'x', ctypes.c_size_t(1), 0, ctypes.c_void_p(place), 10) < 0:\n"
        "        raise OSError(ctypes.get_errno(), 'refused')\n"
        "answer = tried(send) if place == 1 << 32 else 'no such place'",
        bare="EISCONN",
    ),
    Attack("send urgent data", PAIR + "answer = tried(left.send, b'x', socket.MSG_OOB)", bare=KERNEL),
    Attack("receive urgent data", PAIR + "answer = tried(right.recv, 1, socket.MSG_OOB)", bare=KERNEL),
    Attack("receive without waiting for urgent data", PAIR + "answer = tried(right.recv, 1, socket.MSG_OOB | 0x40)",
           bare=KERNEL),
    Attack("confirm a path", PAIR + "answer = tried(left.send, b'x', socket.MSG_CONFIRM)", bare=True),
    Attack("send a descriptor", PAIR + "answer = tried(socket.send_fds, left, [b'x'], [0])"),
    Attack("receive a descriptor", PAIR + "left.send(b'x')\nanswer = tried(socket.recv_fds, right, 1, 1)"),
    Attack("send many messages", PAIR + "answer = libc.sendmmsg(left.fileno(), None, 0, 0)", refused=-1, bare=0),
    Attack("connect a pair anew", PAIR + "answer = tried(left.connect, '/nowhere')", bare=KERNEL),
    Attack("give a pair a name", PAIR + "answer = tried(left.bind, b'\\0coc-attack')", bare=KERNEL),
    Attack("listen on a pair", PAIR + "answer = tried(left.listen)", bare="EINVAL"),
    Attack("accept on a pair", PAIR + "answer = tried(left.accept)", bare="EINVAL"),
    Attack("options of a pair", PAIR + "answer = tried(left.setsockopt, socket.SOL_SOCKET, socket.SO_PASSCRED, 1)"),
    Attack("look up a name", "import socket\nanswer = tried(socket.getaddrinfo, 'localhost', 80)", refused="gaierror"),
    Attack("names of network devices", "import socket\nanswer = tried(socket.if_nameindex)"),
    Attack("set the host's name", "import socket\nanswer = tried(socket.sethostname, 'attacked')",
           unsafe="it would rename this machine"),
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_attack_is_refused(sandbox: TierSandbox, attack: Attack, host_files: HostFiles) -> None:
    sandbox.assert_refused(attack, host_files)


@pytest.mark.parametrize("attack", safe_unconfined(ATTACKS), ids=str)
def test_attack_succeeds_without_sandbox(attack: Attack, host_files: HostFiles) -> None:
    assert_succeeds_unconfined(attack, host_files)


# --- a server on the host -----------------------------------------------------------------------------------------


@pytest.fixture(params=["TCP", "UDP", "Unix", "Unix datagrams", "abstract Unix"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[socket.socket]:
    family = socket.AF_INET if request.param in ("TCP", "UDP") else socket.AF_UNIX
    kind = socket.SOCK_DGRAM if request.param in ("UDP", "Unix datagrams") else socket.SOCK_STREAM
    with socket.socket(family, kind) as listening:
        place = {"abstract Unix": f"\0{tmp_path}", "TCP": ("127.0.0.1", 0), "UDP": ("127.0.0.1", 0)}
        listening.bind(place.get(request.param, str(tmp_path / "s")))
        if kind == socket.SOCK_STREAM:
            listening.listen()
        yield listening


CALL = (
    "import socket\n"
    "def call():\n"
    "    with socket.socket(family, kind) as s:\n"
    "        s.connect(tuple(address) if isinstance(address, (list, tuple)) else address)\n"
    "        s.send(b'hello')\n"
    "answer = tried(call)"
)


def connection_to(server: socket.socket) -> dict[str, object]:
    return {"family": int(server.family), "kind": int(server.type), "address": server.getsockname()}


def has_data(server: socket.socket) -> bool:
    return bool(select.select([server], [], [], 0.05)[0])


def test_local_server_receives_nothing(sandbox: TierSandbox, server: socket.socket) -> None:
    assert sandbox.run(CALL, inputs=connection_to(server)).answer == "EPERM"
    assert not has_data(server)


def test_local_server_is_reachable_without_sandbox(server: socket.socket) -> None:
    assert run(PRELUDE + CALL, sandbox="none", inputs=connection_to(server), limits=LIMITS).answer is True
    assert has_data(server)


@pytest.mark.parametrize("server", ["TCP"], indirect=True)
def test_event_loop_runs_but_opens_no_connection(sandbox: TierSandbox, server: socket.socket) -> None:
    """The loop works on its connected pair, but cannot open a connection."""
    program = (
        "import asyncio\nasync def call():\n    await asyncio.sleep(0.001)\n"
        "    await asyncio.open_connection(*address)\nanswer = tried(asyncio.run, call())"
    )
    assert sandbox.run(program, inputs={"address": list(server.getsockname())}).answer == "EPERM"
    assert not has_data(server)
