"""Documents of someone else's as data: JSON, or YAML in which every part stands once, so that none multiplies."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

from ..errors import InputError

_MAX_BYTES = 20_000_000


def read_document(path: Path) -> Any:
    """The data in a file. Raises InputError."""
    try:
        data = path.read_bytes()
        if len(data) > _MAX_BYTES:
            raise InputError(f"{path} has {len(data):,} bytes; {_MAX_BYTES:,} are allowed")
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if path.suffix in (".yaml", ".yml"):
        try:
            return read_yaml(text)
        except ImportError:
            raise InputError(f"{path} is YAML, which needs PyYAML: pip install pyyaml, or give it as JSON") from None
        except ValueError as error:
            raise InputError(f"{path} is not YAML: {error}") from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{path} is not JSON: {error.msg}, {where} (the name of a YAML file ends in .yaml)") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {str(error) or 'it is nested too deep'}") from None


def read_yaml(text: str) -> Any:
    """YAML as data. Raises ValueError, or ImportError without PyYAML."""
    yaml: Any = importlib.import_module("yaml")

    class Once(yaml.SafeLoader):  # type: ignore[misc]
        """Without what repeats a part: ten lines of that are more than a machine holds."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError(f"it refers to *{self.peek_event().anchor}; write out what that stands for")
            return super().compose_node(parent, index)

        def flatten_mapping(self, node: Any) -> None:
            if any(key.tag == "tag:yaml.org,2002:merge" for key, _ in node.value):
                raise yaml.YAMLError("it merges with <<; write out what that stands for")

    try:
        return yaml.load(text, Once)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        told = " ".join(str(error).split())[:300]
        raise ValueError(told or "it is nested too deep") from None
