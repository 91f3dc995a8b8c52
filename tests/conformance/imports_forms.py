# Every form of import, standard library only.

import math
import collections.abc
import xml.dom.minidom as minidom
import json.decoder as jd, string
from os import path as p
from itertools import chain, count as counting
from collections import (
    OrderedDict,
    deque as DQ,
)
import sys, types

assert math.sqrt(16) == 4.0 and minidom.parseString("<a/>").documentElement.tagName == "a"
assert jd.JSONDecoder().decode("[1]") == [1] and string.digits == "0123456789"
assert collections.abc.Mapping is not None and collections.__name__ == "collections"
assert "xml" not in globals() and "json" not in globals() and "os" not in globals() and "abc" not in globals()
assert p.basename("a/b") == "b" and list(chain("a", "b")) == ["a", "b"] and next(counting(3)) == 3
assert OrderedDict(a=1)["a"] == 1 and DQ([1, 2]).pop() == 2


# in functions, conditions, classes, loops
def local_import():
    import heapq
    from functools import reduce as fold
    return fold(lambda a, b: a + b, heapq.nsmallest(2, [3, 1, 2])), sorted(locals())


assert local_import() == (3, ["fold", "heapq"])
assert "heapq" not in globals() and "fold" not in globals()


class Holder:
    import operator
    from operator import add as plus
    three = plus(1, 2)


assert Holder.operator.mul(2, 3) == 6 and Holder.three == 3 and "operator" not in globals()

if math:
    import textwrap
else:
    import never_imported_either
assert textwrap.dedent("  x") == "x"

# modules which do not exist
trail = []
try:
    import a_module_that_does_not_exist
except ImportError as error:
    trail.append(type(error).__name__)
    assert error.name == "a_module_that_does_not_exist"
    a_module_that_does_not_exist = None
assert trail == ["ModuleNotFoundError"] and a_module_that_does_not_exist is None

try:
    import fast_json_of_a_future_version as js
except ImportError:
    import json as js
assert js.dumps({"a": [1, None]}) == '{"a": [1, null]}'

try:
    from math import no_such_function_here
except ImportError as error:
    trail.append(error.name)
assert trail[-1] == "math" and "no_such_function_here" not in globals()

try:
    import math.nothing
except ModuleNotFoundError as error:
    trail.append("math is not a package")
assert trail[-1] == "math is not a package"

try:
    from collections import deque as first, no_such_thing as second
except ImportError:
    trail.append("partly")
assert "second" not in globals()

# the same module object each time; __import__ and importlib
import importlib
import math as math_again
assert math_again is math is sys.modules["math"] is importlib.import_module("math") is __import__("math")
assert __import__("xml.dom").__name__ == "xml" and importlib.import_module("xml.dom").__name__ == "xml.dom"

# a made module, star import with and without __all__
made = types.ModuleType("made_for_test")
exec("public = 1\n_private = 2\ndef get():\n    return public", made.__dict__)
sys.modules["made_for_test"] = made
from made_for_test import *
assert public == 1 and get() == 1 and "_private" not in globals()
from made_for_test import _private
assert _private == 2
made.public = 10
assert get() == 10 and public == 1, "from-import copies the binding"
made.__all__ = ["_private", "extra"]
made.extra = "e"
_private = None
from made_for_test import *
assert _private == 2 and extra == "e"
made.__getattr__ = lambda name: "lazy " + name
from made_for_test import anything_at_all
assert anything_at_all == "lazy anything_at_all"
del sys.modules["made_for_test"]
try:
    import made_for_test
except ImportError:
    trail.append("removed")
assert trail[-1] == "removed"

sys.modules["blocked_for_test"] = None
try:
    import blocked_for_test
except ImportError:
    trail.append("blocked")
del sys.modules["blocked_for_test"]
assert trail[-1] == "blocked"


# a global declared import, and an import hook which counts
def global_import():
    global statistics_module
    import statistics as statistics_module


global_import()
assert statistics_module.mean([1, 2, 3]) == 2


class Finder:
    asked = []

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        cls.asked.append(name)
        return None


sys.meta_path.insert(0, Finder)
try:
    import another_missing_module_name
except ImportError:
    trail.append("asked")
finally:
    sys.meta_path.remove(Finder)
assert Finder.asked == ["another_missing_module_name"], "an import statement runs once"

answer = "ok"
