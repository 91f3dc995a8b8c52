"""The API as an OpenAPI 3.1 document: every status that is answered, every rule that requests are held against.

Not in it: the page, and /mcp, which MCP's own specification describes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import __version__
from . import patterns
from .api_components import RUN_ID, SHA256, TEXT, Schema, openai_names, ref, schemas
from .settings import ServerSettings

_WORDS = {
    400: "Not as it should be",
    401: "Without the token",
    403: "From a page of another origin",
    404: "Not there",
    408: "The body did not come",
    409: "Not now, or not with this run",
    413: "Too large",
    415: "No JSON",
    421: "For another host",
    429: "Too much at once, or today",
    500: "Broken here",
    502: "The model could not be had",
    503: "About to stop, or too slow",
}
_ALWAYS = (403, 408, 413, 421, 429, 500, 503)
_RETRY = {"Retry-After": {"schema": {"type": "integer", "minimum": 1}}}


def document(settings: ServerSettings, models: Sequence[str]) -> Schema:
    """The whole document, for the terms and models of one server."""
    paths = {**_itself(), **_runs(), **_openai(models)}
    always = (401, *_ALWAYS) if settings.tokens else _ALWAYS
    for path, told in paths.items():
        for method, operation in told.items():
            if method != "parameters":
                kind = "OpenAIError" if path.startswith("/v1/") else "Error"
                codes = () if path == "/healthz" else (*operation.pop("refusals"), *always)
                operation.pop("refusals", None)
                operation["responses"] |= {str(code): _refusal(code, kind) for code in sorted(codes)}
    security = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "chainofcode", "version": __version__, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {"schemas": schemas(models), **({"securitySchemes": security} if settings.tokens else {})},
        **({"security": [{"token": []}]} if settings.tokens else {}),
    }


def _refusal(code: int, kind: str) -> Schema:
    told: Schema = {"description": _WORDS[code], "content": {"application/json": {"schema": ref(kind)}}}
    return {**told, "headers": _RETRY} if code in (429, 503) else told


def _does(
    summary: str, responses: Schema, *, body: Schema | None = None, parameters: Any = (), refusals: Sequence[int] = ()
) -> Schema:
    told: Schema = {"summary": summary, "responses": responses, "refusals": refusals}
    if body is not None:
        told["requestBody"] = body
        told["refusals"] = (*refusals, 400, 415) if "application/json" in body["content"] else refusals
    return {**told, "parameters": list(parameters)} if parameters else told


def _json(name: str, status: int = 200, *, streamed: bool = False) -> Schema:
    content: Schema = {"application/json": {"schema": ref(name)}}
    if streamed:
        content["text/event-stream"] = {}
    return {str(status): {"description": name, "content": content}}


def _raw(kind: str, text: str) -> Schema:
    return {"200": {"description": text, "content": {kind: {}}}}


def _sent(name: str, *, required: bool = True) -> Schema:
    return {"required": required, "content": {"application/json": {"schema": ref(name)}}}


def _query(name: str, schema: Schema, *, required: bool = False) -> Schema:
    return {"name": name, "in": "query", "schema": schema, "required": required}


def _place(name: str, schema: Schema) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _itself() -> Schema:
    name = patterns.text_of(patterns.FILE_NAME, minLength=1, maxLength=patterns.MAX_FILE_NAME_CHARS)
    file = {"required": False, "content": {"application/octet-stream": {}}}
    ready = _json("Health") | _json("Health", 503)
    keep = _does(
        "Upload a file for runs",
        _json("File", 201),
        body=file,
        parameters=[_query("name", name, required=True)],
        refusals=(400,),
    )
    return {
        "/healthz": {"get": {**_does("Whether the server lives", _json("Health")), "security": []}},
        "/readyz": {"get": _does("Whether it can carry out runs", ready)},
        "/metrics": {"get": _does("What it has counted, for Prometheus", _raw("text/plain", "metrics"))},
        "/openapi.json": {"get": _does("This document", _raw("application/json", "OpenAPI 3.1"))},
        "/api/info": {"get": _does("What it offers", _json("Info"))},
        "/api/files": {"post": keep},
    }


def _runs() -> Schema:
    last = {"name": "Last-Event-ID", "in": "header", "schema": TEXT}
    limit = _query("limit", {"type": "integer", "minimum": 1, "maximum": 200, "default": 50})
    words = _query(
        "q", {"type": "string", "maxLength": patterns.MAX_WORDS_CHARS, "description": "with all of these words"}
    )
    listing = [limit, _query("before", RUN_ID), words]
    events = "trace, program, call, step, answer as they come; waiting; end is the last"
    removed = {"204": {"description": "It is gone"}}
    replay, why = "Run its programs again, with changes", "What its answer, or a variable, rests on"
    verify = "Whether its answer is what its reasoning gave"
    one, all_of = "/api/runs/{id}", {"get": _does("The runs, the newest first", _json("Runs"), parameters=listing)}
    all_of["get"]["refusals"] = (400, 404)
    begin = _does("Start a run: a question, or a program", _json("Begun", 202), body=_sent("NewRun"), refusals=(404,))
    again = _does(replay, _json("Begun", 202), body=_sent("Replay", required=False), refusals=(409,))
    paths: Schema = {
        one: {"get": _does("A run", _json("Run")), "delete": _does("Remove it", removed, refusals=(409,))},
        f"{one}/events": {"get": _does("Its events", _raw("text/event-stream", events), parameters=[last])},
        f"{one}/trace": {"get": _does("Its trace file", _raw("application/x-ndjson", "JSON lines"))},
        f"{one}/cancel": {"post": _does("End it", _json("Begun"))},
        f"{one}/replay": {"post": again},
        f"{one}/why": {"get": _does(why, _json("Why"), parameters=[_query("name", TEXT)], refusals=(409,))},
        f"{one}/verify": {"get": _does(verify, _json("Verdict"), refusals=(409,))},
        f"{one}/artifacts/{{sha256}}": {"get": _does("A file that its program left", _raw("*/*", "the bytes"))},
    }
    for path, told in paths.items():
        for operation in told.values():
            operation["refusals"] = (404, *operation["refusals"])
        places = [_place("id", RUN_ID), *([_place("sha256", SHA256)] if "sha256" in path else [])]
        told["parameters"] = places
    return {"/api/runs": {**all_of, "post": begin}, **paths}


def _openai(models: Sequence[str]) -> Schema:
    asked = {"refusals": (404, 502)}
    chat = _does("A question as a conversation", _json("Completion", streamed=True), body=_sent("Chat"), **asked)
    respond = _does("A question as a response", _json("Response", streamed=True), body=_sent("Respond"), **asked)
    model = _does("One of them", _json("Model"), refusals=(404,))
    return {
        "/v1/models": {"get": _does("Methods with models, as OpenAI's clients name them", _json("Models"))},
        "/v1/models/{name}": {"get": model, "parameters": [_place("name", {"enum": openai_names(models)})]},
        "/v1/chat/completions": {"post": chat},
        "/v1/responses": {"post": respond},
    }
