"""The commands `coc` and `python -m chainofcode`. Imports almost nothing until Ctrl-C ends the process quietly."""

import os
import sys


def script() -> None:
    """Run `coc` and end the process."""
    try:
        from .interrupts import exit_on_interrupt

        exit_on_interrupt()
        from .cli import main
        from .sandbox.worker_confinement import hide_from_others

        hide_from_others()  # the environment may contain keys
        code = main()
        exit_on_interrupt()
    except KeyboardInterrupt:  # during the first import, or again while `coc` reports the first one
        os._exit(130)
    sys.exit(code)


if __name__ == "__main__":
    script()
