# Layout: several statements a line, one statement over many lines, tabs, comments, continuation.

import sys; log = []; note = log.append

note(1); note(2); note(3)
assert log == [1, 2, 3]; log.clear()
a = 1; b = a + 1; a = b * 10; assert (a, b) == (20, 2)
x = 5;
assert x == 5;

if x: note("if"); note("still if")
if not x: note("no"); note("not at all")
else: note("else"); note("else too")
assert log == ["if", "still if", "else", "else too"]; log.clear()

for k in range(2): note(k); note(-k)
else: note("end"); note("really")
assert log == [0, 0, 1, -1, "end", "really"]; log.clear()

while x > 3: x -= 1; note(x)
assert log == [4, 3]; log.clear()

try: note("try"); 1 / 0; note("never")
except ZeroDivisionError: note("except"); note("two")
finally: note("finally"); note("three")
assert log == ["try", "except", "two", "finally", "three"]; log.clear()


def one_line(n): m = n * 2; note(m); return m


class OneLine: x = 1; y = x + 1; z = [x, y]


assert one_line(4) == 8 and OneLine.z == [1, 2]; log.clear()
def f(): return 1; note("unreachable")
assert f() == 1 and log == []

# brackets
total = (1 +
         2 +    # a comment inside

         3)
table = {
    "a": [
        1,
        2,
    ],
    "b": (lambda v:
          v + 1),
}
assert total == 6 and table["a"] == [1, 2] and table["b"](1) == 2
call = sorted(
    [3, 1,
     2],
    key=lambda v:
        -v,
)[
    0
]
assert call == 3

# backslash
value = 1 + \
    2 + \
    3
assert value == 6 and \
    value != 7, \
    "message"
if value == 6 and \
        total == 6:
    note("continued")
assert log == ["continued"]; log.clear()
from os import \
    sep as separator
assert isinstance(separator, str)
with \
        memoryview(b"ab") as view:
    assert view[0] == 97

# strings over lines do not confuse the line numbers after them
text = """
line; with = "code" # inside
	tab
"""; after = sys._getframe().f_lineno
assert after == 85 and text.count("\n") == 3 and "\ttab" in text

# tabs as indentation in one block
if True:
	note("tab")
	for k in range(2):
		note(k)
		if k:
			note("deep"); note("tab")
	note("back")
assert log == ["tab", 0, 1, "deep", "tab", "back"]; log.clear()

# odd but legal indentation
if True:
      note("six")
      if True:
       note("seven")
# a comment at the margin inside nothing
      note("six again")
assert log == ["six", "seven", "six again"]; log.clear()

# blank lines, a form feed, and a lone semicolon-terminated pass

def spaced(

    a,

    b = 2 ,
    * ,
    c = ( 3 )

) -> (
    int
) :

    # only comments before the first statement

    result = a \
        + b

    return (
        result
        * c
    )


assert spaced ( 1 ) == 9 and spaced . __name__ == "spaced"
if log: pass;
assert sys._getframe().f_lineno == 134; log.append(sys._getframe().f_lineno); assert log == [134]

# nested one-liners with conditionals and lambdas
pick = lambda n: "many" if n > 1 else "one" if n == 1 else "none"; got = [pick(n) for n in (0, 1, 2)]; assert got == ["none", "one", "many"]
[note(k) for k in "ab"]; assert log[-2:] == ["a", "b"]
if x: y = 1; z = 2
assert (y, z) == (1, 2)

answer = "ok"
