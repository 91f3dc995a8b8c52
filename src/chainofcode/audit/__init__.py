"""What a trace is good for afterwards: whether its file is as written, whether it comes out the same again, what if."""

from .beside import Row, rows, side_by_side
from .chain import Chain, check_chain
from .changes import Changes
from .compare import Difference
from .recorded import Recorded, Run, given_of, runs_of
from .replay import Replay, areplay, replay
from .timeline import Timeline, Variable, edited, timelines

__all__ = [
    "Chain",
    "Changes",
    "Difference",
    "Recorded",
    "Replay",
    "Row",
    "Run",
    "Timeline",
    "Variable",
    "areplay",
    "check_chain",
    "edited",
    "given_of",
    "replay",
    "rows",
    "runs_of",
    "side_by_side",
    "timelines",
]
