"""Tokens in PostgreSQL: additions and revocations apply to every server, also after an outage of the database."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed")
pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")

import psycopg
from databases import PostgresServer, postgres_server
from serving import Serving, served

from chainofcode.errors import InputError
from chainofcode.server.access_tokens import TokenFile, new_token, sha256_of
from chainofcode.server.postgres import schema
from chainofcode.server.postgres.connections import connected
from chainofcode.server.postgres.shared_tokens import SharedTokens
from chainofcode.server.quotas import today

NOTICED_SECONDS = 10.0  # a second, plus delays on a busy machine
ROOT = "r" * 20


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


def coc(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "chainofcode", "tokens", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **variables})


def tokens(url: str, *arguments: str) -> str:
    done = coc("--store", url, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def becomes_true(check: Callable[[], bool]) -> bool:
    until = time.monotonic() + NOTICED_SECONDS
    while not (found := check()) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def holder(server: Serving, secret: str) -> httpx.Client:
    return httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {secret}"}, timeout=60)


@contextlib.contextmanager
def pair(directory: Path, url: str, *options: str) -> Iterator[tuple[Serving, Serving]]:
    shared = ("--store", url, "--objects", str(directory / "objects"), "--token", f"root={ROOT}", *options)
    with contextlib.ExitStack() as stack:
        both = []
        for name in ("one", "two"):
            (directory / name).mkdir()
            both.append(stack.enter_context(served(directory / name, *shared, token=ROOT)))
        yield both[0], both[1]


# --- the store ----------------------------------------------------------------------------------------------------


def test_only_hashes_are_stored(postgres: PostgresServer) -> None:
    url = postgres.database()
    with contextlib.closing(SharedTokens(url)) as store, contextlib.closing(SharedTokens(url)) as other:
        assert store.tokens() == []
        secret, token = new_token("ann@example.org", scopes=("read",), expires=9e9, budget={"tokens": 5})
        store.add(token)
        assert other.tokens() == [token]
        with connected(url) as connection:
            rows = connection.execute("SELECT sha256, record FROM tokens").fetchall()
        assert [row[0] for row in rows] == [sha256_of(secret)] and secret.encode() not in bytes(rows[0][1])
        other.revoke([token.id], 7.0)
        assert [one.revoked for one in store.tokens()] == [7.0]


def test_concurrent_changes_are_all_kept(postgres: PostgresServer) -> None:
    with (
        contextlib.closing(SharedTokens(postgres.database())) as store,
        concurrent.futures.ThreadPoolExecutor(8) as pool,
    ):
        made = [new_token(f"user{n}")[1] for n in range(24)]
        list(pool.map(store.add, made))
        list(pool.map(lambda token: store.revoke([token.id], 7.0), made[:12]))
        assert {token.owner for token in store.tokens()} == {f"user{n}" for n in range(24)}
        assert {token.owner for token in store.tokens() if token.revoked} == {f"user{n}" for n in range(12)}


def test_database_of_an_older_version_is_upgraded(postgres: PostgresServer) -> None:
    url = postgres.database()
    with connected(url) as connection:
        schema.prepare(connection)
        connection.execute("DROP TABLE tokens")
        connection.execute("UPDATE version SET number = 1")
    with contextlib.closing(SharedTokens(url)) as store:
        store.add(new_token("ann")[1])
    with connected(url) as connection:
        schema.prepare(connection)  # nothing is left to do
        assert connection.execute("SELECT number, (SELECT count(*) FROM tokens) FROM version").fetchall() == [(3, 1)]
        connection.execute("UPDATE version SET number = 4")
        with pytest.raises(InputError, match="newer version"):
            SharedTokens(url)


def test_database_errors_are_input_errors(postgres: PostgresServer) -> None:
    url = postgres.database()
    with contextlib.closing(SharedTokens(url)) as store:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP TABLE chainofcode.tokens")
        with pytest.raises(InputError, match="cannot store tokens"):
            store.tokens()


def test_tokens_command_uses_the_database(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.database()
    secret = tokens(url, "add", "ann", "--budget", "money=1.5", "--scope", "metrics")
    assert coc("add", "bob", COC_STORE=url).returncode == 0
    listed = json.loads(tokens(url, "list", "--json"))
    assert [(one["owner"], one["scopes"], one["budget"]) for one in listed] == [
        ("ann", ["metrics"], {"dollars": 1.5}),
        ("bob", ["read", "run"], {}),
    ]
    assert listed[0]["id"] == sha256_of(secret)[:12]
    tokens(url, "revoke", "ann")
    assert [one["owner"] for one in json.loads(tokens(url, "--json"))] == ["bob"]
    elsewhere = coc("list", "--json", "--data", str(tmp_path), COC_STORE=url)
    assert json.loads(elsewhere.stdout) == [], "--data does not override COC_STORE"
    for options, message in (
        (["--store", url, "--data", str(tmp_path)], "--data and --store cannot be combined"),
        (["--store", "mysql://x"], "--store must be an address such as postgresql://"),
        (["--store", "postgresql://127.0.0.1:1/x"], "cannot use the PostgreSQL database"),
    ):
        done = coc(*options)
        assert done.returncode == 2 and message in done.stderr, done.stderr


# --- running servers ----------------------------------------------------------------------------------------------


def test_changes_of_tokens_apply_to_every_server(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.database()
    with pair(tmp_path, url) as (one, two):
        secret = tokens(url, "add", "ann")
        with holder(one, secret) as here, holder(two, secret) as there:
            for client in (here, there):
                assert becomes_true(lambda client=client: client.get("/api/info").status_code == 200)  # type: ignore[misc]
                assert client.get("/metrics").status_code == 403, "the token lacks this scope"
            id = here.post("/api/runs", json={"question": "Sleep"}).json()["id"]
            assert there.get(f"/api/runs/{id}").status_code == 200
            assert two.client.get(f"/api/runs/{id}").status_code == 404, "the run belongs to ann"
            with there.stream("GET", f"/api/runs/{id}/events") as stream:
                tokens(url, "revoke", "ann")
                revoked = time.monotonic()
                with pytest.raises(httpx.RemoteProtocolError):
                    stream.read()
                assert time.monotonic() - revoked < NOTICED_SECONDS
            assert becomes_true(lambda: here.get("/api/info").status_code == 401)
            assert there.get("/api/info").status_code == 401
        own, token = new_token("bob")
        TokenFile(one.directory / "data").add(token)  # of one server only
        with holder(one, own) as here, holder(two, own) as there:
            assert becomes_true(lambda: here.get("/api/info").status_code == 200)
            assert there.get("/api/info").status_code == 401


@pytest.mark.nightly
def test_tokens_while_postgresql_restarts(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.database()
    secret, kept = tokens(url, "add", "ann"), tokens(url, "add", "bob")
    with pair(tmp_path, url) as (one, two):
        postgres.stop()
        try:
            time.sleep(2.5)  # the servers have noticed
            for server in (one, two):
                with holder(server, secret) as ann:
                    assert ann.get("/api/info").status_code == 200
                assert any(line["event"] == "tokens not refreshed" for line in server.log)
            assert coc("--store", url, "revoke", "ann").returncode == 2
        finally:
            postgres.start()
        tokens(url, "revoke", "ann")
        for server in (one, two):
            with holder(server, secret) as ann, holder(server, kept) as bob:
                assert becomes_true(lambda ann=ann: ann.get("/api/info").status_code == 401)  # type: ignore[misc]
                assert bob.get("/api/info").status_code == 200


def test_budget_of_a_token_includes_spending_on_other_servers(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.database()
    secret = tokens(url, "add", "ann", "--budget", "tokens=100")
    with pair(tmp_path, url) as both:
        for server in both:
            with holder(server, secret) as ann:
                assert ann.post("/api/runs", json={"question": "A little"}).status_code == 202
        with connected(url) as connection:  # as a third server would
            spending = """INSERT INTO spent VALUES (%s, 'ann', 100, 0)
ON CONFLICT (day, owner) DO UPDATE SET tokens = spent.tokens + excluded.tokens"""
            connection.execute(spending, (today(),))
        for server in both:
            with holder(server, secret) as ann:
                refused = lambda ann=ann: ann.post("/api/runs", json={"question": "A little"}).status_code == 429  # noqa: E731
                assert becomes_true(refused)
