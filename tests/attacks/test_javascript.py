"""Hostile programs in JavaScript and their results: one claim per program.

The sandbox is the same as for Python. These programs attack what runs inside it: the probes, the requests, the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from js_runs import Observer, run_js

from chainofcode import Limits, Result
from chainofcode.emulator import Emulator, Table
from chainofcode.sandbox import Jail, Sandbox

VALUES = {
    'isFruit("apple")': True,
    'isFruit("car")': False,
    'constructor("x")': 5,
    'hasOwnProperty("x")': 7,
    '__proto__("x")': 8,
}
ASKS = 'const got = isFruit("apple");\n'

# The program interferes with its own environment; the value it requests and its answer are still correct.
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
    "our names in eval": (
        "const found = [];\nfor (const n of ['$coc', '$coch0', '$cocl']) { try { found.push(typeof eval(n)); } catch (e) { found.push(e.name); } }\nanswer = [found, isFruit('apple')];",
        [["ReferenceError"] * 3, True],
    ),
    "our names by escapes": ("answer = [typeof \\u0024coc, isFruit('apple')];", ["undefined", True]),
    "our function's arguments": ("answer = [arguments.length, typeof arguments[0], isFruit('apple')];", [0, "undefined", True]),
    "our names in functions' names": ("function make() { return () => 1; }\nanswer = [make().name, (() => 1).name];", ["", ""]),
    "our names in stacks": ("let s = '';\ntry { null.x; } catch (e) { s = e.stack; }\nanswer = /\\$[0-9a-f]{16}/.test(s);", False),
    "a regular expression's getters in the trace": (
        "let ran = 0;\nlet o = { get source() { ran++; return 'x'; }, get flags() { ran++; return 'g'; } };\nlet r = /x/g;\n"
        "Object.defineProperty(r, 'global', { get() { ran++; return true; } });\nlet q = r;\nisFruit('apple');\nanswer = ran;",
        0,
    ),
    "toStringTag in the trace": (
        "let ran = 0;\nclass T { get [Symbol.toStringTag]() { ran++; return 'RegExp'; } }\nlet t = new T();\nisFruit('apple');\nanswer = ran;",
        0,
    ),
    "constructor and name in the trace": (
        "let ran = 0;\nlet t = Object.create(Object.create({}, { constructor: { get() { ran++; return Map; } } }));\n"
        "let f = Object.defineProperty(() => 1, 'name', { get() { ran++; return 'x'; } });\nlet e = Object.defineProperty(new Error('x'), 'message', { get() { ran++; } });\n"
        "isFruit('apple');\nanswer = ran;",
        0,
    ),
    "a Map that counts its readers": (
        "let ran = 0;\nclass M extends Map { forEach() { ran++; } get size() { ran++; return 1; } }\nlet m = new M([[1, 2]]);\nisFruit('apple');\nanswer = ran;",
        0,
    ),
    "a prototype that is a proxy": (
        "let ran = 0;\nlet a = Object.setPrototypeOf([1, 2], new Proxy([], { get() { ran++; }, getPrototypeOf() { ran++; return null; } }));\nlet b = a;\nanswer = ran;",
        0,
    ),
    "the iterator of arrays": ("Array.prototype[Symbol.iterator] = function* () { yield 666; };\nanswer = { a: isFruit('apple'), b: isFruit('car') };", {"a": True, "b": False}),
    "toJSON of every object": ("Object.prototype.toJSON = () => 'forged';\nanswer = isFruit('apple');", True),
    "toJSON of every primitive": ("for (const C of [String, Number, Boolean]) C.prototype.toJSON = () => 'forged';\nanswer = [isFruit('apple'), 1, 'x'];", [True, 1, "x"]),
    "then of awaited values": (
        "const own = Promise.prototype.then;\nPromise.prototype.then = function (a, b) { return own.call(this, a && (() => a('forged')), b); };\nanswer = await isFruit('apple');",
        True,
    ),
    "the constructor of promises": ("Promise.prototype.constructor = class { constructor() { throw 1; } };\nanswer = [await isFruit('apple')];", [True]),
    "Promise.resolve": ("Promise.resolve = () => { throw 1; };\nanswer = [await isFruit('apple')];", [True]),
    "names of Object.prototype as variables": (
        "var __proto__ = 5; let constructor = 6, toString = 7, hasOwnProperty = 8;\nanswer = [__proto__, constructor, toString, hasOwnProperty, isFruit('apple')];",
        [5, 6, 7, 8, True],
    ),
    "names of Object.prototype as holes": ("answer = [constructor('x'), hasOwnProperty('x'), __proto__('x')];", [5, 7, 8]),
    "a hole's own properties": ("isFruit.x = 5; Object.setPrototypeOf(isFruit, null); Object.freeze(isFruit);\nanswer = isFruit('apple');", True),
    "a proxy around a hole": ("const p = new Proxy(isFruit, { apply: (t, s, a) => !Reflect.apply(t, s, a) });\nanswer = p('apple');", False),
    "a hole inside toJSON of an argument": ("answer = constructor({ toJSON: () => (isFruit('apple') ? 'x' : 'y') });", 5),
    "toJSON of an argument that throws": (
        "try { isFruit({ toJSON() { throw new Error('boom'); } }); } catch (e) { answer = e.message; }",
        "boom",
    ),
    "with and a trap": ("var ran = 0, r;\nwith (new Proxy({}, { has() { ran++; return false; } })) { r = isFruit('apple'); }\nanswer = [r, ran > 0];", [True, True]),
    "with and an own function": ("var o = { isFruit: () => 'mine' }, r;\nwith (o) { r = isFruit('apple'); }\nanswer = r;", "mine"),
    "eval that declares": ("eval('var z = 5');\nanswer = [z, isFruit('apple')];", [5, True]),
    "HTML comments": ("<!-- isFruit('no')\n--> isFruit('no')\nanswer = isFruit('apple');", True),
    "line separators": ("const a = 1;\u2028answer = isFruit('apple');\u2029let b = 'x\u2028y';", True),
    "text that closes our function": ("answer = isFruit('apple') /* ; }) */ // }).call(this)})\n; '}).call(this)})';", True),
    "jumps without semicolons": ("a: b: for (;;) { break\na\n}\nvar x = 1\nvar y = x\n++x\nanswer = [x, y, isFruit('apple')]", [2, 1, True]),
    "a label with a hole's name": ("isFruit: for (;;) { break isFruit; }\nanswer = isFruit('apple');", True),
    "words that may be names": ("var async = 1, of = [2], get = 3, let_ = 4;\nasync\nfunction f(await) { return await; }\nfor (of of of) ;\nanswer = [async, of, get, f(5), isFruit('apple')];", [1, 2, 3, 5, True]),
    "shared memory": ("const a = new Int32Array(new SharedArrayBuffer(8));\nAtomics.add(a, 0, 5);\nanswer = [Atomics.load(a, 0), isFruit('apple')];", [5, True]),
    "a proxy as answer": ("answer = new Proxy([1], { get: (t, k) => (k === 'length' ? 2 : t[k]) });", [1, None]),
    "an answer that changes while it is read": ("let n = 0;\nanswer = { get a() { n++; setTimeout(() => { n = 99; }); return n; } };", {"a": 1}),
    "JSON nested too deep": ("try { JSON.parse('['.repeat(100000)); } catch (e) { answer = [e.name, isFruit('apple')]; }", ["SyntaxError", True]),
    "the global object emptied": (
        "for (const n of Object.getOwnPropertyNames(globalThis)) { try { delete globalThis[n]; } catch (e) {} }\nanswer = isFruit('apple');",
        True,
    ),
    "the global object frozen": ("var answer = isFruit('apple');\nObject.freeze(globalThis);", True),
    "a deep value": ("let v = 1;\nfor (let i = 0; i < 5000; i++) v = [v];\nlet w = v;\nanswer = isFruit('apple');", True),
    "a huge sparse array": ("const a = [];\na[4294967294] = 1;\nlet b = a;\nanswer = isFruit('apple');", True),
    "a caught overflow": ("function f() { return f() + 1; }\ntry { f(); } catch (e) { answer = [e.name, isFruit('apple')]; }", ["RangeError", True]),
}  # fmt: skip

# The program fails, with a reason and an error that the host can report.
FAILS = {
    "toJSON that throws": ("answer = { toJSON() { throw new Error('no'); } };", "error", "Error", "no"),
    "an error whose parts throw": ("throw { get name() { throw 1; }, get message() { throw 2; } };", "error", "Error", ""),
    "an error whose name throws": ("const e = new Error('m');\ne.name = { toString() { throw 1; } };\nthrow e;", "error", "Error", "m"),
    "throwing text": ("function f() {\n  throw 'text';\n}\nf();", "error", "Uncaught", '"text"'),
    "a proxy that is thrown": ("throw new Proxy({}, { get() { throw 1; }, getPrototypeOf() { throw 2; } });", "error", "Error", ""),
    "an error in a timer": ("setTimeout(() => { throw new TypeError('late'); }, 1);\nanswer = 1;", "error", "TypeError", "late"),
    "a rejection that nothing handles": ("async function main() { await null; throw new TypeError('late'); }\nmain();", "error", "TypeError", "late"),
    "an answer that never settles": ("answer = new Promise(() => {});", "error", "NoAnswer", "promise that is never settled"),
    "waiting for nothing": ("await new Promise(() => {});\nanswer = 1;", "error", "NoAnswer", "promise that is never settled"),
    "a revoked proxy as answer": ("const { proxy, revoke } = Proxy.revocable({}, {});\nrevoke();\nanswer = proxy;", "error", "TypeError", "revoked"),
    "an answer whose getter fails": ("answer = { get a() { throw new RangeError('mine'); } };", "error", "RangeError", "mine"),
    "await without async": ("function f() { await 1; }", "error", "NotAProgram", "line 1: 'await' needs an async function"),
    "a token too many": ("const a = 1;\nlet b = {;", "error", "NotAProgram", "line 2: Unexpected token ';'"),
    "recursion through a proxy": ("const q = new Proxy({}, { get: (t, k, r) => r[k] });\nq.x;", "error", "RangeError", "call stack"),
    "recursion through toString": ("const o = { toString: () => `${o}` };\n`${o}`;", "error", "RangeError", "call stack"),
    "a hole in eval": ("eval('isFruit(\"apple\")');", "error", "ReferenceError", "isFruit is not defined"),
    "an endless list": ("function* g() { for (;;) yield 1; }\n[...g()];", "limit:memory", "limit:memory", ""),
    "endless output": ("for (;;) console.log('x'.repeat(10000));", "limit:output", "limit:output", ""),
    "a locale that is absent": ("(5).toLocaleString('de-DE');", "error", "RangeError", 'locale "de-DE" is not available'),
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
    "an interval": "setInterval(() => {}, 0);\nanswer = 1;",
    "awaiting": "for (;;) await null;",
    "toJSON of the answer": "answer = { toJSON() { for (;;) {} } };",
}


@pytest.fixture(scope="module")
def jail() -> Iterator[Sandbox]:
    with Jail(spares=1) as made:
        yield made


def attempt(program: str, jail: Sandbox, *, is_observed: bool = False, **limits: Any) -> Result:
    table: Emulator = Table.of_records(VALUES | {'isFruit({"$bytes": "!"})': "asked"}, "values")
    emulator = Observer(table) if is_observed else table
    return run_js(program, emulator, sandbox=jail, in_flight=1, limits=Limits(**limits))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("is_observed", [False, True])
@pytest.mark.parametrize("name", HARMLESS)
def test_hostile_program_harms_only_itself(name: str, is_observed: bool, jail: Sandbox) -> None:
    """Also if the request to the model includes its variables."""
    program, expected = HARMLESS[name]
    result = attempt(f"const shownVariable = [1];\n{program}", jail, is_observed=is_observed)
    assert result.is_answered, result.error
    assert result.answer == expected


@pytest.mark.parametrize("name", FAILS)
def test_failing_program_reports_error(name: str, jail: Sandbox) -> None:
    program, reason, kind, message = FAILS[name]
    result = attempt(program, jail, memory_bytes=512 * 1024**2, cpu_seconds=20)
    assert result.reason == reason, (result.reason, result.error)
    if result.error is not None:
        assert result.error.type == kind
        assert message in result.error.message


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ENDLESS)
def test_endless_program_hits_cpu_limit(name: str, jail: Sandbox) -> None:
    result = attempt("let begun = 1;\n" + ENDLESS[name], jail, cpu_seconds=1)
    assert result.reason == "limit:cpu", (result.reason, result.error)
    assert result.error is not None and result.error.line is not None
    assert result.trace.steps[0].delta == {"begun": "1"}  # the trace keeps the steps before the limit
