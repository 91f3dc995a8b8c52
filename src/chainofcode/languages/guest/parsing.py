"""A process that only parses: it reads a program from standard input and writes its description to standard output.

Standard library only.
"""

from __future__ import annotations

import json
import sys

from ...platforms import end_after
from ..source import NotAProgram
from .granted import GrantedPackages, guest_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # for start-up time
    from typing import Any

_CPU_SECONDS = 20


def main() -> None:
    start = json.loads(sys.stdin.buffer.read())
    GrantedPackages(start["package_names"], start["package_paths"]).install()
    with end_after(_CPU_SECONDS, counts_cpu=True):
        try:
            reply: dict[str, Any] = {"program": guest_of(start["language"]).describe(start)}
        except NotAProgram as error:
            reply = {"error": str(error)}
        sys.stdout.write(json.dumps(reply))
