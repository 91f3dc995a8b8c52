"""The native API as an OpenAPI 3.1 document."""

from __future__ import annotations

from typing import Any

from .. import __version__
from ..methods import METHODS

_Schema = dict[str, Any]
_TEXT: _Schema = {"type": "string"}
_TEXT_OR_NONE: _Schema = {"type": ["string", "null"]}
_NUMBER_OR_NONE: _Schema = {"type": ["number", "null"]}
_OBJECT: _Schema = {"type": "object"}
_STATES = ["queued", "running", "done", "cancelled", "interrupted", "failed"]
_LISTED: _Schema = {
    "id": _TEXT,
    "state": {"enum": _STATES},
    "question": _TEXT_OR_NONE,
    "method": _TEXT,
    "model": _TEXT_OR_NONE,
    "created": {"type": "number", "description": "seconds since 1970"},
    "seconds": _NUMBER_OR_NONE,
    "answer": _TEXT_OR_NONE,
    "reason": _TEXT_OR_NONE,
    "parent": _TEXT_OR_NONE,
}
_EITHER = [
    {"required": ["question"], "properties": {"question": {"type": "string", "pattern": "\\S"}}},
    {"required": ["program"], "properties": {"program": _TEXT}},
]
_CALL_AND_VALUE = {"type": "string", "description": "CALL=VALUE, the value as a Python literal: is_fruit('fig')=True"}
_ARTIFACT = {"name": _TEXT, "bytes": {"type": "integer"}, "sha256": _TEXT}


def _shape(properties: _Schema, **more: Any) -> _Schema:
    return {"type": "object", "properties": properties, "required": list(properties), **more}


def _schemas() -> dict[str, _Schema]:
    asked = {
        "question": _TEXT_OR_NONE,
        "method": {"enum": list(METHODS), "default": "coc"},
        "model": _TEXT_OR_NONE,
        "type": {"type": ["string", "null"], "description": "int, list[str], json, choice:A,B …"},
        "files": {"type": "array", "items": _TEXT, "maxItems": 16},
        "inputs": {"type": "object", "description": "variables by name; values as JSON, tagged where JSON lacks them"},
        "program": _TEXT_OR_NONE,
        "values": {"type": "array", "items": {"anyOf": [_shape({"call": _TEXT, "value": {}}), _CALL_AND_VALUE]}},
        "detach": {"type": "boolean", "default": True, "description": "false: a client that leaves ends the run"},
    }
    again = {"set": {"type": "array", "items": _TEXT}, "edit": _TEXT_OR_NONE}
    artifacts = {"type": "array", "items": _shape(_ARTIFACT)}
    whole = {**_LISTED, "usage": _OBJECT, "error": {"type": ["object", "null"]}, "artifacts": artifacts}
    info = {
        "version": _TEXT,
        "model": _TEXT_OR_NONE,
        "models": {"type": "array", "items": _TEXT},
        "methods": {"type": "object", "additionalProperties": _TEXT},
        "limits": _OBJECT,
    }
    return {
        "Error": _shape({"error": _shape({"type": _TEXT, "message": _TEXT})}),
        "Info": _shape(info),
        "File": _shape({"id": _TEXT, "name": _TEXT, "bytes": {"type": "integer"}, "sha256": _TEXT}),
        "NewRun": {"type": "object", "properties": asked, "additionalProperties": False, "anyOf": _EITHER},
        "Replay": {"type": "object", "properties": again, "additionalProperties": False},
        "Begun": _shape({"id": _TEXT, "state": {"enum": _STATES}}),
        "Run": _shape(whole),
        "Runs": _shape({"runs": {"type": "array", "items": _shape(_LISTED)}}),
        "Why": _OBJECT,
        "Verdict": _OBJECT,
        "Health": _shape({"status": _TEXT}),
    }


def _does(summary: str, responses: _Schema, *, body: _Schema | None = None, parameters: Any = ()) -> _Schema:
    told: _Schema = {
        "summary": summary,
        "responses": {**responses, "default": {"$ref": "#/components/responses/Error"}},
    }
    if body is not None:
        told["requestBody"] = {"required": body == _sent("NewRun"), "content": body}
    return {**told, "parameters": list(parameters)} if parameters else told


def _json(name: str, status: str = "200", text: str = "") -> _Schema:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
    return {status: {"description": text or name, "content": content}}


def _raw(kind: str, text: str) -> _Schema:
    return {"200": {"description": text, "content": {kind: {}}}}


def _sent(name: str) -> _Schema:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _query(name: str, schema: _Schema, *, required: bool = False) -> _Schema:
    return {"name": name, "in": "query", "schema": schema, "required": required}


def _runs() -> _Schema:
    id = {"name": "id", "in": "path", "required": True, "schema": _TEXT}
    sha256 = {"name": "sha256", "in": "path", "required": True, "schema": _TEXT}
    last = {"name": "Last-Event-ID", "in": "header", "schema": _TEXT}
    limit = _query("limit", {"type": "integer", "minimum": 1, "maximum": 200, "default": 50})
    words = _query("q", {"type": "string", "maxLength": 200, "description": "only those with all of these words"})
    events = "trace, program, call, step, answer as they come; waiting; end is the last"
    one = "/api/runs/{id}"
    paths: _Schema = {
        "/api/runs": {
            "get": _does(
                "The runs, the newest first", _json("Runs"), parameters=[limit, _query("before", _TEXT), words]
            ),
            "post": _does(
                "Start a run: a question, or a program with values", _json("Begun", "202"), body=_sent("NewRun")
            ),
        },
        one: {"get": _does("A run", _json("Run"))},
        f"{one}/events": {"get": _does("Its events", _raw("text/event-stream", events), parameters=[last])},
        f"{one}/trace": {"get": _does("Its trace file", _raw("application/x-ndjson", "JSON lines"))},
        f"{one}/cancel": {"post": _does("End it", _json("Begun"))},
        f"{one}/replay": {
            "post": _does("Run its programs again, with changes", _json("Begun", "202"), body=_sent("Replay"))
        },
        f"{one}/why": {"get": _does("What its answer rests on", _json("Why"), parameters=[_query("name", _TEXT)])},
        f"{one}/verify": {"get": _does("Whether its answer is what its reasoning gave", _json("Verdict"))},
        f"{one}/artifacts/{{sha256}}": {"get": _does("A file that its program left", _raw("*/*", "the bytes"))},
    }
    for path, told in paths.items():
        if path.startswith(one):
            told["parameters"] = [id, sha256] if "sha256" in path else [id]
    return paths


def document() -> _Schema:
    """The whole document; OpenAI's protocols under /v1 are described by OpenAI."""
    name = _query("name", {"type": "string", "minLength": 1, "maxLength": 100}, required=True)
    file: _Schema = {"application/octet-stream": {}}
    paths = {
        "/healthz": {"get": {**_does("Whether the server lives", _json("Health")), "security": []}},
        "/readyz": {"get": _does("Whether it can carry out runs", _json("Health") | _json("Health", "503"))},
        "/metrics": {"get": _does("What it has counted, for Prometheus", _raw("text/plain", "metrics"))},
        "/api/info": {"get": _does("What it offers", _json("Info"))},
        "/api/files": {
            "post": _does("Upload a file for runs", _json("File", "201"), body=file, parameters=[name]),
        },
        **_runs(),
    }
    error = {"description": "Refused", "content": _sent("Error")}
    return {
        "openapi": "3.1.0",
        "info": {"title": "chainofcode", "version": __version__, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "responses": {"Error": error},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }
