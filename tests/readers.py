"""All readers of untrusted data, each as a function of the data, for the fuzzer and the tests of time and memory.

A reader returns any value or raises one of its `errors`; any other exception is a defect.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from chainofcode import ScriptedLM, Trace
from chainofcode.audit.faithfulness import echo, flips, mutations
from chainofcode.audit.provenance.followed import Provenance
from chainofcode.audit.provenance.why import why_data, why_lines
from chainofcode.audit.replay.alignment import side_by_side
from chainofcode.audit.replay.changes import call_and_value
from chainofcode.audit.replay.integrity import check_chain
from chainofcode.audit.replay.recorded import Run, runs_of
from chainofcode.audit.replay.timeline import Timeline
from chainofcode.emulator import Table, confidence
from chainofcode.emulator.mcp_client import _Spec
from chainofcode.emulator.openapi_operations import read_operations
from chainofcode.emulator.pause import Pause
from chainofcode.emulator.replies import data_in, delta_in, text_in, unfenced
from chainofcode.emulator.types import BOOL, NAMED, NUMBER, Misfit, kind_of
from chainofcode.emulator.value_cache import ValueCache
from chainofcode.engine import RunOptions
from chainofcode.engine.journal import journal_of, read_interrupted
from chainofcode.errors import InputError, LMError, TraceError
from chainofcode.evals import scoring
from chainofcode.languages.javascript.guest.main import CompiledProgram
from chainofcode.languages.python.compiler.parse import NotAProgram, parse
from chainofcode.languages.python.guest.main import Prepared
from chainofcode.languages.sql.compiler.query_plan import plan_of
from chainofcode.languages.sql.compiler.script import script_of
from chainofcode.lm.openai import OpenAILM
from chainofcode.lm.openai import _decoder as openai_decoder
from chainofcode.lm.remote import RequestRejected, _error_in
from chainofcode.lm.reply_store import ReplyStore
from chainofcode.lm.reply_stream import ChatStream, MessageStream, ReplyStream
from chainofcode.markup import as_html
from chainofcode.methods import files_of
from chainofcode.methods.answers import answer_type_of
from chainofcode.methods.plain_schema import NotPlain, PlainSchema
from chainofcode.methods.prompting import answer_in, block_in
from chainofcode.program import Program
from chainofcode.render import Page
from chainofcode.sandbox.frames import FrameError, Lineage, OutputLimit, Reader
from chainofcode.sandbox.frames import encode as encode_frame
from chainofcode.sandbox.job import Limits
from chainofcode.sandbox.packets import GuestExit, GuestOrder, Packet, PacketError, read_packet, understood
from chainofcode.server.caller_tools import CallerTools, ClientTool, offered
from chainofcode.server.refusal import Refusal
from chainofcode.trace import Answer, Step
from chainofcode.values.codec import ValueFormatError, brief, decode, encode


@dataclass(frozen=True)
class Untrusted:
    """A reader of untrusted data: `kind` is the kind of data (`text`, `bytes`, `json`: decoded data, or `lineage`)."""

    kind: str
    read: Callable[[Any], object]
    errors: tuple[type[Exception], ...] = ()


# --- the readers --------------------------------------------------------------------------------------------------


def frames(data: bytes) -> list[Any]:
    limits = Limits()
    may = {"may_write": True, "is_shadow": True, "is_recorded": True}
    reader = Reader(limits.frame_bytes, limits.output_bytes, calls=limits.lm_calls, **may)
    reader.feed(data)
    signals: list[Any] = []
    while (signal := reader.next()) is not None:
        signals.append(signal)
    return signals


def packets(data: bytes) -> list[object]:
    """Read packets of a remote sandbox, from either side."""

    async def read() -> list[object]:
        reader, contents = asyncio.StreamReader(), list[object]()
        reader.feed_data(data)
        reader.feed_eof()
        while not reader.at_eof():
            kind, content = await read_packet(reader)
            kinds = {Packet.ORDER: GuestOrder, Packet.EXIT: GuestExit}
            contents.append(understood(content, kinds[kind]) if kind in kinds else content)
        return contents

    return asyncio.run(read())


def value(data: Any) -> object:
    decoded = decode(data)
    return encode(decoded), brief(decoded, 100)


def trace(data: bytes) -> Trace:
    lines = data.splitlines()
    check_chain(lines)
    return Trace.parse(lines)


def journal(data: bytes) -> Trace:
    """Read the journal of a killed run."""
    with written("run.jsonl", b"") as path:
        path.unlink()
        journal_of(path).write_bytes(data)
        return read_interrupted(path)


def kept_value(data: bytes) -> object:
    """Read a cached value that another process may have written."""
    with written("kept", b"") as path, ValueCache(path.parent) as cache:
        store = ReplyStore(path.parent / "replies.sqlite")
        store.put(b"key", data)
        store.close()
        keeping: Any = cache.emulator(ScriptedLM([]))
        return keeping._look_up(b"key")


def kept_file(data: bytes) -> object:
    """Read a file as a cache."""
    with written("replies.sqlite", data) as path, ValueCache(path.parent) as cache:
        keeping: Any = cache.emulator(ScriptedLM([]))
        return keeping._look_up(b"key")


def shown(data: bytes) -> object:
    read = trace(data)
    text = "\n".join([*Page(100, True).trace(read), *Page(100, False, True, True).trace(read)])
    return text, as_html(read)


def compared(data: bytes) -> object:
    read = trace(data)
    return [list(side_by_side(run, read, all_steps=True)) for run in runs_of(read)[-1:]]


def walked(data: bytes) -> object:
    """Read the parts of a trace that the debugger shows."""
    read = trace(data)
    for run in runs_of(read)[-1:]:
        line = Timeline(read, run)
        for place in {0, len(line) // 2, len(line) - 1} if len(line) else ():
            line.state(place), line.output(place), line.find("zz", place)
    return read


def why(lineage: Lineage) -> object:
    """Read a lineage as the host does: from the guest's last frame, checked against the program."""
    statements = [[number, 0, number, 5, "Assign"] for number in (1, 2, 3)]
    parsed = {"type": "parsed", "program": {"event": "program", "source": "x = 1\n" * 3, "statements": statements}}
    ended = {"type": "ended", "reason": "answered", "answer": 1, "text": "1", "source": "variable"}
    signals = frames(encode_frame(parsed) + encode_frame({**ended, "lineage": msgspec.to_builtins(lineage)}))
    program, last = signals[0].program, signals[-1]
    ends = Answer("answered", 1, "1", "variable")
    steps = [Step(number, "python", 0, 1, visit=number) for number in range(1, len(lineage.nodes) + 1)]
    run = Run(1, program, tuple(steps), ends)
    found = Provenance(run, last.lineage, trace=Trace(events=[program, *steps, ends]))
    return list(why_lines(found)), why_data(found), list(found.edges())


def judged(text: str) -> object:
    """Process texts as `coc verify` does: change their words, and look for the question in calls."""
    echo._Others("zz", None, True).instead_of([text, {text: text}])
    step = SimpleNamespace(call=text, value=text)
    return echo.WholeQuestion(text).is_in(step), mutations.other_values(text), flips.other_value(text)  # type: ignore[arg-type]


@contextmanager
def written(name: str, data: str | bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, name)
        path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
        yield path


def file(name: str) -> Callable[[Any], object]:
    def read(data: Any) -> object:
        with written(name, data) as path:
            return asyncio.run(files_of([path], RunOptions())).description

    return read


def reply_value(text: str) -> object:
    return [tried(one, text, Misfit) for one in (data_in, text_in, unfenced, delta_in)]


def fitted(text: str) -> object:
    """Read a text and its parts as values of each type, like a model's reply or a person's answer."""
    parts = [text[place : place + 300] for place in range(0, len(text), 300)]
    kinds = [*NAMED, "list[timedelta | int]", "Literal['a', 'b'] | float"]
    return [tried(kind_of(name).fit, part, Misfit) for name in kinds for part in (text, *parts)]


def chat_reply(data: bytes) -> object:
    """Read the body of an endpoint's reply, and the log probabilities in it."""
    lm = OpenAILM("model", base_url="http://127.0.0.1/", api_key="none")
    replies = lm._completions([], lm._decoded(data, openai_decoder), 1.0)
    pause = Pause("call", "f_1_to_9()", "f_1_to_9", (), {}, (), 1, None, Program("answer = f_1_to_9()"), None)
    judged = [
        (confidence.judged(reply, "value", value, kind, pause), confidence.likelihood(reply, "value"))
        for reply in replies[:3]
        for value, kind in ((True, BOOL), (1, NUMBER), ("a", kind_of("Literal['a', 'b']")))
    ]
    return msgspec.json.encode(judged), msgspec.json.encode(replies)


def streamed_reply(data: bytes) -> object:
    """Join a streamed reply of either protocol that arrives byte by byte."""
    return [tried(partial(_joined, kind), data, LMError) for kind in (ChatStream, MessageStream)]


def _joined(kind: type[ReplyStream], data: bytes) -> bytes:
    stream = kind(len)  # type: ignore[arg-type]
    for place in range(len(data)):
        stream.feed(data[place : place + 1])
    return stream.body()


def error_reply(data: bytes) -> object:
    """Read the body of an endpoint's error."""
    message, param = _error_in(data)
    error = RequestRejected("", message, param)
    return error.is_about_kind, error.is_about_value, [error.blames(name) for name in ("temperature", "n", "logprobs")]


def reply_answer(text: str) -> object:
    sample = SimpleNamespace(kind="choice", question=text)
    return answer_in(text), block_in(text), scoring.stated(text, "(A)"), scoring.is_target(text, text, sample)


def tried(read: Callable[[Any], object], data: Any, *errors: type[Exception]) -> object:
    try:
        return read(data)
    except errors as error:
        return error


def reply_program(text: str) -> object:
    return parse(text)


def program(text: str) -> object:
    start = {"source": text, "is_reply": False, "packages": [], "policy": "strict", "tools": ()}
    made = []
    for more in ({}, {"is_recorded": True}, {"is_shadow": True}):
        made.append(Prepared({**start, **more}, {"question": ""}))  # noqa: PERF401 - what came first is kept
    return made[0].description()


def query(text: str) -> object:
    made = [
        plan_of(script_of(text, is_reply=is_reply), frozenset({"count"}), frozenset({"count"}))
        for is_reply in (False, True)
    ]
    return made[0].description()


def javascript(text: str) -> object:
    start = {"source": text, "is_reply": True}
    made = []
    for more in ({}, {"is_recorded": True}, {"is_shadow": True}):
        made.append(CompiledProgram({**start, **more}, {"question": ""}))  # noqa: PERF401 - what came first is kept
    return made[0].description()


def values_file(text: str) -> object:
    return Table.parse(text.split("\n"))


def change(text: str) -> object:
    return call_and_value(text)


def schema(data: Any) -> object:
    return answer_type_of(data if isinstance(data, dict) else {"const": data})


def plain_schema(data: Any) -> object:
    """Check data against a schema: the data contain both, or are their own schema."""
    given = data if isinstance(data, dict) else {"const": data}
    schema = given.get("schema", given)
    return PlainSchema(schema if isinstance(schema, dict) else {}).misfit(given.get("data", data))


def client_tools(data: Any) -> object:
    """Read the tools of a request, as the server does."""
    parameters = {"parameters": data} if isinstance(data, dict) else {}
    tools = data if isinstance(data, list) else [{"type": "function", "function": {"name": "f", **parameters}}]
    wish = offered(msgspec.json.decode(json.dumps(tools), type=list[ClientTool]), "auto")
    return [made.description for made in CallerTools(wish.functions).as_tools()]


def openapi(data: Any) -> object:
    with written("api.json", json.dumps(data)) as path:
        return read_operations(path, "http://127.0.0.1/", lambda text: None)


def mcp(data: Any) -> object:
    described = data if isinstance(data, dict) else {}
    return _Spec.of(SimpleNamespace(  # type: ignore[arg-type]
        name="f", description="f", input_schema=described, output_schema=described, annotations=None, title=None
    ))  # fmt: skip


_NO_PROGRAM = (NotAProgram, RecursionError, MemoryError)  # the guest's `main` reports the last two alike
READERS: dict[str, Untrusted] = {
    "frames": Untrusted("bytes", frames, (FrameError, OutputLimit)),
    "packets": Untrusted("bytes", packets, (PacketError, EOFError)),
    "value": Untrusted("json", value, (ValueFormatError,)),
    "trace": Untrusted("bytes", trace, (TraceError,)),
    "journal": Untrusted("bytes", journal, (TraceError,)),
    "kept value": Untrusted("bytes", kept_value),
    "kept file": Untrusted("bytes", kept_file, (LMError,)),  # of another version of SQLite
    "shown": Untrusted("bytes", shown, (TraceError,)),
    "compared": Untrusted("bytes", compared, (TraceError,)),
    "walked": Untrusted("bytes", walked, (TraceError,)),
    "why": Untrusted("lineage", why, (FrameError,)),
    "judged": Untrusted("text", judged),
    "csv": Untrusted("text", file("a.csv"), (InputError,)),
    "tsv": Untrusted("text", file("a.tsv"), (InputError,)),
    "json": Untrusted("text", file("a.json"), (InputError,)),
    "jsonl": Untrusted("text", file("a.jsonl"), (InputError,)),
    "txt": Untrusted("text", file("a.txt"), (InputError,)),
    "database": Untrusted("bytes", file("a.db"), (InputError,)),
    "reply value": Untrusted("text", reply_value),
    "fitted": Untrusted("text", fitted),
    "chat reply": Untrusted("bytes", chat_reply, (LMError,)),
    "streamed reply": Untrusted("bytes", streamed_reply),
    "error reply": Untrusted("bytes", error_reply),
    "reply answer": Untrusted("text", reply_answer),
    "reply program": Untrusted("text", reply_program, _NO_PROGRAM),
    "program": Untrusted("text", program, _NO_PROGRAM),
    "query": Untrusted("text", query, (NotAProgram,)),
    "javascript": Untrusted("text", javascript, (NotAProgram,)),
    "values file": Untrusted("text", values_file, (InputError,)),
    "change": Untrusted("text", change, (InputError,)),
    "schema": Untrusted("json", schema, (InputError,)),
    "plain schema": Untrusted("json", plain_schema, (NotPlain,)),
    "client tools": Untrusted("json", client_tools, (Refusal, msgspec.DecodeError)),
    "openapi": Untrusted("json", openapi, (InputError,)),
    "mcp": Untrusted("json", mcp),
}
