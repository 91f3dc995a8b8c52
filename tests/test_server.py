"""`coc serve` as its clients see it: a real server process, real HTTP, the real OpenAI client."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from older_stores import write_as_older_version
from processes import descendants
from serving import FRUIT, SCRIPT, Serving, parsed, served

from chainofcode.audit import check_chain
from chainofcode.trace import Trace

pytest.importorskip("starlette", reason="the extra `server` is not installed")
TOKEN = "a-secret-of-many-letters"
SLOW = "Sleep, then say something."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with served(tmp_path_factory.mktemp("server"), "--rate", "100000", "--runs", "4") as server:
        yield server


@pytest.fixture
def client(server: Serving) -> httpx.Client:
    return server.client


@pytest.fixture(scope="module")
def fruit(server: Serving) -> str:
    id = server.begin()
    server.over(id)
    return id


def error_of(reply: httpx.Response) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["type"]


# --- the native API -----------------------------------------------------------------------------------------------


def test_info_lists_models_methods_and_limits(client: httpx.Client) -> None:
    info = client.get("/api/info").json()
    assert info["model"] in info["models"] and "coc" in info["methods"] and info["limits"]["runs"] == 4


def test_a_run_and_its_events(server: Serving, tmp_path: Path) -> None:
    id = server.begin()
    events = server.events(id)
    numbered = [event for event in events if event["event"] not in ("waiting", "draft")]
    assert [event["id"] for event in numbered] == list(range(len(numbered)))
    kinds = [event["event"] for event in numbered]
    assert kinds[:3] == ["trace", "call", "program"] and kinds[-2:] == ["answer", "end"]
    assert numbered[-1]["data"] == {"state": "done"}
    run = server.run(id)
    assert (run["state"], run["answer"], run["reason"], run["question"]) == ("done", "1", "answered", FRUIT)
    assert run["usage"]["requests"] == 3 and run["parent"] is None
    path = tmp_path / "trace.jsonl"
    path.write_bytes(server.client.get(f"/api/runs/{id}/trace").content)
    assert check_chain(path).state == "intact"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        del line["chain"]
    assert lines == [event["data"] for event in numbered[:-1]]
    assert Trace.read(path).answer.text == "1"  # type: ignore[union-attr]


def test_events_resume_after_an_id(server: Serving, fruit: str) -> None:
    whole = server.events(fruit)
    assert server.events(fruit, 3) == whole[4:]
    assert server.events(fruit, whole[-1]["id"]) == whole[-1:]


def test_events_of_a_running_run_can_be_resumed(server: Serving) -> None:
    id = server.begin("A little rest")
    seen = []
    with server.client.stream("GET", f"/api/runs/{id}/events") as reply:
        for event in parsed(reply.iter_lines()):
            seen.append(event)
            if event["event"] == "program":
                break
    assert server.run(id)["state"] == "running"  # detached: it continues without its client
    rest = server.events(id, seen[-1]["id"])
    assert rest[0]["id"] == seen[-1]["id"] + 1 and rest[-1]["data"] == {"state": "done"}


def test_calls_in_flight_are_reported(tmp_path: Path) -> None:
    from endpoint import serving

    program = {"choices": [{"message": {"content": "```python\nanswer = is_fruit('fig')\n```"}}]}

    def slow(e: Any) -> None:
        time.sleep(1)
        e.reply(200, json.dumps({"choices": [{"message": {"content": "true"}}]}).encode())

    with serving(program, slow) as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", f"{endpoint.url}/v1")
        patch.setenv("OPENAI_API_KEY", "k")
        with served(tmp_path, "--model", "openai:m") as server:
            events = server.events(server.begin("Is a fig a fruit?", model="openai"))
    waiting = [event["data"]["calls"] for event in events if event["event"] == "waiting"]
    assert [call["text"] for call in waiting[0]] == ["is_fruit('fig')"] and waiting[0][0]["line"] == 1


def test_a_program_with_values(server: Serving) -> None:
    values = [{"call": "is_fruit('fig')", "value": True}]
    body = {"program": "answer = [w for w in words if is_fruit(w)]", "values": values, "inputs": {"words": ["fig"]}}
    id = server.client.post("/api/runs", json=body).json()["id"]
    run = server.over(id)
    assert (run["answer"], run["value"], run["method"], run["model"]) == ("fig", ["fig"], "run", None)


def test_values_of_a_program_as_text(server: Serving) -> None:
    program = "answer = [price('a=1'), price(name='b'), size()]"
    values = ["price('a=1') = (2.0, 'x=y')", "price(name='b')={1: 2, 'c': None}", "size()=-2"]
    id = server.client.post("/api/runs", json={"program": program, "values": values}).json()["id"]
    run = server.over(id)
    assert run["answer"] == "[(2.0, 'x=y'), {1: 2, 'c': None}, -2]"
    assert run["value"][0] == {"$tuple": [2.0, "x=y"]} and run["value"][2] == -2
    record = {"call": "size()", "value": 2}
    for bad in (["price('a')=maybe"], ["price('a')=" + "=" * 25_000], ["size()=1", record], ["size()=1"] * 101):
        reply = server.client.post("/api/runs", json={"program": program, "values": bad})
        assert error_of(reply) == (400, "invalid_request") and "value" in reply.text


def test_the_type_of_an_answer(server: Serving) -> None:
    assert server.over(server.begin(type="int"))["answer"] == "1"
    assert server.over(server.begin(type="date"))["reason"] == "error"


def test_cancelling_ends_a_run(server: Serving) -> None:
    id = server.begin(SLOW)
    server.until(id, "running")
    began = time.monotonic()
    assert server.client.post(f"/api/runs/{id}/cancel").json() == {"id": id, "state": "cancelled"}
    assert time.monotonic() - began < 10
    assert server.client.post(f"/api/runs/{id}/cancel").json()["state"] == "cancelled"
    assert server.events(id)[-1]["data"] == {"state": "cancelled"}


def test_a_queued_run_can_be_cancelled(server: Serving) -> None:
    slow = [server.begin(SLOW) for _ in range(4)]
    queued = server.begin()
    assert server.run(queued)["state"] == "queued"
    assert server.client.post(f"/api/runs/{queued}/cancel").json()["state"] == "cancelled"
    assert server.client.get(f"/api/runs/{queued}/trace").status_code == 404
    for id in slow:
        server.client.post(f"/api/runs/{id}/cancel")


def test_disconnecting_client_ends_its_run(server: Serving) -> None:
    id = server.begin(SLOW, detach=False)
    with server.client.stream("GET", f"/api/runs/{id}/events") as reply:
        next(parsed(reply.iter_lines()))
    assert server.over(id)["state"] == "cancelled"


def test_list_is_paged_and_has_short_fields(server: Serving, fruit: str) -> None:
    ids = [server.begin() for _ in range(3)]
    for id in ids:
        server.over(id)
    runs = server.client.get("/api/runs", params={"limit": 2}).json()["runs"]
    assert [run["id"] for run in runs] == [ids[2], ids[1]]
    assert set(runs[0]) == {
        "id", "state", "question", "method", "model", "created", "seconds", "answer", "reason", "parent",
        "tokens", "dollars",
    }  # fmt: skip
    more = server.client.get("/api/runs", params={"before": ids[1]}).json()["runs"]
    assert more[0]["id"] == ids[0] and fruit in [run["id"] for run in more]
    for bad in ("0", "201", "x", "-1"):
        assert client_error(server, "/api/runs", limit=bad) == (400, "invalid_request")


def test_search_covers_all_runs_without_wildcards(tmp_path: Path) -> None:
    """A search covers all runs and has no wildcards."""
    with served(tmp_path) as server:
        questions = [
            "Wie groß ist 100% von ÄPFELN_x?",
            "Is 100 more than 7?",
            *("Which day?" for _ in range(3)),
            "so_many 'a'",
        ]
        ids = []
        for question in questions:
            reply = server.client.post("/api/runs", json={"program": "answer = 'Zebra' * 2", "question": question})
            ids.append(str(reply.json()["id"]))
            server.over(ids[-1])

        def found(words: str, **more: Any) -> list[str]:
            runs = server.client.get("/api/runs", params={"q": words, **more}).json()["runs"]
            return [run["id"] for run in runs]

        assert found("äpfeln") == found("100%") == found("GROSS wie") == [ids[0]]
        assert (
            found("n_x") == [ids[0]]
            and found("o_m") == [ids[5]]
            and found("%") == [ids[0]]
            and found("_") == [ids[5], ids[0]]
        )
        assert found("'a'") == [ids[5]] and found("which", limit=2) == [ids[4], ids[3]]
        assert found("which", limit=2, before=ids[3]) == [ids[2]]
        assert found("zebrazebra") == found(" ") == ids[::-1] and found(ids[1]) == [ids[1]] and found("nobody") == []
        assert client_error(server, "/api/runs", q="x" * 201) == (400, "invalid_request")


def test_search_finds_runs_of_an_older_version(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        ids = [server.begin(), server.begin("A little rest")]
        for id in ids:
            server.over(id)
        server.stop()
    write_as_older_version(tmp_path / "data" / "runs.sqlite", has_words=False)
    with served(tmp_path) as server:
        listed = [
            server.client.get("/api/runs", params={"q": words}).json()["runs"] for words in ("", "apple", "rested")
        ]
        assert [[run["id"] for run in runs] for runs in listed] == [ids[::-1], ids[:1], ids[1:]]
        assert server.over(server.begin())["answer"] == "1"


def client_error(server: Serving, path: str, **query: str) -> tuple[int, str]:
    return error_of(server.client.get(path, params=query))


def test_replay_with_another_value(server: Serving, fruit: str) -> None:
    reply = server.client.post(f"/api/runs/{fruit}/replay", json={"set": ["is_fruit('saw')=True"]})
    assert reply.status_code == 202
    run = server.over(reply.json()["id"])
    assert (run["answer"], run["parent"], run["method"]) == ("2", fruit, "replay")


def test_replay_with_another_program_and_unchanged(server: Serving, fruit: str) -> None:
    edited = server.client.post(f"/api/runs/{fruit}/replay", json={"edit": "answer = is_fruit('apple')"}).json()
    assert server.over(edited["id"])["answer"] == "True"
    same = server.client.post(f"/api/runs/{fruit}/replay", json={}).json()
    assert server.over(same["id"])["answer"] == "1"


def test_replay_refuses_invalid_changes(server: Serving, fruit: str) -> None:
    for change in ("step:99=1", "nothing=3", "is_fruit('saw')=nothing known"):
        reply = server.client.post(f"/api/runs/{fruit}/replay", json={"set": [change]})
        assert error_of(reply) == (409, "does_not_fit"), change
    for change in ("no change", "=1", "x=", "x= "):
        reply = server.client.post(f"/api/runs/{fruit}/replay", json={"set": [change]})
        assert error_of(reply) == (400, "invalid_request"), change
    huge = "=" * 25_000
    assert error_of(server.client.post(f"/api/runs/{fruit}/replay", json={"set": [huge]})) == (400, "invalid_request")
    slow = server.begin(SLOW)
    assert error_of(server.client.post(f"/api/runs/{slow}/replay", json={})) == (409, "not_over")
    server.client.post(f"/api/runs/{slow}/cancel")


def test_why_and_verify(server: Serving, fruit: str) -> None:
    why = server.client.get(f"/api/runs/{fruit}/why").json()
    assert why["answer"] == "1" and why["needed"] == [0, 1]
    assert server.client.get(f"/api/runs/{fruit}/why", params={"name": "things"}).json()["name"] == "things"
    assert client_error(server, f"/api/runs/{fruit}/why", name="nobody") == (409, "cannot_follow")
    verdict = server.client.get(f"/api/runs/{fruit}/verify").json()
    assert verdict["score"] == 1 and verdict["chain"]["state"] == "intact"


def test_uploaded_files(server: Serving) -> None:
    reply = server.client.post("/api/files", params={"name": "sales.csv"}, content=b"n\n1\n2\n")
    assert reply.status_code == 201
    file = reply.json()
    assert (file["name"], file["bytes"]) == ("sales.csv", 6)
    assert server.over(server.begin("What is the sum of the table?", files=[file["id"]]))["answer"] == "3"


@pytest.mark.parametrize("name", ["", "../a.csv", "a/b", "a\\b", ".hidden", "-o", "a\nb", "a\u202eb", "x" * 61])
def test_invalid_file_names_are_refused(client: httpx.Client, name: str) -> None:
    assert error_of(client.post("/api/files", params={"name": name}, content=b"1")) == (400, "invalid_request")


def test_malformed_file_fails_the_run(server: Serving) -> None:
    file = server.client.post("/api/files", params={"name": "a.json"}, content=b"{").json()
    run = server.over(server.begin("What is in it?", files=[file["id"]]))
    assert (run["state"], run["error"]["type"]) == ("failed", "input")
    assert run["error"]["message"].startswith(f"{file['id']}/a.json is not JSON")


def test_files_are_named_by_id_only(server: Serving) -> None:
    for id in ("/etc/passwd", "../../etc/passwd", "nothing"):
        reply = server.client.post("/api/runs", json={"question": "x", "files": [id]})
        assert error_of(reply) == (404, "not_found")


def test_artifacts_are_served_safely(tmp_path: Path) -> None:
    from conftest import has_tier

    if not has_tier("A"):
        pytest.skip("a scratch directory needs tier A")
    with served(tmp_path, "--scratch") as server:
        png = b"\x89PNG\r\n\x1a\n" + b"0" * 20
        program = f"open('a.svg', 'w').write('<svg/>')\nopen('b.png', 'wb').write({png!r})\nanswer = 1"
        id = server.client.post("/api/runs", json={"program": program}).json()["id"]
        left = {file["name"]: file["sha256"] for file in server.over(id)["artifacts"]}
        svg = server.client.get(f"/api/runs/{id}/artifacts/{left['a.svg']}")
        assert (svg.content, svg.headers["x-content-type-options"]) == (b"<svg/>", "nosniff")
        assert svg.headers["content-disposition"].startswith("attachment")
        shown = server.client.get(f"/api/runs/{id}/artifacts/{left['b.png']}")
        assert (shown.content, shown.headers["content-type"]) == (png, "image/png")
        assert shown.headers["content-disposition"].startswith("inline")
        assert server.client.get(f"/api/runs/{id}/artifacts/{'0' * 64}").status_code == 404
        again = server.client.post(f"/api/runs/{id}/replay", json={}).json()["id"]
        assert len(server.over(again)["artifacts"]) == 2


# --- refused requests ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b'"x"', b"{}", b'{"question": ""}', b'{"question": 3}', b'{"question": "x", "what": 1}',
        b'{"question": "x", "method": "nope"}', b'{"question": "x", "inputs": {"a b": 1}}', b"\xff\xfe", b"[" * 5000,
        b'{"question": "x", "inputs": {"class": 1}}', b'{"question": "x", "inputs": {"a": {"$nope": 1}}}',
        b'{"question": "x", "type": "/etc/passwd.json"}', b'{"question": "x", "type": "choice: , "}',
        b'{"question": "\\u001c\\u0085 "}', b'{"question": "x", "type": "nope"}',
        b'{"program": "1", "values": [{"call": 1}]}', b'{"program": "1", "method": "cot"}', b'{"question": "x", "values": [{}]}',
    ],
)  # fmt: skip
def test_invalid_bodies_are_refused(client: httpx.Client, body: bytes) -> None:
    reply = client.post("/api/runs", content=body, headers={"content-type": "application/json"})
    assert error_of(reply) == (400, "invalid_request")


def test_models_that_are_not_offered(client: httpx.Client) -> None:
    for model in ("openai:gpt-4o", "scripted:/etc/passwd", "local:/etc/passwd", "", "nope"):
        assert error_of(client.post("/api/runs", json={"question": "x", "model": model})) == (404, "model_not_found")


def test_bodies_that_are_too_large(client: httpx.Client) -> None:
    huge = json.dumps({"question": "x" * 5_000_000}).encode()
    headers = {"content-type": "application/json"}
    assert error_of(client.post("/api/runs", content=huge, headers=headers)) == (413, "too_large")

    def chunks() -> Iterator[bytes]:
        for _ in range(50):
            yield b"x" * 100_000

    try:
        reply = client.post("/api/runs", content=chunks(), headers=headers)
    except httpx.TransportError:  # the server hung up while we were still sending
        return
    assert error_of(reply) == (413, "too_large")


def test_other_invalid_requests(client: httpx.Client) -> None:
    assert error_of(client.post("/api/runs", content="{}", headers={"content-type": "text/plain"}))[0] == 415
    assert error_of(client.get("/nothing")) == (404, "not_found")
    assert error_of(client.get("/api/runs", params={"before": "x"})) == (400, "invalid_request")
    assert error_of(client.delete("/api/runs")) == (405, "method_not_allowed")
    for id in ("nothing", "..", "%2e%2e%2flock", "a" * 3000):
        assert client.get(f"/api/runs/{id}").status_code == 404
    assert client.get("/api/runs/x/events").status_code == 404


def test_unknown_hosts_are_refused(client: httpx.Client) -> None:
    unknown = ("evil.example", "evil.example:80", "", "localhost.evil.example", "[::2]", "127.0.0.2")
    malformed = ("[::1].evil.example", "[::1]evil", "[::1]:x", "[::1", "::1", "localhost:evil.example", "localhost:")
    malformed += ("evil.example@localhost", "localhost:80:80", "localhost/evil", "[localhost]")
    for host in unknown + malformed:
        assert client.get("/api/info", headers={"host": host}).status_code in (400, 421), host
    for host in ("localhost", "localhost:9", "127.0.0.1:1", "[::1]:5", "LOCALHOST"):
        assert client.get("/api/info", headers={"host": host}).status_code == 200, host


def test_foreign_origins_are_refused(client: httpx.Client) -> None:
    for headers in ({"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
        assert error_of(client.post("/api/runs", json={"question": "x"}, headers=headers)) == (403, "foreign_origin")
    assert client.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 200  # a followed link
    own = {"origin": str(client.base_url).rstrip("/"), "sec-fetch-site": "same-origin"}
    reply = client.get("/api/info", headers=own)
    assert reply.status_code == 200 and "access-control-allow-origin" not in reply.headers


def test_security_headers(client: httpx.Client) -> None:
    for path in ("/", "/api/info", "/nothing", "/healthz"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
        assert "server" not in headers


def test_tokens_hosts_origins(tmp_path: Path) -> None:
    origin = "https://app.example"
    options = ("--allow-origin", origin, "--allow-host", "coc.example", "--token", "ann=" + "b" * 20)
    with served(tmp_path, "--token", TOKEN, *options, token=TOKEN) as server:
        bare = httpx.Client(base_url=server.url)
        for path in ("/api/info", "/metrics", "/readyz", "/openapi.json", "/v1/models", "/api/runs", "/nothing"):
            for value in ("", "Bearer", "Bearer x", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer ann=" + "b" * 20):
                assert bare.get(path, headers={"authorization": value}).status_code == 401, (path, value)
            assert bare.get(path, params={"token": TOKEN}).status_code == 401
        assert bare.get("/healthz").status_code == bare.get("/").status_code == 200
        reply = server.client.get("/api/info", headers={"host": "coc.example", "origin": origin})
        assert reply.headers["access-control-allow-origin"] == origin
        asking = {"origin": origin, "access-control-request-method": "POST"}
        assert bare.options("/api/runs", headers=asking).status_code == 204
        assert bare.options("/api/runs", headers={**asking, "origin": "https://evil.example"}).status_code == 403
        id = server.begin()
        ann = httpx.Client(base_url=server.url, headers={"authorization": "Bearer " + "b" * 20})
        assert ann.get(f"/api/runs/{id}").status_code == ann.get(f"/api/runs/{id}/events").status_code == 404
        assert ann.get("/api/runs").json() == {"runs": []}
        assert ann.post(f"/api/runs/{id}/cancel").status_code == 404
        assert TOKEN not in json.dumps(server.log) and FRUIT not in json.dumps(server.log)


@pytest.mark.parametrize(
    "options", [["--host", "0.0.0.0"], ["--host", "::"], ["--host", "0.0.0.0", "--token", "short"]]
)
def test_public_address_needs_a_token(tmp_path: Path, options: list[str]) -> None:
    command = [sys.executable, "-m", "chainofcode", "serve", "--data", str(tmp_path), "--port", "0", *options]
    done = subprocess.run(
        [*command, "--model", "scripted:none"], capture_output=True, text=True, env={**os.environ, "COC_TOKEN": ""}
    )
    assert done.returncode == 2 and "token" in done.stderr and "Traceback" not in done.stderr


def test_error_for_a_short_token_shows_only_its_name(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the token of ann must have 16 or more"):
        Serving(tmp_path, "--token", "ann=secret", "--token", "bob=secret2")


def test_two_servers_in_one_directory(server: Serving) -> None:
    with pytest.raises(AssertionError, match="another server uses"):
        Serving(server.directory)


# --- limits -------------------------------------------------------------------------------------------------------


def test_full_queue_refuses_runs(tmp_path: Path) -> None:
    with served(tmp_path, "--runs", "1", "--queue", "1") as server:
        ids = [server.begin(SLOW), server.begin(SLOW)]
        reply = server.client.post("/api/runs", json={"question": SLOW})
        assert error_of(reply) == (429, "busy") and int(reply.headers["retry-after"]) > 0
        with pytest.raises(openai.RateLimitError):
            openai_client(server).chat.completions.create(model="coc", messages=[{"role": "user", "content": SLOW}])
        for id in ids:
            server.client.post(f"/api/runs/{id}/cancel")
        assert server.over(server.begin())["answer"] == "1"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    place = tmp_path / "data"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(place)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def open_files(server: Serving) -> list[str]:
    links = Path(f"/proc/{server.process.pid}/fd").iterdir()
    return [os.readlink(link) for link in links if link.is_symlink()]


def test_full_disk_is_reported_and_recovered_from(tmp_path: Path, small_disk: Path) -> None:
    with served(tmp_path) as server:
        before = server.begin()
        assert server.over(before)["answer"] == "1"
        slow = server.begin("A little")
        filler = small_disk / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        for _ in range(5):
            reply = server.client.post("/api/runs", json={"question": FRUIT})
            assert error_of(reply) == (503, "storage") and int(reply.headers["retry-after"]) > 0
        assert "full" in server.client.get("/readyz").json()["problems"]["store"]
        assert server.over(slow)["state"] == "failed"
        assert server.client.get(f"/api/runs/{before}/trace").status_code == 200
        assert slow not in " ".join(open_files(server))
        filler.unlink()
        assert server.over(server.begin())["answer"] == "1"
        assert server.client.get("/readyz").status_code == 200
        time.sleep(2)  # the failed write is repeated now
        server.process.kill()
        server.process.wait()
    with served(tmp_path) as server:
        assert [server.run(id)["state"] for id in (before, slow)] == ["done", "failed"]


def test_run_that_could_not_be_saved_can_be_removed(tmp_path: Path, small_disk: Path) -> None:
    with served(tmp_path) as server:
        slow = server.begin("A little")
        filler = small_disk / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        assert server.over(slow)["state"] == "failed"
        filler.unlink()
        assert server.client.delete(f"/api/runs/{slow}").status_code == 204
        time.sleep(2)  # failed writes are repeated each second
        assert server.client.get(f"/api/runs/{slow}").status_code == 404
        assert server.client.get("/api/runs").json()["runs"] == []


def test_rate_limit_refuses_requests(tmp_path: Path) -> None:
    with served(tmp_path, "--rate", "20") as server:
        replies = [server.client.get("/api/info") for _ in range(30)]
        assert [reply.status_code for reply in replies[:15]] == [200] * 15
        assert error_of(replies[-1]) == (429, "rate_limited") and int(replies[-1].headers["retry-after"]) >= 1
        assert server.client.get("/healthz").status_code == 200


def test_budget_survives_a_restart(tmp_path: Path) -> None:
    from endpoint import serving

    reply = {
        "choices": [{"message": {"content": "```python\nanswer = 6 * 7\n```"}}],
        "usage": {"prompt_tokens": 60, "completion_tokens": 50},
    }
    with serving(reply) as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", f"{endpoint.url}/v1")
        patch.setenv("OPENAI_API_KEY", "k")
        options = ("--model", "openai:m", "--budget", "tokens=100")
        with served(tmp_path, *options) as server:
            first = server.over(server.begin("What is 6 times 7?", model="openai:m"))
            assert (first["answer"], first["usage"]["prompt_tokens"]) == ("42", 60)
            refused = server.client.post("/api/runs", json={"question": "x", "model": "openai:m"})
            assert error_of(refused) == (429, "insufficient_quota")
            assert server.stop() == 0
        with served(tmp_path, *options) as server:
            refused = server.client.post("/api/runs", json={"question": "x", "model": "openai:m"})
            assert error_of(refused) == (429, "insufficient_quota")
            assert server.client.post("/api/runs", json={"program": "answer = 1"}).status_code == 202


def test_abandoned_request_counts_towards_the_budget(tmp_path: Path) -> None:
    script = [{"when": "", "reply": "```python\nanswer = 1\n```", "seconds": 60}]
    with served(tmp_path, "--budget", "tokens=100", script=script) as server:
        for seconds in (0.5, 2, 8):
            id = server.begin("How long?")
            server.until(id, "running")
            time.sleep(seconds)  # until the request is under way: a busy machine takes a while
            server.client.post(f"/api/runs/{id}/cancel")
            reply = server.client.post("/api/runs", json={"question": "And now?"})
            if reply.status_code == 429:
                break
        assert error_of(reply) == (429, "insufficient_quota")


def test_limits_of_runs(tmp_path: Path) -> None:
    with served(tmp_path, "--limit", "run=1") as server:
        assert server.over(server.begin(SLOW, method="coc-python"))["state"] == "done"
        id = server.client.post("/api/runs", json={"program": "while True: pass"}).json()["id"]
        assert server.over(id)["reason"] == "limit:run"


# --- kills and drains ---------------------------------------------------------------------------------------------


def test_nothing_acknowledged_is_lost_by_a_kill(tmp_path: Path) -> None:
    asleep = {"when": "Sleep", "reply": "```python\nimport time\nbegun = 1\ntime.sleep(12)\nanswer = 1\n```"}
    with served(tmp_path, "--runs", "1", script=[asleep, *SCRIPT]) as server:
        done = server.begin()
        server.over(done)
        running, queued = server.begin(SLOW), server.begin()
        server.until(running, "running")
        while not any(event["event"] == "program" for event in _so_far(server, running)):
            time.sleep(0.05)
        whole = server.client.get(f"/api/runs/{done}/trace").content
        guests = descendants(server.process.pid)
        server.stop(signal.SIGKILL)
    path = tmp_path / "data" / "traces" / f"{running}.jsonl"
    with path.open("ab") as file:
        file.write(b'{"event":"step","numb')  # a partial line, as a kill may leave it
    with served(tmp_path) as server:
        assert server.run(done)["answer"] == "1"
        assert server.client.get(f"/api/runs/{done}/trace").content == whole
        assert [server.run(id)["state"] for id in (running, queued)] == ["interrupted", "interrupted"]
        events = server.events(running)
        assert [event["event"] for event in events][:3] == ["trace", "call", "program"]
        assert events[-1]["data"] == {"state": "interrupted"}
        assert check_chain(path).state == "intact"
        assert [event["event"] for event in server.events(queued)] == ["end"]
        listed = [run["id"] for run in server.client.get("/api/runs").json()["runs"]]
        assert listed == [queued, running, done]
        assert not [pid for pid in guests if Path(f"/proc/{pid}").exists() and _is_ours(pid)]
        assert server.client.get(f"/api/runs/{running}/why").status_code == 200


def _so_far(server: Serving, id: str) -> list[dict[str, Any]]:
    reply = server.client.get(f"/api/runs/{id}/trace")
    return [json.loads(line) for line in reply.text.splitlines()] if reply.status_code == 200 else []


def _is_ours(pid: int) -> bool:
    try:
        return b"chainofcode" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_a_drain_lets_runs_finish(tmp_path: Path) -> None:
    with served(tmp_path) as server, concurrent.futures.ThreadPoolExecutor() as pool:
        detached, followed = server.begin("A little rest"), server.begin("A little rest")
        server.until(followed, "running")
        events = pool.submit(server.events, followed)
        time.sleep(0.3)
        assert server.stop() == 0
        assert events.result()[-1]["data"] == {"state": "done"}
        with pytest.raises(httpx.TransportError):
            server.client.get("/healthz")
    with served(tmp_path) as server:
        assert [server.run(id)["answer"] for id in (detached, followed)] == ["rested", "rested"]


def test_drain_has_a_time_limit(tmp_path: Path) -> None:
    with served(tmp_path, "--drain", "1", "--runs", "1") as server:
        running, queued = server.begin(SLOW), server.begin()
        server.until(running, "running")
        guests = descendants(server.process.pid)
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 20
        assert not [pid for pid in guests if _is_ours(pid)]
    with served(tmp_path) as server:
        assert [server.run(id)["state"] for id in (running, queued)] == ["interrupted", "interrupted"]


def test_nothing_is_left_behind(server: Serving) -> None:
    """After many runs, the server has about as many guests and descriptors as before."""

    def held() -> tuple[int, int]:
        return len(os.listdir(f"/proc/{server.process.pid}/fd")), len(descendants(server.process.pid))

    def is_back(before: tuple[int, int]) -> bool:
        now = held()
        return now[0] <= before[0] + 8 and now[1] <= before[1] + 2

    def run_one(number: int) -> None:
        if number % 3:
            server.over(server.begin())
        else:
            id = server.begin(SLOW, detach=False)
            with httpx.stream("GET", f"{server.url}/api/runs/{id}/events", timeout=60) as reply:
                next(parsed(reply.iter_lines()))
            server.over(id)

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(run_one, range(6)))  # warm-up: opens connections and threads that are kept
        time.sleep(1)
        before = held()
        list(pool.map(run_one, range(24)))
    deadline = time.monotonic() + 30  # a busy machine takes a while to close finished runs
    while not is_back(before) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert is_back(before), (before, held())


# --- OpenAI's protocols -------------------------------------------------------------------------------------------


def openai_client(server: Serving, retries: int = 0) -> openai.OpenAI:
    key = server.token or "none"
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=retries, timeout=60)


@pytest.mark.parametrize("model", ["coc", "coc:scripted", "full"])
def test_chat_completion_is_the_answer(server: Serving, model: str) -> None:
    model = f"coc:{server.client.get('/api/info').json()['model']}" if model == "full" else model
    reply = openai_client(server).chat.completions.with_raw_response.create(
        model=model, messages=[{"role": "user", "content": FRUIT}], temperature=0.3
    )
    completion = reply.parse()
    assert (completion.choices[0].message.content, completion.choices[0].finish_reason) == ("1", "stop")
    assert completion.usage is not None and completion.usage.total_tokens == 0
    assert server.run(reply.headers["x-coc-run"])["question"] == FRUIT


def test_chat_in_a_stream(server: Serving) -> None:
    chunks = list(
        openai_client(server).chat.completions.create(
            model="coc",
            messages=[{"role": "user", "content": [{"type": "text", "text": FRUIT}]}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == "1"
    thought = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
    assert "is_fruit('apple') → true" in thought and "answer = sum(" in thought
    assert chunks[-1].usage is not None and not chunks[-1].choices


def test_earlier_turns_are_part_of_the_question(server: Serving) -> None:
    turns: Any = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": FRUIT},
    ]
    reply = openai_client(server).chat.completions.with_raw_response.create(model="coc", messages=turns)
    question = server.run(reply.headers["x-coc-run"])["question"]
    turns.append({"role": "assistant", "content": "Let me think."})  # the question stays the user's
    reply = openai_client(server).chat.completions.with_raw_response.create(model="coc", messages=turns)
    continued = server.run(reply.headers["x-coc-run"])["question"]
    assert continued.endswith(f"Assistant: Let me think.\n\nThe question now: {FRUIT}")
    earlier = "Instructions: Be brief.\nUser: Hello\nAssistant: Hi\n"
    assert question == f"What was said before:\n{earlier}\nThe question now: {FRUIT}"


def test_response_is_the_answer(server: Serving) -> None:
    reply = openai_client(server).responses.create(model="coc", input=FRUIT)
    assert (reply.output_text, reply.status) == ("1", "completed")
    assert reply.usage is not None and reply.usage.total_tokens == 0
    turns: Any = [{"role": "user", "content": [{"type": "input_text", "text": FRUIT}]}]
    assert openai_client(server).responses.create(model="coc", input=turns, instructions="Think.").output_text == "1"


def test_responses_in_a_stream(server: Serving) -> None:
    events = list(openai_client(server).responses.create(model="coc", input=FRUIT, stream=True))
    assert [event.type for event in events][:1] == ["response.created"]
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "1"
    assert events[-1].type == "response.completed" and events[-1].response.output_text == "1"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    with openai_client(server).responses.stream(model="coc", input=FRUIT) as stream:
        assert stream.until_done().get_final_response().output_text == "1"


def test_models_are_listed(server: Serving) -> None:
    names = [model.id for model in openai_client(server).models.list()]
    assert "coc" in names and "cot" in names and any(name.startswith("coc:scripted:") for name in names)
    assert openai_client(server).models.retrieve("coc").id == "coc"
    with pytest.raises(openai.NotFoundError):
        openai_client(server).models.retrieve("gpt-4o")


def test_invalid_requests_of_openai_clients(server: Serving) -> None:
    client, user = openai_client(server), [{"role": "user", "content": "x"}]
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-4o", messages=user)  # type: ignore[arg-type]
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
    for wrong in (
        {"messages": []},
        {"messages": [{"role": "assistant", "content": "x"}, {"role": "user", "content": " "}]},
        {"messages": user, "response_format": {"type": []}},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        {"messages": user, "n": 2},
        {"messages": user, "tools": [{"type": "web_search"}]},
        {"messages": user, "tools": [{"type": "function", "function": {"name": "no name"}}]},
        {"messages": user, "tool_choice": "required"},
        {"messages": user, "tool_choice": "always"},
        {"messages": user, "tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"messages": user, "functions": [{"name": "f"}]},
        {"messages": user, "response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(**{"model": "coc", **wrong})  # type: ignore[call-overload]
        assert set(refused.value.body) == {"message", "type", "param", "code"}  # type: ignore[call-overload]
    for more in (
        {"previous_response_id": "resp_1"},
        {"background": True},
        {"text": {"format": "json"}},
        {"text": {"format": {"type": {}}}},
    ):
        with pytest.raises(openai.BadRequestError):
            client.responses.create(**{"model": "coc", "input": "x", **more})  # type: ignore[call-overload]


def test_missing_answer_is_a_refusal(server: Serving) -> None:
    turns: Any = [{"role": "user", "content": "A little rest"}]
    message = openai_client(server).chat.completions.create(model="direct", messages=turns).choices[0].message
    assert (
        message.content is None
        and message.refusal is not None
        and message.refusal.startswith("no answer: error: the reply")
    )
    response = openai_client(server).responses.create(model="direct", input="A little rest")
    assert (response.status, response.output_text) == ("failed", "")
    events = list(openai_client(server).responses.create(model="direct", input="A little rest", stream=True))
    assert events[-1].type == "response.failed"


def test_unavailable_model_is_a_502(server: Serving) -> None:
    """The script has no reply for this question."""
    with pytest.raises(openai.InternalServerError) as failed:
        openai_client(server).chat.completions.create(model="coc", messages=[{"role": "user", "content": "Unheard"}])
    assert failed.value.status_code == 502
    with pytest.raises(openai.APIError, match="no reply left"):
        list(
            openai_client(server).chat.completions.create(
                model="coc", messages=[{"role": "user", "content": "Unheard"}], stream=True
            )
        )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["chat/completions", "responses"])
def test_disconnecting_chat_client_ends_its_run(server: Serving, path: str, stream: bool) -> None:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": SLOW}], "input": SLOW}
    known = {run["id"] for run in server.client.get("/api/runs").json()["runs"]}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server.url}/v1/{path}", json={"model": "coc", "stream": stream, **body}, timeout=3)
    (new,) = {run["id"] for run in server.client.get("/api/runs").json()["runs"]} - known
    assert server.over(new)["state"] == "cancelled"


# --- operation ----------------------------------------------------------------------------------------------------


def test_health_readiness_metrics(server: Serving, fruit: str) -> None:
    assert server.client.get("/healthz").json() == {"status": "ok"}
    assert server.client.get("/readyz").json() == {"status": "ready", "problems": {}}
    metrics = server.client.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'coc_runs_total{method="coc",state="done"}' in metrics.text
    assert 'route="/api/runs/{id}"' in metrics.text and fruit not in metrics.text


@pytest.mark.parametrize("content", [[], ["--log-content"]])
def test_spans_are_exported(tmp_path: Path, content: list[str]) -> None:
    proto = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="no telemetry here")
    bodies: list[bytes] = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            pass

    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
        with served(tmp_path, "--otel", *content) as server:
            server.client.headers["traceparent"] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
            id = server.begin()
            server.over(id)
            assert server.stop() == 0
    collector.shutdown()
    collector.server_close()
    requests = [proto.ExportTraceServiceRequest.FromString(body) for body in bodies]
    spans = [
        span for one in requests for part in one.resource_spans for scope in part.scope_spans for span in scope.spans
    ]
    (run,) = [span for span in spans if span.name == "invoke_agent coc"]
    assert (run.trace_id.hex(), run.parent_span_id.hex()) == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
    chats = [span for span in spans if span.name.startswith("chat ")]
    assert len(chats) == 3 and {span.parent_span_id for span in chats} == {run.span_id}
    attributes = {one.key: one.value.string_value for one in run.attributes}
    assert (attributes["coc.run.id"], attributes["coc.run.reason"], attributes["gen_ai.operation.name"]) == (
        id,
        "answered",
        "invoke_agent",
    )
    assert any(b"is_fruit" in body for body in bodies) is bool(content)


def test_openapi_names_every_route(server: Serving) -> None:
    document = server.client.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    assert {path for path in document["paths"] if path.startswith("/api/runs")} == {
        "/api/runs", "/api/runs/{id}", "/api/runs/{id}/events", "/api/runs/{id}/trace", "/api/runs/{id}/cancel",
        "/api/runs/{id}/replay", "/api/runs/{id}/resume", "/api/runs/{id}/page", "/api/runs/{id}/why", "/api/runs/{id}/verify", "/api/runs/{id}/artifacts/{sha256}",
    }  # fmt: skip
    names = set(json.dumps(document).split('"#/components/schemas/')[1:])
    assert {name.partition('"')[0] for name in names} <= set(document["components"]["schemas"])
    import jsonschema

    schema = {"$ref": "#/components/schemas/Run", "components": document["components"]}
    id = server.begin()
    jsonschema.validate(server.over(id), schema)
    verdict = {"$ref": "#/components/schemas/Verdict", "components": document["components"]}
    jsonschema.validate(server.client.get(f"/api/runs/{id}/verify").json(), verdict)
    listed = {"$ref": "#/components/schemas/Runs", "components": document["components"]}
    jsonschema.validate(server.client.get("/api/runs").json(), listed)


def test_page_is_served_and_nothing_outside_it(client: httpx.Client) -> None:
    page = client.get("/")
    assert page.status_code == 200 and ("coc serve" in page.text or "<html" in page.text.lower())
    assert client.get("/static/../settings.py").status_code == 404
    assert client.get("/static/%2e%2e/settings.py").status_code == 404


def test_garbage_on_the_wire(server: Serving) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    for data in (b"\0" * 1000, b"GET / HTTP/9.9\r\n\r\n", b"GET /api/info HTTP/1.1\r\n\r\n", b"A" * 100_000):
        with socket.create_connection((host, int(port)), timeout=10) as raw:
            raw.sendall(data)
            raw.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                assert b"200 OK" not in raw.recv(1000)
    assert server.client.get("/healthz").status_code == 200
