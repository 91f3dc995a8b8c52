# A tour of every statement form.

import sys

trail = []
step = trail.append

# expression statements of many kinds: evaluated, value dropped
1
"a string"
(1, 2)
[step("list")]
{step("dict"): 1}
step("call")
trail[0]
lambda: step("never")
(yes := "walrus")
step("x") if True else step("y")
not step("not")
...
None
assert trail == ["list", "dict", "call", "x", "not"] and yes == "walrus"

# assignments
a = 1
b = c = 2
d, e = 3, 4
[f, (g, *h)] = 5, (6, 7, 8)
(i) = 9
(j), = [10]
k: int = 11
l: "unevaluated string"
(m): int = 12
obj = type("Obj", (), {})()
obj.attr = 13
obj.attr2: int = 14
box = [0, 0]
box[0] = 15
box[1:] = [16, 17]
assert [a, b, c, d, e, f, g, h, i, j, k, m] == [1, 2, 2, 3, 4, 5, 6, [7, 8], 9, 10, 11, 12]
assert (obj.attr, obj.attr2, box) == (13, 14, [15, 16, 17]) and "l" not in globals()
annotations = __annotate__(1) if sys.version_info >= (3, 14) else __annotations__
assert annotations == {"k": int, "l": "unevaluated string"}, annotations

# augmented
a += 1; a -= 5; a *= -2; a **= 2; a //= 3; a %= 7; a <<= 3; a >>= 1; a |= 9; a ^= 2; a &= 0xF; a /= 2
assert type(a) is float and a == 7.5, a
box += [18]
obj.attr *= 2
box[0] -= 5
assert box == [10, 16, 17, 18] and obj.attr == 26

# pass, del
pass
del b, (c, d), [e], box[0], box[1:], obj.attr
assert box == [16] and not hasattr(obj, "attr") and not {"b", "c", "d", "e"} & set(globals())
if True:
    pass

# assert with and without message
assert True
assert (1, "non-empty tuple is true")[0]
try:
    assert False, ("message", 1)
except AssertionError as error:
    assert error.args == (("message", 1),)
try:
    assert ()
except AssertionError as error:
    assert error.args == ()


# if / elif / else, while / else, for / else, break, continue
def branches(n):
    if n < 0:
        return "negative"
    elif n == 0:
        return "zero"
    elif n == 1:
        pass
    else:
        return "many"
    return "one"


assert [branches(n) for n in (-1, 0, 1, 2)] == ["negative", "zero", "one", "many"]

n = 0
while n < 10:
    n += 1
    if n == 3:
        continue
    if n == 6:
        break
else:
    n = "never"
assert n == 6

for q in 1, 2, 3:
    continue
for q, in [[1]]:
    pass
for q in *"ab", "c":
    pass
assert q == "c"

# try in all shapes
shapes = []
try:
    shapes.append(1)
finally:
    shapes.append(2)
try:
    raise KeyError
except:
    shapes.append(3)
try:
    raise KeyError
except (ValueError, KeyError):
    shapes.append(4)
except Exception as unused:
    shapes.append("never")
else:
    shapes.append("never")
finally:
    shapes.append(5)
try:
    raise ExceptionGroup("g", [OSError()])
except* OSError:
    shapes.append(6)
try:
    try:
        raise ValueError("inner")
    except ValueError as v:
        raise TypeError("outer") from v
except TypeError as t:
    shapes.append(t.__cause__.args[0])
assert shapes == [1, 2, 3, 4, 5, 6, "inner"]


# def in all shapes
def plain(): return 1
def full(a, b, /, c, d=4, *e, f, g=7, **h) -> "returns": return a, b, c, d, e, f, g, h
def bare(*, k): return k
def empty_return(x):
    x += 1
    return
def gen(): x = yield; yield x
async def co(): return 1


assert plain() == 1 and full(1, 2, 3, f=6, z=9) == (1, 2, 3, 4, (), 6, 7, {"z": 9}) and bare(k=2) == 2
assert empty_return(1) is None and list(gen()) == [None, None]
try:
    co().send(None)
except StopIteration as stop:
    assert stop.value == 1


# class in all shapes
class A: x = 1
class B(): x = 2
class C(A, B): pass
class D(A, metaclass=type): y = 3
class E(*[A, B], **{"metaclass": type}): z = 4


assert C.x == 1 and D.y == 3 and E.__bases__ == (A, B)


# with, match, global, nonlocal, import, return, raise
class CM:
    def __enter__(self): return (1, 2)
    def __exit__(self, *a): return True


with CM(): step("with")
with CM() as (one, two), CM() as pair: step(one + two)
with (CM() as pair): step(pair)
with (CM(), CM()): raise ValueError
assert trail[-3:] == ["with", 3, (1, 2)]

match trail[-2:]:
    case []: step("never")
    case [3, (1, x) as whole] if x == 2: step(whole)
    case _: step("never")
assert trail[-1] == (1, 2)


def scoped():
    global made_global
    made_global = 1
    local = 1
    def inner():
        nonlocal local
        local += 1
        import math, string as s
        from math import (pi as PI, e)
        return math.floor(PI), s.digits[0], local
    return inner()


assert scoped() == (3, "0", 2) and made_global == 1

# unreachable code is legal
def unreachable():
    return 1
    yield_like = 2
    while True: pass
while False:
    undefined_name_here
if 0:
    another_undefined_name
assert unreachable() == 1

answer = "ok"
