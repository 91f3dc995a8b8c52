"""MkDocs hooks: add the documents at the root of the repository as pages, and make links work on the site.

In the repository, links lead to files. On the site, those to documents lead to their pages, and those to other files
become plain text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = {  # file in the repository → page of the site
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "LIMITATIONS.md": "limitations.md",
    "RELEASING.md": "releasing.md",
    "SECURITY.md": "security.md",
    "examples/README.md": "examples.md",
}
_SOURCES = {page: source for source, page in PAGES.items()}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    source = _SOURCES.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    parts = re.split(r"(^```.*?^```)", markdown, flags=re.MULTILINE | re.DOTALL)  # code blocks are not touched
    return "".join(part if part.startswith("```") else _LINK.sub(_linked(source), part) for part in parts)


def _linked(source: str) -> Any:
    folder = posixpath.dirname(source)

    def replaced(link: re.Match[str]) -> str:
        mark, text, target, anchor = link[1], link[2], link[3], link[4] or ""
        if not target or ":" in target:
            return link[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        if path in PAGES:
            return f"{mark}[{text}]({PAGES[path]}{anchor})"
        if path.startswith("docs/"):
            return f"{mark}[{text}]({path.removeprefix('docs/')}{anchor})"
        return text if (ROOT / path).exists() else link[0]

    return replaced
