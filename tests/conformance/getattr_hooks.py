# __getattr__, __getattribute__, __setattr__, __delattr__, __dir__, hasattr, getattr and duck typing.

log = []


class Dynamic:
    real = "class value"

    def __init__(self):
        self.own = 1

    def __getattr__(self, name):
        log.append(name)
        if name.startswith("dyn_"):
            return name[4:]
        raise AttributeError(f"no {name}")


d = Dynamic()
assert d.own == 1 and d.real == "class value" and log == [], "only missing names reach __getattr__"
assert d.dyn_x == "x" and log == ["dyn_x"]
assert not hasattr(d, "other") and getattr(d, "other", 5) == 5 and hasattr(d, "dyn_q")
assert log == ["dyn_x", "other", "other", "dyn_q"]
try:
    d.absent
except AttributeError as error:
    assert str(error) == "no absent"
assert log[-1] == "absent"


class Method:
    def __getattr__(self, name):
        return lambda *args: (name, args)


m = Method()
assert m.anything(1, 2) == ("anything", (1, 2)) and m.x.__class__.__name__ == "function"


class Everything:
    def __init__(self):
        object.__setattr__(self, "store", {"a": 1})

    def __getattribute__(self, name):
        log.append("get " + name)
        if name == "secret":
            raise AttributeError(name)
        return super().__getattribute__(name)

    def __getattr__(self, name):
        log.append("fallback " + name)
        return "fallback"

    def __setattr__(self, name, value):
        log.append(f"set {name}")
        self.store[name] = value

    def __delattr__(self, name):
        log.append(f"del {name}")
        del self.store[name]

    def __dir__(self):
        return ["z", "a"]


log.clear()
e = Everything()
assert e.store == {"a": 1} and log == ["get store"]
log.clear()
assert e.secret == "fallback" and log == ["get secret", "fallback secret"]
log.clear()
e.x = 5
del e.a
assert log == ["set x", "get store", "del a", "get store"]
assert object.__getattribute__(e, "store") == {"x": 5} and dir(e) == ["a", "z"]
log.clear()
e.y = e.x = 7
assert log == ["set y", "get store", "set x", "get store"]
log.clear()
e.n += "!"
assert log == ["get n", "fallback n", "set n", "get store"]
assert object.__getattribute__(e, "store")["n"] == "fallback!"


# hasattr swallows only AttributeError
class Angry:
    @property
    def bad(self):
        raise ValueError("not an attribute error")

    @property
    def missing(self):
        raise AttributeError("inside")


assert not hasattr(Angry(), "missing") and getattr(Angry(), "missing", "d") == "d"
for probe in (lambda: hasattr(Angry(), "bad"), lambda: getattr(Angry(), "bad", None)):
    try:
        probe()
    except ValueError:
        continue
    raise AssertionError


# duck typing: a method which no object has, looked up inside try
class Duck:
    def speak(self):
        return "quack"


def speak(thing):
    try:
        return thing.speak()
    except AttributeError:
        return "silent"


assert [speak(t) for t in (Duck(), 5, None, "text")] == ["quack", "silent", "silent", "silent"]


def length(thing):
    try:
        return thing.no_object_has_this_method()
    except AttributeError as error:
        assert error.name == "no_object_has_this_method" and error.obj is thing
        return len(thing)


assert length([1, 2]) == 2

# setattr, delattr, getattr with computed names
class Bag:
    shared = "class"


bag = Bag()
for k in range(3):
    setattr(bag, f"item_{k}", k)
assert vars(bag) == {"item_0": 0, "item_1": 1, "item_2": 2}
assert [getattr(bag, n) for n in sorted(vars(bag))] == [0, 1, 2]
delattr(bag, "item_1")
assert not hasattr(bag, "item_1")
bag.shared = "own"
assert bag.shared == "own"
del bag.shared
assert bag.shared == "class"
try:
    del bag.shared
except AttributeError:
    log.append("cannot delete through the instance")
assert log[-1].startswith("cannot")
setattr(bag, "not an identifier", 1)
assert getattr(bag, "not an identifier") == 1


# a proxy forwards everything, special methods excepted
class Proxy:
    def __init__(self, target):
        self.__dict__["target"] = target

    def __getattr__(self, name):
        return getattr(self.target, name)

    def __setattr__(self, name, value):
        setattr(self.target, name, value)


proxy = Proxy(bag)
proxy.item_0 = "through"
assert bag.item_0 == "through" and proxy.item_2 == 2 and list(vars(proxy)) == ["target"]
assert Proxy([3, 1]).index(1) == 1
try:
    len(Proxy([1]))
except TypeError:
    log.append("len needs the type")
assert log[-1] == "len needs the type"

# replacing __class__ and adding methods later
class Other:
    def who(self):
        return "other"


bag.__class__ = Other
assert bag.who() == "other" and bag.item_2 == 2
Other.late = lambda self: self.item_2 + 1
assert bag.late() == 3

answer = "ok"
