"""A cache of values and programs between runs: a call that a model has answered is not requested again.

The key of a value has the model and its settings, the question, the program, its inputs and files, and the call. The
prompt is not part of the key: which earlier answers it shows depends on which other requests were pending.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ..errors import InputError
from ..lm import LM, as_lm
from ..lm.reply_store import MAX_BYTES, ReplyStore
from ..lm.wrappers import Cached
from ..trace import Confidence
from ..values.codec import Opaque, decode, encode
from . import Answering, as_emulator
from .cascade import Cascade
from .model import ONE_REPLY, Judging, instructions_digest
from .pause import Answered, AroundEmulator, Emulator, Pause

_VERSION = 1  # of the keys


class _Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value in the cache."""

    value: Any  # tagged
    confidence: Confidence | None = None
    model: str = ""


_decoder = msgspec.json.Decoder(_Kept)


class Layer(Protocol):
    """A layer between a run and its models: a cache, or a person who answers some calls."""

    def model(self, lm: LM) -> LM:
        """Return the model that writes programs."""
        ...

    def emulator(self, given: Answering, judging: Judging = ONE_REPLY) -> Emulator:
        """Return the emulator of one program."""
        ...


class ValueCache:
    """A directory that keeps the values and programs of models; several processes may use it at once.

    The file is at most about `max_bytes` large. `warn` is called with a text for the user if nothing more can be kept.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        max_bytes: int = MAX_BYTES,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        path = Path(directory)
        if path.exists() and not path.is_dir():
            raise InputError(f"the cache {path} is not a directory")
        self._store = ReplyStore(path / "replies.sqlite", max_bytes, warn)

    def model(self, lm: LM) -> LM:
        """Return a model whose replies are cached: for programs, and everything else that is not a value."""
        return Cached(lm, self._store)

    def emulator(self, given: Answering, judging: Judging = ONE_REPLY) -> Emulator:
        """Return an emulator whose values are cached if they come from models: tables and functions cost nothing."""
        identity = _identity(given, judging)
        emulator = as_emulator(given, judging)
        return emulator if identity is None else _Keeping(emulator, self._store, identity)

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> ValueCache:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _identity(given: Any, judging: Judging) -> list[Any] | None:
    """Return the part of a key that identifies the emulator; None if its values do not come from a model."""
    if isinstance(given, Cascade):
        return [*(_identity(lm, judging) or () for lm in given.models), given.threshold]
    if not hasattr(given, "complete"):
        return None
    lm = as_lm(given)
    how = [judging.votes, judging.thinks, judging.seen]
    return [lm.name, lm.version, lm.is_small, lm.rows, lm.has_logprobs, how, instructions_digest(lm)]


class _Keeping(AroundEmulator):
    """Looks values up in the cache before asking, and stores new ones."""

    def __init__(self, emulator: Emulator, store: ReplyStore, identity: list[Any]) -> None:
        super().__init__(emulator)
        self._store, self._identity = store, identity
        self._known_given: Mapping[str, Any] | None = None
        self._given_digest = ""
        self._turns: collections.Counter[bytes] = collections.Counter()

    def fresh(self) -> _Keeping:
        return _Keeping(self._emulator.fresh(), self._store, self._identity)

    async def answer(self, pause: Pause) -> Answered:
        try:
            same = self._key(pause)
        except _Unknown:
            return await self._emulator.answer(pause)
        # A repeated call, of objects that look alike or with `share` off, has its own value.
        self._turns[same] += 1
        key = hashlib.sha256(same + str(self._turns[same]).encode()).digest()
        known = self._look_up(key)
        if known is not None:
            return known
        answered = await self._emulator.answer(pause)
        if answered.error is None and not answered.is_once:
            with contextlib.suppress(_Unknown):
                value = _plain(answered.value)
                kept = _Kept(value=value, confidence=answered.confidence, model=answered.model)
                self._store.put(key, msgspec.json.encode(kept))
        return answered

    def _look_up(self, key: bytes) -> Answered | None:
        data = self._store.get(key)
        if data is None:
            return None
        try:
            kept = _decoder.decode(data)
            value = decode(kept.value)
        except (msgspec.DecodeError, ValueError, RecursionError):
            self._store.replace_file()
            return None
        return Answered(value, confidence=kept.confidence, model=kept.model, is_cached=True)

    def _key(self, pause: Pause) -> bytes:
        parts = [
            _VERSION,
            self._identity,
            [pause.kind, pause.text, pause.name, _plain(pause.args), _plain(pause.kwargs)],
            [pause.names, pause.error, pause.line, pause.type, pause.spec],
            # A call may be requested ahead of the program, when some variables are not known yet.
            pause.state if pause.kind == "statement" else None,
            [pause.program.source, pause.question, self._given(pause.given)],
        ]
        return hashlib.sha256(msgspec.json.encode(_printable(parts), order="sorted")).digest()

    def _given(self, given: Mapping[str, Any]) -> str:
        """Return a digest of the inputs of a run. All its calls have the same `given`, so it is computed once."""
        if given is not self._known_given:
            inputs = {name: _plain(value) for name, value in given.get("inputs", {}).items()}
            files = [_stamp(path, given.get("directory", "")) for path in given.get("reads", ())]
            parts = [inputs, files, given.get("clock"), given.get("seed")]
            self._given_digest = hashlib.sha256(msgspec.json.encode(_printable(parts), order="sorted")).hexdigest()
            self._known_given = given
        return self._given_digest


def _stamp(path: str, directory: str) -> tuple[str, int, int]:
    """Return data that changes when a file does."""
    with contextlib.suppress(OSError, ValueError):
        about = os.stat(os.path.join(directory, path))
        return path, about.st_size, about.st_mtime_ns
    return path, 0, 0


def _plain(value: Any) -> Any:
    """Return a value as JSON data. Objects that stayed in the guest are represented by their text.

    Raises _Unknown for a value that only its type would represent, such as data that is too large.
    """

    def text(part: object) -> str:
        if isinstance(part, Opaque):
            return part.text
        raise _Unknown

    return encode(value, brief=text)


class _Unknown(Exception):
    """A value that cannot be distinguished from others."""


def _printable(data: Any) -> Any:
    """Return data without lone surrogates, which JSON cannot carry."""
    try:
        msgspec.json.encode(data)
    except UnicodeEncodeError:
        return repr(data).encode("utf-8", "backslashreplace").decode()
    return data
