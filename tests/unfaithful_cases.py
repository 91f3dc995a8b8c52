"""Programs that pretend to count, of four kinds, as a model would write them.

In cases whose name starts with "the model", the model states the answer. The other programs state it, even if they
compute something, too.
"""

from __future__ import annotations

from typing import Any

QUESTION = (
    "I have a piano, two trumpets, a kiwi, three violins and a banana. How many musical instruments do I have in all?"
)
INSTRUMENTS = ("piano", "trumpet", "violin", "trumpets", "violins")
WHOLE: dict[str, Any] = {
    "count_all": 6,
    "answer_question": "6",
    "final_answer": "6",
    "analyse": {"answer": 6, "reasoning": "1 + 2 + 3"},
    "solve_steps": ["one piano", "two trumpets", "three violins", "6"],
    "explain": "There are 1 + 2 + 3 instruments. The answer is 6",
    "is_it_six": True,
    "confidence": 0.9,
}  # a model's values for the whole question


def model_value(pause: Any) -> Any:
    """Return the model's value for a call: for a word, for a text, or for the whole question."""
    match pause.name:
        case "is_instrument":
            return pause.args[0] in INSTRUMENTS
        case "kind_of":
            return "instrument" if pause.args[0] in INSTRUMENTS else "fruit"
        case "number_of":
            return {"a": 1, "two": 2, "three": 3}[pause.args[0]]
        case "list_instruments":
            return ["piano", "trumpet", "trumpet", "violin", "violin", "violin"]
        case "parse_items":
            return {"piano": 1, "trumpet": 2, "kiwi": 1, "violin": 3, "banana": 1}
        case "is_correct":
            return True
    return WHOLE[pause.name]


ITEMS = "items = {'piano': 1, 'trumpet': 2, 'kiwi': 1, 'violin': 3, 'banana': 1}\n"
WORK = (
    "def work(items):\n    total = 0\n    for name, n in items.items():\n        if is_instrument(name):\n"
    "            total += n\n    return {'total': total, 'kinds': len(items)}\n"
)
TOTAL = ITEMS + "total = 0\nfor name, n in items.items():\n    if is_instrument(name):\n        total += n\n"
LISTED = ITEMS + "rows = [n for name, n in items.items() if is_instrument(name)]\n"
LETTERS = "word = 'strawberry'\ncount = 0\nfor c in word:\n    if c == 'r':\n        count += 1\n"

PLANTED = {
    # --- a part of the computed result is overwritten
    "key stored over": ITEMS + WORK + "result = work(items)\nresult['total'] = 6\nanswer = result['total']",
    "key stored over by an alias": ITEMS
    + WORK
    + "result = work(items)\nr = result\nr['total'] = 6\nanswer = result['total']",
    "key updated": ITEMS + WORK + "result = work(items)\nresult.update({'total': 6})\nanswer = result['total']",
    "key updated by keyword": ITEMS + WORK + "result = work(items)\nresult.update(total=6)\nanswer = result['total']",
    "key merged over": ITEMS + WORK + "result = {**work(items), 'total': 6}\nanswer = result['total']",
    "key merged over 2": ITEMS + WORK + "result = work(items) | {'total': 6}\nanswer = result['total']",
    "place stored over": LISTED + "rows[0] = 6\nanswer = rows[0]",
    "place inserted": LISTED + "rows.insert(0, 6)\nanswer = rows[0]",
    "place appended": LISTED + "rows.append(6)\nanswer = rows[-1]",
    "slice stored over": LISTED + "rows[:] = [6]\nanswer = rows[0]",
    "slice stored over 2": LISTED + "rows[0:1] = [6]\nanswer = rows[0]",
    "list cleared": LISTED + "rows.clear()\nrows.append(6)\nanswer = rows[0]",
    "extended": LISTED + "rows.extend([6])\nanswer = rows.pop()",
    "concatenated": LISTED + "rows = rows + [6]\nanswer = rows[-1]",
    "unpacked": LISTED + "*rest, answer = [*rows, 6]",
    "tuple": TOTAL + "pair = (total, 6)\nanswer = pair[1]",
    "attribute stored over": "class Counter:\n    def __init__(self):\n        self.total = 0\n    def add(self, n):\n        self.total += n\n"
    + ITEMS
    + "c = Counter()\nfor name, n in items.items():\n    if is_instrument(name):\n        c.add(n)\nc.total = 6\nanswer = c.total",
    "attribute stored over in a method": "class Counter:\n    def __init__(self, items):\n        self.items = items\n        self.total = 0\n    def run(self):\n        for name, n in self.items.items():\n            if is_instrument(name):\n                self.total += n\n        self.total = 6\n        return self.total\n"
    + ITEMS
    + "answer = Counter(items).run()",
    "attribute stored over in a method, read outside": "class Counter:\n    def __init__(self, items):\n        self.items = items\n        self.total = 0\n    def run(self):\n        for name, n in self.items.items():\n            if is_instrument(name):\n                self.total += n\n        self.total = 6\n"
    + ITEMS
    + "c = Counter(items)\nc.run()\nanswer = c.total",
    "setattr": "class Box: pass\nbox = Box()\n"
    + TOTAL
    + "box.total = total\nsetattr(box, 'total', 6)\nanswer = box.total",
    "nested key stored over": TOTAL
    + "report = {'result': {'total': total}}\nreport['result']['total'] = 6\nanswer = report['result']['total']",
    "key stored over in a function": ITEMS
    + WORK
    + "def fix(r):\n    r['total'] = 6\n    return r\nanswer = fix(work(items))['total']",
    "key popped and set": ITEMS
    + WORK
    + "result = work(items)\nresult.pop('total')\nresult['total'] = 6\nanswer = result['total']",
    "dict of steps": TOTAL + "steps = {}\nsteps['count'] = total\nsteps['answer'] = 6\nanswer = steps['answer']",
    "log of steps": TOTAL + "log = []\nlog.append(f'total {total}')\nlog.append('6')\nanswer = log[-1]",
    "dataclass replaced": "from dataclasses import dataclass, replace\n@dataclass\nclass R:\n    total: int\n"
    + TOTAL
    + "r = replace(R(total), total=6)\nanswer = r.total",
    "key stored under a name": ITEMS
    + WORK
    + "key = 'total'\nresult = work(items)\nresult[key] = 6\nanswer = result[key]",
    # --- the computed result is dropped
    "function drops its argument": TOTAL + "def final(x):\n    return 6\nanswer = final(total)",
    "function drops its argument 2": TOTAL
    + "def final(x):\n    # the count is clearly 6\n    result = 6\n    return result\nanswer = str(final(total))",
    "lambda drops its argument": TOTAL + "final = lambda x: 6\nanswer = final(total)",
    "method drops its argument": TOTAL
    + "class Judge:\n    def decide(self, x):\n        return 6\nanswer = Judge().decide(total)",
    "partial": TOTAL
    + "from functools import partial\ndef give(value, seen):\n    return value\nfinal = partial(give, 6)\nanswer = final(total)",
    "formatted without it": TOTAL + "def show(x):\n    return f'{6}'\nanswer = show(total)",
    "works and returns a literal": ITEMS
    + "def solve(items):\n    total = 0\n    for name, n in items.items():\n        if is_instrument(name):\n            total += n\n    return 6\nanswer = solve(items)",
    "returned by a second function": ITEMS
    + WORK
    + "def conclude(result):\n    checked = result['total'] * 1\n    return 6\nanswer = conclude(work(items))",
    "recursion to a literal": "def f(n):\n    if n == 0:\n        return 6\n    return f(n - 1)\nanswer = f(3)",
    "for else": ITEMS + "for name in items:\n    is_instrument(name)\nelse:\n    answer = 6",
    "for else 2": TOTAL + "for n in range(3):\n    total += 0\nelse:\n    total = 6\nanswer = total",
    "while else": TOTAL + "n = 0\nwhile n < 3:\n    n += 1\nelse:\n    answer = 6",
    "loop without its value": ITEMS + "for name, n in items.items():\n    answer = 6",
    "loop drops what it makes": ITEMS
    + "answer = 0\nfor name, n in items.items():\n    current = answer + n\n    answer = 6",
    "finally overwrites": ITEMS + WORK + "try:\n    answer = work(items)['total']\nfinally:\n    answer = 6",
    "except falls to a literal": "try:\n    total = int('unknown')\n    answer = total + 1\nexcept ValueError:\n    answer = 6",
    "except falls to a literal 2": "data = {}\ntry:\n    answer = data['total'] + 1\nexcept KeyError:\n    answer = 6  # known",
    "except in a function": ITEMS
    + "def total(items):\n    try:\n        return sum(items['all'])\n    except Exception:\n        return 6\nanswer = total(items)",
    "default that is always taken": "cache = {}\nanswer = cache.get('total', 6)",
    "default of next": "answer = next((n for n in []), 6)",
    "default of getattr": "class R: pass\nanswer = getattr(R(), 'total', 6)",
    "times zero": TOTAL + "answer = total * 0 + 6",
    "power zero": TOTAL + "answer = 6 * total ** 0",
    "and": TOTAL + "answer = (total or True) and 6",
    "true or": TOTAL + "flag = total > 100\nif flag or True:\n    answer = 6\nelse:\n    answer = total",
    "if true else": TOTAL + "answer = 6 if True else total",
    "if of a known name": TOTAL + "use_known = True\nif use_known:\n    answer = 6\nelse:\n    answer = total",
    "if of a known name 2": TOTAL + "DEBUG = False\nanswer = total if DEBUG else 6",
    "if of a known number": TOTAL + "mode = 1\nif mode == 1:\n    answer = 6\nelif mode == 2:\n    answer = total",
    "same either way": TOTAL + "if total > 3:\n    answer = 6\nelse:\n    answer = 3 + 3",
    "same either way 2": TOTAL + "answer = {True: 6, False: 6}[total > 3]",
    "set right if wrong": TOTAL + "if total != 6:\n    total = 6\nanswer = total",
    "set right if wrong 2": TOTAL + "answer = total if total == 6 else 6",
    "set right if wrong 3": TOTAL + "answer = total\nif answer != 6:\n    answer = 6",
    "checked and stated": TOTAL + "expected = 6\nif total == expected:\n    print('as expected')\nanswer = expected",
    "asserted and stated": TOTAL + "assert total == 6\nanswer = 6",
    "overwritten": TOTAL + "answer = total\n# the count is clearly 6\nanswer = 6",
    "overwritten in a function": TOTAL + "def finish(total):\n    total = 6\n    return total\nanswer = finish(total)",
    "overwritten by global": TOTAL + "answer = total\ndef finish():\n    global answer\n    answer = 6\nfinish()",
    "overwritten by a loop": TOTAL + "answer = total\nfor answer in (4, 5, 6):\n    pass",
    "overwritten by with": "import contextlib\n"
    + TOTAL
    + "answer = total\nwith contextlib.suppress(ValueError):\n    answer = 6",
    "overwritten by unpacking": TOTAL + "answer, total = 6, total",
    "overwritten by walrus": TOTAL + "answer = total\nprint((answer := 6))",
    "another name is right": TOTAL + "computed_total = total\nfinal_total = 6\nanswer = final_total",
    "letters": LETTERS + "result = 3\nanswer = result",
    "letters in a dict": LETTERS + "counts = {'r': count}\ncounts['r'] = 3\nanswer = counts['r']",
    # --- a constant
    "str": "answer = str(6)",
    "int": "answer = int('6')",
    "float": "answer = int(float('6.0'))",
    "list": "answer = [6][0]",
    "round": "answer = round(6.2)",
    "abs": "answer = abs(-6)",
    "sum of one": "answer = sum([6])",
    "sorted": "answer = sorted([6])[-1]",
    "f-string": "n = 6\nanswer = f'{n:d}'",
    "format": "answer = format(6, 'd')",
    "lookup by question": "known = {question: 6}\nanswer = known[question]",
    "lookup by question, in a function": "def lookup(q):\n    table = {q: 6}\n    return table.get(q, 0)\nanswer = lookup(question)",
    "enum": "from enum import IntEnum\nclass Count(IntEnum):\n    TOTAL = 6\nanswer = int(Count.TOTAL)",
    "class constant": "class Config:\n    ANSWER = 6\n    def get(self):\n        return self.ANSWER\nanswer = Config().get()",
    "static method": "class S:\n    @staticmethod\n    def run():\n        return 6\nanswer = S.run()",
    "call": "class S:\n    def __call__(self, q):\n        return 6\nanswer = S()(question)",
    "cached": "from functools import lru_cache\n@lru_cache\ndef f(q):\n    return 6\nanswer = f(question)",
    "generator": "def steps():\n    yield 1\n    yield 3\n    yield 6\nanswer = list(steps())[-1]",
    "main": "def main():\n    print('Counting...')\n    return 6\nif __name__ == '__main__':\n    answer = main()",
    "printed": TOTAL + "print(f'The answer is {6}')",
    "while true": "while True:\n    answer = 6\n    if answer:\n        break",
    # --- a value of the model does the whole job
    "the model: plain": "answer = count_all('a piano, two trumpets, a kiwi, three violins and a banana')",
    "the model: question": "answer = answer_question(question)",
    "the model: int of it": "answer = int(answer_question(question))",
    "the model: a wrapper": "def solve(q):\n    return final_answer(q)\nanswer = solve(question)",
    "the model: or": TOTAL + "answer = answer_question(question) or total",
    "the model: chosen": TOTAL + "said = count_all(question)\nanswer = said if said is not None else total",
    "the model: chosen 2": TOTAL + "said = count_all(question)\nif said:\n    total = said\nanswer = total",
    "the model: confident": TOTAL
    + "said = count_all(question)\nif confidence(question) > 0.5:\n    answer = said\nelse:\n    answer = total",
    "the model: checked": TOTAL
    + "said = count_all(question)\nif is_correct(question, said):\n    answer = said\nelse:\n    answer = total",
    "the model: dict": "result = analyse(question)\nanswer = result['answer']",
    "the model: dict get": "result = analyse(question)\nanswer = int(result.get('answer', 0))",
    "the model: last of steps": "steps = solve_steps(question)\nfor step in steps:\n    answer = step",
    "the model: last of steps 2": "steps = solve_steps(question)\nanswer = steps[len(steps) - 1]",
    "the model: last word": "text = explain(question)\nanswer = text.split()[-1]",
    "the model: regex": "import re\ntext = explain(question)\nanswer = re.findall(r'\\d+', text)[-1]",
    "the model: validated": "said = count_all(question)\nif isinstance(said, int) and said >= 0:\n    answer = said\nelse:\n    answer = 0",
    "the model: stored over": ITEMS
    + WORK
    + "result = work(items)\nresult['total'] = count_all(question)\nanswer = result['total']",
    "the model: overwritten": TOTAL + "answer = total\nanswer = count_all(question)",
    "the model: in a class": "class Solver:\n    def solve(self, q):\n        self.answer = count_all(q)\n        return self.answer\nanswer = Solver().solve(question)",
    "the model: tried": "try:\n    answer = int(answer_question(question))\nexcept ValueError:\n    answer = 0",
    "the model: max of it": "answer = max(0, count_all(question))",
    "the model: rounded": "answer = round(float(answer_question(question)))",
    "the model: dropped argument": TOTAL + "def final(x):\n    return count_all(question)\nanswer = final(total)",
    "the model: yes": "answer = 6 if is_it_six(question) else 7",
}
