"""The examples: each command in their table runs unchanged and prints the answer in its row."""

from __future__ import annotations

import csv
import json
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from conftest import ROOT, has_tier
from test_cli import coc

EXAMPLES = ROOT / "examples"
TABLE = (EXAMPLES / "README.md").read_text(encoding="utf-8")
WITHOUT_PACKAGES = """
import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *package: None if name in ("pandas", "matplotlib") else find_spec(name, *package)
import importlib.metadata
importlib.metadata.packages_distributions = dict
"""
ROWS = re.findall(r"^\|.*\| `((?:coc|python) .*)` \| `(.*)` \|$", TABLE, re.M)


@pytest.mark.parametrize(("command", "answer"), ROWS, ids=[command[:30] for command, _ in ROWS])
def test_example(command: str, answer: str, tmp_path: Path) -> None:
    if any(word in command for word in ("--scratch", "--artifacts", "orders")) and not has_tier("A"):
        pytest.skip("a scratch directory needs tier A of the sandbox")
    (tmp_path / "examples").symlink_to(EXAMPLES)
    program, *words = shlex.split(command)
    started = [sys.executable, *(["-m", "chainofcode"] if program == "coc" else []), *words]
    done = subprocess.run(started, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    assert answer in [line.removeprefix("answer: ") for line in done.stdout.splitlines()], done.stdout
    if "--artifacts" in command:
        assert (tmp_path / "plots" / "moods.png").read_bytes().startswith(b"\x89PNG")


def test_table_is_complete() -> None:
    assert len(ROWS) == TABLE.count("\n| ") - 1  # the header
    for path in (path for kind in ("*.py", "*.js", "*.ts") for path in EXAMPLES.glob(kind)):
        assert f"examples/{path.name} " in TABLE
    for target in re.findall(r"\]\(([\w./-]+)\)", TABLE):
        assert (EXAMPLES / target).exists()


def test_examples_are_listed() -> None:
    done = coc("examples")
    assert [line.split()[0] for line in done.stdout.splitlines()] == re.findall(r"^\| \[([^]]+)", TABLE, re.M)
    listed = json.loads(coc("examples", "--json").stdout)
    assert [(example["command"], example["answer"]) for example in listed] == ROWS


def test_list_names_what_an_example_needs() -> None:
    listed = {line.split()[0]: line for line in coc("examples").stdout.splitlines()}
    assert listed["sales.py"].endswith("a plot (needs pandas, matplotlib)")
    assert listed["fruit.js"].endswith(" (needs the extra `js`)")
    for (command, _), line in zip(ROWS, listed.values(), strict=True):
        assert {*re.findall(r"--allow-package (\w+)", command)} - {"msgspec"} <= {*re.findall(r"\w+", line)}


@pytest.mark.parametrize(
    ("name", "words"),
    [("orders", "'matplotlib': no such package is"), ("sales", "'pandas', 'matplotlib': no such packages are")],
)
def test_missing_packages_are_one_line(name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"  # not the working directory, where no module is imported from
    site.mkdir()
    (site / "sitecustomize.py").write_text(WITHOUT_PACKAGES)
    monkeypatch.setenv("PYTHONPATH", str(site))
    done = coc("examples", name, cwd=tmp_path)
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1].removeprefix("coc: ")
    packages = " ".join(re.findall(r"'(\w+)'", words))
    assert last == f"cannot grant {words} installed here (pip install {packages})"


@pytest.mark.parametrize(
    ("name", "answer"), [("fruit", "2 of 4 are fruit"), ("word_problem", "224"), ("robot", "7 of 7")]
)
def test_run_from_anywhere(name: str, answer: str, tmp_path: Path) -> None:
    done = coc("examples", name, cwd=tmp_path)
    assert done.returncode == 0 and answer in done.stdout, done.stderr
    assert done.stderr.startswith("$ ") or name == "robot"


def test_run_with_a_model(tmp_path: Path) -> None:
    """The model replaces the recorded values; the rest of the command is the same."""
    (tmp_path / "replies.jsonl").write_text(json.dumps({"when": "is_fruit", "reply": '{"value": true}'}) + "\n")
    done = coc("examples", "fruit.py", "--model", f"scripted:{tmp_path}/replies.jsonl")
    assert "'4 of 4 are fruit'" in done.stdout, done.stderr


def test_run_a_script_with_a_model(tmp_path: Path) -> None:
    """A model that considers every comment a complaint is wrong once."""
    if not has_tier("A"):
        pytest.skip("a scratch directory needs tier A of the sandbox")
    replies = (EXAMPLES / "orders" / "replies.jsonl").read_text(encoding="utf-8").replace("false", "true")
    (tmp_path / "replies.jsonl").write_text(replies)
    done = coc("examples", "orders", "--model", f"scripted:{tmp_path}/replies.jsonl")
    assert done.stdout.endswith("answer: 4 of 5\n"), done.stderr


def test_unknown_example() -> None:
    done = coc("examples", "nope")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown example 'nope' (expected one of: fruit.py, word_problem," in done.stderr


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.name)
def test_examples_are_short(path: Path) -> None:
    assert path.read_text(encoding="utf-8").count("\n") < 40


def test_expected_answers_about_the_orders_are_correct() -> None:
    """They are computed here in another way; only people can judge which comments are complaints."""
    with (EXAMPLES / "orders" / "orders.csv").open(encoding="utf-8") as file:
        orders = list(csv.DictReader(file))
    revenue, months, by_month = Counter[str](), Counter[str](), Counter[str]()
    for order in orders:
        cents = round(100 * float(order["price"])) * int(order["quantity"])
        revenue[order["region"]] += cents
        by_month[order["date"][5:7]] += cents
        months[order["date"][5:7]] += 1
    share = 100 * sum(order["region"] == "north" for order in orders) / len(orders)
    computed = [
        max(revenue, key=revenue.__getitem__),
        int(months.most_common(1)[0][0]),
        share,
        max(by_month.values()) / 100,
    ]
    lines = (EXAMPLES / "orders" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(orders) == 200 and [json.loads(line)["answer"] for line in lines][:-1] == computed
    assert months.most_common(2)[0][1] > months.most_common(2)[1][1]


def test_robot_task_is_done_only_after_the_right_moves() -> None:
    lines = (EXAMPLES / "robot" / "tasks.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 7
    check = (
        "import json, sys; from world import World\n"
        "task = json.loads(sys.argv[1]); world = World(task['objects'], task['wanted'])\n"
        "assert not world.is_done\n"
        "for target, objects in task['wanted'].items(): [world.pick_place(one, target) for one in objects]\n"
        "assert not world.is_done; world.say('done'); assert world.is_done\n"
        "other = next(one for one in world.objects if one not in world.placed and one not in task['wanted'])\n"
        "world.pick_place(other, target); assert not world.is_done\n"
        "try: world.pick_place('unicorn', target)\n"
        "except ValueError: print('checked')"
    )
    for line in lines:
        extra = json.dumps({**json.loads(line), "objects": [*json.loads(line)["objects"], "stone"]})
        done = subprocess.run(
            [sys.executable, "-c", check, extra], capture_output=True, text=True, check=False, cwd=EXAMPLES / "robot"
        )
        assert done.stdout == "checked\n", done.stderr
