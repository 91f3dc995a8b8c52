"""`coc mcp`: an MCP server over standard input and output."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
from typing import Any

from ...errors import InputError
from ...interrupts import INTERRUPTED
from ..model_options import add_model, chosen_model
from ..run_options import add_limits, add_sandbox, chosen_sandbox, read_limits
from ..terminal import ANSWERED, NoteHandler


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "mcp",
        help="start an MCP server with the tools solve, run_program and verify",
        description="Serve MCP over standard input and output, with messages on standard error, until the input ends.",
        examples=("coc mcp --model openai:gpt-4o-mini",),
    )
    add_model(parser)
    add_sandbox(parser)
    add_limits(parser)
    parser.set_defaults(command=_serve)


def _serve(given: argparse.Namespace) -> int:
    try:
        from ...server.mcp import mcp_server  # an extra
    except ImportError:
        raise InputError("coc mcp needs the package mcp: pip install 'chainofcode[mcp]'") from None
    logging.basicConfig(handlers=[NoteHandler()], level=logging.WARNING, format="%(message)s")
    limits = read_limits(given.limit)
    # The reader of standard input cannot be interrupted; guests end with this process.
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))
    with chosen_model(given) as lm, chosen_sandbox(given, spares=1) as sandbox:
        server = mcp_server(lm, sandbox, limits=limits, audit_sandbox=given.sandbox)
        asyncio.run(server.run_stdio_async())
    return ANSWERED
