"""The file of a program. Files whose suffix says that they hold data or a document are rejected."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from ..errors import InputError
from ..methods.input_files import holds_data
from .terminal import read_text

_DOCUMENTS = {
    ".doc", ".docx", ".epub", ".gz", ".odp", ".ods", ".odt", ".pdf", ".ppt", ".pptx", ".rtf", ".xls", ".zip",
}  # fmt: skip
_MARKDOWN = (".md", ".markdown")
_CODE = re.compile(r"^\s*(`{3}|~{3}|#\s*CODE START)", re.MULTILINE)


def read_program(path: Path) -> str:
    """Return a program, or a model's reply that contains one. Raises InputError if the file holds neither."""
    suffix = path.suffix.lower()
    if suffix in _DOCUMENTS and os.path.isfile(path):
        raise InputError(f"{path} is not a program (expected .py, .js, .mjs, .ts, .sql, or a model's reply)")
    if holds_data(path) and os.path.isfile(path):
        raise InputError(_not_a_program(path, f"a {suffix} file holds data"))
    text = read_text(path)
    if suffix in _MARKDOWN and not _CODE.search(text):
        raise InputError(_not_a_program(path, "it has no code block"))
    return text


def _not_a_program(path: Path, why: str) -> str:
    return f"{path} is not a program: {why}; to ask about it, use coc ask QUESTION --file {shlex.quote(str(path))}"
