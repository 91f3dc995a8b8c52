"""The cost of a value: input tokens, cached tokens and dollars, by the rules of each provider.

python bench/prefix.py CASES.jsonl    (the recorded BBH programs with calls)

No model is used: a stand-in replies with the recorded values, and a token of a prompt is four characters. Vendors put
the schema of a reply before the prompt, so that calls with different schemas share no prefix; self-hosted servers do
not. Some providers cache any prefix of an earlier prompt, others only prefixes that end at a mark; each has a minimum.
"short" is the prompt that every provider can get, "sent" the prompt that this provider gets: with more examples, if
that is cheaper. "cold" starts with an empty cache. "warm" is the middle of a long evaluation: the part that all
programs share was sent before with each schema, except schemas with labels, which belong to one program; the programs
themselves are new. Dollars are for input only, from the package genai-prices.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Provider:
    """The caching rules of an endpoint. `lm` has the minimum and the price; None for a self-hosted server."""

    name: str
    lm: RemoteLM | None
    step: int = 1  # tokens: a cached prefix is a multiple of it
    is_marked: bool = False  # whether a prefix is looked up only where it was marked

    @property
    def least(self) -> int:
        return self.lm.cache_minimum if self.lm is not None else 1


PROVIDERS = [
    Provider("openai:gpt-5-mini", OpenAILM("gpt-5-mini", base_url=OpenAILM.vendor_url), step=128),
    Provider("openai:gpt-5.6", OpenAILM("gpt-5.6", base_url=OpenAILM.vendor_url), is_marked=True),
    Provider("anthropic:claude-sonnet-5", AnthropicLM("claude-sonnet-5", base_url=AnthropicLM.vendor_url), 1, True),
    Provider("anthropic:claude-opus-5", AnthropicLM("claude-opus-5", base_url=AnthropicLM.vendor_url), 1, True),
    Provider("anthropic:claude-haiku-4-5", AnthropicLM("claude-haiku-4-5", base_url=AnthropicLM.vendor_url), 1, True),
    Provider("own server (vLLM…)", None, step=16),
]


@dataclass(frozen=True)
class Prompt:
    """A request as text, and the positions of its marks: after the part for all programs, and after the program."""

    text: str
    marks: tuple[int, ...]

    def after(self, schema: str) -> Prompt:
        return Prompt(schema + self.text, tuple(len(schema) + mark for mark in self.marks))


class Recorded(LM):
    """Answers with recorded values, and keeps schemas and prompts."""

    name, in_flight = "recorded", 16

    def __init__(self, values: dict[str, Any], *, is_long: bool) -> None:
        self._values, self._is_long, self.given = values, is_long, 0
        self.prompts: list[tuple[str, Prompt]] = []

    def prefers_longer(self, tokens: int, longer: int) -> bool:
        return self._is_long

    async def complete(self, messages: Sequence[Message], **options: Any) -> list[Completion]:
        kept = max(number for number, message in enumerate(messages, 1) if message.is_kept)
        marks = tuple(len(_text(messages[:end])) for end in (kept, len(messages) - 1))
        self.prompts.append((json.dumps(options["schema"]), Prompt(_text(messages), marks)))
        lines = messages[-1].content.split("\n")
        calls = [line.partition(": ")[2] for line in lines if line.startswith("call")]
        keys = ["value"] if any(line.startswith("call: ") for line in lines) else map(str, range(1, len(calls) + 1))
        self.given += len(calls)
        said = {key: self._values.get(call) for key, call in zip(keys, calls, strict=True)}
        return [Completion(json.dumps(said))]


def _text(messages: Sequence[Message]) -> str:
    return "\n".join(f"{turn.role}: {turn.content}" for turn in turns(messages))


def cost(prompts: Sequence[Prompt], provider: Provider, warm: Sequence[Prompt] = ()) -> tuple[int, int, float | None]:
    """Return the tokens of prompts, those of them that were cached, and dollars; None where the price is unknown."""
    total = cached_total = 0
    dollars: float | None = 0.0
    for place, prompt in enumerate(prompts):
        tokens = len(prompt.text) // CHARS_PER_TOKEN
        shared = _shared(prompt, [*warm, *prompts[:place]], provider) // CHARS_PER_TOKEN
        cached = shared // provider.step * provider.step if shared >= provider.least else 0
        marked = prompt.marks[-1] // CHARS_PER_TOKEN
        stored = marked - cached if provider.is_marked and marked >= provider.least else 0
        price = provider.lm.dollars(tokens, 0, cached=cached, stored=stored) if provider.lm is not None else 0.0
        dollars = None if dollars is None or price is None else dollars + price
        total, cached_total = total + tokens, cached_total + cached
    return total, cached_total, dollars


def _shared(prompt: Prompt, earlier: Iterable[Prompt], provider: Provider) -> int:
    """Return how much of a prompt a provider finds in its cache."""
    common = [(_common(prompt.text, other.text), other.marks) for other in earlier]
    if not provider.is_marked:
        return max((length for length, _ in common), default=0)
    return max((mark for length, marks in common for mark in marks if mark <= length), default=0)


def _common(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(other[:middle]):
            low = middle
        else:
            high = middle - 1
    return low


def recorded(records: Sequence[dict[str, Any]], rows: int, *, is_long: bool) -> tuple[list[tuple[str, Prompt]], int]:
    """Run all programs. Return the schemas with their prompts, and the number of values."""
    prompts, values = list[tuple[str, Prompt]](), 0
    with Jail() as jail:
        for record in records:
            lm = Recorded({one["call"]: one["value"] for one in record["calls"]}, is_long=is_long)
            run(record["program"], Batched(lm, rows), sandbox=jail)
            prompts += lm.prompts
            values += lm.given
    return prompts, values


def lines(records: Sequence[dict[str, Any]], rows: int) -> Iterator[str]:
    """Yield the costs at each provider: of the short prompt, then of the one that it gets."""
    short, longer = (recorded(records, rows, is_long=is_long) for is_long in (False, True))
    sizes = [prompts[0][1].marks[0] // CHARS_PER_TOKEN for prompts, _ in (short, longer)]
    for provider in PROVIDERS:
        is_long = provider.lm is not None and provider.lm.prefers_longer(*sizes)
        for what, (asked, values) in (("short", short), ("sent", longer if is_long else short)):
            prompts = [prompt.after(schema if provider.lm is not None else "") for schema, prompt in asked]
            warm = [
                Prompt(prompt.text[: prompt.marks[0]], prompt.marks[:1])
                for (schema, _), prompt in zip(asked, prompts, strict=True)
                if "enum" not in schema
            ]
            cold_cost, warm_cost = cost(prompts, provider), cost(prompts, provider, warm)
            uncached = [f"{(total - cached) / values:>7.0f}" for total, cached, _ in (cold_cost, warm_cost)]
            prices = [f"{1000 * (dollars or 0) / values:>8.3f}" for _, _, dollars in (cold_cost, warm_cost)]
            total = cold_cost[0] / values
            yield (
                f"{provider.name:<28}{rows:>5}  {what:<6}{len(prompts):>9}{total:>8.0f}{''.join(uncached)}"
                f"{''.join(prices) if provider.lm is not None else ''}"
            )


def main() -> None:
    records = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    records = [record for record in records if record["calls"]]
    print(f"{len(records)} programs; tokens per value, those not cached (cold, warm), $ per 1,000 values (cold, warm)")
    print(f"{'':<28}{'rows':>5}  {'prompt':<6}{'requests':>9}{'tokens':>8}{'cold':>7}{'warm':>7}{'cold':>8}{'warm':>8}")
    for rows in (1, 4, 16):
        print("\n".join(lines(records, rows)))


if __name__ == "__main__":
    main()
