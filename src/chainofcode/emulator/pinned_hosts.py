"""Connections of REST tools: each host name is resolved once, and later requests go to the same addresses.

The owner of a name can change its addresses at any time (DNS rebinding): without this, a name in a document could lead
to services on this machine or network. Proxies from the environment are not used, because they would
resolve the names themselves.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Collection

_LOCAL_NAME = "localhost"
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
# Listed here, because `is_global` of a Python version knows the registries of its time, and some of their entries.
_RESERVED_V4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",  # this host
            "10.0.0.0/8",
            "100.64.0.0/10",  # shared by a provider's customers
            "127.0.0.0/8",
            "169.254.0.0/16",  # link-local, with the metadata of clouds
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/3",  # multicast, reserved, broadcast
        ),
    )
)
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")  # everything else is local, reserved, multicast, or a translation
_RESERVED_V6 = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # protocol assignments, with Teredo
            "2001:db8::/32",  # documentation
            "3fff::/20",
        ),
    )
)


class HostRefused(Exception):
    """The host resolves to an address that requests must not reach."""


class PinnedHosts:
    """The addresses of hosts. `named` are the hosts that the user named, which may be in a private network."""

    def __init__(self, named: Collection[str]) -> None:
        self._named = {name.lower() for name in named}
        self._addresses: dict[str, list[str]] = {}
        self._is_private: dict[str, bool] = {}
        self._lock = threading.Lock()

    def connect(self, host: str, port: int, deadline: float) -> socket.socket:
        """Connect to a host. Raises HostRefused, or OSError.

        If none of its addresses accepts connections, a public host is looked up again: servers move.
        """
        addresses = self._known(host)
        if addresses:
            try:
                return _connect_to_first(addresses, port, deadline)
            except OSError:
                if self._is_private[host]:
                    raise
        return _connect_to_first(self._look_up(host), port, deadline)

    def _known(self, host: str) -> list[str]:
        with self._lock:
            return self._addresses.get(host, [])

    def _look_up(self, host: str) -> list[str]:
        """Resolve a host. A public host never becomes private; a private host keeps its addresses."""
        found = [str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
        public = [address for address in found if is_public(address)]
        with self._lock:
            if not public and not self._may_be_private(host):
                raise HostRefused(_explain(host, found, is_moved=host in self._addresses))
            if not self._is_private.setdefault(host, not public):
                found = public
            self._addresses[host] = found
        return found

    def _may_be_private(self, host: str) -> bool:
        if host in self._is_private:
            return self._is_private[host]
        name = host.lower().rstrip(".")
        is_local = name == _LOCAL_NAME or name.endswith(f".{_LOCAL_NAME}")
        return is_local or _is_loopback(host) or host.lower() in self._named


def _explain(host: str, found: Collection[str], *, is_moved: bool) -> str:
    address = min(found, default="")
    where = f"{host} is a private address" if host == address else f"{host} resolves to the private address {address}"
    if is_moved:
        return f"{where}, and resolved to a public one before: the request is refused"
    return f"{where}; if you intend this, name the host with --openapi FILE=URL"


def _connect_to_first(addresses: Collection[str], port: int, deadline: float) -> socket.socket:
    """Connect to the first address that accepts a connection."""
    failure = OSError("no address")
    for address in addresses:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        try:
            return socket.create_connection((address, port), timeout=left)
        except OSError as error:
            failure = error
    raise failure


def _is_loopback(host: str) -> bool:
    """Whether a host is written as an address of this machine's loopback device."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return any(address in network for network in _LOOPBACK)


def is_public(address: str) -> bool:
    """Whether an address is on the Internet, rather than on this machine, in this network, or reserved."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv4Address):
        return not any(ip in network for network in _RESERVED_V4)
    inner = ip.ipv4_mapped or ip.sixtofour
    if inner is None and ip in _NAT64:
        inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    if inner is not None:
        return is_public(str(inner))
    return ip in _GLOBAL_UNICAST and not any(ip in network for network in _RESERVED_V6)
