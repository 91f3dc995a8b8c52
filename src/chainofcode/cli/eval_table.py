"""The table that `coc eval` prints: counts by method, means over tasks, and what went wrong."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ..evals import Score
from ..evals.report import Cell, Summary, faithfulness, shown
from ..lm import Usage
from ..reasons import Reason
from ..render import count, cut, fit, plain
from .terminal import print_line, print_lines

_COLUMNS = ("samples", "right", "wrong", "no answer", "unread", "calls", "retries")
_FIELDS = {"no answer": "no_answer", "unread": "not_extracted"}
_MAX_REMARKS = 50


def totals(scores: list[Score]) -> dict[str, Any]:
    """Count the scores of one method."""
    cell, n = Cell.of(scores), max(len(scores), 1)
    repaired = [score for score in scores if score.repairs]
    return {
        "samples": len(scores),
        **{verdict: sum(score.verdict == verdict for score in scores) for verdict in ("right", "wrong")},
        "no_answer": cell.no_answer,
        "not_extracted": cell.not_extracted,
        "calls": sum(score.calls for score in scores),
        "retries": sum(score.retries for score in scores),
        "repairs": sum(score.repairs for score in scores),
        "repaired": len(repaired),
        "repaired_right": sum(score.verdict == "right" for score in repaired),
        "format_failures": sum(score.reason == "emulation failed" for score in scores),
        "standard_error": round(cell.error, 2),
        "seconds": round(sum(score.seconds for score in scores), 1),
        "tokens_per_sample": round(sum(score.tokens for score in scores) / n, 1),
        "cached_tokens_per_sample": round(sum(score.cached_tokens for score in scores) / n, 1),
        "dollars": dollars(scores),
        "usage": {model: msgspec.to_builtins(used) for model, used in usage_by_model(scores).items()},
        "faithful": faithfulness(scores),
    }


def dollars(scores: list[Score]) -> float | None:
    """Return the cost of the samples in dollars; None if a price is unknown."""
    known = [score.dollars for score in scores if score.dollars is not None]
    return round(sum(known), 6) if len(known) == len(scores) else None


def usage_by_model(scores: list[Score]) -> dict[str, Usage]:
    """Return the requests, tokens and cost of each model."""
    used: dict[str, Usage] = {}
    for score in scores:
        for model, usage in score.usage.items():
            used[model] = used.get(model, Usage()) + usage
    return used


def by_method(scores: list[Score]) -> dict[str, list[Score]]:
    return _grouped(scores, "method")


def _grouped(scores: list[Score], key: str) -> dict[str, list[Score]]:
    names = dict.fromkeys(getattr(score, key) for score in scores)
    return {name: [score for score in scores if getattr(score, key) == name] for name in names if name}


def print_table(suite: str, model: str, scores: list[Score]) -> None:
    """Print the counts, the means over tasks where there are several, and a line for each sample that went wrong."""
    groups, samples = by_method(scores), len({score.id for score in scores})
    has_methods = len(groups) > 1
    summary = f"{len(groups)} methods on {samples} samples"
    if not has_methods:
        groups = {"all": scores, **_grouped(scores, "kind"), **_grouped(scores, "split")}
        summary = f"{totals(scores)['right']} of {len(scores)} right"
    width = max(12, *(len(name) + 2 for name in groups))
    columns = _columns(scores)
    print_lines([f"{suite} with {model}: {summary}", ""])
    print_line(" " * width + "".join(f"{name:>11}" for name in columns))
    for name, group in groups.items():
        cells = _cells(group)
        print_line(fit(plain(name), width) + "".join(f"{cells[column]:>11}" for column in columns))
    _print_models(scores, width)
    _print_means(scores, width)
    _print_remarks(scores, width + 8, has_methods=has_methods)


def _columns(scores: list[Score]) -> list[str]:
    """The columns; those for repairs, tokens and faithfulness only if there are any."""
    columns = [*_COLUMNS]
    if any(score.repairs for score in scores):
        columns += ["repairs", "then right"]
    if any(score.tokens for score in scores):
        columns.append("tokens")
    if any(score.dollars for score in scores):
        columns.append("cost")
    columns.append("s/sample")
    return [*columns, "faithful"] if any(score.faithful is not None for score in scores) else columns


def _cells(scores: list[Score]) -> dict[str, str]:
    """The cells of a row by column. `then right` are the samples that had a repair and ended right."""
    counted = totals(scores)
    faithful = counted["faithful"]
    return {
        **{column: str(counted[_FIELDS.get(column, column)]) for column in (*_COLUMNS, "repairs")},
        "then right": f"{counted['repaired_right']} of {counted['repaired']}",
        "tokens": f"{counted['tokens_per_sample']:.0f}",
        "cost": "?" if counted["dollars"] is None else f"${counted['dollars']:.4f}",
        "s/sample": f"{counted['seconds'] / max(len(scores), 1):.1f}",
        "faithful": "–" if faithful is None else str(faithful),
    }


def _print_models(scores: list[Score], width: int) -> None:
    """Print the requests, tokens and cost of each model, if there are several models."""
    used = usage_by_model(scores)
    if len(used) < 2:
        return
    width = max(width, *(len(name) + 2 for name in used))
    print_lines(["", " " * width + f"{'requests':>11}{'tokens':>11}{'cost':>11}"])
    for model, usage in used.items():
        cost = "?" if usage.dollars is None else f"${usage.dollars:.4f}"
        tokens = usage.prompt_tokens + usage.completion_tokens
        print_line(f"{fit(plain(model), width)}{usage.requests:>11}{tokens:>11}{cost:>11}")


def _print_means(scores: list[Score], width: int) -> None:
    """Print means over tasks with their standard errors, and the share of samples without an answer."""
    summary = Summary(scores)
    averages = summary.averages()[:3]  # all, NLP, algorithmic; the report has more
    if not averages:
        return
    heads = [row.name for row in averages]
    width = max(width, *(len(method) + 2 for method in summary.methods))
    print_lines(["", f"{count(len(summary.tasks), 'task')}, per cent ± standard error", ""])
    print_line(" " * width + "".join(f"{name:>24}" for name in (*heads, "without an answer")))
    for method in summary.methods:
        cells = [shown(row.measured[method]) for row in averages]
        cells.append(f"{summary.unanswered(method):.1f}")
        print_line(fit(plain(method), width) + "".join(f"{cell:>24}" for cell in cells))


def _print_remarks(scores: list[Score], width: int, *, has_methods: bool) -> None:
    """Print the answers and targets of samples that were not right, or that needed retries."""
    remarked = [score for score in scores if score.was_run and (score.verdict != "right" or score.retries)]
    for score in remarked[:_MAX_REMARKS]:
        _print_remark(score, f"{score.method} {score.id}" if has_methods else score.id, width)
    if len(remarked) > _MAX_REMARKS:
        print_line(
            f"{len(remarked) - _MAX_REMARKS} more: --json prints all, coc report writes a page with a link to each run"
        )


def _print_remark(score: Score, name: str, width: int) -> None:
    outcome = score.answer if score.reason == Reason.ANSWERED else f"{score.reason}: {score.error}"
    remark = cut(plain(outcome), 160)
    if score.targets and score.verdict != "right":
        remark += plain(f" (wanted {json.dumps(score.targets[0])})")
    if score.retries:
        remark += f" [{score.retries} retried]"
    print_line(f"{fit(plain(name), width)}{score.verdict}: {remark}")
