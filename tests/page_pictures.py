"""Take the pictures of the page: `python tests/page_pictures.py` writes docs/page*.png.

Each picture shows a real `coc serve` in Chromium, with runs of a scripted model. Needs the extra `dev` and Chromium.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from browsing import Seen, chromium
from conftest import ROOT
from PIL import Image
from serving import Serving, served
from test_page_live import SCRIPT, open_page

QUESTION = "How many of these are fruit: apple, hammer, kiwi, saw?"
_DESK, _PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
_COLOURS = 128  # size of the palette: a third of the file size, with no visible difference


def start_page(seen: Seen, server: Serving) -> None:
    open_page(seen, server.url)
    seen.shows("#said", "fruit")


def run_page(seen: Seen, server: Serving) -> None:
    """A run, one step before its end, with what a line depends on."""
    _open_run(seen, server, _ask(server))
    seen.page.keyboard.press("ArrowLeft")
    seen.page.hover(".line[data-line='4'] .source")
    seen.has(".lines.slicing", 1)


def checked_page(seen: Seen, server: Serving) -> None:
    _open_run(seen, server, _ask(server))
    seen.page.click("#check")
    seen.shows("#check-found", "1.00")


def phone_page(seen: Seen, server: Serving) -> None:
    _open_run(seen, server, _ask(server))


def what_if_page(seen: Seen, server: Serving) -> None:
    """A version of a version."""
    run = _ask(server)
    for changes in ({"set": ["is_fruit('saw')=True"]}, {"set": ["is_fruit('hammer')=True"]}):
        run = server.client.post(f"/api/runs/{run}/replay", json=changes).json()["id"]
        server.over(run)
    _open_run(seen, server, run)
    seen.shows("#versions", "What if 2")
    seen.shows("#changes", "is_fruit('hammer')")


def _ask(server: Serving) -> str:
    run = server.begin(QUESTION)
    server.over(run)
    return run


def _open_run(seen: Seen, server: Serving, run: str) -> None:
    open_page(seen, f"{server.url}/#run={run}")
    seen.page.locator("#again").wait_for(state="visible")


PICTURES: dict[str, tuple[Callable[[Seen, Serving], None], dict[str, int], str]] = {
    "page-start.png": (start_page, _DESK, "light"),
    "page.png": (run_page, _DESK, "light"),
    "page-dark.png": (checked_page, _DESK, "dark"),
    "page-phone.png": (phone_page, _PHONE, "light"),
    "page-what-if.png": (what_if_page, _DESK, "light"),
}


def pictures(browser: Any) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the bytes of each picture; each page has its own server, without earlier runs."""
    for name, (show, size, scheme) in PICTURES.items():
        with tempfile.TemporaryDirectory() as directory, served(Path(directory), script=SCRIPT) as server:
            seen = Seen(browser, viewport=size, color_scheme=scheme, reduced_motion="reduce")
            show(seen, server)
            yield name, seen.page.screenshot()
            seen.context.close()


def compressed(picture: bytes) -> bytes:
    written = io.BytesIO()
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(_COLOURS).save(written, "PNG", optimize=True)
    return written.getvalue()


def main() -> None:
    for browser in chromium():
        for name, picture in pictures(browser):
            (ROOT / "docs" / name).write_bytes(compressed(picture))


if __name__ == "__main__":
    main()
