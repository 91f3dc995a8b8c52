"""Which model to ask when nobody says: the one whose key is here, else one that runs here, else our own."""

from __future__ import annotations

import contextlib
import http.client
import os
import threading
import urllib.parse
from pathlib import Path

import msgspec

from ..errors import LMError
from .remote import without_login

_OPENAI = "gpt-4o-mini"
_ANTHROPIC = "claude-haiku-5-5"
_OLLAMA_PORT = 11434
_OLLAMA_SECONDS = 0.5
_MAX_TAGS_BYTES = 1_000_000
_ROOMY_BYTES = 3_000_000_000


def default_model(free_bytes: int | None = None) -> tuple[str, str]:
    """A model's name and, for people, why this one; `free_bytes` of memory, by default what this process can get."""
    environment = os.environ.get
    if name := environment("COC_MODEL"):
        return name, "COC_MODEL says so"
    if environment("OPENAI_API_KEY"):
        return f"openai:{environment('OPENAI_MODEL') or _OPENAI}", "the key in OPENAI_API_KEY"
    if environment("ANTHROPIC_API_KEY"):
        return f"anthropic:{environment('ANTHROPIC_MODEL') or _ANTHROPIC}", "the key in ANTHROPIC_API_KEY"
    if model := _ollama_model():
        where = f"at {without_login(environment('OLLAMA_HOST', ''))[0]}" if environment("OLLAMA_HOST") else "here"
        return f"ollama:{model}", f"Ollama is running {where}"
    free = free_memory_bytes() if free_bytes is None else free_bytes
    if free is not None and free < _ROOMY_BYTES:
        why = f"only {free / 1e9:.1f} GB of memory are free: the smaller embedded model"
        return "local:qwen2.5-coder-0.5b", why
    return "local:qwen2.5-coder-1.5b", "no key and no Ollama: the embedded model"


def ollama_url() -> str:
    """Where Ollama is, by `OLLAMA_HOST` as its own programs read it."""
    given = (os.environ.get("OLLAMA_HOST") or "").strip().rstrip("/")
    scheme, _, rest = given.rpartition("://")
    place, slash, path = rest.partition("/")
    login, at, host = place.rpartition("@")
    if host.count(":") > 1 and "[" not in host:  # an address of version 6, as people write it
        host = f"[{host}]"
    try:
        port = urllib.parse.urlsplit(f"//{host}").port
    except ValueError:
        raise LMError("OLLAMA_HOST is no host and port, as 127.0.0.1:11434 is") from None
    if not host or host.startswith(":"):
        host = f"127.0.0.1{host}"
    host = host if port or scheme else f"{host.rstrip(':')}:{_OLLAMA_PORT}"
    return f"{scheme or 'http'}://{login}{at}{host}{slash}{path}"


class _Tag(msgspec.Struct):
    name: str


class _Tags(msgspec.Struct):
    models: list[_Tag]


def _ollama_model() -> str | None:
    """The first model that Ollama lists, and that talks."""
    found: list[str] = []
    # A thread, so that nothing that the other side does slowly takes longer: names, headers, the body.
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
    """What the machine has left and what this process may have, whichever is less; None where nobody says."""
    free = []
    with contextlib.suppress(OSError, ValueError):
        free.append(_field(proc / "meminfo", "MemAvailable:") * 1024)
    with contextlib.suppress(OSError, ValueError):
        for line in (proc / "self" / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":  # version 2
                free += _left(cgroups, path, "memory.max", "memory.current", "inactive_file")
            elif "memory" in controllers.split(","):
                files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
                free += _left(cgroups / "memory", path, *files)
    return min(free, default=None)


def _left(root: Path, path: str, limit: str, used: str, reclaimable: str) -> list[int]:
    """What each group around this process, its own first, leaves it. A limit may not be a number: there is none."""
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
