"""The output of `coc` and `coc --help`: what to try first, and the commands by purpose."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator, Mapping

from .parser import Parser

GROUPS = {
    "Answer questions": ("ask", "chat", "methods"),
    "Run programs": ("run", "sql", "explain", "resume"),
    "Inspect a run": ("show", "debug", "why", "verify", "replay"),
    "Measure": ("eval", "score", "report"),
    "Run a server": ("serve", "mcp", "tokens"),
    "Set up": ("examples", "models", "doctor", "completion"),
}
_TRY = """\
Try:
  coc ask "How many of these are fruit: apple, hammer, fig, chair?"
  coc ask "Which region earned the most?" --file orders.csv
  coc run program.py --values values.jsonl
"""
_WIDTH = 100


class TopParser(Parser):
    """The parser of `coc` itself. Commands have parsers of their own, in groups."""

    def commands(self) -> Mapping[str, str]:
        """Return the commands with their help texts."""
        (listed,) = (action for action in self._actions if isinstance(action, argparse._SubParsersAction))
        return {action.dest: action.help or "" for action in listed._choices_actions}

    def parsers(self) -> Mapping[str, argparse.ArgumentParser]:
        """Return the commands with their parsers."""
        (listed,) = (action for action in self._actions if isinstance(action, argparse._SubParsersAction))
        return dict(listed.choices)

    def format_help(self) -> str:
        return "\n".join([f"usage: {self.prog} COMMAND …\n", f"{self.description}\n", _TRY, *self._groups(), _LAST])

    def _groups(self) -> Iterator[str]:
        commands = self.commands()
        for title, names in GROUPS.items():
            rows = [_row(name, commands[name]) for name in names if name in commands]
            yield f"{title}:\n" + "\n".join(rows) + "\n"


_LAST = """\
coc COMMAND --help shows the options of a command; coc --version shows the version.
"""


def _row(name: str, help: str) -> str:
    return textwrap.fill(help, _WIDTH, initial_indent=f"  {name:<12}", subsequent_indent=" " * 14)
