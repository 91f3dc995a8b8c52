"""Images among the arguments of a call: bytes, or the path of a file that the program may read.

The host only looks at their size and first bytes. An image may be an argument, or an item of an argument that is a list
or tuple.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import EmulationError, LMError
from ..lm import LM
from ..lm.interface import Image, Message
from ..platforms import read_start
from ..values.codec import Opaque
from ..values.image_bytes import HEAD_BYTES, image_note, media_type
from .pause import Pause

MAX_IMAGES = 16
MAX_IMAGE_BYTES = 3_750_000  # 5 MB in base64, the lowest limit of a vendor (Anthropic)
_NOTE = re.compile(r"<image/[a-z]+, [0-9,]+ bytes, sha256 [0-9a-f]{32}>")
_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".svg")


def has_images(pause: Pause) -> bool:
    """Whether a call has an image among its arguments."""
    granted = _granted(pause)
    return any(_is_image(argument, granted) for argument in _arguments(pause))


def images_of(pause: Pause, lm: LM) -> tuple[Image, ...]:
    """Return the images of a call, in the order of its arguments.

    Raises LMError if the model cannot see images, EmulationError for an image that cannot be sent.
    """
    granted = _granted(pause)
    found = [argument for argument in _arguments(pause) if _is_image(argument, granted)]
    if found and not lm.has_images:
        raise LMError(
            f"{lm.name} cannot see images, so it cannot answer {pause.text[:200]}: use a model that can, such as "
            "openai:gpt-4o-mini (if this model can, set --images or COC_IMAGES=1)"
        )
    if len(found) > MAX_IMAGES:
        raise EmulationError(f"{pause.name} has {len(found)} images; the limit is {MAX_IMAGES} per call")
    return tuple(_image(argument, pause) for argument in found)


def noted(messages: Sequence[Message]) -> str:
    """Return messages as a trace keeps them: each image is replaced by a note."""
    return "\n\n".join(
        "\n".join([*(image_note(image.data) for image in message.images), message.content]) for message in messages
    )


def _arguments(pause: Pause) -> Iterator[Any]:
    if pause.kind != "call":
        return
    for argument in (*pause.args, *pause.kwargs.values()):
        if isinstance(argument, (list, tuple)):
            yield from argument
        else:
            yield argument


def _is_image(argument: Any, granted: Mapping[str, str]) -> bool:
    if isinstance(argument, bytes):
        return media_type(argument) != ""
    if isinstance(argument, Opaque):  # too large to leave the guest: the host has only its text
        return argument.type_name in ("bytes", "list", "tuple") and _NOTE.search(argument.text) is not None
    if not isinstance(argument, str) or argument not in granted:
        return False
    return argument.lower().endswith(_SUFFIXES) or media_type(_read(granted[argument], HEAD_BYTES)) != ""


def _granted(pause: Pause) -> dict[str, str]:
    """Return the paths of granted files, by name as given and absolute; not those inside directories."""
    paths = {read: _path(read, pause) for read in pause.given.get("reads", ())}
    return {**{path: path for path in paths.values()}, **paths}


def _path(named: str, pause: Pause) -> str:
    return os.path.abspath(os.path.join(pause.given.get("directory", ""), named))


def _image(argument: Any, pause: Pause) -> Image:
    what = f"the file {argument}" if isinstance(argument, str) else "an image"
    data = _read(_path(argument, pause), MAX_IMAGE_BYTES + 1) if isinstance(argument, str) else argument
    if isinstance(data, Opaque) or len(data) > MAX_IMAGE_BYTES:
        raise EmulationError(f"{pause.name} cannot take {what}: over {MAX_IMAGE_BYTES:,} bytes; make it smaller")
    kind = media_type(data)
    if not kind:
        raise EmulationError(f"{pause.name} cannot take {what}: it is not a PNG, JPEG, GIF or WebP image")
    return Image(data, kind)


def _read(path: str, limit: int) -> bytes:
    """Return the first bytes of a regular file; none if it cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        return read_start(path, limit)
    return b""
