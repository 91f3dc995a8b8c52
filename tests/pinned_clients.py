"""Clients whose packages pin older versions of ours: run by tests/test_clients.py in an environment of their own."""

from __future__ import annotations

import os
import sys
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it fetches prices otherwise


def instructor(url: str, asked: dict[str, str], tool: dict[str, Any]) -> list[str]:
    import instructor
    import openai
    import pydantic

    city = pydantic.create_model("City", name=(str, ...), size=(int, ...))
    client = instructor.from_openai(openai.OpenAI(base_url=url, api_key="none", max_retries=0))
    found = client.chat.completions.create(
        model="coc", response_model=city, messages=[{"role": "user", "content": asked["city"]}]
    )
    return [f"{found.name} {found.size}"]


def litellm(url: str, asked: dict[str, str], tool: dict[str, Any]) -> list[str]:
    import litellm

    def said(text: str, **more: Any) -> Any:
        turns = [{"role": "user", "content": text}]
        made = litellm.completion(model="openai/coc", messages=turns, api_base=url, api_key="none", **more)
        return made.choices[0].message

    return [said(asked["product"]).content, said(asked["warm"], tools=[tool]).tool_calls[0].function.name]


if __name__ == "__main__":
    import json

    name, url, asked, tool = sys.argv[1:]
    print(json.dumps({"instructor": instructor, "litellm": litellm}[name](url, json.loads(asked), json.loads(tool))))
