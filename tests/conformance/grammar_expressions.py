# A tour of every expression form.

import types

# atoms and displays
assert (1, 1.5, 2j, "s", b"b", True, None, ...) == (1, 1.5, 2j, "s", b"b", True, None, Ellipsis)
assert () == tuple() and (1,) == tuple([1]) and [] == list() and {} == dict() and {1} == set([1])
assert (1) == 1 and ((((2)))) == 2 and [[[]]] == [[[]]] and ("a" "b") == "ab"
assert [1, 2,] == [1, 2] and {1: 2,} == {1: 2} and {1, 2,} == {1, 2} and (1, 2,) == (1, 2)

# precedence, from loose to tight
assert (lambda: 1 if 0 else 2)() == 2
assert (1 if True else 2 if True else 3) == 1
assert (False or True and False) is False and (not False or True) is True and (not 1 == 2) is True
assert 1 + 2 == 3 < 4 and 1 | 2 == 3 and (1 | 2 ^ 3 & 4) == 3 and 1 << 2 + 1 == 8
assert 2 + 3 * 4 == 14 and (2 + 3) * 4 == 20 and 7 - 2 - 1 == 4 and 2 ** 2 ** 3 == 256 and -2 ** 2 == -4
assert 2 ** -1 == 0.5 and --5 == 5 and +-+5 == -5 and ~~7 == 7 and (not not 1) is True
assert 10 // 3 * 3 + 10 % 3 == 10 and 7 / 2 == 3.5 and -7 // 2 == -4
assert "abc"[0].upper().lower()[::-1] == "a" and [1, 2, 3][1:][0] == 2
assert (await_ := 5) == 5 and (yield_ := 6) == 6

# comparisons
assert 1 < 2 <= 2 == 2 != 3 >= 3 > 1 and 1 in [1] and 2 not in [1] and None is None and [] is not None
assert "a" < "b" and (1, 2) < (1, 3) and [1] == [1] and {1: 2} == {1: 2} and not 1 == 2


# calls in all shapes
def f(*args, **kw):
    return args, kw


class K:
    attr = [lambda: "deep"]

    def method(self, n=0):
        return self, n

    def __call__(self, *args):
        return args

    def __getitem__(self, item):
        return item


k = K()
assert f() == ((), {}) and f(1,) == ((1,), {}) and f(*[1], 2, a=3, **{"b": 4}) == ((1, 2), {"a": 3, "b": 4})
assert f(x for x in "a")[0][0].__class__ is types.GeneratorType and f(y := 1) == ((1,), {})
assert k.method()[0] is k and k.method(n=3)[1] == 3 and K.method(k, 4)[1] == 4 and k(1, 2) == (1, 2)
assert k.attr[0]() == "deep" and (lambda *a: a)(1, 2) == (1, 2) and f(*(), **{}) == ((), {})
assert [g(2) for g in (lambda v: v + 1, lambda v: v * 5, str)] == [3, 10, "2"]
assert (f)(1) == f(1) and (k.method)(1)[1] == 1 and getattr(k, "method")(2)[1] == 2

# subscripts
assert k[1] == 1 and k[1, 2] == (1, 2) and k[1:2:3] == slice(1, 2, 3) and k[:] == slice(None) and k[..., None] == (..., None)
assert k[1:2, 3] == (slice(1, 2), 3) and k[()] == () and k[lambda: 1]() == 1 and k[*(1, 2)] == (1, 2)
assert k[(v := 3)] == 3 and k["a":"b"] == slice("a", "b") and k[[1]] == [1]

# comprehensions and generators
assert [x for x in range(3)] == [0, 1, 2] and {x for x in "aa"} == {"a"} and {x: x * 2 for x in (1, 2)} == {1: 2, 2: 4}
assert [x + y for x in (1, 2) if x > 1 for y in (10, 20) if y > 10] == [22]
assert list(x for x in (1, 2)) == [1, 2] and sum(x for x in (1, 2)) == 3
assert [*(x for x in "ab")] == ["a", "b"] and {**{"a": 1}} == {"a": 1} and [*[], *()] == []
assert [lambda: x for x in (1,)][0]() == 1 and [[y for y in range(x)] for x in (1, 2)] == [[0], [0, 1]]

# lambdas
assert (lambda: None)() is None and (lambda a, b=2, *c, d=4, **e: (a, b, c, d, e))(1) == (1, 2, (), 4, {})
assert (lambda a, /, *, b: a + b)(1, b=2) == 3 and (lambda x: lambda y: x + y)(1)(2) == 3

# conditional and boolean results
assert (0 or "a") == "a" and (1 and "b") == "b" and ("" or 0 or None) is None and (1 and 2 and 3) == 3
assert ("t" if [] else "f") == "f" and ("t" if [0] else "f") == "t"

# strings
v, w = 3, 8
assert f"{v}{w!r:>3}{v + w:=+5}{v=}" == "3  8+  11v=3" and f"{'x':{w}}|" == "x       |" and f"{{}}" == "{}"
assert "%d-%s" % (1, "a") == "1-a" and "{}{}".format(1, 2) == "12" and 'a' f'{v}' "b" == "a3b"

# attribute chains, methods of literals
assert "a,b".split(",")[1].join(["1", "2"]) == "1b2" and (5).bit_length() == 3 and 5 .real == 5 and 1.5.is_integer() is False
assert [3, 1, 2].copy().index(2) == 2 and {"a": 1}.get("b", "d") == "d" and {1, 2}.union([3]) == {1, 2, 3} and b"x".hex() == "78"


# yield and await as expressions
def gen():
    a = yield 1
    b = (yield) or "default"
    c = yield from [2, 3]
    return [a, b, c, (yield), (yield 4)]


g = gen()
got = [next(g), g.send("A"), g.send(None), next(g), next(g), g.send("D")]
assert got == [1, None, 2, 3, None, 4], got
try:
    g.send("E")
except StopIteration as stop:
    assert stop.value == ["A", "default", None, "D", "E"]


async def co():
    return [await other(x) for x in (1, 2)] + [await other(3) if await other(True) else 0]


async def other(x):
    return x


try:
    co().send(None)
except StopIteration as stop:
    assert stop.value == [1, 2, 3]

# starred tuples and slices of them, matrix multiplication, long chains
star = *range(2), *"ab"
assert star == (0, 1, "a", "b") and (*star, 5)[-1] == 5


class M:
    def __matmul__(self, other):
        return ("@", other)


assert M() @ 3 == ("@", 3) and M() @ -2 ** 2 == ("@", -4)
assert 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10 == 55 and ((((1 + 2) * 3) - 4) // 5) % 6 == 1
assert (1, (2, (3, (4,))))[1][1][1][0] == 4 and {"a": {"b": [0, {"c": "deep"}]}}["a"]["b"][1]["c"] == "deep"

# big literals and unusual spacing
assert 0b1010_1010 == 170 and 1_0.0_1 == 10.01 and 1e-1_0 == 1e-10 and [ 1 , 2 ] [ 0 ] == 1 and k . attr is K . attr

answer = "ok"
