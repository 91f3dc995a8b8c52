"""Options that choose a model, and the model that they choose."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import InputError
from ..lm import LM, connect
from ..lm.choose import default_model
from ..lm.weights import MODELS, Progress
from ..lm.wrappers import Batched, Budgeted
from .parser import add_list, check_range
from .progress import ProgressBar
from .terminal import note

_MAX_ROWS = 64
BUDGETS = {"tokens": "tokens", "money": "dollars"}


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        metavar="PROVIDER:MODEL",
        help="openai:…, anthropic:…, ollama:…, local:… or scripted:FILE; without it: the key in the environment, a "
        "running Ollama, else the embedded model",
    )
    parser.add_argument("--base-url", metavar="URL", help="where an OpenAI-compatible or Anthropic endpoint is")
    parser.add_argument("--api-key", metavar="KEY", help="its key; better in OPENAI_API_KEY or ANTHROPIC_API_KEY")
    parser.add_argument("--yes", action="store_true", help="download the embedded model's weights without asking")
    add_list(parser, "--budget", "WHICH=N", "what models may use in all: tokens=100000, money=0.50 (dollars)")
    parser.add_argument(
        "--rows",
        metavar="N",
        type=int,
        help="how many calls of one function may travel in one prompt (1, and what the embedded model is good for)",
    )


@contextmanager
def chosen_model(given: argparse.Namespace, progress: Progress | None = None) -> Iterator[LM]:
    """The chosen model, closed at the end. A default model is named on standard error."""
    budget = read_budget(given.budget)
    check_range(given, "rows", 1, _MAX_ROWS)
    name = given.model or announced_default(is_quiet=getattr(given, "quiet", False))
    provider, _, label = name.partition(":")
    if provider == "local" and label in MODELS and not MODELS[label].is_here:
        if importlib.util.find_spec("xllamacpp") is None:  # checked before the download
            raise InputError("the embedded model needs the extra `local`: pip install 'chainofcode[local]'")
        _confirm_download(label, is_agreed=given.yes)
    lm = connect(name, base_url=given.base_url, api_key=given.api_key, progress=progress or ProgressBar(label))
    try:
        chosen: LM = Budgeted(lm, **budget) if budget else lm
        yield Batched(chosen, given.rows) if given.rows else chosen
    finally:
        lm.close()


@contextmanager
def named_model(given: argparse.Namespace) -> Iterator[LM | None]:
    """The model that --model names, if any."""
    read_budget(given.budget)  # checked in any case
    if not given.model:
        yield None
        return
    with chosen_model(given) as lm:
        yield lm


def announced_default(*, is_quiet: bool = False) -> str:
    """The name of the default model; it is announced on standard error."""
    name, why = default_model()
    if not is_quiet:
        note(f"asking {name} ({why})")
    return name


def endpoint_of(given: argparse.Namespace, lm: LM) -> tuple[str | None, str | None]:
    """Key and address of the model's endpoint, from the options or the environment of this machine."""
    provider = lm.name.partition(":")[0].upper()
    environment = os.environ if provider in ("OPENAI", "ANTHROPIC") else {}
    return (
        given.api_key or environment.get(f"{provider}_API_KEY") or None,
        given.base_url or environment.get(f"{provider}_BASE_URL") or None,
    )


def _confirm_download(model: str, *, is_agreed: bool) -> None:
    size = f"{MODELS[model].bytes / 1e9:.1f} GB"
    if is_agreed or not (sys.stdin.isatty() and sys.stderr.isatty()):
        note(f"downloading {model}, {size}, once")
        return
    print(f"coc: {model} must be downloaded once, {size}. Go on? [Y/n] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("", "y", "yes"):
        raise InputError("nothing was downloaded; --model names another model, coc models lists what there is")


def read_budget(given: list[str]) -> dict[str, Any]:
    budget: dict[str, Any] = {}
    for text in given:
        which, _, number = text.partition("=")
        try:
            budget[BUDGETS[which]] = float(number)
            if not float(number) > 0:
                raise ValueError
        except (KeyError, ValueError):
            raise InputError(f"--budget takes tokens=N or money=N, not {text!r}") from None
    return budget
