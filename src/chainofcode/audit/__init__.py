"""What a trace is good for afterwards: whether its file is as written, whether it comes out the same again, what if."""

from .chain import Chain, check_chain
from .changes import Changes
from .compare import Difference
from .recorded import Recorded, Run, given_of, runs_of
from .replay import Replay, areplay, replay

__all__ = [
    "Chain",
    "Changes",
    "Difference",
    "Recorded",
    "Replay",
    "Run",
    "areplay",
    "check_chain",
    "given_of",
    "replay",
    "runs_of",
]
