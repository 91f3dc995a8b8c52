"""`coc serve`: serves runs over HTTP."""

from __future__ import annotations

import argparse
import os
import re
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...sandbox import TIERS
from ...server import serve, serve_guests
from ...server.settings import ServerSettings
from ..model_options import announced_default, read_budget
from ..parser import add_list, check_range, option_group
from ..run_options import add_limits, add_packages, read_limits, read_packages
from ..terminal import ANSWERED

# NAME=SECRET. A long text before the `=` is a secret itself: base64 ends in `=`.
_NAMED = re.compile(r"([A-Za-z][\w.-]{0,31})=(.{16,})|([A-Za-z][\w.-]{0,14})=([^=].*)", re.S)


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "serve",
        help="start an HTTP server: a web page, a native API, OpenAI's protocols, MCP",
        description="Serve until SIGTERM or Ctrl-C; active runs may then finish for --drain seconds. Acknowledged runs "
        "survive a restart.",
        examples=(
            "coc serve --model ollama:llama3.2",
            "coc serve --model openai:gpt-4o-mini --port 8000 --runs 8",
        ),
    )
    add_list(parser, "--model", "PROVIDER:MODEL", "a model that clients may use; the first one is the default")
    parser.add_argument(
        "--host",
        metavar="HOST",
        default="127.0.0.1",
        help="the address to listen on (127.0.0.1); any other needs a token",
    )
    parser.add_argument("--port", metavar="N", type=int, default=8321, help="the port (8321); 0 chooses a free one")
    parser.add_argument(
        "--drain",
        metavar="S",
        type=float,
        default=30.0,
        help="give active runs S seconds to finish before the server stops (30)",
    )
    _add_access(parser.add_argument_group("Access options"))
    _add_quotas(parser.add_argument_group("Quota options"))
    _add_storage(parser.add_argument_group("Storage options"))
    _add_monitoring(parser.add_argument_group("Monitoring options"))
    _add_placement(parser.add_argument_group("Placement options"))
    add_packages(parser)
    _add_sandbox(option_group(parser, "Sandbox options"))
    add_limits(parser)
    parser.set_defaults(command=_serve)


def _add_access(options: argparse._ArgumentGroup) -> None:
    add_list(
        options,
        "--token",
        "[NAME=]SECRET",
        "a token for clients, of 16 characters or more; each name has its own runs and budget; prefer setting "
        "COC_TOKEN, or adding it with coc tokens",
    )
    add_list(options, "--allow-host", "NAME", "accept requests for another host name")
    add_list(options, "--allow-origin", "ORIGIN", "accept requests from pages of this origin: https://…")
    add_list(
        options, "--proxy", "ADDRESS", "trust the X-Forwarded-* headers of a proxy: an address, or a network 10.0.0.0/8"
    )
    options.add_argument(
        "--user-header",
        metavar="NAME",
        default="",
        help="the header in which the --proxy sends the name of the signed-in user, such as X-Forwarded-Email",
    )


def _add_quotas(options: argparse._ArgumentGroup) -> None:
    add_list(options, "--budget", "WHICH=N", "what each token may use per day: tokens=100000, money=0.50 (dollars)")
    options.add_argument("--runs", metavar="N", type=int, default=64, help="allow N active runs (64)")
    options.add_argument("--queue", metavar="N", type=int, default=1024, help="allow N waiting runs (1024)")
    options.add_argument(
        "--requests", metavar="N", type=int, default=256, help="send at most N requests to a model at once (256)"
    )
    options.add_argument(
        "--rate",
        metavar="N",
        type=int,
        default=6000,
        help="accept N requests per minute from a token or address (6000)",
    )


def _add_storage(options: argparse._ArgumentGroup) -> None:
    add_data(options)
    options.add_argument(
        "--store",
        metavar="URL",
        default="",
        help="share runs with other servers in PostgreSQL: postgresql://USER@HOST/DATABASE; prefer setting COC_STORE; "
        "--data then has only copies",
    )
    options.add_argument(
        "--objects",
        metavar="PLACE",
        default="",
        help="where servers that share a --store keep files: a directory that all of them mount, or s3://BUCKET/PREFIX",
    )
    options.add_argument(
        "--keep",
        metavar="DAYS",
        type=float,
        help="delete finished runs, and uploads that no run uses, after DAYS days (never)",
    )
    options.add_argument(
        "--resume",
        action="store_true",
        help="continue interrupted runs at startup, reusing recorded values: nothing is paid for twice",
    )


def _add_monitoring(options: argparse._ArgumentGroup) -> None:
    options.add_argument("--log", choices=["text", "json"], default="text", help="the format of log lines (text)")
    options.add_argument("--log-content", action="store_true", help="log questions and answers, too")
    options.add_argument("--otel", action="store_true", help="send OpenTelemetry spans (OTEL_EXPORTER_OTLP_ENDPOINT)")
    options.add_argument(
        "--admin-port", metavar="N", type=int, help="a port for /healthz, /readyz and /metrics without a token"
    )
    options.add_argument(
        "--admin-host", metavar="HOST", default="127.0.0.1", help="the address of the --admin-port (127.0.0.1)"
    )


def _add_placement(options: argparse._ArgumentGroup) -> None:
    options.add_argument(
        "--engine",
        choices=["local", "ray"],
        default="local",
        help="where programs run: on this machine, or on the workers of a Ray cluster (local)",
    )
    options.add_argument(
        "--ray-address", metavar="WHERE", help="the Ray cluster: HOST:PORT, or auto for the one on this machine (auto)"
    )
    options.add_argument(
        "--sandbox-only",
        action="store_true",
        help="only run programs, for clients that use --sandbox URL: no models, no API, no page",
    )


def _add_sandbox(options: argparse._ArgumentGroup) -> None:
    options.add_argument(
        "--scratch", action="store_true", help="let programs write files, and keep the files; needs tier A"
    )
    options.add_argument(
        "--sandbox-at-least",
        metavar="TIER",
        default="",
        help=f"refuse to run in a lower tier than this: {', '.join(TIERS)} (see coc doctor)",
    )


def _serve(given: argparse.Namespace) -> int:
    store = given.store or os.environ.get("COC_STORE", "")
    if given.sandbox_only:
        _check_sandbox_only(given, store)
    models = tuple(dict.fromkeys(given.model))
    if not given.sandbox_only:
        models = models or (announced_default(),)
    for option in ("port", "admin-port"):
        check_range(given, option, 0, 65535)
    _check_engine(given)
    settings = ServerSettings(
        data=given.data or data_directory(),
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
        sandbox_at_least=given.sandbox_at_least,
        engine=given.engine,
        ray_address=given.ray_address or "auto",
        log=given.log,
        logs_content=given.log_content,
        has_spans=given.otel,
        resumes=given.resume,
        proxies=tuple(given.proxy),
        user_header=given.user_header,
        admin_host=given.admin_host,
        admin_port=given.admin_port,
        store=store,
        objects=given.objects,
    )
    (serve_guests if given.sandbox_only else serve)(settings)
    return ANSWERED


def _check_sandbox_only(given: argparse.Namespace, store: str) -> None:
    """Raise InputError for options that this server ignores: it would be open if its tokens were in a database."""
    if given.model:
        raise InputError("--sandbox-only serves no models: leave out --model")
    if store or given.objects:
        raise InputError("--sandbox-only uses no database, not even for tokens: leave out --store and COC_STORE")
    if given.user_header or given.engine == "ray":
        raise InputError("--sandbox-only cannot be combined with --user-header or --engine ray")


def _check_engine(given: argparse.Namespace) -> None:
    """Raise InputError for options that belong to another engine, and for secrets that Ray would list with its jobs."""
    if given.engine == "local":
        if given.ray_address:
            raise InputError("--ray-address needs --engine ray")
        return
    if given.token:
        raise InputError("Ray records the command line of this server: set COC_TOKEN instead of --token")
    if urllib.parse.urlsplit(given.store).password or "password=" in given.store:
        raise InputError("Ray records the command line of this server: set COC_STORE instead of --store")


def _tokens(given: Sequence[str]) -> dict[str, str]:
    tokens: dict[str, str] = {}
    for text in given:
        named = _NAMED.fullmatch(text)
        name, secret = (named[1] or named[3], named[2] or named[4]) if named else ("", text)
        if name in tokens:
            same = f"are called {name}" if name else "have no name"
            raise InputError(f"two tokens {same}: use --token NAME=SECRET")
        tokens[name] = secret
    return tokens


def add_data(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--data", metavar="DIR", type=Path, help="the directory for runs (~/.local/share/chainofcode)")


def data_directory() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "chainofcode"
