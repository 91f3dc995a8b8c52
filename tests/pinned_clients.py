"""Clients that pin older dependencies: tests/test_client_table.py runs this file in a separate environment."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise litellm fetches prices


class Instructor:
    """instructor, in its default mode: typed output by function calling."""

    def __init__(self, url: str) -> None:
        import instructor
        import openai
        import pydantic

        self.city = pydantic.create_model("City", name=(str, ...), size=(int, ...))
        client = instructor.from_openai(openai.OpenAI(base_url=url, api_key="none", max_retries=0))
        self.completions = client.chat.completions

    def answers(self, question: str) -> str:
        reply = self.completions.create(model="coc", response_model=None, messages=[user(question)])
        return str(reply.choices[0].message.content)

    def typed(self, question: str) -> dict[str, Any]:
        found = self.completions.create(model="coc", response_model=self.city, messages=[user(question)])
        return dict(found.model_dump())

    def streams(self, question: str) -> dict[str, Any]:
        parts = self.completions.create_partial(model="coc", response_model=self.city, messages=[user(question)])
        return dict(list(parts)[-1].model_dump())

    def refusal(self, question: str) -> str:
        from instructor.core import InstructorRetryException

        try:
            self.typed(question)
        except InstructorRetryException as error:
            return str(error)
        return "no refusal"


class LiteLLM:
    """litellm with its OpenAI provider."""

    def __init__(self, url: str) -> None:
        self.url = url

    def message(self, *turns: Any, **more: Any) -> Any:
        return self.completion(*turns, **more).choices[0].message

    def completion(self, *turns: Any, **more: Any) -> Any:
        import litellm

        return litellm.completion(
            model="openai/coc", messages=[*turns], api_base=self.url, api_key="none", max_retries=0, **more
        )

    def answers(self, question: str) -> str:
        return str(self.message(user(question)).content)

    def typed(self, question: str) -> Any:
        import pydantic

        city = pydantic.create_model("City", name=(str, ...), size=(int, ...))
        return json.loads(self.message(user(question), response_format=city).content)

    def tools(self, question: str, tool: dict[str, Any], results: dict[str, Any]) -> str:
        turns: list[Any] = [user(question)]
        for _ in range(5):
            reply = self.message(*turns, tools=[tool])
            if not reply.tool_calls:
                return str(reply.content)
            turns.append(reply.model_dump())
            for call in reply.tool_calls:
                result = results[json.loads(call.function.arguments)["city"]]
                turns.append({"role": "tool", "tool_call_id": call.id, "content": str(result)})
        return "no answer"

    def streams(self, question: str) -> str:
        chunks = self.completion(user(question), stream=True)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)

    def refusal(self, question: str) -> str:
        return str(self.message(user(question)).provider_specific_fields["refusal"])


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def result(client: Any, task: str, given: list[Any]) -> Any:
    """Return the result of a task, or the error as text, so that one failure does not hide the other results."""
    try:
        return getattr(client, task)(*given)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    name, url, tasks = sys.argv[1:]
    client = {"instructor": Instructor, "litellm": LiteLLM}[name](url)
    print(json.dumps({task: result(client, task, given) for task, given in json.loads(tasks).items()}))
