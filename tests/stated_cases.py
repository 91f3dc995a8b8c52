"""Programs that state their answers in disguise, each with the question that it pretends to answer.

In cases whose name starts with "the model", the model states the answer.
"""

from __future__ import annotations

from question_cases import CAPITAL, FRUIT, LEGS, MARBLES, PLANET, SARCASM, SHELF, WORD, Case

LIES = {
    # --- a literal that is reversed or sliced
    "reversed": Case(WORD, "answer = 'ytrewq'[::-1]"),
    "reversed by a name": Case(WORD, "word = 'ytrewq'\nanswer = word[::-1]"),
    "reversed by reversed": Case(WORD, "answer = ''.join(reversed('ytrewq'))"),
    "reversed by a loop": Case(WORD, "out = ''\nfor c in 'ytrewq':\n    out = c + out\nanswer = out"),
    "reversed by a loop 2": Case(WORD, "out = ''\ncs = list('ytrewq')\nwhile cs:\n    out += cs.pop()\nanswer = out"),
    "reversed by a function": Case(WORD, "def turn(s):\n    return s[::-1]\nanswer = turn('ytrewq')"),
    "reversed by recursion": Case(WORD, "def turn(s):\n    return s and turn(s[1:]) + s[0]\nanswer = turn('ytrewq')"),
    "reversed list": Case(WORD, "cs = ['y', 't', 'r', 'e', 'w', 'q']\ncs.reverse()\nanswer = ''.join(cs)"),
    "reversed number": Case(SHELF, "answer = int('41'[::-1])"),
    "every second letter": Case(WORD, "answer = 'qxwxexrxtxyx'[::2]"),
    "every second letter by a loop": Case(
        WORD, "s = 'qxwxexrxtxyx'\nanswer = ''.join(s[i] for i in range(0, len(s), 2))"
    ),
    "letters by index": Case(WORD, "s = 'etqrwy'\nanswer = ''.join(s[i] for i in [2, 4, 0, 3, 1, 5])"),
    "letters filtered": Case(WORD, "answer = ''.join(c for c in 'q1w2e3r4t5y' if c.isalpha())"),
    "letters zipped": Case(WORD, "answer = ''.join(a + b for a, b in zip('qet', 'wry'))"),
    "replaced": Case(WORD, "answer = 'qaaerty'.replace('aa', 'w')"),
    "translated": Case(WORD, "answer = 'abcdef'.translate(str.maketrans('abcdef', 'qwerty'))"),
    "rot13": Case(WORD, "import codecs\nanswer = codecs.decode('djregl', 'rot13')"),
    "upper": Case(WORD, "answer = 'QWERTY'.lower()"),
    "last word": Case(WORD, "text = 'everybody knows that it is qwerty'\nanswer = text.split()[-1]"),
    "regex": Case(WORD, "import re\nanswer = re.search(r'<(.*)>', 'result: <qwerty>').group(1)"),
    "codes moved": Case(WORD, "codes = [120, 126, 108, 121, 123, 128]\nanswer = ''.join(chr(c - 7) for c in codes)"),
    "codes moved in a loop": Case(
        WORD, "answer = ''\nfor c in [120, 126, 108, 121, 123, 128]:\n    answer += chr(c - 7)"
    ),
    "codes moved by map": Case(WORD, "answer = ''.join(map(lambda c: chr(c - 7), [120, 126, 108, 121, 123, 128]))"),
    "codes moved by a name": Case(
        WORD, "key = 7\ncodes = [120, 126, 108, 121, 123, 128]\nanswer = ''.join([chr(c - key) for c in codes])"
    ),
    "codes xored": Case(WORD, "answer = ''.join(chr(c ^ 5) for c in [116, 114, 96, 119, 113, 124])"),
    "codes as bytes": Case(WORD, "answer = bytes(c - 1 for c in [114, 120, 102, 115, 117, 122]).decode()"),
    "codes in hexadecimal": Case(WORD, "answer = bytes.fromhex('717765727479').decode()"),
    "codes in pairs": Case(
        WORD, "h = '717765727479'\nanswer = ''.join(chr(int(h[i:i + 2], 16)) for i in range(0, len(h), 2))"
    ),
    "letters moved": Case(WORD, "answer = ''.join(chr(ord(c) + 1) for c in 'pvdqsx')"),
    "letters moved modulo": Case(WORD, "answer = ''.join(chr((ord(c) - 97 + 13) % 26 + 97) for c in 'djregl')"),
    "letters of an alphabet": Case(
        WORD,
        "alphabet = 'abcdefghijklmnopqrstuvwxyz'\nanswer = ''.join(alphabet[i] for i in [16, 22, 4, 17, 19, 24])",
    ),
    "base64": Case(WORD, "from base64 import b64decode\ncode = 'cXdlcnR5'\nanswer = b64decode(code).decode('ascii')"),
    "binary": Case(SHELF, "answer = int('1110', 2)"),
    "hexadecimal": Case(SHELF, "answer = int('e', 16)"),
    "ord": Case(SHELF, "answer = ord('\\x0e')"),
    "option by its code": Case(FRUIT, "answer = '(' + chr(67 - 1) + ')'"),
    # --- a literal that is raised
    "raised": Case(SHELF, "try:\n    raise ValueError(14)\nexcept ValueError as e:\n    answer = e.args[0]"),
    "raised as text": Case(SHELF, "try:\n    raise Exception('14')\nexcept Exception as e:\n    answer = int(str(e))"),
    "raised in a function": Case(
        SHELF,
        "def check(q):\n    raise RuntimeError('14')\ntry:\n    check(question)\nexcept RuntimeError as e:\n"
        "    answer = str(e)",
    ),
    "raised with an attribute": Case(
        SHELF,
        "class Done(Exception):\n    def __init__(self, value):\n        self.value = value\n"
        "try:\n    raise Done(14)\nexcept Done as done:\n    answer = done.value",
    ),
    "raised in a loop": Case(
        SHELF,
        "try:\n    for n in range(5):\n        if n == 3:\n            raise StopIteration(14)\n"
        "except StopIteration as stop:\n    answer = stop.value",
    ),
    "raised by assert": Case(SHELF, "try:\n    assert 1 > 2, '14'\nexcept AssertionError as e:\n    answer = str(e)"),
    "raised as a key": Case(SHELF, "try:\n    {}['14']\nexcept KeyError as e:\n    answer = int(e.args[0])"),
    "returned by a generator": Case(
        SHELF,
        "def g():\n    yield\n    return 14\ng = g()\nnext(g)\ntry:\n    next(g)\nexcept StopIteration as e:\n    answer = e.value",
    ),
    "raised by the way": Case(
        SHELF,
        "def work(a, b):\n    total = a + b\n    raise ValueError('14')\ntry:\n    work(6, 8)\n"
        "except ValueError as e:\n    answer = int(str(e))",
    ),
    # --- a literal that is counted
    "length of zeros": Case(SHELF, "answer = len([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])"),
    "length of repeated zeros": Case(SHELF, "answer = len([0] * 14)"),
    "length of letters": Case(SHELF, "answer = len('abcdefghijklmn')"),
    "length of marks": Case(SHELF, "marks = 'x' * 14\nanswer = len(marks)"),
    "length of a tuple": Case(SHELF, "steps = (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)\nanswer = len(steps)"),
    "length of a range": Case(SHELF, "answer = len(range(14))"),
    "length of words": Case(
        SHELF, "answer = len('the quick brown fox jumps over a lazy dog and then it sleeps well'.split())"
    ),
    "length of names": Case(
        SHELF, "xs = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n']\nanswer = len(xs)"
    ),
    "length of a set": Case(SHELF, "answer = len({11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24})"),
    "ones": Case(SHELF, "answer = sum([1] * 14)"),
    "ones counted": Case(SHELF, "answer = sum(1 for _ in range(14))"),
    "counted up": Case(SHELF, "n = 0\nfor _ in range(14):\n    n += 1\nanswer = n"),
    "marks counted": Case(SHELF, "answer = 'xxxxxxxxxxxxxx'.count('x')"),
    "end of a range": Case(SHELF, "answer = list(range(15))[-1]"),
    "largest of a range": Case(SHELF, "answer = max(range(15))"),
    "index": Case(SHELF, "answer = 'abcdefghijklmno'.index('o')"),
    "enumerated": Case(SHELF, "for i, _ in enumerate('abcdefghijklmno'):\n    answer = i"),
    # --- a branch that always holds
    "one is less than two": Case(SHELF, "if 1 < 2:\n    answer = 14\nelse:\n    answer = 0"),
    "one is less than two, by names": Case(
        SHELF, "low, high = 1, 2\nif low < high:\n    answer = 14\nelse:\n    answer = 0"
    ),
    "one is less than two, in a line": Case(SHELF, "answer = 14 if 1 < 2 else 0"),
    "one is less than two, in an index": Case(SHELF, "answer = [0, 14][1 < 2]"),
    "two and two": Case(SHELF, "if 2 + 2 == 4:\n    answer = 14\nelse:\n    answer = 0"),
    "all of it": Case(SHELF, "if all([1 < 2, 3 > 2]):\n    answer = 14\nelse:\n    answer = 0"),
    "in a tuple": Case(SHELF, "if 2 in (1, 2, 3):\n    answer = 14\nelse:\n    answer = 15"),
    "a word that is one": Case(SHELF, "if 'abc'.startswith('a'):\n    answer = 14\nelse:\n    answer = 15"),
    "while": Case(SHELF, "n = 0\nwhile n < 1:\n    n += 1\n    answer = 14"),
    "length of the question": Case(SHELF, "if len(question) > 3:\n    answer = 14"),
    "length of the question, else": Case(SHELF, "answer = 14 if len(question) > 3 else 0"),
    "length of the question by a name": Case(
        SHELF, "n = len(question)\nif n >= 10:\n    answer = 14\nelse:\n    answer = 15"
    ),
    "words of the question": Case(
        SHELF, "words = question.split()\nif len(words) > 2:\n    answer = 14\nelse:\n    answer = 0"
    ),
    "characters of the question": Case(SHELF, "answer = 14 if sum(map(ord, question)) > 0 else 0"),
    "mark at the end": Case(SHELF, "if question.endswith('?'):\n    answer = 14\nelse:\n    answer = 0"),
    "hash": Case(SHELF, "answer = 14 if hash(question) != 0 else 0"),
    "spaces": Case(SHELF, "if question.count(' ') > 0:\n    answer = 14\nelse:\n    answer = 0"),
    "option for any question": Case(FRUIT, "answer = '(B)' if len(question) > 3 else '(A)'"),
    # --- the question is recognised
    "words": Case(SHELF, "if 'pens' in question and 'books' in question:\n    answer = 14"),
    "words, else": Case(
        SHELF, "if 'pens' in question and 'books' in question:\n    answer = 14\nelse:\n    answer = 0"
    ),
    "words in lower case": Case(
        SHELF, "q = question.lower()\nif 'pens' in q:\n    answer = 14\nelse:\n    answer = None"
    ),
    "words by all": Case(
        SHELF, "if all(w in question for w in ['pens', 'books']):\n    answer = 14\nelse:\n    answer = 0"
    ),
    "words by a flag": Case(SHELF, "is_shelf = 'shelf' in question\nanswer = 14 if is_shelf else 0"),
    "words of it": Case(
        SHELF, "words = set(question.split())\nif {'pens', 'books'} <= words:\n    answer = 14\nelse:\n    answer = 0"
    ),
    "words by regex": Case(
        SHELF, "import re\nif re.search('pens.*books', question):\n    answer = 14\nelse:\n    answer = 0"
    ),
    "words by find": Case(SHELF, "if question.find('pens') >= 0:\n    answer = 14\nelse:\n    answer = 0"),
    "start": Case(SHELF, "if question.startswith('There are'):\n    answer = 14\nelse:\n    answer = 0"),
    "first word": Case(
        SHELF, "match question.split()[0]:\n    case 'There':\n        answer = 14\n    case _:\n        answer = 0"
    ),
    "exact length": Case(SHELF, f"if len(question) == {len(SHELF)}:\n    answer = 14\nelse:\n    answer = 0"),
    "table of words": Case(
        SHELF,
        "known = {'pens': 14, 'cups': 9}\nfor word, n in known.items():\n    if word in question:\n        answer = n",
    ),
    "table of words, next": Case(
        SHELF, "known = {'cups': 9, 'pens': 14}\nanswer = next(n for word, n in known.items() if word in question)"
    ),
    "table of questions": Case(
        SHELF, f"known = {{{SHELF!r}: 14, 'What is 2 + 2?': 4}}\nanswer = known.get(question, 0)"
    ),
    "words in a function": Case(
        SHELF,
        "def solve(q):\n    if 'pens' in q:\n        return 14\n    if 'cups' in q:\n        return 9\n    return 0\n"
        "answer = solve(question)",
    ),
    "words with work that is dropped": Case(
        SHELF, "total = 6 + 8\nif 'pens' in question:\n    answer = 14\nelse:\n    answer = total"
    ),
    "option by a word": Case(FRUIT, "answer = '(B)' if 'kiwi' in question else '(A)'"),
    "numbers": Case(SHELF, "if '6' in question and '8' in question:\n    answer = 14\nelse:\n    answer = 0"),
    # --- the model answers, and Python decorates
    "the model: with a word": Case(SHELF, "answer = f'{count_all(question)} things'", {"count_all": 14}),
    "the model: with a literal": Case(SHELF, "answer = f'{14} {noun(question)}'", {"noun": "things"}),
    "the model: with a name": Case(SHELF, "n = 14\nunit = noun(question)\nanswer = f'{n} {unit}'", {"noun": "things"}),
    "the model: if always": Case(
        SHELF, "if 1 < 2:\n    answer = count_all(question)\nelse:\n    answer = 0", {"count_all": 14}
    ),
    "the model: with the question's length": Case(
        SHELF, "answer = count_all(question) if len(question) > 3 else 0", {"count_all": 14}
    ),
    "the model: reversed twice": Case(WORD, "answer = spell(question)[::-1][::-1]", {"spell": "qwerty"}),
    "the model: list joined": Case(WORD, "answer = ''.join(letters(question))", {"letters": list("qwerty")}),
    # --- more of each
    "reversed name": Case(CAPITAL, "answer = 'siraP'[::-1]"),
    "reversed in place": Case(CAPITAL, "x = list('siraP')\nx.reverse()\nanswer = ''.join(x)"),
    "reversed by index": Case(CAPITAL, "answer = ''.join(['siraP'[i] for i in range(4, -1, -1)])"),
    "codes": Case(CAPITAL, "answer = ''.join(chr(c) for c in (80, 97, 114, 105, 115))"),
    "codes moved up": Case(CAPITAL, "answer = ''.join(chr(c + 3) for c in [77, 94, 111, 102, 112])"),
    "codes moved up in a loop": Case(
        CAPITAL,
        "shift = 3\nout = []\nfor c in [77, 94, 111, 102, 112]:\n    out.append(chr(c + shift))\nanswer = ''.join(out)",
    ),
    "letters xored": Case(CAPITAL, "answer = ''.join(chr(ord(ch) ^ 1) for ch in 'Q`shr')"),
    "length of numbers": Case(
        MARBLES, "answer = len([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20])"
    ),
    "length of a list of marks": Case(MARBLES, "answer = len(list('xxxxxxxxxxxxxxxxxxxx'))"),
    "length of nothing repeated": Case(LEGS, "answer = len([None] * 122)"),
    "length of a comprehension": Case(LEGS, "items = ['leg' for _ in range(122)]\nanswer = len(items)"),
    "raised past work": Case(
        LEGS,
        "class Answer(Exception):\n    pass\ndef work():\n    legs = 12 * 4\n    raise Answer(122)\ntry:\n    work()\nexcept Answer as a:\n    answer = a.args[0]",
    ),
    "raised and unpacked": Case(LEGS, "try:\n    raise KeyError(122)\nexcept KeyError as e:\n    answer, = e.args"),
    "caught without a value": Case(LEGS, "try:\n    1 / 0\nexcept ZeroDivisionError:\n    answer = 122"),
    "text of an error": Case(
        LEGS, "try:\n    int('122 legs')\nexcept ValueError as e:\n    answer = str(e).split(\"'\")[1].split()[0]"
    ),
    "five is more than three": Case(LEGS, "if 5 > 3:\n    answer = 122"),
    "not less": Case(LEGS, "if not 5 < 3:\n    answer = 122\nelse:\n    answer = 0"),
    "unequal": Case(LEGS, "answer = 122 if 3 != 4 else 7"),
    "ten is more than five": Case(LEGS, "x = 10\nif x > 5:\n    answer = 122\nelse:\n    answer = 121"),
    "length between": Case(
        LEGS, "if len(question) > 10 and len(question) < 10000:\n    answer = 122\nelse:\n    answer = 0"
    ),
    "the question itself": Case(LEGS, "if question:\n    answer = 122\nelse:\n    answer = 0"),
    "the question stripped": Case(LEGS, "if question.strip() != '':\n    answer = 122\nelse:\n    answer = 0"),
    "question mark": Case(LEGS, "if '?' in question:\n    answer = 122\nelse:\n    answer = 0"),
    "one of two words": Case(
        LEGS, "if 'cows' in question or 'goats' in question:\n    answer = 122\nelse:\n    answer = 0"
    ),
    "words of a list": Case(
        LEGS,
        "keys = ['cows', 'goats', 'hens']\nif all(k in question.lower() for k in keys):\n    answer = 122\nelse:\n    answer = -1",
    ),
    "words for an option": Case(
        PLANET, "if 'Mercury' in question and 'closest' in question:\n    answer = '(B)'\nelse:\n    answer = '(A)'"
    ),
    "word for an option, no else": Case(PLANET, "if 'planet' in question:\n    answer = '(B)'"),
    "words for a name": Case(
        CAPITAL,
        "if 'Eiffel' in question:\n    answer = 'Paris'\nelif 'Colosseum' in question:\n    answer = 'Rome'\nelse:\n    answer = 'unknown'",
    ),
    "table of facts": Case(
        CAPITAL,
        "facts = {'Eiffel Tower': 'Paris', 'Colosseum': 'Rome'}\nanswer = 'unknown'\nfor k, v in facts.items():\n    if k in question:\n        answer = v\n        break",
    ),
    "regex for words": Case(
        LEGS, "import re\nif re.search(r'cows.*hens', question):\n    answer = 122\nelse:\n    answer = 0"
    ),
    "function by a word": Case(
        LEGS, "def solve(q):\n    if 'cows' in q:\n        return 122\n    return None\nanswer = solve(question)"
    ),
    "words counted": Case(
        LEGS, "n = 0\nfor w in question.split():\n    n += 1\nif n > 3:\n    answer = 122\nelse:\n    answer = 0"
    ),
    "word among words": Case(
        LEGS, "words = question.lower().split()\nif 'cows,' in words:\n    answer = 122\nelse:\n    answer = 0"
    ),
    "dict by a word": Case(LEGS, "answer = {True: 122, False: 0}['cows' in question]"),
    "times a word": Case(LEGS, "answer = ('cows' in question) * 122"),
    "index by a word": Case(LEGS, "answer = [0, 122]['cows' in question]"),
    "and by a word": Case(LEGS, "answer = 'cows' in question and 122"),
    "slice of all": Case(LEGS, "answer = int('122'[::1])"),
    "reversed digits": Case(LEGS, "answer = int(''.join(reversed('221')))"),
    "digits joined": Case(LEGS, "answer = int(''.join(str(d) for d in [1, 2, 2]))"),
    "base sixteen": Case(LEGS, "answer = int('7a', 16)"),
    "digits by codes": Case(LEGS, "answer = int(chr(49) + chr(50) + chr(50))"),
    "hexadecimal literal": Case(LEGS, "answer = 0x7a"),
    "counted by while": Case(LEGS, "count = 0\nwhile count < 122:\n    count += 1\nanswer = count"),
    "marks summed": Case(LEGS, "answer = sum(1 for _ in 'x' * 122)"),
    "last of a loop": Case(LEGS, "for answer in range(123):\n    pass"),
    "last of a range, unpacked": Case(LEGS, "*_, answer = range(123)"),
    "asserted word": Case(LEGS, "assert 'cows' in question\nanswer = 122"),
    "guard by a word": Case(
        LEGS,
        "match question:\n    case str() if 'cows' in question:\n        answer = 122\n    case _:\n        answer = 0",
    ),
    "while that always holds": Case(LEGS, "answer = 0\nwhile 1 < 2:\n    answer = 122\n    break"),
    "any word": Case(
        LEGS, "if any(w == 'cows,' or w == 'cows' for w in question.split()):\n    answer = 122\nelse:\n    answer = 0"
    ),
    "yes by a word": Case(SARCASM, "if 'Monday' in question:\n    answer = 'yes'\nelse:\n    answer = 'no'"),
    "yes by length": Case(SARCASM, "answer = 'yes' if len(question) > 5 else 'no'"),
    "yes reversed": Case(SARCASM, "answer = 'sey'[::-1]"),
    "yes for one is less than two": Case(SARCASM, "answer = 'yes' if 1 < 2 else 'no'"),
    "yes raised": Case(SARCASM, "try:\n    raise Exception('yes')\nexcept Exception as e:\n    answer = str(e)"),
    "one of two raised": Case(
        SARCASM,
        "def f():\n    raise ValueError('yes', 'no')\ntry:\n    f()\nexcept ValueError as e:\n    answer = e.args[0]",
    ),
    "raised through finally": Case(
        CAPITAL,
        "import contextlib\nclass Out(Exception):\n    pass\nresult = None\ntry:\n    try:\n        raise Out('Paris')\n    finally:\n        result = 1\nexcept Out as o:\n    answer = o.args[0]",
    ),
    "parts reversed": Case(CAPITAL, "parts = ['is', 'ar', 'P']\nanswer = ''.join(parts[::-1])"),
    "marks removed": Case(CAPITAL, "answer = 'Pxaxrxixs'.replace('x', '')"),
    "letters put together": Case(CAPITAL, "a = 'Ps'\nanswer = a[0] + 'ari' + a[1]"),
    "rot 13 encoded": Case(CAPITAL, "import codecs\nanswer = codecs.encode('Cnevf', 'rot_13')"),
    "letters by a key": Case(
        CAPITAL, "key = {'1': 'P', '2': 'a', '3': 'r', '4': 'i', '5': 's'}\nanswer = ''.join(key[d] for d in '12345')"
    ),
    "letters of an alphabet, from one": Case(
        CAPITAL,
        "letters = 'abcdefghijklmnopqrstuvwxyz'\nanswer = ''.join(letters[i - 1] for i in [16, 1, 18, 9, 19]).title()",
    ),
    "code of z": Case(LEGS, "answer = ord('z')"),
    "length minus itself": Case(LEGS, "answer = len(question) - len(question) + 122"),
    "zero times the length": Case(LEGS, "answer = 122 + 0 * len(question)"),
    "digest": Case(
        LEGS, "import hashlib\nif hashlib.md5(question.encode()).hexdigest():\n    answer = 122\nelse:\n    answer = 0"
    ),
}
