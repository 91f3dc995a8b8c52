"""Files as variables of a JavaScript program."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import has_tier
from js_runs import run_js

from chainofcode import InputError, Limits, Result, SandboxError, ScriptedLM, solve
from chainofcode.audit import areplay, follow
from chainofcode.cli import main
from chainofcode.engine import RunOptions
from chainofcode.languages import JAVASCRIPT
from chainofcode.methods import files_of
from chainofcode.sandbox import Jail, Sandbox

SALES = 'day;amount;note;paid\n2024-01-01;3.5;"a;\nb";true\n2024-01-02;;ü;false\n'


@pytest.fixture(scope="module")
def jail() -> Iterator[Sandbox]:
    with Jail(spares=1) as made:
        yield made


def run_with(program: str, *paths: Path, values: Any = (), **options: Any) -> Result:
    files = asyncio.run(files_of(paths, RunOptions(language=JAVASCRIPT)))
    return run_js(program, values, prelude=files.prelude, reads=files.reads, **options)


def written(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def test_every_supported_format(tmp_path: Path, jail: Sandbox) -> None:
    paths = [
        written(tmp_path / "sales.csv", SALES),
        written(tmp_path / "pairs.tsv", "a\tb\n1\tx\n"),
        written(tmp_path / "conf.json", '{"深": [1, null, 2.5], "__proto__": 1}'),
        written(tmp_path / "log.jsonl", '{"n": 1}\n\n[2]\n'),
        written(tmp_path / "essay.md", "Zwei\nZeilen \U0001f600"),
    ]
    program = "answer = [sales, pairs, conf['深'], Object.keys(conf).length, log, essay];"
    assert run_with(program, *paths, sandbox=jail).answer == [
        [
            {"day": "2024-01-01", "amount": 3.5, "note": "a;\nb", "paid": True},
            {"day": "2024-01-02", "amount": None, "note": "ü", "paid": False},
        ],
        [{"a": 1, "b": "x"}],
        [1, None, 2.5],
        2,
        [{"n": 1}, [2]],
        "Zwei\nZeilen \U0001f600",
    ]


def test_prompt_describes_the_files(tmp_path: Path, jail: Sandbox) -> None:
    lm = ScriptedLM(["```javascript\nanswer = sales.length + essay.length;\n```"])
    paths = [written(tmp_path / "sales.csv", SALES), written(tmp_path / "essay.txt", "four")]
    assert solve("What?", lm, files=paths, language=JAVASCRIPT, sandbox=jail).answer == 6
    prompt = lm.requests[0][-1].content
    assert "sales = an array of 2 objects, one for each row of sales.csv; a missing number or date is null." in prompt
    assert "'day': string with a date, 2024-01-01 to 2024-01-02\n'amount': number, 3.5 to 3.5\n" in prompt
    assert '{"day":"2024-01-02","amount":null,"note":"ü","paid":false}' in prompt
    assert "essay = the text of essay.txt (string), 4 characters." in prompt
    assert "dict" not in prompt and "None" not in prompt


def test_calls_replay_and_provenance(tmp_path: Path, jail: Sandbox) -> None:
    path = written(tmp_path / "fruit.json", '["kiwi", "saw"]')
    values = {'isFruit("kiwi")': True, 'isFruit("saw")': False}
    result = run_with("answer = fruit.filter(isFruit).length;", path, values=values, sandbox=jail)
    assert result.answer == 1
    assert follow(result.trace, sandbox=jail).slice.inputs == {"fruit"}
    assert asyncio.run(areplay(result.trace, sandbox=jail)).is_same
    path.write_text('["kiwi", "saw", "kiwi"]')
    assert not asyncio.run(areplay(result.trace, sandbox=jail)).is_same


def test_lookahead_has_the_files(tmp_path: Path, jail: Sandbox) -> None:
    path = written(tmp_path / "fruit.json", '["kiwi", "saw", "fig"]')
    values = {f'isFruit("{name}")': True for name in ("kiwi", "saw", "fig")}
    program = "let n = 0;\nfor (const f of fruit) if (isFruit(f)) n++;\nanswer = n;"
    result = run_with(program, path, values=values, sandbox=jail, in_flight=4)
    assert result.answer == 3 and result.trace.lm_calls == 3


@pytest.mark.parametrize("stem", ["class", "Map", "answer", "console", "1st", "a-b", "undefined", "setTimeout"])
def test_file_names_become_valid_variable_names(stem: str, tmp_path: Path, jail: Sandbox) -> None:
    files = asyncio.run(files_of([written(tmp_path / f"{stem}.txt", "x")], RunOptions(language=JAVASCRIPT)))
    (file,) = files.prelude
    result = run_js(f"const got = {file.name};\nanswer = got;", prelude=files.prelude, reads=files.reads, sandbox=jail)
    assert result.answer == "x", file.name


def test_names_reserved_only_in_python_are_kept(tmp_path: Path) -> None:
    paths = [written(tmp_path / f"{stem}.txt", "x") for stem in ("list", "json", "lambda", "Sales")]
    files = asyncio.run(files_of(paths, RunOptions(language=JAVASCRIPT)))
    assert [file.name for file in files.prelude] == ["list", "json", "lambda", "Sales"]


@pytest.mark.parametrize("name", ["a.parquet", "a.xlsx", "a.sqlite", "a.png"])
def test_unsupported_formats_are_rejected(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    sqlite3.connect(path).close() if name.endswith("sqlite") else path.write_bytes(b"x")
    with pytest.raises(
        InputError, match=rf"cannot pass .*{name} to a JavaScript program.*use --language python or sql"
    ):
        asyncio.run(files_of([path], RunOptions(language=JAVASCRIPT)))


def test_invalid_paths_are_rejected(tmp_path: Path) -> None:
    for path, why in [
        (tmp_path / "none.csv", "No such file"),
        (tmp_path, "it is a directory"),
        ("/dev/zero", "not a regular"),
    ]:
        with pytest.raises(InputError, match=why):
            asyncio.run(files_of([path], RunOptions(language=JAVASCRIPT)))


def test_file_that_is_not_granted_cannot_be_read(tmp_path: Path) -> None:
    """The sandbox denies access; the list of files does not grant it."""
    path = written(tmp_path / "secret.txt", "secret")
    files = asyncio.run(files_of([path], RunOptions(language=JAVASCRIPT)))
    with Jail() as jail:
        result = run_js("answer = secret;", prelude=files.prelude, sandbox=jail)
    assert result.error is not None and result.error.type == "FileError"
    assert result.error.message.startswith("cannot read secret.txt: ")
    assert "secret" not in str(result.answer)


def test_a_program_cannot_open_files_itself(tmp_path: Path, jail: Sandbox) -> None:
    path = written(tmp_path / "a.txt", "x")
    result = run_with(f"answer = require('fs').readFileSync({json.dumps(str(path))});", path, sandbox=jail)
    assert result.error is not None and result.error.message == "require is not defined"


@pytest.mark.skipif(not has_tier("C"), reason="needs tier C")
def test_tier_c_rejects_files(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="granting files needs tier A or B"):
        run_with("answer = a;", written(tmp_path / "a.txt", "x"), sandbox="C")


def test_file_that_becomes_invalid_later_is_an_error(tmp_path: Path, jail: Sandbox) -> None:
    path = written(tmp_path / "conf.json", "[1]")
    files = asyncio.run(files_of([path], RunOptions(language=JAVASCRIPT)))
    path.write_text("[1")
    result = run_js("answer = conf;", prelude=files.prelude, reads=files.reads, sandbox=jail)
    assert result.error is not None and result.error.type == "FileError"
    assert "cannot read conf.json: JSONDecodeError" in result.error.message


def test_file_larger_than_the_memory_limit(tmp_path: Path, jail: Sandbox) -> None:
    path = written(tmp_path / "big.txt", "x" * 60_000_000)
    result = run_with("answer = big.length;", path, sandbox=jail, limits=Limits(memory_bytes=160 << 20))
    assert result.reason == "limit:memory", result.error
    assert run_with("answer = big.length;", path, sandbox=jail).answer == 60_000_000


def test_run_command_with_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = written(tmp_path / "p.js", "answer = rows.map((row) => row.n);")
    path = written(tmp_path / "rows.csv", "n\n1\n2\n")
    assert main(["run", str(program), "--file", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == [1, 2]
