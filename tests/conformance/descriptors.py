# Data and non-data descriptors.

log = []


class Data:
    def __init__(self, tag):
        self.tag = tag

    def __get__(self, instance, owner):
        log.append(("get", self.tag, instance is not None, owner.__name__))
        if instance is None:
            return self
        return instance.__dict__.get("_" + self.tag, "unset")

    def __set__(self, instance, value):
        log.append(("set", self.tag, value))
        instance.__dict__["_" + self.tag] = value

    def __delete__(self, instance):
        log.append(("delete", self.tag))
        del instance.__dict__["_" + self.tag]


class NonData:
    def __get__(self, instance, owner):
        log.append("nondata get")
        return "from descriptor"


class Host:
    data = Data("data")
    soft = NonData()


h = Host()
assert h.data == "unset"
h.data = 5
assert h.data == 5
h.data += 1
assert h.data == 6
del h.data
assert h.data == "unset"
assert isinstance(Host.data, Data)
assert log == [
    ("get", "data", True, "Host"),
    ("set", "data", 5),
    ("get", "data", True, "Host"),
    ("get", "data", True, "Host"), ("set", "data", 6),
    ("get", "data", True, "Host"),
    ("delete", "data"),
    ("get", "data", True, "Host"),
    ("get", "data", False, "Host"),
]

# an instance entry beats a non-data descriptor, loses to a data descriptor
log.clear()
assert h.soft == "from descriptor"
h.__dict__["soft"] = "own"
assert h.soft == "own"
assert log == ["nondata get"]
h.__dict__["data"] = "hidden"
assert h.data == "unset"


# functions are non-data descriptors
def free(self, n):
    return (self, n)


bound = free.__get__("me")
assert bound(3) == ("me", 3)
assert bound.__func__ is free and bound.__self__ == "me"
Host.attached = free
assert h.attached(1) == (h, 1)
h.attached = free
assert h.attached(1, 2) == (1, 2), "on the instance it is not bound"


# a lazy attribute which replaces itself
class lazy:
    def __init__(self, function):
        self.function = function
        self.name = function.__name__

    def __get__(self, instance, owner):
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.function(instance)
        return value


class Page:
    computed = 0

    @lazy
    def text(self):
        Page.computed += 1
        return "text"


page = Page()
assert [page.text, page.text, page.text] == ["text"] * 3
assert Page.computed == 1


# a validating descriptor with __set_name__
class Bounded:
    def __init__(self, low, high):
        self.low, self.high = low, high

    def __set_name__(self, owner, name):
        self.slot = "_" + name

    def __get__(self, instance, owner=None):
        return self if instance is None else getattr(instance, self.slot)

    def __set__(self, instance, value):
        if not self.low <= value <= self.high:
            raise ValueError(f"{self.slot[1:]}={value}")
        setattr(instance, self.slot, value)


class Dial:
    volume = Bounded(0, 10)
    balance = Bounded(-5, 5)

    def __init__(self, volume, balance):
        self.volume = volume
        self.balance = balance


d = Dial(3, -2)
assert (d.volume, d.balance) == (3, -2)
try:
    d.volume = 11
except ValueError as error:
    assert str(error) == "volume=11"
else:
    raise AssertionError
assert d.volume == 3
assert vars(d) == {"_volume": 3, "_balance": -2}


# read-only: a __set__ which raises
class Constant:
    def __get__(self, instance, owner):
        return 42

    def __set__(self, instance, value):
        raise AttributeError("constant")


class WithConstant:
    c = Constant()


w = WithConstant()
try:
    w.c = 1
except AttributeError as error:
    assert str(error) == "constant"
assert w.c == 42 and WithConstant.c == 42
WithConstant.c = "replaced"
assert w.c == "replaced"

answer = "ok"
