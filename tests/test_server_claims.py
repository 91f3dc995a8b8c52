"""Promises of SECURITY.md about `coc serve` that no other test proves: grants, other clients, logs, files, storage."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import has_tier
from serving import Serving, served

pytest.importorskip("starlette", reason="the extra `server` is not installed")

TOKENS = {"ann": "a-token-of-ann-1234567890", "bob": "b-token-of-bob-1234567890"}
NAMED = [part for name, secret in TOKENS.items() for part in ("--token", f"{name}={secret}")]


def client_of(server: Serving, name: str) -> httpx.Client:
    return httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {TOKENS[name]}"}, timeout=60)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    options = [*NAMED, "--rate", "100000", *(["--scratch"] if has_tier("A") else [])]
    with served(tmp_path_factory.mktemp("claims"), *options, token=TOKENS["ann"]) as running:
        yield running


# --- what clients can request -------------------------------------------------------------------------------------

GRANTS: dict[str, Any] = {
    "packages": ["numpy"], "allow_package": ["numpy"], "reads": ["/etc"], "allow_read": ["/etc"], "scratch": True,
    "sandbox": "none", "tools": ["os:system"], "mcp": ["true"], "openapi": "http://127.0.0.1:9/x", "settings": {},
    "limits": {"memory_bytes": 10**15, "run_seconds": 10**9}, "prelude": "x = 1", "policy": "paper", "owner": "bob",
    "base_url": "http://127.0.0.1:9", "api_key": "x", "database": "/etc/passwd", "trace": "/etc/passwd",
}  # fmt: skip
PROGRAM = (
    "import os\ntried = []\nfor act in (lambda: open('/etc/passwd'), lambda: os.listdir('/home'), lambda: os.fork(),\n"
    "            lambda: __import__('numpy')):\n"
    "    try:\n        act()\n        tried.append('done')\n    except (OSError, ImportError):\n        tried.append('refused')\n"
    "answer = tried"
)


@pytest.mark.parametrize("grant", GRANTS)
def test_requests_cannot_grant_anything(server: Serving, grant: str) -> None:
    """Not at any endpoint that starts a run: a field that is unknown is refused, or has no effect."""
    first = {"question": "x", grant: GRANTS[grant]}
    assert server.client.post("/api/runs", json=first).status_code == 400
    begun = server.client.post("/api/runs", json={"program": PROGRAM, grant: GRANTS[grant]})
    assert begun.status_code == 400, begun.text
    id = server.client.post("/api/runs", json={"program": PROGRAM}).json()["id"]
    assert server.over(id)["value"] == ["refused"] * 4
    for path in (f"/api/runs/{id}/replay", f"/api/runs/{id}/resume"):
        reply = server.client.post(path, json={grant: GRANTS[grant]})
        assert reply.status_code in (400, 409), (path, reply.text)


# --- other clients ------------------------------------------------------------------------------------------------


def test_clients_see_nothing_of_each_other(server: Serving) -> None:
    """Bob tries every path of the API document, with every method, with the ids of Ann's runs, files and questions."""
    data = b"n\n47114711\n"
    file = server.client.post("/api/files", params={"name": "ann.csv"}, content=data).json()["id"]
    body = {"program": "answer = 'text-of-ann' + approve('x')", "ask_me": "approve", "question": "question-of-ann"}
    waiting = str(server.client.post("/api/runs", json=body).json()["id"])
    server.until(waiting, "waiting")
    (question,) = server.client.get("/api/questions", params={"run": waiting}).json()["questions"]
    over = str(server.client.post("/api/runs", json={"program": "answer = 'text-of-ann'"}).json()["id"])
    server.over(over)
    paths = server.client.get("/openapi.json").json()["paths"]
    tried = 0
    with client_of(server, "bob") as bob:
        for path, methods in paths.items():
            for id in (waiting, over, file, question["id"]):
                filled = re.sub(r"\{[^}]*\}", id, path)
                for method in set(methods) & {"get", "post", "put", "delete", "patch"} if filled != path else ():
                    reply = bob.request(method, filled, json={"value": "x"} if method == "post" else None)
                    assert reply.status_code in (400, 404, 405), (method, filled, reply.text[:200])
                    assert "of-ann" not in reply.text
                    tried += 1
        assert tried > 30
        reply = bob.post("/api/runs", json={"program": "answer = 1", "files": [file]})
        assert reply.status_code == 404
        for listing in ("/api/runs", "/api/questions", "/api/runs?q=ann"):
            assert "of-ann" not in bob.get(listing).text and waiting not in bob.get(listing).text
    assert server.run(waiting)["state"] == "waiting" and server.run(over)["answer"] == "text-of-ann"


def test_token_without_a_name_sees_runs_made_without_tokens(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        id = str(server.client.post("/api/runs", json={"program": "answer = 1"}).json()["id"])
        server.over(id)
    unnamed = "an-unnamed-token-of-many-letters"
    with served(tmp_path, "--token", unnamed, *NAMED, token=unnamed) as server:
        assert server.run(id)["answer"] == "1"
        with client_of(server, "bob") as bob:
            assert bob.get(f"/api/runs/{id}").status_code == 404


# --- logs, files, the page ----------------------------------------------------------------------------------------

SCRIPT = [
    {"when": "zanzibar", "reply": "```python\nprint('numbat')\nanswer = pick('okapi') + '-quagga'\n```"},
    {"when": "okapi", "reply": '"kakapo"'},
]
CONTENT = ("zanzibar", "numbat", "okapi", "quagga", "kakapo", "tamarin", "echidna", "caracal")


@pytest.mark.parametrize("shows_content", [False, True])
def test_logs_and_metrics_contain_no_content(
    tmp_path: Path, shows_content: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether runs succeed, fail or are refused, and wherever a client writes the content."""
    key = "sk-key-of-the-server"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    options = ["--log-content"] if shows_content else []
    with served(tmp_path, *NAMED, *options, token=TOKENS["ann"], script=SCRIPT) as server:
        client = server.client
        assert server.over(server.begin("zanzibar?"))["answer"] == "kakapo-quagga"
        for program in (
            "raise ValueError('tamarin')",
            "answer = 'tamarin",
            "import os\nos.write(4, b'tamarin tamarin')",
        ):
            body = {
                "program": program,
                "inputs": {"x": "echidna"},
                "values": [{"call": "caracal(1)", "value": "echidna"}],
            }
            server.over(client.post("/api/runs", json=body).json()["id"])
        client.post("/api/runs", json={"question": "tamarin", "model": "caracal", "echidna": "okapi"})
        client.post("/api/runs", content=b'{"question": "tamarin', headers={"content-type": "application/json"})
        client.post("/api/files", params={"name": "tamarin.csv"}, content=b"echidna\n")
        for path in ("/api/runs?q=tamarin", "/caracal/tamarin", "/api/runs/echidna", "/static/okapi"):
            client.get(path, headers={"user-agent": "caracal", "referer": "http://x/tamarin", "traceparent": "okapi"})
        httpx.get(f"{server.url}/api/info", headers={"authorization": "Bearer echidna-echidna"})
        metrics = client.get("/metrics").text
        assert server.stop() == 0
    log = json.dumps(server.log)
    found = {word for word in CONTENT if word in log}
    assert ("zanzibar" in found and "quagga" in found) if shows_content else not found
    assert "coc_runs_total" in metrics and not [word for word in CONTENT if word in metrics]
    assert not [secret for secret in (key, *TOKENS.values()) if secret in log + metrics]


def test_data_directory_is_private(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        server.over(str(server.client.post("/api/runs", json={"program": "answer = 1"}).json()["id"]))
        assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


DOCUMENTS = {
    "page.html": b"<script>alert(1)</script>",
    "drawing.svg": b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>',
    "page.xhtml": b'<html xmlns="http://www.w3.org/1999/xhtml"><script>alert(1)</script></html>',
    "style.css": b"body { display: none }",
    "code.js": b"alert(1)",
    "photo.png": b"<script>alert(1)</script>",
    "manual.pdf": b"%PDF-1.7",
    "gif.html": b"GIF89a<script>alert(1)</script>",
    'a".html': b"<b>",
}


@pytest.mark.skipif(not has_tier("A"), reason="a scratch directory needs tier A of the sandbox")
def test_files_of_runs_are_never_documents(server: Serving) -> None:
    program = f"for name, data in {DOCUMENTS!r}.items():\n    open(name, 'wb').write(data)\nanswer = 1"
    id = str(server.client.post("/api/runs", json={"program": program}).json()["id"])
    files = {file["name"]: file["sha256"] for file in server.over(id)["artifacts"]}
    assert files.keys() == DOCUMENTS.keys()
    for name, sha256 in files.items():
        reply = server.client.get(f"/api/runs/{id}/artifacts/{sha256}")
        assert reply.content == DOCUMENTS[name]
        kind, shown = reply.headers["content-type"], reply.headers["content-disposition"]
        is_image = DOCUMENTS[name].startswith(b"GIF89a")
        assert kind.startswith("image/gif" if is_image else "application/octet-stream"), (name, kind)
        assert shown.startswith("inline" if is_image else "attachment"), (name, shown)
        assert reply.headers["x-content-type-options"] == "nosniff" and "\n" not in shown


def test_page_runs_no_inline_scripts(server: Serving) -> None:
    page = server.client.get("/")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'")
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
    assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|javascript:", page.text, re.IGNORECASE)
    assert "frame-ancestors 'none'" in policy
