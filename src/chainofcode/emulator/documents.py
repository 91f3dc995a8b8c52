"""Reads files of the user as text and data: lines, JSON, and YAML without aliases, which could fill the memory."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, AnyStr

import msgspec

from ..errors import InputError
from ..platforms import read_whole

_MAX_BYTES = 20_000_000


def read_text(path: Path) -> str:
    """Return the text of a file. Raises InputError if it cannot be read, or is not UTF-8."""
    try:
        return io.TextIOWrapper(io.BytesIO(read_whole(path)), encoding="utf-8-sig").read()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def numbered(lines: Iterable[AnyStr]) -> Iterator[tuple[int, AnyStr]]:
    """Yield the lines that are not blank, with their numbers."""
    return ((number, line) for number, line in enumerate(lines, 1) if line.strip())


@contextlib.contextmanager
def at_line(where: object, number: int, what: str) -> Iterator[None]:
    """Turn the error of a line that cannot be decoded into an InputError that names the line."""
    try:
        yield
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InputError(f"{where}, line {number}: {what}: {error}") from None


def read_document(path: Path) -> Any:
    """Return the data in a file of JSON or YAML. Raises InputError."""
    text = read_text(path)
    size = len(text.encode())
    if size > _MAX_BYTES:
        raise InputError(f"{path} has {size:,} bytes; the limit is {_MAX_BYTES:,}")
    if path.suffix in (".yaml", ".yml"):
        try:
            return read_yaml(text)
        except ImportError:
            raise InputError(f"{path} is YAML, which needs PyYAML: pip install pyyaml, or convert it to JSON") from None
        except ValueError as error:
            raise InputError(f"{path} is not YAML: {error}") from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{path} is not JSON: {error.msg}, {where} (name YAML files .yaml or .yml)") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {str(error) or 'it is nested too deeply'}") from None


def read_yaml(text: str) -> Any:
    """Return YAML as data. Raises ValueError, or ImportError without PyYAML."""
    yaml: Any = importlib.import_module("yaml")

    class NoAliases(yaml.SafeLoader):  # type: ignore[misc]
        """Rejects aliases and merges: ten lines of them can fill all memory."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError(f"it refers to *{self.peek_event().anchor}; write out what that stands for")
            return super().compose_node(parent, index)

        def flatten_mapping(self, node: Any) -> None:
            if any(key.tag == "tag:yaml.org,2002:merge" for key, _ in node.value):
                raise yaml.YAMLError("it merges with <<; write out what that stands for")

    try:
        return yaml.load(text, NoAliases)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        message = " ".join(str(error).split())[:300]
        raise ValueError(message or "it is nested too deeply") from None
