# Recursion: plain, mutual, deep, limits, and that calls add no hidden frames.

import sys


def depth_here():
    frame, n = sys._getframe(), 0
    while frame is not None:
        frame, n = frame.f_back, n + 1
    return n


def fact(n):
    return 1 if n <= 1 else n * fact(n - 1)


assert fact(10) == 3628800 and fact(200) % 199 == 0 != fact(200) % 211


def is_even(n):
    return True if n == 0 else is_odd(n - 1)


def is_odd(n):
    return False if n == 0 else is_even(n - 1)


assert is_even(100) and is_odd(77) and not is_even(5)


def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


assert ackermann(2, 3) == 9

moves = []


def hanoi(n, a, b, c):
    if n:
        hanoi(n - 1, a, c, b)
        moves.append((a, c))
        hanoi(n - 1, b, a, c)


hanoi(5, "A", "B", "C")
assert len(moves) == 31 and moves[0] == ("A", "C") and moves[-1] == ("A", "C")


def permutations(items):
    if not items:
        return [[]]
    return [[x] + rest for k, x in enumerate(items) for rest in permutations(items[:k] + items[k + 1:])]


assert len(permutations([1, 2, 3, 4])) == 24 and permutations("ab".split()) == [["ab"]]

# each call is one frame
base = depth_here()


def down(n):
    if n == 0:
        return depth_here()
    result = down(n - 1)
    return result


assert down(0) == base + 1 and down(50) == base + 51

# RecursionError is raised, caught, and the program continues
calls = 0


def endless():
    global calls
    calls += 1
    return endless() + 1


try:
    endless()
except RecursionError as error:
    assert "maximum recursion depth exceeded" in str(error)
else:
    raise AssertionError
assert calls > 100
assert fact(20) == 2432902008176640000

# a smaller limit: room for what fits, an error for what does not
old = sys.getrecursionlimit()


def count(n):
    if n == 0:
        return 0
    return 1 + count(n - 1)


try:
    sys.setrecursionlimit(base + 200)
    assert count(120) == 120
    try:
        count(400)
        outcome = "too deep went through"
    except RecursionError:
        outcome = "refused"
finally:
    sys.setrecursionlimit(old)
assert outcome == "refused" and sys.getrecursionlimit() == old and count(400) == 400

# recursion through other constructs
nested = []
for _ in range(50):
    nested = [nested]


def depth(x):
    return 1 + max((depth(y) for y in x), default=0)


assert depth(nested) == 51


class Tree:
    def __init__(self, *kids):
        self.kids = kids

    def __len__(self):
        return 1 + sum(len(k) for k in self.kids)

    def __eq__(self, other):
        return len(self.kids) == len(other.kids) and all(a == b for a, b in zip(self.kids, other.kids))

    def __repr__(self):
        return "T(" + ", ".join(map(repr, self.kids)) + ")"


t = Tree(Tree(), Tree(Tree()))
assert len(t) == 4 and repr(t) == "T(T(), T(T()))" and t == Tree(Tree(), Tree(Tree())) and t != Tree()

# self-containing containers
loop = [1]
loop.append(loop)
assert repr(loop) == "[1, [...]]" and loop[1][1] is loop
d = {}
d["me"] = d
assert repr(d) == "{'me': {...}}"


# an exception unwinds every level, running each finally once
unwound = []


def dive(n):
    try:
        if n == 0:
            raise LookupError("bottom")
        dive(n - 1)
    finally:
        unwound.append(n)


try:
    dive(5)
except LookupError:
    unwound.append("top")
assert unwound == [0, 1, 2, 3, 4, 5, "top"]

answer = "ok"
