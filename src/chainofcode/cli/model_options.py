"""The options that say which model is asked, and the model they say. Shared by all commands that ask one."""

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
from .commands.models import Bar

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
    parser.add_argument(
        "--budget",
        metavar="WHICH=N",
        action="append",
        default=[],
        help="what models may use in all: tokens=100000, money=0.50 (dollars)",
    )

    parser.add_argument(
        "--rows",
        metavar="N",
        type=int,
        help="how many calls of one function may travel in one prompt (1, and what the embedded model is good for)",
    )


@contextmanager
def chosen_model(given: argparse.Namespace, progress: Progress | None = None) -> Iterator[LM]:
    """The model, closed afterwards; says which it is where nobody named one."""
    budget = read_budget(given.budget)
    if given.rows is not None and not 1 <= given.rows <= _MAX_ROWS:
        raise InputError(f"--rows takes 1 to {_MAX_ROWS}, not {given.rows}")
    name, why = (given.model, "") if given.model else default_model()
    if why and not getattr(given, "quiet", False):
        print(f"coc: asking {name} ({why})", file=sys.stderr)
    label = name.partition(":")[2]
    if name.startswith("local:") and label in MODELS and not MODELS[label].is_here:
        if importlib.util.find_spec("xllamacpp") is None:  # better known before a download than after it
            raise InputError("the embedded model needs the extra `local`: pip install 'chainofcode[local]'")
        _may_download(label, given.yes)
    lm = connect(name, base_url=given.base_url, api_key=given.api_key, progress=progress or Bar(label))
    try:
        chosen: LM = Budgeted(lm, **budget) if budget else lm
        yield Batched(chosen, given.rows) if given.rows else chosen
    finally:
        lm.close()


@contextmanager
def named_model(given: argparse.Namespace) -> Iterator[LM | None]:
    """The model, where one is named: a program runs without, too."""
    read_budget(given.budget)  # a mistake is one without a model, too
    if not given.model:
        yield None
        return
    with chosen_model(given) as lm:
        yield lm


def reached(given: argparse.Namespace, lm: LM) -> tuple[str | None, str | None]:
    """Key and address of the model's endpoint, as told or as the environment here says: other machines have theirs."""
    provider = lm.name.partition(":")[0].upper()
    told = os.environ if provider in ("OPENAI", "ANTHROPIC") else {}
    return (
        given.api_key or told.get(f"{provider}_API_KEY") or None,
        given.base_url or told.get(f"{provider}_BASE_URL") or None,
    )


def _may_download(model: str, is_agreed: bool) -> None:
    size = f"{MODELS[model].bytes / 1e9:.1f} GB"
    if is_agreed or not (sys.stdin.isatty() and sys.stderr.isatty()):
        print(f"coc: downloading {model}, {size}, once", file=sys.stderr)
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
