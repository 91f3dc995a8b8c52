"""A model on this machine: llama.cpp in a separate process, from the package `xllamacpp` (the extra `local`).

One request at a time: on a CPU, parallel requests only evict each other's prompt prefix. The first request loads the
model, which stays loaded until `close`. A long prompt prefix is evaluated once, and cached on disk for later processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import importlib.util
import json
import os
import re
import secrets
import select
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from ..boot import module_path
from ..errors import LMError
from ..platforms import make_directory_private, usable_cores
from .chat_reply import MAX_ALTERNATIVES, ChatReply
from .deadline import not_counted
from .interface import LM, Completion, Message, Usage, bounded_tokens, turns
from .prefixes import Prefixes
from .reply_stream import ChatStream, OnText, ReplyStream
from .weights import Progress, fetch, prefix_directory, weights

CONTEXT_TOKENS = 8192
_CACHE_MIB = 512  # for evaluated prompts, in memory: the default of llama.cpp is 8 GB
_IN_CACHE = 4  # prefixes that fit into the cache
_LONG_CHARACTERS = 800  # about 200 tokens
_LOAD_SECONDS = 300
_REPLY_SECONDS = 1800
_CONNECT_SECONDS = 30
_HANG_UP_SECONDS = 0.05
_CHUNK_BYTES = 65_536
_PROCESS = Path(__file__).parent / "llama.py"
# The variables that llama.cpp and its libraries read. It is C++ code that reads prompts, so it gets no other keys.
_PASSED_ON = re.compile(
    r"PATH|HOME|USERPROFILE|LOCALAPPDATA|SYSTEMROOT|TMPDIR|TEMP|TMP|LANG|LC_\w+|PYTHON\w+|VIRTUAL_ENV|LD_\w+|DYLD_\w+"
    r"|(CUDA|NVIDIA|HIP|HSA|ROCR|ROCM|AMD|SYCL|ONEAPI|ZE|VK|MESA|GGML|LLAMA|OMP|GOMP|KMP|MKL|OPENBLAS|MALLOC)_\w+",
    re.I,
)


_ROWS = {"qwen2.5-coder-1.5b": 4}  # calls in a prompt, as measured by bench/rows.py


class LocalLM(LM):
    """`model` is a name from `coc models`, downloaded if needed, or the path of a .gguf file."""

    def __init__(self, model: str, *, threads: int | None = None, progress: Progress = lambda *news: None) -> None:
        if not model.endswith(".gguf"):
            weights(model)  # raises for an unknown name
        self.name, self.has_logprobs, self.is_small = f"local:{model}", True, True
        self.has_stream = True
        self.rows = _ROWS.get(model, 1)
        self.version = weights(model).sha256 if not model.endswith(".gguf") else _stamp(Path(model))
        self._model, self._progress = model, progress
        self._threads = threads or max(1, usable_cores())
        # One for each event loop: a lock belongs to the loop that first waits for it.
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self._server: _LlamaServer | None = None

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: dict[str, Any] | None = None,
        stop: Sequence[str] = (),
        max_tokens: int = 1024,
        temperature: float = 0.0,
        n: int = 1,
        seed: int | None = None,
        logprobs: bool = False,
        on_text: OnText | None = None,
    ) -> list[Completion]:
        conversation = turns(messages)
        if any(message.images for message in messages):
            raise LMError(f"{self.name} cannot see images")
        prefix = _prefix(messages)
        request: dict[str, Any] = {
            "messages": [{"role": turn.role, "content": turn.content} for turn in conversation],
            "max_tokens": max_tokens,
            "temperature": temperature,
            "stop": list(stop),
            "seed": 0 if seed is None else seed,
            "cache_prompt": True,
        }
        if logprobs:
            request |= {"logprobs": True, "top_logprobs": MAX_ALTERNATIVES}
        if n > 1 or logprobs:  # streaming supports one reply, and only its text
            on_text = None
        if schema is not None:
            request["response_format"] = {"type": "json_schema", "json_schema": {"name": "value", "schema": schema}}
        async with self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            evaluated = await self._hold(prefix) if _is_long(prefix) else 0
            server = await self._ready()
            return [
                await self._ask(
                    server, {**request, "seed": request["seed"] + reply}, 0 if reply else evaluated, on_text
                )
                for reply in range(n)
            ]

    async def problem(self) -> str:
        return await asyncio.to_thread(self._missing)

    def _missing(self) -> str:
        """Return what is missing: the package or the weights."""
        if missing := missing_package(self.name):
            return missing
        if self._model.endswith(".gguf"):
            return "" if Path(self._model).is_file() else f"there is no model file {self._model!r}"
        is_here = weights(self._model).is_here
        return "" if is_here else f"{self.name} is not downloaded yet; run 'coc models pull {self._model}'"

    async def prepare(self, messages: Sequence[Message] = ()) -> None:
        prefix = _prefix(messages)
        async with self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            await self._ready()
            if _is_long(prefix):
                await self._hold(prefix)

    async def _ready(self) -> _LlamaServer:
        if self._server is not None and self._server.has_ended:
            self.close()
        if self._server is None:
            if missing := missing_package(self.name):
                raise LMError(missing)
            path = await self._fetched()
            self._progress(0, 0, f"loading {self._model}")
            self._server = await asyncio.to_thread(_LlamaServer, path, self._threads, self.name)
        return self._server

    async def _hold(self, prefix: list[Message]) -> int:
        """Load an evaluated prefix from disk, or evaluate it; return how many tokens were evaluated."""
        server = await self._ready()
        if server.prefixes is None:
            return 0
        name = server.prefixes.name(msgspec.json.encode(prefix).decode())
        if name in server.recent:
            server.recent.remove(name)
            server.recent.append(name)
            return 0
        if await asyncio.to_thread(server.prefixes.has, name):
            try:
                if server.recent:  # restoring overwrites the slot; another prompt first moves its content to the cache
                    await server.post("/completion", {"prompt": "-", "n_predict": 1, "cache_prompt": True})
                await server.post("/slots/0?action=restore", {"filename": name})
                server.recent.append(name)
                return 0
            except LMError:
                server.prefixes.remove(name)
                server = await self._ready()
        return await self._evaluate(server, prefix, name)

    async def _evaluate(self, server: _LlamaServer, prefix: list[Message], name: str) -> int:
        assert server.prefixes is not None
        self._progress(0, 0, "reading new instructions (kept for later runs)")
        # With an empty user turn: some models' templates require one.
        conversation = [{"role": turn.role, "content": turn.content} for turn in [*prefix, Message("user", "")]]
        part, evaluated = server.prefixes.part(), 0
        try:
            request = {"messages": conversation, "max_tokens": 1, "cache_prompt": True}
            reply = await server.post("/v1/chat/completions", request)
            evaluated = reply.get("timings", {}).get("prompt_n", 0)
            server.recent.append(name)
            await server.post("/slots/0?action=save", {"filename": part})
            await asyncio.to_thread(server.prefixes.keep, part, name)
        except LMError:
            pass  # the request itself will report what is wrong
        finally:
            server.prefixes.remove(part)
        return evaluated

    async def _ask(
        self, server: _LlamaServer, request: dict[str, Any], evaluated: int, on_text: OnText | None
    ) -> Completion:
        started, joined = time.monotonic(), None
        if on_text is not None:
            request |= {"stream": True, "stream_options": {"include_usage": True}}
            joined = ChatStream(_in_loop(on_text))
        reply = await server.post("/v1/chat/completions", request, joined)
        try:
            read = msgspec.convert(reply, ChatReply)
            choice, usage = read.choices[0], read.tokens
            cached = max(0, reply.get("timings", {}).get("cache_n", 0) - evaluated)
        except (msgspec.ValidationError, IndexError, TypeError, AttributeError):
            raise LMError(f"unexpected reply from {self.name}: {json.dumps(reply)[:200]}") from None
        return Completion(
            text=choice.message.content or "",
            usage=Usage(
                requests=1,
                prompt_tokens=bounded_tokens(usage.prompt_tokens),
                completion_tokens=bounded_tokens(usage.completion_tokens),
                cached_tokens=cached,
            ),
            seconds=time.monotonic() - started,
            finish_reason=choice.finish_reason or "stop",
            tokens=choice.tokens,
        )

    async def _fetched(self) -> Path:
        """Return the file's path. Cancelling stops a download."""
        given_up = threading.Event()

        def progress(done: int, total: int, source: str) -> None:
            if given_up.is_set():
                raise LMError("the download was cancelled; the next one resumes where it stopped")
            self._progress(done, total, source)

        try:
            with not_counted():
                return await asyncio.to_thread(self._path, progress)
        except asyncio.CancelledError:
            given_up.set()
            raise

    def _path(self, progress: Progress) -> Path:
        path = Path(self._model)
        if path.suffix == ".gguf":
            if not path.is_file():
                raise LMError(f"there is no model file {str(path)!r}")
            return path
        return fetch(weights(self._model), progress)

    def close(self) -> None:
        """End the process."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def __enter__(self) -> LocalLM:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def missing_package(name: str) -> str:
    """Return what to install for a local model of this name; empty if llama.cpp is installed."""
    is_here = importlib.util.find_spec("xllamacpp") is not None
    return "" if is_here else f"{name} needs the extra `local`: pip install 'chainofcode[local]'"


def _stamp(path: Path) -> str:
    """Return a string that changes when a file does."""
    try:
        about = path.stat()
    except OSError:
        return ""
    return f"{about.st_size} {about.st_mtime_ns}"


def _prefix(messages: Sequence[Message]) -> list[Message]:
    """Return the turns to cache: up to the last message that `is_kept`, else the system turns."""
    kept = [number for number, message in enumerate(messages, 1) if message.is_kept]
    systems = next((n for n, message in enumerate(messages) if message.role != "system"), len(messages))
    return turns(messages[: kept[-1] if kept else systems])


def _is_long(prefix: Sequence[Message]) -> bool:
    return sum(len(turn.content) for turn in prefix) >= _LONG_CHARACTERS


class _LlamaServer:
    """The llama.cpp process and its HTTP interface."""

    def __init__(self, path: Path, threads: int, name: str) -> None:
        self._key = secrets.token_hex(16)
        variables = {name: value for name, value in os.environ.items() if _PASSED_ON.fullmatch(name)}
        self._process = subprocess.Popen(
            [sys.executable, "-s", "-P", str(_PROCESS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**variables, "PYTHONPATH": module_path()},
            start_new_session=True,  # Ctrl-C is for the host, which closes its input
        )
        directory = _prefix_directory()
        settings = {
            "path": str(path),
            "key": self._key,
            "threads": threads,
            "context_tokens": CONTEXT_TOKENS,
            "cache_mib": _CACHE_MIB,
            "states": f"{directory}/" if directory else "",
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(settings).encode() + b"\n")
            self._process.stdin.flush()
        has_spoken = bool(select.select([self._process.stdout], [], [], _LOAD_SECONDS)[0])
        if not has_spoken:
            self._process.kill()
        line = self._process.stdout.readline()
        try:
            report = json.loads(line)
        except ValueError:
            why = "exited without a message" if has_spoken else f"took over {_LOAD_SECONDS} s to load the model"
            report = {"error": f"llama.cpp {why}; is there enough memory?"}
        if "address" not in report:
            self.close()
            raise LMError(f"cannot start {name}: {report['error']}")
        self._host, self._port = "127.0.0.1", int(str(report["address"]).rpartition(":")[2])
        self.recent: deque[str] = deque(maxlen=_IN_CACHE)
        about = path.stat()
        identity = f"{about.st_size} {about.st_mtime_ns} {CONTEXT_TOKENS} {report['version']}"
        self.prefixes = Prefixes(directory, path.name, identity) if directory else None

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    async def post(self, path: str, body: dict[str, Any], joined: ReplyStream | None = None) -> dict[str, Any]:
        """Send a request. Cancelling closes the connection, and llama.cpp stops working on it.

        `joined` reads the reply of a streaming request.
        """
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_CONNECT_SECONDS)
        asking = asyncio.create_task(asyncio.to_thread(self._post, connection, path, body, joined))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            while not asking.done():  # its thread may not have begun, or not have connected yet
                if connection.sock is not None:
                    with contextlib.suppress(OSError):
                        connection.sock.shutdown(socket.SHUT_RDWR)
                await asyncio.wait([asking], timeout=_HANG_UP_SECONDS)
            asking.exception()  # retrieved, so that asyncio does not log it
            raise
        finally:
            connection.close()

    def _post(
        self, connection: http.client.HTTPConnection, path: str, body: dict[str, Any], joined: ReplyStream | None
    ) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        try:
            connection.connect()
            connection.sock.settimeout(_REPLY_SECONDS)
            connection.request("POST", path, json.dumps(body), headers)
            reply = connection.getresponse()
            data = reply.read() if joined is None or reply.status != 200 else _joined(reply, joined)
        except (OSError, http.client.HTTPException) as error:
            ended = self._process.poll()
            why = f"its process ended with {ended}; is there enough memory?" if ended is not None else error
            raise LMError(f"the local model does not respond: {why}") from None
        try:
            content = json.loads(data)
        except ValueError:
            raise LMError(f"the local model returned HTTP {reply.status} without JSON") from None
        if reply.status == 200 and isinstance(content, dict):
            return content
        for key in ("error", "message"):
            content = content.get(key, content) if isinstance(content, dict) else content
        raise LMError(f"the local model rejects the request: {str(content)[:300]}")

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _in_loop(on_text: OnText) -> OnText:
    """Return a function that calls `on_text` in the running event loop, from any thread."""
    loop = asyncio.get_running_loop()

    def forward(text: str) -> None:
        loop.call_soon_threadsafe(on_text, text)

    return forward


def _joined(reply: http.client.HTTPResponse, joined: ReplyStream) -> bytes:
    while data := reply.read1(_CHUNK_BYTES):
        joined.feed(data)
    return joined.body()


def _prefix_directory() -> Path | None:
    """Return the cache directory next to the models; None if it cannot be created, or others could write in it."""
    directory = prefix_directory()
    try:
        make_directory_private(directory.parent, mode=0o755, may_be_roots=True)
        make_directory_private(directory)  # prompts are private, and llama.cpp trusts what it reads
    except OSError:
        return None
    return directory
