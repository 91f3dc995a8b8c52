"""Batch endpoints, with stand-ins for the providers: no request is paid twice or lost, and nothing hangs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from batch_servers import AnthropicServer, BatchServer, OpenAIServer, stand_in_server
from conftest import ROOT

from chainofcode import LM, LMError, Message
from chainofcode.errors import InputError
from chainofcode.lm import Image, connect
from chainofcode.lm.batch_store import BatchStore
from chainofcode.lm.batches import BatchOptions
from chainofcode.lm.openai import OpenAILM
from chainofcode.lm.remote import RemoteLM
from chainofcode.lm.wrappers import Retried

pytest.importorskip("openai", reason="the extra `openai` is not installed")
pytest.importorskip("anthropic", reason="the extra `anthropic` is not installed")
KEY = "sk-very-secret-0123456789"
SCHEMA = {
    "type": "object",
    "properties": {"value": {"type": "boolean"}},
    "required": ["value"],
    "additionalProperties": False,
}
PROVIDERS = {"openai": (OpenAIServer, "openai:m"), "anthropic": (AnthropicServer, "anthropic:m")}


@pytest.fixture(params=PROVIDERS)
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    kind, name = PROVIDERS[request.param]
    with stand_in_server(kind()) as stand_in:
        stand_in.name = name  # type: ignore[attr-defined]
        yield stand_in


@pytest.fixture
def store(tmp_path: Path) -> Iterator[BatchStore]:
    store = BatchStore(tmp_path / "batches.sqlite")
    yield store
    store.close()


class Notices(list[str]):
    """The messages that users see, without those about progress."""

    def __call__(self, text: str, is_progress: bool) -> None:
        if not is_progress:
            self.append(text)


def model(server: Any, store: BatchStore, notices: Notices | None = None, *, quiet: float = 0.2) -> LM:
    """A model that sends batches soon and polls them often."""
    return deferred(
        server, BatchOptions(store, Notices() if notices is None else notices, quiet_seconds=quiet, poll_seconds=0.02)
    )


def deferred(server: Any, options: BatchOptions) -> LM:
    lm = connect(server.name, base_url=server.url, api_key=KEY)
    assert isinstance(lm, Retried) and isinstance(lm._lm, RemoteLM)
    quick = Retried(lm._lm, first_pause_seconds=0.01)
    quick.defer(options)
    return quick


def conversations(*texts: str) -> list[list[Message]]:
    return [[Message("system", "You are brief."), Message("user", text)] for text in texts]


async def complete(lm: LM, *texts: str, **options: Any) -> list[Any]:
    return await asyncio.gather(
        *(lm.complete(messages, **options) for messages in conversations(*texts)), return_exceptions=True
    )


def ask(lm: LM, *texts: str, **options: Any) -> list[Any]:
    return asyncio.run(complete(lm, *texts, **options))


def echo(server: BatchServer) -> Callable[[dict[str, Any]], tuple[int, Any]]:
    """A model that replies with the text of the request."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        status, reply = server.usual(body)
        turn = body["messages"][-1]["content"]
        text = turn if isinstance(turn, str) else turn[-1]["text"]
        if isinstance(server, OpenAIServer):
            reply["choices"][0]["message"]["content"] = text
        else:
            reply["content"] = [{"type": "text", "text": text}]
        return status, reply

    return answer


# --- requests and replies -----------------------------------------------------------------------------------------


def test_requests_that_wait_together_are_one_batch(server: Any, store: BatchStore) -> None:
    """Each caller gets its own reply, although results arrive in another order."""
    server.answer = echo(server)
    lm, notices = model(server, store), Notices()
    replies = ask(model(server, store, notices), *"abcdefgh")
    assert [reply[0].text for reply in replies] == [*"abcdefgh"]
    assert len(server.batches) == 1 and len(server.paid) == 8
    assert not server.direct
    assert notices[0].endswith(f"a batch of 8 requests to {server.name} {server.url} was sent")
    assert (lm.in_flight, lm.has_batches) == (256, True)


def test_keys_in_results_are_neither_returned_nor_stored(server: Any, store: BatchStore, tmp_path: Path) -> None:
    server.answer = echo(server)
    (good,) = ask(model(server, store), f"sent with {KEY}.")[0]
    assert good.text == "sent with [key]."
    server.answer = lambda body: (400, {"message": f"bad key {KEY}", "type": "invalid_request_error"})
    (bad,) = ask(model(server, store), "another")
    assert "[key]" in str(bad) and KEY not in str(bad)
    store.close()
    assert KEY.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_bodies_are_the_same_as_in_single_requests(server: Any, store: BatchStore) -> None:
    """Including schemas, log probabilities, images, stop sequences, seeds and cache marks."""
    messages = [
        Message("system", "examples " * 2000, is_kept=True),
        Message("user", "What is this?"),
        Message("user", "Look.", images=(Image(b"\x89PNG\r\n\x1a\n", "image/png"),)),
    ]
    options: dict[str, Any] = {"schema": SCHEMA, "max_tokens": 99, "temperature": 0.5, "stop": ["END"], "seed": 3}
    plain = connect(server.name, base_url=server.url, api_key=KEY)
    options |= {"logprobs": True, "is_quick": True} if plain.has_logprobs else {}
    (direct,) = asyncio.run(plain.complete(messages, **options))
    (reply,) = asyncio.run(model(server, store).complete(messages, **options))
    assert server.paid == server.direct and len(server.paid) == 1
    assert (reply.text, reply.finish_reason, reply.tokens) == (direct.text, direct.finish_reason, direct.tokens)
    assert reply.usage.prompt_tokens == direct.usage.prompt_tokens == 1000


@pytest.mark.parametrize("name", ["openai:gpt-4o-mini", "anthropic:claude-haiku-4-5"])
def test_a_batch_costs_half(name: str, store: BatchStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    lm = connect(name, api_key=KEY)
    assert isinstance(lm, Retried)
    usual = lm._lm.estimate([Message("user", "x" * 4_000_000)]).dollars
    lm.defer(BatchOptions(store))
    assert usual is not None and usual > 0
    assert lm.estimate([Message("user", "x" * 4_000_000)]).dollars == pytest.approx(usual / 2)


def test_several_replies_are_one_batch(server: Any, store: BatchStore) -> None:
    (replies,) = ask(model(server, store), "vote", n=3, temperature=1.0)
    assert len(replies) == 3
    assert len(server.batches) <= 2  # the second has the rest, if a server ignores `n`


def test_large_queues_are_split_into_batches(server: Any, store: BatchStore) -> None:
    lm: Any = model(server, store)
    lm._lm._batches._endpoint.max_requests = 3
    server.max_requests = 3
    replies = ask(lm, *"abcdefgh")
    assert all(reply[0].text for reply in replies)
    assert len(server.batches) == 3 and len(server.paid) == 8


def test_batches_are_bounded_in_bytes(server: Any, store: BatchStore) -> None:
    lm: Any = model(server, store)
    lm._lm._batches._endpoint.max_bytes = server.max_bytes = 10_000
    assert all(reply[0].text for reply in ask(lm, *(letter * 2000 for letter in "abcdefgh")))
    assert 2 <= len(server.batches) <= 4 and len(server.paid) == 8


def test_limits_match_the_documentation(server: Any) -> None:
    lm: Any = connect(server.name, base_url=server.url, api_key=KEY)
    endpoint = lm._lm.batch_endpoint()
    assert endpoint.max_requests == server.max_requests
    assert endpoint.max_bytes <= server.max_bytes


def test_polls_become_less_frequent(server: Any, store: BatchStore) -> None:
    server.polls = 8
    ask(model(server, store), "a")
    pauses = [later - sooner for sooner, later in zip(server.looks, server.looks[1:], strict=False)]
    assert sum(pauses[5:8]) > sum(pauses[:3])


# --- failures -----------------------------------------------------------------------------------------------------


def test_a_rejected_field_is_left_out_of_the_next_batch(server: Any, store: BatchStore) -> None:
    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        if "temperature" not in body:
            return server.usual(body)  # type: ignore[no-any-return]
        error = {"message": "temperature is deprecated for this model", "type": "invalid_request_error"}
        return 400, {"type": "error", "error": error | ({"param": "temperature"} if server.name == "openai:m" else {})}

    server.answer = answer
    lm = model(server, store)
    assert all(reply[0].text for reply in ask(lm, "a", "b"))
    assert len(server.batches) == 2
    assert all(reply[0].text for reply in ask(lm, "c", "d"))
    assert len(server.batches) == 3


def test_one_bad_request_fails_alone(server: Any, store: BatchStore) -> None:
    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        if "bad" in json.dumps(body["messages"]):
            return 400, {"type": "error", "error": {"message": "prompt too long", "type": "invalid_request_error"}}
        return server.usual(body)  # type: ignore[no-any-return]

    server.answer = answer
    good, bad, other = ask(model(server, store), "good", "bad", "other")
    assert good[0].text and other[0].text
    assert isinstance(bad, LMError) and "rejects the request with HTTP 400: prompt too long" in str(bad)
    assert len(server.batches) == 1


@pytest.mark.parametrize("status", [408, 500])
def test_expired_and_failed_requests_are_sent_again(server: Any, store: BatchStore, status: int) -> None:
    failing = ["a", "b"]

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        text = json.dumps(body["messages"][-1])
        for failing_text in failing:
            if f'"{failing_text}"' in text:
                failing.remove(failing_text)
                return status, {"type": "error", "error": {"message": "internal", "type": "api_error"}}
        return server.usual(body)  # type: ignore[no-any-return]

    server.answer = answer
    replies = ask(model(server, store), *"abcd")
    assert all(reply[0].text for reply in replies)
    assert len(server.paid) == 4  # requests with a reply were not sent again
    assert len(server.batches) in (2, 3)


def test_requests_that_always_expire_are_given_up(server: Any, store: BatchStore) -> None:
    server.answer = lambda body: (408, None)
    (error,) = ask(model(server, store), "a")
    assert isinstance(error, LMError) and error.is_transient
    assert len(server.batches) == 5


def test_replies_of_a_cancelled_batch_are_used(server: Any, store: BatchStore) -> None:
    """Its replies are used; its other requests fail, and only the next evaluation sends them again."""
    server.ending = "cancelled"
    server.answer = lambda body: server.usual(body) if "good" in json.dumps(body["messages"]) else (410, None)
    good, bad = ask(model(server, store), "good", "bad")
    assert good[0].text
    assert isinstance(bad, LMError) and "was cancelled" in str(bad) and not bad.is_transient
    assert len(server.batches) == 1
    server.ending, server.answer = "completed", server.usual
    assert all(reply[0].text for reply in ask(model(server, store), "good", "bad"))
    assert len(server.paid) == 2


def test_rejected_batch_fails_its_requests(store: BatchStore) -> None:
    with stand_in_server(OpenAIServer()) as server:
        server.name, server.ending = "openai:m", "failed"  # type: ignore[attr-defined]
        errors = ask(model(server, store), "a", "b")
        for error in errors:
            assert "was rejected: Enqueued token limit reached for m (--at-once N makes smaller batches)" in str(error)
        server.ending = "completed"
        assert all(reply[0].text for reply in ask(model(server, store), "a", "b"))
        assert len(server.paid) == 2


def test_key_in_a_rejection_is_hidden(store: BatchStore) -> None:
    with stand_in_server(OpenAIServer()) as server:
        server.name, server.ending = "openai:m", "failed"  # type: ignore[attr-defined]
        server.rejection = f"Limit reached for {KEY}"
        (error,) = ask(model(server, store), "a")
        assert "Limit reached for [key]" in str(error) and KEY not in str(error)


def test_server_without_batch_endpoint_is_an_error(store: BatchStore) -> None:
    with stand_in_server(OpenAIServer()) as server:
        lm = Retried(OpenAILM("m", base_url=f"{server.url}/elsewhere", api_key=KEY))
        lm.defer(BatchOptions(store, quiet_seconds=0.1))
        (error,) = ask(lm, "a")
        assert f"{server.url}/elsewhere has no batch endpoint" in str(error)
        assert not store.open_batches(f"openai:m {server.url}/elsewhere")


@pytest.mark.parametrize("step", ["upload", "create", "look", "results"])
def test_temporary_failures_of_the_provider(server: Any, store: BatchStore, step: str) -> None:
    server.failing = {step: [503, 500, 429]}
    assert all(reply[0].text for reply in ask(model(server, store), "a", "b"))
    assert len(server.batches) == 1 and len(server.paid) == 2


def test_a_batch_whose_id_was_never_received(server: Any, store: BatchStore) -> None:
    """The provider creates the batch but replies with an error: the batch is found and not sent again."""
    server.failing = {"created": [502]}
    ask(model(server, store), "x", "y")  # batches of the same size
    assert all(reply[0].text for reply in ask(model(server, store), "a", "b"))
    assert len(server.batches) == 2 and len(server.paid) == 4


@pytest.fixture
def anthropic() -> Iterator[Any]:
    with stand_in_server(AnthropicServer()) as server:
        server.name = "anthropic:m"  # type: ignore[attr-defined]
        yield server


def add_foreign_batch(server: Any) -> None:
    """Another user of the same key sends a batch of one request, which runs for a long time."""
    lm: Any = connect(server.name, base_url=server.url, api_key=KEY)
    body = {"model": "m", "max_tokens": 1, "messages": []}
    server.held.add(asyncio.run(lm._lm.batch_endpoint().send("foreign", [("foreign-0", body)])))


def test_new_requests_do_not_wait_for_batches_of_other_users(anthropic: Any, store: BatchStore) -> None:
    """A process recorded a batch and was killed. The running batch may be that one: its requests are still unknown."""
    add_foreign_batch(anthropic)
    token, _ = store.begin(f"anthropic:m {anthropic.url}", [b"of another request"])
    ((reply,),) = asyncio.run(asyncio.wait_for(complete(model(anthropic, store), "new"), 20))
    assert reply.text and len(anthropic.paid) == 1
    assert [batch.token for batch in store.open_batches(f"anthropic:m {anthropic.url}")] == [token]


def test_batch_is_found_while_batches_of_other_users_run(anthropic: Any, store: BatchStore) -> None:
    anthropic.stalls = "created"
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(complete(model(anthropic, store), "a"), 1.5))
    anthropic.stalls = ""
    add_foreign_batch(anthropic)
    ((reply,),) = asyncio.run(asyncio.wait_for(complete(model(anthropic, store), "a"), 20))
    assert reply.text and len(anthropic.paid) == 1 and len(anthropic.batches) == 2


def test_batch_that_the_provider_never_received_is_sent(server: Any, store: BatchStore) -> None:
    """Its request is made again while the provider is searched for the batch."""
    server.stalls = "create" if server.name == "anthropic:m" else "upload"
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(complete(model(server, store), "a"), 1.5))
    server.failing, server.stalls = {"list": [503, 503, 503]}, ""
    ((reply,),) = asyncio.run(asyncio.wait_for(complete(model(server, store, quiet=0.01), "a"), 20))
    assert reply.text and len(store.known_ids()) == 1
    assert not store.open_batches(f"{server.name} {server.url}")


def test_batch_sent_with_another_key(server: Any, store: BatchStore) -> None:
    server.may_end.clear()
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(complete(model(server, store), "a"), 1.5))
    lost = dict(server.batches)
    server.batches.clear()
    (error,) = ask(model(server, store), "a")
    assert f"has no batch {next(iter(lost))}; was it sent with another key?" in str(error)
    server.batches |= lost
    server.may_end.set()
    (reply,) = ask(model(server, store), "a")
    assert reply[0].text and len(server.paid) == 1


def test_damaged_store_is_an_error_and_kept(server: Any, tmp_path: Path) -> None:
    path = tmp_path / "batches.sqlite"
    path.write_bytes(b"not a database, and long enough to be read as one" * 100)
    (error,) = ask(model(server, BatchStore(path)), "a")
    assert isinstance(error, InputError) and str(path) in str(error)
    assert not server.batches
    assert path.read_bytes().startswith(b"not a database")


def test_a_store_that_is_damaged_while_requests_wait(server: Any, store: BatchStore, tmp_path: Path) -> None:
    async def run() -> list[Any]:
        waiting = asyncio.create_task(complete(model(server, store, quiet=0.5), "a", "b"))
        await asyncio.to_thread(wait_for, (tmp_path / "batches.sqlite").exists)
        await asyncio.sleep(0.1)
        with contextlib.closing(sqlite3.connect(tmp_path / "batches.sqlite")) as file:
            file.execute("DROP TABLE requests")
        return await asyncio.wait_for(waiting, 20)

    for error in asyncio.run(run()):
        assert isinstance(error, InputError) and "no such table" in str(error)
    assert not server.batches


def test_two_roles_of_one_model_share_its_batches(server: Any, store: BatchStore) -> None:
    """The second role requests values while the batch of the first is sent, as in `--model X --emulator small,X`."""
    options = BatchOptions(store, quiet_seconds=0.1, poll_seconds=0.02)
    writer, emulator = deferred(server, options), deferred(server, options)
    server.stalls = "create"

    async def run() -> list[Any]:
        first = asyncio.create_task(complete(writer, "a", "b"))
        await asyncio.to_thread(server.is_stalled.wait, 20)
        server.stalls = ""
        second = asyncio.create_task(complete(emulator, "c"))
        await asyncio.sleep(1)
        server.may_continue.set()
        return [*await first, *await second]

    assert all(reply[0].text for reply in asyncio.run(run()))
    assert len(server.batches) == 2 and len(server.paid) == 3


def test_request_cancelled_before_sending_is_not_sent(server: Any, store: BatchStore) -> None:
    async def run() -> None:
        lm = model(server, store, quiet=0.5)
        (first, second) = (asyncio.create_task(lm.complete(messages)) for messages in conversations("a", "b"))
        await asyncio.sleep(0.1)
        second.cancel()
        await first

    asyncio.run(run())
    assert len(server.paid) == 1


def test_reply_to_cancelled_request_is_kept_for_next_caller(server: Any, store: BatchStore) -> None:
    async def run() -> None:
        lm = model(server, store)
        server.may_end.clear()
        task = asyncio.create_task(lm.complete(conversations("a")[0]))
        await asyncio.to_thread(wait_for, lambda: server.batches)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        server.may_end.set()
        await lm.complete(conversations("a")[0])

    asyncio.run(run())
    assert len(server.paid) == 1


def test_another_event_loop_continues_a_batch(server: Any, store: BatchStore) -> None:
    lm = model(server, store)
    server.may_end.clear()

    async def until_sent() -> None:
        task = asyncio.create_task(complete(lm, "a"))
        await asyncio.to_thread(wait_for, lambda: server.looks)
        task.cancel()

    asyncio.run(until_sent())
    server.may_end.set()
    (reply,) = ask(lm, "a")
    assert reply[0].text and len(server.paid) == 1


def test_equal_requests_have_their_own_replies(server: Any, store: BatchStore) -> None:
    """They are votes; a resumed evaluation gets as many replies as there were requests."""
    assert len(ask(model(server, store), "a", "a", "a")) == 3
    assert len(server.paid) == 3
    ask(model(server, store), "a", "a", "a", "a")
    assert len(server.paid) == 4


# --- evaluations --------------------------------------------------------------------------------------------------


def suite(tmp_path: Path, samples: int = 6) -> Path:
    """Programs with two calls that go out together, and a third that needs both."""
    program = "a, b = is_fruit('fig {0}'), is_tool('saw {0}')\nanswer = both(a, b, {0})"
    lines = [json.dumps({"id": f"s{n}", "program": program.format(n), "targets": [True]}) for n in range(samples)]
    (tmp_path / "suite.jsonl").write_text("\n".join(lines))
    return tmp_path / "suite.jsonl"


def coc(server: Any, path: Path, *more: str) -> subprocess.Popen[str]:
    options = ["--model", server.name, "--base-url", server.url, "--api-key", KEY, *more]
    command = [sys.executable, "-m", "chainofcode", "eval", str(path), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.mark.nightly
@pytest.mark.sampled(2)
def test_evaluation_in_batches(server: Any, tmp_path: Path) -> None:
    """Calls that lookahead finds are in the first batch; the table states that batches cost half."""
    out = tmp_path / "out"
    code, table, notes = finished(coc(server, suite(tmp_path), "--batch", "--out", str(out)))
    assert code == 0, notes
    assert "in batches at half price: 6 of 6 right" in table
    assert all(json.loads(line)["verdict"] == "right" for line in (out / "results.jsonl").read_text().splitlines())
    sizes = [notes.count(f"a batch of {size} requests") for size in (12, 6)]
    assert sizes == [1, 1] and len(server.batches) == 2
    assert len(server.paid) == 18 and not server.direct
    code, table, notes = finished(coc(server, tmp_path / "suite.jsonl", "--batch", "--out", str(out)))
    assert code == 0 and "6 of 6 are already done" in notes and len(server.paid) == 18
    code, _, notes = finished(coc(server, tmp_path / "suite.jsonl", "--out", str(out)))
    assert code == 2 and "has a run with batch = 'at half price', not ''" in notes


def wait_for(is_met: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not is_met():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.nightly
@pytest.mark.parametrize("moment", ["created", "running", "results"])
def test_killed_evaluation_pays_for_nothing_twice(server: Any, tmp_path: Path, moment: str) -> None:
    """Killed while a batch is created, while it runs, and while its results are read."""
    out, path = tmp_path / "out", suite(tmp_path)
    server.stalls = moment
    if moment == "running":
        server.may_end.clear()
    process = coc(server, path, "--batch", "--out", str(out))
    try:
        wait_for(lambda: server.is_stalled.is_set() or (moment == "running" and server.looks))
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert len(server.batches) == 1
    server.stalls = ""
    server.may_end.set()
    server.may_continue.set()
    code, table, notes = finished(coc(server, path, "--batch", "--out", str(out)))
    assert code == 0, notes
    assert "6 of 6 right" in table and "waiting for the batch of 12 requests that was sent earlier" in notes
    assert len(server.batches) == 2
    bodies = [json.dumps(body, sort_keys=True) for body in server.paid]
    assert len(bodies) == len(set(bodies)) == 18


@pytest.mark.parametrize("name", ["ollama:m", "gemini:m", "scripted:FILE"])
def test_providers_without_batches(name: str, tmp_path: Path) -> None:
    """An error before anything is requested or written."""
    path = suite(tmp_path)
    (tmp_path / "script.jsonl").write_text('"True"\n')
    name = name.replace("FILE", str(tmp_path / "script.jsonl"))
    more = ["--base-url", "http://127.0.0.1:9"] if not name.startswith("scripted") else []
    command = [sys.executable, "-m", "chainofcode", "eval", str(path), "--model", name, *more, "--batch"]
    done = subprocess.run([*command, "--out", str(tmp_path / "out")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert f"{name} has no batch endpoint: --batch needs a model of openai: or anthropic:" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("openai:m", "| `openai:` at OpenAI "),
        ("anthropic:m", "| `anthropic:` "),
        ("gemini:m", "| `gemini:` "),
        ("ollama:m", "| `ollama:` "),
    ],
)
def test_batch_column_of_the_documentation(name: str, row: str) -> None:
    lines = (ROOT / "docs" / "models.md").read_text().split("\n")
    (head,) = [line.split(" | ") for line in lines if line.startswith("| provider | schema")]
    (cells,) = [line.split(" | ") for line in lines if line.startswith(row)]
    assert cells[head.index("batch endpoint")] == ("yes" if connect(name, api_key=KEY).has_batches else "no")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--batch"], "--batch needs --out DIR"),
        (["--batch", "--out", "o", "--per-minute", "5"], "--per-minute cannot be combined with --batch"),
        (["--batch", "--out", "o", "--engine", "ray"], "--batch cannot be combined with --engine ray"),
    ],
)
def test_options_that_exclude_each_other(options: list[str], message: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "chainofcode", "eval", "emulation", "--model", "openai:m", "--api-key", KEY]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr


# --- the store, and the stand-ins ---------------------------------------------------------------------------------


def test_store_keeps_only_requests_with_replies(tmp_path: Path) -> None:
    store = BatchStore(tmp_path / "batches.sqlite")
    token, (first, second) = store.begin("m", [b"1", b"2"])
    store.note_sent(token, "batch_1")
    store.keep([(first, b"reply")])
    store.close()
    store = BatchStore(tmp_path / "batches.sqlite")
    assert [(batch.id, batch.requests) for batch in store.open_batches("m")] == [("batch_1", 2)]
    assert store.open_batches("another") == []
    store.finish(token)
    assert store.open_batches("m") == []
    found = store.find(b"1", ())
    assert found is not None and found.reply == b"reply"
    assert store.find(b"1", {first}) is None
    assert store.find(b"2", ()) is None and store.reply(second) is None
    store.close()
    with sqlite3.connect(tmp_path / "batches.sqlite") as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([("a b", {"max_tokens": 1})], "custom_id: must match"),
        ([("a" * 65, {"max_tokens": 1})], "custom_id: must match"),
        ([("a", {"max_tokens": 1}), ("a", {"max_tokens": 1})], "custom_id: must be unique"),
        ([("a", {"max_tokens": 1, "stream": True})], "stream: not supported"),
        ([], "requests: must have 1 to"),
    ],
)
def test_anthropic_stand_in_refuses_invalid_requests(requests: list[Any], message: str) -> None:
    with stand_in_server(AnthropicServer()) as server:
        lm: Any = connect("anthropic:m", base_url=server.url, api_key=KEY)
        with pytest.raises(LMError, match=message):
            asyncio.run(lm._lm.batch_endpoint().send("token", requests))
        assert not server.batches


@pytest.mark.parametrize(
    ("bodies", "message"),
    [
        ([("a", {"model": "m"}), ("a", {"model": "m"})], "custom_id: must be unique"),
        ([("", {"model": "m"})], "custom_id: must match"),
        ([("a", {"model": "m"}), ("b", {"model": "n"})], "must have one model"),
        ([("a", {"model": "m", "stream": True})], "stream is not supported"),
    ],
)
def test_openai_stand_in_refuses_invalid_requests(bodies: list[Any], message: str) -> None:
    """OpenAI validates the file after the batch was created."""
    with stand_in_server(OpenAIServer()) as server:
        endpoint = OpenAILM("m", base_url=server.url, api_key=KEY).batch_endpoint()

        async def state() -> Any:
            return await endpoint.look_up(await endpoint.send("token", bodies))

        batch = asyncio.run(state())
        assert batch.is_ended and not batch.is_transient and message in batch.problem
        assert not server.paid
