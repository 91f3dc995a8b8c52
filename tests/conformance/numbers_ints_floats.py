# Numbers: literals, arithmetic, conversions, rounding, special values.

import math
from decimal import Decimal
from fractions import Fraction

# literals
assert 0x1F == 0o37 == 0b11111 == 31 == 3_1 and 1e3 == 1000.0 == 10_00.0 and .5 == 0.5 and 5. == 5.0
assert 1_000j == 1000j and (1 + 2j).imag == 2.0 and -0x10 == -16 and 0xdead_beef == 3735928559

# division and remainder follow the sign of the divisor
assert (7 // 2, -7 // 2, 7 // -2, -7 // -2) == (3, -4, -4, 3)
assert (7 % 3, -7 % 3, 7 % -3, -7 % -3) == (1, 2, -2, -1)
assert divmod(-7, 3) == (-3, 2) and -7.5 // 2 == -4.0 and 7.5 % -2 == -0.5
for a in range(-6, 7):
    for b in (-4, -3, -1, 1, 2, 5):
        assert a == (a // b) * b + a % b

# power and precedence
assert -2 ** 2 == -4 and 2 ** -1 == 0.5 and 2 ** 3 ** 2 == 512 and (-8) ** 2 == 64
assert pow(3, 200, 13) == 3 ** 200 % 13 and pow(3, -1, 7) == 5 and 0 ** 0 == 1
assert 2 + 3 * 4 - -1 == 15 and ~5 == -6 and -~5 == 6 and 1 << 3 + 1 == 16 and 6 & 3 | 8 ^ 1 == 2 | 9

# big integers are exact
big = 2 ** 100
assert big == 1267650600228229401496703205376 and big + 1 > big and (big * big) >> 100 == big
assert big.bit_length() == 101 and (-5).bit_count() == 2 and int("z", 36) == 35 and hex(big)[-1] == "0"
assert (1000).to_bytes(2, "big") == b"\x03\xe8" and int.from_bytes(b"\xff", "big", signed=True) == -1
assert math.factorial(20) == 2432902008176640000 and math.gcd(84, 36) == 12 and math.isqrt(99) == 9

# bool is an int
assert True + True == 2 and isinstance(True, int) and [10, 20][True] == 20 and sum([True, False, True]) == 2

# floats
assert 0.1 + 0.2 != 0.3 and math.isclose(0.1 + 0.2, 0.3) and repr(0.1 + 0.2) == "0.30000000000000004"
assert 1e308 * 10 == math.inf and -math.inf < 0 < math.inf and math.isnan(math.inf - math.inf)
assert float("1e-3") == 0.001 and float(" 2 ") == 2.0 and (0.5).as_integer_ratio() == (1, 2)
assert (2.0).is_integer() and (0.1).hex() == "0x1.999999999999ap-4" and str(1e16) == "1e+16" and str(1e15) == "1000000000000000.0"
assert math.copysign(1, -0.0) == -1.0 and 0.0 == -0.0 and math.fsum([0.1] * 10) == 1.0
assert int(3.99) == 3 and int(-3.99) == -3 and math.floor(-3.5) == -4 and math.ceil(-3.5) == -3 and math.trunc(-3.5) == -3

# rounding to even
assert [round(v) for v in (0.5, 1.5, 2.5, -0.5, -1.5)] == [0, 2, 2, 0, -2]
assert round(1234.567, 2) == 1234.57 and round(1234.567, -2) == 1200.0 and round(15, -1) == 20 and round(25, -1) == 20
assert type(round(2.5)) is int and type(round(2.5, 0)) is float

# mixed arithmetic and comparison
assert type(1 + 1.0) is float and type(1 + 1j) is complex and 3 == 3.0 == 3 + 0j
assert hash(3) == hash(3.0) == hash(Fraction(3)) == hash(Decimal(3)) and {1: "a"}[1.0] == "a"
assert 2 ** 53 == float(2 ** 53) and 2 ** 53 + 1 != float(2 ** 53) and 10 ** 30 > 1e29
assert abs(-3 + 4j) == 5.0 and (1 + 2j) * (3 - 1j) == 5 + 5j and (1 + 2j).conjugate() == 1 - 2j

# conversions and errors
assert int("-0b101", 0) == -5 and int("  42\n") == 42 and int("1_000") == 1000 and bool("0") and not bool(0.0)
outcomes = []
for action in (
    lambda: 1 // 0, lambda: 1.0 / 0, lambda: 0 ** -1, lambda: 5 % 0,
    lambda: int("x"), lambda: int("1.5"), lambda: float("--"), lambda: int(math.inf), lambda: 1 << -1,
    lambda: 1 + "1", lambda: (1j) < (2j), lambda: "3" * 1.5, lambda: math.sqrt("4"), lambda: int(math.nan),
):
    try:
        action()
    except Exception as error:
        outcomes.append(type(error).__name__[0])
assert "".join(outcomes) == "ZZZZVVVOVTTTTV", outcomes

# exact types
assert Fraction(1, 3) + Fraction(1, 6) == Fraction(1, 2) and str(Fraction(6, -4)) == "-3/2"
assert Decimal("0.1") + Decimal("0.2") == Decimal("0.3") and Decimal(1) / Decimal(8) == Decimal("0.125")

# a number class of the program
class Mod7:
    def __init__(self, n):
        self.n = n % 7

    def __add__(self, other):
        return Mod7(self.n + (other.n if isinstance(other, Mod7) else other))

    __radd__ = __add__

    def __int__(self):
        return self.n

    def __index__(self):
        return self.n

    def __float__(self):
        return self.n + 0.5


m = Mod7(5) + Mod7(4)
assert int(m) == 2 and float(m) == 2.5 and [0, 1, "two"][m] == "two" and hex(m) == "0x2"
assert int(sum([Mod7(3), Mod7(6)])) == 2

answer = "ok"
