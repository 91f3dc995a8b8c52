# property in all its forms, and __slots__.

log = []


class Thermometer:
    def __init__(self, celsius):
        self._celsius = celsius

    @property
    def celsius(self):
        """Degrees."""
        log.append("get")
        return self._celsius

    @celsius.setter
    def celsius(self, value):
        log.append("set")
        if value < -273.15:
            raise ValueError("too cold")
        self._celsius = value

    @celsius.deleter
    def celsius(self):
        log.append("del")
        self._celsius = None

    @property
    def fahrenheit(self):
        return self._celsius * 9 / 5 + 32


t = Thermometer(100)
assert t.celsius == 100 and t.fahrenheit == 212
t.celsius = 10
t.celsius += 5
assert t.celsius == 15
del t.celsius
assert t._celsius is None
assert log == ["get", "set", "get", "set", "get", "del"]
assert Thermometer.celsius.__doc__ == "Degrees."
assert isinstance(Thermometer.celsius, property)
try:
    t.fahrenheit = 3
except AttributeError:
    log.append("read only")
assert log[-1] == "read only"
try:
    t.celsius = -300
except ValueError:
    log.append("refused")
assert log[-2:] == ["set", "refused"] and t._celsius is None


# overriding only one half
class Loud(Thermometer):
    @Thermometer.celsius.getter
    def celsius(self):
        return ("loud", self._celsius)


loud = Loud(1)
loud.celsius = 2
assert loud.celsius == ("loud", 2)


class Calls(Thermometer):
    @property
    def celsius(self):
        return super().celsius + 1


assert Calls(1).celsius == 2


# property() as a function, and an AttributeError inside a getter
class Manual:
    def _get(self):
        return self.missing_inside

    value = property(_get, doc="manual")

    def __getattr__(self, name):
        return "fallback " + name


assert Manual().value == "fallback missing_inside"
assert Manual.value.__doc__ == "manual" and Manual.value.fset is None


class Slotted:
    __slots__ = ("x", "y")

    def __init__(self, x):
        self.x = x


s = Slotted(1)
assert s.x == 1 and not hasattr(s, "y") and not hasattr(s, "__dict__")
s.y = 2
assert (s.x, s.y) == (1, 2)
del s.x
try:
    s.x
except AttributeError:
    log.append("slot empty")
try:
    s.z = 3
except AttributeError:
    log.append("no such slot")
assert log[-2:] == ["slot empty", "no such slot"]


class Open(Slotted):
    kind = "has a dict again"


o = Open(1)
o.z = 3
assert vars(o) == {"z": 3} and o.x == 1


class More(Slotted):
    __slots__ = ["w"]


m = More(5)
m.w = 6
assert (m.x, m.w) == (5, 6) and not hasattr(m, "__dict__")
assert Slotted.x.__get__(m) == 5

try:
    class Clash:
        __slots__ = ("a",)
        a = 1
except ValueError as error:
    assert "conflicts" in str(error)
else:
    raise AssertionError


class Documented:
    __slots__ = {"a": "the first"}


assert Documented.__slots__["a"] == "the first" and not hasattr(Documented(), "a")

answer = "ok"
