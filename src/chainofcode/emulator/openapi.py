"""OpenAPI 3 documents: from a file to operations, each with a name, arguments and a place. Nothing is requested here.

A document is someone else's data: references are followed within it only, and only so far; what a schema says that we
do not understand is `Any`.
"""

from __future__ import annotations

import builtins
import datetime
import functools
import inspect
import keyword
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urljoin, urlsplit

from ..errors import InputError
from .documents import read_document

MAX_OPERATIONS = 500  # the model reads about each of them
_MAX_ARGUMENTS = 100
_MAX_VISITS = 200_000  # of schemas, in one document
_FIELDS_A_VISIT = 20  # so many count as one more
_MAX_DEPTH = 5
_MAX_LABEL_CHARS = 100
_MAX_URL_CHARS = 2000
_MAX_REFERENCES = 20  # from one to the next
_METHODS = ("get", "head", "post", "put", "patch", "delete", "options", "trace")
# Not for a program to set: who asks, whom, and how the message is framed.
_OUR_HEADERS = {"accept", "authorization", "connection", "content-length", "content-type", "cookie", "host", "te",
                "proxy-authorization", "trailer", "transfer-encoding", "upgrade"}  # fmt: skip
_STYLES = {"path": "simple", "query": "form", "header": "simple"}  # how we write lists
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TEXTS: dict[Any, Any] = {"date": datetime.date, "date-time": datetime.datetime}
_KINDS: dict[Any, Any] = {"integer": int, "number": int | float, "boolean": bool, "null": None}


@dataclass(frozen=True)
class Argument:
    """What a program gives, and where it goes. In the body, an empty `sent_as` is the whole of it."""

    name: str
    sent_as: str
    where: Literal["path", "query", "header", "body"]
    type: Any
    is_required: bool
    doc: str = ""
    is_repeated: bool = False  # a list is sent as `a=1&a=2`, not as `a=1,2`
    is_json: bool = False


@dataclass(frozen=True)
class Scheme:
    """A way to show who one is."""

    where: Literal["bearer", "header", "query", "unknown"]
    name: str = ""


@dataclass(frozen=True)
class Operation:
    """One request that can be made. `security` are alternatives, each a set of schemes; none: everyone may."""

    name: str
    method: str
    base: str
    path: str
    doc: str
    arguments: tuple[Argument, ...]
    security: tuple[tuple[Scheme, ...], ...]
    has_body: bool = False  # also where no argument says anything of it


def read_operations(path: Path, base: str | None, note: Callable[[str], None]) -> list[Operation]:
    """The operations of a document; `base` is where it is served, `note` is told of what is left out."""
    data = read_document(path)
    if not isinstance(data, dict) or not _text(data.get("openapi")).startswith("3."):
        raise InputError(f"{path} is not an OpenAPI 3 document: its `openapi` must be 3.0 or 3.1")
    document = _Document(data, path, base)
    listed = list(document.listed())
    if not listed:
        raise InputError(f"{path} has no operations")
    if len(listed) > MAX_OPERATIONS:
        raise InputError(
            f"{path} has {len(listed):,} operations; {MAX_OPERATIONS} are allowed, as the model must read about each: "
            "make a document of those that are needed"
        )
    operations: dict[str, Operation] = {}
    for method, template, item, said in listed:
        made = document.operation(method, template, item, said, operations)
        if isinstance(made, str):
            note(f"{path}: {method.upper()} {template} is left out: {made}")
        else:
            operations[made.name] = made
    return list(operations.values())


class _Document:
    def __init__(self, data: dict[str, Any], path: Path, base: str | None) -> None:
        self._data, self._path, self._base = data, path, base
        self._left = _MAX_VISITS

    def listed(self) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
        paths = self._data.get("paths")
        for template, at in paths.items() if isinstance(paths, dict) else ():
            item = self._at(at)
            for method in _METHODS:
                if isinstance(template, str) and isinstance(item.get(method), dict):
                    yield method, template, item, item[method]

    def operation(
        self, method: str, template: str, item: Mapping[str, Any], said: Mapping[str, Any], taken: Mapping[str, object]
    ) -> Operation | str:
        """An operation; or why there is none."""
        if not template.startswith("/"):  # what follows a host without it belongs to the host
            return "its path does not begin with /"
        found = self._found(item, said)
        for (sent_as, where), parameter in found.items():
            if where in _STYLES and parameter.get("style", _STYLES[where]) != _STYLES[where]:
                return f"its parameter {sent_as[:100]!r} has the style {_words(parameter['style'], 50)!r}"
        arguments = list(self._parameters(found))
        in_path = {argument.sent_as for argument in arguments if argument.where == "path"}
        if unknown := set(re.findall(r"\{([^{}]*)\}", template)) - in_path:
            return f"nothing is said of {min(unknown)!r} in its path"
        body = self._body(said, {argument.name for argument in arguments})
        if isinstance(body, str):
            return body
        arguments += body
        if len(arguments) > _MAX_ARGUMENTS:
            return f"it takes {len(arguments)} arguments; {_MAX_ARGUMENTS} are allowed"
        arguments.sort(key=lambda argument: not argument.is_required)
        name = _free(taken, _text(said.get("operationId")), f"{method}_{template}")
        base = self._server(item, said)
        security = self._security(said)
        doc = self._doc(method, template, said, arguments)
        has_body = self._at(said.get("requestBody")).get("required") is True
        return Operation(name, method, base, template, doc, tuple(arguments), security, has_body)

    def _doc(
        self, method: str, template: str, said: Mapping[str, Any], arguments: list[Argument]
    ) -> str:  # the most useful first: what is too long for the model is cut at its end
        words = _words(said.get("summary"), 200) or _words(said.get("description"), 200)
        lines = [words or f"{method.upper()} {template}"]
        responses = {_text(status): one for status, one in self._at(said.get("responses")).items()}  # numbers, in YAML
        schemas = (self._json_schema(responses[status]) for status in sorted(responses) if status.startswith("2"))
        given = next((schema for schema in schemas if schema is not None), None)
        if given is not None:
            lines.append(f"Gives {self._shape(given)}"[:250])
        lines += [f"{argument.name}: {argument.doc}" for argument in arguments if argument.doc]
        return "\n".join(lines)

    # --- arguments --------------------------------------------------------------------------------------------

    def _found(self, item: Mapping[str, Any], said: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
        """The parameters by name and place; those of the operation count before those of its path."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for holder in (item, said):
            listed = holder.get("parameters")
            for parameter in map(self._at, listed[: 2 * _MAX_ARGUMENTS] if isinstance(listed, list) else ()):
                found[_text(parameter.get("name")), _text(parameter.get("in"))] = parameter
        return found

    def _parameters(self, found: Mapping[tuple[str, str], dict[str, Any]]) -> Iterator[Argument]:
        names: dict[str, object] = {}
        for (sent_as, where), parameter in found.items():
            is_ours = where == "header" and (sent_as.lower() in _OUR_HEADERS or not _HEADER.fullmatch(sent_as))
            if where not in ("path", "query", "header") or is_ours:
                continue
            content = self._json_schema(parameter)
            schema = parameter.get("schema") if content is None else content
            name = _unused(names, _identifier(sent_as))
            names[name] = parameter
            yield Argument(
                name,
                sent_as,
                where,  # type: ignore[arg-type]
                self._type(schema),
                where == "path" or parameter.get("required") is True,
                _words(parameter.get("description"), 100),
                is_repeated=where == "query" and parameter.get("explode") is not False,
                is_json=content is not None,
            )

    def _body(self, said: Mapping[str, Any], names: set[str]) -> list[Argument] | str:
        """The fields of a JSON object as arguments, where they can be; else one argument for all."""
        body = self._at(said.get("requestBody"))
        if not body:
            return []
        schema = self._json_schema(body)
        is_required = body.get("required") is True
        if schema is None:
            return "its body is not JSON" if is_required else []
        fields, wanted = self._fields(schema)
        spread = [
            Argument(
                _identifier(name), name, "body", self._type(field), is_required and name in wanted,
                _words(self._at(field).get("description"), 100),
            )
            for name, field in fields.items()
            if self._at(field).get("readOnly") is not True
        ]  # fmt: skip
        own = {argument.name for argument in spread}
        if spread and all(fields) and len(own) == len(spread) and not own & names:
            return spread
        return [Argument(_unused(dict.fromkeys(names), "body"), "", "body", self._type(schema), is_required)]

    def _json_schema(self, holder: Any) -> Any:
        content = self._at(self._at(holder).get("content"))
        return next((self._at(of).get("schema", {}) for kind, of in content.items() if "json" in _text(kind)), None)

    # --- schemas ----------------------------------------------------------------------------------------------

    def _at(self, node: Any) -> dict[str, Any]:
        """The object that a node is, or refers to; an empty one where there is none."""
        for _ in range(_MAX_REFERENCES):
            if not isinstance(node, dict):
                return {}
            reference = node.get("$ref")
            if not isinstance(reference, str):
                return node
            node = self._referred(reference)
        return {}

    def _referred(self, reference: str) -> Any:
        if not reference.startswith("#/"):  # elsewhere: nothing is fetched
            return None
        node: Any = self._data
        for part in reference[2:].split("/"):
            node = node.get(unquote(part).replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
        return node

    def _fields(self, schema: Any, depth: int = 0) -> tuple[dict[str, Any], set[str]]:
        """The properties of an object, and which of them it must have."""
        schema = self._at(schema)
        fields = {_text(name): field for name, field in self._at(schema.get("properties")).items()}
        required = schema.get("required")
        wanted = {_text(name) for name in required} if isinstance(required, list) else set()
        parts = schema.get("allOf")
        self._left -= 1 + len(fields) // _FIELDS_A_VISIT
        for part in parts if isinstance(parts, list) and depth < _MAX_DEPTH else ():
            if self._left <= 0:
                break
            more, needed = self._fields(part, depth + 1)
            self._left -= len(more) // _FIELDS_A_VISIT
            wanted |= needed
            for name, field in more.items():
                fields.setdefault(name, field)
        return fields, wanted

    def _type(self, schema: Any, depth: int = 0) -> Any:
        """A schema as an annotation."""
        self._left -= 1
        schema = self._at(schema)
        if depth > _MAX_DEPTH or self._left < 0:
            return Any
        kinds = schema.get("type")
        parts = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(parts, list):
            made = [self._type(part, depth + 1) for part in parts[:10]]
        elif isinstance(schema.get("allOf"), list) and kinds is None:
            whole = schema["allOf"]
            made = [self._type(whole[0], depth + 1) if len(whole) == 1 else dict[str, Any]]
        elif labels := _labels(schema):
            made = [Literal[labels]]
        else:
            made = [self._kind(kind, schema, depth) for kind in (kinds if isinstance(kinds, list) else [kinds])]
        if schema.get("nullable") is True:
            made.append(None)
        return Any if not made or Any in made else functools.reduce(operator.or_, [part or type(None) for part in made])

    def _kind(self, kind: Any, schema: Mapping[str, Any], depth: int) -> Any:
        if kind == "string":
            return _TEXTS.get(_text(schema.get("format")), str)
        if kind == "array":
            return list[self._type(schema.get("items"), depth + 1)]  # type: ignore[misc]
        if kind == "object" or (kind is None and "properties" in schema):
            more = schema.get("additionalProperties")
            return dict[str, self._type(more, depth + 1) if isinstance(more, dict) else Any]  # type: ignore[misc]
        return _KINDS.get(kind, Any) if isinstance(kind, str) else Any

    def _shape(self, schema: Any, depth: int = 0) -> str:
        """What a reply looks like, for a reader."""
        fields, _ = self._fields(schema)
        schema = self._at(schema)
        if fields and depth < 3 and self._left > 0:
            shown = [f"{name!r}: {self._shape(field, depth + 1)}" for name, field in list(fields.items())[:20]]
            return "{" + ", ".join(shown) + "}"
        if schema.get("type") == "array" and depth < 3:
            return f"[{self._shape(schema.get('items'), depth + 1)}]"
        return inspect.formatannotation(self._type(schema, depth))

    # --- where and who ----------------------------------------------------------------------------------------

    def _server(self, item: Mapping[str, Any], said: Mapping[str, Any]) -> str:
        """The address below which an operation is found: only this host is ever asked."""
        server = "/"
        for holder in (self._data, item, said):  # the nearest to the operation counts
            listed = holder.get("servers")
            if isinstance(listed, list) and listed:
                server = self._filled(self._at(listed[0]))
        is_absolute = bool(urlsplit(server).scheme or urlsplit(server).netloc)
        if self._base:
            server = self._base if is_absolute or server == "/" else urljoin(self._base, server)
        elif not is_absolute:
            raise InputError(f"{self._path} does not say where it is served: --openapi {self._path}=https://…")
        try:
            parts = urlsplit(server)
            is_good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
            is_good = is_good and len(server) <= _MAX_URL_CHARS
        except ValueError:
            is_good = False
        if not is_good or parts.username is not None or not server.isprintable() or " " in server:
            raise InputError(
                f"{self._path}: the server {server[:200]!r} is not an address as in https://example.org/v1"
            )
        return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"

    def _filled(self, server: Mapping[str, Any]) -> str:
        variables = self._at(server.get("variables"))

        def default(found: re.Match[str]) -> str:
            return (
                _text(self._at(variables[found[1]]).get("default"))[: _MAX_URL_CHARS + 1]
                if found[1] in variables
                else found[0]
            )

        return re.sub(r"\{([^{}]*)\}", default, _text(server.get("url", "/"))[: _MAX_URL_CHARS + 1])

    def _security(self, said: Mapping[str, Any]) -> tuple[tuple[Scheme, ...], ...]:
        wanted = said.get("security", self._data.get("security"))
        known = self._at(self._at(self._data.get("components")).get("securitySchemes"))
        alternatives = [self._at(one) for one in wanted] if isinstance(wanted, list) else []
        return tuple(tuple(_scheme(self._at(known.get(name))) for name in one) for one in alternatives[:10])


def _scheme(said: Mapping[str, Any]) -> Scheme:
    kind, where, name = said.get("type"), said.get("in"), _text(said.get("name"))
    if kind in ("oauth2", "openIdConnect") or (kind == "http" and _text(said.get("scheme")).lower() == "bearer"):
        return Scheme("bearer")
    if kind == "apiKey" and where in ("header", "query") and (where == "query" or _HEADER.fullmatch(name)):
        return Scheme(where, name)
    return Scheme("unknown")


def _labels(schema: Mapping[str, Any]) -> tuple[Any, ...]:
    labels = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(labels, list) or len(labels) > 100:
        return ()
    is_plain = all(
        label is None or isinstance(label, (bool, str)) or (type(label) is int and _text(label)) for label in labels
    )
    return tuple(labels) if is_plain and all(len(str(label)) <= _MAX_LABEL_CHARS for label in labels) else ()


def _text(value: object) -> str:
    """A text, or a number that YAML has made of one; empty for all else, however large it is."""
    is_number = isinstance(value, float) or (type(value) is int and value.bit_length() <= 64)
    return value if isinstance(value, str) else str(value) if is_number else ""


def _words(text: object, most: int) -> str:
    words = " ".join(text.split()) if isinstance(text, str) else ""
    return words if len(words) <= most else words[:most] + "…"


def _identifier(text: str) -> str:
    name = re.sub(r"[^0-9A-Za-z]+", "_", text[:200]).strip("_")[:60]
    name = f"_{name}" if not name or name[0].isdigit() else name
    return f"{name}_" if keyword.iskeyword(name) else name


def _free(taken: Mapping[str, object], *wishes: str) -> str:
    """The first of the wishes that a program can call and nobody else has."""
    names = [_identifier(wish) for wish in wishes if re.search("[0-9A-Za-z]", wish)]
    return next((name for name in names if name not in taken and not hasattr(builtins, name)), "") or _unused(
        taken, names[-1]
    )


def _unused(taken: Mapping[str, object], name: str) -> str:
    return next(one for one in [name, *(f"{name}_{n}" for n in range(2, 1000))] if one not in taken)
