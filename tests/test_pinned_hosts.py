"""OpenAPI hosts whose name resolves to another address later: real servers on several addresses, and a real /etc/hosts.

Each test runs in namespaces of its own, where public addresses are addresses of the loopback device.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from chainofcode.emulator.pinned_hosts import is_public
from chainofcode.emulator.rest import rest_tools

PORT = 8000
PUBLIC, OTHER_PUBLIC, PRIVATE = "93.184.215.14", "151.101.1.1", "10.1.2.3"
ENTER = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--"]
NAMESPACES = subprocess.run([*ENTER, "true"], capture_output=True, check=False) if shutil.which("unshare") else None
needs_namespaces = pytest.mark.skipif(
    NAMESPACES is None or NAMESPACES.returncode != 0 or not shutil.which("ip"),
    reason="no user namespaces here, or no `ip`",
)


class Names:
    """The name service of this machine, as the namespaces see it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.write_text("")
        subprocess.run(["mount", "--bind", str(path), "/etc/hosts"], check=True)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        for address in (PUBLIC, OTHER_PUBLIC, PRIVATE):
            subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)

    def set(self, name: str, *addresses: str) -> None:
        self._path.write_text("".join(f"{address} {name}\n" for address in addresses))


class Server:
    """A server that says on which address it is; `seen` are the requests."""

    def __init__(self, address: str) -> None:
        seen = self.seen = list[tuple[str, str]]()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                seen.append((self.path, self.headers["Host"]))
                body = json.dumps(address).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer((address, PORT), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def tool_of(directory: Path, url: str, base: str | None = None) -> Any:
    path = directory / "api.json"
    data = {"openapi": "3.1.0", "servers": [{"url": url}], "paths": {"/x": {"get": {"operationId": "look"}}}}
    path.write_text(json.dumps(data))
    (tool,) = rest_tools([(path, base)], {}, seconds=5)
    return tool.function


def error_of(look: Any) -> str:
    try:
        look()
    except Exception as error:
        return str(error)
    raise AssertionError("no error")


# --- scenarios, each called in its own process --------------------------------------------------------------------


def a_public_name_stays_where_it_was(directory: Path, names: Names) -> None:
    there, here, inside = Server(PUBLIC), Server("127.0.0.1"), Server(PRIVATE)
    names.set("api.example.test", PUBLIC)
    look = tool_of(directory, f"http://api.example.test:{PORT}")
    assert look() == PUBLIC
    for moved in ("127.0.0.1", PRIVATE, OTHER_PUBLIC):
        names.set("api.example.test", moved)
        assert look() == PUBLIC
    assert {host for _, host in there.seen} == {f"api.example.test:{PORT}"}
    assert here.seen == inside.seen == []


def a_public_name_never_becomes_private(directory: Path, names: Names) -> None:
    """Even if the public server stops: the owner of the name can stop it."""
    there, here, inside, elsewhere = Server(PUBLIC), Server("127.0.0.1"), Server(PRIVATE), Server(OTHER_PUBLIC)
    names.set("api.example.test", PUBLIC)
    for base in (None, f"http://api.example.test:{PORT}"):
        look = tool_of(directory, f"http://api.example.test:{PORT}", base)
        names.set("api.example.test", PUBLIC)
        assert look() == PUBLIC
        there.stop()
        for private in ("127.0.0.1", "127.0.0.2", PRIVATE, "169.254.169.254", "::1", "::ffff:127.0.0.1", "0.0.0.0"):
            names.set("api.example.test", private)
            assert "resolved to a public one before: the request is refused" in error_of(look)
        names.set("api.example.test", "127.0.0.1", OTHER_PUBLIC)
        assert look() == OTHER_PUBLIC  # a server that moved
        there = Server(PUBLIC)
    assert here.seen == inside.seen == []
    assert len(elsewhere.seen) == 2


def a_name_in_a_document_does_not_lead_inside(directory: Path, names: Names) -> None:
    here, inside = Server("127.0.0.1"), Server(PRIVATE)
    for host in ("api.example.test", "127.1", "2130706433", "0x7f.0.0.1"):
        for address in ("127.0.0.1", PRIVATE):
            names.set("api.example.test", address)
            message = error_of(tool_of(directory, f"http://{host}:{PORT}"))
            assert "resolves to the private address" in message and "--openapi FILE=URL" in message, (host, message)
    assert here.seen == inside.seen == []


def an_address_in_a_document_does_not_lead_inside(directory: Path, names: Names) -> None:
    """Only the addresses of the loopback device are accepted: tools on this machine are common."""
    subprocess.run(["ip", "address", "add", "169.254.169.254/32", "dev", "lo"], check=True)
    servers = [Server(PRIVATE), Server("169.254.169.254")]
    for host in (PRIVATE, "169.254.169.254", "0.0.0.0", "[::ffff:10.1.2.3]", "[fe80::1]", "[fc00::1]"):
        message = error_of(tool_of(directory, f"http://{host}:{PORT}"))
        assert "is a private address" in message and "--openapi FILE=URL" in message, (host, message)
    assert all(server.seen == [] for server in servers)
    here = Server("127.0.0.1"), Server("127.9.9.9")
    assert tool_of(directory, f"http://127.9.9.9:{PORT}")() == "127.9.9.9"
    assert tool_of(directory, f"http://127.0.0.1:{PORT}")() == "127.0.0.1"
    assert all(len(server.seen) == 1 for server in here)
    for address in (PRIVATE, "169.254.169.254"):  # named by the user
        url = f"http://{address}:{PORT}"
        assert tool_of(directory, url, url)() == address


def what_the_user_names_may_be_inside(directory: Path, names: Names) -> None:
    here, inside = Server("127.0.0.1"), Server(PRIVATE)
    names.set("intranet.test", PRIVATE)
    url = f"http://intranet.test:{PORT}"
    look = tool_of(directory, url, url)
    assert look() == PRIVATE
    inside.stop()
    names.set("intranet.test", "127.0.0.1")  # it stays where it was
    assert "cannot be reached" in error_of(look)
    assert here.seen == []
    names.set("localhost", "127.0.0.1")
    for host in ("127.0.0.1", "localhost", "LOCALHOST"):
        assert tool_of(directory, f"http://{host}:{PORT}")() == "127.0.0.1"


SCENARIOS = (
    a_public_name_stays_where_it_was,
    a_public_name_never_becomes_private,
    a_name_in_a_document_does_not_lead_inside,
    an_address_in_a_document_does_not_lead_inside,
    what_the_user_names_may_be_inside,
)


@needs_namespaces
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_host_names_keep_their_addresses(scenario: Any, tmp_path: Path) -> None:
    command = [*ENTER, sys.executable, __file__, scenario.__name__, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "::",
    ]
    + ["::1", "fe80::1%1", "fc00::1", "ff02::1", "224.0.0.1", "255.255.255.255", "::ffff:10.0.0.1", "64:ff9b::7f00:1"]
    + ["2002:7f00:1::", "192.0.2.1", "2001:db8::1", "fec0::1", "64:ff9b:1::a01:203", "::127.0.0.1", "192.0.0.8"]
    + ["192.0.0.9", "192.0.0.170", "192.88.99.1", "2001::1", "2001:1::1", "2001:20::1", "2001:1ff::1", "3fff::1"]
    + ["5f00::1", "100::1", "100:0:0:1::1", "198.18.0.1", "240.0.0.1", "::ffff:0:127.0.0.1", "2002:c058:6301::"],
)
def test_private_addresses(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    [PUBLIC, "8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"]
    + [
        "2001:4860:4860::8888",
        "2a00:1450:4001::1",
        "2002:808:808::",
        "100.63.255.255",
        "172.32.0.1",
        "223.255.255.255",
    ],
)
def test_public_addresses(address: str) -> None:
    assert is_public(address)


def main(arguments: Sequence[str]) -> None:
    scenario, directory = arguments
    (found,) = (function for function in SCENARIOS if function.__name__ == scenario)
    found(Path(directory), Names(Path(directory) / "hosts"))


if __name__ == "__main__":
    main(sys.argv[1:])
