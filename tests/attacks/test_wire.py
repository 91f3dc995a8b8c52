"""The wire: an invalid frame from a guest ends its own run with a reason and has no other effect on the host.

Without a sandbox the host reads frames in the same way, so these attacks run only in one.
"""

from __future__ import annotations

import asyncio
import base64
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from chainofcode import Limits
from chainofcode.render import Page
from chainofcode.values.codec import Opaque

from .harness import IN_ANY_TIER, TierSandbox

WIRE = """
import json, struct
def write(data):
    while data:
        data = data[os.write(4, data):]
def send(body):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    write(struct.pack("<I", len(body)) + body)
def ended(**fields):
    send({"type": "ended", "reason": "answered", **fields})
def paused(number, kind="call", name="f", **fields):
    send({"type": "paused", "id": number, "kind": kind, "name": name, **{"text": f"{name}()", **fields}})
"""
BROKEN = "it broke the protocol: "
MALFORMED = BROKEN + "malformed frame"

# what the guest writes, and the message of the host
FRAMES = {
    "garbage": ("write(b'garbage that is no frame at all')", BROKEN + "a frame of 1,651,663,207 bytes"),
    "four gigabytes announced": ("write(b'\\xff' * 4)", BROKEN + "a frame of 4,294,967,295 bytes"),
    "a byte too many announced": ("write(struct.pack('<I', 2**24 + 1))", BROKEN + "a frame of 16,777,217 bytes"),
    "half a length, then the end": ("write(b'\\x01\\x00')\nlibc._exit(0)", "in the middle of a frame"),
    "half a frame, then the end": ("write(b'\\x64\\x00\\x00\\x00half')\nlibc._exit(0)", "in the middle of a frame"),
    "an empty frame": ("send(b'')", MALFORMED),
    "no UTF-8": ("send(b'\\xff\\xfe\\xfd\\xfc')", MALFORMED),
    "no UTF-8 in a text": ("send(b'{\"type\":\"ended\",\"reason\":\"\\xed\\xa0\\x80\"}')", MALFORMED),
    "half a surrogate pair": ("send(b'{\"type\":\"ended\",\"reason\":\"\\\\ud800 \"}')", MALFORMED),
    "NaN": ("send(b'NaN')", MALFORMED),
    "NaN as the answer": ("ended(answer=float('nan'))", MALFORMED),
    "infinity as the answer": ("send(b'{\"type\":\"ended\",\"reason\":\"answered\",\"answer\":1e999}')", MALFORMED),
    "a number of five thousand digits": (
        "send(b'{\"type\":\"ended\",\"reason\":\"answered\",\"answer\":' + b'9' * 5000 + b'}')", MALFORMED
    ),
    "lists a hundred thousand deep": ("send(b'[' * 100_000)", MALFORMED),
    "an answer a hundred thousand deep": (
        "send(b'{\"type\":\"ended\",\"reason\":\"answered\",\"answer\":' + b'[' * 100_000 + b']' * 100_000 + b'}')", MALFORMED
    ),
    "objects a hundred thousand deep": ("send(b'{\"a\":' * 100_000)", MALFORMED),
    "a frame that is a list": ("send([1, 2])", MALFORMED),
    "a kind that is unknown": ("send({'type': 'resume', 'id': 1, 'value': 1})", MALFORMED),
    "no kind": ("send({'reason': 'answered'})", MALFORMED),
    "two kinds": ("send(b'{\"type\":\"ended\",\"reason\":\"answered\",\"type\":\"ran\"}')", MALFORMED),
    "text for a number": ("paused('1')", MALFORMED),
    "steps that are none": ("send({'type': 'ran', 'steps': 7})", MALFORMED),
    "a second program": (
        "send({'type': 'parsed', 'program': {'event': 'program', 'source': '', 'statements': []}})",
        BROKEN + "a second program",
    ),
    "a statement that is not there": (
        "send({'type': 'ran', 'steps': [{'statement': 999, 'visit': 1}]})", BROKEN + "statement 999 of"
    ),
    "a statement before the first": (
        "send({'type': 'ran', 'steps': [{'statement': -1, 'visit': 1}]})", BROKEN + "statement -1 of"
    ),
    "an error at no statement": (
        "send({'type': 'ended', 'reason': 'error', 'error': {'type': 'E', 'message': 'm', 'statement': 999}})",
        BROKEN + "statement 999 of",
    ),
    "a lineage that nobody asked for": (
        "ended(lineage={'nodes': [[0], [0]]})", BROKEN + "a lineage that was not requested"
    ),
    "a malformed lineage": ("ended(lineage={'nodes': [['x']]})", MALFORMED),
    "a lineage with a negative index": ("ended(lineage={'nodes': [[0, [], [-1]]], 'guards': [0]})", MALFORMED),
    "a pause at no statement": ("paused(1, statement=999)", BROKEN + "statement 999 of"),
    "a pause of an unknown kind": ("paused(1, kind='shell')", MALFORMED),
    "a pause numbered below one": ("paused(0)", BROKEN + "pause 0 after pause 0"),
    "a pause twice": ("paused(1)\npaused(1)", BROKEN + "pause 1 after pause 1"),
    "pauses that count down": ("paused(1)\npaused(2)\npaused(1)", BROKEN + "pause 1 after pause 2"),
    "a pause that leaves numbers out": ("paused(1)\npaused(3)", BROKEN + "pause 3 after pause 1"),
    "a pause with names without end": ("paused(1, names=['x'] * 10_001)", BROKEN + "a pause with over 10,000 names"),
    "a pause with variables without end": (
        "paused(1, state={str(n): '' for n in range(10_001)})", BROKEN + "a pause with over 10,000 names"
    ),
    "lists without end in one frame": (
        "send(b'{\"type\":\"ended\",\"reason\":\"answered\",\"answer\":[' + b'[],' * 900_000 + b'[]]}')",
        BROKEN + "a frame that takes over 134,217,728 bytes of memory",
    ),
    "objects without end in one frame": (
        "paused(1, args=[{'a': 0}] * 600_000)", BROKEN + "a frame that takes over 134,217,728 bytes of memory"
    ),
    "an end to no pause": ("send({'type': 'settled', 'id': 7, 'statement': 0})", BROKEN + "pause 7 is not open"),
    "a survey by a program": ("send({'type': 'surveyed', 'calls': []})", BROKEN + "a `surveyed` frame from"),
    "an end to a pause before its value": (
        "paused(1)\nsend({'type': 'settled', 'id': 1, 'statement': 0})", BROKEN + "pause 1 settled before it was resumed"
    ),
    "an invented reason": ("send({'type': 'ended', 'reason': 'limit:heaven'})", BROKEN + "an end for the reason"),
    "the host's own reason": ("send({'type': 'ended', 'reason': 'limit:run'})", BROKEN + "an end for the reason"),
    "an empty reason": ("send({'type': 'ended', 'reason': ''})", BROKEN + "an end for the reason"),
    "halted by nobody": ("send({'type': 'ended', 'reason': 'halted'})", "it halted by itself"),
    "silence on the wire": ("os.close(4)\nwhile True: pass", "it closed its pipe but kept running"),
    "silence on every descriptor": ("os.closerange(0, 256)\nwhile True: pass", "it closed its pipe but kept running"),
    "its output as the wire": ("os.dup2(1, 4)\nwhile True: pass", "it closed its pipe but kept running"),
}  # fmt: skip


async def late(pause: Any) -> int:
    """A model that is slower than every limit here."""
    await asyncio.sleep(60)
    return 1


@pytest.mark.parametrize("name", FRAMES)
def test_protocol_violation_ends_run(sandbox: TierSandbox, name: str) -> None:
    program, words = FRAMES[name]
    sandbox.assert_ends(WIRE + program, "guest died", words, late)


FLOODS = {
    "steps without end": ("while True:\n    send({'type': 'ran', 'steps': []})", BROKEN + "over 104,000 steps"),
    "questions without end": (
        "number = 0\nwhile True:\n    number += 1\n    paused(number, kind='module', name='nothing')",
        BROKEN + "over 10,000 module lookups",
    ),
}  # fmt: skip


@IN_ANY_TIER
@pytest.mark.parametrize("name", FLOODS)
def test_flood_of_frames_ends_run(sandbox: TierSandbox, name: str) -> None:
    program, words = FLOODS[name]
    sandbox.assert_ends(WIRE + program, "guest died", words, late)


LIMITED = {
    "output past its limit": (
        "send({'type': 'ran', 'steps': [{'statement': 0, 'visit': 1, 'output': 'x' * 1_100_000}]})",
        "limit:output", "the program printed over 1,000,000 bytes",
    ),
    "pauses past their limit": (
        "for number in range(1, 50):\n    paused(number)", "limit:calls", "the program made over 20 calls"
    ),
    "the last number there is": ("paused(2**62)\nf()", "guest died", "pause 4611686018427387904 after pause 0"),
    "the host's words stolen": (
        "import threading\nthreading.Thread(target=os.read, args=(3, 1000), daemon=True).start()\nwhile True: pass",
        "limit:run", "the program ran for over 1 second",
    ),
    "changes without end": (
        "step = {'statement': 0, 'visit': 1, 'delta': {'x': 'y' * 10**6}}\n"
        "frame = json.dumps({'type': 'ran', 'steps': [step]}).encode()\nwhile True: send(frame)",
        "guest died", BROKEN + "over 33,554,432 bytes in all",
    ),
    "twenty voices at once": (
        "import threading\nfor _ in range(20):\n"
        "    threading.Thread(target=write, args=(b'x' * 10_000_000,), daemon=True).start()\nf()",
        "guest died", BROKEN,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITED)
def test_limits_hold_for_forged_frames(sandbox: TierSandbox, name: str) -> None:
    program, reason, words = LIMITED[name]
    sandbox.assert_ends(
        WIRE + program, reason, words, late, limits=Limits(run_seconds=1, lm_calls=20, frame_bytes=2**21)
    )


# --- how often a value may be used --------------------------------------------------------------------------------

RESUMED = (
    WIRE
    + """
def read(size):
    data = b''
    while len(data) < size:
        data += os.read(3, size - len(data))
    return data
def resumed():
    return json.loads(read(*struct.unpack('<I', read(4))))
def settled(number):
    send({'type': 'settled', 'id': number, 'statement': 0})
"""
)
OVERUSED = {
    "a call's value without end": (
        "paused(1)\nresumed()\nwhile True: settled(1)", BROKEN + "pause 1 settled too often"
    ),
    "the values of two calls without end": (
        "paused(1)\nresumed()\npaused(2)\nresumed()\nwhile True:\n    settled(1)\n    settled(2)",
        BROKEN + "over 6,000 values used again",
    ),
    "a tool's value twice": (
        "paused(1, name='look')\nresumed()\nsettled(1)\nsettled(1)", BROKEN + "pause 1 settled too often"
    ),
    "a statement twice": (
        "paused(1, kind='statement', names=['x'])\nresumed()\nsettled(1)\nsettled(1)",
        BROKEN + "pause 1 settled too often",
    ),
    "a module twice": (
        "paused(1, kind='module', name='json')\nresumed()\nsettled(1)\nsettled(1)", BROKEN + "pause 1 settled too often"
    ),
}  # fmt: skip


def nothing(pause: Any) -> Any:
    return {} if pause.kind == "statement" else 1


@IN_ANY_TIER
@pytest.mark.parametrize("name", OVERUSED)
def test_value_cannot_be_used_too_often(sandbox: TierSandbox, name: str) -> None:
    def look() -> int:
        return 7

    program, words = OVERUSED[name]
    result = sandbox.assert_ends(RESUMED + program, "guest died", words, nothing, tools=[look])
    assert sum(step.how == "shared" for step in result.trace.steps) <= 6000


@IN_ANY_TIER
def test_repeated_use_of_large_value_does_not_fill_disk(sandbox: TierSandbox) -> None:
    """A few bytes from the guest record a step with the whole value."""
    program = RESUMED + "paused(1)\nresumed()\nwhile True: settled(1)"
    words, limits = "the run recorded over 2,000,000 bytes", Limits(run_seconds=5, trace_bytes=2_000_000)
    result = sandbox.assert_ends(program, "limit:trace", words, lambda pause: "x" * 36_000, limits=limits)
    assert sum(map(len, result.trace.lines())) < 2_100_000
    assert len(result.trace.steps) > 50


OVERSIZED = {
    "an answer": "ended(answer='x' * 1_500_000, text='y' * 1_500_000)",
    "its error": "send({'type': 'ended', 'reason': 'error', 'error': {'type': 'E', 'message': 'm' * 3_000_000}})",
    "standard error": "ended(answer=1, stderr='x' * 3_000_000)",
    "files that were not sent": "ended(answer=1, unsent=['x' * 1_000_000] * 3)",
    "changes": "send({'type': 'ran', 'steps': [{'statement': 0, 'visit': 1, 'delta': {'x': 'y' * 3_000_000}}]})\nf()",
    "the text of calls": "for n in range(1, 9):\n    paused(n, text='x' * 500_000)\n    resumed()\n    settled(n)",
}


@IN_ANY_TIER
@pytest.mark.parametrize("name", OVERSIZED)
def test_everything_a_run_records_is_bounded(sandbox: TierSandbox, name: str) -> None:
    words, limits = "the run recorded over 2,000,000 bytes", Limits(run_seconds=5, trace_bytes=2_000_000)
    result = sandbox.assert_ends(RESUMED + OVERSIZED[name], "limit:trace", words, lambda pause: 1, limits=limits)
    assert sum(map(len, result.trace.lines())) < 6_000_000  # the last event may be a whole frame


@IN_ANY_TIER
def test_arguments_decoded_at_once_are_bounded(sandbox: TierSandbox) -> None:
    """Six calls wait together; the arguments of each take 60 MB as objects."""
    held, most = 0, 0
    has_filled = asyncio.Event()

    async def count(pause: Any) -> int:
        nonlocal held, most
        held += 1
        most = max(most, held)
        if most == 4:
            has_filled.set()
        await has_filled.wait()
        await asyncio.sleep(1)  # in which a fifth could come
        held -= 1
        return len(pause.args[0])

    program = "for number in range(1, 7):\n    paused(number, args=['x' * 15_000_000])\n"
    program += "ended(answer=[resumed()['value'] for number in range(1, 7)])"
    limits = Limits(run_seconds=20, cpu_seconds=20, memory_bytes=2**30)
    assert sandbox.run(RESUMED + program, count, limits=limits, in_flight=8).answer == [15_000_000] * 6
    assert most == 4  # 256 MiB


# --- forged values ------------------------------------------------------------------------------------------------

LIES = {
    "a tag that is unknown": {"$nope": 1},
    "a pickle by a tag": {"$pickle": "gASVIAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAVmYWxzZZSFlFKULg=="},
    "code by a tag": {"$eval": "__import__('os').abort()"},
    "a set of lists": {"$set": [[1]]},
    "a dict of odd pairs": {"$dict": [[1]]},
    "a fraction of nothing": {"$fraction": "1/0"},
    "a date of text": {"$date": "yesterday"},
    "a range without steps": {"$range": [0, 10, 0]},
    "bytes of a number": {"$bytes": 7},
    "a span past all time": {"$timedelta": [10**300, 0, 0]},
    "a number of words": {"$int": "seven"},
    "a decimal of lists": {"$decimal": [1, 2]},
    "text that is none": {"$text": "////"},
    "an object without a type": {"$object": {}},
    "lists two hundred deep": None,
}


@IN_ANY_TIER
@pytest.mark.parametrize("name", LIES)
def test_malformed_answer_becomes_opaque_text(sandbox: TierSandbox, name: str) -> None:
    program = "lie = json.loads('[' * 200 + ']' * 200) if lie is None else lie\nended(answer=lie, text='a lie')"
    result = sandbox.run(WIRE + f"lie = {LIES[name]!r}\n" + program)
    assert result.reason == "answered"
    assert result.answer == Opaque("unknown", "a lie")


class Bomb:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@IN_ANY_TIER
@pytest.mark.parametrize("how", ["answer = payload", "ended(answer=text, text=text)", "print(text)", "f(payload)"])
def test_pickles_are_never_loaded(sandbox: TierSandbox, tmp_path: Path, how: str) -> None:
    payload, touched = pickle.dumps(Bomb(tmp_path / "touched")), tmp_path / "touched"
    inputs = {"payload": payload, "text": base64.b64encode(payload).decode()}
    sandbox.run(WIRE + how, lambda pause: 1, inputs=inputs)
    assert not touched.exists()
    pickle.loads(payload)
    assert touched.exists()


@IN_ANY_TIER
def test_reduce_method_of_answer_is_not_called(sandbox: TierSandbox) -> None:
    program = (
        "class Answer:\n    def __reduce__(self):\n        return os.system, ('true',)\n"
        "    def __repr__(self):\n        return '__import__(\"os\").abort()'\nanswer = Answer()"
    )
    assert sandbox.run(program).answer == Opaque("Answer", "<Answer>")


def test_forged_end_only_ends_run(sandbox: TierSandbox) -> None:
    """The host reads nothing after it."""
    program = "ended(answer=[1, 2], text='[1, 2]')\nwhile True:\n    ended(answer=3)"
    result = sandbox.run(WIRE + program)
    assert result.reason == "answered"
    assert result.answer == [1, 2]


def test_program_gains_nothing_from_connection_of_guest(sandbox: TierSandbox) -> None:
    """A program can use the guest's connection; it could write the same frames itself."""
    program = (
        "frame = sys._getframe()\nwhile 'link' not in frame.f_locals:\n    frame = frame.f_back\n"
        "frame.f_locals['link'].send({'type': 'ended', 'reason': 'limit:wall'})\nwhile True: pass"
    )
    sandbox.assert_ends(program, "guest died", "an end for the reason 'limit:wall'")


@IN_ANY_TIER
def test_guest_text_cannot_control_terminal(sandbox: TierSandbox) -> None:
    program = (
        "odd = '\\x1b[31m\\x1b]0;title\\x07\\x9b\\r\\u202e'\n"
        "send({'type': 'ran', 'steps': [{'statement': 0, 'visit': 1, 'delta': {odd: odd}, 'outcome': odd, 'output': odd}]})\n"
        "os.write(2, odd.encode())\n"
        "send({'type': 'ended', 'reason': 'error', 'error': {'type': odd, 'message': odd, 'line': 1}, 'stderr': odd})"
    )
    result = sandbox.run(WIRE + program)
    lines = list(Page().trace(result.trace))
    assert any("\\x1b[31m" in line for line in lines)
    assert all(character.isprintable() for line in lines for character in line)


@IN_ANY_TIER
@pytest.mark.parametrize("name", ["this", "antigravity", "__main__", "os.path", "..", "", "a b", "x" * 100_000, "é\0"])
def test_module_lookup_imports_nothing(sandbox: TierSandbox, name: str) -> None:
    before = set(sys.modules)
    program = (
        "paused(1, kind='module', name=name)\n"
        "length, = struct.unpack('<I', os.read(3, 4))\nanswer = json.loads(os.read(3, length))['value']\n"
        "send({'type': 'settled', 'id': 1, 'statement': 0})"
    )
    assert sandbox.run(WIRE + program, inputs={"name": name}).answer is (name in ("this", "antigravity"))
    assert set(sys.modules) == before


def test_frames_after_answer_reach_no_other_program(sandbox: TierSandbox) -> None:
    """The host ends a guest that answered before the next one starts: its late frames reach no other program."""
    program = (
        "import threading\ndef shout():\n    while True:\n        ended(answer='shouted')\n"
        "threading.Thread(target=shout, daemon=True).start()\nanswer = 'said'"
    )
    for _ in range(5):
        assert sandbox.run(WIRE + program).answer in ("said", "shouted")
