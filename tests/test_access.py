"""Access to a server: tokens added and revoked while it runs, scopes, proxies, and the port for operators."""

from __future__ import annotations

import asyncio
import concurrent.futures
import http.server
import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving import FRUIT, Serving, served
from test_cli import coc as command

pytest.importorskip("starlette", reason="the extra `server` is not installed")

from chainofcode.errors import InputError
from chainofcode.lm import Around
from chainofcode.lm.interface import as_lm
from chainofcode.server.access_tokens import TokenFile, new_token, sha256_of
from chainofcode.server.forwarded import ForwardedRequests
from chainofcode.server.settings import ServerSettings
from chainofcode.server.trace_context import trace_id_of

NOTICED_SECONDS = 10.0  # a second, and the load of the machine
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


def coc(*arguments: str) -> str:
    done = command(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def tokens(server: Serving, *arguments: str) -> str:
    return coc("tokens", "--data", str(server.directory / "data"), *arguments)


def client_with(server: Serving, secret: str) -> httpx.Client:
    return httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {secret}"}, timeout=60)


def eventually(check: Callable[[], bool]) -> bool:
    until = time.monotonic() + NOTICED_SECONDS
    while not (found := check()) and time.monotonic() < until:
        time.sleep(0.05)
    return found


# --- the store ----------------------------------------------------------------------------------------------------


def test_only_token_hash_is_stored(tmp_path: Path) -> None:
    store = TokenFile(tmp_path / "data")
    assert store.tokens() == []
    secret, token = new_token("ann@example.org", budget={"tokens": 5})
    store.add(token)
    (kept,) = TokenFile(tmp_path / "data").tokens()
    assert kept == token and kept.sha256 == sha256_of(secret) and kept.scopes == ("read", "run")
    file = tmp_path / "data" / "tokens.json"
    assert secret not in file.read_text() and file.stat().st_mode & 0o777 == 0o600
    assert len(secret) >= 43 and new_token("ann")[0] != secret
    store.revoke([token.id], 7.0)
    assert [one.revoked for one in store.tokens()] == [7.0], "the store reads its own change"


def test_concurrent_changes_are_all_kept(tmp_path: Path) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: TokenFile(tmp_path).add(new_token(f"user{n}")[1]), range(40)))
    assert {token.owner for token in TokenFile(tmp_path).tokens()} == {f"user{n}" for n in range(40)}
    assert [path.name for path in tmp_path.iterdir()] == ["tokens.json"]


@pytest.mark.parametrize("data", [b"{}", b"[{]", b'[{"owner": "ann"}]', b"\xff"])
def test_damaged_token_file_is_an_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "tokens.json").write_bytes(data)
    with pytest.raises(InputError, match="tokens"):
        TokenFile(tmp_path).tokens()


@pytest.mark.parametrize("name", ["", "a b", "1", "ann\n", "x" * 300, "ann/../bob"])
def test_invalid_owner_names(name: str) -> None:
    with pytest.raises(InputError, match="invalid name"):
        new_token(name)


def test_tokens_are_added_listed_and_revoked_by_command(tmp_path: Path) -> None:
    data = ["--data", str(tmp_path)]
    secret = coc("tokens", "add", "ann", "--expires", "2", "--budget", "money=1.5", "--scope", "metrics", *data)
    coc("tokens", "add", "bob", *data)
    listed = json.loads(coc("tokens", "list", "--json", *data))
    assert [one["owner"] for one in listed] == ["ann", "bob"] and listed[0]["budget"] == {"dollars": 1.5}
    assert listed[0]["scopes"] == ["metrics"] and 0 < listed[0]["expires"] - time.time() < 2 * 86_400 + 60
    assert listed[0]["id"] == sha256_of(secret)[:12] and secret not in json.dumps(listed)
    assert "bob" in coc("tokens", "revoke", listed[1]["id"], *data)
    assert [one["owner"] for one in json.loads(coc("tokens", "--json", *data))] == ["ann"]
    assert len(json.loads(coc("tokens", "--json", "--all", *data))) == 2
    first, second = coc("tokens", "--all", *data).splitlines()
    assert "  ann " in first and " metrics " in first and "  valid until 2" in first and first.endswith("dollars=1.5")
    assert "  bob " in second and "  revoked 2" in second
    for wrong in (
        ["revoke", "bob"],
        ["revoke"],
        ["add"],
        ["add", "x", "--scope", "all"],
        ["add", "x", "--expires", "0"],
    ):
        done = command("tokens", *wrong, *data)
        assert done.returncode == 2, wrong


# --- a running server ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with served(tmp_path_factory.mktemp("access"), "--token", "root=" + "r" * 20, token="r" * 20) as running:
        yield running


def test_added_token_works_until_revoked_which_ends_its_streams(server: Serving) -> None:
    secret = tokens(server, "add", "ann")
    with client_with(server, secret) as ann:
        assert eventually(lambda: ann.get("/api/info").status_code == 200)
        id = ann.post("/api/runs", json={"question": "Sleep"}).json()["id"]
        assert server.client.get(f"/api/runs/{id}").status_code == 404, "the run belongs to ann"
        second = tokens(server, "add", "ann")
        with ann.stream("GET", f"/api/runs/{id}/events") as stream:
            revoked = time.monotonic()
            tokens(server, "revoke", sha256_of(secret)[:12])
            with pytest.raises(httpx.RemoteProtocolError):
                stream.read()
            assert time.monotonic() - revoked < NOTICED_SECONDS + 10
        assert ann.get("/api/info").status_code == 401
    with client_with(server, second) as ann:
        assert ann.get(f"/api/runs/{id}").json()["state"] == "running", (
            "runs continue, and the owner's other tokens can read them"
        )
        assert ann.post(f"/api/runs/{id}/cancel").json()["state"] == "cancelled"
    assert server.client.get("/api/info").status_code == 200


def test_a_token_expires_and_its_streams_end(server: Serving) -> None:
    secret, token = new_token("brief", expires=time.time() + 4)
    TokenFile(server.directory / "data").add(token)
    with client_with(server, secret) as brief:
        assert eventually(lambda: brief.get("/api/info").status_code == 200)
        id = brief.post("/api/runs", json={"question": "Sleep", "detach": False}).json()["id"]
        with brief.stream("GET", f"/api/runs/{id}/events") as stream, pytest.raises(httpx.RemoteProtocolError):
            stream.read()
        assert brief.get("/api/info").status_code == 401


@pytest.mark.parametrize(
    ("scopes", "allowed"),
    [
        (["read"], {"GET /api/runs", "GET /v1/models"}),
        (["run"], {"POST /api/runs", "POST /v1/chat/completions", "DELETE /api/runs/none"}),
        (["metrics"], {"GET /metrics", "GET /readyz"}),
    ],
)
def test_token_is_limited_to_its_scopes(server: Serving, scopes: list[str], allowed: set[str]) -> None:
    requests = {"GET /api/runs", "GET /v1/models", "POST /api/runs", "POST /v1/chat/completions"}
    requests |= {"DELETE /api/runs/none", "GET /metrics", "GET /readyz", "POST /mcp", "GET /mcp"}
    secret, token = new_token("scoped", scopes=scopes)
    TokenFile(server.directory / "data").add(token)
    with client_with(server, secret) as client:
        assert eventually(lambda: client.get("/api/info").status_code != 401)
        found = {}
        for request in requests - {"GET /mcp"} if scopes == ["run"] else requests:
            method, _, path = request.partition(" ")
            reply = client.request(method, path, json={} if method == "POST" else None)
            found[request] = reply.status_code
            if reply.status_code == 403:
                kind = reply.json()["error"]
                assert "insufficient_scope" in (kind.get("code"), kind["type"])
        refused = {request for request, status in found.items() if status == 403}
        assert refused == set(found) - allowed - ({"POST /mcp"} if scopes == ["run"] else set())
        assert 401 not in found.values()


def test_budget_per_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    from endpoint import serving

    content = {"message": {"content": "```python\nanswer = 6 * 7\n```"}}
    with serving({"choices": [content], "usage": {"prompt_tokens": 60, "completion_tokens": 50}}) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{endpoint.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        options = ("--budget", "tokens=1000", "--token", "root=" + "r" * 20)
        with served(tmp_path, *options, token="r" * 20, model="openai:m") as server:
            with client_with(server, tokens(server, "add", "thrifty", "--budget", "tokens=100")) as client:
                assert eventually(lambda: client.get("/api/info").status_code == 200)
                id = client.post("/api/runs", json={"question": "x"}).json()["id"]
                assert eventually(lambda: client.get(f"/api/runs/{id}").json()["state"] == "done")
                refused = client.post("/api/runs", json={"question": "x"})
                assert refused.status_code == 429 and refused.json()["error"]["type"] == "insufficient_quota"
            server.over(server.begin("x"))
            assert server.over(server.begin("x"))["state"] == "done", "other owners have the budget of the server"


def test_first_token_closes_open_server_permanently(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        assert server.client.get("/api/info").status_code == 200
        secret = tokens(server, "add", "ann")
        assert eventually(lambda: server.client.get("/api/info").status_code == 401)
        assert server.client.get("/openapi.json", headers={"authorization": f"Bearer {secret}"}).json()["security"]
        tokens(server, "revoke", "ann")
        assert eventually(lambda: client_with(server, secret).get("/api/info").status_code == 401)
        (tmp_path / "data" / "tokens.json").write_text("no list")
        assert eventually(lambda: any(line["event"] == "tokens not refreshed" for line in server.log))
        (tmp_path / "data" / "tokens.json").unlink()
        time.sleep(1.5)
        assert server.client.get("/api/info").status_code == 401
        assert secret not in json.dumps(server.log)


def test_stored_token_suffices_for_public_host(tmp_path: Path) -> None:
    ServerSettings(tmp_path, (), host="0.0.0.0").check(has_tokens=True)
    with pytest.raises(InputError, match="coc tokens add"):
        ServerSettings(tmp_path, (), host="0.0.0.0").check()


def test_mcp_serves_owner_added_later(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    with served(tmp_path, "--token", "root=" + "r" * 20, token="r" * 20) as server:
        with client_with(server, tokens(server, "add", "late")) as late:
            assert eventually(lambda: late.get("/api/info").status_code == 200)
            for client in (late, server.client):
                reply = client.post("/mcp", json=hello, headers={"accept": "application/json, text/event-stream"})
                assert reply.status_code == 200 and "serverInfo" in reply.text
        assert server.stop() == 0


# --- proxies ------------------------------------------------------------------------------------------------------


def forwarded(client: str, headers: dict[str, str], proxies: tuple[str, ...] = ("127.0.0.1", "10.0.0.0/8")) -> Any:
    """The ASGI scope that a server behind proxies receives."""
    found: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        found.append(scope)

    raw = [(name.lower().encode(), value.encode()) for name, value in {"host": "inner", **headers}.items()]
    scope = {"type": "http", "client": (client, 5), "headers": raw, "scheme": "http", "path": "/"}
    asyncio.run(ForwardedRequests(app, proxies, "X-Forwarded-Email")(scope, None, None))  # type: ignore[arg-type]
    return found[0]


def host_in(scope: Any) -> list[bytes]:
    return [value for name, value in scope["headers"] if name == b"host"]


def test_only_a_trusted_proxy_is_believed() -> None:
    headers = {
        "X-Forwarded-For": "203.0.113.9",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "coc.example",
        "X-Forwarded-Prefix": "/tools/coc/",
        "X-Forwarded-Email": "ann@example.org",
    }
    trusted = forwarded("10.1.2.3", headers)
    assert trusted["client"][0] == "203.0.113.9" and trusted["scheme"] == "https"
    assert host_in(trusted) == [b"coc.example"] and trusted["prefix"] == "/tools/coc"
    assert trusted["user_name"] == "ann@example.org"
    for stranger in ("203.0.113.1", "::1"):
        other = forwarded(stranger, headers)
        assert other["client"][0] == stranger and other["scheme"] == "http" and host_in(other) == [b"inner"]
        assert "user_name" not in other and "prefix" not in other


@pytest.mark.parametrize(
    ("listed", "client"),
    [
        ("198.51.100.7", "198.51.100.7"),
        ("6.6.6.6, 198.51.100.7, 10.9.9.9", "198.51.100.7"),  # entries sent by the client come first
        ("198.51.100.7:4711", "198.51.100.7"),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("10.0.0.1, 10.0.0.2", "10.0.0.1"),
        ("6.6.6.6, unknown, 10.0.0.2", "10.0.0.2"),
        ("", "127.0.0.1"),
        ("nonsense", "127.0.0.1"),
    ],
)
def test_last_untrusted_address_is_the_client(listed: str, client: str) -> None:
    assert forwarded("127.0.0.1", {"X-Forwarded-For": listed})["client"][0] == client


@pytest.mark.parametrize("prefix", ["//evil.example", "/a/../b c", "https://x", "/é", "x"])
def test_invalid_prefix_is_ignored(prefix: str) -> None:
    assert "prefix" not in forwarded("127.0.0.1", {"X-Forwarded-Prefix": prefix})


def test_user_authenticated_by_proxy(tmp_path: Path) -> None:
    options = ("--proxy", "127.0.0.1", "--user-header", "X-Forwarded-Email", "--allow-host", "coc.example")
    with served(tmp_path, *options) as server:
        assert server.client.get("/api/info").status_code == 401
        ann = {"x-forwarded-email": "ann@example.org", "x-forwarded-host": "coc.example", "x-forwarded-proto": "https"}
        begun = server.client.post(
            "/api/runs",
            json={"question": FRUIT},
            headers={
                **ann,
                "x-forwarded-prefix": "/coc",
                "x-forwarded-for": "203.0.113.9",
                "origin": "https://coc.example",
            },
        )
        assert begun.status_code == 202
        path = f"/api/runs/{begun.json()['id']}"
        assert begun.headers["location"] == f"/coc{path}"
        assert server.client.get(path, headers=ann).status_code == 200
        assert server.client.get(path, headers={"x-forwarded-email": "bob@example.org"}).status_code == 404
        for wrong in ("a b", "<script>", "x" * 300, ",", "x,ann@example.org", "x, ann@example.org"):
            assert server.client.get(path, headers={"x-forwarded-email": wrong}).status_code == 401
        twice = [("x-forwarded-email", name) for name in ("bob@example.org", "ann@example.org")]
        assert server.client.get(path, headers=twice).status_code == 401
        assert server.client.get("/metrics", headers=ann).status_code == 403, "a user is not an operator"
        assert server.client.get(path, headers={**ann, "authorization": "Bearer wrong"}).status_code == 401
        assert server.client.get(path, headers={**ann, "x-forwarded-host": "evil.example"}).status_code == 421
        assert server.client.get(path, headers={**ann, "origin": "http://coc.example"}).status_code == 403
        with client_with(server, tokens(server, "add", "ann@example.org")) as client:
            assert eventually(lambda: client.get(path).status_code == 200), (
                "a token with the same owner has the same runs"
            )
        assert any(line.get("client") == "203.0.113.9" for line in server.log)


def test_forwarded_headers_from_untrusted_hosts_are_ignored(tmp_path: Path) -> None:
    options = ("--proxy", "192.0.2.1", "--user-header", "X-Forwarded-Email")
    with served(tmp_path, *options) as server:
        headers = {"x-forwarded-email": "ann@example.org", "x-forwarded-for": "203.0.113.9"}
        assert server.client.get("/api/info", headers=headers).status_code == 401
        assert eventually(lambda: any(line["event"] == "request" for line in server.log))
        assert not any(line.get("client") == "203.0.113.9" for line in server.log)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"proxies": ("proxy.example",)}, "--proxy must be"),
        ({"proxies": ("127.0.0.1",)}, "a server behind a proxy can be reached from other machines"),
        ({"user_header": "X-User"}, "--user-header needs --proxy"),
        ({"user_header": "X User", "proxies": ("::1",)}, "name of a header"),
        ({"tokens": {"ann": "a" * 32, "bob": "a" * 32}}, "two tokens have the same secret"),
        ({"origins": ("example.org",)}, "--allow-origin must be an origin"),
    ],
)
def test_unsafe_settings_are_rejected(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ServerSettings(tmp_path, (), **options).check()


# --- operators ----------------------------------------------------------------------------------------------------


def test_admin_port_needs_no_token_and_serves_only_operators(tmp_path: Path) -> None:
    with served(tmp_path, "--admin-port", "0", "--token", "t" * 20, token="t" * 20) as server:
        (url,) = [line["admin"] for line in server.log if line["event"] == "serving"]
        with httpx.Client(base_url=url, timeout=30) as operator:
            assert operator.get("/readyz").json() == {"status": "ready", "problems": {}}
            assert "# TYPE coc_runs_total counter" in operator.get("/metrics").text
            assert operator.get("/healthz").status_code == 200
            for path in ("/", "/api/info", "/api/runs", "/openapi.json", "/v1/models", "/static/app.js"):
                assert operator.get(path).status_code == 404, path
            assert operator.post("/api/runs", json={"question": FRUIT}).status_code == 404
            assert operator.get("/metrics", headers={"host": "evil.example"}).status_code == 421
            assert operator.get("/metrics", headers={"origin": "https://evil.example"}).status_code == 403
        assert httpx.get(f"{server.url}/metrics").status_code == 401
        assert server.stop() == 0


def test_stopping_server_answers_but_starts_no_runs(tmp_path: Path) -> None:
    with served(tmp_path, "--admin-port", "0") as server, concurrent.futures.ThreadPoolExecutor() as pool:
        (admin,) = [line["admin"] for line in server.log if line["event"] == "serving"]
        id = server.begin("A little rest")
        server.until(id, "running")
        events = pool.submit(server.events, id)
        server.process.send_signal(signal.SIGTERM)
        assert eventually(lambda: any(line["event"] == "stopping" for line in server.log))
        for url in (server.url, admin):  # new connections
            assert httpx.get(f"{url}/healthz").status_code == 200
            ready = httpx.get(f"{url}/readyz", timeout=30)
            assert ready.status_code == 503 and ready.json()["problems"]["server"] == "shutting down"
        refused = httpx.post(f"{server.url}/api/runs", json={"question": FRUIT})
        assert refused.status_code == 503 and int(refused.headers["retry-after"]) >= 1
        assert httpx.get(f"{server.url}/api/runs/{id}").status_code == 200
        assert events.result()[-1]["data"] == {"state": "done"}
        assert server.process.wait(60) == 0


class Endpoint(http.server.ThreadingHTTPServer):
    """An OpenAI-compatible endpoint that only lists models."""

    def __init__(self, status: int, models: list[str]) -> None:
        body = json.dumps({"object": "list", "data": [{"id": name} for name in models] or None}).encode()
        self.paths: list[str] = []
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                endpoint.paths.append(self.path)
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


@pytest.mark.parametrize(
    ("status", "models", "model", "problem"),
    [
        (200, ["any"], "openai:other", ""),
        (401, [], "openai:other", ""),
        (404, [], "openai:other", ""),
        (503, [], "openai:other", "returns HTTP 503"),
        (200, ["llama3.2:latest"], "ollama:llama3.2", ""),
        (200, [], "ollama:llama3.2", "run 'ollama pull llama3.2'"),
        (200, ["other"], "ollama:llama3.2", "model 'llama3.2' not found"),
    ],
)
def test_problem_of_a_model_is_found_without_a_completion(
    monkeypatch: pytest.MonkeyPatch, status: int, models: list[str], model: str, problem: str
) -> None:
    from chainofcode.lm import connect

    pytest.importorskip("openai")
    with Endpoint(status, models) as endpoint:
        lm = connect(model, base_url=f"http://127.0.0.1:{endpoint.server_port}/v1")
        found = asyncio.run(lm.problem())
        endpoint.shutdown()
    assert (problem in found) if problem else found == ""
    assert endpoint.paths == ["/v1/models"]


def test_missing_weights_are_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from chainofcode.lm import connect

    pytest.importorskip("xllamacpp")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "coc models pull" in asyncio.run(connect("local:qwen2.5-coder-1.5b").problem())
    (tmp_path / "a.gguf").write_bytes(b"x")
    lm = connect(f"local:{tmp_path / 'a.gguf'}")
    assert asyncio.run(lm.problem()) == ""
    (tmp_path / "a.gguf").unlink()
    assert "there is no model file" in asyncio.run(lm.problem())


def test_readiness_includes_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "secret-of-the-model")
    with served(tmp_path, model="openai:some") as server:
        ready = server.client.get("/readyz")
        assert ready.status_code == 503 and list(ready.json()["problems"]) == ["model"]
        assert "cannot be reached" in ready.json()["problems"]["model"] and "secret" not in ready.text


def test_readiness_probes_are_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    with Endpoint(200, []) as endpoint:
        monkeypatch.setenv("OLLAMA_HOST", f"http://127.0.0.1:{endpoint.server_port}")
        with served(tmp_path, model="ollama:llama3.2") as server:
            replies = [server.client.get("/readyz") for _ in range(5)]
            assert {reply.status_code for reply in replies} == {503}
            assert "ollama pull llama3.2" in replies[-1].json()["problems"]["model"]
            assert 1 <= len(endpoint.paths) < 5
        endpoint.shutdown()


def test_third_party_provider_can_report_its_problem() -> None:
    class Asleep:
        name = "asleep:m"

        async def complete(self, messages: Any, **options: Any) -> Any:
            raise AssertionError("a readiness check sends no request")

        async def problem(self) -> str:
            return "asleep until nine"

    assert asyncio.run(Around(as_lm(Asleep())).problem()) == "asleep until nine"


LOADING = """
import asyncio, pathlib
from chainofcode.lm import LM, Completion

class Loading(LM):
    name, outcome = "loading:m", pathlib.Path("{outcome}")

    async def prepare(self, messages=()):
        while not self.outcome.exists():
            await asyncio.sleep(0.02)
        if self.outcome.read_text() != "loaded":
            raise OSError(self.outcome.read_text())

    async def complete(self, messages, **options):
        await self.prepare()
        return [Completion(text="```python\\nanswer = 7\\n```")]

def connect(model, *, base_url=None, api_key=None):
    return Loading()
"""


@pytest.fixture
def outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that ends the loading of `loading:m`, a model of another package; its text is `loaded` or an error."""
    package = tmp_path / "package"
    (package / "loading-1.0.dist-info").mkdir(parents=True)
    (package / "loading-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: loading\nVersion: 1.0\n")
    entry = "[chainofcode.providers]\nloading = loading:connect\n"
    (package / "loading-1.0.dist-info" / "entry_points.txt").write_text(entry)
    (package / "loading.py").write_text(LOADING.format(outcome=tmp_path / "outcome"))
    monkeypatch.setenv("PYTHONPATH", str(package))
    return tmp_path / "outcome"


def test_model_that_raises_its_own_exception_is_unavailable(outcome: Path, tmp_path: Path) -> None:
    outcome.write_text("no such device")
    with served(tmp_path, model="loading:m") as server:
        assert eventually(lambda: any(line["event"] == "model unavailable" for line in server.log))
        (line, *_) = [line for line in server.log if line["event"] == "model unavailable"]
        assert (line["model"], line["why"]) == ("loading:m", "OSError: no such device")
        assert "unavailable" in server.client.get("/api/info").json()["waiting_for"]["loading:m"]


def test_readiness_waits_for_the_model_to_load(outcome: Path, tmp_path: Path) -> None:
    with served(tmp_path, model="loading:m") as server:
        ready = server.client.get("/readyz")
        assert ready.status_code == 503 and ready.json()["problems"] == {"model": "loading:m: starting"}
        assert server.client.get("/healthz").status_code == 200
        outcome.write_text("loaded")
        assert eventually(lambda: server.client.get("/readyz").status_code == 200)


@pytest.mark.nightly
def test_failed_model_load_is_retried(outcome: Path, tmp_path: Path) -> None:
    """It is retried without a request, because a server that is not ready receives none."""
    outcome.write_text("no such device")
    with served(tmp_path, model="loading:m") as server:
        assert eventually(lambda: any(line["event"] == "model unavailable" for line in server.log))
        ready = server.client.get("/readyz")
        assert ready.status_code == 503 and "no such device" not in ready.text
        assert "loading:m: unavailable" in ready.json()["problems"]["model"]
        assert server.client.get("/healthz").status_code == 200
        outcome.write_text("loaded")
        assert any(eventually(lambda: any(line["event"] == "model ready" for line in server.log)) for _ in range(3))
        assert server.client.get("/readyz").status_code == 200
        assert server.client.get("/api/info").json()["waiting_for"] == {}


# --- traces of clients --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        "",
        "00",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"{PARENT}-x",
        PARENT.upper(),
    ],
)
def test_invalid_traceparent_is_ignored(header: str) -> None:
    assert trace_id_of(header) == ""


def test_a_traceparent_is_in_the_log_and_the_response(tmp_path: Path) -> None:
    assert trace_id_of(PARENT) == trace_id_of(f"cc-{TRACE}-{SPAN}-01-later") == TRACE
    with served(tmp_path) as server:
        reply = server.client.post("/api/runs", json={"question": FRUIT}, headers={"traceparent": PARENT})
        assert reply.headers["traceparent"] == PARENT
        server.over(reply.json()["id"])
        other = server.begin()
        server.over(other)
        assert eventually(lambda: sum(line["event"] == "run ended" for line in server.log) == 2)
        lines = {(line["event"], line.get("run")): line.get("trace_id") for line in server.log if "run" in line}
        assert lines["run ended", reply.json()["id"]] == lines["run queued", reply.json()["id"]] == TRACE
        assert lines["run ended", other] is None
        assert "traceparent" not in server.client.get("/api/info").headers
