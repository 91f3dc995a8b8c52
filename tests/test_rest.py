"""REST tools from OpenAPI documents, against a real server on loopback that misbehaves."""

from __future__ import annotations

import contextlib
import datetime
import http.server
import json
import re
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from endpoint import Server
from test_cli import coc

from chainofcode import ScriptedLM, run, solve
from chainofcode.emulator import Tool, Toolbox, rest
from chainofcode.emulator.json_schema import Schemas
from chainofcode.emulator.openapi_operations import MAX_OPERATIONS, APIOperation, Argument
from chainofcode.emulator.rest import rest_tools
from chainofcode.errors import InputError

TOKEN, KEY = 'tok/SECRET+"123="', "key/SECRET 456"
PETS: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1"},
    "paths": {
        "/pets": {
            "get": {
                "operationId": "listPets",
                "summary": "All pets.",
                "parameters": [
                    {"name": "limit", "in": "query", "schema": {"type": "integer"}, "description": "how many at most"},
                    {"name": "tag", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    {"name": "id", "in": "query", "explode": False, "schema": {"type": "array", "items": {"type": "integer"}}},
                    {"name": "X-Request-ID", "in": "header", "schema": {"type": "string"}},
                    {"name": "Host", "in": "header", "schema": {"type": "string"}},
                    {"name": "born", "in": "query", "schema": {"type": "string", "format": "date"}},
                    {"name": "kind", "in": "query", "schema": {"enum": ["cat", "dog"]}},
                    {"name": "filter", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}},
                ],
                "responses": {"200": {"content": {"application/json": {"schema": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}}}}}},
            },
            "post": {
                "operationId": "addPet",
                "requestBody": {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}},
            },
        },
        "/pets/{pet id}": {
            "parameters": [{"name": "pet id", "in": "path", "required": True, "schema": {"type": ["string", "integer"]}}],
            "get": {"operationId": "get-pet"},
            "head": {"operationId": "has-pet"},
            "delete": {},
        },
    },
    "components": {
        "schemas": {
            "Pet": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "id": {"type": "integer", "readOnly": True},
                    "name": {"type": "string"},
                    "friends": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}},
                    "weight": {"type": "number", "nullable": True},
                },
            }
        },
        "securitySchemes": {
            "bearer": {"type": "http", "scheme": "bearer"},
            "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "query": {"type": "apiKey", "in": "query", "name": "key"},
            "basic": {"type": "http", "scheme": "basic"},
        },
    },
}  # fmt: skip


class Seen(http.server.BaseHTTPRequestHandler):
    """Records each request, and replies as the test wants."""

    protocol_version = "HTTP/1.1"
    url: str
    act: Callable[[Any], None]
    seen: list[tuple[str, str, dict[str, str], Any]]

    def handle_one_request(self) -> None:
        with contextlib.suppress(OSError):
            super().handle_one_request()

    def do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.seen.append((self.command, self.path, headers, json.loads(body) if body else None))
        type(self).act(self)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do

    def reply(self, status: int, body: bytes, kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


@contextlib.contextmanager
def serving(act: Callable[[Any], None] | Any, tls: ssl.SSLContext | None = None) -> Iterator[type[Seen]]:
    answer = act if callable(act) else lambda seen: seen.reply(200, json.dumps(act).encode())
    kind = type("Serving", (Seen,), {"act": staticmethod(answer), "seen": []})
    server = Server(("127.0.0.1", 0), kind)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    kind.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    yield kind
    server.shutdown()
    server.server_close()


def document(tmp_path: Path, url: str | None, **more: Any) -> Path:
    path = tmp_path / "pets.json"
    path.write_text(json.dumps({**PETS, **({"servers": [{"url": url}]} if url else {}), **more}))
    return path


def tools(path: Path, base: str | None = None, seconds: float = 5, **environment: str) -> list[Tool]:
    return rest_tools([(path, base)], environment, seconds=seconds)


def error_of(path: Path, call: str, **options: Any) -> str:
    result = run(f"answer = {call}", tools=tools(path, **options))
    assert result.error is not None, result.answer
    assert result.error.type == _type_of(result.error.message)
    return result.error.message


def _type_of(message: str) -> str:
    """Return the error type that the program gets: built-in for wrong arguments, timeouts and unreachable hosts."""
    kinds = {
        "TypeError": ("does not fit", "unexpected keyword", "missing a required", "plain values"),
        "TimeoutError": ("no complete reply",),
        "ConnectionError": ("cannot be reached", "cut short"),
    }
    return next((kind for kind, texts in kinds.items() if any(text in message for text in texts)), "ToolError")


# --- descriptions and requests ------------------------------------------------------------------------------------


def test_descriptions_for_the_model(tmp_path: Path) -> None:
    made = {one.name: one for one in tools(document(tmp_path, "http://127.0.0.1:1/v1"))}
    assert list(made) == ["listPets", "addPet", "get_pet", "has_pet", "delete_pets_pet_id"]
    assert [one.has_effect for one in made.values()] == [False, True, False, False, True]
    description = made["listPets"].description
    assert description.startswith(
        "def listPets(limit: int | None = None, tag: list[str] | None = None, id: list[int] | None"
    )
    assert "kind: Optional[Literal['cat', 'dog']] = None" in description.replace("typing.", "")
    assert "All pets.\nGives [{'id': int, 'name': str, 'friends': " in description
    assert "limit: how many at most" in description
    assert "Host" not in description
    added = made["addPet"].description.replace("typing.", "")
    assert added.startswith("def addPet(name: str, friends: list[dict[str, Any]] | None = None, weight:")
    assert made["get_pet"].description.startswith("def get_pet(pet_id: str | int):")
    with serving([]) as server:
        lm = ScriptedLM(["```python\nanswer = len(listPets())\n```"])
        assert solve("How many?", lm, tools=tools(document(tmp_path, server.url))).answer == 0
    assert "def listPets(" in lm.requests[0][-1].content


def test_arguments_are_sent_where_the_document_says(tmp_path: Path) -> None:
    with serving([{"id": 1, "name": "Tom"}]) as server:
        program = """
import datetime
pets = listPets(limit=2, tag=['a b', 'ü'], id=[1, 2], X_Request_ID='r1', born=datetime.date(2024, 2, 29), kind='cat',
                filter={'x': 1})
addPet('Rex', weight=3)
get_pet('a/b?c#d%20')
delete_pets_pet_id(7)
answer = pets[0].name
"""
        result = run(program, tools=tools(document(tmp_path, server.url + "/v1/")))
        assert result.answer == "Tom", result
        (listed, added, got, deleted) = server.seen
    query = "limit=2&tag=a+b&tag=%C3%BC&id=1%2C2&born=2024-02-29&kind=cat&filter=%7B%22x%22%3A+1%7D"
    assert listed[:2] == ("GET", f"/v1/pets?{query}")
    assert listed[2]["x-request-id"] == "r1"
    assert added[:2] == ("POST", "/v1/pets")
    assert added[3] == {"name": "Rex", "weight": 3}
    assert added[2]["content-type"] == "application/json"
    assert got[1] == "/v1/pets/a%2Fb%3Fc%23d%2520"
    assert deleted[:2] == ("DELETE", "/v1/pets/7")
    assert "authorization" not in listed[2]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("listPets(limit='many')", "the argument 'limit' does not fit: Expected `int"),
        ("listPets(kind='cow')", "the argument 'kind' does not fit"),
        ("listPets(tag=[1])", "Expected `str`, got `int`"),
        ("listPets(colour='red')", "unexpected keyword argument 'colour'"),
        ("addPet()", "missing a required argument: 'name'"),
        ("addPet('Rex', friends=[{'a': object()}])", "plain values"),
        ("addPet('Rex', weight=float('nan'))", "cannot be sent as JSON"),
        ("listPets(X_Request_ID='a\\r\\nHost: evil')", "cannot be sent in a header"),
        ("listPets(X_Request_ID='ü')", "cannot be sent in a header"),
        ("get_pet('..')", "cannot be part of a path"),
        ("get_pet('../admin')", "cannot be part of a path"),
        ("get_pet('a/../../admin')", "cannot be part of a path"),
        ("get_pet('..\\\\admin')", "cannot be part of a path"),
        ("get_pet('.')", "cannot be part of a path"),
        ("get_pet('')", "cannot be part of a path"),
    ],
)
def test_invalid_arguments_are_never_sent(tmp_path: Path, call: str, expected: str) -> None:
    with serving([]) as server:
        assert expected in error_of(document(tmp_path, server.url), call)
        assert server.seen == []


def test_parameters_cannot_combine_to_dot_segments(tmp_path: Path) -> None:
    parameters = [{"name": name, "in": "path", "schema": {"type": "string"}} for name in ("a", "b")]
    paths = {"/x/{a}{b}/y": {"get": {"operationId": "both", "parameters": parameters}}}
    with serving([]) as server:
        path = document(tmp_path, server.url, paths=paths)
        for call in ("both('.', '.')", "both('..', 'a')"):
            assert "path" in error_of(path, call)
        assert run("answer = both('.a', 'b.')", tools=tools(path)).answer == []
        assert [seen[1] for seen in server.seen] == ["/x/.ab./y"]


@pytest.mark.parametrize("template", ["@127.0.0.1:{port}/steal", "{h}/x", ":80/x", ""])
def test_a_path_cannot_change_the_host(tmp_path: Path, template: str) -> None:
    parameters = [{"name": "h", "in": "path", "schema": {"type": "string"}}]
    with serving([]) as good, serving([]) as evil:
        template = template.replace("{port}", evil.url.rpartition(":")[2])
        paths = {template: {"get": {"operationId": "x", "parameters": parameters}}, "/y": {"get": {}}}
        path = document(tmp_path, good.url.replace("127.0.0.1", "localhost"), paths=paths, security=[{"bearer": []}])
        notes: list[str] = []
        made = rest_tools([(path, None)], {"COC_OPENAPI_TOKEN": TOKEN}, notes.append)
        assert [one.name for one in made] == ["get_y"]
        assert "its path does not begin with /" in notes[0]
        assert evil.seen == []


def test_request_cannot_leave_its_host() -> None:
    argument = Argument(name="h", sent_as="h", where="path", type=str, is_required=True)
    operation = APIOperation(
        name="x", method="get", base="http://good.example", path="{h}/x", doc="", arguments=(argument,), security=()
    )
    call = rest._function(operation, {rest.TOKEN: TOKEN, rest.KEY: ""}, rest.PinnedHosts([]), 1)
    with pytest.raises(rest.HTTPError, match="another host"):
        call(".evil.example")


# --- replies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "kind", "wanted"),
    [
        (b'{"a": [1, null]}', "application/json", {"a": [1, None]}),
        (b"{'a': 1", "application/json", "{'a': 1"),
        (b"[" * 100_000, "application/json", "[" * 100_000),
        (b"1" * 5000, "application/json", "1" * 5000),
        (b"hello", "text/plain", "hello"),
        (b'"hello"', "text/plain", '"hello"'),
        (b"caf\xe9", "text/plain; charset=latin-1", "café"),
        (b"caf\xe9", "text/plain; charset=nonsense", "caf\ufffd"),
        (b"\x83J", "text/plain; charset=Shift_JIS", "カ"),
        (b"bcher-kva", "text/plain; charset=punycode", "bcher-kva"),
        (b"aGk=", "text/plain; charset=base64", "aGk="),
        (b"", "application/json", None),
    ],
    ids=lambda value: str(value)[:20],
)
def test_replies_become_data(tmp_path: Path, body: bytes, kind: str, wanted: object) -> None:
    with serving(lambda seen: seen.reply(200, body, kind)) as server:
        result = run("answer = get_pet('x')", tools=tools(document(tmp_path, server.url)))
    assert result.answer == wanted, result


def test_head_returns_headers(tmp_path: Path) -> None:
    with serving(lambda seen: seen.reply(200, b"xyz", Etag="7")) as server:
        result = run("answer = has_pet('x')['etag']", tools=tools(document(tmp_path, server.url)))
    assert result.answer == "7", result


@pytest.mark.parametrize("status", [404, 500, 304, 600])
def test_http_errors_are_raised_in_the_program(tmp_path: Path, status: int) -> None:
    with serving(lambda seen: seen.reply(status, b"no such pet " + b"x" * 1000)) as server:
        path = document(tmp_path, server.url)
        message = error_of(path, "get_pet('x')")
        assert message.startswith(f"get_pet: HTTPError: {status}" + (": no such pet xxx" if status != 304 else ""))
        assert len(message) < 400
        handled = "try: answer = get_pet('x')\nexcept Exception: answer = 'none'"
        assert run(handled, tools=tools(path)).answer == "none"


def forever(seen: Any) -> None:
    seen.send_response(200)
    seen.end_headers()
    with contextlib.suppress(OSError):
        while True:
            seen.wfile.write(b"x" * 100_000)


def dripping(seen: Any) -> None:
    seen.send_response(200)
    seen.send_header("Content-Length", "100000")
    seen.end_headers()
    with contextlib.suppress(OSError):
        for _ in range(100):
            seen.wfile.write(b" ")
            time.sleep(0.1)


def dripping_without_a_length(seen: Any) -> None:
    seen.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")
    with contextlib.suppress(OSError):
        for _ in range(100):
            seen.wfile.write(b"1")
            time.sleep(0.1)


def dripping_headers(seen: Any) -> None:
    with contextlib.suppress(OSError):
        for _ in range(100):
            seen.wfile.write(b"H")
            time.sleep(0.1)


def cut(seen: Any) -> None:
    seen.send_response(200)
    seen.send_header("Content-Length", "1000")
    seen.end_headers()
    seen.wfile.write(b"[1, 2")
    seen.close_connection = True


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda seen: seen.reply(200, b"x" * 1_000_001), "over 1,000,000 bytes"),
        (forever, "over 1,000,000 bytes"),
        (lambda seen: time.sleep(3), "no complete reply within 1 s"),
        (dripping, "no complete reply within 1 s"),
        (dripping_without_a_length, "no complete reply within 1 s"),
        (dripping_headers, "no complete reply within 1 s"),
        (cut, "cut short"),
        (lambda seen: seen.wfile.write(b"what?\r\n\r\n"), "cannot be reached or closed the connection"),
        (lambda seen: seen.connection.shutdown(2), "cannot be reached or closed the connection"),
    ],
)
def test_bad_server_is_an_error_in_the_program(tmp_path: Path, act: Callable[[Any], None], expected: str) -> None:
    with serving(act) as server:
        started = time.monotonic()
        assert expected in error_of(document(tmp_path, server.url), "get_pet('x')", seconds=1)
        assert time.monotonic() - started < 5


def test_unreachable_server(tmp_path: Path) -> None:
    with serving([]) as server:
        url = server.url
    assert "cannot be reached" in error_of(document(tmp_path, url), "get_pet('x')")


def test_redirects_within_the_host_are_followed(tmp_path: Path) -> None:
    def turning(seen: Any) -> None:
        if seen.path.endswith("/there"):
            seen.reply(200, b'"here"')
        elif seen.path.endswith("/round"):
            seen.reply(302, b"", Location="/pets/round")
        else:
            seen.reply(307, b"", Location="/pets/there")

    with serving(turning) as server:
        path = document(tmp_path, server.url)
        assert run("answer = get_pet('x')", tools=tools(path)).answer == "here"
        assert "HTTPError: 302" in error_of(path, "get_pet('round')")
        assert "redirect to another path of the same host" in error_of(path, "addPet('x')")
        assert [seen[0] for seen in server.seen].count("POST") == 1


@pytest.mark.parametrize("location", ["{url}/pets/x", "//{host}/pets/x", "https://example.org/", "file:///etc/passwd", "http://[", "http://u@{own}/"])  # fmt: skip
def test_no_redirect_leads_to_another_host(tmp_path: Path, location: str) -> None:
    with serving([]) as other:
        host = other.url.removeprefix("http://")

        def away(seen: Any) -> None:
            where = location.format(url=other.url, host=host, own=seen.headers["Host"])
            seen.reply(302, b"", Location=where)

        with serving(away) as server:
            path = document(tmp_path, server.url, security=[{"bearer": []}])
            error_of(path, "get_pet('x')", COC_OPENAPI_TOKEN=TOKEN)
            assert len(server.seen) == 1
        assert other.seen == []


def test_untrusted_certificate_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which("openssl"):
        pytest.skip("no openssl here to make a certificate with")
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-keyout", "key", "-out", "cert", "-days", "2", "-subj", "/CN=x", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(made, cwd=tmp_path, check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    with serving(lambda seen: dripping(seen) if "slow" in seen.path else seen.reply(200, b"[1]"), tls) as server:
        path = document(tmp_path, server.url, security=[{"bearer": []}])
        assert "cannot be reached" in error_of(path, "get_pet('x')", COC_OPENAPI_TOKEN=TOKEN)  # untrusted certificate
        assert server.seen == []
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert"))
        assert run("answer = get_pet('x')", tools=tools(path, COC_OPENAPI_TOKEN=TOKEN)).answer == [1]
        message = error_of(path, "get_pet('slow')", seconds=1, COC_OPENAPI_TOKEN=TOKEN)
        assert "no complete reply within 1 s" in message


# --- credentials --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["bearer", "header", "query"])
def test_credentials_go_to_the_host_and_nowhere_else(tmp_path: Path, scheme: str) -> None:
    def echo(seen: Any) -> None:
        request = {"path": seen.path, "headers": dict(seen.headers.items()), TOKEN: KEY}
        text = json.dumps(request).replace("/", "\\/" if "slash" in seen.path else "/")
        if "cut" in seen.path:  # the error quotes the first 300 characters, which end inside the secret
            text = "-" * 295 + TOKEN
        seen.reply(200 if "good" in seen.path else 403, text.encode())

    with serving(echo) as server:
        path = document(tmp_path, server.url, security=[{scheme: []}])
        program = """
a, told = [get_pet('good'), get_pet('good slash')], []
for which in ('bad', 'bad slash', 'bad cut'):
    try: get_pet(which)
    except Exception as e: told.append(str(e))
answer = [a, told]
"""
        lm = ScriptedLM([f"```python\n{program}\n```"])
        result = solve("What?", lm, tools=tools(path, COC_OPENAPI_TOKEN=TOKEN, COC_OPENAPI_KEY=KEY))
        assert result.reason == "answered", result
        _, sent_to, headers, _ = server.seen[0]
    if scheme == "bearer":
        assert headers["authorization"] == f"Bearer {TOKEN}"
    elif scheme == "header":
        assert headers["x-key"] == KEY
    else:
        assert sent_to == "/pets/good?key=key%2FSECRET+456"
    kept = "\n".join(result.trace.lines()) + repr(lm.requests) + repr(result)
    assert not re.search(r"SECRET|tok(/|\\+/|%2F)", kept)
    assert "[secret]" in kept


def test_missing_and_unknown_credentials(tmp_path: Path) -> None:
    with serving([]) as server:
        path = document(tmp_path, server.url, security=[{"bearer": []}])
        assert "COC_OPENAPI_TOKEN, which is not set" in error_of(path, "get_pet('x')")
        path = document(tmp_path, server.url, security=[{"basic": []}])
        assert "not supported" in error_of(path, "get_pet('x')", COC_OPENAPI_TOKEN=TOKEN)
        assert server.seen == []
        path = document(tmp_path, server.url, security=[{}, {"basic": []}, {"header": []}])
        run("get_pet('x')", tools=tools(path))
        run("get_pet('x')", tools=tools(path, COC_OPENAPI_KEY=KEY))
        assert [seen[2].get("x-key") for seen in server.seen] == [None, KEY]
    with pytest.raises(InputError) as caught:
        tools(path, COC_OPENAPI_TOKEN="a\nb")
    assert "a\nb" not in str(caught.value)


def test_a_token_is_for_one_host(tmp_path: Path) -> None:
    paths = {**PETS["paths"], "/elsewhere": {"get": {"servers": [{"url": "http://127.0.0.1:2"}]}}}
    path = document(tmp_path, "http://127.0.0.1:1", security=[{"bearer": []}], paths=paths)
    with pytest.raises(InputError, match="would be sent to several hosts"):
        tools(path, COC_OPENAPI_TOKEN=TOKEN)
    tools(path)


# --- documents ----------------------------------------------------------------------------------------------------


def test_base_url_of_the_user_wins(tmp_path: Path) -> None:
    with serving([]) as server:

        def went_to(url: str | None, base: str | None, **more: Any) -> str:
            run("get_pet('x')", tools=tools(document(tmp_path, url, **more), base))
            return server.seen[-1][1]

        assert went_to(server.url, None) == "/pets/x"
        assert went_to(None, server.url + "/v2") == "/v2/pets/x"
        assert went_to("/v1", server.url) == "/v1/pets/x"
        assert went_to("https://example.org/prod", server.url) == "/pets/x"  # the user's URL wins
        port = server.url.rpartition(":")[2]
        variables = {"port": {"default": port}, "v": {"default": "v3"}}
        servers = [{"url": "http://127.0.0.1:{port}/{v}", "variables": variables}]
        assert went_to(None, None, servers=servers) == "/v3/pets/x"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (None, "does not say where it is served: use --openapi"),
        ("/v1", "does not say where it is served"),
        ("ftp://example.org", "is not a URL"),
        ("file:///etc/passwd", "is not a URL"),
        ("http://user:pass@example.org", "is not a URL"),
        ("http://", "is not a URL"),
        ("http://a:99999", "is not a URL"),
        ("http://a b", "is not a URL"),
        ("http://a\r\nX: y", "is not a URL"),
        ("//example.org", "is not a URL"),
    ],
)
def test_invalid_servers_are_refused(tmp_path: Path, url: str | None, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        tools(document(tmp_path, url))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is not JSON"),
        ("openapi: 3.1.0", "is not JSON: .*line 1, column 1 .*name YAML files .yaml"),
        ("[]", "is not an OpenAPI 3 document"),
        ('{"swagger": "2.0"}', "is not an OpenAPI 3 document"),
        ('{"openapi": "3.0.0"}', "has no operations"),
        ('{"openapi": "3.0.0", "paths": [1]}', "has no operations"),
        ('{"openapi": "3.0.0", "paths": {"/": null, "/a": {"get": 3, "$ref": "#/paths/~1a"}}}', "has no operations"),
        ("[" * 100_000, "nested too deep|recursion"),
        ("1" * 5000, "cannot be read"),
        ("\udcff", "cannot read"),
    ],
    ids=lambda text: text[:30],
)
def test_invalid_documents_are_refused(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "d.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=expected):
        tools(path, "http://127.0.0.1:1")


def test_too_many_operations(tmp_path: Path) -> None:
    path = document(tmp_path, "http://127.0.0.1:1", paths={f"/{n}": {"get": {}} for n in range(100_000)})
    started = time.monotonic()
    with pytest.raises(InputError, match=f"100,000 operations; the limit is {MAX_OPERATIONS}"):
        tools(path)
    assert time.monotonic() - started < 5
    path.write_bytes(b" " * 20_000_001)
    with pytest.raises(InputError, match="20,000,001 bytes"):
        tools(path)


def test_recursive_schemas_are_bounded(tmp_path: Path) -> None:
    schemas: dict[str, Any] = {
        "Loop": {"$ref": "#/components/schemas/Loop"},
        "Tree": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
        "Wide": {"anyOf": [{"$ref": "#/components/schemas/Wide"}] * 50, "allOf": [{"$ref": "#/components/schemas/Wide"}] * 50},
        "Deep": {"allOf": [{"$ref": "#/components/schemas/Deep"}] * 50, "properties": {"x": {"$ref": "#/components/schemas/Deep"}}},
        "Away": {"$ref": "https://example.org/evil.json"},
        "Odd": {"type": 3, "enum": [[1]], "properties": [], "items": 7},
        "Big": {"enum": list(range(100_000))},
    }  # fmt: skip
    paths = {
        f"/{name}/{n}": {"get": {
            "operationId": f"{name}{n}",
            "parameters": [{"name": "x", "in": "query", "schema": {"$ref": f"#/components/schemas/{name}"}}, {"$ref": "#/nowhere"}, 3],
            "requestBody": {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}},
            "responses": {"200": {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}}},
        }}
        for name in schemas for n in range(60)
    }  # fmt: skip
    path = document(tmp_path, "http://127.0.0.1:1", paths=paths, components={"schemas": schemas})
    started = time.monotonic()
    made = tools(path)
    assert len(made) == 420
    assert sum(len(one.description) for one in made) < 1_000_000
    assert time.monotonic() - started < 20


def test_visits_of_schemas_are_bounded() -> None:
    class Counted(dict[str, Any]):
        visits = 0

        def get(self, key: str, default: Any = None) -> Any:
            Counted.visits += key == "allOf"
            return super().get(key, default)

    node = Counted()
    node["allOf"] = [node] * 8  # 8**5 visits
    Schemas({}, visits=1000).fields(node)
    assert 900 < Counted.visits < 1100


@pytest.mark.parametrize("reference", ["./defs/a", "//defs/a", "b.json#/defs/a", "https://example.org/defs/a"])
def test_references_to_other_documents_are_not_followed(reference: str) -> None:
    schemas = Schemas({"defs": {"a": {"type": "integer"}}})
    assert schemas.at({"$ref": "#/defs/a"}) == {"type": "integer"}
    assert schemas.at({"$ref": reference}) == {}


def test_expanding_documents_are_bounded(tmp_path: Path) -> None:
    variables = {f"v{n}": {"default": f"{{v{n + 1}}}{{v{n + 1}}}"} for n in range(40)}
    wide = {"properties": {f"p{n}": {} for n in range(5000)}}
    labels = {"enum": ["z" * 100_000 + str(n) for n in range(100)]}
    schemas = {"E": labels, "T": wide, "S": {"allOf": [{"$ref": "#/components/schemas/T"}] * 5000}}
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/S"}}}}
    parameters = [{"name": "z", "in": "query", "schema": {"$ref": "#/components/schemas/E"}}]
    paths: dict[str, Any] = {f"/{n}": {"post": {"requestBody": body, "parameters": parameters}} for n in range(20)}
    paths["/e"] = {"get": {"parameters": parameters}}
    servers = [{"url": "http://127.0.0.1:1/{v0}", "variables": variables}]
    path = tmp_path / "d.json"
    path.write_text(
        json.dumps({"openapi": "3.0.0", "paths": paths, "servers": servers, "components": {"schemas": schemas}})
    )
    started = time.monotonic()
    made = tools(path)
    assert time.monotonic() - started < 10
    assert "get_e" in [one.name for one in made]
    assert len(Toolbox.of(made).descriptions) < 10_000
    path.write_text(path.read_text().replace("{v0}", "{v0}" * 500))
    with pytest.raises(InputError, match="is not a URL"):
        tools(path)


def test_descriptions_of_many_tools_are_bounded() -> None:
    names = ", ".join(f"argument_number_{n}" for n in range(2000))
    space: dict[str, Any] = {}
    exec(f"def wide({names}): 'Wide.'", space)
    many = [Tool(f"wide{n}", space["wide"]) for n in range(500)]
    assert len(many[0].description) < 9000
    assert "Wide." in many[0].description
    assert len(Toolbox.of(many).descriptions) < 600_000


def test_names(tmp_path: Path) -> None:
    paths: dict[str, Any] = {
        "/a": {"get": {"operationId": "list"}, "post": {"operationId": "a b!"}, "put": {"operationId": "a-b"}},
        "/b": {"get": {"operationId": "import"}, "post": {"operationId": "2fa"}, "put": {"operationId": "日本"}},
        "/c/{class}": {"get": {"parameters": [
            {"name": "class", "in": "path"}, {"name": "x-y", "in": "query"}, {"name": "x.y", "in": "query"}]}},
        "/d/{lost}": {"get": {}},
        "/e": {"post": {"requestBody": {"required": True, "content": {"multipart/form-data": {}}}}},
        "/f": {"get": {"parameters": [{"name": f"p{n}", "in": "query"} for n in range(150)]}},
        "/g": {"get": {"parameters": [{"name": "p", "in": "query", "style": "deepObject"}]}},
        "/h/{p}": {"get": {"parameters": [{"name": "p", "in": "path", "style": "matrix"}]}},
    }  # fmt: skip
    notes: list[str] = []
    path = document(tmp_path, "http://127.0.0.1:1", paths=paths)
    made = rest_tools([(path, None)], {}, notes.append)
    assert [one.name for one in made] == ["get_a", "a_b", "put_a", "import_", "_2fa", "put_b", "get_c_class"]
    description = made[-1].description.replace("typing.", "")
    assert description.startswith("def get_c_class(class_: Any, x_y: Any = None, x_y_2: Any = None)")
    assert [note.partition("left out: ")[2] for note in notes] == [
        "'lost' in its path is not a declared parameter", "its body is not JSON", "it takes 150 arguments; the limit is 100",
        "its parameter 'p' has the style 'deepObject'", "its parameter 'p' has the style 'matrix'",
    ]  # fmt: skip


def test_yaml_aliases_are_refused(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    path = tmp_path / "pets.yaml"
    path.write_text(yaml.safe_dump(json.loads(json.dumps(PETS))).replace("'200':", "200:"))
    assert len(tools(path, "http://127.0.0.1:1")) == 5
    assert "Gives [{" in tools(path, "http://127.0.0.1:1")[0].description
    bomb = ["x0: &a0 [lollol]", *(f"x{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9))]
    for text in ("openapi: 3.1.0\npaths: &a\n  /x: *a\n", "\n".join([*bomb, "openapi: *a8", "paths: {}"])):
        path.write_text(text)
        with pytest.raises(InputError, match=r"not YAML: it refers to \*a"):
            tools(path, "http://127.0.0.1:1")
    path.write_text("openapi: 3.1\npaths: {/x: {get: {operationId: 0x" + "f" * 9000 + "}}}\n")
    assert [one.name for one in tools(path, "http://127.0.0.1:1")] == ["get_x"]
    path.write_text("a: [")
    with pytest.raises(InputError, match="is not YAML"):
        tools(path)
    path.write_text("a: &a [1,2]\nb: !!python/object/apply:os.system ['true']")
    with pytest.raises(InputError, match="is not YAML"):
        tools(path)


def test_dates_are_validated(tmp_path: Path) -> None:
    with serving([]) as server:
        program = "listPets(born='2024-02-30')"
        assert "does not fit" in error_of(document(tmp_path, server.url), program)
        run("listPets(born='2024-02-29')", tools=tools(document(tmp_path, server.url)))
        assert server.seen[-1][1] == f"/pets?born={datetime.date(2024, 2, 29)}"


# --- the command --------------------------------------------------------------------------------------------------


def test_command_calls_operations_after_approval(tmp_path: Path) -> None:
    with serving([{"name": "Tom"}]) as server:
        document(tmp_path, None)
        (tmp_path / "p.py").write_text("answer = listPets()[0].name")
        done = coc("run", "p.py", "--openapi", f"pets.json={server.url}", cwd=tmp_path)
        assert done.stdout.startswith("answer: 'Tom'\n"), done
        (tmp_path / "p.py").write_text("answer = addPet('Rex')")
        done = coc("run", "p.py", "--openapi", f"pets.json={server.url}", cwd=tmp_path)
        assert "addPet was not approved" in done.stdout
        done = coc("run", "p.py", "--openapi", f"pets.json={server.url}", "--approve", "never", cwd=tmp_path)
        assert done.stdout.startswith("answer: [{'name': 'Tom'}]\n")
        assert [seen[0] for seen in server.seen] == ["GET", "POST"]
    done = coc("run", "p.py", "--openapi", "pets.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--openapi pets.json=https://…" in done.stderr
    assert "cannot read nowhere.json" in coc("run", "p.py", "--openapi", "nowhere.json", cwd=tmp_path).stderr
