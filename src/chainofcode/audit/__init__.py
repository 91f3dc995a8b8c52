"""What a trace is good for afterwards: whether its file is as written, whether it comes out the same again, what if."""

from .beside import Row, rows, side_by_side
from .chain import Chain, check_chain
from .changes import Changes
from .compare import Difference
from .provenance import Provenance, afollow, follow
from .recorded import Recorded, Run, given_of, runs_of
from .replay import Replay, areplay, replay
from .slices import Slice
from .why import why_data, why_lines

__all__ = [
    "Chain",
    "Changes",
    "Difference",
    "Provenance",
    "Recorded",
    "Replay",
    "Row",
    "Run",
    "Slice",
    "afollow",
    "areplay",
    "check_chain",
    "follow",
    "given_of",
    "replay",
    "rows",
    "runs_of",
    "side_by_side",
    "why_data",
    "why_lines",
]
