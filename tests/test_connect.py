"""Models by name: the options of each provider, scripted replies, and the choice of the default model."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endpoint import drip, endless, serving

from chainofcode import LM, Message, solve
from chainofcode.cli import main
from chainofcode.errors import InputError, LMError
from chainofcode.lm import connect
from chainofcode.lm.choose import default_model, free_memory_bytes, ollama_url

OPENAI = {"choices": [{"message": {"content": "from openai"}, "finish_reason": "stop"}]}
ANTHROPIC = {"content": [{"type": "text", "text": "from anthropic"}], "stop_reason": "end_turn"}
SETTINGS = [f"{kind}_{what}" for kind in ("OPENAI", "ANTHROPIC") for what in ("API_KEY", "BASE_URL", "MODEL")]
GB = 1_000_000_000


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*SETTINGS, "COC_MODEL", "COC_SMALL"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")  # nothing listens there


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The packages of models that seem to be installed."""
    packages = {"openai", "anthropic", "genai_prices", "xllamacpp"}
    find_spec, known = importlib.util.find_spec, frozenset(packages)

    def find(name: str, *package: str) -> Any:
        return (name in packages or None) if name in known else find_spec(name, *package)

    monkeypatch.setattr("importlib.util.find_spec", find)
    return packages


@pytest.fixture
def endpoint() -> Iterator[Any]:
    with serving(OPENAI) as kind:
        yield kind


def ask(lm: LM, *messages: str, **options: Any) -> str:
    return asyncio.run(lm.complete([Message("user", text) for text in messages], **options))[0].text


# --- providers ----------------------------------------------------------------------------------------------------


def test_openai(endpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    lm = connect("openai:some-model", base_url=f"{endpoint.url}/v1", api_key="given")
    assert (lm.name, ask(lm, "hello")) == ("openai:some-model", "from openai")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{endpoint.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "set")
    assert ask(connect("openai:some-model"), "hello") == "from openai"
    assert [headers["authorization"] for headers, _ in endpoint.seen] == ["Bearer given", "Bearer set"]


def test_anthropic(endpoint: Any) -> None:
    pytest.importorskip("anthropic")
    endpoint.script[:] = [ANTHROPIC]
    lm = connect("anthropic:claude", base_url=endpoint.url, api_key="given")
    assert (lm.name, ask(lm, "hello")) == ("anthropic:claude", "from anthropic")


def test_ollama(endpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "not for Ollama")
    for lm in (
        connect("ollama:llama3.2:1b", base_url=f"{endpoint.url}/v1"),
        connect("ollama:llama3.2:1b", base_url=endpoint.url),
    ):
        assert (lm.name, ask(lm, "hello")) == ("ollama:llama3.2:1b", "from openai")
    monkeypatch.setenv("OLLAMA_HOST", endpoint.url.removeprefix("http://"))
    assert ask(connect("ollama:llama3.2:1b"), "hello") == "from openai"
    assert {body["model"] for _, body in endpoint.seen} == {"llama3.2:1b"}
    assert {headers["authorization"] for headers, _ in endpoint.seen} == {"Bearer ollama"}
    for host, url in {
        "": "http://127.0.0.1:11434", "0.0.0.0": "http://0.0.0.0:11434", "there:80": "http://there:80",
        "https://there/": "https://there", "[::1]": "http://[::1]:11434", "::1": "http://[::1]:11434",
        "[::1]:80": "http://[::1]:80", ":80": "http://127.0.0.1:80", "http://:80": "http://127.0.0.1:80",
        "there:": "http://there:11434", "https://a:b@there/x": "https://a:b@there/x",
    }.items():  # fmt: skip
        monkeypatch.setenv("OLLAMA_HOST", host)
        assert ollama_url() == url
    for host in ("abc:def", "http://abc:def", "there:99999", "[::1"):
        monkeypatch.setenv("OLLAMA_HOST", host)
        with pytest.raises(LMError, match="OLLAMA_HOST must be HOST:PORT"):
            connect("ollama:llama3.2:1b")


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("gpt-4o", "openai:gpt-4o"),
        ("o4-mini", "openai:o4-mini"),
        ("claude-haiku-5-5", "anthropic:claude-haiku-5-5"),
        ("qwen2.5-coder", "local:qwen2.5-coder-1.5b or ollama:qwen2.5-coder or openai:qwen2.5-coder"),
        ("llama3.2", "ollama:llama3.2 or openai:llama3.2"),
        ("llama3.2:1b", "ollama:llama3.2:1b"),
        ("opnai:gpt-4o", "openai:gpt-4o"),
        ("here/model.gguf", "local:here/model.gguf"),
        ("replies.jsonl", "scripted:replies.jsonl"),
    ],
)
def test_a_name_without_a_provider_suggests_the_likely_ones(name: str, suggestion: str) -> None:
    with pytest.raises(LMError) as caught:
        connect(name)
    assert f"unknown model {name!r}; did you mean {suggestion}? (expected PROVIDER:MODEL; " in str(caught.value)


def test_local_alone_is_the_embedded_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chainofcode.lm.choose.free_memory_bytes", lambda: 8 * GB)
    assert connect("local").name == "local:qwen2.5-coder-1.5b"
    monkeypatch.setattr("chainofcode.lm.choose.free_memory_bytes", lambda: GB)
    assert connect("local").name == "local:qwen2.5-coder-0.5b"


def test_whether_a_model_is_small_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = {"base_url": "http://127.0.0.1:9"}
    assert not connect("openai:m", **remote).is_small
    assert connect("ollama:m").is_small and connect("local:smollm2-135m").is_small
    assert not connect("ollama:llama3.1:70b", is_small=False).is_small
    monkeypatch.setenv("COC_SMALL", "1")
    assert connect("openai:m", **remote).is_small
    assert not connect("openai:m", is_small=False, **remote).is_small
    monkeypatch.setenv("COC_SMALL", "no")
    assert not connect("ollama:m").is_small
    monkeypatch.setenv("COC_SMALL", "tiny")
    with pytest.raises(LMError, match="COC_SMALL must be 1 or 0, not 'tiny'"):
        connect("ollama:m")


def test_number_of_concurrent_requests_to_ollama(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLAMA_NUM_PARALLEL", raising=False)
    assert connect("ollama:m").in_flight == 4
    monkeypatch.setenv("OLLAMA_NUM_PARALLEL", "32")
    assert connect("ollama:m").in_flight == 32
    assert connect("ollama:m", in_flight=64).in_flight == 64
    assert connect("openai:m", base_url="http://127.0.0.1:9", in_flight=100).in_flight == 100


def test_invalid_names_and_options(tmp_path: Path) -> None:
    assert connect("local:smollm2-135m").name == "local:smollm2-135m"
    for name in ("", "openai:", "nowhere else:model", "x" * 10_000):
        with pytest.raises(LMError, match=r"unknown model '.{0,100}' \(expected PROVIDER:MODEL; providers: openai"):
            connect(name)
    with pytest.raises(LMError, match="local:m takes no base URL: it does not use the network"):
        connect("local:m", base_url="http://127.0.0.1")
    with pytest.raises(LMError, match="takes no key") as caught:
        connect(f"scripted:{tmp_path}", api_key="a secret")
    assert "a secret" not in str(caught.value)


# --- scripts ------------------------------------------------------------------------------------------------------


def test_scripted_replies(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    lines = ["one", {"when": "fig", "reply": "true"}, {"when": "fig leaf", "reply": "never"}, "two"]
    path.write_text("\n\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8")
    lm = connect(f"scripted:{path}")
    assert ask(lm, "Is a fig a fruit?") == "true"
    assert ask(lm, "first") == "one"
    assert ask(lm, "leaf", "a fig") == "true"  # only the last part of a turn counts
    messages = [Message("user", "a fig"), Message("assistant", "yes"), Message("user", "next")]
    assert asyncio.run(lm.complete(messages))[0].text == "two"  # `fig` is not in the last turn
    assert ask(lm, "fig", n=2) == "true"
    with pytest.raises(LMError, match=r"replies\.jsonl has no reply left for request 6"):
        ask(lm, "another")


def test_scripted_replies_can_be_slow_and_concurrent(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_text('{"when": "fig", "reply": "true", "seconds": 0.5}')
    lm = connect(f"scripted:{path}")

    async def together() -> None:
        await asyncio.gather(*(lm.complete([Message("user", "a fig")]) for _ in range(20)))

    began = time.monotonic()
    asyncio.run(together())
    assert 0.5 <= time.monotonic() - began < 5
    assert lm.in_flight > 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'"good"\nnot JSON', "line 2: expected a JSON string"),
        (b'"good"\n\n5', "line 3"),
        (b'{"when": "x"}', "line 1"),
        (b'{"when": "x", "reply": "y", "else": 1}', "line 1"),
        (b'{"when": "x", "reply": ["y"]}', "line 1"),
        (b'{"when": "x", "reply": "y", "seconds": -1}', "line 1"),
        (b"[" * 100_000, "line 1"),
        (b'"\xff"', "not UTF-8"),
    ],
    ids=["words", "number", "no reply", "too much", "list", "past", "deep", "bytes"],
)
def test_invalid_scripts(tmp_path: Path, text: bytes, words: str) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_bytes(text)
    with pytest.raises(InputError, match=words) as caught:
        connect(f"scripted:{path}")
    assert str(path) in str(caught.value)
    with pytest.raises(InputError, match="No such file"):
        connect(f"scripted:{tmp_path / 'none'}")
    with pytest.raises(InputError, match="Is a directory"):
        connect(f"scripted:{tmp_path}")


# --- the default model --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "variable"), [("openai:m", "OPENAI_API_KEY"), ("anthropic:m", "ANTHROPIC_API_KEY")])
def test_models_of_vendors_need_a_key(model: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (variable, variable.replace("API_KEY", "BASE_URL")):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(LMError, match=f"{model} needs a key: set {variable}"):
        connect(model)
    assert connect(model, base_url="http://127.0.0.1:9").name == model
    assert connect(model, api_key="k").name == model


def test_settings_decide_the_default_model(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_model(8 * GB) == ("local:qwen2.5-coder-1.5b", "no API key and no Ollama: the embedded model")
    why = "no API key and no Ollama; only 1.9 GB of memory is free: the smaller embedded model"
    assert default_model(1_940_000_000) == ("local:qwen2.5-coder-0.5b", why)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    assert default_model() == ("anthropic:claude-haiku-5-5", "ANTHROPIC_API_KEY is set")
    monkeypatch.setenv("ANTHROPIC_MODEL", "claude-other")
    assert default_model()[0] == "anthropic:claude-other"
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    assert default_model() == ("openai:gpt-4o-mini", "OPENAI_API_KEY is set")
    monkeypatch.setenv("OPENAI_MODEL", "other")
    assert default_model()[0] == "openai:other"
    monkeypatch.setenv("COC_MODEL", "scripted:demo")
    assert default_model() == ("scripted:demo", "set by COC_MODEL")


def test_running_ollama_is_the_default(endpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    models = [{"name": "nomic-embed-text:latest"}, {"name": "llama3.2:1b"}, {"name": "other"}]
    endpoint.script[:] = [{"models": models}]
    monkeypatch.setenv("OLLAMA_HOST", endpoint.url)
    assert default_model() == ("ollama:llama3.2:1b", f"Ollama is running at {endpoint.url}")


def test_default_model_skips_what_is_not_installed(
    endpoint: Any, installed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    installed -= {"openai", "genai_prices"}
    skipped = "OPENAI_API_KEY is set, but the package openai is not installed"
    assert default_model(8 * GB) == ("local:qwen2.5-coder-1.5b", f"{skipped}: the embedded model")
    endpoint.script[:] = [{"models": [{"name": "llama3.2"}]}] * 2
    monkeypatch.setenv("OLLAMA_HOST", endpoint.url)
    ollama = f"Ollama is running at {endpoint.url}, but the package openai is not installed"
    assert default_model(8 * GB) == ("local:qwen2.5-coder-1.5b", f"{skipped}; {ollama}: the embedded model")
    installed.add("genai_prices")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    assert default_model() == ("anthropic:claude-haiku-5-5", f"{skipped}; ANTHROPIC_API_KEY is set")
    installed.add("openai")
    installed.remove("genai_prices")
    assert "OPENAI_API_KEY is set, but the package genai_prices is not installed; " in default_model()[1]


def test_default_model_that_is_not_installed(installed: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    installed.clear()
    assert main(["ask", "What?"]) == 2
    error = capsys.readouterr().err
    assert "needs the extra `local`: pip install 'chainofcode[local]'; for OpenAI or Ollama: 'chainofcode[op" in error


@pytest.mark.parametrize("installs", [[], ["openai.py"]])
def test_missing_package_of_a_vendor(tmp_path: Path, installs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("openai", "genai_prices"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *(place for place in sys.path if "site-packages" not in place)])
    for name in installs:
        (tmp_path / name).write_text("")
    missing = "genai_prices" if installs else "openai"
    words = (
        rf"^ollama:x needs the extra `openai` \(the package {missing} is missing\): pip install 'chainofcode\[openai"
    )
    with pytest.raises(LMError, match=words):
        ask(connect("ollama:x"), "hello")


@pytest.mark.parametrize(
    "act",
    [
        {"models": []},
        {"models": "none"},
        [],
        lambda e: e.reply(200, b"no JSON"),
        lambda e: e.reply(404, b'{"models": [{"name": "x"}]}'),
        lambda e: e.reply(200, b'{"models": [{"name": "' + b"x" * 2_000_000 + b'"}]}'),
        lambda e: e.wfile.write(b"not HTTP at all\r\n\r\n"),
        lambda e: time.sleep(3),
        drip,
        endless,
    ],
    ids=["no model", "no list", "list", "no JSON", "404", "huge", "no HTTP", "silent", "drip", "endless"],
)
@pytest.mark.alone
def test_an_ollama_that_misbehaves(endpoint: Any, act: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint.script[:] = [act]
    monkeypatch.setenv("OLLAMA_HOST", endpoint.url)
    started = time.monotonic()
    assert default_model(8 * GB)[0] == "local:qwen2.5-coder-1.5b"
    assert time.monotonic() - started < 2.9
    monkeypatch.setenv("OLLAMA_HOST", "not a host:port")
    assert default_model(8 * GB)[0] == "local:qwen2.5-coder-1.5b"


def machine(tmp_path: Path, available_bytes: int, cgroup: str) -> tuple[Path, Path]:
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(f"MemTotal: 99999999 kB\nMemAvailable:   {available_bytes // 1024} kB\n")
    (proc / "self" / "cgroup").write_text(cgroup)
    return proc, groups


def group(path: Path, version: int, limit: object, used: int, reclaimable: int) -> None:
    path.mkdir(parents=True, exist_ok=True)
    names = ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    (path / names[0]).write_text(f"{limit}\n")
    (path / names[1]).write_text(f"{used}\n")
    field = "inactive_file" if version == 2 else "total_inactive_file"
    (path / "memory.stat").write_text(f"anon 5\n{field} {reclaimable}\n")


def test_free_memory_of_a_machine(tmp_path: Path) -> None:
    assert free_memory_bytes(*machine(tmp_path, 8 * GB, "0::/\n")) == pytest.approx(8 * GB, rel=1e-6)
    assert free_memory_bytes(tmp_path / "nowhere", tmp_path / "nowhere") is None
    here = free_memory_bytes()
    assert (here is not None and here > 0) == (sys.platform == "linux")


def test_free_memory_of_a_control_group(tmp_path: Path) -> None:
    proc, groups = machine(tmp_path, 8 * GB, "0::/outer/inner\n")
    group(groups / "outer" / "inner", 2, "max", 5 * GB, 0)
    group(groups / "outer", 2, 4 * GB, 3 * GB, GB)
    assert free_memory_bytes(proc, groups) == 2 * GB  # reclaimable memory is free


def test_free_memory_of_a_control_group_of_version_1(tmp_path: Path) -> None:
    proc, groups = machine(tmp_path, 8 * GB, "5:cpu:/x\n4:memory,hugetlb:/elsewhere/container\n1:name=systemd:/\n")
    group(groups / "memory", 1, 3 * GB, 2 * GB, 0)  # inside a container, its own group is the root
    assert free_memory_bytes(proc, groups) == GB


def test_invalid_models_are_reported_at_once() -> None:
    with pytest.raises(LMError, match="unknown model 'nope'"):
        connect("local:nope")
    with pytest.raises(TypeError, match="expected a model, got str"):
        solve("What?", "local:qwen2.5-coder-1.5b")  # type: ignore[arg-type]


# --- providers of other packages ----------------------------------------------------------------------------------


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Path:
    place = Path(__file__).parent / "provider_package"
    monkeypatch.syspath_prepend(str(place))
    return place


def test_an_installed_package_adds_a_provider(package: Path) -> None:
    lm = connect("echo:any", is_small=True, in_flight=3)
    assert (lm.name, ask(lm, "hello"), lm.is_small, lm.in_flight) == ("echo:any", "hello", True, 3)
    with pytest.raises(LMError, match="unknown model 'ecco:any'; did you mean echo:any"):
        connect("ecco:any")


def test_a_package_does_not_replace_a_provider(package: Path) -> None:
    """It would receive the key of the other provider."""
    with pytest.raises(LMError, match="openai:any needs a key"):
        connect("openai:any")


def test_packages_that_fail_are_named(package: Path) -> None:
    with pytest.raises(
        LMError, match="provider 'echo' of the package echo-provider failed: RuntimeError: out of order"
    ):
        connect("echo:broken")
    with pytest.raises(LMError, match="provider 'echo' of the package echo-provider named its model 'openai:gpt-4o'"):
        connect("echo:renamed")
    with pytest.raises(LMError, match="provider 'missing' of the package echo-provider failed: AttributeError"):
        connect("missing:any")
