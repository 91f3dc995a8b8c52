"""What a value costs: input tokens, those that are read from a cache, and dollars, by the rules of each provider.

python bench/prefix.py CASES.jsonl    (the recorded BBH programs with calls)

No model is asked: a stand-in answers with the recorded values, and the prompts are counted, a token for four
characters. A provider caches a prefix that an earlier prompt had, from its minimum on, in its steps. Dollars are those
of the package genai-prices, for input alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chainofcode import LM, Completion, Message, run
from chainofcode.lm.anthropic import AnthropicLM
from chainofcode.lm.interface import turns
from chainofcode.lm.openai import OpenAILM
from chainofcode.lm.remote import RemoteLM
from chainofcode.lm.wrappers import Batched
from chainofcode.sandbox import Jail

CHARS_PER_TOKEN = 4
# name, the least tokens that are cached, the steps, and a model whose price counts; None: a server of one's own
Rules = tuple[str, int, int, RemoteLM | None]
PROVIDERS: list[Rules] = [
    ("openai:gpt-5-mini", 1024, 128, OpenAILM("gpt-5-mini", base_url=OpenAILM.vendor_url)),
    ("anthropic:claude-haiku-4-5", 4096, 1, AnthropicLM("claude-haiku-4-5", base_url=AnthropicLM.vendor_url)),
    ("anthropic:claude-sonnet-4-5", 1024, 1, AnthropicLM("claude-sonnet-4-5", base_url=AnthropicLM.vendor_url)),
    ("own server (vLLM…)", 1, 16, None),
]


class Recorded(LM):
    """Answers with recorded values, and keeps the prompts."""

    name, in_flight = "recorded", 16

    def __init__(self, values: dict[str, Any]) -> None:
        self._values, self.prompts, self.given = values, list[str](), 0

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        self.prompts.append("\n".join(f"{turn.role}: {turn.content}" for turn in turns(messages)))
        lines = messages[-1].content.split("\n")
        calls = [line.partition(": ")[2] for line in lines if line.startswith("call")]
        keys = ["value"] if any(line.startswith("call: ") for line in lines) else map(str, range(1, len(calls) + 1))
        self.given += len(calls)
        said = {key: self._values.get(call) for key, call in zip(keys, calls, strict=True)}
        return [Completion(json.dumps(said))]


def cost(prompts: Sequence[str], rules: Rules) -> tuple[int, int, float | None]:
    """Return the tokens of prompts, those of them that were cached, and dollars; None where the price is unknown."""
    _, least, step, lm = rules
    total = cached_total = 0
    dollars: float | None = 0.0
    for place, prompt in enumerate(prompts):
        tokens = len(prompt) // CHARS_PER_TOKEN
        shared = max((_common(prompt, other) for other in prompts[:place]), default=0) // CHARS_PER_TOKEN
        cached = shared // step * step if shared >= least else 0
        stored = tokens if not cached and tokens >= least and isinstance(lm, AnthropicLM) else 0
        price = lm.dollars(tokens, 0, cached=cached, stored=stored) if lm is not None else 0.0
        dollars = None if dollars is None or price is None else dollars + price
        total, cached_total = total + tokens, cached_total + cached
    return total, cached_total, dollars


def _common(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(other[:middle]):
            low = middle
        else:
            high = middle - 1
    return low


def main() -> None:
    records = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    records = [record for record in records if record["calls"]]
    print(f"{len(records)} programs\n{'':<28}{'rows':>5}{'requests':>10}{'values':>8}{'tokens/value':>14}"
          f"{'not cached':>12}{'$/1,000 values':>16}")  # fmt: skip
    for rows in (1, 4, 16):
        prompts, values = list[str](), 0
        with Jail() as jail:
            for record in records:
                lm = Recorded({one["call"]: one["value"] for one in record["calls"]})
                run(record["program"], Batched(lm, rows), sandbox=jail)
                prompts += lm.prompts
                values += lm.given
        for rules in PROVIDERS:
            total, cached, dollars = cost(prompts, rules)
            price = "?" if dollars is None else f"{1000 * dollars / values:.3f}"
            print(
                f"{rules[0]:<28}{rows:>5}{len(prompts):>10}{values:>8}{total / values:>14.0f}"
                f"{(total - cached) / values:>12.0f}{price:>16}"
            )


if __name__ == "__main__":
    main()
