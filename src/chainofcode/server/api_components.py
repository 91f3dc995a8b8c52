"""The schemas of the OpenAPI document: requests and responses of the native API and of OpenAI's protocols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from ..methods import METHODS
from . import patterns
from .api_meanings import described
from .settings import MAX_QUESTION_CHARS
from .store import State

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_OBJECT: Schema = {"type": "object"}
_NOTHING: Schema = {"type": "null"}
_STRUCTURE = "A JSON schema for the answer."
_CONFIDENCE = (
    "the model's confidence in an answer that it states, otherwise in its least certain judgement; not the "
    "probability that the answer is right; null if unknown"
)
_STATES = [*get_args(State)]
RUN_ID = patterns.text_of(patterns.RUN_ID)
QUESTION_ID = patterns.text_of(patterns.QUESTION_ID)
SHA256 = patterns.text_of(patterns.SHA256)
_FILE_ID = patterns.text_of(patterns.FILE_ID)
_SAYING = patterns.text_of(patterns.SAYS_SOMETHING, maxLength=MAX_QUESTION_CHARS)


def shape(properties: Schema, **more: Any) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties), **more}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _or_none(schema: Schema) -> Schema:
    return {"anyOf": [schema, _NOTHING]}


def _list(schema: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": schema, **more}


def schemas(models: Sequence[str]) -> dict[str, Schema]:
    made = {
        "Error": shape({"error": shape({"type": TEXT, "message": TEXT})}),
        "Health": shape({"status": TEXT}),
        "Value": _value(),
        **_requests(models),
        **_responses(),
        **_openai(models),
    }
    return {name: described(name, schema) for name, schema in made.items()}


def _value() -> Schema:
    """A value as JSON; types that JSON lacks are objects with one member whose name begins with `$`."""
    one_of = [
        {"type": ["null", "boolean", "number", "string"]},
        _list(ref("Value")),
        {
            "type": "object",
            "additionalProperties": ref("Value"),
            "anyOf": [{"propertyNames": {"pattern": "^([^$]|$)"}}, {"minProperties": 2}],
        },
    ]
    plain = {"type": ["string", "number", "boolean", "null"]}
    tags: dict[str, Schema] = {
        "$tuple": _list(ref("Value")),
        "$set": _list(plain),
        "$frozenset": _list(plain),
        "$float": {"enum": ["nan", "inf", "-inf"]},
        "$date": {"type": "string", "format": "date"},
    }
    return {
        "description": "a JSON value, or a tagged one: $tuple, $set, $date … (see the page on the trace format)",
        "anyOf": [*one_of, *(shape({tag: body}, additionalProperties=False) for tag, body in tags.items())],
    }


def _requests(models: Sequence[str]) -> dict[str, Schema]:
    common: Schema = {
        "model": {"enum": [None, *named(models)]},
        "files": _list(_FILE_ID, maxItems=16),
        "inputs": {
            "type": "object",
            "description": "variables by name",
            "propertyNames": patterns.variable(),
            "additionalProperties": ref("Value"),
        },
        "detach": {
            "type": "boolean",
            "default": True,
            "description": "false: the run is cancelled when its last client disconnects",
        },
        "ask_me": _or_none(patterns.text_of(patterns.ASK_ME, maxLength=patterns.MAX_ASK_ME_CHARS)),
    }
    answer_type = patterns.text_of(patterns.TYPE, maxLength=patterns.MAX_TYPE_CHARS)
    question = {
        **common,
        "question": _SAYING,
        "method": {"enum": list(METHODS), "default": "coc"},
        "type": {**_or_none(answer_type), "description": "int, list[str], dict[str, float], json, choice:A,B …"},
        "program": _NOTHING,
        "values": {"type": "array", "maxItems": 0},
    }
    how = "CALL=VALUE, the value as a Python literal: is_fruit('fig')=True"
    typed = {**patterns.text_of(patterns.CALL_AND_VALUE, maxLength=patterns.MAX_TYPED_CHARS), "description": how}
    records = _list(shape({"call": TEXT, "value": ref("Value")}), maxItems=10_000)
    program = {
        **common,
        "program": TEXT,
        "question": _or_none({"type": "string", "maxLength": MAX_QUESTION_CHARS}),
        "method": {"const": "coc"},
        "type": _NOTHING,
        "values": {"anyOf": [records, _list(typed, maxItems=patterns.MAX_TYPED)]},
    }
    change = patterns.text_of(patterns.CHANGE, maxLength=patterns.MAX_CHANGE_CHARS)
    replay = {
        "set": _list(change, maxItems=patterns.MAX_CHANGES),
        "edit": _or_none(TEXT),
        "model": {**_or_none(TEXT), "description": "answers calls that the run has no value for"},
    }
    return {
        "Question": {"type": "object", "properties": question, "required": ["question"], "additionalProperties": False},
        "Program": {"type": "object", "properties": program, "required": ["program"], "additionalProperties": False},
        "NewRun": {"anyOf": [ref("Question"), ref("Program")]},
        "Replay": {"type": "object", "properties": replay, "additionalProperties": False},
        "Resume": {"type": "object", "properties": {"model": common["model"]}, "additionalProperties": False},
        "Answer": {
            "type": "object",
            "properties": {"value": ref("Value"), "text": {"type": "string", "maxLength": patterns.MAX_ANSWER_CHARS}},
            "oneOf": [{"required": ["value"]}, {"required": ["text"]}],
            "additionalProperties": False,
        },
    }


def _responses() -> dict[str, Schema]:
    text_or_null, number = _or_none(TEXT), {"type": ["number", "null"]}
    file = {"name": TEXT, "bytes": _COUNT, "sha256": SHA256}
    listed: Schema = {
        "id": RUN_ID,
        "state": {"enum": _STATES},
        "question": text_or_null,
        "method": TEXT,
        "model": text_or_null,
        "created": {"type": "number", "description": "seconds since 1970"},
        "seconds": number,
        "answer": text_or_null,
        "reason": text_or_null,
        "parent": _or_none(RUN_ID),
    }
    question: Schema = {
        "id": QUESTION_ID,
        "run": RUN_ID,
        "call": TEXT,
        "type": TEXT,
        "wants": TEXT,
        "line": _COUNT,
        "asked": {"type": "number", "description": "the time of the call, in seconds since 1970"},
    }
    spent = {"tokens": _COUNT, "dollars": {**number, "description": "null if the price is unknown"}}
    value = {"description": "the answer as data, tagged where JSON lacks a type; null if it is long (see the trace)"}
    more = {
        "value": value,
        "confidence": {**number, "description": _CONFIDENCE},
        "usage": _OBJECT,
        "type": {**text_or_null, "description": "the required type of the answer"},
        "ask_me": {**text_or_null, "description": "functions whose calls a person answers"},
        "resumed": _COUNT,
        "error": {"type": ["object", "null"]},
        "artifacts": _list(shape(file)),
    }
    info = {
        "version": TEXT,
        "model": text_or_null,
        "models": _list(TEXT),
        "waiting_for": {
            "type": "object",
            "additionalProperties": TEXT,
            "description": "models that are not ready, and why: downloading, loading, reading their instructions",
        },
        "methods": {"type": "object", "additionalProperties": TEXT},
        "labels": {"type": "object", "additionalProperties": TEXT, "description": "names of the methods on the page"},
        "limits": _OBJECT,
        "mcp": {"enum": ["/mcp", None], "description": "the MCP endpoint, if the extra is installed"},
    }
    return {
        "Info": shape(info),
        "File": shape({"id": _FILE_ID, **file}),
        "Begun": shape({"id": RUN_ID, "state": {"enum": _STATES}}),
        "Run": shape({**listed, **more, "files": _list(_FILE_ID)}),
        "Runs": shape({"runs": _list(shape({**listed, **spent}))}),
        "OpenQuestion": shape(question),
        "Questions": shape({"questions": _list(ref("OpenQuestion"))}),
        "Why": _OBJECT,
        "Verdict": _verdict(),
    }


def _verdict() -> Schema:
    """The result of `audit.verify_data`: the fields that clients are most likely to read."""
    share: Schema = {"type": "number", "minimum": 0, "maximum": 1}
    sure = {"probability": share, "alternatives": {"type": "object", "additionalProperties": share}}
    more = {"spread": {"type": "number"}, "samples": _COUNT}
    confidence = {"type": "object", "properties": {**sure, **more}, "required": ["probability"]}
    flip: Schema = {
        "step": _COUNT,
        "line": _COUNT,
        "call": _or_none(TEXT),
        "value": {"description": "the value in the trace, as data"},
        "confidence": _or_none(confidence),
        "instead": {"description": "the value that was tried in its place"},
        "outcome": {"enum": ["changes", "keeps", "unknown"]},
        "answer": {**TEXT, "description": "the answer with that value"},
    }
    sentence = {**TEXT, "description": "the same in a sentence"}
    least = "the least certain of the model's values that decide the answer"
    return shape(
        {
            "score": share,
            "flags": _list(TEXT),
            "origin": {"enum": ["program", "constant", "input", "model", "reply", "none"]},
            "replays": {"type": "boolean"},
            "flips": _list(shape(flip)),
            "hangs_on": {**_or_none(shape({**flip, "text": sentence})), "description": least},
        }
    )


def named(models: Sequence[str]) -> list[str]:
    """The names of models: full names, and providers."""
    return list(dict.fromkeys([*models, *(name.partition(":")[0] for name in models)]))


def openai_names(models: Sequence[str]) -> list[str]:
    return [*METHODS, *(f"{method}:{name}" for name in named(models) for method in METHODS)]


def _client_tool() -> Schema:
    """A function of the client that a program may call."""
    name = patterns.text_of(patterns.TOOL_NAME)
    function = {"name": name, "description": _or_none(TEXT), "parameters": {"type": ["object", "null"]}}
    return shape({"type": {"const": "function"}, "function": {**shape(function), "required": ["name"]}})


def _flat_tool() -> Schema:
    """The same in the format of `/v1/responses`."""
    nested = _client_tool()["properties"]
    return shape({"type": nested["type"], **nested["function"]["properties"]}) | {"required": ["type", "name"]}


def _openai(models: Sequence[str]) -> dict[str, Schema]:
    """The supported part of OpenAI's protocols; other fields are ignored."""
    part = shape({"text": TEXT}) | {"properties": {"text": TEXT, "type": TEXT}}
    message: Schema = {"role": {"enum": ["system", "developer", "user", "assistant"]}, "type": {"const": "message"}}
    message["content"] = {"anyOf": [TEXT, _NOTHING, _list(part)]}
    turn = {"type": "object", "properties": message, "required": ["role"]}
    user_message = shape(
        {"role": {"const": "user"}, "content": patterns.text_of(patterns.SAYS_SOMETHING, maxLength=10_000)}
    )
    turns = _list(turn, contains=user_message)
    no_functions = {"anyOf": [_NOTHING, {"type": "array", "maxItems": 0}]}
    plain_format = {"type": "object", "properties": {"type": {"enum": ["text", "json_object"]}}}
    schema_format: Schema = {"type": {"const": "json_schema"}, "schema": {"type": "object", "description": _STRUCTURE}}
    nested_format = {"type": schema_format["type"], "json_schema": shape({"schema": schema_format["schema"]})}
    boolean_or_null = {"type": ["boolean", "null"]}
    choice = {
        "enum": ["none", "auto", None],
        "description": "also `required`, or a function of `tools`: its parameters define the form of the answer",
    }
    chat = {
        "model": {"enum": openai_names(models)},
        "messages": turns,
        "stream": boolean_or_null,
        "stream_options": {"type": ["object", "null"]},
        "n": {"enum": [1, None]},
        "tools": _or_none(_list(_client_tool(), maxItems=64)),
        "tool_choice": choice,
        "functions": no_functions,
        "response_format": {"anyOf": [_NOTHING, plain_format, shape(nested_format)]},
    }
    respond = {
        "model": {"enum": openai_names(models)},
        "input": {"anyOf": [_SAYING, turns]},
        "instructions": _or_none(TEXT),
        "stream": boolean_or_null,
        "tools": _or_none(_list(_flat_tool(), maxItems=64)),
        "tool_choice": choice,
        "previous_response_id": _NOTHING,
        "background": {"enum": [False, None]},
        "text": _or_none(
            {"type": "object", "properties": {"format": {"anyOf": [_NOTHING, plain_format, shape(schema_format)]}}}
        ),
    }
    model = {"id": TEXT, "object": {"const": "model"}, "created": _COUNT, "owned_by": TEXT}
    error = {"message": TEXT, "type": TEXT, "param": _or_none(TEXT), "code": TEXT}
    head = {"id": TEXT, "model": TEXT}
    completion = {**head, "object": {"const": "chat.completion"}, "choices": _list(_OBJECT), "usage": _OBJECT}
    return {
        "Chat": {"type": "object", "properties": chat, "required": ["model", "messages"]},
        "Completion": shape(completion),
        "Respond": {"type": "object", "properties": respond, "required": ["model", "input"]},
        "Response": shape({**head, "object": {"const": "response"}, "output": _list(_OBJECT), "status": TEXT}),
        "Model": shape(model),
        "Models": shape({"object": {"const": "list"}, "data": _list(ref("Model"))}),
        "OpenAIError": shape({"error": shape(error)}),
    }
