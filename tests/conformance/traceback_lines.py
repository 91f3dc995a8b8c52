# Line numbers in tracebacks are those of this file, counted by hand.  Line 1 is this one.
import sys
import traceback


def divide(a, b):
    return a / b                                  # line 7


def indirect(n):
    value = n + 1
    if value:
        value = divide(value, 0)                  # line 13
    return value


def lines(error):
    return [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__)]


try:
    x = 1
    y = indirect(x)                               # line 23
    z = 2
except ZeroDivisionError as error:
    assert lines(error) == [("<module>", 23), ("indirect", 13), ("divide", 7)], lines(error)
    tb = error.__traceback__
    assert (tb.tb_lineno, tb.tb_next.tb_lineno, tb.tb_next.tb_next.tb_lineno) == (23, 13, 7)
    assert tb.tb_next.tb_next.tb_next is None
    assert tb.tb_frame is sys._getframe()

assert divide.__code__.co_firstlineno == 6
assert indirect.__code__.co_firstlineno == 10
assert sys._getframe().f_lineno == 34             # line 34


# a statement over several lines reports the line of the failing part
def spread(a):
    return [
        1,
        a.real,
        a.missing_attribute,                      # line 42
        2,
    ]


try:
    spread(3)                                     # line 48
except AttributeError as error:
    assert lines(error) == [("<module>", 48), ("spread", 42)], lines(error)

# several statements on one line
try:
    a = 1; b = a - 1; c = a / b; d = 4            # line 54
except ZeroDivisionError as error:
    assert lines(error) == [("<module>", 54)]
assert (a, b) == (1, 0) and "c" not in globals() and "d" not in globals()

# loops, with, try, match, conditions
spots = []
for k in range(3):
    try:
        if k == 0:
            raise KeyError                        # line 64
        elif [][k]:                               # line 65
            spots.append("never")
    except LookupError as error:
        spots.append(error.__traceback__.tb_lineno)
assert spots == [64, 65, 65], spots


# raise from a handler: the context keeps its own lines
def chained():
    try:
        int("x")                                  # line 75
    except ValueError as error:
        raise RuntimeError("outer") from error    # line 77


try:
    chained()                                     # line 81
except RuntimeError as error:
    assert lines(error) == [("<module>", 81), ("chained", 77)]
    assert lines(error.__cause__) == [("chained", 75)]


# re-raising adds no line of its own in the same frame
def reraise():
    try:
        divide(1, 0)                              # line 90
    except ZeroDivisionError:
        raise                                     # line 92


try:
    reraise()                                     # line 96
except ZeroDivisionError as error:
    assert lines(error) == [("<module>", 96), ("reraise", 90), ("divide", 7)]


# generators, lambdas, comprehensions, class bodies, decorators
def gen():
    yield 1
    raise LookupError("in generator")             # line 104


bad = lambda: {}["k"]                             # line 107
try:
    for value in gen():                           # line 109
        assert value == 1
except LookupError as error:
    assert lines(error) == [("<module>", 109), ("gen", 104)]
try:
    bad()                                         # line 114
except KeyError as error:
    assert lines(error) == [("<module>", 114), ("<lambda>", 107)]
try:
    class Body:
        x = 1
        y = x / 0                                 # line 120
except ZeroDivisionError as error:
    assert lines(error) == [("<module>", 118), ("Body", 120)]


def decorator(f):
    return f


@decorator
@decorator
def decorated():
    return sys._getframe().f_lineno               # line 132


assert decorated() == 132
assert decorated.__code__.co_firstlineno == 129

# an assert, a raise over several lines, an augmented assignment, a delete
where = []
try:
    assert x == 2, "x"                            # line 141
except AssertionError as error:
    where.append(error.__traceback__.tb_lineno)
try:
    x += None                                     # line 145
except TypeError as error:
    where.append(error.__traceback__.tb_lineno)
try:
    del where[10]                                 # line 149
except IndexError as error:
    where.append(error.__traceback__.tb_lineno)
try:
    with memoryview(                              # line 153
        {}["the key is missing"]  # line 154
    ):
        where.append("never")
except KeyError as error:
    where.append(error.__traceback__.tb_lineno)
assert where == [141, 145, 149, 154], where

# extract_stack of the current frame ends here
assert traceback.extract_stack()[-1].lineno == 162  # line 162
assert traceback.extract_stack()[-1].name == "<module>"

answer = "ok"
