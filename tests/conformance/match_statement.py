# match: literal, capture, or, guard, sequence, star, mapping, class patterns.

from dataclasses import dataclass
from enum import Enum


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass
class Point:
    x: int
    y: int


class Hand:
    __match_args__ = ("left", "right")

    def __init__(self, left, right):
        self.left = left
        self.right = right


def describe(value):
    match value:
        case None:
            return "none"
        case True | False:
            return "bool"
        case 0:
            return "zero"
        case -1:
            return "minus one"
        case 1.5 | 2.5:
            return "halves"
        case 1 + 2j:
            return "complex"
        case "text" | b"bytes":
            return "literal string"
        case Colour.RED:
            return "red"
        case int() as number if number > 100:
            return f"big {number}"
        case int(number) | float(number):
            return f"number {number}"
        case str(s) if s.isupper():
            return "shout " + s
        case []:
            return "empty"
        case [only]:
            return f"one {only}"
        case [first, second]:
            return f"two {first} {second}"
        case [first, *middle, last] if first == last:
            return f"ring {middle}"
        case (first, *_):
            return f"starts {first}"
        case {"op": "add", "args": [a, b]}:
            return f"add {a + b}"
        case {"op": str(op), **others}:
            return f"op {op} {others}"
        case {}:
            return "some mapping"
        case Point(x=0, y=0):
            return "origin"
        case Point(x, y=0) | Point(0, x):
            return f"axis {x}"
        case Point(x=a, y=b):
            return f"point {a},{b}"
        case Hand([*_] as left, Hand(_, right)):
            return f"hands {left} {right}"
        case _:
            return "other"


table = [
    (None, "none"), (True, "bool"), (False, "bool"), (0, "zero"), (-1, "minus one"), (2.5, "halves"),
    (1 + 2j, "complex"), ("text", "literal string"), (b"bytes", "literal string"),
    (Colour.RED, "red"), (Colour.BLUE, "other"), (500, "big 500"), (7, "number 7"),
    (0.25, "number 0.25"), ("LOUD", "shout LOUD"), ("soft", "other"), ([], "empty"), ([9], "one 9"),
    ((8, 9), "two 8 9"), ([1, 2, 3, 1], "ring [2, 3]"), (range(4), "starts 0"),
    ({"op": "add", "args": (3, 4)}, "add 7"), ({"op": "neg", "n": 1}, "op neg {'n': 1}"),
    ({"z": 1}, "some mapping"), ({}, "some mapping"), (Point(0, 0), "origin"), (Point(3, 0), "axis 3"),
    (Point(0, 4), "axis 4"), (Point(3, 4), "point 3,4"),
    (Hand([1, 2], Hand(0, "r")), "hands [1, 2] r"), (Hand("ab", Hand(0, 0)), "other"), ({1, 2}, "other"),
]
for value, expected in table:
    assert describe(value) == expected, (value, describe(value), expected)

# the subject is evaluated once; guards in order and only when the pattern fits
log = []


def say(tag, result):
    log.append(tag)
    return result


match say("subject", [1, 2]):
    case [_] if say("g0", True):
        log.append("wrong")
    case [a, b] if say("g1", a > b):
        log.append("wrong")
    case [a, b] if say("g2", a < b):
        log.append((a, b))
    case _:
        log.append("wrong")
assert log == ["subject", "g1", "g2", (1, 2)]
assert a == 1 and b == 2, "captures are ordinary names"

# no case fits: nothing happens
outcome = "untouched"
match 5:
    case 4:
        outcome = "wrong"
assert outcome == "untouched"

# match, case and _ are ordinary names elsewhere; several subjects make a tuple
match = {"case": 1}
case = match["case"]
_ = "underscore"
match case, _:
    case 1, ("underscore" | "dash") as which:
        outcome = which
assert outcome == "underscore" and match == {"case": 1} and _ == "underscore"


# control flow through a match in a loop
def scan(tokens):
    out = []
    for token in tokens:
        match token:
            case "skip":
                continue
            case "stop":
                break
            case ("return", value):
                return value
        out.append(token)
    else:
        out.append("else")
    return out


assert scan(["a", "skip", "b"]) == ["a", "b", "else"]
assert scan(["a", "stop", "b"]) == ["a"]
assert scan(["a", ("return", 3), "b"]) == 3

answer = "ok"
