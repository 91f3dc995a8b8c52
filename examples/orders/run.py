"""Five questions about a table of orders. Takes a model's name, as --model does."""

import json
import math
import sys
from pathlib import Path

from chainofcode import ChainOfCodeError, Jail, connect, solve


def is_same(answer, wanted):
    """Whether an answer is right; sums of prices may differ in the last digits."""
    return answer == wanted or (isinstance(answer, (int, float)) and math.isclose(answer, wanted))


HERE = Path(__file__).parent
lm = connect(sys.argv[1] if len(sys.argv) > 1 else f"scripted:{HERE / 'replies.jsonl'}")
tasks = [json.loads(line) for line in (HERE / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
right = 0
try:
    with Jail() as jail:
        for task in tasks:
            result = solve(
                task["question"],
                lm,
                files=[HERE / "orders.csv"],
                answer_type=task["type"],
                packages=["matplotlib"],
                scratch=True,
                sandbox=jail,
            )
            is_right = is_same(result.answer, task["answer"]) and task.get("file", "") in ["", *result.artifacts]
            right += is_right
            print("✓" if is_right else "✗", task["question"], "→", result.answer, *result.artifacts, flush=True)
except ChainOfCodeError as error:
    sys.exit(str(error))
print(f"answer: {right} of {len(tasks)}")
