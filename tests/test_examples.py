"""The examples: each command in their table is run as it stands there, and gives the answer beside it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, has_tier

EXAMPLES = ROOT / "examples"
TABLE = (EXAMPLES / "README.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\|.*\| `((?:coc|python) .*)` \| `(.*)` \|$", TABLE, re.M)


@pytest.mark.parametrize(("command", "answer"), ROWS, ids=[command[:30] for command, _ in ROWS])
def test_example(command: str, answer: str, tmp_path: Path) -> None:
    if ("--scratch" in command or "--artifacts" in command) and not has_tier("A"):
        pytest.skip("a scratch directory needs tier A of the sandbox")
    (tmp_path / "examples").symlink_to(EXAMPLES)
    program, *words = shlex.split(command)
    started = [sys.executable, *(["-m", "chainofcode"] if program == "coc" else []), *words]
    done = subprocess.run(started, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    assert answer in [line.removeprefix("answer: ") for line in done.stdout.splitlines()], done.stdout
    if "--artifacts" in command:
        assert (tmp_path / "plots" / "moods.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_is_whole() -> None:
    assert len(ROWS) == TABLE.count("\n| ") - 1  # the header
    for path in EXAMPLES.glob("*.py"):
        assert f"examples/{path.name} " in TABLE
    for target in re.findall(r"\]\(([\w./-]+)\)", TABLE):
        assert (EXAMPLES / target).exists()


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.name)
def test_they_are_short(path: Path) -> None:
    assert path.read_text(encoding="utf-8").count("\n") < 40


def test_a_robot_that_does_the_wrong_thing_is_not_done() -> None:
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
