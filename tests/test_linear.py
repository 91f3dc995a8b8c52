"""Every reader of untrusted data needs time and memory proportional to its input, up to its limit.

A hostile input is doubled until reading it takes long enough to measure, or until the size limit. Over two doublings
in a row, the time may grow by a factor of three per doubling; for a quadratic reader it grows by four. A single
doubling is not judged: it may be the one at which the data no longer fits into the processor's cache.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from growth import least_seconds
from readers import READERS

from chainofcode.sandbox.frames import Lineage, LineageNode
from chainofcode.sandbox.packets import Packet, packet

Shape = Callable[[int], Any]
MOST_PER_DOUBLING = 3.0
FLOOR_SECONDS = 0.08  # less is noise
# The search for prose in a program compiles at most 5 MB in all; below this limit it need not be linear.
# A schema with over 2,000 parts is checked in a separate process, which takes half a second to start.
# A plain schema may be checked against 100,000 parts of data.
FLOORS = {
    ("reply program", "indents"): 1.0,
    ("schema", "many properties"): 2.0,
    ("schema", "any of"): 2.0,
    ("plain schema", "doubling"): 0.6,
}
FLOOR_BYTES = 4_000_000
MAX_SECONDS = 20  # of one case


def header(**more: Any) -> dict[str, Any]:
    return {"event": "trace", "version": 1, "python": "3.11.0", **more}


def trace_of(*events: dict[str, Any], **more: Any) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in (header(**more), *events))


def program_event(source: str, statements: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    found = [[1, 0, 1, 5, "Assign"]] if statements is None else statements
    return {"event": "program", "source": source, "statements": found, **more}


def step(number: int, **more: Any) -> dict[str, Any]:
    return {"event": "step", "number": number, "by": "python", "statement": 0, "line": 1, **more}


def answer(**more: Any) -> dict[str, Any]:
    return {
        "event": "answer",
        "reason": "answered",
        "value": 1,
        "text": "1",
        "source": "variable",
        "sandbox": "A",
        **more,
    }


def frame(*messages: Any) -> bytes:
    bodies = [json.dumps(message).encode() for message in messages]
    return b"".join(struct.pack("<I", len(body)) + body for body in bodies)


def parsed(source: str = "x = 1") -> dict[str, Any]:
    return {"type": "parsed", "program": program_event(source)}


def order(**what: Any) -> bytes:
    return packet(Packet.ORDER, json.dumps({"language": "python", "limits": {}, **what}).encode())


def nested(size: int, opening: str, closing: str, middle: str = "") -> str:
    return opening * (size // 2) + middle + closing * (size // 2)


def lineage(nodes: int, logs: int, reads: Callable[[int], list[Any]]) -> Lineage:
    made = [LineageNode(0, [n + 1], [], [max(n - 1, 0)], [], reads(n)) for n in range(nodes)]
    return Lineage(made, [(list(range(logs)), list(range(logs)))] * 2, {"answer": nodes - 1}, {}, [], [], [1])


def many_logs(size: int) -> Lineage:
    made = [LineageNode(0, [n + 1], [0], [max(n - 1, 0)], [max(n - 1, 0)], [[n, 1, 1]]) for n in range(size // 60)]
    return Lineage(made, [([0], [0])] * len(made), {"answer": len(made) - 1}, {}, [], [], [1])


def colliding(size: int) -> list[int]:
    """Numbers that all have the same hash."""
    return [n * (2**61 - 1) + 7 for n in range(size // 20)]


def equal_low_bits(size: int) -> list[int]:
    """Numbers with different hashes that start at the same slot of a hash table."""
    bits = max((size // 20).bit_length() + 2, 8)
    return [(n << bits) % (2**61 - 1) for n in range(1, size // 20)]


ANSWERED = {"type": "ended", "reason": "answered", "source": "variable", "text": "1"}
# --- shapes: for each reader, hostile inputs of about `size` characters, and the largest size ---------------------
MB = 1 << 20
SHAPES: dict[str, dict[str, tuple[int, Shape]]] = {
    "frames": {
        "one long text": (8 * MB, lambda n: frame(parsed(), {**ANSWERED, "answer": "x" * n})),
        "many small frames": (2 * MB, lambda n: frame(parsed(), *[{"type": "ran", "steps": []}] * (n // 30))),
        "many steps": (4 * MB, lambda n: frame(parsed(), {"type": "ran", "steps": [{"statement": 0, "visit": 1}] * (n // 30)})),
        "many lists": (4 * MB, lambda n: frame(parsed(), {**ANSWERED, "answer": [[]] * (n // 4)})),
        "deep": (MB, lambda n: struct.pack("<I", n) + (b'{"type":"ended","reason":"answered","answer":' + b"[" * n)[:n]),
        "many keys": (4 * MB, lambda n: frame(parsed(), {**ANSWERED, "answer": {str(k): 0 for k in range(n // 10)}})),
        "settled again": (2 * MB, lambda n: frame(parsed(), {"type": "paused", "id": 1, "kind": "call", "name": "f", "text": "f()", "args": [], "statement": 0}, *[{"type": "settled", "id": 1, "statement": 0}] * (n // 50))),
        "lineage": (2 * MB, lambda n: frame(parsed(), {**ANSWERED, "lineage": {"nodes": [[0, [], [], [0]]] * (n // 16)}})),
        "surveyed": (MB, lambda n: frame(parsed(), *[{"type": "surveyed", "calls": [], "skipped": [[0, "x"]] * 10}] * (n // 150))),
    },
    "packets": {
        "many": (MB, lambda n: packet(Packet.NOISE, b"x") * (n // 6)),
        "long": (MB, lambda n: packet(Packet.WIRE, b"x" * n)),
        "many files": (MB, lambda n: order(files=[{"name": str(k), "size": 1} for k in range(n // 30)])),
        "many packages": (MB, lambda n: order(packages=["x"] * (n // 5))),
        "deep": (MB, lambda n: packet(Packet.ORDER, b'{"files":' + b"[" * n)),
    },
    "value": {
        "colliding ints": (2 * MB, lambda n: {"$set": colliding(n)}),
        "colliding keys": (2 * MB, lambda n: {"$dict": [[key, 0] for key in colliding(n)]}),
        "equal low bits": (MB, lambda n: {"$dict": [[key, 0] for key in equal_low_bits(n)]}),
        "equal keys": (2 * MB, lambda n: {"$dict": [[1, 0]] * (n // 8)}),
        "deep": (MB, lambda n: json.loads(nested(min(n, 1600), "[", "]"))),
        "long int": (4 * MB, lambda n: {"$int": "9" * n}),
        "long hex": (4 * MB, lambda n: {"$int": "0x" + "f" * n}),
        "fraction": (4 * MB, lambda n: {"$fraction": "3" * (n // 2) + "/" + "7" * (n // 2)}),
        "decimal": (4 * MB, lambda n: {"$decimal": "1." + "9" * n}),
        "bytes": (4 * MB, lambda n: {"$bytes": "AAAA" * (n // 4)}),
        "text": (4 * MB, lambda n: {"$text": "\\x" * (n // 2)}),
        "many tuples": (2 * MB, lambda n: [{"$tuple": []}] * (n // 14)),
        "frozensets": (2 * MB, lambda n: {"$set": [{"$frozenset": [k]} for k in range(n // 20)]}),
        "date": (4 * MB, lambda n: {"$date": "2" * n}),
        "complex keys": (2 * MB, lambda n: {"$dict": [[{"$tuple": [{"$tuple": [k]}]}, 0] for k in range(n // 40)]}),
    },
    "trace": {
        "many lines": (4 * MB, lambda n: trace_of(program_event("x = 1"), *[step(1)] * (n // 80), answer())),
        "one long line": (8 * MB, lambda n: trace_of(program_event("x" * n))),
        "empty lines": (4 * MB, lambda n: trace_of() + b"\n" * n),
        "no end": (4 * MB, lambda n: trace_of() + b'{"event":"' + b"x" * n),
        "deep": (MB, lambda n: trace_of() + b'{"event":"step","value":' + b"[" * n),
        "many inputs": (4 * MB, lambda n: trace_of(inputs={f"a{k}": 0 for k in range(n // 12)})),
        "digests": (4 * MB, lambda n: (b'{"event":"trace","version":1,"python":"3"' + b',"chain":"' + b"0" * 32 + b'"}\n') * (n // 90)),
        "attempts": (4 * MB, lambda n: trace_of(*[answer(then="x")] * (n // 130))),
    },
    "journal": {
        "many lines": (4 * MB, lambda n: trace_of(program_event("x = 1"), *[step(1)] * (n // 80))),
        "half a line": (4 * MB, lambda n: trace_of(program_event("x = 1")) + b'{"event":"step","value":"' + b"x" * n),
    },
    "kept value": {
        "long text": (4 * MB, lambda n: json.dumps({"value": "x" * n}).encode()),
        "deep": (MB, lambda n: b'{"value":' + b"[" * n),
        "many lists": (2 * MB, lambda n: b'{"value":[' + b"[]," * (n // 3) + b"1]}"),
        "colliding": (MB, lambda n: json.dumps({"value": {"$set": colliding(n)}}).encode()),
    },
    "kept file": {
        "zeros": (4 * MB, bytes),
        "rows": (4 * MB, lambda n: database(n, "CREATE TABLE replies (a INTEGER PRIMARY KEY, b TEXT)", "INSERT INTO replies (b) VALUES ('x')")),
    },
    "shown": {
        "a long statement in many steps": (2 * MB, lambda n: trace_of(program_event("(1,\n" + "2,\n" * (n // 6) + ")", [[1, 0, n // 6 + 2, 1, "Assign"]]), *[step(k) for k in range(n // 160)], answer())),
        "long output": (4 * MB, lambda n: trace_of(program_event("x = 1"), step(1, output="a\n" * (n // 2)), answer())),
        "much output": (4 * MB, lambda n: trace_of(program_event("x = 1"), *[step(k, output="a\n") for k in range(n // 90)], answer())),
        "many names": (4 * MB, lambda n: trace_of(program_event("x = 1"), step(1, delta={f"a{k}": "1" for k in range(n // 12)}), answer())),
        "long value": (4 * MB, lambda n: trace_of(program_event("x = 1"), step(1, call="f(" + "x" * n, by="lm", value=[0] * (n // 4)), answer())),
        "long error": (4 * MB, lambda n: trace_of(program_event("x = 1"), answer(reason="error", error={"type": "x" * (n // 2), "message": "\x1b" * (n // 2)}))),
        "many attempts": (2 * MB, lambda n: trace_of(*[program_event("x = 1"), step(1), answer(then="x" * 50)] * (n // 350))),
        "many votes": (4 * MB, lambda n: trace_of(answer(votes={f"a{k}": 1 for k in range(n // 12)}))),
        "many edits": (4 * MB, lambda n: trace_of(answer(), settings={"edited": ["x"] * (n // 6)})),
        "long then": (4 * MB, lambda n: trace_of(answer(then="\u202e" * (n // 6)))),
        "wide characters": (4 * MB, lambda n: trace_of(program_event("x = '" + "漢\u0301" * (n // 12) + "'"), step(1), answer(text="漢\u0301" * (n // 12)))),
        "many imports": (4 * MB, lambda n: trace_of(program_event("x = 1", imports=["import os"] * (n // 12)), answer())),
    },
    "compared": {
        "the same": (MB, lambda n: trace_of(program_event("x = 1"), *[step(k, visit=k) for k in range(n // 90)], answer())),
        "alternating": (MB, lambda n: trace_of(program_event("x = 1"), *[step(k, delta={"a": str(k % 2)}) for k in range(n // 90)], answer())),
        "a long statement": (2 * MB, lambda n: trace_of(program_event("(1,\n" + "2,\n" * (n // 6) + ")", [[1, 0, n // 6 + 2, 1, "Assign"]]), *[step(k) for k in range(n // 160)], answer())),
    },
    "walked": {
        "many names": (2 * MB, lambda n: trace_of(program_event("x = 1"), *[step(k, delta={f"a{k}": "1"}) for k in range(n // 100)], answer())),
        "much output": (2 * MB, lambda n: trace_of(program_event("x = 1"), *[step(k, output="a\n") for k in range(n // 100)], answer())),
    },
    "why": {  # measured from 32 KB on; below, the search for edges may use its whole budget of work
        "logs": (2 * MB, lambda n: lineage(n // 40, n // 40, lambda k: [[0, 0, n // 40], [1, 0, n // 40]])),
        "many logs": (400_000, many_logs),
        "chain": (400_000, lambda n: lineage(n // 40, 1, lambda k: [])),
        "short logs": (2 * MB, lambda n: lineage(n // 40, n // 40, lambda k: [[0, k, k + 1]])),
    },
    "judged": {
        "one word": (MB, lambda n: "x" * n),
        "marks": (MB, lambda n: "x" + "." * n + "x"),
        "words and marks": (MB, lambda n: "x.,;" * (n // 4)),
        "digits": (MB, lambda n: "1" * n + " 1" * (n // 2)),
        "backslashes": (MB, lambda n: "\\n\\" * (n // 3)),
    },
    "csv": {
        "equal columns": (2 * MB, lambda n: ",".join([*map(str, range(n // 7)), "x", "x"])),
        "empty columns": (MB, lambda n: "," * n),
        "open quote": (100_000, lambda n: 'a\n"' + "x" * n),
        "quotes": (MB, lambda n: "a,b\n" + '"x""y",\n' * (n // 8)),
        "empty rows": (2 * MB, lambda n: "a\n" + "\n" * n),
        "one long row": (MB, lambda n: "a" + ",b" * 1 + "\n" + "," * n),
        "many columns and rows": (MB, lambda n: ",".join(map(str, range(n // 40))) + "\n" + ("," * (n // 1000) + "\n") * 500),
    },
    "json": {
        "brackets": (2 * MB, lambda n: "[" * n),
        "lists": (2 * MB, lambda n: "[" + "[]," * (n // 3) + "1]"),
        "equal keys": (2 * MB, lambda n: "{" + '"a":0,' * (n // 6) + '"a":0}'),
        "long text": (2 * MB, lambda n: '"' + "`" * n + '"'),
        "spaces": (2 * MB, lambda n: " " * n + "1"),
    },
    "jsonl": {
        "empty lines": (2 * MB, lambda n: " \n" * (n // 2)),
        "small lines": (MB, lambda n: "1\n" * (n // 2)),
        "long line": (2 * MB, lambda n: "[" + "1," * (n // 2) + "1]"),
    },
    "txt": {
        "fences": (2 * MB, lambda n: "`" * n),
        "lines": (2 * MB, lambda n: "\r" * n),
    },
    "database": {
        "zeros": (4 * MB, bytes),
        "rows": (4 * MB, lambda n: database(n, "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)", "INSERT INTO t (b) VALUES ('x')")),
        "tables": (400_000, lambda n: database(1, *(f"CREATE TABLE t{k} (a)" for k in range(n // 4000 + 1)))),
        "columns": (20_000, lambda n: database(1, f"CREATE TABLE t ({', '.join(f'a{k}' for k in range(min(n // 10, 1900)))})")),
        "long names": (MB, lambda n: database(1, f'CREATE TABLE "{"x" * n}" (a)')),
        "long cells": (4 * MB, lambda n: database(1, "CREATE TABLE t (a)", f"INSERT INTO t VALUES ('{'x' * (n // 2)}')")),
        "endless view": (4_000, lambda n: database(1, f"CREATE TABLE t (a DEFAULT '{'x' * n}')", "CREATE VIEW v AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT * FROM r")),
    },
    "reply value": {
        "fences": (1_000_000, lambda n: "```" * (n // 3)),
        "open fence": (1_000_000, lambda n: "```" + "a" * n),
        "fences and words": (1_000_000, lambda n: "```a" * (n // 4)),
        "spaces": (1_000_000, lambda n: "value" + " " * n + "x"),
        "fence and spaces": (1_000_000, lambda n: "```\n" + ("```" + " " * 50 + "x") * (n // 54)),
        "brackets": (1_000_000, lambda n: "[" * n),
        "braces": (1_000_000, lambda n: "{" * n),
        "assignments": (1_000_000, lambda n: "{" + "x = 1, " * (n // 7) + "}"),
        "sums": (1_000_000, lambda n: "1" + "+1j" * (n // 3)),
        "minus": (1_000_000, lambda n: "-" * n + "1"),
        "open quote": (1_000_000, lambda n: '"' + "\\" * n),
        "digits": (1_000_000, lambda n: "9" * n),
        "literals": (1_000_000, lambda n: "{" + "1: 'x', " * (n // 8) + "}"),
        "newlines": (1_000_000, lambda n: "x" + "\n" * n + "x"),
    },
    "fitted": {
        "spaces": (1_000_000, lambda n: "1" + " " * n + "x"),
        "only spaces": (1_000_000, lambda n: " " * n),
        "spaced numbers": (1_000_000, lambda n: ("1" + " " * 290 + "1        ") * (n // 300)),
        "spaces and signs": (1_000_000, lambda n: (" " * 299 + "$") * (n // 300)),
        "digits": (1_000_000, lambda n: "9" * n),
        "words": (1_000_000, lambda n: "1 " + "a or so " * (n // 8)),
        "dates": (1_000_000, lambda n: "1 January " + " " * n),
    },
    "chat reply": {
        "tokens": (4 * MB, lambda n: chat(b'{"token":"\\"value\\": ","logprob":-1},' * (n // 40))),
        "alternatives": (4 * MB, lambda n: chat(b'{"token":"t","logprob":-1,"top_logprobs":[' + b'{"token":"a","logprob":0},' * (n // 25) + b'{"token":"b","logprob":0}]},')),
        "long tokens": (4 * MB, lambda n: chat(b'{"token":"' + b" " * n + b'","logprob":-1},')),
        "keys": (4 * MB, lambda n: chat(b'{"token":"' + b'\\"value\\":' * (n // 10) + b'","logprob":0},')),
        "open lists": (4 * MB, lambda n: chat(b'{"token":"\\"value\\":' + b"[" * n + b'","logprob":0},')),
        "choices": (4 * MB, lambda n: b'{"choices":[' + b'{"message":{}},' * (n // 15) + b'{"message":{}}]}'),
        "deep": (MB, lambda n: b'{"choices":[{"message":{},"logprobs":' + b"[" * n),
    },
    "streamed reply": {
        "a line without an end": (MB // 4, lambda n: b"x" * n),
        "one long event": (MB // 4, lambda n: b'data: {"choices":[{"delta":{"content":"' + b"x" * n + b'"}}]}\n'),
    },
    "error reply": {
        "no": (100_000, lambda n: b"unsupported " * (n // 12)),
        "names": (100_000, lambda n: b"'temperature' " * (n // 14)),
        "quotes": (100_000, lambda n: b"'" * n),
        "deep": (100_000, lambda n: b'{"error":' * (n // 9)),
    },
    "reply answer": {
        "boxed": (MB, lambda n: "\\boxed{" * (n // 7)),
        "open boxed": (MB, lambda n: "\\boxed{" + "x" * n),
        "hashes": (MB, lambda n: "#" * n),
        "hashes and lines": (MB, lambda n: "####" + "\n" * n + "."),
        "the answer is": (MB, lambda n: "the answer is " * (n // 14)),
        "the answer is, stops": (MB, lambda n: "the answer is x" + ". " * (n // 2) + "\n"),
        "the answer is, spaces": (MB, lambda n: "the answer is" + " " * n + "\n."),
        "answer, spaces": (MB, lambda n: ("A:" + " " * 50 + "\n") * (n // 53)),
        "answer, many spaces": (MB, lambda n: "A:" + " " * n + "\n."),
        "indented": (MB, lambda n: " " * n + "\n."),
        "stars": (MB, lambda n: "**A**" * (n // 5)),
        "fences": (MB, lambda n: "```" * (n // 3)),
        "fences and words": (MB, lambda n: "```a" * (n // 4)),
        "options": (MB, lambda n: "(A) x\n" * (n // 6)),
        "digits": (MB, lambda n: "9" * n),
        "groups": (MB, lambda n: "1" + ",000" * (n // 4) + "x"),
    },
    "reply program": {  # prose: measured from 64 KB on; below, the search for it may use its whole budget of work
        "fence and word": (500_000, lambda n: "```" + "a" * n + "`"),
        "fence and spaces": (500_000, lambda n: "```" + " " * n + "`"),
        "fences": (500_000, lambda n: "`" * n),
        "blocks": (200_000, lambda n: "```python\nx = x + 1\n```\n" * (n // 24)),
        "blocks of prose": (16 * MB, lambda n: "```python\nplease do it now\n```\n" * (n // 32)),
        "open blocks": (500_000, lambda n: "```python\n" * (n // 10)),
        "marks": (500_000, lambda n: "# CODE START\n" * (n // 13)),
        "indents": (500_000, lambda n: "(\n" + "\n".join(" " * (k % 90) + "x" for k in range(n // 45))),
        "prose": (16 * MB, lambda n: "this is not python at all\n" * (n // 26)),
        "prose with colons": (16 * MB, lambda n: "this is not python:\n" * (n // 20)),
        "open quotes": (16 * MB, lambda n: "x = '\n" * (n // 6)),
        "open brackets": (16 * MB, lambda n: "x = (\n" * (n // 6)),
        "tabs": (500_000, lambda n: "if x:\n" + "\ty\n        z\n" * (n // 13)),
        "fenced indents": (500_000, lambda n: ("  " * 20 + "```\n") * (n // 44)),
    },
    "program": {
        "assignments": (100_000, lambda n: "x = 1\n" * (n // 6)),
        "names": (100_000, lambda n: "".join(f"a{k} = a{k // 2}\n" for k in range(n // 15))),
        "calls": (100_000, lambda n: "".join(f"f{k}(1)\n" for k in range(n // 9))),
        "one hole": (100_000, lambda n: "x = f(x)\n" * (n // 9)),
        "functions": (100_000, lambda n: "".join(f"def f{k}(): return f{k + 1}()\n" for k in range(n // 28))),
        "classes": (60_000, lambda n: "".join(f"class A{k}:\n  def m(self): return self.m{k}()\n" for k in range(n // 45))),
        "ifs": (60_000, lambda n: "if x:\n  y = 1\nelse:\n  y = 2\n" * (n // 30)),
        "loops": (60_000, lambda n: "for i in y:\n  y += i\n" * (n // 22)),
        "sum": (4_000, lambda n: "x = " + "+".join("1" * (n // 2))),
        "attributes": (20_000, lambda n: "x = y" + ".a" * min(n // 2, 90)),
        "list": (200_000, lambda n: "x = [" + "1," * (n // 2) + "]"),
        "dict": (200_000, lambda n: "x = {" + "1:1," * (n // 4) + "}"),
        "lambda": (60_000, lambda n: "x = [" + "lambda: x," * (n // 10) + "]"),
        "comprehensions": (60_000, lambda n: "[a for a in b]\n" * (n // 15)),
        "globals": (60_000, lambda n: "".join(f"def f{k}():\n  global a{k}\n  a{k} = 1\n" for k in range(n // 40))),
        "try": (60_000, lambda n: "try: x = f()\nexcept E: x = 2\n" * (n // 28)),
        "with": (60_000, lambda n: "with f() as x: y = x\n" * (n // 21)),
        "imports": (60_000, lambda n: "".join(f"import m{k}\n" for k in range(n // 12))),
        "strings": (200_000, lambda n: "x = '" + "a" * n + "'"),
        "targets": (60_000, lambda n: "=".join(f"a{k}" for k in range(n // 6)) + "=1"),
        "deletes": (60_000, lambda n: "x = 1\ndel x\n" * (n // 12)),
        "nested functions": (4_000, lambda n: "".join(" " * k + f"def f{k}():\n" for k in range(min(n // 50, 60))) + " " * 60 + "pass"),
        "arguments": (60_000, lambda n: "f(" + "x," * (n // 2) + ")"),
        "match": (60_000, lambda n: "match x:\n" + "".join(f"  case {k}: y = {k}\n" for k in range(n // 18))),
    },
    "query": {
        "columns": (200_000, lambda n: "SELECT " + "a," * (n // 2) + "a FROM t"),
        "calls": (100_000, lambda n: "SELECT " + ",".join(f"f{k}(a)" for k in range(n // 10)) + " FROM t"),
        "conditions": (100_000, lambda n: "SELECT a FROM t WHERE " + " AND ".join(["f(a)"] * (n // 9))),
        "alternatives": (100_000, lambda n: "SELECT a FROM t WHERE " + " OR ".join(["f(a)"] * (n // 8))),
        "joins": (50_000, lambda n: "SELECT 1 FROM t" + "".join(f" JOIN t{k} ON f(t{k}.a)" for k in range(n // 25))),
        "deep": (100_000, lambda n: "SELECT " + nested(n, "(", ")", "1")),
        "deep calls": (4_000, lambda n: "SELECT " + "f(" * (n // 3) + "1" + ")" * (n // 3)),
        "subqueries": (4_000, lambda n: "SELECT " + "(SELECT f(a) FROM " * (n // 20) + "t" + ")" * (n // 20)),
        "unions": (60_000, lambda n: " UNION ALL ".join(["SELECT f(a) FROM t"] * (n // 29))),
        "with": (60_000, lambda n: "WITH " + ",".join(f"t{k} AS (SELECT f(a) FROM t)" for k in range(n // 30)) + " SELECT 1"),
        "cases": (60_000, lambda n: "SELECT CASE " + "WHEN f(a) THEN 1 " * (n // 17) + "END FROM t"),
        "open quote": (500_000, lambda n: "SELECT '" + "x" * n),
        "quotes": (500_000, lambda n: "SELECT " + "'" * n),
        "dollars": (500_000, lambda n: "SELECT " + "$" * n),
        "dollar quotes": (500_000, lambda n: "SELECT " + "$a$ $b$ " * (n // 8)),
        "open comment": (500_000, lambda n: "SELECT 1 /*" + "/*" * (n // 2)),
        "comments": (200_000, lambda n: "-- f(a) -> bool\n" * (n // 16) + "SELECT f(a) FROM t"),
        "spaces": (500_000, lambda n: " " * n + "x"),
        "semicolons": (500_000, lambda n: "SELECT 1" + ";" * n),
        "macros": (100_000, lambda n: "".join(f"CREATE MACRO m{k}(a) AS f(a);" for k in range(n // 30)) + "SELECT 1"),
        "fences": (500_000, lambda n: "```sql\n" * (n // 7)),
        "spaced fences": (500_000, lambda n: ("```" + " " * 60) * (n // 63)),
        "operators": (500_000, lambda n: "SELECT 1" + "<" * n),
        "arguments": (100_000, lambda n: "SELECT f(" + "a," * (n // 2) + "a) FROM t"),
    },
    "javascript": {
        "assignments": (60_000, lambda n: "x = 1;\n" * (n // 7)),
        "names": (60_000, lambda n: "".join(f"const a{k} = a{k // 2};\n" for k in range(n // 22))),
        "calls": (40_000, lambda n: "".join(f"f{k}(1);\n" for k in range(n // 10))),
        "one hole": (40_000, lambda n: "x = f(x);\n" * (n // 10)),
        "functions": (40_000, lambda n: "".join(f"function f{k}() {{ return f{k + 1}(); }}\n" for k in range(n // 36))),
        "blocks": (40_000, lambda n: "if (x) { y = f(1); } else { y = 2; }\n" * (n // 37)),
        "deep": (20_000, lambda n: nested(n, "[", "]")),
        "deep blocks": (4_000, lambda n: nested(n, "{", "}")),
        "list": (100_000, lambda n: "x = [" + "1," * (n // 2) + "]"),
        "sum": (4_000, lambda n: "x = 1" + "+1" * (n // 2)),
        "chain": (4_000, lambda n: "x = y" + ".a()" * (n // 4)),
        "arrows": (40_000, lambda n: "x = [" + "a => f(a)," * (n // 10) + "]"),
        "templates": (40_000, lambda n: "x = `" + "${f(1)}" * (n // 7) + "`"),
        "open text": (200_000, lambda n: "x = '" + "a" * n),
        "open template": (200_000, lambda n: "x = `" + "a" * n),
        "regular expression": (60_000, lambda n: "x = /" + "(a*)*" * (n // 5) + "/"),
        "comments": (200_000, lambda n: "// x\n" * (n // 5)),
        "fences": (500_000, lambda n: "```js\n" * (n // 6)),
        "types": (40_000, lambda n: "".join(f"interface A{k} {{ a: B{k} }}\n" for k in range(n // 24))),
        "generics": (2_000, lambda n: "let x: " + "A<" * min(n // 3, 200) + "B" + ">" * min(n // 3, 200)),
        "less than": (4_000, lambda n: "x = a" + "<a" * (n // 2)),
        "open parentheses": (4_000, lambda n: "x = " + "(a" * (n // 2)),
        "parameters": (40_000, lambda n: "(" + ",".join(f"a{k}" for k in range(n // 6)) + ") => 1"),
        "destructured": (40_000, lambda n: "const {" + ",".join(f"a{k}" for k in range(n // 6)) + "} = x"),
        "classes": (40_000, lambda n: "".join(f"class A{k} {{ m() {{ return f{k}(); }} }}\n" for k in range(n // 36))),
    },
    "values file": {
        "lines": (MB, lambda n: '{"call": "f(1)", "value": 1}\n' * (n // 29)),
        "long call": (MB, lambda n: json.dumps({"call": "f(" + "(" * n, "value": 1})),
        "long value": (2 * MB, lambda n: json.dumps({"call": "f(1)", "value": [0] * (n // 3)})),
        "empty": (2 * MB, lambda n: "\n" * n),
    },
    "change": {  # up to the length that the server accepts; on the command line, the text is the user's own
        "signs": (2_000, lambda n: "f(" + "=" * n),
        "calls": (2_000, lambda n: "f()=" * (n // 4)),
        "quotes": (2_000, lambda n: "f('" + "=" * n + "')=1"),
    },
    "schema": {
        "many properties": (200_000, lambda n: {"type": "object", "properties": {f"a{k}": {} for k in range(n // 10)}}),
        "deep": (20_000, lambda n: json.loads(nested(min(n, 900), '{"items":', "}", "{}"))),
        "references": (100_000, lambda n: {"$defs": {f"a{k}": {"$ref": f"#/$defs/a{k + 1}"} for k in range(n // 40)}}),
        "enum": (200_000, lambda n: {"enum": list(range(n // 5))}),
        "long pattern": (20_000, lambda n: {"pattern": "(a*)*" * (n // 5)}),
        "any of": (100_000, lambda n: {"anyOf": [{"type": "object"}] * (n // 20)}),
    },
    "plain schema": {
        "many properties": (100_000, lambda n: {"properties": {f"a{k}": {} for k in range(n // 10)}}),
        "doubling": (4_000, lambda n: doubling_schema(n // 60)),
        "labels": (MB, lambda n: {"schema": {"items": {"enum": [*range(n // 8)]}}, "data": [-1] * (n // 8)}),
        "long labels": (MB, lambda n: {"schema": {"items": {"enum": [[0] * 1000] * (n // 4000)}}, "data": [[0] * 1000] * (n // 4000)}),
        "fields": (MB, lambda n: {"schema": {"items": {"required": ["a"] * (n // 8), "properties": {}}}, "data": [{"a": 1}] * (n // 10)}),
        "alternatives": (2 * MB, lambda n: {"schema": {"anyOf": [{"type": "string"}] * min(n // 100, 1900)}, "data": [0] * n}),
        "any of": (40_000, lambda n: {"anyOf": [{"type": "object", "required": ["a"]}] * (n // 40)}),
        "enum": (200_000, lambda n: {"enum": list(range(n // 5))}),
        "required": (200_000, lambda n: {"required": [f"a{k}" for k in range(n // 8)]}),
        "deep": (20_000, lambda n: json.loads(nested(min(n, 900), '{"items":', "}", "{}"))),
    },
    "client tools": {
        "many": (MB, lambda n: [{"type": "function", "function": {"name": "f"}}] * (n // 40)),
        "long name": (MB, lambda n: [{"type": "function", "function": {"name": "f" * n}}]),
        "parameters": (MB, lambda n: {"properties": {f"a{k}": {} for k in range(n // 10)}}),
        "one long reference": (MB, lambda n: {"allOf": [{"$ref": "#/$defs/a"}] * (n // 60), "$defs": {"a": {"$ref": "#" + "/a" * (n // 4)}}}),
        "references to itself": (40_000, lambda n: [client_tool(k, refers_to_itself()) for k in range(min(n // 600, 64))]),
        "required": (MB, lambda n: {"allOf": [{"$ref": "#/$defs/a"}] * (n // 40), "$defs": {"a": {"required": ["a"] * (n // 10)}}}),
        "union": (400_000, lambda n: {"properties": {"a": nested_union(n // 40)}}),
    },
    "openapi": {
        "many operations": (2 * MB, lambda n: api({f"/a{k}": {"get": {}} for k in range(n // 20)})),
        "one name": (MB, lambda n: api({f"/a{k}": {"get": {"operationId": "f"}} for k in range(n // 40)})),
        "many arguments": (MB, lambda n: api({"/a": {"get": {"parameters": [{"in": "query", "name": f"q{k}"} for k in range(n // 40)]}}})),
        "braces": (MB, lambda n: api({"/" + "{" * n: {"get": {}}})),
        "paths": (MB, lambda n: api({"/" + "{a}" * (n // 3): {"get": {}}})),
        "all of": (MB, lambda n: api(body={"allOf": [{"properties": {f"a{k}": {}}} for k in range(n // 30)]})),
        "references": (MB, lambda n: api(body={"$ref": "#/components/a0"}, components={f"a{k}": {"allOf": [{"$ref": f"#/components/a{k + 1}"}] * 3} for k in range(n // 90)})),
        "long reference": (MB, lambda n: api(body={"$ref": "#" + "/a" * (n // 2)})),
        "nested all of": (MB, lambda n: api(body=nested_all_of(n))),
    },
    "mcp": {
        "many fields": (MB, lambda n: {"properties": {f"a{k}": {"type": "string"} for k in range(n // 30)}}),
        "any of": (MB, lambda n: {"properties": {"a": nested_any_of(min(n, 100_000))}}),
        "union": (400_000, lambda n: {"properties": {"a": nested_union(n // 40)}}),
        "all of": (MB, lambda n: nested_all_of(n)),
        "labels": (MB, lambda n: {"properties": {"a": {"enum": ["x"] * (n // 4)}}}),
        "required": (MB, lambda n: {"properties": {"a": {}}, "required": ["x"] * (n // 4)}),
    },
}  # fmt: skip


def api(paths: Any = None, body: Any = None, **more: Any) -> dict[str, Any]:
    if body is not None:
        paths = {"/a": {"post": {"requestBody": {"content": {"application/json": {"schema": body}}}}}}
    return {"openapi": "3.1.0", "info": {}, "paths": paths, **more}


def chat(tokens: bytes) -> bytes:
    """A reply of an endpoint, with log probabilities."""
    return b'{"choices":[{"message":{"content":"1"},"logprobs":{"content":[%s{"token":"1","logprob":0}]}}]}' % tokens


def database(count: int, *statements: str) -> bytes:
    """An SQLite file; the last statement, if it is an INSERT, is executed once per 20 bytes of `count`."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for statement in statements[:-1]:
            connection.execute(statement)
        for _ in range(max(count // 20, 1)):
            connection.execute(statements[-1])
            if not statements[-1].startswith("INSERT"):
                break
        connection.commit()
        return connection.serialize()


def doubling_schema(depth: int) -> dict[str, Any]:
    """Each definition refers to the next one twice."""
    names = {f"a{k}": {"anyOf": [{"$ref": f"#/$defs/a{k + 1}"}] * 2} for k in range(depth)}
    return {"$ref": "#/$defs/a0", "$defs": {**names, f"a{depth}": {"const": 1}}}


def nested_all_of(size: int) -> dict[str, Any]:
    made: dict[str, Any] = {"properties": {f"a{k}": {} for k in range(size // 200)}}
    for _ in range(5):
        made = {"allOf": [made] * 3}
    return made


def nested_any_of(size: int) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "string"}
    for _ in range(6):
        made = {"anyOf": [made] * 10}
    return {"anyOf": [made] * (size // 10)}


def client_tool(number: int, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": f"f{number}", "parameters": parameters}}


def refers_to_itself() -> dict[str, Any]:
    """A few schemas that refer to each other along a million paths."""
    return {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}] * 10}}}


def nested_union(leaves: int) -> dict[str, Any]:
    """Different alternatives, ten in each schema."""
    made: list[Any] = [{"type": "array", "items": {"const": k}} for k in range(min(leaves, 10_000))]
    while len(made) > 1:
        made = [{"anyOf": made[k : k + 10]} for k in range(0, len(made), 10)]
    return dict(made[0]) if made else {}


CASES = [(reader, shape) for reader, shapes in SHAPES.items() for shape in shapes]


class TooSlow(Exception):
    pass


def check_time(name: str, limit: int, shape: Shape, floor: float = FLOOR_SECONDS) -> int:
    """Return the largest size that was measured. Raise AssertionError if the time grows too fast."""
    reader = READERS[name]

    def least(size: int, enough: float) -> float:
        data = shape(size)

        def read() -> None:
            with contextlib.suppress(*reader.errors):
                reader.read(data)

        return least_seconds(read, enough)

    size = begun = max(limit >> 6, 64)
    before, seconds = least(size // 2, MAX_SECONDS), least(size, MAX_SECONDS)
    while size < limit and (seconds < 2 * floor or size < 4 * begun):
        size *= 2
        allowed = max(MOST_PER_DOUBLING**2 * before, floor)
        now = least(size, allowed)
        assert now <= allowed, f"{before:.3f} s for {size // 4:,}, {now:.3f} s for {size:,}"
        before, seconds = seconds, now
    return size


def check_memory(name: str, size: int, shape: Shape) -> None:
    reader, peaks = READERS[name], []
    for part in (size // 8, size // 2):
        data = shape(part)
        tracemalloc.start()
        try:
            with contextlib.suppress(*reader.errors):
                reader.read(data)
        finally:
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] <= max(FLOOR_BYTES, 7 * peaks[0]), (
        f"{peaks[0]:,} bytes for the input, {peaks[1]:,} bytes for four times as much"
    )


def interrupt(*ignored: object) -> None:
    raise TooSlow(f"over {MAX_SECONDS} seconds")


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("name", "shape"), CASES, ids=[": ".join(case) for case in CASES])
def test_linear_time_and_memory(name: str, shape: str) -> None:
    limit, make = SHAPES[name][shape]
    signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
    try:
        check_memory(name, check_time(name, limit, make, FLOORS.get((name, shape), FLOOR_SECONDS)), make)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def test_every_reader_has_shapes() -> None:
    assert SHAPES.keys() >= READERS.keys() - {"tsv"}


def test_quadratic_readers_are_detected() -> None:
    """A quadratic reader fails, in time or in memory; a linear one does not."""
    READERS["quadratic"] = type(READERS["value"])("text", lambda text: [text[k:].count("x") for k in range(len(text))])
    READERS["linear"] = type(READERS["value"])("text", lambda text: [text.count("x") for _ in range(30)])
    READERS["large"] = type(READERS["value"])("text", lambda text: [text[k:] for k in range(len(text))])
    try:
        with pytest.raises(AssertionError, match="s for"):
            check_time("quadratic", 1 << 20, lambda size: "x" * size)
        assert check_time("linear", 1 << 24, lambda size: "x" * size) >= 1 << 20
        with pytest.raises(AssertionError, match="bytes"):
            check_memory("large", 20_000, lambda size: "x" * size)
    finally:
        for name in ("quadratic", "linear", "large"):
            del READERS[name]
