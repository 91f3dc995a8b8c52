"""Packets between a host and a guest on another machine, over one connection (docs/protocol.md).

A packet is one byte for its kind, a 32-bit little-endian length, and that many bytes. Neither side trusts the
other: packets are bounded and typed.
"""

from __future__ import annotations

import asyncio
import struct
from enum import IntEnum
from typing import TypeVar

import msgspec

from .job import Limits

PROTOCOL = "chainofcode-guest"  # the name in the `Upgrade` header
PATH = "/sandbox"
PACKET_BYTES = 1 << 20
MAX_SENT_FILES = 1000
MAX_SENT_BYTES = 64 * 1024**2  # of all files that a program is granted
_HEAD = struct.Struct("<BI")
_Content = TypeVar("_Content")


class Packet(IntEnum):
    """Kinds of packets. The host sends ORDER, FILES, WIRE and INTERRUPT; the server sends WIRE and the other kinds."""

    ORDER = 1  # a GuestOrder
    FILES = 2  # a part of the granted files
    WIRE = 3  # bytes of the wire protocol
    INTERRUPT = 4  # halt the program
    STARTED = 5  # a StartedGuest
    NOISE = 6  # what the guest process wrote outside the protocol
    EXIT = 7  # a GuestExit, the last packet
    REFUSED = 8  # why there is no guest


class SentFile(msgspec.Struct, frozen=True):
    """A granted file: its name in the guest's working directory, and its size."""

    name: str
    size: int


class GuestOrder(msgspec.Struct, frozen=True):
    """The first packet of the host: which guest to start. The server lowers the limits to its own."""

    language: str
    limits: Limits
    packages: list[str] = []
    files: list[SentFile] = []
    scratch: bool = False
    is_shadow: bool = False


class StartedGuest(msgspec.Struct, frozen=True):
    """The tier of the server's sandbox, as `wall`."""

    wall: str


class GuestExit(msgspec.Struct, frozen=True):
    """How the guest process ended; `reason` and `message` are those of a limit for which the server killed it."""

    code: int
    cpu_seconds: float
    is_out_of_memory: bool = False
    reason: str = ""
    message: str = ""


class PacketError(ValueError):
    """The other side broke the protocol."""


def packet(kind: Packet, data: bytes) -> bytes:
    return _HEAD.pack(kind, len(data)) + data


def json_packet(kind: Packet, message: msgspec.Struct) -> bytes:
    return packet(kind, msgspec.json.encode(message))


async def read_packet(reader: asyncio.StreamReader) -> tuple[Packet, bytes]:
    """Read a packet. Raises PacketError, and EOFError or OSError when the connection is lost."""
    kind, size = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    if size > PACKET_BYTES or kind not in list(Packet):
        raise PacketError(f"invalid packet of kind {kind} with {size:,} bytes (at most {PACKET_BYTES:,})")
    return Packet(kind), await reader.readexactly(size)


def understood(data: bytes, kind: type[_Content]) -> _Content:
    """Decode the content of a packet. Raises PacketError."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise PacketError(f"malformed packet: {error}") from None
