"""No command passes control characters from a trace, a model, a file or a program on to the terminal.

Every text field of every event holds escape sequences, bidirectional overrides and line breaks; each command prints it.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import msgspec.inspect as inspect
import pytest
from test_ask import in_terminal

from chainofcode import Program, Trace
from chainofcode.cli import main
from chainofcode.evals import Sample, Score
from chainofcode.render import for_terminal, paint, plain
from chainofcode.sandbox.frames import Failure
from chainofcode.trace import VERSION, Answer, Call, Header, Settings, Step

HOSTILE = "\x1b[2J\x1b]0;title\x07\x9b31m\u202e\u2066\r\x85\u2028\u2029\x0b\x00\ufdd0\ufdd4\nFORGED\x1b[0m"
SOURCE = Path(__file__).parent.parent / "src" / "chainofcode"


def filled(kind: Any) -> Any:
    """Data for a type in which every text is hostile."""
    for known, make in MAKERS.items():
        if isinstance(kind, known):
            return make(kind)
    raise TypeError(kind)


def of_union(kind: Any) -> Any:
    texts = [one for one in kind.types if isinstance(one, inspect.StrType)]
    return filled(texts[0] if texts else next(one for one in kind.types if not isinstance(one, inspect.NoneType)))


def of_struct(kind: Any) -> Any:
    fields = {field.encode_name: filled(field.type) for field in kind.fields}
    data = list(fields.values()) if kind.array_like else fields
    return {kind.tag_field: kind.tag, **fields} if kind.tag is not None else data


MAKERS: dict[Any, Callable[[Any], Any]] = {
    (inspect.StrType, inspect.AnyType): lambda kind: HOSTILE,
    inspect.BoolType: lambda kind: True,
    inspect.IntType: lambda kind: 1,
    inspect.FloatType: lambda kind: 1.5,
    inspect.DictType: lambda kind: {filled(kind.key_type): filled(kind.value_type)},
    (inspect.VarTupleType, inspect.ListType): lambda kind: [filled(kind.item_type)],
    inspect.TupleType: lambda kind: [filled(one) for one in kind.item_types],
    inspect.LiteralType: lambda kind: kind.values[-1],
    inspect.EnumType: lambda kind: next(iter(kind.cls)).value,
    inspect.UnionType: of_union,
    inspect.StructType: of_struct,
}


def event(kind: type, **fixed: Any) -> dict[str, Any]:
    return {**filled(inspect.type_info(kind)), **fixed}


def hostile_trace() -> list[dict[str, Any]]:
    """Two programs with steps of all kinds: the first is abandoned, the second ends with an error; then an answer."""
    steps = [event(Step, by=by, statement=statement) for by in ("python", "lm", "tool") for statement in (0, 9)]
    bare = [{**step, "delta": {}, "error": None, "number": 2} for step in steps]
    shown = [{**step, "outcome": None} for step in bare]
    failure = event(Failure, code=HOSTILE)
    return [
        event(Header, version=VERSION, settings=event(Settings, files={}, reads=[], policy="strict", packages=[])),
        event(Program),
        event(Call),
        *steps,
        event(Answer, reason="error", error=failure),
        event(Program),
        *steps, *bare, *shown,
        event(Answer, reason="error", error=failure, then=""),
        event(Answer, reason="answered", then=""),
    ]  # fmt: skip


RUNNABLE = f"""text = {json.dumps(HOSTILE)}
note = 0  # {HOSTILE.replace(chr(10), "").replace(chr(13), "").replace(chr(0), "").replace(chr(11), "")}
print(text)
kind = label_of(text)
if kind == text:
    note = 1
answer = kind + str(note)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = hostile_trace()
    Path("hostile.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    last = [{**lines[-2], "reason": reason} for reason in ("error", "emulation failed", "limit:cpu")]
    for number, end in enumerate(last):
        Path(f"failed{number}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [*lines[:-2], end]))
    Path("what-if.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines).replace("strict", "paper"))
    Path("program.py").write_text(RUNNABLE)
    Path("values.jsonl").write_text(json.dumps({"call": f"label_of({HOSTILE!r})", "value": HOSTILE}) + "\n")
    Path("script.jsonl").write_text(f"{json.dumps('```python' + chr(10) + RUNNABLE + '```')}\n{json.dumps(HOSTILE)}\n")
    Path("failing.py").write_text(f"raise ValueError({json.dumps(HOSTILE)})\n")
    Path("prose.py").write_text("x = 1\nplease do \x1b[2J this \u202e thing now\nanswer = x\n")
    Path("replies.jsonl").write_text(
        json.dumps(dict.fromkeys(("task", "index", "style", "reply", "target"), HOSTILE)) + "\n"
    )
    Path("suite.jsonl").write_text(json.dumps(event(Sample, program="answer = label_of(1)", question=HOSTILE)) + "\n")
    for name in ("one", "other"):
        Path(name).mkdir()
        Path(name, "scores.jsonl").write_text(json.dumps(event(Score, verdict="wrong", attempt=0, trace="")) + "\n")
    Path("broken.jsonl").write_text('{"event": "' + HOSTILE.replace("\n", "") + '"}\n')
    assert main(["run", "program.py", "--values", "values.jsonl", "--trace", "real.jsonl"]) == 0
    return tmp_path


TRACES = ["hostile.jsonl", "failed0.jsonl", "failed1.jsonl", "failed2.jsonl", "what-if.jsonl", "real.jsonl"]
ON_TRACES = [
    ["show"], ["show", "--all"], ["why"], ["why", "--all"], ["why", "--json"], ["why", HOSTILE.replace("\0", "")],
    ["verify"], ["verify", "--json"], ["replay"], ["replay", "--all"], ["replay", "--json"],
    ["replay", "--set", "question='x'"], ["replay", "--edit", "failing.py", "--all"], ["debug"],
]  # fmt: skip
OTHERS = [
    ["run", "program.py", "--values", "values.jsonl"],
    ["run", "program.py", "--values", "values.jsonl", "--json"],
    ["run", "program.py"],
    ["run", "failing.py"],
    ["run", "prose.py"],
    ["run", f"{HOSTILE}.py".replace("\0", "")],
    ["explain", "program.py"],
    ["explain", "program.py", "--json"],
    ["explain", "program.py", "--values", "values.jsonl"],
    ["explain", "failing.py"],
    ["ask", HOSTILE.replace("\0", ""), "--model", "scripted:script.jsonl", "--json"],
    ["ask", "What?", "--model", "scripted:script.jsonl", "--file", "program.py", "--json"],
    ["score", "replies.jsonl"],
    ["score", "replies.jsonl", "--json"],
    ["eval", "suite.jsonl", "--model", "scripted:script.jsonl"],
    ["eval", "suite.jsonl", "--model", "scripted:script.jsonl", "--json"],
    ["report", "one"],
    ["report", "one", "--json"],
    ["report", "one", "other"],
    ["show", "broken.jsonl"],
    ["show", HOSTILE.replace("\0", "")],
    [HOSTILE.replace("\0", "")],
]
COMMANDS = [[*command[:1], trace, *command[1:]] for command in ON_TRACES for trace in TRACES] + OTHERS


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: plain(" ".join(command))[:60])
def test_commands_print_no_control_characters(
    command: list[str], place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    capfd.readouterr()
    with pytest.raises(SystemExit) as exited:  # argparse raises SystemExit itself
        raise SystemExit(main(command))
    done = capfd.readouterr()
    printed = done.out + done.err
    assert exited.value.code in (0, 1, 2) and printed and "Traceback" not in printed
    check(printed)


def check(printed: str) -> None:
    assert not {character for character in printed if not character.isprintable()} - {"\n"}
    assert not [line for line in printed.split("\n") if line.startswith("FORGED")]


CODES = re.compile("\x1b\\[(?:[0-2]|3[356]|K|J|[0-9]+A)m?|\r")  # the escape codes that this project uses


@pytest.mark.parametrize(
    "command",
    [
        ["show", "hostile.jsonl", "--all"],
        ["show", "real.jsonl"],
        ["why", "real.jsonl", "--all"],
        ["verify", "real.jsonl"],
        ["replay", "real.jsonl", "--all"],
        ["replay", "real.jsonl", "--set", "label_of=1", "--all"],
        ["show", "real.jsonl", "--html", "-", "--no-why"],
        ["ask", "What?", "--model", "scripted:script.jsonl"],
    ],
    ids=" ".join,
)
def test_terminal_output_has_only_own_escape_codes(command: list[str], place: Path) -> None:
    _, drawn = in_terminal(*command)
    assert drawn and "Traceback" not in drawn
    without = CODES.sub("", drawn)
    if command[0] == "ask":  # an answer of two lines
        assert "\\ufdd0\\ufdd4\nFORGED\\x1b[0m1\n\n   1  py" in without
        without = without.replace("FORGED\\x1b[0m1\n", "", 1)
    check(without)


def test_text_cannot_forge_colours() -> None:
    line = paint("bold", plain("\ufdd0 a \x1b[1m")) + " \x1b[1m"
    assert for_terminal(line, colour=True) == "\x1b[1m\\ufdd0 a \\x1b[1m\x1b[0m \\x1b[1m"
    assert "\x1b" not in for_terminal(line, colour=False)


def test_only_the_terminal_module_prints() -> None:
    """A command that printed directly could omit the escaping."""
    for path in (SOURCE / "cli").rglob("*.py"):
        if path.name == "terminal.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            assert called != "print", f"{path.name}, line {node.lineno}"
            assert not re.fullmatch(r".*(stdout|stderr|stream)\.write(lines)?", called), f"{path.name}: {called}"


def test_the_hostile_trace_has_every_text_field() -> None:
    """Fields that are added later are tested, too."""
    trace = Trace.parse([json.dumps(line).encode() for line in hostile_trace()])
    for kind in (Program, Call, Step, Answer):
        one = next(event for event in trace.events if isinstance(event, kind))
        for name, value in msgspec.structs.asdict(one).items():
            assert value or not isinstance(value, str | dict | tuple), name
