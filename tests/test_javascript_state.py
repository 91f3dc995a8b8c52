"""The variables of a JavaScript program that a model sees with a call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from js_runs import Observer, run_js

from chainofcode import ScriptedLM
from chainofcode.audit import areplay
from chainofcode.emulator import Answered, Emulator, Pause
from chainofcode.emulator.value_cache import ValueCache
from chainofcode.engine import RunOptions
from chainofcode.languages import JAVASCRIPT
from chainofcode.methods import ask
from chainofcode.sandbox import Jail, Sandbox
from chainofcode.trace import Trace


@pytest.fixture(scope="module")
def jail() -> Iterator[Sandbox]:
    with Jail(spares=1) as made:
        yield made


class Yes(Emulator):
    """Answers every call with true, once `in_flight` calls are open."""

    def __init__(self, in_flight: int = 1) -> None:
        self.in_flight = in_flight
        self._left, self._are_open = in_flight, asyncio.Event()

    async def answer(self, pause: Pause) -> Answered:
        self._left -= 1
        if self._left <= 0:
            self._are_open.set()
        await asyncio.wait_for(self._are_open.wait(), 10)
        return Answered(True)


def states(program: str, sandbox: Sandbox, in_flight: int = 1, **options: object) -> dict[str, dict[str, str]]:
    observer = Observer(Yes(in_flight))
    result = run_js(program, observer, sandbox=sandbox, **options)
    assert result.is_answered, result.error
    return observer.states


def test_variables_of_the_line_come_first_then_enclosing_scopes(jail: Sandbox) -> None:
    program = """const rows = [{ id: 1 }];
total = 2;
function judge(word, times = 3) {
  const inner = "x";
  return isFruit(word);
}
answer = judge("kiwi");
"""
    found = states(program, jail, inputs={"limit": 5}, question="Which?")['isFruit("kiwi")']
    assert list(found.items()) == [
        ("word", '"kiwi"'),
        ("inner", '"x"'),
        ("times", "3"),
        ("rows", '[{"id":1}]'),
        ("limit", "5"),
        ("total", "2"),
    ]


def test_variables_for_every_kind_of_call(jail: Sandbox) -> None:
    program = """const words = ["a", "b"];
let n = 1;
const kept = words.filter(isGood);
n = 2;
const odd = words.map((x) => x.isOdd());
n = 3;
nlp.score("s");
n = 4;
await Promise.all(words.map((y) => tag(y)));
class Judge { of(z) { return inClass(z); } }
answer = new Judge().of(1);
"""
    found = states(program, jail)
    assert found['isGood("a")'] == {"words": '["a","b"]', "n": "1"}
    assert found['isOdd("b")']["x"] == '"b"' and found['isOdd("b")']["n"] == "2"
    assert found['nlp.score("s")']["n"] == "3"
    assert found['tag("a")'] == {**found['tag("a")'], "y": '"a"', "n": "4", "kept": '["a","b"]'}
    assert found["inClass(1)"]["z"] == "1"


def test_variables_not_set_yet_are_omitted(jail: Sandbox) -> None:
    assert states("let before = 1;\nconst kept = isGood(before);\nlet after = 2;\nanswer = kept;", jail) == {
        "isGood(1)": {"before": "1"}
    }


def test_innermost_variable_shadows_outer_ones(jail: Sandbox) -> None:
    program = "const word = 'outer';\nconst f = (word) => isGood(word);\nanswer = f('inner');"
    assert states(program, jail)['isGood("inner")'] == {"word": '"inner"'}


def test_reading_variables_runs_no_program_code(jail: Sandbox) -> None:
    program = """let looks = 0;
const object = { get field() { looks++; return 1; }, toJSON() { looks++; return 2; } };
const proxy = new Proxy({}, { get() { looks++; }, ownKeys() { looks++; return []; } });
Object.defineProperty(globalThis, "watched", { get() { looks++; return 3; }, set() {}, configurable: true });
if (looks) watched = 4;
with (new Proxy({}, { has(target, name) { if (name === "object") looks++; return false; } })) { isFine("a"); }
isGood("b");
answer = looks;
"""
    observer = Observer(Yes())
    result = run_js(program, observer, sandbox=jail)
    assert (result.answer, result.error) == (0, None)
    assert observer.states['isFine("a")'] == {}
    assert observer.states['isGood("b")'] == {
        "looks": "0",
        "object": '{"field":[Getter],"toJSON":[Function: toJSON]}',
        "proxy": "[Proxy]",
    }


def test_size_of_shown_variables_is_limited(jail: Sandbox) -> None:
    program = "\n".join(f"const v{number} = 'x'.repeat(10000);" for number in range(50))
    found = states(f"{program}\nanswer = isGood(1);", jail)["isGood(1)"]
    assert 10 <= len(found) <= 24
    assert all(text.startswith('10000 characters: "xxx') and len(text) < 300 for text in found.values())
    assert sum(map(len, found.values())) < 3500


def test_variables_named_like_contextual_keywords(jail: Sandbox) -> None:
    program = """var yield = 1, let = 2, static = 3, await = 4;
function strict(word) { "use strict"; return isGood(word); }
function* made() { return isFine("b"); }
answer = [strict("a"), made().next().value];
"""
    assert states(program, jail) == {'isGood("a")': {"word": '"a"'}, 'isFine("b")': {}}


def test_undefined_function_keeps_its_identity(jail: Sandbox) -> None:
    program = "const f = isGood, g = isGood;\nanswer = [f === g, [isGood].includes(f), f('a')];"
    observer = Observer(Yes())
    assert run_js(program, observer, sandbox=jail).answer == [True, True, True]


def test_lookahead_shows_only_known_variables(jail: Sandbox) -> None:
    program = """const words = ["a", "b"];
let count = 0;
for (const w of words) { if (isGood(w)) count++; }
answer = count;
"""
    found = states(program, jail, in_flight=2)
    assert found['isGood("a")'] == {"w": '"a"', "words": '["a","b"]', "count": "0"}
    assert found['isGood("b")'] == {"w": '"b"', "words": '["a","b"]'}  # the count waits for the first call


def test_repeated_call_is_answered_once(jail: Sandbox) -> None:
    program = "let n = 0;\nfor (let i = 0; i < 100; i++) if (isGood('a')) n++;\nanswer = n;"
    observer = Observer(Yes())
    result = run_js(program, observer, sandbox=jail)
    assert result.answer == 100
    assert observer.states == {'isGood("a")': {"i": "0", "n": "0"}}


def test_prompt_contains_variables_and_run_replays(jail: Sandbox) -> None:
    program = "```javascript\nconst basket = ['kiwi', 'saw'];\nanswer = basket.filter(isFruit);\n```"
    lm = ScriptedLM([program, '{"value": true}', '{"value": false}'])

    async def run_question() -> Trace:
        options = RunOptions(language=JAVASCRIPT, in_flight=1)
        return Trace.of([event async for event in ask("Which are fruit?", lm, sandbox=jail, options=options)])

    trace = asyncio.run(run_question())
    prompts = [call.prompt for call in trace.calls][1:]  # the first asks for the program
    assert len(prompts) == 2 and all('state: basket = ["kiwi","saw"]' in prompt for prompt in prompts)
    replayed = asyncio.run(areplay(trace, sandbox=jail))
    assert replayed.is_same


def test_cached_values_do_not_depend_on_the_variables_shown(jail: Sandbox, tmp_path: Path) -> None:
    """Lookahead shows fewer variables, so the cache key of a value excludes them."""
    program = "let n = 0;\nfor (const w of ['a', 'b']) if (isGood(w)) n++;\nanswer = n;"
    for in_flight, requests in ((1, 2), (4, 0)):
        lm = ScriptedLM(['{"value": true}'] * requests)
        with ValueCache(tmp_path / "cache") as cache:
            result = run_js(program, cache.emulator(lm), sandbox=jail, in_flight=in_flight)
        assert (result.answer, len(lm.requests)) == (2, requests)
