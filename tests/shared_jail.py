"""`run` and `solve` in one Jail for the whole test process: many programs, one start of the sandbox."""

from __future__ import annotations

import atexit
import functools
from typing import Any

import chainofcode
from chainofcode import Jail, Result


@functools.cache
def jail() -> Jail:
    kept = Jail(spares=1)
    atexit.register(kept.close)
    return kept


def run(*given: Any, **options: Any) -> Result:
    return chainofcode.run(*given, **{"sandbox": jail(), **options})


def solve(*given: Any, **options: Any) -> Result:
    return chainofcode.solve(*given, **{"sandbox": jail(), **options})
