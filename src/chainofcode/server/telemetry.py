"""What a server reports about itself: metrics, log lines and spans."""

from __future__ import annotations

from dataclasses import dataclass, field

from .metrics import Metrics, ServerLog
from .spans import Spans


@dataclass(frozen=True)
class Telemetry:
    log: ServerLog
    metrics: Metrics = field(default_factory=Metrics)
    spans: Spans = field(default_factory=Spans)
