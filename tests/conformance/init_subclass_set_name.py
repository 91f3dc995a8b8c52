# __init_subclass__, __set_name__, __class_getitem__, __mro_entries__.

log = []


class Plugin:
    registry = {}

    def __init_subclass__(cls, /, key=None, **kwargs):
        super().__init_subclass__(**kwargs)
        log.append(("subclass", cls.__name__, key))
        if key is not None:
            Plugin.registry[key] = cls


class Alpha(Plugin, key="a"):
    level = 1


class Beta(Alpha, key="b"):
    level = 2


class Silent(Beta):
    level = 3


assert Plugin.registry == {"a": Alpha, "b": Beta}
assert log == [("subclass", "Alpha", "a"), ("subclass", "Beta", "b"), ("subclass", "Silent", None)]
try:
    class Unknown(Plugin, nonsense=1):
        level = 4
except TypeError:
    log.append("rejected")
assert log[-1] == "rejected" and "Unknown" not in globals()


class Named:
    def __init__(self, tag):
        self.tag = tag

    def __set_name__(self, owner, name):
        log.append(("set_name", self.tag, owner.__name__, name))
        self.owner, self.name = owner, name


log.clear()


class Parent:
    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        log.append("init_subclass " + cls.__name__)


class Fields(Parent):
    one = Named(1)
    two = Named(2)
    shared = same = Named(3)


assert log == [
    ("set_name", 1, "Fields", "one"),
    ("set_name", 2, "Fields", "two"),
    ("set_name", 3, "Fields", "shared"),
    ("set_name", 3, "Fields", "same"),
    "init_subclass Fields",
]
assert Fields.one.owner is Fields and Fields.shared.name == "same"

# assigned after the class is made: no __set_name__
log.clear()
Fields.later = Named(4)
assert log == [] and not hasattr(Fields.later, "name")


class Indexed:
    def __class_getitem__(cls, item):
        return (cls.__name__, item)


class IndexedChild(Indexed):
    marker = True


assert Indexed[int] == ("Indexed", int)
assert IndexedChild[1, 2] == ("IndexedChild", (1, 2))
assert Indexed[1:2] == ("Indexed", slice(1, 2))


class Stand:
    def __init__(self, *classes):
        self.classes = classes

    def __mro_entries__(self, bases):
        log.append(len(bases))
        return self.classes


stand = Stand(Alpha, Indexed)


class Through(stand):
    level = 9


assert Through.__bases__ == (Alpha, Indexed)
assert Through.__orig_bases__ == (stand,)
assert log == [1, ("subclass", "Through", None)]


# the class exists, with __class__ filled in, when __init_subclass__ runs
class Early:
    def __init_subclass__(cls):
        cls.result = cls.describe()


class Child(Early):
    word = "child"

    @classmethod
    def describe(cls):
        return __class__ is cls, cls.word


assert Child.result == (True, "child")


# keyword arguments also reach the metaclass
class Meta(type):
    def __new__(mcls, name, bases, namespace, *, upper=False, **rest):
        cls = super().__new__(mcls, name, bases, namespace, **rest)
        cls.label = name.upper() if upper else name
        return cls

    def __init__(cls, name, bases, namespace, **rest):
        super().__init__(name, bases, namespace)


class Top(metaclass=Meta):
    def __init_subclass__(cls, flag=None):
        cls.flag = flag


class Mixed(Top, upper=True, flag="f"):
    body = 1


assert (Mixed.label, Mixed.flag, Top.label) == ("MIXED", "f", "Top")

answer = "ok"
