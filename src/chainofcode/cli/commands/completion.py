"""`coc completion`: prints a script that completes commands and options in a shell."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from ..overview import TopParser
from ..terminal import ANSWERED, print_lines


def add_to(commands: Any, top: TopParser) -> None:
    completion = commands.add_parser(
        "completion",
        help="print a script that completes commands and options in your shell",
        description='Print a completion script. bash: eval "$(coc completion bash)" in ~/.bashrc; zsh: the same in '
        "~/.zshrc, after compinit; fish: coc completion fish > ~/.config/fish/completions/coc.fish.",
    )
    completion.add_argument("shell", choices=tuple(_SCRIPTS), help="the shell that you use")
    completion.set_defaults(command=lambda given: _command(given, top))


def _command(given: argparse.Namespace, top: TopParser) -> int:
    print_lines(_SCRIPTS[given.shell](top).splitlines())
    return ANSWERED


def _words(parser: argparse.ArgumentParser) -> list[str]:
    """Return the options of a command, and the possible values of its arguments."""
    words = [option for action in parser._actions for option in action.option_strings if option.startswith("--")]
    for action in parser._actions:
        if not action.option_strings and isinstance(action.choices, (tuple, list, Mapping)):
            words += map(str, action.choices)
    return words


def _bash(top: TopParser) -> str:
    cases = "\n".join(
        f"    {name}) words={shlex.quote(' '.join(_words(parser)))} ;;" for name, parser in top.parsers().items()
    )
    names = shlex.quote(" ".join([*top.parsers(), "--help", "--version"]))
    return f"""\
_coc() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" words=
  if [ "$COMP_CWORD" -eq 1 ]; then
    words={names}
  else
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _coc coc"""


def _zsh(top: TopParser) -> str:
    return f"autoload -U +X bashcompinit && bashcompinit\n{_bash(top)}"


def _fish(top: TopParser) -> str:
    lines = []
    for name, help in top.commands().items():
        lines.append(f"complete -c coc -n __fish_use_subcommand -f -a {name} -d {_fish_quoted(help)}")
    for name, parser in top.parsers().items():
        seen = f"'__fish_seen_subcommand_from {name}'"
        for word in _words(parser):
            given = f"-l {word[2:]}" if word.startswith("--") else f"-a {_fish_quoted(word)}"
            lines.append(f"complete -c coc -n {seen} {given}")
    return "\n".join(lines)


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPTS: dict[str, Callable[[TopParser], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
