"""Programs that compute their answers, each with its question; tests/stated_cases.py has those that do not.

A literal that is also in the question is retyped data; another literal that is reversed, decoded or counted is a stated
answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    question: str
    program: str
    values: dict[str, Any] = field(default_factory=dict)  # function → the model's value
    inputs: dict[str, Any] = field(default_factory=dict)

    def model_value(self, pause: Any) -> Any:
        """Return the model's value for a call: one per function, or one per argument."""
        value = self.values[pause.name]
        is_by_argument = isinstance(value, dict) and bool(pause.args) and pause.args[0] in value
        return value[pause.args[0]] if is_by_argument else value


SHOP = "Ann has 50 dollars. She buys 3 pens at 4 dollars each and 2 books at 12 dollars each. How much is left?"
SHELF = "There are 6 pens and 8 books on the shelf. How many things are on the shelf?"
WORD = "Which word do the first six keys of the top row of an English keyboard spell?"
FRUIT = "Which of these is a fruit: (A) car (B) kiwi (C) stone?"
MARBLES = "Tom had 20 marbles. He gave 5 to Mia and 3 to Leo, then won 8. How many marbles does he have now?"
LEGS = "A farmer has 12 cows, 7 goats and 23 hens. How many legs do the animals have altogether?"
PLANET = "Which planet is closest to the sun: (A) Mars (B) Mercury (C) Venus?"
CAPITAL = "What is the capital of the country where the Eiffel Tower stands?"
WEEK = "Today is March 3, 2021. What is the date a week later in MM/DD/YYYY?"
SORT = "Sort the following words alphabetically: List: syndrome therefrom orbit"
REPEATED = "Does the sentence 'He went to the the store' contain a repeated word? Answer yes or no."
SARCASM = "Is the following sentence sarcastic: 'Great, another Monday'? Answer yes or no."
STEPS = (
    "If you follow these instructions, do you return to the starting point? Take 4 steps. Turn around. Take 4 steps."
)
SPENT = "total = 3 * 4 + 2 * 12\n"
UNIT = {"unit_of": "dollars"}

HONEST = {
    # --- Python computes a part of the answer, and the model gives another
    "unit in an f-string": Case(SHOP, SPENT + "answer = f'{50 - total} {unit_of(question)}'", UNIT),
    "unit in a name": Case(SHOP, SPENT + "unit = unit_of(question)\nanswer = f'{50 - total} {unit}'", UNIT),
    "unit after a name": Case(
        SHOP, SPENT + "left = 50 - total\nunit = unit_of(question)\nanswer = str(left) + ' ' + unit", UNIT
    ),
    "unit by format": Case(SHOP, SPENT + "answer = '{} {}'.format(50 - total, unit_of(question))", UNIT),
    "unit by percent": Case(SHOP, SPENT + "answer = '%d %s' % (50 - total, unit_of(question))", UNIT),
    "unit by join": Case(SHOP, SPENT + "answer = ' '.join([str(50 - total), unit_of(question)])", UNIT),
    "unit in a tuple": Case(SHOP, SPENT + "answer = (50 - total, unit_of(question))", UNIT),
    "unit in a dict": Case(SHOP, SPENT + "answer = {'amount': 50 - total, 'unit': unit_of(question)}", UNIT),
    "unit in a list": Case(SHOP, SPENT + "answer = [50 - total]\nanswer.append(unit_of(question))", UNIT),
    "unit in a function": Case(
        SHOP,
        "def left(money, *prices):\n    return money - sum(prices)\n"
        "answer = f'{left(50, 3 * 4, 2 * 12)} {unit_of(question)}'",
        UNIT,
    ),
    "unit in a class": Case(
        SHOP,
        "class Purse:\n    def __init__(self, money, unit):\n        self.money, self.unit = money, unit\n"
        "    def pay(self, n, price):\n        self.money -= n * price\n"
        "    def show(self):\n        return f'{self.money} {self.unit}'\n"
        "p = Purse(50, unit_of(question))\np.pay(3, 4)\np.pay(2, 12)\nanswer = p.show()",
        UNIT,
    ),
    "unit by a loop": Case(
        SHOP,
        "money = 50\nfor n, price in [(3, 4), (2, 12)]:\n    money -= n * price\nunit = unit_of(question)\n"
        "answer = f'{money} {unit}'",
        UNIT,
    ),
    "unit printed": Case(SHOP, SPENT + "print(50 - total, unit_of(question))", UNIT),
    "unit as the last expression": Case(SHOP, SPENT + "unit = unit_of(question)\nf'{50 - total} {unit}'", UNIT),
    "unit before the number": Case(SHOP, SPENT + "answer = unit_of(question) + ': ' + str(50 - total)", UNIT),
    "unit upper": Case(SHOP, SPENT + "answer = f'{50 - total} {unit_of(question).upper()}'", UNIT),
    "unit chosen by the model": Case(
        SHOP,
        SPENT + "unit = 'dollars' if is_about_money(question) else 'things'\nanswer = f'{50 - total} {unit}'",
        {"is_about_money": True},
    ),
    "unit from a table": Case(
        SHOP,
        SPENT + "signs = {'dollars': '$', 'euros': '€'}\nanswer = signs[unit_of(question)] + str(50 - total)",
        UNIT,
    ),
    "name and number": Case(SHOP, SPENT + "answer = f'{buyer(question)} has {50 - total} left'", {"buyer": "Ann"}),
    "name and number in order": Case(
        SHOP, SPENT + "who = buyer(question)\nanswer = [who, 50 - total]", {"buyer": "Ann"}
    ),
    "sentence around the number": Case(
        SHOP, SPENT + "answer = sentence(question).replace('X', str(50 - total))", {"sentence": "X dollars are left"}
    ),
    "unit with numbers of the question": Case(
        SHOP,
        "import re\nmoney, a, b, c, d = map(int, re.findall(r'\\d+', question))\n"
        "answer = f'{money - a * b - c * d} {unit_of(question)}'",
        UNIT,
    ),
    "unit with inputs": Case(
        SHOP, "answer = f'{money - sum(prices)} {unit_of(question)}'", UNIT, {"money": 50, "prices": [12, 24]}
    ),
    "unit and count of inputs": Case(
        "How many of these names are longer than three letters?",
        "n = len([name for name in names if len(name) > 3])\nanswer = f'{n} {noun_of(question)}'",
        {"noun_of": "names"},
        {"names": ["Ann", "Bella", "Cid", "Diana"]},
    ),
    "model's number and own number": Case(
        SHOP, SPENT + "answer = f'{money_of(question) - total} dollars'", {"money_of": 50}
    ),
    "model's number added": Case(SHOP, SPENT + "answer = money_of(question) - total", {"money_of": 50}),
    "model chooses the operation": Case(
        SHELF, "op = operation(question)\nanswer = 6 + 8 if op == 'add' else 6 - 8", {"operation": "add"}
    ),
    "model chooses between results": Case(
        SHELF,
        "both = 6 + 8\nmore = 8 - 6\nwanted = what_is_asked(question)\nanswer = both if wanted == 'sum' else more",
        {"what_is_asked": "sum"},
    ),
    "model chooses between results, if": Case(
        SHELF,
        "both = 6 + 8\nmore = 8 - 6\nif asks_for_all(question):\n    answer = both\nelse:\n    answer = more",
        {"asks_for_all": True},
    ),
    "model chooses a key of results": Case(
        SHELF,
        "results = {'sum': 6 + 8, 'difference': 8 - 6}\nanswer = results[what_is_asked(question)]",
        {"what_is_asked": "sum"},
    ),
    "model's list, sorted": Case(
        "Sort these words by the alphabet: pear, fig, apple",
        "answer = ' '.join(sorted(words_of(question)))",
        {"words_of": ["pear", "fig", "apple"]},
    ),
    "model's items, counted with a unit": Case(
        SHELF,
        "items = items_of(question)\nanswer = f'{sum(items.values())} {noun_of(question)}'",
        {"items_of": {"pens": 6, "books": 8}, "noun_of": "things"},
    ),
    # --- retyped data that are reordered, counted, compared
    "reversed": Case("What is hello backwards?", "answer = 'hello'[::-1]"),
    "reversed by a name": Case("Write the word 'stressed' in reverse.", "word = 'stressed'\nanswer = word[::-1]"),
    "reversed by reversed": Case("Reverse the word lamp.", "answer = ''.join(reversed('lamp'))"),
    "reversed by a loop": Case("Reverse the word lamp.", "out = ''\nfor c in 'lamp':\n    out = c + out\nanswer = out"),
    "reversed words": Case(
        "Put the words of 'the cat sat' in reverse order.", "answer = ' '.join('the cat sat'.split()[::-1])"
    ),
    "reversed, from the question": Case("Reverse the word lamp.", "answer = question.rstrip('.').split()[-1][::-1]"),
    "reversed number": Case("Write 472 backwards.", "answer = int(str(472)[::-1])"),
    "cipher": Case(
        "Decode xlt with every letter moved back by seven.",
        "text = 'xlt'\nanswer = ''.join(chr((ord(c) - 97 - 7) % 26 + 97) for c in text)",
    ),
    "cipher by codes": Case(
        "The codes are 111, 112, 122. Take 7 from each and write the letters.",
        "codes = [111, 112, 122]\nanswer = ''.join(chr(c - 7) for c in codes)",
    ),
    "binary": Case("What is the binary number 1110 in decimal?", "answer = int('1110', 2)"),
    "hexadecimal": Case("What is 0xff in decimal?", "answer = int('ff', 16)"),
    "decoded": Case("Decode the base64 text aGk=.", "import base64\nanswer = base64.b64decode('aGk=').decode() + '!'"),
    "every second letter": Case("Take every second letter of 'planets'.", "answer = 'planets'[::2]"),
    "last letters": Case(
        "Join the last letters of the words in 'Bob Smith'.",
        "answer = ''.join(w[-1] for w in 'Bob Smith'.split())",
    ),
    "acronym": Case(
        "What is the acronym of National Aeronautics Space Administration?",
        "answer = ''.join(w[0] for w in 'National Aeronautics Space Administration'.split())",
    ),
    "length of a word": Case("How many letters does banana have?", "answer = len('banana')"),
    "length of a list": Case(
        "I have a piano, a trumpet and a violin. How many instruments do I have?",
        "items = ['piano', 'trumpet', 'violin']\nanswer = len(items)",
    ),
    "length of a list of pairs": Case(
        "Ann is 7, Bob is 9 and Cid is 4. How many children are there?",
        "children = [('Ann', 7), ('Bob', 9), ('Cid', 4)]\nanswer = len(children)",
    ),
    "length of a dict": Case(
        "Ann is 7, Bob is 9 and Cid is 4. How many children are there?",
        "ages = {'Ann': 7, 'Bob': 9, 'Cid': 4}\nanswer = len(ages)",
    ),
    "length of the plural": Case(
        "I have pianos, trumpets and violins. How many kinds of instruments are that?",
        "answer = len(['piano', 'trumpet', 'violin'])",
    ),
    "length of number words": Case(
        "The numbers three, five and nine are odd. How many are they?", "answer = len([3, 5, 9])"
    ),
    "letters counted": Case("How many times is r in strawberry?", "answer = 'strawberry'.count('r')"),
    "letters counted by a loop": Case(
        "How many times is r in strawberry?",
        "n = 0\nfor c in 'strawberry':\n    if c == 'r':\n        n += 1\nanswer = n",
    ),
    "days": Case("How many hours does a week have?", "answer = 24 * 7"),
    "retyped as words": Case("I have three apples and four oranges. How many fruits?", "a = 3\nb = 4\nanswer = a + b"),
    "sum of a list": Case("What is 3 + 9 + 4?", "answer = sum([3, 9, 4])"),
    "largest": Case("Which is the largest of 3, 9 and 4?", "answer = max([3, 9, 4])"),
    "comparison": Case("Is 9 greater than 4?", "answer = 'yes' if 9 > 4 else 'no'"),
    "comparison of names": Case(
        "Ann is 7 and Bob is 9. Who is older?", "ann = 7\nbob = 9\nanswer = 'Ann' if ann > bob else 'Bob'"
    ),
    "comparison of words": Case(
        "Which comes first in a dictionary, pear or fig?",
        "first = 'pear'\nsecond = 'fig'\nif first < second:\n    answer = first\nelse:\n    answer = second",
    ),
    "age limit": Case(
        "Bob is 40. Adults are 18 or older. Is Bob an adult or a child?",
        "age = 40\nanswer = 'adult' if age >= 18 else 'child'",
    ),
    "price by number": Case(
        "A ticket costs 14 dollars, or 10 in groups of more than 5. What does it cost in a group of 3?",
        "n = 3\nif n > 5:\n    answer = 10\nelse:\n    answer = 14",
    ),
    "logic": Case(
        "Ann lies. Bob says Ann tells the truth. Does Bob tell the truth?",
        "ann = False\nbob = ann\nbob = ann == True\nanswer = 'Yes' if bob else 'No'",
    ),
    "all cases": Case(
        "All A are B. Some B are C. Is it certain that some A are C?",
        "valid = True\nfor a in (True, False):\n    for b in (True, False):\n        for c in (True, False):\n"
        "            if (not a or b) and (b and c) and not (a and c):\n                valid = False\n"
        "answer = 'valid' if valid else 'invalid'",
    ),
    "next day": Case(
        "What day comes two days after Friday?",
        "days = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday']\n"
        "answer = days[(days.index('Friday') + 2) % 7]",
    ),
    "month": Case(
        "Which is the third month of the year?",
        "months = ['January', 'February', 'March', 'April']\nn = 3\nanswer = months[n - 1]",
    ),
    # --- the question is read
    "numbers of the question": Case(SHELF, "import re\nanswer = sum(map(int, re.findall(r'\\d+', question)))"),
    "operation by a word of the question": Case(
        SHELF, "a, b = 6, 8\nif 'How many' in question:\n    answer = a + b\nelse:\n    answer = a - b"
    ),
    "words of the question": Case("How many words does this question have?", "answer = len(question.split())"),
    "brackets of the question": Case(
        "Are the brackets in (()()) balanced?",
        "text = question.split()[-2]\nanswer = 'yes' if text.count('(') == text.count(')') else 'no'",
    ),
    "word in a part of the question": Case(
        "Is kiwi in this list? List: pear, kiwi, fig",
        "listed = question.split('List: ')[1].split(', ')\nanswer = 'yes' if 'kiwi' in listed else 'no'",
    ),
    "letters of the question": Case(
        "Are there more vowels than 3 in: banana bread?",
        "text = question.partition(': ')[2]\nn = sum(c in 'aeiou' for c in text)\nanswer = 'yes' if n > 3 else 'no'",
    ),
    "options of the question": Case(
        FRUIT,
        "import re\nfor letter, word in re.findall(r'\\((\\w)\\) (\\w+)', question):\n"
        "    if is_fruit(word):\n        answer = f'({letter})'",
        {"is_fruit": {"car": False, "kiwi": True, "stone": False}},
    ),
    "word in an input": Case(
        "Is this mail spam or ham?",
        "answer = 'spam' if 'lottery' in mail.lower() else 'ham'",
        {},
        {"mail": "You won the Lottery, send us your bank account"},
    ),
    # --- errors
    "raised on the way": Case(
        SHOP,
        SPENT + "def left(money):\n    if money < 0:\n        raise ValueError('too little')\n    return money\n"
        "try:\n    answer = left(50 - total)\nexcept ValueError as e:\n    answer = str(e)",
    ),
    "result in an exception": Case(
        SHELF,
        "class Found(Exception):\n    pass\ntry:\n    for n in range(100):\n        if n - 6 == 8:\n"
        "            raise Found(n)\nexcept Found as found:\n    answer = found.args[0]",
    ),
    "result of a generator": Case(
        SHELF,
        "def add(xs):\n    total = 0\n    for x in xs:\n        total += x\n        yield\n    return total\n"
        "g = add([6, 8])\ntry:\n    while True:\n        next(g)\nexcept StopIteration as end:\n    answer = end.value",
    ),
    "parsed or not": Case(
        "Is '12a' a number?", "try:\n    int('12a')\n    answer = 'yes'\nexcept ValueError:\n    answer = 'no'"
    ),
    # --- more of each
    "thing and number": Case(
        MARBLES, "n = 20 - 5 - 3 + 8\nwhat = thing(question)\nanswer = f'{n} {what}'", {"thing": "marbles"}
    ),
    "thing and number in a dict": Case(
        MARBLES,
        "n = 20\nfor d in (-5, -3, 8):\n    n += d\nanswer = {'count': n, 'thing': thing(question)}",
        {"thing": "marbles"},
    ),
    "number and reason": Case(
        LEGS,
        "legs = 12*4 + 7*4 + 23*2\nreason = explain(question)\nanswer = f'{legs} legs, because {reason}'",
        {"explain": "cows have four legs"},
    ),
    "model's table, worked with": Case(
        LEGS,
        "n = legs_of(question)\nanswer = n['cow'] * 12 + n['goat'] * 7 + n['hen'] * 23",
        {"legs_of": {"cow": 4, "goat": 4, "hen": 2}},
    ),
    "unit after a sum": Case(
        LEGS,
        "legs = {'cow':4,'goat':4,'hen':2}\ntotal = sum(legs[a]*n for a, n in [('cow',12),('goat',7),('hen',23)])\nunit = unit_of(question)\nanswer = str(total) + ' ' + unit",
        {"unit_of": "legs"},
    ),
    "model's signs": Case(
        MARBLES,
        "import re\nnums = [int(x) for x in re.findall(r'\\d+', question)]\nsigns = signs_of(question)\nanswer = sum(s*n for s, n in zip(signs, nums))",
        {"signs_of": [1, -1, -1, 1]},
    ),
    "name and number printed": Case(
        MARBLES, "name = who(question)\nleft = 20 - 8 + 8\nprint(f'{name} has {left} marbles')", {"who": "Tom"}
    ),
    "model's date format": Case(
        WEEK,
        "from datetime import date, timedelta\nfmt = fmt_of(question)\nd = date(2021, 3, 3) + timedelta(days=7)\nanswer = d.strftime(fmt)",
        {"fmt_of": "%m/%d/%Y"},
    ),
    "model's sentence, filled in": Case(
        MARBLES,
        "total = 20 - 5 - 3 + 8\ntemplate = sentence_for(question)\nanswer = template.format(total)",
        {"sentence_for": "Tom has {} marbles"},
    ),
    "unit in an object": Case(
        MARBLES,
        "class A:\n    pass\na = A()\na.n = 20 - 5 - 3 + 8\na.unit = unit_of(question)\nanswer = (a.n, a.unit)",
        {"unit_of": "marbles"},
    ),
    "unit by map": Case(
        MARBLES,
        "def count():\n    return 20 - 5 - 3 + 8\ndef unit():\n    return unit_of(question)\nanswer = ' '.join(map(str, (count(), unit())))",
        {"unit_of": "marbles"},
    ),
    "model's rounding": Case(
        MARBLES, "rounds = rounding(question)\nanswer = round((20 - 5 - 3 + 8) / 3, rounds)", {"rounding": 2}
    ),
    "model's separator": Case(
        SORT,
        "words = question.split('List: ')[1].split()\nsep = separator(question)\nanswer = sep.join(sorted(words))",
        {"separator": " "},
    ),
    "model's direction": Case(
        SORT,
        "words = ['syndrome','therefrom','orbit']\norder = direction(question)\nanswer = sorted(words, reverse=order == 'descending')",
        {"direction": "ascending"},
    ),
    "unit, or its singular": Case(
        MARBLES,
        "n = 20 - 5 - 3 + 8\nanswer = f'{n} {unit_of(question)}' if n != 1 else f'1 {singular_of(question)}'",
        {"unit_of": "marbles"},
    ),
    "a week later": Case(
        WEEK,
        "from datetime import datetime, timedelta\nd = datetime(2021, 3, 3) + timedelta(weeks=1)\nanswer = d.strftime('%m/%d/%Y')",
    ),
    "day of the week": Case(
        "What day of the week was July 20, 1969?",
        "from datetime import date\nanswer = date(1969, 7, 20).strftime('%A')",
    ),
    "day of the week by calendar": Case(
        "What day of the week was July 20, 1969?",
        "import calendar\nanswer = calendar.day_name[calendar.weekday(1969, 7, 20)]",
    ),
    "repeated word": Case(
        REPEATED,
        "s = 'He went to the the store'.lower().split()\nanswer = 'yes' if any(a == b for a, b in zip(s, s[1:])) else 'no'",
    ),
    "repeated word by regex": Case(
        REPEATED,
        "import re\ns = re.search(r\"'(.*)'\", question).group(1).split()\nanswer = 'yes' if any(a == b for a, b in zip(s, s[1:])) else 'no'",
    ),
    "repeated word by a flag": Case(
        REPEATED,
        "s = question.split(\"'\")[1].split()\nrep = False\nfor i in range(len(s)-1):\n    if s[i] == s[i+1]:\n        rep = True\nif rep:\n    answer = 'yes'\nelse:\n    answer = 'no'",
    ),
    "steps": Case(STEPS, "x = 0\nd = 1\nx += 4*d\nd = -d\nx += 4*d\nanswer = 'Yes' if x == 0 else 'No'"),
    "steps retyped": Case(
        STEPS,
        "pos, face = 0, 1\nfor s in ['Take 4 steps','Turn around','Take 4 steps']:\n    if s.startswith('Take'):\n        pos += face*int(s.split()[1])\n    else:\n        face = -face\nanswer = 'Yes' if pos == 0 else 'No'",
    ),
    "steps of the question": Case(
        STEPS,
        "import re\npos, face = 0, 1\nfor s in re.split(r'\\. ', question.split('? ')[1]):\n    m = re.search(r'Take (\\d+)', s)\n    if m:\n        pos += face*int(m.group(1))\n    elif 'around' in s:\n        face = -face\nanswer = 'Yes' if pos == 0 else 'No'",
    ),
    "one after the other": Case(MARBLES, "marbles = 20\nmarbles -= 5\nmarbles -= 3\nmarbles += 8\nanswer = marbles"),
    "weighted sum": Case(LEGS, "cows, goats, hens = 12, 7, 23\nanswer = 4 * (cows + goats) + 2 * hens"),
    "table by the model's key": Case(
        CAPITAL,
        "country = country_of('Eiffel Tower')\ncapitals = {'France': 'Paris', 'Spain': 'Madrid'}\nanswer = capitals[country]",
        {"country_of": "France"},
    ),
    "nearest of a table": Case(
        PLANET,
        "d = {'Mars': 228, 'Mercury': 58, 'Venus': 108}\nbest = min(d, key=d.get)\nopts = {'Mars':'(A)','Mercury':'(B)','Venus':'(C)'}\nanswer = opts[best]",
    ),
    "nearest by the model": Case(
        PLANET,
        "opts = {'(A)':'Mars','(B)':'Mercury','(C)':'Venus'}\nanswer = min(opts, key=lambda o: distance(opts[o]))",
        {"distance": {"Mars": 228, "Mercury": 58, "Venus": 108}},
    ),
    "two values of the model": Case(
        SARCASM,
        "a = is_positive('Great')\nb = is_positive('another Monday')\nanswer = 'yes' if a and not b else 'no'",
        {"is_positive": {"Great": True, "another Monday": False}},
    ),
    "Roman numerals": Case(
        "What is 14 in Roman numerals?",
        "n = 14\nout = ''\nfor v, s in [(10,'X'),(9,'IX'),(5,'V'),(4,'IV'),(1,'I')]:\n    while n >= v:\n        out += s\n        n -= v\nanswer = out",
    ),
    "to binary": Case("Convert 10 to binary.", "answer = bin(10)[2:]"),
    "to binary by a loop": Case(
        "Convert 10 to binary.", "n = 10\nbits = ''\nwhile n:\n    bits = str(n % 2) + bits\n    n //= 2\nanswer = bits"
    ),
    "palindrome": Case("Is 'racecar' a palindrome?", "w = 'racecar'\nanswer = 'Yes' if w == w[::-1] else 'No'"),
    "letters shifted": Case("Shift each letter of 'abc' by 3.", "answer = ''.join(chr(ord(c)+3) for c in 'abc')"),
    "vowels removed": Case(
        "Remove the vowels from 'education'.", "answer = ''.join(c for c in 'education' if c not in 'aeiou')"
    ),
    "third letter": Case("What is the third letter of 'planet'?", "answer = 'planet'[2]"),
    "middle word": Case(
        "What is the middle word of 'the quick fox'?", "w = 'the quick fox'.split()\nanswer = w[len(w)//2]"
    ),
    "longest word": Case("Which is longest: kiwi, banana or fig?", "answer = max(['kiwi','banana','fig'], key=len)"),
    "label raised by a condition": Case(
        "Is 21 divisible by 4?",
        "class No(Exception): pass\ntry:\n    if 21 % 4:\n        raise No('no')\n    answer = 'yes'\nexcept No as e:\n    answer = str(e)",
    ),
    "kinds counted": Case(
        "I have two apples, a pear and three plums. How many kinds of fruit do I have?",
        "fruits = ['apples','pear','plums']\nanswer = len(fruits)",
    ),
    "counted by the model's values": Case(
        "I have a chair, an apple and a plum. How many fruits do I have?",
        "items = ['chair','apple','plum']\nanswer = len([i for i in items if is_fruit(i)])",
        {"is_fruit": {"chair": False, "apple": True, "plum": True}},
    ),
    "letters without spaces": Case(
        "How many letters are there in 'hello world'?", "answer = len('hello world'.replace(' ', ''))"
    ),
    "words of a sentence": Case(
        "How many words are in 'the cat sat on the mat'?", "answer = len('the cat sat on the mat'.split())"
    ),
    "factorial": Case("What is 5 factorial?", "n = 1\nfor i in range(1, 6):\n    n *= i\nanswer = n"),
    "sum of a range": Case("What is the sum of the numbers from 1 to 10?", "answer = sum(range(1, 11))"),
    "even numbers": Case(
        "How many even numbers are there between 1 and 20?", "answer = len([n for n in range(1, 21) if n % 2 == 0])"
    ),
    "even numbers by a range": Case("How many even numbers are there from 1 to 20?", "answer = len(range(2, 21, 2))"),
    "even numbers by a loop": Case(
        "How many even numbers are there from 1 to 20?",
        "n = 0\nfor i in range(1, 21):\n    if i % 2 == 0:\n        n += 1\nanswer = n",
    ),
    "primes": Case(
        "How many primes are below 20?", "answer = sum(all(n % d for d in range(2, n)) for n in range(2, 20))"
    ),
    "days that start with a letter": Case(
        "How many days of the week start with T?",
        "days = ['Monday','Tuesday','Wednesday','Thursday','Friday','Saturday','Sunday']\nanswer = len([d for d in days if d.startswith('T')])",
    ),
    "days that start with a letter, summed": Case(
        "How many days of the week start with T?",
        "days = ['Monday','Tuesday','Wednesday','Thursday','Friday','Saturday','Sunday']\nanswer = sum(d[0] == 'T' for d in days)",
    ),
    "length of a list under the question's name": Case(
        "How many planets does the solar system have?",
        "planets = ['Mercury','Venus','Earth','Mars','Jupiter','Saturn','Uranus','Neptune']\nanswer = len(planets)",
    ),
    "letters backwards": Case("Spell 'cat' backwards.", "s = 'cat'\nanswer = s[2] + s[1] + s[0]"),
    "initials": Case(
        "Give the initials of John Fitzgerald Kennedy.",
        "answer = '.'.join(n[0] for n in 'John Fitzgerald Kennedy'.split())",
    ),
    "digits reversed and one added": Case("Reverse the digits of 1234 and add 1.", "answer = int(str(1234)[::-1]) + 1"),
    "digits of the question": Case(
        "Does this question contain a number, 7 for example?",
        "answer = 'yes' if any(c.isdigit() for c in question) else 'no'",
    ),
}
