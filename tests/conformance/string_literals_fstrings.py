# String and bytes literals, concatenation, escapes, f-strings, formatting.

assert 'a' "b" '''c''' """d""" == "abcd"
assert "tab\tnl\n\\ \x41 \u0042 \N{LATIN CAPITAL LETTER C} \101" == "tab" + chr(9) + "nl" + chr(10) + "\\ A B C A"
assert r"raw\n\t" == "raw\\n\\t" and len(r"\"") == 2
assert b"bytes\x00\xff" == bytes([98, 121, 116, 101, 115, 0, 255]) and rb"\x" == b"\\x"
assert u"unicode" == "unicode" and "naïve Ω 😀"[-1] == "\U0001f600" and len("😀") == 1
text = """first
  second \
joined
"""
assert text.split("\n") == ["first", "  second joined", ""]
long = ("one "
        "two "   # a comment between
        "three")
assert long == "one two three"
assert "it's" == 'it\'s' and """a"b""" == 'a"b' and '' "" == ""

# f-strings
name, width, value = "Ann", 10, 3.14159
assert f"{name}" == "Ann" and F"{name!r}" == "'Ann'" and f"{name!s:>5}" == "  Ann"
assert f"{value:.2f}|{value:{width}.3f}|{value:<{width}}|" == "3.14|     3.142|3.14159   |"
assert f"{{literal}} {1 + 1} {'nested'} {[1, 2][0]}" == "{literal} 2 nested 1"
assert f"{name=} {1+1=} {value=:.1f} {name = }" == "name='Ann' 1+1=2 value=3.1 name = 'Ann'"
assert rf"\d{name}" == "\\dAnn" and f"a" "b{name}" f"{name}" == "ab{name}Ann"
assert f"{(lambda v: v * 2)(4)}" == "8" and f"{ {'k': 1}['k'] }" == "1"
assert f"{'yes' if value > 3 else 'no'}" == "yes" and f"{name[0]}{name[1:]}" == "Ann"
assert f"""{
    name
}-{
    width
:>5}""" == "Ann-   10"
assert f"{'é'!a}" == "'\\xe9'"
assert f"{1_000_000:,} {255:#x} {255:08b} {0.25:.0%} {-5:+d} {'c':^5}|" == "1,000,000 0xff 11111111 25% -5   c  |"

# evaluated once each, left to right; conversion before formatting
log = []


class Fmt:
    def __init__(self, tag):
        self.tag = tag

    def __format__(self, spec):
        log.append(("format", self.tag, spec))
        return f"<{spec}>"

    def __repr__(self):
        log.append(("repr", self.tag))
        return "R"

    def __str__(self):
        log.append(("str", self.tag))
        return "S"


a, b = Fmt("a"), Fmt("b")
assert f"{a}{b:spec}{a!r}{b!s:>3}" == "<><spec>R  S"
assert log == [("format", "a", ""), ("format", "b", "spec"), ("repr", "a"), ("str", "b")]
log.clear()
assert "%s %r %%" % (a, b) == "S R %" and log == [("str", "a"), ("repr", "b")]
log.clear()
assert "{1}{0:x}{k.tag}{l[1]}".format(a, b, k=a, l=[0, 9]) == "<><x>a9"
assert [entry[1] for entry in log] == ["b", "a"]

# an f-string in a function sees its locals; in a class body the class names
def local():
    inner = 5
    return f"{inner * 2} {[inner for _ in range(2)]}"


class Body:
    word = "w"
    made = f"{word}!"


assert local() == "10 [5, 5]" and Body.made == "w!"

# methods
assert "a,b,,c".split(",") == ["a", "b", "", "c"] and " x y ".split() == ["x", "y"]
assert "-".join("abc") == "a-b-c" and "abc".replace("b", "") == "ac" and "Title Case".swapcase() == "tITLE cASE"
assert "prefix_x".removeprefix("prefix_") == "x" and "x".zfill(3) == "00x" and "ß".upper() == "SS"
assert "abcabc".find("c", 3) == 5 and "abc".partition("b") == ("a", "b", "c") and "a\nb\r\nc".splitlines() == ["a", "b", "c"]
assert "Straße".casefold() == "strasse" and "x" * 3 + "y" == "xxxy" and "b" in "abc"
assert "hello".translate({ord("l"): "L", ord("h"): None}) == "eLLo"
assert "é".encode() == b"\xc3\xa9" and b"\xc3\xa9".decode() == "é" and "é".encode("ascii", "replace") == b"?"
assert "%05.1f|%-5s|%x|%c" % (3.14159, "ab", 255, "z") == "003.1|ab   |ff|z" and "%(k)s" % {"k": 1} == "1"

# bytes and bytearray
assert b"abc"[0] == 97 and list(b"ab") == [97, 98] and b"%d" % 5 == b"5" and bytes(2) == b"\x00\x00"
assert bytes.fromhex("ff 00") == b"\xff\x00" and b"\xff".hex() == "ff" and bytearray(b"a") + b"b" == b"ab"

# strings are immutable, and compare by code point
try:
    name[0] = "B"
except TypeError:
    log.append("immutable")
assert log[-1] == "immutable" and "Z" < "a" < "é" and sorted("bA") == ["A", "b"]

answer = "ok"
