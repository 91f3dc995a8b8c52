"""A trace as one HTML file: the page with script, style and data inside. It loads nothing else.

Text from models, programs and files is data in it, never markup; its content security policy blocks everything else.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..trace import Trace

PAGE = Path(__file__).parent / "page"
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+)\.js";\n', re.M)
_EXPORT = re.compile(r"^export (?=(?:async )?function|class|const)", re.M)
_STYLE = '<link rel="stylesheet" href="static/app.css">'
_SCRIPT = '<script type="module" src="static/app.js"></script>'
_CHARSET = '<meta charset="utf-8">'
# Characters that would end the script block, begin a comment in it, or end a line of JavaScript.
_ESCAPES = {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
_FIGURES = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif"}
_MAX_FIGURE_BYTES, _MAX_FIGURES_BYTES = 4_000_000, 12_000_000


def as_html(trace: Trace, why: Mapping[str, Any] | None = None, *, title: str = "", files: Path | None = None) -> str:
    """The page of one trace.

    With `why` (see `audit.why_data`) it shows dependencies. Figures come from the directory `files`, if their
    digests are in the trace.
    """
    lines = [json.loads(line) for line in trace.lines()]
    for line in lines:
        line.pop("chain", None)
    data = {"title": title, "events": lines, "why": _used(why), "images": dict(_figures(trace, files))}
    script, style = _bundled("app"), (PAGE / "app.css").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        "form-action 'none'; base-uri 'none'"
    )
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    parts = {
        _CHARSET: f'{_CHARSET}\n<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">',
        _STYLE: f"<style>{style}</style>",
        _SCRIPT: f'<script type="application/json" id="data">{_in_script(data)}</script>\n'
        f'<script type="module">{script}</script>',
    }
    for place, part in parts.items():
        before, _, after = page.partition(place)
        page = before + part + after
    return page


def _used(why: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The part of `why` that the page reads."""
    return {"steps": why["steps"], "unused": {"steps": why["unused"]["steps"]}} if why is not None else None


def _in_script(data: object) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = "".join(_ESCAPES.get(character, character) for character in text)
    return text.encode("utf-8", "backslashreplace").decode()


def _bundled(name: str) -> str:
    """A module of the page and everything that it imports, as one script."""
    modules: dict[str, str] = {}

    def add(name: str) -> None:
        if name not in modules:
            source = (PAGE / f"{name}.js").read_text(encoding="utf-8")
            for other in _IMPORT.findall(source):
                add(other)
            modules[name] = _EXPORT.sub("", _IMPORT.sub("", source))

    add(name)
    return "\n" + "\n".join(modules.values())


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _figures(trace: Trace, files: Path | None) -> Iterator[tuple[str, str]]:
    """The figures of a trace as data URLs, by digest."""
    if files is None or trace.answer is None:
        return
    digests = {file.sha256 for file in trace.answer.artifacts}
    room = _MAX_FIGURES_BYTES
    for path in sorted(files.rglob("*")):
        if not path.is_file() or path.stat().st_size > min(_MAX_FIGURE_BYTES, room):
            continue
        data = path.read_bytes()
        kind, digest = _image_type(data), hashlib.sha256(data).hexdigest()
        if kind is not None and digest in digests:
            room -= len(data)
            yield digest, f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def _image_type(data: bytes) -> str | None:
    return next((kind for magic, kind in _FIGURES.items() if data.startswith(magic)), None)
