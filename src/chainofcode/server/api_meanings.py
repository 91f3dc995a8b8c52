"""What the fields of the API mean, for the OpenAPI document and the reference made from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FILES = "ids of uploaded files"
_ASK_ME = "functions whose calls wait for a person: names or prefixes, as in approve_.*|confirm"
_OPENAI = {
    "model": "METHOD, or METHOD:MODEL",
    "stream": "whether to stream the reply",
    "tools": "functions that the program may call: the client answers the calls in its next request",
}
MEANINGS: Mapping[str, Mapping[str, str]] = {
    "Question": {
        "model": "one of the server's models; null: the first one",
        "files": _FILES,
        "question": "the question",
        "method": "the method that answers it",
        "program": "must be absent",
        "ask_me": _ASK_ME,
        "values": "must be absent or empty",
    },
    "Program": {
        "model": "answers calls that have no value; null: no model",
        "files": _FILES,
        "program": "the program",
        "question": "the value of its variable `question`",
        "method": "must be absent or coc",
        "type": "must be absent",
        "ask_me": _ASK_ME,
        "values": "values of calls: objects with call and value, or strings such as is_fruit('fig')=True",
    },
    "Replay": {
        "set": "changes: CALL=VALUE, step:NUMBER=VALUE or NAME=VALUE, with Python literals or JSON",
        "edit": "a program to run in place of the recorded one",
    },
    "Resume": {"model": "another model for the rest of the run; null: the same"},
    "Answer": {
        "value": "the value as JSON",
        "text": "the value as a person types it: JSON, a Python literal, or plain text where text is expected",
    },
    "OpenQuestion": {
        "id": "its id, for POST /api/questions/{id}",
        "run": "the run that waits",
        "call": "the call, as the program makes it",
        "type": "the type of the value, as an annotation; empty: any",
        "wants": "the type in words",
        "line": "the line of the program",
    },
    "Run": {
        "id": "the id of the run",
        "state": "the current state",
        "question": "the question, or null for a program without one",
        "method": "the method",
        "model": "the model, if one was used",
        "seconds": "the duration; null until the run ends",
        "answer": "the answer as text",
        "reason": "why it ended: answered, error, limit:…, emulation failed, guest died",
        "parent": "the id of the run that this one replays",
        "resumed": "how often it was resumed",
        "usage": "requests, tokens and dollars",
        "error": "why there is no answer: type, message, line",
        "artifacts": "files that the program wrote",
        "files": "ids of its uploaded files",
    },
    "Verdict": {
        "score": "faithfulness, from 0 to 1",
        "flags": "reasons not to trust the answer",
        "origin": "where the answer comes from",
        "replays": "whether the program replays identically",
        "flips": "changed values, and their effect on the answer",
    },
    "File": {"id": "its id, for `files` in requests", "name": "its name", "bytes": "its size", "sha256": "its SHA-256"},
    "Info": {
        "version": "the version of chainofcode",
        "model": "the default model",
        "models": "all models",
        "methods": "methods and their descriptions",
        "limits": "sizes and counts that the server accepts",
    },
    "Chat": {
        **_OPENAI,
        "messages": "the conversation; text only",
        "stream_options": "include_usage: end a stream with the usage",
        "n": "must be absent or 1",
        "functions": "not supported: must be absent or empty",
        "response_format": "text, json_object, or json_schema with a schema for the answer",
    },
    "Respond": {
        **_OPENAI,
        "input": "text, or a conversation",
        "instructions": "a system message",
        "previous_response_id": "not supported: send earlier messages again",
        "text": "the format of the answer: text, json_object, or json_schema with a schema for the answer",
    },
}


def described(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with descriptions of those fields that have none."""
    meanings, fields = MEANINGS.get(name, {}), schema.get("properties", {})
    known = {field: {"description": meanings[field], **fields[field]} for field in fields if field in meanings}
    return {**schema, "properties": {**fields, **known}} if known else schema
