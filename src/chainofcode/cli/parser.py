"""What is wrong with a command line, in two lines, where argparse prints all of the usage before it."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """Refuses what it does not know by itself, not by way of the parser above it, and says what may have been meant."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._refusal(unknown[0].partition("=")[0]))  # without its value, which may be a secret
        return known, unknown

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n{self.prog} --help says what it takes\n")

    def _refusal(self, unknown: str) -> str:
        if not unknown.startswith("-"):
            return f"unrecognized argument: {unknown} (what has spaces in it needs quotes)"
        near = difflib.get_close_matches(unknown, self._option_string_actions, n=1, cutoff=0.75)
        return f"unrecognized option: {unknown}" + (f" (did you mean {near[0]}?)" if near else "")
