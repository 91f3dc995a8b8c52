"""Work on traces: check the file, replay it with or without changes, explain and verify its answer."""

from .faithfulness.flips import Flip
from .faithfulness.verdict import Verdict
from .faithfulness.verify import averify, doubts, verify, verify_data
from .provenance.followed import Provenance, afollow, follow
from .provenance.slices import Slice
from .provenance.why import rests_on, why_data, why_lines
from .replay.alignment import Row, rows, side_by_side
from .replay.changes import Changes, call_and_value, read_value
from .replay.differences import Difference
from .replay.grants import Grants, approve, grant_options, option_text, without_files
from .replay.integrity import Chain, check_chain, parted, read_checked
from .replay.recorded import Recorded, Run, recorded_options, runs_of
from .replay.rerun import Replay, areplay, replay
from .replay.timeline import Timeline, Variable, edited, timelines

__all__ = [
    "Chain",
    "Changes",
    "Difference",
    "Flip",
    "Grants",
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
    "approve",
    "areplay",
    "averify",
    "call_and_value",
    "check_chain",
    "doubts",
    "edited",
    "follow",
    "grant_options",
    "option_text",
    "parted",
    "read_checked",
    "read_value",
    "recorded_options",
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
    "without_files",
]
