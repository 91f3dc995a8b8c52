"""The client's trace that a request belongs to, from the headers of W3C Trace Context.

A run starts in a copy of the context of its request, so its log lines and spans belong to that trace, too.
"""

from __future__ import annotations

import re
from contextvars import ContextVar

_FORM = re.compile(r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-[0-9a-f]{2}(?P<more>-.*)?")
TRACE_ID: ContextVar[str] = ContextVar("trace_id", default="")


def trace_id_of(traceparent: str) -> str:
    """The trace id in a header `traceparent`; empty for an invalid header, which is ignored."""
    parts = _FORM.fullmatch(traceparent.strip())
    if parts is None or parts["version"] == "ff" or (parts["version"] == "00" and parts["more"]):
        return ""
    is_zero = not parts["trace"].strip("0") or not parts["span"].strip("0")
    return "" if is_zero else parts["trace"]
