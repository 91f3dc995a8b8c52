"""Values and programs cached between runs: what is reused, what is requested again, and unusable files."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from test_cli import coc

from chainofcode import LM, Completion, InputError, LMError, Message, Usage, run, solve
from chainofcode.audit import replay
from chainofcode.emulator import Cascade, Judging
from chainofcode.emulator.value_cache import ValueCache
from chainofcode.lm.reply_store import ReplyStore
from chainofcode.lm.wrappers import Batched
from chainofcode.methods import compose
from chainofcode.sandbox import Jail

PROGRAM = "answer = [x for x in ('fig', 'saw', 'kiwi') if is_fruit(x)]"
BBH = ROOT.parent / "shared" / "cases" / "bbh.jsonl"


class Model(LM):
    """Answers every call by its text, and keeps the prompts."""

    in_flight = 8

    def __init__(self, name: str = "model", version: str = "", values: dict[str, Any] | None = None) -> None:
        self.name, self.version, self.prompts, self._values = name, version, list[str](), values

    async def complete(self, messages: Sequence[Message], n: int = 1, **options: Any) -> list[Completion]:
        last = messages[-1].content
        self.prompts.append(last)
        await asyncio.sleep(0.001 * (len(self.prompts) % 5))  # so that calls come back in another order
        if "delta state:" not in last:
            return [Completion(f"```python\n{PROGRAM}\n```", Usage(requests=1, prompt_tokens=9))] * n
        calls = [line.partition(": ")[2] for line in last.split("\n") if line.startswith("call")]
        keys = ["value"] if "\ncall: " in f"\n{last}" else [str(number) for number in range(1, len(calls) + 1)]
        reply = {key: self._value(call) for key, call in zip(keys, calls, strict=True)}
        return [Completion(json.dumps(reply), Usage(requests=1, prompt_tokens=5))] * n

    def _value(self, call: str) -> Any:
        return "saw" not in call if self._values is None else self._values[call]


@pytest.fixture
def cache(tmp_path: Path) -> ValueCache:
    return ValueCache(tmp_path / "cache")


def test_repeated_run_sends_no_request_and_marks_cached_values(cache: ValueCache, tmp_path: Path) -> None:
    lm = Model()
    first = solve("Which are fruit?", lm, cache=cache)
    assert (first.answer, len(lm.prompts), first.usage.requests) == (["fig", "kiwi"], 4, 4)
    cache.close()
    again = solve("Which are fruit?", lm, cache=ValueCache(tmp_path / "cache"))
    assert (again.answer, len(lm.prompts), again.usage.requests) == (["fig", "kiwi"], 4, 0)
    assert [call.is_cached for call in again.trace.calls] == [True]
    assert [step.how for step in again.trace.steps if step.by == "lm"] == ["cached"] * 3
    assert replay(again.trace).is_same
    assert [step.value for step in again.trace.steps] == [step.value for step in first.trace.steps]


@pytest.mark.parametrize(
    "changed",
    [
        {"question": "Which are not?"},
        {"inputs": {"n": 2}},
        {"program": PROGRAM + "  # another"},
        {"lm": Model("other")},
        {"lm": Model("model", "http://elsewhere")},
        {"judging": Judging(votes=3)},
        {"seed": 5},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_a_value_depends_on(cache: ValueCache, changed: dict[str, Any]) -> None:
    """Values of another question, program, model or setting are not used."""
    given: dict[str, Any] = {
        "program": PROGRAM,
        "lm": Model(),
        "judging": Judging(),
        "question": "Which?",
        "inputs": {},
    }

    def requests(program: str, lm: Model, judging: Judging, **options: Any) -> int:
        before = len(lm.prompts)
        assert run(program, cache.emulator(lm, judging), **options).answer == ["fig", "kiwi"]
        return len(lm.prompts) - before

    assert (requests(**given), requests(**given)) == (3, 0)
    assert requests(**{**given, **changed}) == 3
    assert requests(**given) == 0


def test_changed_file_invalidates_its_values(cache: ValueCache, tmp_path: Path) -> None:
    lm, data = Model(), tmp_path / "data.txt"
    for content, count in (("a", 3), ("a", 3), ("ab", 6)):
        if not data.exists() or data.read_text() != content:
            data.write_text(content)
        run(PROGRAM, cache.emulator(lm), reads=(str(data),))
        assert len(lm.prompts) == count


def test_repeated_calls_are_cached_separately_without_sharing(cache: ValueCache) -> None:
    values = iter(range(100))

    class Counting(Model):
        def _value(self, call: str) -> Any:
            return next(values)

    lm = Counting()
    program = "answer = [int(roll('d6')) for _ in range(3)]"
    first = run(program, cache.emulator(lm), share=False)
    assert sorted(first.answer) == [0, 1, 2]
    again = run(program, cache.emulator(lm), share=False)
    assert (again.answer, len(lm.prompts)) == (first.answer, 3)


def test_objects_that_look_alike_are_cached_separately(cache: ValueCache) -> None:
    program = (
        "class Thing:\n    def __init__(self, n): self.n = n\n    def __repr__(self): return 'thing'\n"
        "answer = [str(name_of(Thing(n))) for n in range(3)]"
    )
    names = iter("abc")

    class Naming(Model):
        def _value(self, call: str) -> Any:
            return next(names)

    lm = Naming()
    for _ in range(2):
        assert run(program, cache.emulator(lm)).answer == ["a", "b", "c"]
    assert len(lm.prompts) == 3


def test_large_inputs_are_distinguished(cache: ValueCache) -> None:
    lm = Model()
    for letter, count in (("a", 1), ("a", 1), ("b", 2)):
        inputs = {"one": letter * 4_000_000, "two": "x" * 4_000_000}  # together larger than one value may be
        assert run("answer = bool(is_fruit('fig'))", cache.emulator(lm), inputs=inputs).answer is True
        assert len(lm.prompts) == count


def test_votes_cascades_and_rows(cache: ValueCache) -> None:
    small, large = Model("small"), Model("large")
    for _ in range(2):
        result = run(PROGRAM, cache.emulator(Cascade([small, large])))
        assert {step.model for step in result.trace.steps if step.by == "lm"} == {"large"}
    assert (len(small.prompts), len(large.prompts)) == (3, 3)
    lm = Model("rows")
    batched = Batched(lm, 4)
    first = run(PROGRAM, cache.emulator(batched))
    assert (first.answer, run(PROGRAM, cache.emulator(batched)).answer) == (["fig", "kiwi"],) * 2
    assert len(lm.prompts) == 1
    voter = Model("voter")
    for _ in range(2):
        assert solve("Which?", voter, cache=cache, method=compose(votes=3)).answer == ["fig", "kiwi"]
    assert len(voter.prompts) == 6  # three programs, three values that they share


def test_values_of_tables_and_functions_are_not_cached(cache: ValueCache, tmp_path: Path) -> None:
    for value in (True, False):
        assert run("answer = is_fruit('fig')", cache.emulator({"is_fruit('fig')": value})).answer is value
        assert run("answer = is_fruit('fig')", cache.emulator(lambda pause, value=value: value)).answer is value


@pytest.mark.skipif(not BBH.exists(), reason="the recorded BBH programs are not here")
def test_second_evaluation_of_recorded_programs_sends_no_request(cache: ValueCache) -> None:
    records = [json.loads(line) for line in BBH.read_text(encoding="utf-8").splitlines()]
    records = [record for record in records if record["calls"]]
    assert len(records) == 41
    answers: list[list[Any]] = []
    with Jail() as jail:
        for _ in range(2):
            answers.append([])
            for record in records:
                values = {one["call"]: one["value"] for one in record["calls"]}
                lm = Recorded(values)
                result = run(record["program"], cache.emulator(lm), sandbox=jail)
                answers[-1].append((result.reason, json.dumps(result.trace.answer.value if result.trace.answer else 0)))
                answers[-1].append(len(lm.prompts))
    requests = [sum(part for part in outcomes if isinstance(part, int)) for outcomes in answers]
    assert requests[0] > 150 and requests[1] == 0
    assert [part for part in answers[0] if not isinstance(part, int)] == [
        part for part in answers[1] if not isinstance(part, int)
    ]


class Recorded(Model):
    """Answers with recorded values, by the text of the call."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__("recorded", values=values)

    def _value(self, call: str) -> Any:
        return (self._values or {}).get(call)


# --- the file -----------------------------------------------------------------------------------------------------


def test_size_is_bounded_and_the_oldest_rows_are_removed_first(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    store = ReplyStore(path, max_bytes=1_000_000)
    for number in range(3000):
        store.put(b"key %d" % number, b"x" * 1000)
    store.put(b"huge", b"x" * 900_000)
    assert store.get(b"huge") is None
    assert store.get(b"key 2999") == b"x" * 1000
    with sqlite3.connect(path) as file:
        assert 500 < file.execute("SELECT count(*) FROM kept").fetchone()[0] < 1000
    store.close()
    assert path.stat().st_size < 1_200_000
    with pytest.raises(LMError, match="the size of a cache must be at least 65,536 bytes"):
        ReplyStore(path, max_bytes=1)


def test_damaged_row_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    store = ReplyStore(path)
    store.put(b"a", b"true")
    with sqlite3.connect(path) as file:
        file.execute("UPDATE kept SET reply = replace(reply, 'true', 'fals')")
    assert store.get(b"a") is None
    store.put(b"a", b"true")
    assert store.get(b"a") == b"true"
    assert [other for other in tmp_path.iterdir() if ".damaged-" in other.name]


def test_values_in_the_file_are_checked(cache: ValueCache) -> None:
    lm = Model()
    run("answer = is_fruit('fig')", cache.emulator(lm))
    store = cache._store
    (key,) = store._file.execute("SELECT request FROM kept").fetchone()
    for data in (b"[]", b'{"value": {"$nonsense": 1}}', b"[" * 100_000):
        store._file.execute("DELETE FROM kept")
        store.put(key, data)
        assert run("answer = is_fruit('fig')", cache.emulator(lm)).answer is True
    assert len(lm.prompts) == 4


def program_and_script(tmp_path: Path) -> list[str]:
    (tmp_path / "program.py").write_text(PROGRAM)
    rules = [("call: is_fruit('saw')", '{"value": false}'), ("call: ", '{"value": true}')]
    lines = [json.dumps({"when": when, "reply": reply}) for when, reply in rules]
    (tmp_path / "script.jsonl").write_text("\n".join(lines))
    return ["run", str(tmp_path / "program.py"), "--model", f"scripted:{tmp_path / 'script.jsonl'}", "--json"]


def test_command_caches_values_in_a_directory(tmp_path: Path) -> None:
    command = [*program_and_script(tmp_path), "--cache", str(tmp_path / "new" / "cache")]
    for cached in (0, 3):
        output = json.loads(coc(*command).stdout)
        assert (output["value"], output["cached"]) == (["fig", "kiwi"], cached)
    (tmp_path / "new" / "cache" / "replies.sqlite").write_bytes(b"this is no database" * 1000)
    done = coc(*command)
    assert json.loads(done.stdout)["cached"] == 0  # the damaged file is set aside
    assert "replies.sqlite is damaged: it was renamed to replies.sqlite.damaged-" in done.stderr
    done = coc(*command[:-1], tmp_path / "program.py")
    assert done.returncode == 2 and "is not a directory" in done.stderr
    done = coc(*command[:-1], "/proc/self/cache")
    assert done.returncode == 2 and "coc: cannot store replies in /proc/self/cache: " in done.stderr


def in_child(work: Callable[[], bool]) -> bool:
    """Do work in a forked process, which may change its limits and its user; return whether it succeeded."""
    child = os.fork()
    if not child:
        is_good = False
        try:
            is_good = work()
        finally:
            os._exit(0 if is_good else 1)
    return os.waitpid(child, 0)[1] == 0


def test_error_on_a_disk_that_is_full_from_the_start(tmp_path: Path) -> None:
    """The error states the cause, not that the new file has no table."""

    def work() -> bool:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        try:
            ReplyStore(tmp_path / "replies.sqlite")
        except LMError as error:
            return "cannot store replies in" in str(error) and "no such table" not in str(error)
        return False

    assert in_child(work)


def test_full_disk_does_not_affect_answers(tmp_path: Path) -> None:
    def work() -> bool:
        warnings: list[str] = []
        lm, store = Model(), ReplyStore(tmp_path / "cache" / "replies.sqlite", warn=warnings.append)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        for number in range(100):
            store.put(b"%d" % number, b"x" * 4000)
        is_warned = "new replies are no longer stored in" in warnings[0] and len(warnings) == 1
        with ValueCache(tmp_path / "cache", warn=warnings.append) as cache:
            answer = run(PROGRAM, cache.emulator(lm), sandbox="none").answer
        return is_warned and store.get(b"0") == b"x" * 4000 and store.get(b"99") is None and answer == ["fig", "kiwi"]

    assert in_child(work)


def test_read_only_directory_can_be_used() -> None:
    """As another user, because nothing is read-only for root."""

    def work() -> bool:
        if os.getuid() == 0:
            os.setuid(65534)
        warnings: list[str] = []
        store = ReplyStore(place / "replies.sqlite", warn=warnings.append)
        store.put(b"new", b"x")
        is_warned = warnings == [
            f"cannot write {place}/replies.sqlite: stored replies are used, but no new ones are added"
        ]
        return is_warned and store.get(b"key") == b"value" and store.get(b"new") is None

    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "cache"
        store = ReplyStore(place / "replies.sqlite")
        store.put(b"key", b"value")
        store.close()
        Path(directory).chmod(0o755)
        for path, mode in ((place / "replies.sqlite", 0o444), (place, 0o555)):
            path.chmod(mode)
        is_good = in_child(work)
        place.chmod(0o755)
        assert is_good


def test_cache_must_be_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is not a directory"):
        ValueCache(tmp_path / "file")
