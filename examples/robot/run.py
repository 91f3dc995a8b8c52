"""The paper's robot: seven instructions, a program for each, three tools. Takes a model's name, as --model does."""

import json
import sys
from pathlib import Path

from world import World

from chainofcode import Jail, connect, solve

HERE = Path(__file__).parent
lm = connect(sys.argv[1] if len(sys.argv) > 1 else f"scripted:{HERE / 'replies.jsonl'}")
example = (HERE / "example.md").read_text(encoding="utf-8")
tasks = [json.loads(line) for line in (HERE / "tasks.jsonl").read_text(encoding="utf-8").splitlines()]
done = 0
with Jail() as jail:
    for task in tasks:
        world = World(task["objects"], task["wanted"])
        tools = [world.detect_objects, world.pick_place, world.say]
        result = solve(task["instruction"], lm, examples=example, tools=tools, sandbox=jail)
        done += world.is_done
        print("✓" if world.is_done else "✗", task["instruction"], "→", " ".join(world.said) or result)
print(f"answer: {done} of {len(tasks)}")
