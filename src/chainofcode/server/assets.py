"""The page's files: compressed once, at URLs with a hash of all of them, so that browsers can cache them forever."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from pathlib import Path
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_FOR_GOOD = "public, max-age=31536000, immutable"
_LOOKED_UP = "no-cache"  # the browser revalidates its copy each time
_INDEX = "index.html"


class _Asset(NamedTuple):
    data: bytes
    compressed: bytes
    media_type: str

    @classmethod
    def of(cls, name: str, data: bytes) -> _Asset:
        return cls(data, gzip.compress(data, mtime=0), mimetypes.guess_type(name)[0] or "application/octet-stream")


class Assets:
    """All files of a directory. `index.html` refers to the others as `static/NAME`."""

    def __init__(self, directory: Path) -> None:
        files = {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.is_file()}
        digest = hashlib.sha256()
        for name, data in files.items():
            digest.update(f"{name} {len(data)}\n".encode() + data)
        self.version = digest.hexdigest()[:16]
        files[_INDEX] = files[_INDEX].replace(b'"static/', f'"static/{self.version}/'.encode())
        self._assets = {name: _Asset.of(name, data) for name, data in files.items()}

    @property
    def routes(self) -> list[Route]:
        return [
            Route("/", self.page),
            Route("/static/{name}", self.file),
            Route("/static/{version}/{name}", self.versioned),
        ]

    async def page(self, request: Request) -> Response:
        return self._sent(request, _INDEX, _LOOKED_UP)

    async def file(self, request: Request) -> Response:
        return self._sent(request, request.path_params["name"], _LOOKED_UP)

    async def versioned(self, request: Request) -> Response:
        """A file of this version. Pages of an earlier version get the current file, which they must not cache."""
        is_current = request.path_params["version"] == self.version
        return self._sent(request, request.path_params["name"], _FOR_GOOD if is_current else _LOOKED_UP)

    def _sent(self, request: Request, name: str, caching: str) -> Response:
        asset = self._assets.get(name)
        if asset is None:
            raise HTTPException(404)
        tag = f'W/"{self.version}"'
        headers = {"cache-control": caching, "etag": tag, "vary": "accept-encoding"}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(asset.data, headers=headers, media_type=asset.media_type)
        headers["content-encoding"] = "gzip"
        return Response(asset.compressed, headers=headers, media_type=asset.media_type)
