"""The default model: `COC_MODEL`, else a vendor whose key is set, else a model in Ollama, else the embedded model.

A vendor, or Ollama, is skipped if its package is not installed.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ..errors import LMError
from .remote import missing_package, without_login

_VENDORS = {"openai": "gpt-4o-mini", "anthropic": "claude-haiku-5-5"}  # with their default models
_OLLAMA_PORT = 11434
_OLLAMA_SECONDS = 0.5
_MAX_TAGS_BYTES = 1_000_000
_ROOMY_BYTES = 3_000_000_000


def default_model(free_bytes: int | None = None) -> tuple[str, str]:
    """Return the name of the default model and why it was chosen. By default, the free memory is measured."""
    if name := os.environ.get("COC_MODEL"):
        return name, "set by COC_MODEL"
    skipped: list[str] = []
    for name, package, why in _available():
        missing = missing_package(package)
        if not missing:
            return name, "; ".join([*skipped, why])
        skipped.append(f"{why}, but the package {missing} is not installed")
    return embedded_model("; ".join(skipped) or "no API key and no Ollama", free_bytes)


def _available() -> Iterator[tuple[str, str, str]]:
    """Yield the models with a key and the one in Ollama: the name, the package that it needs, and why it is chosen."""
    for provider, model in _VENDORS.items():
        key = f"{provider.upper()}_API_KEY"
        if os.environ.get(key):
            yield f"{provider}:{os.environ.get(f'{provider.upper()}_MODEL') or model}", provider, f"{key} is set"
    if ollama := _ollama_model():
        host = os.environ.get("OLLAMA_HOST")
        yield f"ollama:{ollama}", "openai", f"Ollama is running {f'at {without_login(host)[0]}' if host else 'here'}"


def embedded_model(why: str = "", free_bytes: int | None = None) -> tuple[str, str]:
    """Return the embedded model that fits into memory, and why it was chosen, beginning with `why`."""
    free = free_memory_bytes() if free_bytes is None else free_bytes
    if free is not None and free < _ROOMY_BYTES:
        short = f"only {free / 1e9:.1f} GB of memory is free: the smaller embedded model"
        return "local:qwen2.5-coder-0.5b", f"{why}; {short}" if why else short
    return "local:qwen2.5-coder-1.5b", f"{why}: the embedded model" if why else "the embedded model"


def ollama_url() -> str:
    """Return the URL of Ollama, parsing `OLLAMA_HOST` in the same way as Ollama's own programs."""
    given = (os.environ.get("OLLAMA_HOST") or "").strip().rstrip("/")
    scheme, _, rest = given.rpartition("://")
    place, slash, path = rest.partition("/")
    login, at, host = place.rpartition("@")
    if host.count(":") > 1 and "[" not in host:  # an IPv6 address without brackets
        host = f"[{host}]"
    try:
        port = urllib.parse.urlsplit(f"//{host}").port
    except ValueError:
        raise LMError(f"OLLAMA_HOST must be HOST:PORT, such as 127.0.0.1:11434, not {host[:100]!r}") from None
    if not host or host.startswith(":"):
        host = f"127.0.0.1{host}"
    host = host if port or scheme else f"{host.rstrip(':')}:{_OLLAMA_PORT}"
    return f"{scheme or 'http'}://{login}{at}{host}{slash}{path}"


class _Tag(msgspec.Struct):
    name: str


class _Tags(msgspec.Struct):
    models: list[_Tag]


def _ollama_model() -> str | None:
    """Return the first chat model that Ollama lists."""
    found: list[str] = []
    # In a thread: the time limit then covers the name lookup, the headers and the body together.
    asking = threading.Thread(target=_list_ollama, args=(found,), daemon=True)
    asking.start()
    asking.join(_OLLAMA_SECONDS)
    return next((name for name in list(found) if "embed" not in name), None)


def _list_ollama(found: list[str]) -> None:
    with contextlib.suppress(OSError, ValueError, http.client.HTTPException, msgspec.DecodeError, LMError):
        url = urllib.parse.urlsplit(ollama_url())
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        connection = kind(url.hostname or "", url.port, timeout=_OLLAMA_SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", f"{url.path}/api/tags")
            reply = connection.getresponse()
            data = reply.read(_MAX_TAGS_BYTES)
        if reply.status == 200:
            found += [tag.name for tag in msgspec.json.decode(data, type=_Tags).models]


def free_memory_bytes(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return the free memory of the machine, or of the cgroup if that is less; None if it is unknown."""
    free = []
    with contextlib.suppress(OSError, ValueError):
        free.append(_field(proc / "meminfo", "MemAvailable:") * 1024)
    with contextlib.suppress(OSError, ValueError):
        for line in (proc / "self" / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":  # cgroup version 2
                free += _left(cgroups, path, "memory.max", "memory.current", "inactive_file")
            elif "memory" in controllers.split(","):
                files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
                free += _left(cgroups / "memory", path, *files)
    return min(free, default=None)


def _left(root: Path, path: str, limit: str, used: str, reclaimable: str) -> list[int]:
    """Return the free bytes in each cgroup of this process, its own first. Cgroups without a limit are skipped."""
    left = []
    own = root / path.strip("/")
    for group in (own, *own.parents):
        with contextlib.suppress(OSError, ValueError):
            taken = int((group / used).read_text()) - _field(group / "memory.stat", reclaimable)
            left.append(max(0, int((group / limit).read_text()) - taken))
        if group == root:
            break
    return left


def _field(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(f"{name} "):
            return int(line.split()[1])
    raise ValueError(f"{path} has no {name}")
