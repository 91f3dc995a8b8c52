# Slices, negative indices, slice assignment and deletion, Ellipsis, custom __getitem__.

s = list(range(10))
assert s[2:5] == [2, 3, 4] and s[:3] == [0, 1, 2] and s[7:] == [7, 8, 9]
assert s[-3:] == [7, 8, 9] and s[:-8] == [0, 1] and s[::-1][0] == 9 and s[::3] == [0, 3, 6, 9]
assert s[8:2] == [] and s[8:2:-2] == [8, 6, 4] and s[100:] == [] and s[-100:2] == [0, 1]
assert s[:] == s and s[:] is not s
assert "hello"[1:-1] == "ell" and (1, 2, 3)[::2] == (1, 3) and b"abc"[1:] == b"bc" and b"abc"[1] == 98
assert range(10)[2:8:3] == range(2, 8, 3)
try:
    s[::0]
except ValueError:
    zero_step = True
assert zero_step

# slice assignment
w = [0, 1, 2, 3, 4]
alias = w
w[1:3] = ["a", "b", "c"]
assert w == [0, "a", "b", "c", 3, 4] and alias is w
w[2:2] = "xy"
assert w == [0, "a", "x", "y", "b", "c", 3, 4]
w[1:6] = []
assert w == [0, 3, 4]
w[:] = range(6)
assert w == [0, 1, 2, 3, 4, 5]
w[::2] = "ABC"
assert w == ["A", 1, "B", 3, "C", 5]
try:
    w[::2] = [1]
except ValueError:
    w.append("refused")
assert w[-1] == "refused" and len(w) == 7
w[len(w):] = [8, 9]
assert w[-2:] == [8, 9]
w[1:3] = w
assert w[:3] == ["A", "A", 1]

# slice deletion
d = list(range(8))
del d[2:4]
assert d == [0, 1, 4, 5, 6, 7]
del d[::2]
assert d == [1, 5, 7]
del d[-1], d[0]
assert d == [5]
del d[:]
assert d == []


# what __getitem__ receives
class Show:
    def __getitem__(self, key):
        return key

    def __setitem__(self, key, value):
        self.last = ("set", key, value)

    def __delitem__(self, key):
        self.last = ("del", key)


o = Show()
assert o[1] == 1 and o[1, 2] == (1, 2) and o[1,] == (1,)
assert o[1:2] == slice(1, 2) and o[:] == slice(None, None, None) and o[::4] == slice(None, None, 4)
assert o[1:2, ::3, 5] == (slice(1, 2), slice(None, None, 3), 5)
assert o[...] is Ellipsis and o[..., 1:] == (..., slice(1, None))
assert o["a":"b"].start == "a" and o[()] == ()
o[1:2, ...] = "v"
assert o.last == ("set", (slice(1, 2), ...), "v")
del o[5:]
assert o.last == ("del", slice(5, None))
o[0]: int = 3
assert o.last == ("set", 0, 3)

# slice objects
sl = slice(1, 10, 2)
assert (sl.start, sl.stop, sl.step) == (1, 10, 2) and sl.indices(5) == (1, 5, 2)
assert s[sl] == [1, 3, 5, 7, 9] and slice(3) == slice(None, 3, None)
assert slice(None, None, -1).indices(3) == (2, -1, -1)
named = {"first": slice(0, 2), "rest": slice(2, None)}
assert [("abcdef")[named[k]] for k in ("first", "rest")] == ["ab", "cdef"]


class Index:
    def __init__(self, n):
        self.n = n
        self.asked = 0

    def __index__(self):
        self.asked += 1
        return self.n


i = Index(3)
assert s[i] == 3 and s[:i] == [0, 1, 2] and i.asked >= 2

# the three dots as a value
assert ... is Ellipsis and bool(...) and repr(...) == "Ellipsis" and type(...).__name__ == "ellipsis"


def sentinel(x=...):
    return "missing" if x is ... else x


assert sentinel() == "missing" and sentinel(None) is None

# bounds
for bad in (10, -11):
    try:
        s[bad]
    except IndexError:
        continue
    raise AssertionError(bad)
assert s[-1] == 9 and s[-10] == 0

# memoryview and bytearray share memory through slices
buf = bytearray(b"abcdef")
view = memoryview(buf)[1:4]
view[0] = ord("X")
assert buf == b"aXcdef" and bytes(view) == b"Xcd"
view.release()
buf[1:3] = b"12345"
assert buf == b"a12345def"
del buf[::2]
assert buf == b"135e"

answer = "ok"
