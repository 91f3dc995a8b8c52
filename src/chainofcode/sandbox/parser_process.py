"""A process that only parses: it reads a program from standard input and writes its description to standard output.

The first line of the input names the language and its packages; `Program.parse` writes it. After it comes the reply of
a model, which is read after the process has given up its rights. Standard library only.
"""

from __future__ import annotations

import json
import sys

from ..languages.guest.granted import GrantedPackages, guest_of
from ..languages.source import NotAProgram
from ..platforms import end_after, limit_process
from .worker_confinement import can_import_later, confine_worker, explain_failure

TYPE_CHECKING = False
if TYPE_CHECKING:  # for start-up time
    from typing import Any

_CPU_SECONDS, _MEMORY_BYTES = 20, 2 * 1024**3


def main() -> None:
    named = json.loads(sys.stdin.buffer.readline())
    GrantedPackages(named["package_names"], named["package_paths"]).install()
    guest = guest_of(named["language"])
    if not can_import_later():
        guest.rehearse()
    limit_process(_CPU_SECONDS, _MEMORY_BYTES, file_bytes=0, is_inherited=True)
    try:
        confine_worker(named["package_paths"])
    except OSError as error:
        sys.stdout.write(json.dumps({"unconfined": explain_failure(error)}))
        return
    with end_after(_CPU_SECONDS, counts_cpu=True):
        try:
            reply: dict[str, Any] = {"program": guest.describe(json.load(sys.stdin.buffer))}
        except NotAProgram as error:
            reply = {"error": str(error)}
        sys.stdout.write(json.dumps(reply))
