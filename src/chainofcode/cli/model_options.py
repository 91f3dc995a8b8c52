"""Options that choose a model, and the model that they choose."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from ..emulator import Answering, Cascade, Judging
from ..emulator.cascade import THRESHOLD
from ..emulator.person import AskMe, Question
from ..emulator.value_cache import Layer, ValueCache
from ..errors import InputError
from ..lm import LM, connect
from ..lm.choose import default_model
from ..lm.providers import resolved
from ..lm.weights import MODELS, Progress
from ..lm.wrappers import Batched, Budget, Budgeted
from .parser import add_list, check_range, option_group
from .progress import ProgressBar
from .terminal import ask_in_terminal, note, write_question

_MAX_ROWS = 64
BUDGETS = {"tokens": "tokens", "money": "dollars"}
_DEFAULT = "COC_MODEL, a provider whose API key is set, a running Ollama, or the embedded model"


def add_model(parser: argparse.ArgumentParser, *, default: str = _DEFAULT) -> None:
    """Add --model and the options for it; `default` describes the model of this command without --model."""
    options = option_group(parser, "Model options")
    options.add_argument(
        "--model",
        metavar="PROVIDER:MODEL",
        help="openai:…, anthropic:…, gemini:…, ollama:…, local:… or scripted:FILE; local alone is the embedded model "
        f"(default: {default})",
    )
    options.add_argument("--base-url", metavar="URL", help="the URL of an OpenAI-compatible or Anthropic endpoint")
    options.add_argument(
        "--api-key",
        metavar="KEY",
        help="the API key; prefer setting OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY",
    )
    options.add_argument("--yes", action="store_true", help="download the embedded model without asking")
    add_list(
        options,
        "--budget",
        "WHICH=N",
        "send no more requests once this much is used: tokens=100000, money=0.50 (dollars)",
    )
    options.add_argument(
        "--rows",
        metavar="N",
        type=int,
        help="put up to N calls of one function into one prompt (1; the embedded model: 4)",
    )
    options.add_argument(
        "--effort",
        metavar="LEVEL",
        help="the reasoning effort of a model with OpenAI's protocol: none, minimal, low, medium, high (default: the "
        "least possible for values, the model's own for programs)",
    )
    options.add_argument(
        "--small",
        action=argparse.BooleanOptionalAction,
        help="use the prompts for small models, which are shorter and have more examples (default: COC_SMALL, "
        "else only for local: and ollama:)",
    )
    options.add_argument(
        "--images",
        action=argparse.BooleanOptionalAction,
        help="whether calls may send images to the model (default: COC_IMAGES, else by the name of the model)",
    )


def add_cache(parser: argparse.ArgumentParser) -> None:
    options = option_group(parser, "Model options")
    options.add_argument(
        "--cache",
        metavar="DIR",
        type=Path,
        help="cache the replies of models in DIR, so that later runs do not repeat the requests",
    )


@contextmanager
def chosen_cache(given: argparse.Namespace) -> Iterator[ValueCache | None]:
    """The cache that --cache names, if any."""
    if given.cache is None:
        yield None
        return
    with ValueCache(given.cache, warn=note) as cache:
        yield cache


def add_person(parser: argparse.ArgumentParser) -> None:
    options = option_group(parser, "Model options")
    options.add_argument(
        "--ask-me",
        metavar="PATTERN",
        help="answer calls of functions whose names match PATTERN yourself, in the terminal; without a terminal, the "
        "run ends there, and coc resume continues it",
    )


def chosen_layer(
    given: argparse.Namespace,
    cache: ValueCache | None,
    screen: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Layer | None:
    """Return the layer in front of the models: the user, for calls of --ask-me, and the cache.

    `screen` is entered while the user is asked.
    """

    async def ask_user(question: Question) -> str | None:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return None
        with screen():
            return await ask_in_terminal(str(question))

    return cache if given.ask_me is None else AskMe(given.ask_me, ask_user, cache)


def add_emulator(parser: argparse.ArgumentParser) -> None:
    options = option_group(parser, "Model options")
    options.add_argument(
        "--emulator",
        metavar="NAME[,NAME…]",
        help="the model that answers the program's calls (default: that of --model); with several, the next one is "
        "used only for values that the previous one is unsure of",
    )
    options.add_argument(
        "--threshold",
        metavar="P",
        type=float,
        default=THRESHOLD,
        help=f"with several emulators: the confidence, from 0 to 1, that a value needs to be accepted ({THRESHOLD:g})",
    )


@contextmanager
def chosen_model(given: argparse.Namespace, progress: Progress | None = None) -> Iterator[LM]:
    """The chosen model, closed at the end. A default model is named on standard error."""
    budget = budget_of(given)
    with _opened(_main_name(given), given, progress, budget) as lm:
        yield lm


@contextmanager
def chosen_models(
    given: argparse.Namespace, progress: Progress | None = None, around: Callable[[LM], LM] = lambda lm: lm
) -> Iterator[tuple[LM, Answering]]:
    """The model that writes programs, and those that answer their calls (None: the same). They share the budget.

    Each model is wrapped by `around`.
    """
    budget, names = budget_of(given), emulator_names(given)
    with ExitStack() as opened:
        lm = around(opened.enter_context(_opened(_main_name(given), given, progress, budget)))
        others = [around(opened.enter_context(_opened(name, given, progress, budget))) for name in names]
        yield lm, _answering(others, given)


@contextmanager
def chosen_emulator(
    given: argparse.Namespace, progress: Progress | None = None, around: Callable[[LM], LM] = lambda lm: lm
) -> Iterator[Answering]:
    """The models that --emulator or --model names, if any, for a program that the user wrote.

    Each model is wrapped by `around`.
    """
    budget, names = budget_of(given), emulator_names(given)
    if given.model and names:
        raise InputError("models only answer the calls of your program: use --model or --emulator, not both")
    names = names or ([given.model] if given.model else [])
    with ExitStack() as opened:
        models = [around(opened.enter_context(_opened(name, given, progress, budget))) for name in names]
        yield _answering(models, given)


def _answering(models: list[LM], given: argparse.Namespace) -> Answering:
    if len(models) < 2:
        return models[0] if models else None
    votes = getattr(given, "value_votes", 1)
    cascade = Cascade(models, given.threshold, Judging(votes=votes))
    if cascade.blind:
        note(
            f"{cascade.blind} returns no log probabilities, so the next model answers all of its calls; "
            "coc ask --value-votes K estimates how sure it is"
        )
    return cascade


def emulator_names(given: argparse.Namespace) -> list[str]:
    """Return the names in --emulator. Raises InputError if they are invalid."""
    if not 0 <= given.threshold <= 1:
        raise InputError(f"--threshold must be a probability from 0 to 1, not {given.threshold:g}")
    if given.emulator is None:
        return []
    names = [name.strip() for name in given.emulator.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise InputError(
            f"--emulator must name different models, as in ollama:small,openai:large; not {given.emulator!r}"
        )
    return names


def _main_name(given: argparse.Namespace) -> str:
    return given.model or announced_default(is_quiet=getattr(given, "quiet", False))


@contextmanager
def _opened(name: str, given: argparse.Namespace, progress: Progress | None, budget: Budget | None) -> Iterator[LM]:
    check_range(given, "rows", 1, _MAX_ROWS)
    name = resolved(name)
    provider, _, label = name.partition(":")
    if provider == "local":
        _check_package(name, is_default=not (given.model or getattr(given, "emulator", None)))
        if label in MODELS and not MODELS[label].is_here:
            _confirm_download(label, is_agreed=given.yes)
    is_addressed = bool(given.base_url or given.api_key) and provider == _addressed_provider(given)
    lm = connect(
        name,
        base_url=given.base_url if is_addressed else None,
        api_key=given.api_key if is_addressed else None,
        is_small=given.small,
        has_images=given.images,
        effort=given.effort or "",
        in_flight=getattr(given, "in_flight", None),
        progress=progress or ProgressBar(label),
    )
    try:
        chosen: LM = Budgeted(lm, budget) if budget is not None else lm
        yield Batched(chosen, given.rows) if given.rows else chosen
    finally:
        lm.close()


def _check_package(name: str, *, is_default: bool) -> None:
    """Raise InputError if llama.cpp is not installed, before any download."""
    from ..lm.local import missing_package

    if missing := missing_package(name):
        others = "; for OpenAI or Ollama: 'chainofcode[openai]', for Claude: 'chainofcode[anthropic]'"
        raise InputError(missing + (others if is_default else ""))


def _addressed_provider(given: argparse.Namespace) -> str:
    """Return the provider for --base-url and --api-key: that of --model, of the first --emulator, or the default."""
    name = given.model or getattr(given, "emulator", None) or default_model()[0]
    return str(name).partition(":")[0]


@contextmanager
def named_model(given: argparse.Namespace) -> Iterator[LM | None]:
    """The model that --model names, if any."""
    budget_of(given)  # checks the option even if there is no model
    if not given.model:
        yield None
        return
    with chosen_model(given) as lm:
        yield lm


def announced_default(*, is_quiet: bool = False) -> str:
    """Return the name of the default model, and print it on standard error."""
    name, why = default_model()
    if not is_quiet:
        note(f"asking {name} ({why})")
    return name


def endpoint_of(given: argparse.Namespace, lm: LM) -> tuple[str | None, str | None]:
    """Return the key and the URL of the model's endpoint, from the options or the environment of this machine."""
    provider = lm.name.partition(":")[0].upper()
    environment = os.environ if provider in ("OPENAI", "ANTHROPIC", "GEMINI") else {}
    return (
        given.api_key or environment.get(f"{provider}_API_KEY") or None,
        given.base_url or environment.get(f"{provider}_BASE_URL") or None,
    )


def _confirm_download(model: str, *, is_agreed: bool) -> None:
    """Ask in a terminal; elsewhere the download, which starts with the first request, shows its progress."""
    if is_agreed or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    size = f"{MODELS[model].bytes / 1e9:.1f} GB"
    write_question(f"download {model} ({size}, once)? [Y/n]")
    if sys.stdin.readline().strip().lower() not in ("", "y", "yes"):
        raise InputError("nothing was downloaded; choose another model with --model ('coc models' lists them)")


def budget_of(given: argparse.Namespace) -> Budget | None:
    """The budget of all models of a command."""
    budget = read_budget(given.budget)
    return Budget(**budget) if budget else None


def read_budget(given: list[str]) -> dict[str, Any]:
    budget: dict[str, Any] = {}
    for text in given:
        which, _, number = text.partition("=")
        try:
            budget[BUDGETS[which]] = float(number)
            if not float(number) > 0:
                raise ValueError
        except (KeyError, ValueError):
            raise InputError(f"--budget must be tokens=N or money=N, not {text!r}") from None
    return budget
