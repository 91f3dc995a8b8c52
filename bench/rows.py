"""Several calls in one prompt, with a model that handles one request at a time: values per second, and right values.

    python bench/rows.py                          the default embedded model, downloaded if missing
    python bench/rows.py --model local:PATH.gguf --rows 4 8

The same 40 calls with known values, one per prompt and then several per prompt.
Exits 1 if no number of rows is 1.5 times as fast with at least as many right values.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from chainofcode import LM, Jail, connect, run
from chainofcode.emulator import Asking, Rows
from chainofcode.evals import is_same
from chainofcode.lm.choose import default_model

REVIEWS = {
    "The soup was cold and the waiter rude.": False,
    "Best pizza in town, we will come back!": True,
    "I waited an hour for a burnt steak.": False,
    "Lovely room, kind staff, perfect breakfast.": True,
    "The phone broke after two days. Waste of money.": False,
    "My kids adore this game, we play it every evening.": True,
    "Never again: dirty sheets and loud neighbours.": False,
    "A wonderful book, I could not put it down.": True,
}
CALLS: dict[str, dict[str, Any]] = {
    "is_fruit": {
        "apple": True,
        "hammer": False,
        "kiwi": True,
        "saw": False,
        "pear": True,
        "lamp": False,
        "plum": True,
        "chair": False,
    },
    "capital_of": {
        "France": "Paris",
        "Japan": "Tokyo",
        "Egypt": "Cairo",
        "Italy": "Rome",
        "Spain": "Madrid",
        "Peru": "Lima",
        "Norway": "Oslo",
        "Greece": "Athens",
    },
    "can_fly": {
        "eagle": True,
        "pig": False,
        "bat": True,
        "stone": False,
        "sparrow": True,
        "shark": False,
        "bee": True,
        "cow": False,
    },
    "number_of_legs": {"dog": 4, "spider": 8, "hen": 2, "snake": 0, "ant": 6, "horse": 4, "human": 2, "fish": 0},
    "is_positive_review": REVIEWS,
}


def program(name: str, items: dict[str, Any]) -> str:
    lines = [f"items = {list(items)!r}", "values = []", "for item in items:"]
    if name.startswith(("is_", "can_")):
        lines += [f"    if {name}(item):", "        values.append(True)", "    else:", "        values.append(False)"]
    else:
        value = "int(value)" if name == "number_of_legs" else "value"
        lines += [f"    value = {name}(item)", f"    values.append({value})"]
    return "\n".join([*lines, "answer = values"])


def measured(lm: LM, rows: int, sandbox: Any) -> tuple[float, int, list[str]]:
    """Return the seconds, the number of right values, and the wrong values."""
    seconds, right, wrong = 0.0, 0, []
    for name, items in CALLS.items():
        began = time.perf_counter()
        result = run(program(name, items), Rows(lm, rows) if rows > 1 else Asking(lm), sandbox=sandbox)
        seconds += time.perf_counter() - began
        given = result.answer if isinstance(result.answer, list) else [None] * len(items)
        for (item, wanted), value in zip(items.items(), given, strict=True):
            right += is_same(value, wanted)
            wrong += [] if is_same(value, wanted) else [f"{name}({item!r}) → {value!r}"]
    return seconds, right, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="default: the embedded one")
    parser.add_argument("--rows", type=int, nargs="+", default=[4, 8])
    given = parser.parse_args()
    lm = connect(given.model or default_model()[0])
    sandbox, is_met, alone = Jail(spares=1), False, (0.0, 0)
    measured(lm, 1, sandbox)  # evaluates the instructions, which are then cached
    count = sum(map(len, CALLS.values()))
    for rows in (1, *given.rows):
        seconds, right, wrong = measured(lm, rows, sandbox)
        alone = (seconds, right) if rows == 1 else alone
        is_met = is_met or (rows > 1 and alone[0] / seconds >= 1.5 and right >= alone[1])
        faster = f"   {alone[0] / seconds:.2f} x" if rows > 1 else ""
        print(f"{rows} per prompt: {count / seconds:5.2f} values/s{faster}   {right} of {count} right", flush=True)
        for one in wrong:
            print(f"    {one}")
    sandbox.close()
    return int(not is_met)


if __name__ == "__main__":
    sys.exit(main())
