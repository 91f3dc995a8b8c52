"""The reply that a model is writing, for followers of a run. The trace has only the complete reply."""

from __future__ import annotations

import time

from ..trace import as_json

_MAX_CHARS = 20_000
_WAKE_SECONDS = 0.1  # minimum time between notifications of new text


class Draft:
    """An unfinished reply."""

    def __init__(self) -> None:
        self.text = ""
        self._notified_at = 0.0

    def write(self, text: str) -> bool:
        """Store the reply so far; return whether to notify followers now."""
        self.text = text[:_MAX_CHARS]
        is_due = time.monotonic() - self._notified_at >= _WAKE_SECONDS
        if is_due:
            self._notified_at = time.monotonic()
        return is_due

    def clear(self) -> None:
        self.text = ""


class DraftReader:
    """What one follower has seen of a draft."""

    def __init__(self) -> None:
        self._seen = ""

    def news(self, draft: Draft) -> bytes | None:
        """Return what is new as JSON: text to append or, with `is_new`, the whole text; None if nothing is new."""
        text, seen = draft.text, self._seen
        if text == seen:
            return None
        self._seen = text
        is_new = not seen or not text.startswith(seen)
        return as_json({"text": text if is_new else text[len(seen) :], "is_new": is_new})
