"""Guests on the nodes of a Ray cluster, in the same sandbox as on this machine.

The host keeps the session with each guest: it checks every frame, asks models and writes the trace. A node starts
guests, passes bytes on and enforces limits. It gets programs and their data, but no key and no token.
Covered: a node that is lost (`WorkerLostError`), nodes that join later, a host that is killed: Ray ends its actors,
and their guests with them. Messages have at most 64 KiB, so that Ray sends them directly and stores none of them.
Not covered: Ray itself. Its messages are pickles: a process that controls one node can control the hosts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import ray
from ray.exceptions import RayError
from ray.job_config import JobConfig
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ..errors import InputError, SandboxError, WorkerLostError
from .handle import SandboxStatus
from .job import Job
from .packages import Grant
from .pipes import Pipes
from .ray_node import MESSAGE_BYTES, GuestNode, GuestSettings, NodeStatus, Received, StartReply, ready, write_all
from .session import Exit, Session, session_of

_CONNECT_SECONDS = 5.0
_START_SECONDS = 120.0  # as a local zygote
_REFRESH_SECONDS = 1.0  # between requests for the list of nodes
_WAIT_SECONDS = 600.0  # how long a program waits for a node
_FIRST_SECONDS = 60.0  # for the first node to join and to build its sandbox
_RETRY_SECONDS = 10.0  # before a node that failed is tried again
_MAX_CALLS = 10_000  # concurrent calls of one node: each guest has one that waits


@contextlib.contextmanager
def joined(address: str | None) -> Iterator[None]:
    """Use the Ray cluster at an address: `auto` for that of this machine, None for a new one. Raises InputError."""
    starts_ray = not ray.is_initialized()
    if starts_ray:
        try:
            _check_reachable(address or "")
            ray.init(
                address=address,
                log_to_driver=False,
                include_dashboard=False,
                logging_level=logging.ERROR,
                job_config=_job_config(),
            )
        except (OSError, RayError, ValueError, RuntimeError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise InputError(f"there is no Ray cluster at {address}: {reason}") from None
    try:
        yield
    finally:
        if starts_ray:
            ray.shutdown()


class _NoPaths(list[str]):
    """A list that stays empty."""

    def extend(self, paths: Iterable[str]) -> None:
        """Drop the paths."""


def _job_config() -> JobConfig:
    """Return settings that keep Ray's workers from importing modules from this process's working directory.

    Ray would add it before all others, and the workers have the keys of models. It has no option to turn this off.
    """
    config = JobConfig()
    config._py_driver_sys_path = _NoPaths()
    return config


def _check_reachable(address: str) -> None:
    """Raise OSError if nothing listens at HOST:PORT: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "://" not in address:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()


class RayGuest:
    """A guest on a node of the cluster. Its pipes on this machine are connected to it through the node."""

    pid = 0  # it is on another machine

    def __init__(self, node: Any, id: str, described: StartReply) -> None:
        self._node, self._id = node, id
        self.wall, self.counts_processes = described.wall, described.counts_processes
        self.grant = Grant(modules=described.modules, search=described.search)
        read_fd, self._data = os.pipe()
        self._to_guest, write_fd = os.pipe()
        noise_fd, self._noise = os.pipe()
        exit_fd, self._exited = os.pipe()
        self._open = {self._data, self._to_guest, self._noise, self._exited}
        for fd in self._open:
            os.set_blocking(fd, False)
        self.wire = Pipes(read_fd=read_fd, write_fd=write_fd, noise_fd=noise_fd, exit_fd=exit_fd)
        self._exit: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self._is_lost = False
        self._tasks = [asyncio.create_task(work) for work in (self._send_all(), self._receive_all())]

    @classmethod
    async def started(cls, node: Any, job: Job) -> RayGuest:
        id = secrets.token_hex(8)
        try:
            async with asyncio.timeout(_START_SECONDS):
                reply = await node.start.remote(id, msgspec.msgpack.encode(GuestSettings.of(job)))
        except (RayError, TimeoutError):
            node.end.remote(id)
            raise WorkerLostError("a Ray worker was lost before it started the program") from None
        except asyncio.CancelledError:
            node.end.remote(id)
            raise
        described = msgspec.msgpack.decode(reply, type=StartReply)
        if described.problem:
            raise (InputError if described.is_input else SandboxError)(described.problem)
        return cls(node, id, described)

    async def _send_all(self) -> None:
        with contextlib.suppress(RayError):  # `_receive_all` notices, too
            while True:
                await ready([self._to_guest])
                await self._node.send.remote(self._id, os.read(self._to_guest, MESSAGE_BYTES))

    async def _receive_all(self) -> None:
        while not self._exit.done():
            try:
                received = msgspec.msgpack.decode(await self._node.receive.remote(self._id), type=Received)
            except (RayError, msgspec.DecodeError):
                self._is_lost = True
                received = Received(is_closed=True, exit=Exit(-9, 0.0))
            await write_all(self._data, received.data)
            await write_all(self._noise, received.noise)
            if received.is_closed:
                self._close(self._data)
            if received.exit is not None:
                self._exit.set_result(received.exit)
                self._close(self._exited)

    def _close(self, fd: int) -> None:
        if fd in self._open:
            self._open.remove(fd)
            os.close(fd)

    def interrupt(self) -> None:
        self._node.interrupt.remote(self._id)

    def kill(self) -> None:
        if not self._exit.done():
            self._node.kill.remote(self._id)

    async def wait(self) -> Exit:
        ended = await asyncio.shield(self._exit)
        if self._is_lost:
            raise WorkerLostError("the Ray worker that ran the program was lost")
        return ended

    async def close(self) -> None:
        self._node.end.remote(self._id)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for fd in list(self._open):
            self._close(fd)
        self.wire.close()


@dataclass(eq=False)
class _Node:
    actor: Any
    cpus: float
    status: SandboxStatus
    guests: int = 0


class RaySandbox:
    """Runs programs on the nodes of a Ray cluster that have CPUs. Use it in one event loop, and close it.

    A program goes to the node with the fewest guests per CPU. Ray itself does not count guests.
    """

    def __init__(self, address: str = "auto", *, at_least: str = "", spares: int = 1) -> None:
        self._cluster = contextlib.ExitStack()
        self._cluster.enter_context(joined(address))
        self._settings = (at_least, spares)
        self._nodes: dict[str, _Node] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._looked, self._problem = -_REFRESH_SECONDS, ""

    def close(self) -> None:
        self._cluster.close()

    @asynccontextmanager
    async def start(self, job: Job) -> AsyncIterator[Session]:
        node = await self._free_node(_WAIT_SECONDS)
        node.guests += 1
        try:
            guest = await RayGuest.started(node.actor, job)
            async with session_of(guest, job, guest.grant) as session:
                yield session
        except WorkerLostError:
            self._nodes = {id: other for id, other in self._nodes.items() if other is not node}
            raise
        finally:
            node.guests -= 1

    async def status(self) -> SandboxStatus:
        """Return the sandbox status of a node. Raises SandboxError if no node can start guests."""
        return (await self._free_node(_FIRST_SECONDS)).status

    async def _free_node(self, seconds: float) -> _Node:
        until = time.monotonic() + seconds
        while True:
            if time.monotonic() - self._looked > _REFRESH_SECONDS and (self._looking is None or self._looking.done()):
                self._looked, self._looking = time.monotonic(), asyncio.create_task(self._look())
            if self._nodes:
                return min(self._nodes.values(), key=lambda node: node.guests / node.cpus)
            if time.monotonic() > until:
                raise SandboxError(
                    f"no Ray worker can run programs: {self._problem or 'no node of the cluster has a CPU'}"
                )
            await asyncio.sleep(0.05)

    async def _look(self) -> None:
        """Notice nodes that joined or left the cluster."""
        cluster: Any = ray
        try:
            found = await asyncio.to_thread(cluster.nodes)
        except (RayError, ConnectionError, RuntimeError) as error:
            self._problem = str(error)[:300]
            return
        cpus = {node["NodeID"]: node["Resources"].get("CPU", 0.0) for node in found if node["Alive"]}
        usable = {id for id, count in cpus.items() if count > 0}
        if cluster.get_runtime_context().get_node_id() not in cpus:  # calls to other nodes would fail, too
            self._problem, usable = "the Ray node of this machine has died; restart it, and then this server", set()
        self._nodes = {id: node for id, node in self._nodes.items() if id in usable}
        for id in usable - self._nodes.keys() - self._opening.keys():
            self._opening[id] = asyncio.create_task(self._add(id, cpus[id]))

    async def _add(self, id: str, cpus: float) -> None:
        """Use a node as soon as its sandbox is built."""
        place = NodeAffinitySchedulingStrategy(id, soft=False)
        remote: Any = ray.remote
        kind = remote(num_cpus=0, max_concurrency=_MAX_CALLS, scheduling_strategy=place)(GuestNode)
        try:
            actor = kind.remote(*self._settings)
            found = msgspec.msgpack.decode(await actor.status.remote(), type=NodeStatus)
            if found.sandbox is not None:
                self._nodes[id] = _Node(actor, cpus, found.sandbox)
            self._problem = found.problem
        except (RayError, msgspec.DecodeError) as error:
            self._problem = str(error)[:300]
        if id not in self._nodes:
            await asyncio.sleep(_RETRY_SECONDS)
        del self._opening[id]
