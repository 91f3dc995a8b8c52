"""Files of benchmarks: downloaded once from their authors, and verified by SHA-256."""

from __future__ import annotations

import hashlib
import json
import urllib.error
import urllib.request
from pathlib import Path

from ..errors import InputError
from ..lm.weights import cache_directory
from ..platforms import make_directory_private

_SECONDS, _MAX_BYTES = 60, 50_000_000


def fetched(name: str) -> Path:
    """Return the directory of a benchmark; missing files are downloaded and verified."""
    sources = json.loads(Path(__file__).with_name("data.json").read_text(encoding="utf-8"))
    if name not in sources:
        raise InputError(f"{name} cannot be downloaded automatically: give its directory with --data or COC_DATA")
    home = cache_directory().parent / "data" / name
    for file, (url, digest) in sources[name].items():
        path = home / file
        if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            for directory in (cache_directory().parent, home.parent, home, path.parent):
                make_directory_private(directory, mode=0o755, may_be_roots=True)
            data = _download(url)
            if hashlib.sha256(data).hexdigest() != digest:
                raise InputError(f"{url} was changed (its SHA-256 differs); give a directory with --data or COC_DATA")
            partial = path.with_name(path.name + ".partial")
            partial.write_bytes(data)
            partial.replace(path)
    return home


def _download(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as reply:  # noqa: S310  # a URL of data.json
            data: bytes = reply.read(_MAX_BYTES + 1)
    except (OSError, urllib.error.URLError, ValueError) as error:
        raise InputError(f"cannot fetch {url}: {error}; give a directory with --data or COC_DATA") from None
    if len(data) > _MAX_BYTES:
        raise InputError(f"{url} is larger than expected")
    return data
