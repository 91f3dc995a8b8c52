# Which names a class body looks up, as seen by a namespace with __missing__/__getitem__.
# Strict: any extra name read or written in the class body, dunder or not, is reported.

ALLOWED_DUNDERS = {
    "__name__", "__module__", "__qualname__", "__doc__", "__firstlineno__",
    "__static_attributes__", "__classcell__", "__annotations__",
    "__classdictcell__", "__annotate_func__", "__conditional_annotations__",  # since 3.14
}


class Spy(dict):
    def __init__(self):
        super().__init__()
        self.reads = []
        self.writes = []

    def __getitem__(self, key):
        if key not in ALLOWED_DUNDERS:
            self.reads.append(key)
        return super().__getitem__(key)

    def __setitem__(self, key, value):
        if key not in ALLOWED_DUNDERS:
            self.writes.append(key)
        super().__setitem__(key, value)


class SpyMeta(type):
    @classmethod
    def __prepare__(mcls, name, bases):
        return Spy()

    def __new__(mcls, name, bases, namespace):
        cls = super().__new__(mcls, name, bases, dict(namespace))
        cls.reads, cls.writes = namespace.reads, namespace.writes
        return cls


outside = 10


class Simple(metaclass=SpyMeta):
    a = 1
    b = a + outside
    a = b


assert Simple.writes == ["a", "b", "a"], Simple.writes
assert Simple.reads == ["a", "outside", "b"], Simple.reads


class Calls(metaclass=SpyMeta):
    text = str(outside)
    size = len(text)
    if size:
        size += 1
    for k in range(size):
        last = k

    @staticmethod
    def helper():
        return outside


assert Calls.writes == ["text", "size", "size", "k", "last", "k", "last", "k", "last", "helper"]
assert Calls.reads == [
    "str", "outside", "len", "text", "size", "size", "range", "size", "k", "k", "k", "staticmethod",
]


# a namespace which invents missing names (an "auto enum")
class Inventing(dict):
    def __init__(self):
        super().__init__()
        self.next_value = 0

    def __missing__(self, key):
        if key.startswith("__"):
            raise KeyError(key)
        self[key] = self.next_value
        self.next_value += 1
        return self[key]


class AutoMeta(type):
    @classmethod
    def __prepare__(mcls, name, bases):
        return Inventing()

    def __new__(mcls, name, bases, namespace):
        return super().__new__(mcls, name, bases, dict(namespace))


class Fruit(metaclass=AutoMeta):
    apple
    pear
    apple
    plum


assert (Fruit.apple, Fruit.pear, Fruit.plum) == (0, 1, 2)
assert [key for key in vars(Fruit) if not key.startswith("__")] == ["apple", "pear", "plum"]

answer = "ok"
