"""Draw a run as a terminal in SVG: `python docs/make_picture.py` writes docs/run.svg.

The picture is made from a real run of examples/fruit.py. `--check` compares instead of writing.
"""

from __future__ import annotations

import re
import sys
from html import escape
from pathlib import Path

from chainofcode import Table, run
from chainofcode.render import Page, for_terminal

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "run.svg"
COMMAND = "coc run examples/fruit.py --values examples/fruit.jsonl"
_WIDTH = 92  # columns
_COLUMN, _LINE, _MARGIN, _BAR = 8.0, 20, 20, 36  # pixels
_COLOURS = {"": "#d6deeb", "36": "#61afef", "35": "#d19aff", "33": "#e5c07b", "2": "#7f8c98", "1": "#ffffff"}
_CODE = re.compile(r"\x1b\[(\d+)m")


def lines() -> list[str]:
    """Return the command and its output, with ANSI colours and without the time, which varies from run to run."""
    table = Table.read(ROOT / "examples" / "fruit.jsonl")
    trace = run((ROOT / "examples" / "fruit.py").read_text(encoding="utf-8"), table).trace
    page = [for_terminal(line, True) for line in Page(_WIDTH, colour=True).trace(trace)]
    return [f"\x1b[2m$\x1b[0m {COMMAND}", *(re.sub(r" · [\d.]+ s", "", line) for line in page)]


def segments(line: str) -> list[tuple[int, str, str]]:
    """Return the parts of a line: column, colour code, text."""
    parts = _CODE.split(line)
    found, column, code = [], 0, ""
    for number, part in enumerate(parts):
        if number % 2:
            code = "" if part == "0" else part
            continue
        found += [(column + words.start(), code, words[0]) for words in re.finditer(r"\S+(?: \S+)*", part)]
        column += len(part)
    return found


def drawn(shown: list[str]) -> str:
    width, height = 2 * _MARGIN + _WIDTH * _COLUMN, _BAR + _MARGIN + len(shown) * _LINE
    rows = []
    for number, line in enumerate(shown):
        y = _BAR + _MARGIN + number * _LINE
        for column, code, text in segments(line):
            x, length = _MARGIN + column * _COLUMN, len(text) * _COLUMN
            weight = ' font-weight="bold"' if code == "1" else ""
            rows.append(
                f'<text x="{x:g}" y="{y}" textLength="{length:g}" fill="{_COLOURS[code]}"{weight}>{escape(text)}</text>'
            )
    lights = ("#ff5f56", "#ffbd2e", "#27c93f")
    dots = [f'<circle cx="{20 + 18 * n}" cy="18" r="6" fill="{colour}"/>' for n, colour in enumerate(lights)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" '
            f'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13" '
            f'role="img" aria-label="{escape(COMMAND)}: Python runs each line, the model answers is_fruit">',
            '<rect width="100%" height="100%" rx="8" fill="#1b2330"/>',
            *dots,
            *rows,
            "</svg>\n",
        ]
    )


def main() -> None:
    picture = drawn(lines())
    if "--check" not in sys.argv:
        PICTURE.write_text(picture, encoding="utf-8")
    elif PICTURE.read_text(encoding="utf-8") != picture:
        sys.exit("docs/run.svg is out of date: run python docs/make_picture.py")


if __name__ == "__main__":
    main()
