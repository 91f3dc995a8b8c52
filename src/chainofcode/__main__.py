"""The commands `coc` and `python -m chainofcode`. Imports almost nothing until Ctrl-C ends the process quietly."""

import os
import sys


def script() -> None:
    """Run `coc` and end the process."""
    try:
        from .interrupts import leave_when_interrupted

        leave_when_interrupted()
        from .cli import main
        from .sandbox.worker_wall import hide_from_others

        hide_from_others()  # the environment may contain keys
        code = main()
        leave_when_interrupted()
    except KeyboardInterrupt:  # before the first import has finished, or a second one while the first is reported
        os._exit(130)
    sys.exit(code)


if __name__ == "__main__":
    script()
