"""`coc serve`: runs over HTTP."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...lm.choose import default_model
from ...server import serve
from ...server.settings import ServerSettings
from ..model_options import read_budget
from ..run_options import LIMITS, read_limits, read_packages
from ..terminal import ANSWERED

# A name and a secret. What is long already before its `=` is a secret of its own: base64 ends in some.
_NAMED = re.compile(r"([A-Za-z][\w.-]{0,31})=(.{16,})|([A-Za-z][\w.-]{0,14})=([^=].*)", re.S)


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "serve",
        help="answer questions over HTTP: a native API, OpenAI's protocols, a page",
        description="Serve until SIGTERM or Ctrl-C; then runs may finish for --drain seconds. What was acknowledged is "
        "there again after a restart.",
    )
    parser.add_argument("--host", metavar="HOST", default="127.0.0.1", help="where to listen; others need --token")
    parser.add_argument("--port", metavar="N", type=int, default=8321, help="8321; 0 is any that is free")
    parser.add_argument(
        "--model",
        metavar="PROVIDER:MODEL",
        action="append",
        default=[],
        help="a model that clients may ask, again for more: the first is asked where they name none (see coc ask)",
    )
    parser.add_argument(
        "--token",
        metavar="[NAME=]SECRET",
        action="append",
        default=[],
        help="who has it may ask, again for more: each name has its own runs and budget; of 16 characters or more, "
        "better in COC_TOKEN",
    )
    parser.add_argument("--data", metavar="DIR", type=Path, help="where runs are kept (~/.local/share/chainofcode)")
    parser.add_argument(
        "--keep",
        metavar="DAYS",
        type=float,
        help="remove runs, and uploads that no run names, after so many days; without it nothing is removed",
    )
    _add_bounds(parser)
    parser.add_argument("--drain", metavar="S", type=float, default=30.0, help="seconds that runs have to finish (30)")
    parser.add_argument("--allow-host", metavar="NAME", action="append", default=[], help="a name it is called by")
    parser.add_argument(
        "--allow-origin", metavar="ORIGIN", action="append", default=[], help="whose pages may use it: https://…"
    )
    parser.add_argument(
        "--allow-package", metavar="NAME", action="append", default=[], help="let programs import an installed package"
    )
    parser.add_argument("--scratch", action="store_true", help="keep files that programs write; needs tier A")
    parser.add_argument(
        "--limit", metavar="WHICH=N", action="append", default=[], help=f"of each run: {', '.join(LIMITS)}"
    )
    parser.add_argument("--log", choices=["text", "json"], default="text", help="how to write on standard error")
    parser.add_argument("--log-content", action="store_true", help="questions and answers, too")
    parser.add_argument("--otel", action="store_true", help="send OpenTelemetry spans (OTEL_EXPORTER_OTLP_ENDPOINT)")
    parser.set_defaults(command=_serve)


def _add_bounds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--budget",
        metavar="WHICH=N",
        action="append",
        default=[],
        help="what each token may use in a day: tokens=100000, money=0.50 (dollars)",
    )
    parser.add_argument("--runs", metavar="N", type=int, default=64, help="how many runs at once (64)")
    parser.add_argument("--queue", metavar="N", type=int, default=1024, help="how many more may wait (1024)")
    parser.add_argument(
        "--requests", metavar="N", type=int, default=256, help="to one model at once, of all runs together (256)"
    )
    parser.add_argument(
        "--rate", metavar="N", type=int, default=6000, help="requests a minute, of a token or address (6000)"
    )


def _serve(given: argparse.Namespace) -> int:
    models = tuple(dict.fromkeys(given.model))
    if not models:
        name, why = default_model()
        print(f"coc: asking {name} ({why})", file=sys.stderr)
        models = (name,)
    if not 0 <= given.port <= 65535:
        raise InputError(f"--port takes 0 to 65535, not {given.port}")
    settings = ServerSettings(
        data=given.data or _data_directory(),
        models=models,
        host=given.host,
        port=given.port,
        tokens=_tokens([*given.token, *os.environ.get("COC_TOKEN", "").split()]),
        hosts=tuple(name.lower() for name in given.allow_host),
        origins=tuple(given.allow_origin),
        runs=given.runs,
        queue=given.queue,
        requests=given.requests,
        per_minute=given.rate,
        budget=read_budget(given.budget),
        drain_seconds=given.drain,
        keep_days=given.keep,
        packages=read_packages(given),
        has_scratch=given.scratch,
        limits=read_limits(given.limit),
        log=given.log,
        logs_content=given.log_content,
        has_spans=given.otel,
    )
    serve(settings)
    return ANSWERED


def _tokens(given: Sequence[str]) -> dict[str, str]:
    tokens: dict[str, str] = {}
    for text in given:
        named = _NAMED.fullmatch(text)
        name, secret = (named[1] or named[3], named[2] or named[4]) if named else ("", text)
        if name in tokens:
            raise InputError(f"two tokens {f'are called {name}' if name else 'have no name'}: --token NAME=SECRET")
        tokens[name] = secret
    return tokens


def _data_directory() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "chainofcode"
