# Operators call special methods, in the right order, on the type.

log = []


class Num:
    def __init__(self, n):
        self.n = n

    def __repr__(self):
        return f"Num({self.n})"


def install(symbol, name):
    def forward(self, other):
        log.append(f"{self.n}{symbol}{getattr(other, 'n', other)}")
        return ("fwd", symbol)

    def reflected(self, other):
        log.append(f"{other}{symbol}{self.n} r")
        return ("refl", symbol)

    setattr(Num, f"__{name}__", forward)
    setattr(Num, f"__r{name}__", reflected)


for symbol, name in [
    ("+", "add"), ("-", "sub"), ("*", "mul"), ("/", "truediv"), ("//", "floordiv"), ("%", "mod"),
    ("**", "pow"), ("@", "matmul"), ("<<", "lshift"), (">>", "rshift"), ("&", "and"), ("|", "or"), ("^", "xor"),
]:
    install(symbol, name)

a, b = Num(1), Num(2)
results = [a + b, a - b, a * b, a / b, a // b, a % b, a ** b, a @ b, a << b, a >> b, a & b, a | b, a ^ b]
assert [r[1] for r in results] == ["+", "-", "*", "/", "//", "%", "**", "@", "<<", ">>", "&", "|", "^"]
assert all(r[0] == "fwd" for r in results) and log[:3] == ["1+2", "1-2", "1*2"] and len(log) == 13
log.clear()
assert (5 + a, 5 - a, 5 ** a, 5 @ a) == (("refl", "+"), ("refl", "-"), ("refl", "**"), ("refl", "@"))
assert log == ["5+1 r", "5-1 r", "5**1 r", "5@1 r"]


class Child(Num):
    def __radd__(self, other):
        return "child first"


assert a + Child(3) == "child first" and Child(3) + a == ("fwd", "+")


class Polite:
    def __init__(self):
        self.asked = []

    def __add__(self, other):
        self.asked.append("add")
        return NotImplemented

    def __radd__(self, other):
        self.asked.append("radd")
        return NotImplemented

    def __eq__(self, other):
        self.asked.append("eq")
        return NotImplemented


p, q = Polite(), Polite()
try:
    p + 1
except TypeError as error:
    assert "unsupported operand" in str(error)
try:
    p + q
except TypeError:
    p.asked.append("same type: no radd")
assert p.asked == ["add", "add", "same type: no radd"] and q.asked == []
assert (p == q) is False and p.asked[-1] == "eq" and q.asked == ["eq"] and p == p


class Unary:
    def __neg__(self):
        return "neg"

    def __pos__(self):
        return "pos"

    def __invert__(self):
        return "inv"

    def __abs__(self):
        return "abs"

    def __round__(self, digits=None):
        return ("round", digits)

    def __divmod__(self, other):
        return ("divmod", other)

    def __pow__(self, other, mod=None):
        return ("pow", other, mod)


u = Unary()
assert (-u, +u, ~u, abs(u), round(u), round(u, 2)) == ("neg", "pos", "inv", "abs", ("round", None), ("round", 2))
assert divmod(u, 3) == ("divmod", 3) and pow(u, 2, 5) == ("pow", 2, 5) and u ** 2 == ("pow", 2, None)


class Vector:
    def __init__(self, *xs):
        self.xs = xs

    def __add__(self, other):
        return Vector(*(x + y for x, y in zip(self.xs, other.xs)))

    def __mul__(self, k):
        return Vector(*(x * k for x in self.xs))

    __rmul__ = __mul__

    def __matmul__(self, other):
        return sum(x * y for x, y in zip(self.xs, other.xs))

    def __eq__(self, other):
        return isinstance(other, Vector) and self.xs == other.xs

    def __hash__(self):
        return hash(self.xs)

    def __bool__(self):
        return any(self.xs)

    def __len__(self):
        return len(self.xs)

    def __getitem__(self, i):
        return self.xs[i]

    def __call__(self, f):
        return Vector(*map(f, self.xs))

    def __iadd__(self, other):
        log.append("iadd")
        return self + other


v, w = Vector(1, 2), Vector(3, 4)
assert v + w == Vector(4, 6) and 2 * v == v * 2 == Vector(2, 4) and v @ w == 11
assert v != w and {v: 1}[Vector(1, 2)] == 1 and not Vector(0, 0) and len(v) == 2 and list(v) == [1, 2]
assert v(lambda x: -x) == Vector(-1, -2) and 2 in v
old = v
v += w
assert v == Vector(4, 6) and old == Vector(1, 2) and log[-1] == "iadd"

# special methods on an instance are ignored by the operators
v.__len__ = lambda: 99
v.__add__ = lambda other: "instance"
assert len(v) == 2 and isinstance(v + w, Vector) and v.__len__() == 99


class Truthy:
    def __len__(self):
        return 0


class Both(Truthy):
    def __bool__(self):
        return True


assert not Truthy() and Both()
try:
    class BadLen:
        def __len__(self):
            return -1
    len(BadLen())
except ValueError:
    log.append("negative length")
assert log[-1] == "negative length"
try:
    class BadBool:
        def __bool__(self):
            return "yes"
    bool(BadBool())
except TypeError:
    log.append("bool must be bool")
assert log[-1] == "bool must be bool"

answer = "ok"
