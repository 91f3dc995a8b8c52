"""A real local model, the smallest there is: that the plumbing holds. What it says is not judged."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

import pytest
from processes import descendants

from chainofcode.errors import LMError
from chainofcode.lm import Message
from chainofcode.lm.local import LocalLM


def ask(lm: LocalLM, text: str, **options: object) -> list[object]:
    return asyncio.run(lm.complete([Message("user", text)], **options))  # type: ignore[arg-type]


def test_a_model_answers_within_a_schema(small_model: str) -> None:
    with LocalLM(small_model) as lm:
        (first,) = asyncio.run(lm.complete([Message("user", "Is a fig a fruit?")], schema={"type": "boolean"}))
        assert json.loads(first.text) in (True, False)
        assert first.usage.requests == 1
        assert first.usage.prompt_tokens > 5
        assert first.usage.dollars == 0.0
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        (second,) = asyncio.run(lm.complete([Message("user", "How many legs has a cat?")], schema=schema))
        assert isinstance(json.loads(second.text)["n"], int)
        several = asyncio.run(lm.complete([Message("user", "Say a word.")], n=2, max_tokens=5, temperature=1.0))
        assert len(several) == 2
        (cut,) = asyncio.run(lm.complete([Message("user", "Tell a story.")], max_tokens=4))
        assert cut.finish_reason == "length"
    assert not [pid for pid in descendants(os.getpid()) if b"llama.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_a_prefix_is_evaluated_once(small_model: str) -> None:
    rules = " ".join(f"Rule {n}: an item {n} is worth {n * 7 % 13}." for n in range(12))
    with LocalLM(small_model) as lm:
        first, second = (
            asyncio.run(lm.complete([Message("system", rules), Message("user", text)], max_tokens=2))[0].usage
            for text in ("Item 3?", "Item 5?")
        )
    assert first.cached_tokens == 0
    assert second.prompt_tokens - second.cached_tokens < 20 < second.prompt_tokens
    assert (first + second).cached_tokens == second.cached_tokens


def test_the_same_request_gives_the_same_reply(small_model: str) -> None:
    with LocalLM(small_model) as lm:
        texts = {
            asyncio.run(lm.complete([Message("user", "Name a colour.")], max_tokens=8, seed=7))[0].text
            for _ in range(2)
        }
    assert len(texts) == 1


def test_a_request_that_is_given_up_stops(small_model: str) -> None:
    async def give_up() -> float:
        with LocalLM(small_model) as lm:
            await lm.complete([Message("user", "Hello")], max_tokens=1)
            task = asyncio.create_task(lm.complete([Message("user", "Count to a million.")], max_tokens=4000))
            await asyncio.sleep(0.5)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            started = time.monotonic()
            await lm.complete([Message("user", "Hello")], max_tokens=1)
            return time.monotonic() - started

    assert asyncio.run(give_up()) < 10  # four thousand tokens would take a minute


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(LMError, match="there is no model file"):
        ask(LocalLM(str(tmp_path / "none.gguf")), "hello")
    with pytest.raises(LMError, match="there is no model 'nonesuch'"):
        ask(LocalLM("nonesuch"), "hello")
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    (tmp_path / "bad.gguf").write_text("this is no model")
    with pytest.raises(LMError, match=r"cannot start bad\.gguf"):
        ask(LocalLM(str(tmp_path / "bad.gguf")), "hello")


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "any.gguf").write_text("")
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(LMError, match=r"pip install 'chainofcode\[local\]'"):
        ask(LocalLM(str(tmp_path / "any.gguf")), "hello")


def test_no_key_is_written_where_others_read_it(small_model: str) -> None:
    """A command line is everybody's to read."""
    with LocalLM(small_model) as lm:
        ask(lm, "hello", max_tokens=1)
        assert lm._server is not None
        for pid in descendants(os.getpid()):
            assert lm._server._key.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
