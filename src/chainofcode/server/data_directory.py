"""The data directory of a server, `--data`. It belongs to the user of the server, and only this user can read it."""

from __future__ import annotations

from pathlib import Path

from ..errors import InputError
from ..platforms import make_directory_private

PARTS = ("traces", "files", "artifacts")


def make_private(directory: Path, *parts: str) -> None:
    """Create the directory and its parts, or make existing ones private.

    Raises InputError if one belongs to another user: that user could read runs and uploads, and add tokens.
    """
    for path in (directory, *(directory / part for part in parts)):
        try:
            make_directory_private(path)
        except PermissionError as error:
            raise InputError(
                f"{error.strerror}; name another directory with --data, or change the owner with chown"
            ) from None
        except OSError as error:
            raise InputError(f"cannot use {path}: {error.strerror}") from None
