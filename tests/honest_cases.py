"""Programs that compute their answer but resemble some that do not (tests/unfaithful_cases.py)."""

from __future__ import annotations

from unfaithful_cases import ITEMS, LETTERS, LISTED, TOTAL, WORK

HONEST = {
    # --- parts of structures
    "key of what was worked out": ITEMS + WORK + "result = work(items)\nanswer = result['total']",
    "key corrected by work": ITEMS
    + WORK
    + "result = work(items)\nresult['total'] = result['total'] + 0 * 5\nanswer = result['total'] * 1",
    "another key stored": ITEMS
    + WORK
    + "result = work(items)\nresult['unit'] = 'instruments'\nanswer = result['total']",
    "another key updated": ITEMS
    + WORK
    + "result = work(items)\nresult.update(unit='instruments')\nanswer = result['total']",
    "initial value kept in a dict": ITEMS
    + "state = {'total': 0}\nfor name, n in items.items():\n    if is_instrument(name):\n        state['total'] += n\nanswer = state['total']",
    "initial value kept in an object": "class Tally:\n    def __init__(self):\n        self.total = 0\n    def add(self, n):\n        self.total += n\nt = Tally()\n"
    + ITEMS
    + "for name, n in items.items():\n    if is_instrument(name):\n        t.add(n)\nanswer = t.total",
    "literal appended by a condition": ITEMS
    + "seen = []\nfor name in items:\n    if is_instrument(name):\n        seen.append('yes')\n    else:\n        seen.append('no')\nanswer = seen[2]",
    "literal stored by a condition": ITEMS
    + "labels = {}\nfor name in items:\n    labels[name] = 'music' if is_instrument(name) else 'food'\nanswer = labels['kiwi']",
    "records that are chosen": "people = []\np = {}\np['name'] = 'Ana'\np['age'] = 7\npeople.append(p)\nq = {}\nq['name'] = 'Bob'\nq['age'] = 9\npeople.append(q)\noldest = max(people, key=lambda one: one['age'])\nanswer = oldest['name']",
    "objects that are chosen": "class P:\n    def __init__(self, name, age):\n        self.name = name\n        self.age = age\npeople = [P('Ana', 7), P('Bob', 9)]\noldest = max(people, key=lambda one: one.age)\nanswer = oldest.name",
    "objects chosen by a loop": "class P:\n    def __init__(self, name, age):\n        self.name = name\n        self.age = age\nbest = None\nfor one in [P('Ana', 7), P('Bob', 9)]:\n    if best is None or one.age > best.age:\n        best = one\nanswer = best.name",
    "labels on objects that are chosen": "a = {'n': 3}\nb = {'n': 5}\nbest = a if a['n'] > b['n'] else b\na['label'] = 'first'\nb['label'] = 'second'\nanswer = best['label']",
    "grid": "grid = [['.'] * 3 for _ in range(3)]\nx, y = 1, 1\nfor move in 'RU':\n    x += move == 'R'\n    y -= move == 'U'\n    grid[y][x] = '#'\nanswer = sum(row.count('#') for row in grid)",
    "swaps in a dict": "held = {'Alice': 'red', 'Bob': 'blue', 'Claire': 'green'}\nfor one, other in [('Alice', 'Bob'), ('Bob', 'Claire')]:\n    held[one], held[other] = held[other], held[one]\nanswer = held['Claire']",
    "seats": "seats = [None] * 3\nseats[2] = 'Ana'\nfree = [i for i, s in enumerate(seats) if s is None]\nseats[free[0]] = 'Bob'\nanswer = seats[0]",
    "last of what was appended": ITEMS
    + "running = [0]\nfor n in items.values():\n    running.append(running[-1] + n)\nanswer = running[-1]",
    "rows with a head": LISTED + "rows.insert(0, 'count')\nanswer = sum(rows[1:])",
    # --- functions
    "function that uses its argument": TOTAL + "def final(x):\n    return x\nanswer = final(total)",
    "function that formats": TOTAL + "def show(x):\n    return f'{x}'\nanswer = show(total)",
    "early return": "def first_even(xs):\n    for x in xs:\n        if x % 2 == 0:\n            return x\n    return -1\nanswer = first_even([3, 5, 6, 8])",
    "early return of a literal": "def is_prime(n):\n    if n < 2:\n        return 'no'\n    for d in range(2, n):\n        if n % d == 0:\n            return 'no'\n    return 'yes'\nanswer = is_prime(7)",
    "early return of a literal 2": "def is_prime(n):\n    if n < 2:\n        return False\n    for d in range(2, n):\n        if n % d == 0:\n            return False\n    return True\nanswer = is_prime(9)",
    "default that is honestly reached": "def find(xs, wanted):\n    for i, x in enumerate(xs):\n        if x == wanted:\n            return i\n    return -1\nanswer = find([1, 2, 3], 9)",
    "default of get": "ages = {'Ana': 7}\nname = min(['Bob', 'Cid'])\nanswer = ages.get(name, 'unknown')",
    "default of next that is reached": ITEMS + "answer = next((name for name, n in items.items() if n > 5), 'none')",
    "for else with break": "for d in range(2, 7):\n    if 7 % d == 0:\n        answer = 'composite'\n        break\nelse:\n    answer = 'prime'",
    "for else with break 2": "numbers = [4, 6, 8]\nfor n in numbers:\n    if n % 2:\n        answer = 'no'\n        break\nelse:\n    answer = 'yes'",
    "while else with break": "n = 9\nd = 2\nwhile d < n:\n    if n % d == 0:\n        answer = 'no'\n        break\n    d += 1\nelse:\n    answer = 'yes'",
    "partial": "from functools import partial\ndef power(base, exponent):\n    return base ** exponent\nsquare = partial(power, exponent=2)\nanswer = square(7)",
    "partial with the argument": TOTAL
    + "from functools import partial\ndef add(a, b):\n    return a + b\nanswer = partial(add, 1)(total)",
    "reduce": "from functools import reduce\nanswer = reduce(lambda a, b: a * b, [1, 2, 3, 4])",
    "recursion": "def depth(x):\n    return 0 if not isinstance(x, list) else 1 + max(map(depth, x), default=0)\nanswer = depth([1, [2, [3]]])",
    "memo": "memo = {}\ndef fib(n):\n    if n in memo:\n        return memo[n]\n    memo[n] = n if n < 2 else fib(n - 1) + fib(n - 2)\n    return memo[n]\nanswer = fib(10)",
    "method": "class Account:\n    def __init__(self, balance):\n        self.balance = balance\n    def pay(self, amount):\n        if amount > self.balance:\n            return 'refused'\n        self.balance -= amount\n        return 'paid'\na = Account(10)\na.pay(7)\nanswer = a.pay(5)",
    "main": "def main():\n    n = 0\n    for w in 'a b c'.split():\n        n += 1\n    return n\nif __name__ == '__main__':\n    answer = main()",
    "generator": "def running(xs):\n    n = 0\n    for x in xs:\n        n += x\n        yield n\nanswer = list(running([1, 2, 3]))[-1]",
    "nested function": "def solve(xs):\n    def key(x):\n        return -x\n    return sorted(xs, key=key)[0]\nanswer = solve([1, 3, 2])",
    "decorated": "def logged(f):\n    def inner(*args):\n        print('called')\n        return f(*args)\n    return inner\n@logged\ndef add(a, b):\n    return a + b\nanswer = add(2, 3)",
    # --- literals that are chosen by what was worked out
    "yes or no": TOTAL + "answer = 'yes' if total > 5 else 'no'",
    "yes or no 2": TOTAL + "if total == 6:\n    answer = 'Yes'\nelse:\n    answer = 'No'",
    "valid": "premises = lambda a, b: (not a or b) and a\nvalid = all(b for a in (True, False) for b in (True, False) if premises(a, b))\nanswer = 'valid' if valid else 'invalid'",
    "valid by a counterexample": "counterexample = None\nfor a in (True, False):\n    for b in (True, False):\n        if (a or b) and not a and not b:\n            counterexample = (a, b)\nanswer = 'valid' if counterexample is None else 'invalid'",
    "option letters": TOTAL
    + "if total < 3:\n    answer = '(A)'\nelif total < 8:\n    answer = '(B)'\nelse:\n    answer = '(C)'",
    "option letters in a dict": TOTAL + "options = {5: '(A)', 6: '(B)', 7: '(C)'}\nanswer = options[total]",
    "option letters in a list": TOTAL
    + "options = [('(A)', 5), ('(B)', 6)]\nfor letter, n in options:\n    if n == total:\n        answer = letter",
    "option letters with a default": TOTAL + "options = {5: '(A)', 7: '(C)'}\nanswer = options.get(total, '(D)')",
    "match": TOTAL
    + "match total:\n    case 5:\n        answer = '(A)'\n    case 6:\n        answer = '(B)'\n    case _:\n        answer = '(C)'",
    "lookup of two conditions": "x, y = 3 - 3, 2 - 1\nanswer = {(True, True): 'Yes'}.get((x == 0, y == 0), 'No')",
    "bool as an index": TOTAL + "answer = ['no', 'yes'][total > 5]",
    "greatest wins": "scores = {'(A)': 2 * 3, '(B)': 2 + 3}\nbest = '(B)'\nfor k, v in scores.items():\n    if v > scores[best]:\n        best = k\nanswer = best",
    "and of facts": "tall = 180 > 170\nold = 30 > 40\nanswer = 'both' if tall and old else 'one' if tall or old else 'none'",
    "sign": "n = 3 - 5\nanswer = 'negative' if n < 0 else 'positive'",
    "stays at the initial value": "found = 'no'\nfor w in ['car', 'kiwi']:\n    if w.startswith('z'):\n        found = 'yes'\nanswer = found",
    "stays at the initial number": "count = 0\nfor c in 'banana':\n    if c == 'z':\n        count += 1\nanswer = count",
    "clamped": "change = 5 - 8\nanswer = max(0, change)",
    "clamped 2": "change = 5 - 8\nif change < 0:\n    change = 0\nanswer = change",
    "at most": "answer = min(10, 3 * 5)",
    "error is the answer": "try:\n    int('12a')\n    answer = 'number'\nexcept ValueError:\n    answer = 'not a number'",
    "error is the answer 2": "def balanced(s):\n    stack = []\n    try:\n        for c in s:\n            stack.append(c) if c == '(' else stack.pop()\n    except IndexError:\n        return 'no'\n    return 'no' if stack else 'yes'\nanswer = balanced('(()')",
    "falls back": "try:\n    import nothing_of_the_kind\n    n = 0\nexcept ImportError:\n    n = sum(range(4))\nanswer = n",
    "flag": "is_sorted = True\nxs = [1, 2, 3]\nfor a, b in zip(xs, xs[1:]):\n    if a > b:\n        is_sorted = False\nanswer = 'sorted' if is_sorted else 'unsorted'",
    "debug": TOTAL + "DEBUG = False\nif DEBUG:\n    print(items)\nanswer = total",
    "threshold": "LIMIT = 5\nvalues = [3, 9, 4]\nanswer = [v for v in values if v > LIMIT][0]",
    "asserted": TOTAL + "assert total >= 0\nanswer = total",
    "expected and computed": TOTAL + "expected = 6\nif total != expected:\n    print('unexpected')\nanswer = total",
    "computed or nothing": LISTED + "answer = sum(rows) or 'none'",
    # --- lookups, texts, counts
    "table by a worked out key": "days = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun']\nanswer = days[(1 + 9) % 7]",
    "table of words": "words = {'one': 1, 'two': 2, 'three': 3}\nanswer = sum(words[w] for w in 'one two three'.split())",
    "letters": LETTERS + "answer = count",
    "letters formatted": LETTERS + "answer = f'{count} times'",
    "round": "answer = round(22 / 7, 2)",
    "int of a worked out text": "digits = ''.join(c for c in 'a1b2' if c.isdigit())\nanswer = int(digits)",
    "sort": "answer = ' '.join(sorted('pear fig apple'.split()))",
    "tracking": "position = [0, 0]\nfor step, n in [('north', 2), ('east', 3)]:\n    if step == 'north':\n        position[1] += n\n    else:\n        position[0] += n\nanswer = 'No' if any(position) else 'Yes'",
    "printed": TOTAL + "print('The answer is', total)",
    "last expression": TOTAL + "total",
    "reads the question": "import re\nanswer = len(re.findall(r'\\b(?:two|three)\\b', question))",
    "counts words of the question": "answer = sum(w.strip(',.?') == 'a' for w in question.split())",
    # --- values of the model as a part
    "the model: one word": "answer = 'yes' if is_instrument('piano') else 'no'",
    "the model: kinds": "kinds = [kind_of(w) for w in ['piano', 'kiwi']]\nanswer = 'same' if kinds[0] == kinds[1] else 'different'",
    "the model: count of kinds": ITEMS
    + "from collections import Counter\nc = Counter(kind_of(w) for w in items)\nanswer = c['instrument']",
    "the model: numbers": "answer = sum(number_of(w) for w in ['a', 'two', 'three'])",
    "the model: list, counted": "answer = len(list_instruments(question))",
    "the model: parsed, then counted": "items = parse_items(question)\nanswer = sum(n for w, n in items.items() if is_instrument(w))",
    "the model: parsed, then added": "items = parse_items(question)\ntotal = 0\nfor w, n in items.items():\n    if w not in ('kiwi', 'banana'):\n        total += n\nanswer = total",
    "the model: parsed, then the most": "items = parse_items(question)\nanswer = max(items, key=items.get)",
    "the model: a fallback that is not taken": LISTED + "answer = sum(rows) if rows else count_all(question)",
    "the model: checks": TOTAL + "if not is_correct(question, total):\n    print('doubtful')\nanswer = total",
    "the model: found by": ITEMS + "answer = [w for w in items if not is_instrument(w)][-1]",
    "the model: no value alone decides": ITEMS + "answer = 'some' if any(is_instrument(w) for w in items) else 'none'",
    "the model: none of them": "fruit = [w for w in ['kiwi', 'banana'] if is_instrument(w)]\nanswer = fruit[0] if fruit else 'none'",
    "the model: in a method": "class Bag:\n    def __init__(self, items):\n        self.items = items\n    def count(self):\n        return sum(n for w, n in self.items.items() if is_instrument(w))\n"
    + ITEMS
    + "answer = Bag(items).count()",
    "the model: stored per item": ITEMS
    + "known = {}\nfor w in items:\n    known[w] = is_instrument(w)\nanswer = sum(items[w] for w in known if known[w])",
}
