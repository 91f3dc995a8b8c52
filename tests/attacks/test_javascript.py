"""What a hostile program in JavaScript tries, and what comes of it. One claim per program.

The wall is the kernel's, as for Python. These programs attack what stands inside it: the probes, the requests, the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from js_runs import Observer, run_js

from chainofcode import Limits, Result
from chainofcode.emulator import Emulator, Table
from chainofcode.sandbox import Jail, Sandbox

VALUES = {'isFruit("apple")': True, 'isFruit("car")': False}
ASKS = 'const got = isFruit("apple");\n'

# The program does what it wants, and the value that it asked for and its answer come out as they should.
HARMLESS = {
    "prototype pollution of objects": (
        "Object.prototype.error = 'x'; Object.prototype.special = true; Object.prototype.get = () => 1;\n"
        'answer = { got: isFruit("apple") };',
        {"got": True},
    ),
    "prototype pollution of arrays": (
        'Object.defineProperty(Array.prototype, "0", { set() { throw 1; }, get() { return 7; } });\nanswer = isFruit("apple");',
        True,
    ),
    "JSON replaced": ("JSON.stringify = () => 'x'; JSON.parse = () => { throw 1; };\n" + ASKS + "answer = [got];", [True]),
    "Array methods replaced": (
        "for (const n of ['push', 'join', 'map', 'slice', 'concat', Symbol.iterator]) Array.prototype[n] = () => { throw 1; };\n"
        'answer = isFruit("apple");',
        True,
    ),
    "String methods replaced": (
        "for (const n of ['slice', 'indexOf', 'split', 'replace']) String.prototype[n] = () => { throw 1; };\n"
        'answer = isFruit("apple");',
        True,
    ),
    "Function.prototype replaced": (
        "Function.prototype.call = Function.prototype.apply = Function.prototype.bind = () => { throw 1; };\n"
        'answer = isFruit("apple");',
        True,
    ),
    "Reflect and Object replaced": (
        "Reflect.apply = Reflect.ownKeys = Object.keys = Object.getOwnPropertyDescriptor = () => { throw 1; };\n"
        'answer = { a: isFruit("apple") };',
        {"a": True},
    ),
    "Promise replaced": (
        "Promise.prototype.then = () => { throw 1; }; globalThis.Promise = null;\nanswer = isFruit('apple');",
        True,
    ),
    "WeakSet and Map replaced": (
        "WeakSet.prototype.has = Map.prototype.forEach = Set.prototype.forEach = () => { throw 1; };\nanswer = new Map([['a', isFruit('apple')]]);",
        {"a": True},
    ),
    "getter as answer's part": ("answer = { get a() { return isFruit('apple'); } };", {"a": True}),
    "getter that the trace must not run": (
        "let ran = 0;\nconst o = { get a() { ran++; return 1; } };\nlet p = o;\nanswer = ran;",
        0,
    ),
    "proxy that the trace must not touch": (
        "let ran = 0;\nconst p = new Proxy({}, { get() { ran++; }, ownKeys() { ran++; return []; }, getOwnPropertyDescriptor() { ran++; } });\n"
        "let q = p;\nanswer = ran;",
        0,
    ),
    "revocable proxy": ("const { proxy, revoke } = Proxy.revocable({}, {});\nrevoke();\nlet q = proxy;\nanswer = isFruit('apple');", True),
    "toJSON that the trace must not call": ("let ran = 0;\nlet o = { toJSON() { ran++; return 1; } };\nanswer = ran;", 0),
    "toString of the trace's values": ("let o = { toString() { throw 1; }, valueOf() { throw 2; } };\nanswer = 5;", 5),
    "cyclic answer": ("answer = { a: 1 }; answer.self = answer;", {"a": 1, "self": "[Circular]"}),
    "keys that values use as tags": ("answer = { $set: [1], $object: { type: 'x', text: 'y' } };", {"$set": [1], "$object": {"type": "x", "text": "y"}}),
    "an argument that looks like a tag": ("answer = isFruit({ $bytes: '!' });", "asked"),
    "lone surrogates": ("answer = 'a\\ud800b';", "a\ud800b"),
    "__proto__ as a key": ("answer = JSON.parse('{\"__proto__\": {\"a\": 1}}');", {"__proto__": {"a": 1}}),
    "symbols": ("answer = { [Symbol.toPrimitive]: 1, [Symbol.toStringTag]: 'Promise', a: isFruit('apple') };", {"a": True}),
    "species": ("class P extends Promise { static get [Symbol.species]() { throw 1; } }\nanswer = isFruit('apple');", True),
    "Error.prepareStackTrace": (
        "Error.prepareStackTrace = () => { throw 1; }; Error.stackTraceLimit = 0;\n" + ASKS + "answer = got;",
        True,
    ),
    "captureStackTrace replaced": ("Error.captureStackTrace = () => { throw 1; };\nanswer = isFruit('apple');", True),
    "host functions by name": (
        "answer = ['$ask', '$open', '$step', '$print', '$fail', '$finish', '$made', '$skip'].map((n) => typeof globalThis[n]);",
        ["undefined"] * 8,
    ),
    "Function constructor": ("answer = (function () {}).constructor.constructor('return typeof $ask + typeof std + typeof os')();", "undefined" * 3),
    "eval": ("answer = eval('typeof $ask + typeof require + typeof process');", "undefined" * 3),
    "the text of functions": ("function f() { return isFruit; }\nanswer = /coc/.test(f.toString() + String(isFruit));", False),
    "the frozen interface": (
        "let seen = 'hidden';\ntry { const $ = eval('$c' + 'oc'); $.h = null; seen = typeof $.h; } catch (e) { seen = 'refused'; }\nanswer = [seen, isFruit('apple')];",
        ["function", True],
    ),
    "the global object emptied": (
        "for (const n of Object.getOwnPropertyNames(globalThis)) { try { delete globalThis[n]; } catch (e) {} }\nanswer = isFruit('apple');",
        True,
    ),
    "the global object frozen": ("var answer = isFruit('apple');\nObject.freeze(globalThis);", True),
    "a deep value": ("let v = 1;\nfor (let i = 0; i < 5000; i++) v = [v];\nlet w = v;\nanswer = isFruit('apple');", True),
    "a huge sparse array": ("const a = [];\na[4294967294] = 1;\nlet b = a;\nanswer = isFruit('apple');", True),
    "a caught overflow": ("function f() { return f() + 1; }\ntry { f(); } catch (e) { answer = [e.name, isFruit('apple')]; }", ["RangeError", True]),
}  # fmt: skip

# The program fails, and the reason is data with a line.
FAILS = {
    "toJSON that throws": ("answer = { toJSON() { throw new Error('no'); } };", "error", "Error", "no"),
    "an error whose parts throw": ("throw { get name() { throw 1; }, get message() { throw 2; } };", "error", "Error", ""),
    "throwing nothing": ("throw undefined;", "error", "Uncaught", "undefined"),
    "deep recursion": ("function f(n) { return f(n + 1) + 1; }\nf(0);", "error", "RangeError", "call stack"),
    "deep recursion through a getter": ("const o = { get a() { return this.a; } };\no.a;", "error", "RangeError", "call stack"),
    "import()": ("await import('fs');", "error", "TypeError", "no modules are available"),
    "import of std": ("import * as std from 'std';\nstd.exit(1);", "error", "NotAProgram", "not available in the sandbox"),
    "require": ("const fs = require('fs');", "error", "ReferenceError", "require is not defined"),
    "bytecode": ("bjson.read(new Uint8Array([1, 2, 3]).buffer, 0, 3);", "error", "ReferenceError", "bjson"),
    "shared memory that waits": ("Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);", "error", "TypeError", ""),
    "a huge string": ("let s = 'x'.repeat(1000);\nfor (;;) s += s;", "error", "InternalError", "string too long"),
    "a huge array": ("const a = [];\nfor (;;) a.push(new Array(100000).fill(1));", "limit:memory", "limit:memory", ""),
    "a huge buffer": ("new ArrayBuffer(2 ** 40);", "error", "RangeError", ""),
    "an answer that is too large for a frame": ("answer = 'x'.repeat(6000000);", "answered", "", ""),
    "source that is nested too deep": ("answer = " + "(" * 20000 + "1" + ")" * 20000 + ";", "error", "NotAProgram", "too deep"),
    "no hole without a value": ("isFruit('plum');", "emulation failed", "emulation failed", 'isFruit("plum")'),
}  # fmt: skip

# The kernel ends the program.
ENDLESS = {
    "a loop": "for (;;) {}",
    "a loop in a getter of the answer": "answer = { get a() { for (;;) {} } };",
    "backtracking": "/^(a+)+$/.test('a'.repeat(40) + 'b');",
    "promises": "const f = () => Promise.resolve().then(f);\nf();",
    "timers": "const f = () => setTimeout(f, 1);\nf();",
}


@pytest.fixture(scope="module")
def jail() -> Iterator[Sandbox]:
    with Jail(spares=1) as made:
        yield made


def attempt(program: str, jail: Sandbox, *, is_observed: bool = False, **limits: Any) -> Result:
    table: Emulator = Table.of_records(VALUES | {'isFruit({"$bytes": "!"})': "asked"}, "values")
    emulator = Observer(table) if is_observed else table
    return run_js(program, emulator, sandbox=jail, in_flight=1, limits=Limits(**limits))


@pytest.mark.parametrize("is_observed", [False, True])
@pytest.mark.parametrize("name", HARMLESS)
def test_a_program_that_breaks_only_itself(name: str, is_observed: bool, jail: Sandbox) -> None:
    """Also where a model is shown its variables."""
    program, expected = HARMLESS[name]
    result = attempt(f"const shownVariable = [1];\n{program}", jail, is_observed=is_observed)
    assert result.is_answered, result.error
    assert result.answer == expected


@pytest.mark.parametrize("name", FAILS)
def test_a_program_that_fails(name: str, jail: Sandbox) -> None:
    program, reason, kind, message = FAILS[name]
    result = attempt(program, jail, memory_bytes=512 * 1024**2, cpu_seconds=20)
    assert result.reason == reason, (result.reason, result.error)
    if result.error is not None:
        assert result.error.type == kind
        assert message in result.error.message


@pytest.mark.parametrize("name", ENDLESS)
def test_a_program_that_never_ends(name: str, jail: Sandbox) -> None:
    result = attempt("let begun = 1;\n" + ENDLESS[name], jail, cpu_seconds=1)
    assert result.reason == "limit:cpu", (result.reason, result.error)
    assert result.error is not None and result.error.line is not None
    assert result.trace.steps[0].delta == {"begun": "1"}  # what it did before is told
