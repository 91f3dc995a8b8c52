"""Keys that an endpoint repeats: none reaches the program, the trace, the screen, a cache or a stored batch."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import re
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endpoint import serving
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cli import coc

from chainofcode import Message, run
from chainofcode.credentials import Credentials, Removal
from chainofcode.emulator.mcp_client import mcp_tools
from chainofcode.errors import LMError
from chainofcode.lm import LM, connect
from chainofcode.lm.reply_store import ReplyStore
from chainofcode.lm.reply_stream import ChatStream, MessageStream
from chainofcode.lm.wrappers import Cached, Retried

pytest.importorskip("openai", reason="the extra `openai` is not installed")
pytest.importorskip("anthropic", reason="the extra `anthropic` is not installed")
KEY = "sk-Very/Secret+0123456789 é"
NAMES = ("openai:m", "anthropic:m", "gemini:m", "ollama:m")
ASK = [Message("user", "What is the header?")]


def spellings(key: str) -> list[str]:
    """The key as text, in URLs, in JSON, and in the base64 of a header."""
    return [
        key,
        urllib.parse.quote(key),
        urllib.parse.quote(key, safe=""),
        urllib.parse.quote_plus(key).replace("%2B", "%2b"),
        json.dumps(key)[1:-1],
        json.dumps(key)[1:-1].replace("/", "\\/"),
        "".join(f"\\u{ord(character):04x}" for character in key),
        "".join(f"\\u{ord(c):04X}" if number % 2 else c for number, c in enumerate(key)),
        *(base64.b64encode(f"{before}{key}".encode()).decode() for before in ("", ":", "me:", "you:")),
        *(base64.urlsafe_b64encode(f"{before}{key}:".encode()).decode() for before in ("", ":", "me:")),
        *(broken_base64(key, width, end) for width, end in ((8, "\n"), (11, "\r\n"), (20, "\\n"), (7, "\\r\\n"))),
    ]


def broken_base64(key: str, width: int, end: str) -> str:
    """Base64 on lines of this width, as in MIME and PEM."""
    text = base64.b64encode(f"me:{key}".encode()).decode()
    return end.join(text[at : at + width] for at in range(0, len(text), width))


def parts_of(key: str) -> set[str]:
    """What no text without the key contains, however the key was written."""
    whole = {
        "Very",
        "ecret",
        "0123456789",
        "%2B0123",
        *(base64.b64encode(key.encode())[at : at + 12].decode() for at in (4, 16)),
    }
    return whole | {"\\u0056", "\\u0065\\u0063"}


def chat(text: str, **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": text}, "finish_reason": "stop", **more}]}


def message(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}


def reply_of(name: str, text: str) -> dict[str, Any]:
    return message(text) if name.startswith("anthropic") else chat(text)


def echo(name: str, status: int = 200) -> Callable[[Any], None]:
    """An endpoint that repeats the headers of each request."""

    def act(endpoint: Any) -> None:
        text = json.dumps(dict(endpoint.headers.items()))
        body = reply_of(name, text) if status == 200 else {"error": {"message": text, "param": text}}
        endpoint.reply(status, json.dumps(body).encode())

    return act


def model(name: str, url: str, key: str = "sk-Very-Secret-0123456789") -> LM:
    lm = connect(name, base_url=url, api_key=key)
    assert isinstance(lm, Retried)
    return lm._lm


@pytest.mark.parametrize("name", NAMES)
def test_headers_in_a_reply_reach_neither_program_nor_trace(name: str) -> None:
    with serving(echo(name)) as endpoint:
        lm = model(name, endpoint.url)
        result = run("answer = what_is_sent()\nkeys = 'Secret' in answer", lm)
        assert "Very-Secret" in str(endpoint.seen)
    assert "[key]" in str(result.answer)
    kept = "\n".join(result.trace.lines())
    assert "[key]" in kept
    assert "Secret" not in kept.replace("'Secret' in answer", "")
    assert result.trace.steps[-1].delta == {"keys": "False"}  # the program did not get it either


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
def test_errors_repeat_no_key(name: str, status: int) -> None:
    with serving(echo(name, status)) as endpoint, pytest.raises(LMError) as caught:
        asyncio.run(model(name, endpoint.url).complete(ASK))
    assert "Secret" not in f"{caught.value} {vars(caught.value)}"


@pytest.mark.parametrize("name", ["openai:m", "anthropic:m"])
def test_password_in_a_url_is_removed_from_replies(name: str) -> None:
    with serving(echo(name)) as endpoint:
        host = endpoint.url.removeprefix("http://")
        (reply,) = asyncio.run(model(name, f"http://me:Pass-w0rd-9@{host}").complete(ASK))
        sent = str(endpoint.seen)
    assert "[key]" in reply.text
    for login in ("me:Pass-w0rd-9", "Pass-w0rd-9", base64.b64encode(b"me:Pass-w0rd-9").decode()[4:]):
        assert login not in reply.text, sent


def test_other_fields_of_a_reply() -> None:
    key = "sk-Very-Secret-0123456789"
    pieces = ["true", " sk-Very", "-Secret", "-0123456789"]
    entries = [
        {"token": piece, "logprob": -0.1, "top_logprobs": [{"token": f"{key}?", "logprob": -3}]} for piece in pieces
    ]
    with serving(
        chat("true", logprobs={"content": entries}),
        chat("true", logprobs={"content": entries[:1]}),
        chat("true", finish_reason=f"stopped by {key}"),
        {"content": [{"type": "text", "text": text} for text in pieces], "stop_reason": key},
        {"content": [{"type": "tool_use", "input": {key: [f"/{key}/"]}}]},
    ) as endpoint:
        lm = model("openai:m", endpoint.url)
        (joined,) = asyncio.run(lm.complete(ASK, logprobs=True))
        assert (joined.text, joined.tokens) == ("true", ())
        (known,) = asyncio.run(lm.complete(ASK, logprobs=True))
        assert known.tokens[0].alternatives == {"true": -0.1, "[key]?": -3}
        (stopped,) = asyncio.run(lm.complete(ASK))
        assert stopped.finish_reason == "stopped by [key]"
        claude = model("anthropic:m", endpoint.url)
        (blocks,) = asyncio.run(claude.complete(ASK))
        assert (blocks.text, blocks.finish_reason) == ("true [key]", "[key]")
        (called,) = asyncio.run(claude.complete(ASK, schema={"type": "object"}))
        assert json.loads(called.text) == {"[key]": ["/[key]/"]}


@pytest.mark.parametrize("kind", [ChatStream, MessageStream])
def test_streams_never_show_a_part_of_a_key(kind: Any) -> None:
    text = f"a = 1 s {KEY} and {json.dumps(KEY)[1:-1]}, sk-Very/other; the end: sk"
    for size in (1, 2, 3, 7, 20, 200):
        seen: list[str] = []
        stream = kind(seen.append, Credentials([KEY]))
        for start in range(0, len(text), size):
            piece = text[start : start + size]
            event = {"choices": [{"delta": {"content": piece}}], "delta": {"text": piece}}
            stream.feed(b"data: %s\n\n" % json.dumps(event).encode())
        stream.feed(b'data: {"choices": [{"finish_reason": "stop"}], "delta": {"stop_reason": "end_turn"}}\n\n')
        stream.body()
        assert seen[-1] == "a = 1 s [key] and [key], sk-Very/other; the end: sk"
        for shown in seen:
            assert seen[-1].startswith(shown)


@pytest.mark.parametrize("name", ["openai:m", "anthropic:m"])
def test_streamed_replies_of_an_endpoint(name: str) -> None:
    def stream(endpoint: Any) -> None:
        pieces = ["The key is ", "sk-Very-", "Secret-01", "23456789", "."]
        events = [{"choices": [{"delta": {"content": one}}], "delta": {"text": one}} for one in pieces]
        end = {"choices": [{"finish_reason": "stop"}], "delta": {"stop_reason": "end_turn"}}
        body = b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in [*events, end])
        endpoint.reply(200, body, **{"Content-Type": "text/event-stream"})

    seen: list[str] = []
    with serving(stream) as endpoint:
        (reply,) = asyncio.run(model(name, endpoint.url).complete(ASK, on_text=seen.append))
    assert reply.text == seen[-1] == "The key is [key]."
    assert not any("Very" in text for text in seen)


def test_cached_replies_have_no_key(tmp_path: Path) -> None:
    store = ReplyStore(tmp_path / "replies")
    with serving(echo("openai:m")) as endpoint:
        lm = Cached(model("openai:m", endpoint.url), store)
        first, again = (asyncio.run(lm.complete(ASK))[0] for _ in range(2))
        assert len(endpoint.seen) == 1
    assert again.is_cached and again.text == first.text and "Secret" not in again.text
    store.close()
    assert b"Very-Secret" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_coc_prints_and_records_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-Very-Secret-0123456789")
    (tmp_path / "program.py").write_text("answer = what_is_sent()\n")
    with serving(echo("openai:m")) as endpoint:
        options = ["--model", "openai:m", "--base-url", f"{endpoint.url}/v1", "--trace", str(tmp_path / "trace.jsonl")]
        done = coc("run", str(tmp_path / "program.py"), *options)
    assert done.returncode == 0, done.stderr
    for text in (done.stdout, (tmp_path / "trace.jsonl").read_text()):
        assert "[key]" in text
        assert "Secret" not in text


@pytest.mark.parametrize("text", spellings(KEY))
def test_every_spelling_is_removed(text: str) -> None:
    clean = Credentials([KEY]).remove(f"<{text}>")
    assert "[key]" in clean
    joined = re.sub(r"[\r\n]|\\[rn]", "", clean)
    for part in parts_of(KEY):
        assert part not in clean
        assert part not in joined


@given(
    st.text("ab/%+\\u0é", min_size=8, max_size=12), st.lists(st.integers(0, 12)), st.text("ab/%25\\u06é", max_size=20)
)
@settings(max_examples=300, deadline=None)
def test_pieces_give_the_same_as_the_whole(key: str, cuts: list[int], around: str) -> None:
    credentials = Credentials([key])
    text = around + key + around[::-1] + json.dumps(key) + broken_base64(key, 5, "\r\n")
    removal, bounds = Removal(credentials), sorted({0, len(text), *cuts})
    pieces = [removal.feed(text[start:end]) for start, end in itertools.pairwise(bounds)]
    clean = "".join(pieces) + removal.finish()
    assert clean == credentials.remove(text)
    assert key not in clean


@pytest.mark.parametrize("key", ["x", "EMPTY", "none", "ollama", "sk-1234", ""])
def test_placeholders_leave_replies_alone(key: str) -> None:
    text = f"the text {key} is EMPTY of none, sk-1234567"
    with serving(chat(text)) as endpoint:
        (reply,) = asyncio.run(model("openai:m", endpoint.url, key or "EMPTY").complete(ASK))
    assert reply.text == text


def test_a_reply_that_was_cut_in_the_middle_of_a_key() -> None:
    credentials = Credentials(["sk-Very-Secret-0123456789"])
    assert credentials.remove("the key is sk-Very-Secret-01234") == "the key is [key]"
    assert credentials.remove("a task: sk") == "a task: sk"


def test_removal_is_quick_on_long_replies() -> None:
    key = "sk-" + "Ab3" * 50
    started = time.process_time()
    Credentials([key]).remove("sk-Ab3\\u" * 1_000_000)
    assert time.process_time() - started < 5
    removal, started = Removal(Credentials([key])), time.process_time()
    for _ in range(20_000):
        removal.feed("sk-Ab")
    assert time.process_time() - started < 10


def test_mcp_servers_repeat_no_password() -> None:
    def act(endpoint: Any) -> None:
        body, header = endpoint.seen[-1][1], endpoint.headers["Authorization"]
        tool = {"name": "f", "description": f"Got {header}.", "inputSchema": {"type": "object"}}
        results = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "echo", "version": "1"},
            },
            "tools/list": {"tools": [tool]},
            "tools/call": {
                "content": [{"type": "text", "text": header}],
                "structuredContent": {"sent": [header, "Pass-w0rd-9"]},
            },
        }
        result = results.get(body.get("method", ""))
        endpoint.reply(200, json.dumps({"jsonrpc": "2.0", "id": body.get("id"), "result": result or {}}).encode())

    with serving(act) as endpoint:
        url = f"http://me:Pass-w0rd-9@{endpoint.url.removeprefix('http://')}/mcp"
        with mcp_tools([url], seconds=20) as tools:
            result = run("answer = f()['sent']", tools=tools)
            secret = base64.b64encode(b"me:Pass-w0rd-9").decode()
            assert secret in str(endpoint.seen)
            assert result.answer == ["Basic [key]k=", "[key]"]  # the last character depends on what follows
            assert secret[:8] not in (tools[0].function.__doc__ or "")
