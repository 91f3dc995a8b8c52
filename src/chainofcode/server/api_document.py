"""The API as an OpenAPI 3.1 document: every status, and every rule that requests are checked against.

The page and /mcp, which has its own specification, are not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from .. import __version__
from . import patterns
from .api_components import QUESTION_ID, RUN_ID, SHA256, TEXT, Schema, openai_names, ref, schemas
from .settings import ServerSettings
from .store import State

_STATUSES = {
    400: "Invalid request",
    401: "Missing or invalid token",
    403: "Request from a page of another origin, or missing scope",
    404: "Not found",
    408: "Body sent too slowly",
    409: "Not possible in the current state of the run",
    413: "Body or trace too large, or no room for more uploads",
    415: "Body is not JSON",
    421: "Unknown host name",
    422: "The trace of the run cannot be read or audited",
    429: "Rate limit, full queue, too many open requests, or daily budget",
    500: "Internal error",
    502: "Model unavailable",
    503: "Shutting down, busy, timeout, or storage unavailable",
}
_ALWAYS = (403, 408, 413, 421, 429, 500, 503)
_RETRY = {"Retry-After": {"schema": {"type": "integer", "minimum": 1}}}


def document(settings: ServerSettings, models: Sequence[str], *, needs_token: bool | None = None) -> Schema:
    """The document of one server. `needs_token`: whether it requires a token; None: if its settings have one."""
    needs_token = bool(settings.tokens) if needs_token is None else needs_token
    paths = {**_server_paths(), **_run_paths(), **_openai_paths(models)}
    always = (401, *_ALWAYS) if needs_token else _ALWAYS
    for path, operations in paths.items():
        for method, operation in operations.items():
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
        "components": {"schemas": schemas(models), **({"securitySchemes": security} if needs_token else {})},
        **({"security": [{"token": []}]} if needs_token else {}),
    }


def _refusal(code: int, kind: str) -> Schema:
    response: Schema = {"description": _STATUSES[code], "content": {"application/json": {"schema": ref(kind)}}}
    return {**response, "headers": _RETRY} if code in (429, 503) else response


def _operation(
    summary: str, responses: Schema, *, body: Schema | None = None, parameters: Any = (), refusals: Sequence[int] = ()
) -> Schema:
    operation: Schema = {"summary": summary, "responses": responses, "refusals": refusals}
    if body is not None:
        operation["requestBody"] = body
        if "application/json" in body["content"]:
            operation["refusals"] = (*refusals, 400, 415)
    if parameters:
        operation["parameters"] = list(parameters)
    return operation


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


def _path_parameter(name: str, schema: Schema) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _server_paths() -> Schema:
    name = patterns.text_of(patterns.FILE_NAME, minLength=1, maxLength=patterns.MAX_FILE_NAME_CHARS)
    file = {"required": False, "content": {"application/octet-stream": {}}}
    ready = _json("Health") | _json("Health", 503)
    keep = _operation(
        "Upload a file for runs",
        _json("File", 201),
        body=file,
        parameters=[_query("name", name, required=True)],
        refusals=(400,),
    )
    return {
        "/healthz": {"get": {**_operation("Liveness", _json("Health")), "security": []}},
        "/readyz": {"get": _operation("Readiness: whether the server can carry out runs", ready)},
        "/metrics": {"get": _operation("Metrics for Prometheus", _raw("text/plain", "metrics"))},
        "/openapi.json": {"get": _operation("This document", _raw("application/json", "OpenAPI 3.1"))},
        "/api/info": {"get": _operation("Version, models, methods and limits", _json("Info"))},
        "/api/files": {"post": keep},
    }


def _run_paths() -> Schema:
    last = {"name": "Last-Event-ID", "in": "header", "schema": TEXT}
    live = _query("live", {"enum": ["0", "1"], "description": "0: only the events so far"})
    limit = _query("limit", {"type": "integer", "minimum": 1, "maximum": 200, "default": 50})
    words = _query(
        "q",
        {
            "type": "string",
            "maxLength": patterns.MAX_WORDS_CHARS,
            "description": "only runs that contain all of these words",
        },
    )
    since = {"type": "number", "minimum": 0, "maximum": 1e11, "description": "seconds since 1970"}
    facts = [_query("state", {"enum": [*get_args(State)]}), _query("method", TEXT), _query("model", TEXT)]
    listing = [limit, _query("before", RUN_ID), words, *facts, _query("since", since), _query("until", since)]
    events = (
        "trace, program, call, step and answer events; waiting: calls in flight; draft: the reply so far; end: last"
    )
    removed = {"204": {"description": "Removed"}}
    follow = _operation(
        "Follow the events of a run", _raw("text/event-stream", events), parameters=[last, live], refusals=(400,)
    )
    replay, why = "Replay a run, optionally with changes", "What the answer, or a variable, depends on"
    verify = "Whether the answer follows from the reasoning"
    run_path, all_of = (
        "/api/runs/{id}",
        {"get": _operation("List runs, the newest first", _json("Runs"), parameters=listing)},
    )
    all_of["get"]["refusals"] = (400, 404)
    begin = _operation(
        "Start a run: a question, or a program", _json("Begun", 202), body=_sent("NewRun"), refusals=(404,)
    )
    replay_operation = _operation(
        replay, _json("Begun", 202), body=_sent("Replay", required=False), refusals=(409, 422)
    )
    resume = _operation(
        "Resume a run: recorded values are reused, the rest is requested",
        _json("Begun", 202),
        body=_sent("Resume", required=False),
        refusals=(409, 422),
    )
    paths: Schema = {
        run_path: {
            "get": _operation("Get a run", _json("Run")),
            "delete": _operation("Delete a run", removed, refusals=(409,)),
        },
        f"{run_path}/events": {"get": follow},
        f"{run_path}/trace": {"get": _operation("Get the trace of a run", _raw("application/x-ndjson", "JSON lines"))},
        f"{run_path}/page": {
            "get": _operation("Get a run as one HTML file", _raw("text/html", "an HTML page"), refusals=(409, 422))
        },
        f"{run_path}/cancel": {"post": _operation("Cancel a run", _json("Begun"))},
        f"{run_path}/resume": {"post": resume},
        f"{run_path}/replay": {"post": replay_operation},
        f"{run_path}/why": {
            "get": _operation(why, _json("Why"), parameters=[_query("name", TEXT)], refusals=(409, 422))
        },
        f"{run_path}/verify": {"get": _operation(verify, _json("Verdict"), refusals=(409, 422))},
        f"{run_path}/artifacts/{{sha256}}": {
            "get": _operation("Get a file that the program wrote", _raw("*/*", "the content of the file"))
        },
    }
    for path, operations in paths.items():
        for operation in operations.values():
            operation["refusals"] = (404, *operation["refusals"])
        places = [_path_parameter("id", RUN_ID), *([_path_parameter("sha256", SHA256)] if "sha256" in path else [])]
        operations["parameters"] = places
    return {"/api/runs": {**all_of, "post": begin}, **paths, **_question_paths()}


def _question_paths() -> Schema:
    listed = _operation(
        "List the calls that wait for a person, the oldest first",
        _json("Questions"),
        parameters=[_query("run", RUN_ID)],
        refusals=(400,),
    )
    answer = _operation(
        "Answer a call: its run continues", _json("Begun", 202), body=_sent("Answer"), refusals=(404, 409)
    )
    return {
        "/api/questions": {"get": listed},
        "/api/questions/{id}": {"post": answer, "parameters": [_path_parameter("id", QUESTION_ID)]},
    }


def _openai_paths(models: Sequence[str]) -> Schema:
    openai_refusals = {"refusals": (404, 502)}
    chat = _operation(
        "Answer a conversation", _json("Completion", streamed=True), body=_sent("Chat"), **openai_refusals
    )
    respond = _operation(
        "Create a response", _json("Response", streamed=True), body=_sent("Respond"), **openai_refusals
    )
    model = _operation("Get a model", _json("Model"), refusals=(404,))
    return {
        "/v1/models": {"get": _operation("List models: combinations of method and model", _json("Models"))},
        "/v1/models/{name}": {"get": model, "parameters": [_path_parameter("name", {"enum": openai_names(models)})]},
        "/v1/chat/completions": {"post": chat},
        "/v1/responses": {"post": respond},
    }
