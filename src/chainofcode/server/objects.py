"""Object storage that several servers share: uploads, artifacts and long traces, by key.

A directory that all servers mount, or a bucket of an S3-compatible service.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..errors import InputError
from .refusal import StorageError

if TYPE_CHECKING:
    from obstore.store import S3Store

_S3 = "s3://"
_PART_BYTES = 1024**2
_TIMEOUT = timedelta(seconds=30)


class ObjectStorage(Protocol):
    """Keys are paths of safe characters. All methods block, and raise StorageError."""

    def put(self, key: str, data: bytes) -> None:
        """Store an object atomically."""

    def fetch(self, key: str, path: Path) -> None:
        """Write an object to a new local file. Raises FileNotFoundError if there is no such object."""

    def remove(self, key: str) -> None:
        """Remove an object, if it exists."""

    def check(self) -> None:
        """Raise StorageError if nothing can be written."""


def objects_at(place: str) -> ObjectStorage:
    """The storage that an option names: a directory, or s3://BUCKET/PREFIX."""
    if place.startswith(_S3):
        return S3Objects(place)
    if "://" in place:
        raise InputError(f"unknown object storage {place!r} (expected a directory, or s3://BUCKET/PREFIX)")
    return DirectoryObjects(Path(place))


class DirectoryObjects:
    """Objects as files of a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot store objects in {directory}: {error.strerror}") from None

    def put(self, key: str, data: bytes) -> None:
        path = self._directory / key
        partial = path.with_name(f"{path.name}.{secrets.token_hex(6)}.partial")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with partial.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise StorageError(error.strerror or str(error)) from None

    def fetch(self, key: str, path: Path) -> None:
        try:
            with (self._directory / key).open("rb") as file, path.open("xb") as copy:
                while data := file.read(_PART_BYTES):
                    copy.write(data)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StorageError(error.strerror or str(error)) from None

    def remove(self, key: str) -> None:
        try:
            (self._directory / key).unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(error.strerror or str(error)) from None

    def check(self) -> None:
        self.put("check", b"")


class S3Objects:
    """Objects in a bucket. Credentials, region and endpoint come from the usual AWS_ variables."""

    def __init__(self, place: str) -> None:
        if importlib.util.find_spec("obstore") is None:
            raise InputError("--objects s3://… needs the extra `s3`: pip install 'chainofcode[s3]'")
        from obstore.exceptions import BaseError
        from obstore.store import S3Store

        is_plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
        try:
            self._store: S3Store = S3Store.from_url(
                place,
                client_options={"allow_http": is_plain, "timeout": _TIMEOUT},
                retry_config={"max_retries": 3, "retry_timeout": _TIMEOUT},
            )
        except (BaseError, ValueError) as error:
            raise InputError(f"cannot use the object storage {place!r}: {error}") from None

    def put(self, key: str, data: bytes) -> None:
        try:
            with _s3_errors():
                self._store.put(key, data)
        except FileNotFoundError:
            raise StorageError("object storage: there is no such bucket") from None

    def fetch(self, key: str, path: Path) -> None:
        with _s3_errors(), path.open("xb") as copy:
            for data in self._store.get(key).stream(min_chunk_size=_PART_BYTES):
                copy.write(data)

    def remove(self, key: str) -> None:
        with _s3_errors(), contextlib.suppress(FileNotFoundError):
            self._store.delete(key)

    def check(self) -> None:
        self.put("check", b"")


@contextlib.contextmanager
def _s3_errors() -> Iterator[None]:
    from obstore.exceptions import BaseError

    try:
        yield
    except FileNotFoundError:  # an object or the bucket is missing
        raise
    except (BaseError, OSError) as error:
        raise StorageError(f"object storage: {str(error).partition(chr(10))[0][:200]}") from None
