# with: protocol, order, targets, exceptions, control flow.

log = []


class Manager:
    def __init__(self, name, swallow=()):
        log.append("make " + name)
        self.name = name
        self.swallow = tuple(swallow)

    def __enter__(self):
        log.append("enter " + self.name)
        return self.name.upper()

    def __exit__(self, kind, value, tb):
        log.append("exit " + self.name + (" " + kind.__name__ if kind else ""))
        assert (kind is None) == (value is None) == (tb is None)
        return kind is not None and issubclass(kind, self.swallow)


with Manager("a") as a:
    log.append(a)
assert log == ["make a", "enter a", "A", "exit a"] and a == "A"

log.clear()
with Manager("a") as a, Manager("b") as b:
    log.append(a + b)
assert log == ["make a", "enter a", "make b", "enter b", "AB", "exit b", "exit a"]

log.clear()
with (
    Manager("x"),
    Manager("y", [KeyError]) as y,
    Manager("z") as z,
):
    raise KeyError
assert log[-4:] == ["enter z", "exit z KeyError", "exit y KeyError", "exit x"]

log.clear()
try:
    with Manager("p", [KeyError]):
        log.append("body")
        raise ValueError("through")
        log.append("never")
except ValueError as error:
    log.append(str(error))
assert log == ["make p", "enter p", "body", "exit p ValueError", "through"]

# targets of every kind
box = {}
with Manager("k") as box["key"]:
    assert box == {"key": "K"}


class Pair:
    def __enter__(self):
        return (1, [2, 3])

    def __exit__(self, *args):
        return False


with Pair() as (one, [two, *three]):
    assert (one, two, three) == (1, 2, [3])


# control flow leaves through __exit__
def flow(action):
    log.clear()
    for k in range(2):
        with Manager(str(k)):
            if action == "return":
                return "returned"
            if action == "break":
                break
            if action == "continue":
                continue
            log.append("body")
    return "end"


assert flow("return") == "returned" and log == ["make 0", "enter 0", "exit 0"]
assert flow("break") == "end" and log == ["make 0", "enter 0", "exit 0"]
assert flow("continue") == "end" and log[-3:] == ["make 1", "enter 1", "exit 1"] and "body" not in log
assert flow("") == "end" and log.count("body") == 2


# an exception in __enter__ means no __exit__; in the target it means __exit__
class BadEnter(Manager):
    def __enter__(self):
        raise OSError("enter")


log.clear()
try:
    with Manager("outer"), BadEnter("inner"):
        log.append("never")
except OSError:
    log.append("caught")
assert log == ["make outer", "enter outer", "make inner", "exit outer OSError", "caught"]

log.clear()
try:
    with Manager("t") as (p, q):
        log.append("never")
except ValueError:
    log.append("unpack failed")
assert log == ["make t", "enter t", "exit t ValueError", "unpack failed"]


# an exception in __exit__ replaces the first one
class BadExit:
    def __enter__(self):
        return self

    def __exit__(self, *exc):
        raise RuntimeError("exit")


try:
    with BadExit():
        raise KeyError("body")
except RuntimeError as error:
    assert isinstance(error.__context__, KeyError)

# the special methods are looked up on the type
class Plain:
    x = 1


plain = Plain()
plain.__enter__ = lambda: 1
plain.__exit__ = lambda *a: False
try:
    with plain:
        log.append("never")
except TypeError:
    log.append("not a manager")
assert log[-1] == "not a manager"

# the manager object need not be what is bound; the exception is the same object
raised = ValueError("same")


class Keeps:
    def __enter__(self):
        return None

    def __exit__(self, kind, value, tb):
        self.value = value
        self.line = tb.tb_next is None
        return True


keeps = Keeps()
with keeps as nothing:
    raise raised
assert nothing is None and keeps.value is raised and keeps.line is True

answer = "ok"
