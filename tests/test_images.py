"""Images as arguments of calls: what a model receives, what the trace keeps, and which images are rejected."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from judging import Judge
from serving import served
from test_cli import coc

from chainofcode import LM, Completion, LMError, Message, Result, ScriptedLM, Usage, run, solve
from chainofcode.audit import replay
from chainofcode.audit.replay.resume import Resumed
from chainofcode.emulator import Asking, Cascade, Pause, Toolbox
from chainofcode.emulator.accounting import accounted
from chainofcode.emulator.image_arguments import MAX_IMAGE_BYTES, MAX_IMAGES
from chainofcode.emulator.value_cache import ValueCache
from chainofcode.errors import EmulationError
from chainofcode.explain import aexplain
from chainofcode.languages import LANGUAGES
from chainofcode.lm import Image, as_lm, connect
from chainofcode.lm.local import LocalLM
from chainofcode.lm.vision import sees_images
from chainofcode.lm.wrappers import Batched
from chainofcode.program import Program
from chainofcode.trace import as_json
from chainofcode.values.image_bytes import image_note, media_type


def png(red: int, size: int = 0) -> bytes:
    """A real image of one pixel, followed by `size` more bytes."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(bytes([0, red, 0, 0]))
    image = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")
    return image + bytes(size)


JAVASCRIPT = LANGUAGES["javascript"]
RED, DARK = png(255), png(1)


class Seeing(LM):
    """Answers with the digests of the images in a request, and keeps the requests."""

    name, in_flight, has_images = "seeing", 8, True

    def __init__(self) -> None:
        self.requests: list[tuple[Message, ...]] = []

    async def complete(self, messages: Sequence[Message], n: int = 1, **options: Any) -> list[Completion]:
        self.requests.append(tuple(messages))
        await asyncio.sleep(0)
        return [Completion(json.dumps({"value": digests(messages[-1].images)}), Usage(requests=1))] * n


def digests(images: Sequence[Image]) -> str:
    return " ".join(f"{image.media_type} {digest(image.data)}" for image in images)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]


def expected(*images: bytes) -> str:
    """The answer of `Seeing` to these images."""
    return digests([Image(image, "image/png") for image in images])


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    path.write_bytes(RED)
    return path


def run_with_photo(program: str, photo: Path, lm: Any = None, **options: Any) -> Result:
    return run(program, lm or Seeing(), inputs={"photo": str(photo)}, reads=[str(photo)], **options)


# --- what a model sees ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program",
    [
        "answer = describe(photo)",
        "answer = describe(picture=photo)",
        "answer = describe(open(photo, 'rb').read())",
        "answer = describe([photo])",
        "answer = [describe(p) for p in (photo,)][0]",
    ],
)
def test_a_model_sees_a_granted_file_and_bytes(photo: Path, program: str) -> None:
    assert run_with_photo(program, photo).answer == expected(RED)


def test_images_are_sent_in_argument_order(photo: Path) -> None:
    lm = Seeing()
    result = run_with_photo(f"answer = same(photo, ({DARK!r}, photo), other={DARK!r})", photo, lm)
    assert result.answer == expected(RED, DARK, RED, DARK)
    assert "in the order of its arguments" in lm.requests[0][-1].content


def test_other_arguments_are_not_images(photo: Path) -> None:
    lm = Seeing()
    program = f"answer = [describe(v) for v in ('photo.png', b'bytes', {str(photo.parent)!r}, photo + ' ', 1)]"
    assert run_with_photo(program, photo, lm).answer == [""] * 5
    assert not any(message.images for request in lm.requests for message in request)


def test_emulated_statement_sends_no_images(photo: Path) -> None:
    lm = ScriptedLM(['{"answer": 3}'])
    assert run_with_photo("answer = the number of people in photo", photo, lm).answer == 3
    assert not lm.requests[0][-1].images


def test_only_granted_files_are_read(tmp_path: Path, photo: Path) -> None:
    """The program chooses the paths, so the host reads only files that were granted individually."""
    secret = tmp_path / "secret" / "secret.png"
    secret.parent.mkdir()
    secret.write_bytes(DARK)
    os.symlink(secret, tmp_path / "link.png")
    program = f"answer = [describe({str(secret)!r}), describe({str(tmp_path / 'link.png')!r})]"
    assert run_with_photo(program, photo).answer == ["", ""]
    assert run(program, Seeing(), reads=[str(tmp_path)]).answer == ["", ""]


def test_named_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    lm = Seeing()
    pause = _pause(str(tmp_path / "pipe"))
    assert asyncio.run(Asking(lm).answer(pause)).value == ""
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(EmulationError, match=r"pipe.png: it is not a PNG, JPEG, GIF or WebP image"):
        asyncio.run(Asking(lm).answer(_pause(str(tmp_path / "pipe.png"))))


def _pause(path: str) -> Any:
    return Pause(
        kind="call", text=f"describe({path!r})", name="describe", args=(path,), kwargs={}, names=(), line=1, error=None,
        program=Program("answer = describe(path)"), question=None, type="str", given={"reads": [path]},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (RED, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a...", "image/gif"),
        (b"GIF87a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVE", ""),
        (b"BM......", ""),
        (b"<svg>", ""),
        (b"\x89PNG", ""),
        (b"", ""),
    ],
)
def test_media_type_is_detected_from_first_bytes(data: bytes, kind: str) -> None:
    assert media_type(data) == kind
    assert image_note(data).startswith(f"<{kind}, {len(data)} bytes") is bool(kind)


def test_javascript_passes_images_as_paths(photo: Path) -> None:
    pytest.importorskip("_quickjs", reason="the extra `js` is not installed")
    assert run_with_photo("const answer = describe(photo)", photo, language=JAVASCRIPT).answer == expected(RED)


# --- what is rejected -----------------------------------------------------------------------------------------------


def test_model_without_image_support_gets_no_request(photo: Path) -> None:
    lm = Seeing()
    lm.has_images = False
    for program in ("answer = describe(photo)", f"answer = describe({RED!r})"):
        with pytest.raises(LMError, match=r"seeing cannot see images, so it cannot answer describe\(.* --images"):
            run_with_photo(program, photo, lm)
    assert not lm.requests
    assert run_with_photo("answer = describe('a red square')", photo, lm).answer == ""


def test_unused_image_needs_no_image_support(photo: Path) -> None:
    lm = Seeing()
    lm.has_images = False
    assert run_with_photo("answer = len(open(photo, 'rb').read())", photo, lm).answer == len(RED)
    assert (
        run_with_photo("answer = describe(photo) if len(photo) < 3 else 7", photo, lm).answer == 7
    )  # lookahead may reach the call


@pytest.mark.parametrize("what", ["photo", "open(photo, 'rb').read()", "[open(photo, 'rb').read()]"])
@pytest.mark.parametrize("size", [MAX_IMAGE_BYTES, 5_000_000])
def test_large_image_is_rejected(photo: Path, what: str, size: int) -> None:
    photo.write_bytes(png(1, size))
    lm = Seeing()
    result = run_with_photo(f"answer = describe({what})", photo, lm)
    assert result.reason == "emulation failed" and result.error is not None
    assert "over 3,750,000 bytes; make it smaller" in result.error.message
    assert not lm.requests


def test_image_of_maximum_size_is_sent(photo: Path) -> None:
    photo.write_bytes(whole := png(1, MAX_IMAGE_BYTES - len(DARK)))
    assert run_with_photo(
        "answer = describe(photo) + describe(open(photo, 'rb').read())", photo
    ).answer == 2 * expected(whole)


def test_text_that_looks_like_an_image_note_is_not_an_image(photo: Path) -> None:
    assert run_with_photo("answer = describe(['<image/png, of 5 bytes>' * 300_000])", photo).answer == ""


def test_explain_lists_calls_whose_images_cannot_be_sent(photo: Path) -> None:
    calls = asyncio.run(aexplain(f"answer = [describe({RED!r}), describe([{RED!r}] * 17)]")).calls
    assert [call.round for call in calls] == [1, 1]
    assert calls[0].tokens > 0 == calls[1].tokens


def test_unsupported_image_format_is_rejected(tmp_path: Path) -> None:
    scan = tmp_path / "scan.tiff"
    scan.write_bytes(b"II*\x00")
    result = run_with_photo("answer = describe(photo)", scan)
    assert result.error is not None
    assert result.error.message.endswith("scan.tiff: it is not a PNG, JPEG, GIF or WebP image")


def test_number_of_images_per_call_is_limited(photo: Path) -> None:
    assert run_with_photo(f"answer = describe([photo] * {MAX_IMAGES})", photo).answer == expected(*[RED] * MAX_IMAGES)
    result = run_with_photo(f"answer = describe([photo] * {MAX_IMAGES + 1})", photo)
    assert result.error is not None and "describe has 17 images; the limit is 16 per call" in result.error.message


def test_embedded_model_rejects_images(photo: Path) -> None:
    lm = LocalLM("smollm2-135m")
    assert not lm.has_images
    with pytest.raises(LMError, match="local:smollm2-135m cannot see images"):
        asyncio.run(lm.complete([Message("user", "What is it?", images=(Image(RED, "image/png"),))]))


# --- traces, replay, caches -----------------------------------------------------------------------------------------


def test_trace_contains_a_note_instead_of_the_image(photo: Path) -> None:
    photo.write_bytes(whole := png(1, 1_000_000))
    for what in ("photo", "open(photo, 'rb').read()"):
        result = run_with_photo(f"answer = describe({what})", photo)
        (call,) = result.trace.calls
        assert f"<image/png, {len(whole):,} bytes, sha256 {hashlib.sha256(whole).hexdigest()[:32]}>" in call.prompt
        text = b"".join(map(as_json, result.trace.events)).decode()
        assert len(text) < 5000
        assert base64.b64encode(whole)[:40].decode() not in text
        assert replay(result.trace).is_same


def test_replay_distinguishes_images(photo: Path) -> None:
    result = run_with_photo(f"answer = [describe(x) for x in ({RED!r}, {DARK!r}, {RED!r})]", photo)
    assert result.answer == [expected(RED), expected(DARK), expected(RED)]
    assert result.usage.requests == 2  # equal images share their value
    assert replay(result.trace).is_same
    assert len({step.call for step in result.trace.steps if step.by == "lm"}) == 2


def test_resumed_run_requests_only_missing_values(photo: Path) -> None:
    lm = Seeing()
    whole = run_with_photo(f"answer = [describe({RED!r}), describe({DARK!r})]", photo, lm, in_flight=1)
    first = [event for event in whole.trace.events if getattr(event, "number", 0) < 2]
    cut = Result.of([event for event in first if type(event).__name__ not in ("Answer", "Call")]).trace
    resumed = Resumed(cut)
    assert resumed.program is not None
    again = Seeing()
    result = run(resumed.program, again, options=resumed.options(Toolbox.of(())))
    assert result.answer == whole.answer
    assert [digests(request[-1].images) for request in again.requests] == [expected(DARK)]


def test_cache_identifies_images_by_content(photo: Path, tmp_path: Path) -> None:
    lm = Seeing()
    for what in ("photo", "open(photo, 'rb').read()"):
        with ValueCache(tmp_path / digest(what.encode())) as cache:
            for data, requests in ((RED, 1), (RED, 0), (DARK, 1)):
                photo.write_bytes(data)
                os.utime(photo, ns=(0, data[-20]))
                lm.requests.clear()
                assert run_with_photo(f"answer = describe({what})", photo, cache.emulator(lm)).answer == expected(data)
                assert len(lm.requests) == requests


def test_calls_with_images_are_not_batched(photo: Path) -> None:
    lm = Seeing()
    program = f"answer = [describe(x) for x in (photo, {DARK!r})]"
    assert run_with_photo(program, photo, Batched(lm, 4)).answer == [expected(RED), expected(DARK)]
    assert len(lm.requests) == 2


def test_cascade_skips_models_without_image_support(photo: Path) -> None:
    blind, lm = Judge({}), Seeing()
    assert run_with_photo("answer = describe(photo)", photo, Cascade([blind, lm])).answer == expected(RED)
    assert run_with_photo("answer = describe(photo)", photo, Cascade([lm, blind])).answer == expected(RED)
    with pytest.raises(LMError, match="cannot see images"):
        run_with_photo("answer = describe(photo)", photo, Cascade([blind, blind]))


def test_cancelled_request_is_recorded_and_counted() -> None:
    class Slow(Seeing):
        async def complete(self, messages: Sequence[Message], n: int = 1, **options: Any) -> list[Completion]:
            await asyncio.sleep(60)
            return []

    async def cancelled() -> Any:
        lm = accounted(Slow())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await lm.complete([Message("user", "What is it?", images=(Image(RED, "image/png"),))])
        return lm.abandoned()

    (call,) = asyncio.run(cancelled())
    assert call.prompt == f"{image_note(RED)}\nWhat is it?"
    assert call.usage.prompt_tokens > 1000


# --- models and commands --------------------------------------------------------------------------------------------


def test_program_prompt_states_whether_functions_see_images(photo: Path) -> None:
    lm = ScriptedLM(["answer = describe(photo)"])
    result = solve("What is it?", lm, files=[photo], emulator=Seeing())
    assert result.answer == expected(RED)
    assert "can see an image: pass it the variable" in lm.requests[0][-1].content
    blind = Seeing()
    blind.has_images = False
    for emulator in (blind, Cascade([blind, blind])):
        lm = ScriptedLM(["answer = 1"])
        solve("What is it?", lm, files=[photo], emulator=emulator)
        assert "Functions that you do not define cannot see images." in lm.requests[0][-1].content


SEE = """
gpt-4o gpt-4o-mini gpt-4.1-nano gpt-4-turbo gpt-5 gpt-5.1 gpt-5-mini o1 o3 o4-mini openai/gpt-4o chatgpt-4o-latest
claude-haiku-4-5 claude-3-haiku-20240307 claude-opus-4-5 anthropic/claude-sonnet-4 gemini-2.5-flash
gemini-3-flash-preview google/gemini-2.0-flash-001 gemma3 gemma3:4b gemma3:12b gemma-3-27b-it gemma4:31b llava:7b
bakllava llama3.2-vision qwen2.5vl:7b qwen3-vl Qwen/Qwen2.5-VL-72B-Instruct mistral-small3.2 pixtral-12b-2409
meta-llama/Llama-4-Scout-17B moondream minicpm-v internvl3
"""
BLIND = """
gpt-3.5-turbo gpt-4 gpt-4-0613 gpt-4-turbo-preview gpt-oss:20b o1-mini o1-preview o3-mini gpt-4o-audio-preview
gpt-4o-realtime-preview gpt-4o-transcribe gpt-4o-search-preview claude-2.1 claude-instant-1 gemini-embedding-001
gemma3:1b gemma3:270m gemma-3-1b-it gemma3n gemma2 llama3.2 llama3.1:70b qwen2.5-coder qwen3 mistral-small
deepseek-v3 phi4 m vllm-model curvl
"""


def test_model_names_with_image_support() -> None:
    assert [name for name in SEE.split() if not sees_images(name)] == []
    assert [name for name in BLIND.split() if sees_images(name)] == []


def test_image_support_can_be_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    monkeypatch.delenv("COC_IMAGES", raising=False)
    remote: Any = {"base_url": "http://127.0.0.1:1", "api_key": "k"}
    assert connect("openai:gpt-4o", **remote).has_images
    assert not connect("openai:m", **remote).has_images
    assert connect("openai:m", has_images=True, **remote).has_images
    assert connect("ollama:llava").has_images and connect("gemini:gemini-2.5-flash", **remote).has_images
    assert connect("anthropic:claude-haiku-4-5", **remote).has_images
    monkeypatch.setenv("COC_IMAGES", "1")
    assert connect("openai:m", **remote).has_images
    assert not connect("openai:gpt-4o", has_images=False, **remote).has_images
    assert not connect("local:smollm2-135m").has_images
    monkeypatch.setenv("COC_IMAGES", "some")
    with pytest.raises(LMError, match="COC_IMAGES must be 1 or 0, not 'some'"):
        connect("openai:m", **remote)


def test_custom_models_have_no_image_support_by_default() -> None:
    class Minimal:
        name = "mine"

        async def complete(self, messages: Any, **options: Any) -> Any: ...

    assert not as_lm(Minimal()).has_images
    Minimal.has_images = True  # type: ignore[attr-defined]
    assert as_lm(Minimal()).has_images


def test_run_command_with_images(photo: Path, tmp_path: Path) -> None:
    program = tmp_path / "p.py"
    program.write_text("answer = read_receipt(photo)['total']")
    script = tmp_path / "replies.jsonl"
    script.write_text(json.dumps({"when": "read_receipt(", "reply": '{"value": {"total": 12.5}}'}))
    command = ["run", str(program), "--file", str(photo), "--model", f"scripted:{script}"]
    assert coc(*command).stdout.startswith("answer: 12.5\n")
    refused = coc(*command, "--no-images")
    assert refused.returncode != 0
    assert "cannot see images, so it cannot answer read_receipt(" in refused.stderr


def test_server_passes_uploaded_image_to_the_model(tmp_path: Path) -> None:
    script = [
        {"when": "What is in the photo?", "reply": "```python\nanswer = describe(photo)\n```"},
        {"when": "describe('", "reply": '{"value": "a red square"}'},
    ]
    with served(tmp_path, script=script) as server:
        id = server.client.post("/api/files", params={"name": "photo.png"}, content=RED).json()["id"]
        run = server.over(server.begin("What is in the photo?", files=[id]))
        trace = server.client.get(f"/api/runs/{run['id']}/trace").text
    assert run["state"] == "done"
    assert image_note(RED) in trace
    assert "'a red square'" in trace
