"""The page's files: compressed, cached by browsers until they change, and current after a change."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from browsing import Seen
from serving import Serving, served

pytest.importorskip("starlette", reason="the extra `server` is not installed")

from chainofcode.server.assets import Assets
from chainofcode.server.sharing import PAGE


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with served(tmp_path_factory.mktemp("assets")) as server:
        yield server


def test_files_are_compressed_and_cached_permanently(server: Serving) -> None:
    page = server.client.get("/")
    assert page.headers["cache-control"] == "no-cache"
    places = re.findall(r'"(static/[^"]+)"', page.text)
    assert [place.rpartition("/")[2] for place in places] == ["app.css", "app.js"]
    sizes = {"plain": 0, "gzip": 0}
    for name in sorted(path.name for path in PAGE.iterdir()):
        address = f"{places[0].rpartition('/')[0]}/{name}"
        packed = server.client.get(address, headers={"accept-encoding": "br, gzip"})
        plain = server.client.get(address, headers={"accept-encoding": "identity"})
        assert packed.headers["content-encoding"] == "gzip" and "content-encoding" not in plain.headers
        assert packed.content == plain.content  # httpx decompresses the first
        assert packed.headers["content-type"] == plain.headers["content-type"]
        if name != "index.html":
            assert plain.content == (PAGE / name).read_bytes()
        for reply in (packed, plain):
            assert reply.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert reply.headers["vary"] == "accept-encoding"
        sizes["plain"] += int(plain.headers["content-length"])
        sizes["gzip"] += int(packed.headers["content-length"])
    assert sizes["gzip"] < sizes["plain"] / 2.5, sizes


def test_files_without_hash_are_revalidated(server: Serving) -> None:
    for address in ("/", "/static/app.js", "/static/0123456789abcdef/app.js"):
        reply = server.client.get(address)
        assert reply.status_code == 200 and reply.headers["cache-control"] == "no-cache"
        again = server.client.get(address, headers={"if-none-match": reply.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    for address in ("/static/none.js", "/static/../assets.py", "/static/a/b/app.js"):
        assert server.client.get(address).status_code == 404
    assert httpx.head(f"{server.url}/static/app.js").status_code == 200


def test_changed_file_changes_the_version(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(PAGE, tmp_path / "page"))
    before = Assets(copy).version
    assert before == Assets(PAGE).version
    (copy / "values.js").write_text((copy / "values.js").read_text() + "\n")
    assert Assets(copy).version != before


def test_second_visit_loads_scripts_from_cache(seen: Seen, server: Serving) -> None:
    seen.page.goto(server.url)
    seen.wait_for("document.querySelectorAll('#method option').length > 1")
    seen.page.reload()
    seen.wait_for("document.querySelectorAll('#method option').length > 1")
    sizes = seen.page.evaluate(
        "performance.getEntriesByType('resource').filter(e => /\\.(js|css)$/.test(e.name)).map(e => e.transferSize)"
    )
    assert len(sizes) > 10 and set(sizes) == {0}
    assert seen.complaints == []
