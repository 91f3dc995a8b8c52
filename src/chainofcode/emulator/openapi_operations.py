"""Reads OpenAPI 3 documents into operations, each with a name, arguments and a URL. Makes no requests.

A document is untrusted data. Unsupported schemas become `Any`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urljoin, urlsplit

from ..errors import InputError
from .documents import read_document
from .json_schema import Schemas, free, identifier, text_of, unused, words_of

MAX_OPERATIONS = 500  # each is described to the model
_MAX_ARGUMENTS = 100
_MAX_URL_CHARS = 2000
_METHODS = ("get", "head", "post", "put", "patch", "delete", "options", "trace")
# Headers that a program must not set: credentials, the host, the framing of messages.
_RESERVED_HEADERS = {
    "accept", "authorization", "connection", "content-length", "content-type", "cookie", "host", "te",
    "proxy-authorization", "trailer", "transfer-encoding", "upgrade",
}  # fmt: skip
_STYLES = {"path": "simple", "query": "form", "header": "simple"}  # how lists are written
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, kw_only=True)
class Argument:
    """An argument from a program, and where it is sent. In the body, an empty `sent_as` stands for the whole body."""

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
    """A way to authenticate."""

    where: Literal["bearer", "header", "query", "unknown"]
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class APIOperation:
    """One kind of request. `security` has alternatives, each a set of schemes; if empty, no credentials are needed."""

    name: str
    method: str
    base: str
    path: str
    doc: str
    arguments: tuple[Argument, ...]
    security: tuple[tuple[Scheme, ...], ...]
    has_body: bool = False  # even if there is no argument for it


def read_operations(path: Path, base: str | None, note: Callable[[str], None]) -> list[APIOperation]:
    """Return the operations of a document, below the URL `base` if given; `note` is called for each one left out."""
    data = read_document(path)
    if not isinstance(data, dict) or not text_of(data.get("openapi")).startswith("3."):
        raise InputError(f"{path} is not an OpenAPI 3 document: its `openapi` must be 3.0 or 3.1")
    document = _Document(data, path, base)
    listed = list(document.listed())
    if not listed:
        raise InputError(f"{path} has no operations")
    if len(listed) > MAX_OPERATIONS:
        raise InputError(
            f"{path} has {len(listed):,} operations; the limit is {MAX_OPERATIONS}, because each is described to the "
            "model: remove those that you do not need"
        )
    operations: dict[str, APIOperation] = {}
    for method, template, item, operation in listed:
        made = document.operation(method, template, item, operation, operations)
        if isinstance(made, str):
            note(f"{path}: {method.upper()} {template} is left out: {made}")
        else:
            operations[made.name] = made
    return list(operations.values())


class _Document(Schemas):
    def __init__(self, data: dict[str, Any], path: Path, base: str | None) -> None:
        super().__init__(data)
        self._path, self._base = path, base

    def listed(self) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
        paths = self._data.get("paths")
        for template, at in paths.items() if isinstance(paths, dict) else ():
            item = self.at(at)
            for method in _METHODS:
                if isinstance(template, str) and isinstance(item.get(method), dict):
                    yield method, template, item, item[method]

    def operation(
        self,
        method: str,
        template: str,
        item: Mapping[str, Any],
        operation: Mapping[str, Any],
        taken: Mapping[str, object],
    ) -> APIOperation | str:
        """Return an operation, or why it cannot be used."""
        if not template.startswith("/"):  # otherwise, it would extend the host name
            return "its path does not begin with /"
        found = self._found(item, operation)
        for (sent_as, where), parameter in found.items():
            if where in _STYLES and parameter.get("style", _STYLES[where]) != _STYLES[where]:
                return f"its parameter {sent_as[:100]!r} has the style {words_of(parameter['style'], 50)!r}"
        arguments = list(self._parameters(found))
        in_path = {argument.sent_as for argument in arguments if argument.where == "path"}
        if unknown := set(re.findall(r"\{([^{}]*)\}", template)) - in_path:
            return f"{min(unknown)!r} in its path is not a declared parameter"
        body = self._body(operation, {argument.name for argument in arguments})
        if isinstance(body, str):
            return body
        arguments += body
        if len(arguments) > _MAX_ARGUMENTS:
            return f"it takes {len(arguments)} arguments; the limit is {_MAX_ARGUMENTS}"
        arguments.sort(key=lambda argument: not argument.is_required)
        return APIOperation(
            name=free(taken, text_of(operation.get("operationId")), f"{method}_{template}"),
            method=method,
            base=self._server(item, operation),
            path=template,
            doc=self._doc(method, template, operation, arguments),
            arguments=tuple(arguments),
            security=self._security(operation),
            has_body=self.at(operation.get("requestBody")).get("required") is True,
        )

    def _doc(self, method: str, template: str, operation: Mapping[str, Any], arguments: list[Argument]) -> str:
        """Return a description, the most useful part first: if it is too long for the model, its end is cut."""
        words = words_of(operation.get("summary"), 200) or words_of(operation.get("description"), 200)
        lines = [words or f"{method.upper()} {template}"]
        given = self._success(operation)
        if given is not None:
            lines.append(f"Gives {self.shape(given)}"[:250])
        lines += [f"{argument.name}: {argument.doc}" for argument in arguments if argument.doc]
        return "\n".join(lines)

    def _success(self, operation: Mapping[str, Any]) -> Any:
        """Return the schema of the first successful response that has one."""
        # Status codes are integers in YAML.
        responses = {text_of(status): response for status, response in self.at(operation.get("responses")).items()}
        schemas = (self._json_schema(responses[status]) for status in sorted(responses) if status.startswith("2"))
        return next((schema for schema in schemas if schema is not None), None)

    # --- arguments --------------------------------------------------------------------------------------------

    def _found(self, item: Mapping[str, Any], operation: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the parameters by name and place; those of the operation override those of its path."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for holder in (item, operation):
            listed = holder.get("parameters")
            for parameter in map(self.at, listed[: 2 * _MAX_ARGUMENTS] if isinstance(listed, list) else ()):
                found[text_of(parameter.get("name")), text_of(parameter.get("in"))] = parameter
        return found

    def _parameters(self, found: Mapping[tuple[str, str], dict[str, Any]]) -> Iterator[Argument]:
        names: dict[str, object] = {}
        for (sent_as, where), parameter in found.items():
            is_reserved = where == "header" and (sent_as.lower() in _RESERVED_HEADERS or not _HEADER.fullmatch(sent_as))
            if where not in ("path", "query", "header") or is_reserved:
                continue
            content = self._json_schema(parameter)
            schema = parameter.get("schema") if content is None else content
            name = unused(names, identifier(sent_as))
            names[name] = parameter
            yield Argument(
                name=name,
                sent_as=sent_as,
                where=where,  # type: ignore[arg-type]
                type=self.type(schema),
                is_required=where == "path" or parameter.get("required") is True,
                doc=words_of(parameter.get("description"), 100),
                is_repeated=where == "query" and parameter.get("explode") is not False,
                is_json=content is not None,
            )

    def _body(self, operation: Mapping[str, Any], names: set[str]) -> list[Argument] | str:
        """Return the fields of a JSON object as arguments, if possible, else one argument for the whole body."""
        body = self.at(operation.get("requestBody"))
        if not body:
            return []
        schema = self._json_schema(body)
        is_required = body.get("required") is True
        if schema is None:
            return "its body is not JSON" if is_required else []
        spread = self._spread(schema, is_required)
        own = {argument.name for argument in spread}
        if spread and all(argument.sent_as for argument in spread) and len(own) == len(spread) and not own & names:
            return spread
        name = unused(dict.fromkeys(names), "body")
        return [Argument(name=name, sent_as="", where="body", type=self.type(schema), is_required=is_required)]

    def _spread(self, schema: Any, is_required: bool) -> list[Argument]:
        """Return an argument for each field of the body."""
        fields, wanted = self.fields(schema)
        return [
            Argument(
                name=identifier(name),
                sent_as=name,
                where="body",
                type=self.type(field),
                is_required=is_required and name in wanted,
                doc=words_of(self.at(field).get("description"), 100),
            )
            for name, field in fields.items()
            if self.at(field).get("readOnly") is not True
        ]

    def _json_schema(self, holder: Any) -> Any:
        content = self.at(self.at(holder).get("content"))
        return next((self.at(of).get("schema", {}) for kind, of in content.items() if "json" in text_of(kind)), None)

    # --- servers and credentials ------------------------------------------------------------------------------

    def _server(self, item: Mapping[str, Any], operation: Mapping[str, Any]) -> str:
        """Return the base URL of an operation: requests go to no other host."""
        server = "/"
        for holder in (self._data, item, operation):  # the most specific one counts
            listed = holder.get("servers")
            if isinstance(listed, list) and listed:
                server = self._filled(self.at(listed[0]))
        is_absolute = bool(urlsplit(server).scheme or urlsplit(server).netloc)
        if self._base:
            server = self._base if is_absolute or server == "/" else urljoin(self._base, server)
        elif not is_absolute:
            raise InputError(f"{self._path} does not say where it is served: use --openapi {self._path}=https://…")
        if not _is_address(server):
            raise InputError(f"{self._path}: the server {server[:200]!r} is not a URL such as https://example.org/v1")
        parts = urlsplit(server)
        return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"

    def _filled(self, server: Mapping[str, Any]) -> str:
        variables = self.at(server.get("variables"))

        def default(found: re.Match[str]) -> str:
            if found[1] not in variables:
                return found[0]
            return text_of(self.at(variables[found[1]]).get("default"))[: _MAX_URL_CHARS + 1]

        return re.sub(r"\{([^{}]*)\}", default, text_of(server.get("url", "/"))[: _MAX_URL_CHARS + 1])

    def _security(self, operation: Mapping[str, Any]) -> tuple[tuple[Scheme, ...], ...]:
        wanted = operation.get("security", self._data.get("security"))
        known = self.at(self.at(self._data.get("components")).get("securitySchemes"))
        alternatives = [self.at(alternative) for alternative in wanted] if isinstance(wanted, list) else []
        return tuple(
            tuple(_scheme(self.at(known.get(name))) for name in alternative) for alternative in alternatives[:10]
        )


def _is_address(url: str) -> bool:
    if len(url) > _MAX_URL_CHARS or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and parts.username is None
    except ValueError:
        return False


def _scheme(scheme: Mapping[str, Any]) -> Scheme:
    kind, where, name = scheme.get("type"), scheme.get("in"), text_of(scheme.get("name"))
    if kind in ("oauth2", "openIdConnect") or (kind == "http" and text_of(scheme.get("scheme")).lower() == "bearer"):
        return Scheme("bearer")
    if kind == "apiKey" and where in ("header", "query") and (where == "query" or _HEADER.fullmatch(name)):
        return Scheme(where, name)
    return Scheme("unknown")
