# The program is the module __main__, and its classes pickle by reference.

import copyreg
import pickle
import sys

assert __name__ == "__main__"
ran = []
if __name__ == "__main__":
    ran.append("main block")
assert ran == ["main block"]

main = sys.modules["__main__"]
assert main.__dict__ is globals()
assert main.ran is ran
main.set_through_module = "visible"
assert set_through_module == "visible"
globals()["set_through_globals"] = 5
assert main.set_through_globals == set_through_globals == 5
import __main__
assert __main__ is main
from __main__ import ran as the_same_list
assert the_same_list is ran


class Record:
    kind = "record"

    def __init__(self, name, parts=()):
        self.name = name
        self.parts = list(parts)

    def __eq__(self, other):
        return type(other) is Record and vars(self) == vars(other)

    class Nested:
        def __init__(self, n):
            self.n = n


def shout(text):
    return text.upper()


assert Record.__module__ == "__main__" and shout.__module__ == "__main__"
assert main.Record is Record and main.shout is shout

for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
    original = Record("r", [1, "two", (3.0, None)])
    again = pickle.loads(pickle.dumps(original, protocol))
    assert again == original and again is not original
    assert type(again) is Record
    assert pickle.loads(pickle.dumps(Record, protocol)) is Record
    assert pickle.loads(pickle.dumps(shout, protocol)) is shout
assert pickle.loads(pickle.dumps(Record.Nested(4))).n == 4

# shared references and cycles survive
r = Record("cycle")
r.parts.append(r)
r.parts.append(r.parts)
loop = pickle.loads(pickle.dumps(r))
assert loop.parts[0] is loop and loop.parts[1] is loop.parts

data = pickle.dumps([r, r])
first, second = pickle.loads(data)
assert first is second


class WithState:
    def __init__(self, value):
        self.value = value
        self.cache = lambda: value

    def __getstate__(self):
        return {"value": self.value}

    def __setstate__(self, state):
        self.value = state["value"]
        self.cache = None


w = pickle.loads(pickle.dumps(WithState(7)))
assert w.value == 7 and w.cache is None


class Reduced:
    def __init__(self, a, b):
        self.pair = (a, b)

    def __reduce__(self):
        return (Reduced, self.pair)


assert pickle.loads(pickle.dumps(Reduced(1, 2))).pair == (1, 2)


class Registered:
    def __init__(self, n):
        self.n = n


copyreg.pickle(Registered, lambda obj: (Registered, (obj.n + 1,)))
assert pickle.loads(pickle.dumps(Registered(1))).n == 2


# what cannot be found by name cannot be pickled
def local_class():
    class Hidden:
        x = 1
    return Hidden()


for bad in (local_class(), lambda: 1):
    try:
        pickle.dumps(bad)
    except (pickle.PicklingError, AttributeError):
        continue
    raise AssertionError(bad)

answer = "ok"
