"""JavaScript in the engine: overlap, replay, provenance, verification, types, errors, tiers of the sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from js_runs import programs_in, run_js

from chainofcode import InputError, Program, ScriptedLM, Trace
from chainofcode.audit import Changes, areplay, follow, verify
from chainofcode.cli import main
from chainofcode.emulator import Answered, Emulator, Pause
from chainofcode.engine import RunOptions
from chainofcode.explain import aexplain
from chainofcode.languages import JAVASCRIPT, Language
from chainofcode.languages.javascript.guest.main import CompiledProgram
from chainofcode.languages.javascript.guest.source_compiler import RUNTIME, SHADOW_RUNTIME
from chainofcode.languages.javascript.guest.stack_places import LINES_ABOVE
from chainofcode.methods import ask
from chainofcode.sandbox import TIERS, Jail, Sandbox

FRUIT = """const words = ["apple", "car", "kiwi"];
let count = 0;
for (const w of words) {
  if (isFruit(w)) {
    count += 1;
  }
}
answer = count;
"""
VALUES = {'isFruit("apple")': True, 'isFruit("car")': False, 'isFruit("kiwi")': True}


@pytest.fixture(scope="module")
def jail() -> Iterator[Sandbox]:
    with Jail(spares=1) as made:
        yield made


class Counting(Emulator):
    """Answers by a rule, once `together` calls have been in progress at the same time; counts calls."""

    in_flight = 16

    def __init__(self, together: int = 1) -> None:
        self.calls: list[str] = []
        self.in_progress = self.most = 0
        self._together, self._are_together = together, asyncio.Event()

    async def answer(self, pause: Pause) -> Answered:
        self.calls.append(pause.text)
        self.in_progress += 1
        self.most = max(self.most, self.in_progress)
        if self.most >= self._together:
            self._are_together.set()
        with contextlib.suppress(TimeoutError):  # then the test fails
            await asyncio.wait_for(self._are_together.wait(), 10)
        self.in_progress -= 1
        return Answered(len(str(pause.args[0])) % 2 == 1 if pause.name.startswith("is") else f"{pause.args[0]}!")


OVERLAPPING = {
    "a loop": ('let n = 0;\nfor (const w of ["a", "bb", "ccc", "dd"]) { if (isFruit(w)) n++; }\nanswer = n;', 2, 4),
    "straight line": ('const a = colorOf("a");\nconst b = colorOf("b");\nconst c = colorOf("c");\nanswer = a + b + c;', "a!b!c!", 3),
    "map": ('answer = ["a", "b", "c"].map(colorOf);', ["a!", "b!", "c!"], 3),
    "filter, then map": ('answer = ["a", "bb", "c"].filter(isFruit).map((w) => colorOf(w));', ["a!", "c!"], 3),
    "Promise.all": ('answer = await Promise.all(["a", "b", "c"].map(colorOf));', ["a!", "b!", "c!"], 3),
    "await one by one": ('const out = [];\nfor (const w of ["a", "b", "c"]) out.push(await colorOf(w));\nanswer = out;', ["a!", "b!", "c!"], 3),
    "through a function": ('function judge(w) { return isFruit(w) ? 1 : 0; }\nlet n = 0;\nfor (const w of ["a", "b", "cc"]) n += judge(w);\nanswer = n;', 2, 3),
}  # fmt: skip


@pytest.mark.parametrize("reads_state", [False, True])
@pytest.mark.parametrize("name", OVERLAPPING)
def test_independent_calls_are_sent_together(name: str, reads_state: bool, jail: Sandbox) -> None:
    program, expected, together = OVERLAPPING[name]
    emulator = Counting(together)
    emulator.reads_state = reads_state
    result = run_js(program, emulator, sandbox=jail)
    assert result.answer == expected, result.error
    assert emulator.most >= together
    assert result.trace.answer is not None and result.trace.answer.wasted == 0


def test_awaited_calls_overlap_without_a_shadow() -> None:
    emulator = Counting(3)
    result = run_js(OVERLAPPING["Promise.all"][0], emulator, sandbox="none")
    assert result.answer == ["a!", "b!", "c!"]
    assert emulator.most == 3


def test_call_that_may_not_happen_is_not_sent_ahead(jail: Sandbox) -> None:
    emulator = Counting()
    program = 'for (const w of ["aa", "b", "ccc"]) {\n  if (isFruit(w)) { answer = w; break; }\n}'
    assert run_js(program, emulator, sandbox=jail).answer == "b"
    assert emulator.calls == ['isFruit("aa")', 'isFruit("b")']


@pytest.mark.parametrize("tier", TIERS)
def test_program_runs_in_every_tier(tier: str) -> None:
    with Jail(tier, spares=0) as made:
        result = run_js(FRUIT, VALUES, sandbox=made)
    assert result.answer == 2, result.error
    assert [step.by for step in result.trace.steps if step.line == 4][:2] == ["lm", "javascript"]


def test_replay_with_and_without_a_changed_value(jail: Sandbox) -> None:
    trace = run_js(FRUIT, VALUES, sandbox=jail).trace
    read = Trace.of(list(trace.events))
    assert asyncio.run(areplay(read, sandbox=jail)).is_same
    changed = Changes.parse(['isFruit("car")=true'], trace)
    again = asyncio.run(areplay(trace, changes=changed, sandbox=jail))
    assert again.trace.answer is not None and again.trace.answer.value == 3


def test_provenance_includes_every_value_that_changes_the_answer(jail: Sandbox) -> None:
    """Sound: if changing a value changes the answer, provenance names that value."""
    for name in (
        "group",
        "closure_counter",
        "class_private",
        "reduce_arrow",
        "labelled",
        "try_rethrow",
        "generator",
        "rest_object",
        "passed_on",
        "getter_setter",
        "static_block",
        "throw_values",
        "last_in_block",
    ):
        trace = run_js(programs_in("programs.txt")[name], Guessing(), sandbox=jail, in_flight=1).trace
        assert trace.answer is not None and trace.answer.is_answered, (name, trace.answer)
        known = {step.call for step in follow(trace, sandbox=jail).values}
        calls = {step.call for step in trace.steps if not step.is_code}
        assert calls
        for call in sorted(calls - known, key=str):
            value = next(step.value for step in trace.steps if step.call == call)
            other = not value if isinstance(value, bool) else 77
            again = asyncio.run(areplay(trace, changes=Changes(calls={call or "": other}), sandbox=jail))
            assert again.trace.answer is not None and again.trace.answer.value == trace.answer.value, (name, call)


class Guessing(Emulator):
    """Answers with a value of the type that the program expects."""

    async def answer(self, pause: Pause) -> Answered:
        rules: dict[str, Any] = {"isFruit": True, "legs": 4, "facts": {"name": "x", "size": 1, "tags": ["x"]}}
        return Answered(rules.get(pause.name, "red"))


def test_provenance_excludes_unused_values(jail: Sandbox) -> None:
    program = 'const unused = colorOf("x");\nconst list = [];\nconst alias = list;\nif (isFruit("apple")) alias.push(1);\nanswer = list.length;'
    trace = run_js(program, {**VALUES, 'colorOf("x")': "red"}, sandbox=jail).trace
    found = follow(trace, sandbox=jail)
    assert [step.call for step in found.values] == ['isFruit("apple")']
    assert 0 not in found.slice.statements


def test_verify(jail: Sandbox) -> None:
    trace = run_js(FRUIT, VALUES, sandbox=jail).trace
    found = verify(trace, sandbox=jail)
    assert found.flags == () and found.origin == "program" and len(found.flips) == 3
    echoed = run_js('answer = isFruit("apple");', VALUES, sandbox=jail).trace
    assert verify(echoed, sandbox=jail).origin == "model"


def test_verify_accepts_an_answer_computed_by_to_json(jail: Sandbox) -> None:
    program = 'let n = isFruit("apple") ? 1 : 2;\nanswer = n + 1;\nanswer = { toJSON() { return 99; } };'
    trace = run_js(program, VALUES, sandbox=jail).trace
    assert trace.answer is not None and trace.answer.value == 99
    assert verify(trace, sandbox=jail).flags == ()  # the value is the result of toJSON, so no literal contradicts it


def test_explain(jail: Sandbox) -> None:
    found = asyncio.run(aexplain(FRUIT, None, sandbox=jail, language=JAVASCRIPT))
    assert [(call.line, call.call, call.round) for call in found.calls] == [(4, text, 1) for text in VALUES]


TYPES = {
    'if (f("x")) {}': "bool",
    'const a = !f("x");': "bool",
    'const a = f("x") ? 1 : 2;': "bool",
    'const a = f("x") && 1;': "bool",
    '["x"].filter(f);': "bool",
    'const a = f("x") * 2;': "number",
    'const a = f("x") > 3;': "number",
    'if (f("x") === "a") {} else if (f("x") === "b") {}': "Literal['a', 'b']",
    'if (f("x") === "a") {}': "Literal['a'] | str",
    'switch (f("x")) { case "a": break; case "b": break; }': "Literal['a', 'b']",
    'for (const w of f("x")) {}': "list",
    'const a = [...f("x")];': "list",
    'const a = f("x").toUpperCase();': "str",
    'const a = f("x").map((w) => w);': "list",
    'const v = f("x"); if (v) {}': "bool",
    'const v = await f("x"); const w = v - 1;': "number",
    '// declare function f(word: string): string[]\nf("x");': "list[str]",
    'declare function f(word: string): "yes" | "no";\nf("x");': "Literal['yes', 'no']",
    'function f(word: string): Promise<number> {}\nconst a = await f("x");': "number",
    '/** @returns {boolean} */\nfunction f(word) {}\nconst a = f("x");': "bool",
    'f("x");': "",
}


def test_types_are_inferred_from_use() -> None:
    source = [*TYPES, 'isRipe("x");', 'countWords("x");', 'howManyLegs("x");']
    start = {"is_reply": False, "inputs": {}}
    found = [CompiledProgram({"source": program, **start}, []).compiled["uses"][0][2] for program in source]
    assert dict(zip(source, found, strict=True)) == TYPES | {
        'isRipe("x");': "bool",
        'countWords("x");': "int",
        'howManyLegs("x");': "int",
    }


def test_parsing_needs_no_run() -> None:
    parsed = Program.parse(f"Here:\n```js\n{FRUIT}```", JAVASCRIPT)
    assert parsed.language == "javascript" and parsed.holes == ("isFruit",) and parsed.source == FRUIT


def test_typescript_is_stripped(jail: Sandbox) -> None:
    program = """interface Item { name: string; price?: number }
type Kind = "fruit" | "other";
declare function isFruit(word: string): boolean;
class Basket<T extends Item> {
  private readonly items: T[] = [];
  add(item: T, ...more: T[]): this { this.items.push(item, ...more); return this; }
  get names(): string[] { return this.items.map((item: T) => item.name as string); }
}
const basket = new Basket<Item>().add({ name: "apple" }, { name: "car", price: 3 });
const kind = (word: string, fallback: Kind = "other"): Kind => (isFruit(word) ? "fruit" : fallback);
const kinds: Record<string, Kind> = {};
for (const name of basket.names!) kinds[name] = kind(name);
let answer: typeof kinds = kinds satisfies object;
"""
    result = run_js(program, VALUES, sandbox=jail)
    assert result.answer == {"apple": "fruit", "car": "other"}, result.error
    assert result.trace.program is not None and result.trace.program.source == program
    refused = run_js("enum Kind { A }\nanswer = 1;", sandbox=jail)
    assert refused.error is not None and refused.error.message.startswith("line 1: an enum of TypeScript")


ERRORS = {
    "let x = 1;\nnull.y;": ("TypeError", 2),
    "function f() {\n  throw new RangeError('no');\n}\nf();": ("RangeError", 2),
    "const a = 1;\na = 2;": ("TypeError", 2),
    "answer = later;\nlet later = 1;": ("ReferenceError", 1),
    "await Promise.reject(new Error('no'));": ("Error", 1),
    "function f() {\n  return (\n    // why\n    JSON.parse('{')\n  );\n}\nf();": ("SyntaxError", 4),
    "function f() {\n  throw 'text';\n}\nf();": ("Uncaught", 2),
    "class Wrong { message = 'no'; }\nthrow new Wrong();": ("Error", 2),
    "const bad = ;": ("NotAProgram", None),
    "1; // nothing\nlet x;": (None, None),
}


def test_errors_are_data_with_a_line(jail: Sandbox) -> None:
    for program, (kind, line) in ERRORS.items():
        error = run_js(program, sandbox=jail).error
        assert (error.type if error else None, error.line if error else None) == (kind, line), program


def test_error_of_a_tool_is_raised_in_the_program(jail: Sandbox) -> None:
    def look_up(word: str) -> str:
        raise KeyError(word)

    program = "let said;\ntry { lookUp('x'); } catch (error) { said = [error.name, error.message]; }\nanswer = said;"
    look_up.__name__ = "lookUp"
    assert run_js(program, tools=[look_up], sandbox=jail).answer == ["KeyError", "x"]


def test_output_belongs_to_the_statement_that_printed_it(jail: Sandbox) -> None:
    program = 'for (let i = 0; i < 100; i++) {\n  console.log("line", i);\n}\nlet x = 1;\nconsole.log({ a: [x] });'
    steps = run_js(program, sandbox=jail).trace.steps
    by_line = {line: "".join(step.output for step in steps if step.line == line) for line in (2, 5)}
    assert by_line[2].count("\n") == 100 and by_line[5] == '{"a":[1]}\n'
    assert sum(len(step.output) for step in steps) == sum(map(len, by_line.values()))


def test_clock_and_random_numbers_are_deterministic(jail: Sandbox) -> None:
    program = """const first = [Date.now(), new Date().toISOString(), Math.random(), performance.now(), new Date(2020, 0, 1).getTimezoneOffset()];
await new Promise((done) => setTimeout(done, 5000));
answer = [first, Date.now() - first[0], typeof Intl, new Date(2020, 1, 3) instanceof Date];"""
    first, second = run_js(program, sandbox=jail), run_js(program, sandbox=jail)
    assert first.answer == second.answer
    assert first.answer[0][:2] == [1_735_689_600_000, "2025-01-01T00:00:00.000Z"]
    assert first.answer[1:] == [5000, "undefined", True]
    assert (
        run_js("answer = Math.random();", sandbox=jail, seed=1).answer
        != run_js("answer = Math.random();", sandbox=jail).answer
    )


def test_ask_with_a_javascript_program(jail: Sandbox) -> None:
    lm = ScriptedLM(
        [f"Here it is:\n```javascript\n{FRUIT}```\n", '{"value": true}', '{"value": false}', '{"value": true}']
    )

    async def answered() -> list[Any]:
        options = RunOptions(language=JAVASCRIPT, in_flight=1)
        return [
            event
            async for event in ask("How many of apple, car and kiwi are fruit?", lm, sandbox=jail, options=options)
        ]

    trace = Trace.of(asyncio.run(answered()))
    assert trace.answer is not None and trace.answer.value == 2
    assert trace.program is not None and trace.program.language == "javascript"


def test_run_command_with_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, values = tmp_path / "p.js", tmp_path / "v.jsonl"
    program.write_text(FRUIT)
    lines = ["isFruit('apple')", 'isFruit( "car" )', 'isFruit("kiwi")']
    values.write_text(
        "\n".join(
            json.dumps({"call": call, "value": VALUES[f'isFruit("{call[9:].strip(chr(39) + chr(34) + " )")}")']})
            for call in lines
        )
    )
    assert main(["run", str(program), "--values", str(values), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == 2


def test_missing_engine_names_the_extra_to_install() -> None:
    missing = Language(name="javascript", title="JavaScript", packages=("no_such_engine",), extra="js")
    with pytest.raises(InputError, match=r"pip install 'chainofcode\[js\]'"):
        missing.package_paths()


UNDEFINED_CLASSES: dict[str, tuple[str, Any]] = {
    "an object": ('const r = new Review("good");\nanswer = [r.stars, r.isKind(), r instanceof Review];', [5, True, False]),
    "without arguments": ("answer = Object.keys(new Box).length;", 0),
    "of a namespace": ('answer = new nlp.Doc("x").n;', 1),
    "of a module": ('import { Tree } from "trees";\nanswer = new Tree(1).k;', 2),
    "after a line without a semicolon": ("const b = 1\nnew Tree(1)\nanswer = b", 1),
    "in a callback, awaited": ("answer = await Promise.all([1].map(async (x) => (await new Tree(x)).k));", [2]),
    "fresh each time": ("const one = new Tree(1), two = new Tree(1);\none.k = 9;\nanswer = two.k;", 2),
    "a base": ("class A extends Song { constructor() { super(1); this.a = 1; } }\nanswer = new A().sing();", "la"),
    "a constructor of the program's own": ("function P() {}\nP.prototype.x = 3;\nanswer = new P().x;", 3),
}  # fmt: skip
OBJECTS = {
    'Review("good")': {"stars": 5},
    'isKind({"stars":5})': True,
    "Box()": {},
    'nlp.Doc("x")': {"n": 1},
    "Tree(1)": {"k": 2},
    'sing({"a":1})': "la",
}


@pytest.mark.parametrize("in_flight", [1, 4])
@pytest.mark.parametrize("name", UNDEFINED_CLASSES)
def test_undefined_classes(name: str, in_flight: int, jail: Sandbox) -> None:
    program, expected = UNDEFINED_CLASSES[name]
    result = run_js(program, OBJECTS, sandbox=jail, in_flight=in_flight)
    assert (result.answer, result.error) == (expected, None)


def test_undefined_class_has_type_dict() -> None:
    program = Program.parse("const r = new Review('x');\nanswer = r.stars;", JAVASCRIPT)
    assert [(use.name, use.type) for use in program.uses] == [("Review", "dict")]


def test_browser_classes_are_not_emulated(jail: Sandbox) -> None:
    result = run_js("answer = new URL('x');", {'URL("x")': {}}, sandbox=jail)
    assert result.error is not None and (result.error.message, result.error.line) == ("URL is not defined", 1)


def test_parenthesised_undefined_class_is_an_error(jail: Sandbox) -> None:
    result = run_js("const a = 1\nanswer = new (Tree)(a);", OBJECTS, sandbox=jail)
    assert result.error is not None
    assert result.error.message.startswith("line 2: class 'Tree' is not defined; write new Tree(…)")


def test_values_match_calls_with_json_arguments(jail: Sandbox) -> None:
    values = {"f(true, null, {'a': [1, 2]})": 1, "g( false )": 2}
    assert run_js("answer = [f(true, null, { a: [1, 2] }), g(false)];", values, sandbox=jail).answer == [1, 2]


def test_runtime_fits_above_the_lines_of_the_program() -> None:
    assert max(RUNTIME.count("\n"), SHADOW_RUNTIME.count("\n")) < LINES_ABOVE
