"""Which library functions and methods change their arguments, by name. Standard library only."""

from __future__ import annotations

# Methods that change their receiver.
MUTATING = frozenset([
    "append", "add", "extend", "insert", "update", "pop", "remove", "discard", "sort", "reverse", "setdefault",
    "clear", "popleft", "appendleft", "popitem", "extendleft", "rotate", "subtract", "difference_update",
    "intersection_update", "symmetric_difference_update", "move_to_end", "write", "writelines", "put",
    "put_nowait", "send", "__setitem__", "__delitem__", "__iadd__",
])  # fmt: skip
# Functions that change their first argument.
MUTATING_FIRST = frozenset([
    "heappush", "heappop", "heapify", "heappushpop", "heapreplace", "insort", "insort_left", "insort_right",
    "shuffle", "setattr", "delattr", "iadd", "ior",
])  # fmt: skip

_BUILTINS = frozenset([
    "abs", "all", "any", "ascii", "bin", "bool", "bytes", "chr", "complex", "dict", "divmod", "enumerate", "filter",
    "float", "format", "frozenset", "hash", "hex", "int", "isinstance", "issubclass", "len", "list", "map", "max",
    "min", "oct", "ord", "pow", "range", "repr", "reversed", "round", "set", "slice", "sorted", "str", "sum",
    "tuple", "zip",
])  # fmt: skip
HARMLESS = _BUILTINS | {"print", "type", "callable", "id"}  # functions that do not change their arguments
# Methods that change nothing.
METHODS = frozenset([
    "capitalize", "casefold", "center", "count", "decode", "encode", "endswith", "expandtabs", "find", "format",
    "format_map", "index", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower",
    "isnumeric", "isprintable", "isspace", "istitle", "isupper", "join", "ljust", "lower", "lstrip", "partition",
    "removeprefix", "removesuffix", "replace", "rfind", "rindex", "rjust", "rpartition", "rsplit", "rstrip",
    "split", "splitlines", "startswith", "strip", "swapcase", "title", "translate", "upper", "zfill", "copy", "get",
    "items", "keys", "values", "difference", "intersection", "isdisjoint", "issubset", "issuperset",
    "symmetric_difference", "union", "bit_length", "is_integer", "as_integer_ratio", "conjugate", "date", "time",
    "isoformat", "weekday", "isoweekday", "strftime", "total_seconds", "toordinal", "most_common", "group",
    "groups", "groupdict", "start", "end", "span",
])  # fmt: skip
PURE_MODULES = frozenset([
    "math", "cmath", "statistics", "string", "re", "json", "textwrap", "unicodedata", "operator", "datetime",
    "calendar", "decimal", "fractions", "itertools", "collections",
])  # fmt: skip
# Methods that change containers and nothing else.
CHANGES = frozenset([
    "append", "add", "extend", "insert", "update", "pop", "remove", "discard", "sort", "reverse", "setdefault",
    "clear", "popleft", "appendleft", "popitem",
])  # fmt: skip
