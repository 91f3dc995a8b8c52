"""Options of commands that run a given program or query: where the values of its calls come from."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..emulator import Answering, Delayed, Emulator, First, Table, as_emulator
from .live import LiveDisplay
from .model_options import add_cache, add_emulator, add_model, chosen_cache, chosen_emulator, chosen_layer
from .parser import option_group
from .query_options import add_database


def add_values(parser: argparse.ArgumentParser) -> None:
    options = option_group(parser, "Program options")
    options.add_argument(
        "--values",
        metavar="FILE",
        type=Path,
        help='known values, one per line: {"call": "is_fruit(\'apple\')", "value": true}',
    )


def known_values(given: argparse.Namespace) -> Table:
    return Table.read(given.values) if given.values else Table([])


def add_value_sources(parser: argparse.ArgumentParser) -> None:
    add_values(parser)
    add_model(parser, default="none: all values come from --values")
    add_emulator(parser)
    add_cache(parser)
    add_database(parser)


@contextmanager
def chosen_answering(given: argparse.Namespace, live: LiveDisplay | None = None) -> Iterator[Answering]:
    """The models that answer calls, behind the cache and the user of --ask-me. `live` shows what they do."""
    opened = chosen_emulator(given) if live is None else chosen_emulator(given, live.progress, live.watch)
    with chosen_cache(given) as cache, opened as answering:
        layer = chosen_layer(given, cache) if live is None else chosen_layer(given, cache, live.paused)
        yield answering if layer is None else layer.emulator(answering)


def first_known(table: Table, answering: Answering, delay: float = 0.0) -> Emulator:
    """Return an emulator that answers calls with known values, after `delay` seconds, and other calls with models."""
    known = Delayed(table.fresh(), delay) if delay else table.fresh()
    return known if answering is None else First(known, as_emulator(answering))
