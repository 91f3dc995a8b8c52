# Metaclasses: __new__, __init__, __call__, __prepare__, conflicts.

log = []


class Meta(type):
    @classmethod
    def __prepare__(mcls, name, bases, **kwargs):
        log.append(("prepare", name, kwargs))
        return {"injected": "by prepare"}

    def __new__(mcls, name, bases, namespace, **kwargs):
        log.append(("new", name))
        namespace["tag"] = kwargs.get("tag", "none")
        return super().__new__(mcls, name, bases, namespace)

    def __init__(cls, name, bases, namespace, **kwargs):
        log.append(("init", name))
        super().__init__(name, bases, namespace)

    def __call__(cls, *args, **kwargs):
        log.append(("call", cls.__name__, args))
        return super().__call__(*args, **kwargs)


class First(metaclass=Meta, tag="T"):
    log.append("body")
    seen = injected

    def __init__(self, value):
        self.value = value


assert log == [("prepare", "First", {"tag": "T"}), "body", ("new", "First"), ("init", "First")]
assert First.seen == First.injected == "by prepare" and First.tag == "T"
assert type(First) is Meta
log.clear()
instance = First(9)
assert instance.value == 9 and log == [("call", "First", (9,))]


class Second(First):
    extra = 1


assert type(Second) is Meta and Second.tag == "none"
assert [entry[:2] for entry in log[1:]] == [("prepare", "Second"), ("new", "Second"), ("init", "Second")]


# singleton through the metaclass
class Singleton(type):
    instances = {}

    def __call__(cls, *args):
        if cls not in Singleton.instances:
            Singleton.instances[cls] = super().__call__(*args)
        return Singleton.instances[cls]


class Config(metaclass=Singleton):
    built = 0

    def __init__(self, name):
        type(self).built += 1
        self.name = name


assert Config("a") is Config("b") and Config.built == 1 and Config("c").name == "a"


# methods, properties and operators on the class itself
class Sized(type):
    def __len__(cls):
        return len(cls.items)

    def __getitem__(cls, index):
        return cls.items[index]

    def __iter__(cls):
        return iter(cls.items)

    def __contains__(cls, item):
        return item == "anything" or item in cls.items

    def __getattr__(cls, name):
        return "made up " + name

    @property
    def title(cls):
        return cls.__name__.title()


class things(metaclass=Sized):
    items = ("x", "y")


assert len(things) == 2 and things[1] == "y" and list(things) == ["x", "y"]
assert "anything" in things and "z" not in things
assert things.title == "Things" and things.whatever == "made up whatever"
try:
    things().whatever
except AttributeError:
    log.append("instances do not use the metaclass")
assert log[-1] == "instances do not use the metaclass"


# the order in which names are assigned, with repeats, seen by a custom namespace
class Recorder(dict):
    def __init__(self):
        super().__init__()
        self.writes = []

    def __setitem__(self, key, value):
        if not key.startswith("__"):
            self.writes.append(key)
        super().__setitem__(key, value)


class Recording(type):
    @classmethod
    def __prepare__(mcls, name, bases):
        return Recorder()

    def __new__(mcls, name, bases, namespace):
        cls = super().__new__(mcls, name, bases, dict(namespace))
        cls.writes = namespace.writes
        return cls


class Repeats(metaclass=Recording):
    a = 1
    b = 2
    a = 3
    c = d = 4
    for e in (5, 6):
        f = e

    def g(self):
        return __class__

    b += 1


assert Repeats.writes == ["a", "b", "a", "c", "d", "e", "f", "e", "f", "g", "b"]
assert Repeats().g() is Repeats

# conflicts, type() with three arguments, callables as metaclass
try:
    class Conflict(things, First):
        x = 1
except TypeError as error:
    assert "metaclass conflict" in str(error)
else:
    raise AssertionError

made = type("Made", (Config.__base__,), {"x": 1, "get": lambda self: self.x})
assert made().get() == 1 and made.__name__ == "Made"


def not_a_class(name, bases, namespace):
    return (name, bases, sorted(key for key in namespace if not key.startswith("__")))


class Tuple(int, metaclass=not_a_class):
    one = 1
    two = 2


assert Tuple == ("Tuple", (int,), ["one", "two"])

answer = "ok"
