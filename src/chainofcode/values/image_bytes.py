"""Recognise images by their first bytes, without decoding them. Standard library only: the guest uses it, too."""

from __future__ import annotations

_BEGINNINGS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
HEAD_BYTES = 12  # that decide the type


def media_type(data: bytes) -> str:
    """Return the media type of a PNG, JPEG, GIF or WebP image; empty for anything else."""
    if data[:4] == b"RIFF" and data[8:HEAD_BYTES] == b"WEBP":
        return "image/webp"
    return next((kind for beginning, kind in _BEGINNINGS.items() if data.startswith(beginning)), "")


def image_note(data: bytes) -> str:
    """Return the text for an image in calls and traces: its type, size and digest. Empty for other bytes."""
    kind = media_type(data)
    if not kind:
        return ""
    import hashlib  # few programs have images, and every guest imports this module

    return f"<{kind}, {len(data):,} bytes, sha256 {hashlib.sha256(data).hexdigest()[:32]}>"
