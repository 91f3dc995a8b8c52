"""The cost of requests and of the package: prompt tokens that a local model evaluates again, import time, packages.

    python bench/lm.py                          the default embedded model, downloaded if missing
    python bench/lm.py --model local:PATH.gguf  another model; any endpoint that reports cached tokens works

evaluated   share of the prompt that was evaluated, median over all calls of four programs except the first call
import      `import chainofcode` in a fresh interpreter, milliseconds of CPU (other load does not count), median of five
packages    the number of packages in a base install, including this one
Exits 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, requires
from statistics import median

from chainofcode import LM, run
from chainofcode.lm import connect

PROGRAMS = {
    "judge each of a list": """
items = ["apple", "brick", "pear", "lamp", "fig", "chair", "plum", "shoe"]
fruits = []
for item in items:
    if is_fruit(item):
        fruits.append(item)
answer = len(fruits)
""",
    "count over a dict": """
zoo = {"spider": 2, "hen": 3, "cow": 1, "snake": 4, "ant": 2, "dog": 1, "bee": 5, "eagle": 2}
total = 0
for animal, count in zoo.items():
    total += legs_of(animal) * count
answer = total
""",
    "sort reviews": """
reviews = [
    "The soup was cold and the waiter rude.",
    "Best pizza in town, we will come back!",
    "It was fine, nothing special.",
    "I waited an hour for a burnt steak.",
]
tally = {"good": 0, "bad": 0, "mixed": 0}
topics = []
for review in reviews:
    tone = tone_of_review(review)
    if tone in tally:
        tally[tone] += 1
    topics.append(main_topic(review))
answer = (tally, topics)
""",
    "two kinds of questions": """
cities = ["Paris", "Cairo", "Lima", "Oslo"]
rows = []
for city in cities:
    country = country_of(city)
    rows.append((city, country, is_by_the_sea(city)))
answer = sorted(rows)
""",
}
TARGETS = {"evaluated": 0.15, "import": 200.0, "packages": 15}
TIMING = "import time; t = time.process_time(); import chainofcode; print((time.process_time() - t) * 1000)"


def evaluated_shares(lm: LM) -> list[float]:
    """Return the share of the prompt that was evaluated, for each call of each program."""
    shares = []
    for name, program in PROGRAMS.items():
        started = time.monotonic()
        result = run(program, lm)
        seconds = time.monotonic() - started
        usages = [call.usage for call in result.trace.calls if call.usage.prompt_tokens]
        own = [1 - usage.cached_tokens / usage.prompt_tokens for usage in usages]
        shares += own
        if len(own) < 2:  # a very small model may not get that far
            print(f"  {name:24} {len(own):5} {result}")
            continue
        tokens = median(usage.prompt_tokens for usage in usages)
        told = f"{own[0]:8.1%} {median(own[1:]):8.1%} {max(own[1:]):8.1%} {seconds / len(own):8.1f}"
        print(f"  {name:24} {len(own):5} {tokens:8.0f} {told}")
    return shares


def import_milliseconds() -> float:
    command = [sys.executable, "-c", TIMING]
    return median(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(5))


def packages(name: str, found: set[str]) -> set[str]:
    """Return a package and all its requirements, without extras."""
    found.add(name)
    try:
        wanted = requires(name) or []
    except PackageNotFoundError:  # a requirement of another platform
        return found
    for requirement in wanted:
        other = re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")
        if "extra ==" not in requirement and other not in found:
            packages(other, found)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="local:qwen2.5-coder-1.5b", metavar="PROVIDER:MODEL")
    lm = connect(parser.parse_args().model, progress=tell)
    print(f"{lm.name:26} calls   prompt    first   median     most   s/call")
    try:
        shares = evaluated_shares(lm)[1:]
    finally:
        close = getattr(lm, "close", None)
        if close is not None:
            close()
    brought = packages("chainofcode", set())
    measured = {"evaluated": median(shares), "import": import_milliseconds(), "packages": len(brought)}
    print(
        f"evaluated, median of {len(shares)} calls  {measured['evaluated']:.1%} (target ≤ {TARGETS['evaluated']:.0%})"
    )
    print(f"import chainofcode           {measured['import']:.0f} ms (target < {TARGETS['import']:.0f})")
    print(f"packages of a base install   {len(brought)} (target ≤ {TARGETS['packages']}): {', '.join(sorted(brought))}")
    return 1 if any(measured[name] > target for name, target in TARGETS.items()) else 0


def tell(done: int, total: int, what: str) -> None:
    """Print the stages of loading a model, and the end of a download."""
    if done >= total:
        print(f"({what})", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
