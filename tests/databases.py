"""A PostgreSQL server for the tests, with a private directory and a free loopback port, as an unprivileged user."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_NUMBERS = itertools.count()


def postgres_programs() -> Path | None:
    """The directory of Debian's newest PostgreSQL, or that of `postgres` on the path."""
    found = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if (path / "initdb").exists()]
    known = shutil.which("initdb")
    return max(found, default=Path(known).resolve().parent if known else None, key=str)


@functools.cache
def _user() -> pwd.struct_passwd | None:
    """Another user if this process is root, because PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    pytest.skip("PostgreSQL does not run as root, and there is no other user")


class PostgresServer:
    """`url` is the address of its databases; `stop` and `start` restart it."""

    def __init__(self, programs: Path, directory: Path) -> None:
        self._programs, self._data, self._user = programs, directory / "data", _user()
        if self._user is not None:
            os.chown(directory, self._user.pw_uid, self._user.pw_gid)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._run("initdb", "-D", str(self._data), "-U", "coc", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def _command(self, program: str, *options: str) -> list[str]:
        prefix = [] if self._user is None else ["setpriv", "--reuid", self._user.pw_name, "--regid"]
        prefix += [] if self._user is None else [str(self._user.pw_gid), "--clear-groups"]
        return [*prefix, str(self._programs / program), *options]

    def _run(self, program: str, *options: str) -> None:
        done = subprocess.run(self._command(program, *options), capture_output=True, text=True, cwd="/", timeout=120)
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        options = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": 200,
        }
        given = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        command = self._command("postgres", "-D", str(self._data), *given)
        log = subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
        deadline = time.monotonic() + 60
        ready = self._command("pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port))
        while subprocess.run(ready, cwd="/").returncode != 0:
            assert self._process.poll() is None and time.monotonic() < deadline, "PostgreSQL did not start"
            time.sleep(0.1)

    def stop(self) -> None:
        """Break all connections and stop."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(60)
            self._process = None

    def database(self) -> str:
        """The address of a new database."""
        name = f"t{next(_NUMBERS)}_{os.getpid()}"
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "coc", name)
        return f"postgresql://coc@127.0.0.1:{self.port}/{name}"


@contextlib.contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A new server; skips the test if PostgreSQL is not installed."""
    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    programs = postgres_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    with tempfile.TemporaryDirectory(prefix="coc-postgres-") as place:
        os.chmod(place, 0o755)
        server = PostgresServer(programs, Path(place))
        try:
            yield server
        finally:
            server.stop()


__all__ = ["PostgresServer", "postgres_server"]
