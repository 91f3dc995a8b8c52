"""What a trace is good for afterwards: whether its file is as written, whether it comes out the same again, what if."""

from .beside import Row, rows, side_by_side
from .chain import Chain, check_chain, parted, read_checked
from .changes import Changes, call_and_value, read_value
from .compare import Difference
from .flips import Flip
from .provenance import Provenance, afollow, follow
from .recorded import Recorded, Run, given_of, runs_of
from .replay import Replay, areplay, replay
from .slices import Slice
from .timeline import Timeline, Variable, edited, timelines
from .verify import Verdict, averify, verify, verify_data
from .why import rests_on, why_data, why_lines

__all__ = [
    "Chain",
    "Changes",
    "Difference",
    "Flip",
    "Provenance",
    "Recorded",
    "Replay",
    "Row",
    "Run",
    "Slice",
    "Timeline",
    "Variable",
    "Verdict",
    "afollow",
    "areplay",
    "averify",
    "call_and_value",
    "check_chain",
    "edited",
    "follow",
    "given_of",
    "parted",
    "read_checked",
    "read_value",
    "replay",
    "rests_on",
    "rows",
    "runs_of",
    "side_by_side",
    "timelines",
    "verify",
    "verify_data",
    "why_data",
    "why_lines",
]
