# Augmented assignment: in place or rebinding, aliases, and targets evaluated once.

a = b = [1]
a += [2]
assert a is b and b == [1, 2]
a = a + [3]
assert a is not b and b == [1, 2]
b *= 2
assert b == [1, 2, 1, 2]

t = u = (1,)
t += (2,)
assert t == (1, 2) and u == (1,)
s = r = "x"
s += "y"
assert (s, r) == ("xy", "x")

d = e = {"a": 1}
d |= {"b": 2}
assert e == {"a": 1, "b": 2} and d is e
st = su = {1, 2, 3}
st &= {2, 3}
st -= {3}
st ^= {9}
assert su == {2, 9} and st is su

n = 7
n += 1; n -= 2; n *= 3; n //= 2; n %= 5; n **= 3; n <<= 2; n >>= 1; n |= 1; n &= 0xFF; n ^= 2
assert n == 131, n
n /= 2
assert n == 65.5

log = []


class Track:
    def __init__(self, name, in_place):
        self.name = name
        if in_place:
            self.__class__ = TrackInPlace

    def __add__(self, other):
        log.append(f"{self.name}+{other}")
        return Track(self.name + "'", False)

    def __radd__(self, other):
        log.append(f"{other}+{self.name} reflected")
        return "reflected"


class TrackInPlace(Track):
    def __iadd__(self, other):
        log.append(f"{self.name}+={other}")
        return self


p = q = Track("p", False)
p += 1
assert p is not q and p.name == "p'" and log == ["p+1"]
p = q = Track("q", True)
p += 2
assert p is q and log[-1] == "q+=2"
z = 5
z += q
assert z == "reflected" and log[-1] == "5+q reflected"


class Weird:
    def __iadd__(self, other):
        return "anything"

    def __imatmul__(self, other):
        return NotImplemented

    def __matmul__(self, other):
        return ("matmul", other)


w = Weird()
w += 1
assert w == "anything"
w = Weird()
w @= 4
assert w == ("matmul", 4)


# targets are evaluated once
def where():
    log.append("where")
    return holder


def key():
    log.append("key")
    return 0


holder = [10]
log.clear()
where()[key()] += 5
assert holder == [15] and log == ["where", "key"]


class Attr:
    value = 1


x, y = Attr(), Attr()
x.value += 1
assert (x.value, y.value, Attr.value) == (2, 1, 1), "read from the class, stored on the instance"
Attr.value += 10
assert (x.value, y.value) == (2, 11)

# the famous tuple: the list changes and an error is raised
tup = ([1],)
try:
    tup[0] += [2]
except TypeError:
    log.append("refused")
assert tup == ([1, 2],) and log[-1] == "refused"

# slices
nums = [1, 2, 3, 4]
nums[1:3] += [9]
assert nums == [1, 2, 3, 9, 4]
nums[::2] = [0, 0, 0]
assert nums == [0, 2, 0, 9, 0]


# function parameters and defaults
def extend(items, more=("x",)):
    items += more
    more += ("y",)
    return items, more


mine = []
assert extend(mine) == (["x"], ("x", "y")) and mine == ["x"] and extend.__defaults__ == (("x",),)


def unbound():
    try:
        free += 1
    except UnboundLocalError:
        return "unbound"


free = 1
assert unbound() == "unbound" and free == 1

# in loops, the value read is the latest; the right side first mutating the target
acc = ""
for ch in "abc":
    acc += ch
assert acc == "abc"
counter = 1


def changes():
    global counter
    counter = 100
    return 1


counter += changes()
assert counter == 2, "the old value is read before the right side runs"

matrix = [[0] * 2] * 2
matrix[0][0] += 1
assert matrix == [[1, 0], [1, 0]] and matrix[0] is matrix[1]
copies = [[0] * 2 for _ in range(2)]
copies[0][0] += 1
assert copies == [[1, 0], [0, 0]]

answer = "ok"
