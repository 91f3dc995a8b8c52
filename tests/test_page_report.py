"""The page of `coc report` in Chromium: charts without overlap, links to runs, both themes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from browsing import Seen
from test_evals import coc, suite

METHODS = ("coc", "coc-python", "coc-lm", "cot", "direct", "react")
TASKS = ("boolean_expressions", "tracking_shuffled_objects_seven_objects", "salient_translation_error_detection")
# Pairs of texts that cover each other, and texts outside the picture or left of its axis at 0.
OVERLAPS = """[...document.querySelectorAll('text')].flatMap((one, place, all) => {
    const [a, page] = [one.getBoundingClientRect(), document.documentElement.getBoundingClientRect()];
    const outside = a.left < -1 || a.right > page.right + 1 || a.top < -1 || a.bottom > page.bottom + 1;
    const covered = all.slice(place + 1).filter(other => { const b = other.getBoundingClientRect();
        return a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3; });
    return [...covered.map(other => [one.textContent, other.textContent]), ...(outside ? [[one.textContent]] : [])];
})"""


def results(path: Path) -> None:
    """Results of several methods whose accuracies and costs are close together."""
    lines = []
    for place, method in enumerate(METHODS):
        for task in TASKS:
            for n in range(10):
                row = {"id": f"{task}-{n}", "verdict": "right" if n < 8 else "wrong", "answer": "7", "targets": ["7"]}
                cost = {"prompt_tokens": 1000 + 20 * place, "seconds": 2.0 + place / 10}
                lines.append(json.dumps({**row, **cost, "reason": "answered", "task": task, "method": method}))
    path.mkdir()
    (path / "results.jsonl").write_text("\n".join(lines) + "\n")


def test_chart_labels_do_not_overlap(seen: Seen, tmp_path: Path) -> None:
    results(tmp_path / "out")
    assert coc("report", tmp_path / "out").returncode == 0
    charts = sorted((tmp_path / "out").glob("*.svg"))
    assert [chart.name for chart in charts] == ["seconds.svg", "tasks.svg", "tokens.svg"]
    for chart in charts:
        seen.page.goto(chart.as_uri())
        assert seen.page.evaluate(OVERLAPS) == [], chart.name
        numbers = "[...document.querySelectorAll('text')].map(e => e.textContent).filter(t => t.startsWith('-'))"
        assert seen.page.evaluate(numbers) == [], "an axis starts at 0"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_report_links_to_runs_and_back(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    questions, script = suite(tmp_path, 3)
    out = tmp_path / "out"
    coc("eval", questions, "--model", f"scripted:{script}", "--out", out, "--methods", "coc,direct")
    coc("report", out)
    seen = Seen(browser, viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True)
    seen.page.add_init_script(next(Path(axe.__file__).parent.rglob("axe.min.js")).read_text(encoding="utf-8"))
    fits = "document.documentElement.scrollWidth <= innerWidth"
    violations = "axe.run(document).then(found => found.violations.map(one => [one.id, one.nodes[0].html]))"
    seen.page.goto((out / "report.html").as_uri())
    seen.page.click("details summary")
    assert seen.page.evaluate(fits) and seen.page.evaluate(violations) == []
    loaded = "[...document.images].every(image => image.complete && image.naturalWidth > 0 && image.alt)"
    assert seen.page.evaluate(loaded) and seen.page.locator("img").count()
    seen.page.locator("tr", has_text="coc").locator("a").first.click()
    seen.shows("body", "What is question", "answer = sum(range(", "Verdict")
    assert seen.page.evaluate(fits) and seen.page.evaluate(violations) == []
    seen.page.get_by_text("All results").click()
    seen.shows("h1", "Evaluation")
    assert seen.complaints == []
    seen.context.close()
