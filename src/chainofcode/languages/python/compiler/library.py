"""Tables of what the standard library's functions, methods and modules do, for every analysis of programs.

The sets contain plain names, because an analysis does not know the type of an object. Standard library only.
"""

from __future__ import annotations

import builtins

# --- functions ----------------------------------------------------------------------------------------------------

ALWAYS_DEFINED = frozenset(dir(builtins)) | {"exit", "quit", "__file__", "__builtins__", "__annotations__"}
# Functions that do not change their arguments.
PURE_FUNCTIONS = frozenset([
    "abs", "all", "any", "ascii", "bin", "bool", "bytes", "callable", "chr", "complex", "dict", "divmod", "enumerate",
    "filter", "float", "format", "frozenset", "hash", "hex", "id", "int", "isinstance", "issubclass", "len", "list",
    "map", "max", "min", "oct", "ord", "pow", "print", "range", "repr", "reversed", "round", "set", "slice", "sorted",
    "str", "sum", "tuple", "type", "zip",
])  # fmt: skip
# Functions that change their first argument.
FIRST_ARGUMENT_MUTATORS = frozenset([
    "heappush", "heappop", "heapify", "heappushpop", "heapreplace", "insort", "insort_left", "insort_right",
    "shuffle", "setattr", "delattr", "iadd", "ior",
])  # fmt: skip
# Built-in functions that change their arguments, or anything.
MUTATING_BUILTINS = frozenset(["next", "setattr", "delattr", "exec", "eval"])
# Functions that return a new object, with no other reference to it.
CONSTRUCTORS = frozenset([
    "Counter", "OrderedDict", "bool", "bytearray", "defaultdict", "deque", "dict", "float", "frozenset", "int", "iter",
    "len", "list", "range", "set", "sorted", "str", "sum", "tuple",
])  # fmt: skip
# Functions that keep the function they are given and call it later.
LAZY_FUNCTIONS = frozenset([
    "classmethod", "enumerate", "filter", "iter", "map", "partial", "property", "reversed", "zip",
])  # fmt: skip
# Functions that call their first argument, and names of parameters that take a function.
FUNCTION_FIRST = frozenset([
    "map", "filter", "reduce", "partial", "takewhile", "dropwhile", "filterfalse", "starmap", "submit", "apply",
    "applymap", "apply_async", "to_thread", "defaultdict", "imap", "imap_unordered", "cmp_to_key", "iter", "call_soon",
    "staticmethod", "classmethod",
])  # fmt: skip
FUNCTION_KEYWORDS = frozenset([
    "key", "func", "function", "fn", "f", "predicate", "callback", "target", "default_factory",
])  # fmt: skip
# Functions whose result may be called.
FUNCTION_MAKERS = frozenset([
    "partial", "partialmethod", "getattr", "lru_cache", "cache", "type", "namedtuple", "itemgetter", "eval",
])  # fmt: skip
# Functions that accept awaitables: under any name, and only as attributes of `asyncio`.
GATHERERS = frozenset([
    "gather", "create_task", "ensure_future", "wait_for", "as_completed", "run_until_complete",
    "run_coroutine_threadsafe",
])  # fmt: skip
ASYNCIO_GATHERERS = GATHERERS | {"run", "wait", "shield", "timeout"}
# Functions and methods that only convert a value, store it, or take it out again.
RETYPERS = frozenset([
    "str", "int", "float", "bool", "repr", "print", "format", "tuple", "list", "set", "frozenset", "dict", "bytes",
    "strip", "lstrip", "rstrip", "lower", "upper", "title", "capitalize", "casefold", "swapcase",
    "removeprefix", "removesuffix", "replace", "join", "split", "rsplit", "splitlines", "partition", "rpartition",
    "ljust", "rjust", "center", "zfill", "encode", "decode", "b64decode", "b64encode", "fromhex", "unhexlify",
    "loads", "dumps", "literal_eval", "format_map", "substitute", "safe_substitute", "copy", "deepcopy", "chr", "ord",
    "range", "enumerate", "zip", "map", "iter", "next", "items", "keys", "values", "get", "pop", "popitem",
    "getattr", "setattr", "partial", "itemgetter", "attrgetter",
    "isinstance", "callable", "hasattr", "type", "namedtuple", "round", "abs", "clear",
    "run", "gather", "wait_for", "translate", "maketrans",
])  # fmt: skip
# Methods that put a value into a container, and functions that pick or combine values: with one value, no work.
BUILDERS = frozenset(["append", "add", "update", "extend", "setdefault"])
PICKERS = frozenset(["max", "min", "sorted", "sum", "reversed", "shuffle"])
# Those that split a string or drop duplicates, which counts as work even on a literal.
SORTERS = frozenset(["split", "rsplit", "splitlines", "partition", "rpartition", "set", "frozenset"])
# Functions that only re-encode a literal: they reverse, slice, decode or count it.
REENCODERS = (RETYPERS | BUILDERS | frozenset([
    "reversed", "reverse", "filter", "insert", "rotate", "bytearray", "hex", "bin", "oct",
    "to_bytes", "from_bytes", "hexlify", "pack", "unpack", "len", "count", "index", "rindex", "find", "rfind",
    "search", "match", "fullmatch", "group", "groups", "compile", "startswith", "endswith", "any", "all", "hash",
    "send", "close", "deque", "popleft", "appendleft", "chain", "isalpha",
])) - SORTERS  # fmt: skip
COUNTERS = frozenset(["len", "count", "index", "find", "range", "enumerate"])
ADDERS = frozenset(["sum", "max", "min"])
SPELLERS = frozenset(["chr", "bytes", "bytearray", "range"])  # arithmetic in their arguments is on codes or indices
# Functions that extract parts of a string or count them; not `split` and `set`, which keep all of it.
CUTTERS = frozenset([
    "findall", "finditer", "group", "groups", "count", "sum", "Counter", "sorted", "rsplit", "splitlines", "partition",
    "rpartition",
])  # fmt: skip
# Functions that end the process.
EXITS = frozenset(["exit", "quit", "_exit", "abort"])

# --- functions that look at the program itself --------------------------------------------------------------------

TEXT_RUNNERS = frozenset(["eval", "exec", "compile"])
# Functions that read or change names given as strings.
SCOPE_FUNCTIONS = frozenset(["dir", "eval", "exec", "globals", "locals", "vars"])
# Names with which a program may reach any function by its name as a string.
NAME_LOOKUPS = SCOPE_FUNCTIONS - {"dir"} | {"getattr", "methodcaller", "attrgetter", "__dict__"}
# Functions that read the frame they are called from.
FRAME_READERS = SCOPE_FUNCTIONS | {"super", "_getframe", "currentframe", "stack"}
# Names with which a function may hold on to the dict of its local variables.
LOCALS_READERS = frozenset(["locals", "vars", "eval", "exec", "f_locals", "_getframe"])
# Functions and attributes that expose the program itself, other threads, or the environment.
OPAQUE_NAMES = frozenset([
    "__import__", "__main__", "__subclasses__", "breakpoint", "compile", "help", "input", "memoryview", "open",
    "cell_contents", "currentframe", "exc_info", "gi_frame", "cr_frame", "ag_frame", "gi_yieldfrom", "cr_await",
    "tb_frame", "tb_next", "f_back", "f_builtins", "f_code", "f_globals", "f_locals", "f_lasti", "f_lineno",
    "_getframe", "modules", "mro", "import_module", "get_type_hints", "with_traceback", "ModuleType", "FunctionType",
    "CellType", "gc", "getrefcount", "weakref", "ref", "finalize", "atexit", "settrace", "setprofile", "monitoring",
    "signal", "setrecursionlimit", "redirect_stdout", "redirect_stderr", "stdout", "stderr", "stdin",
    "getcontext", "setcontext", "localcontext", "setfirstweekday", "setlocale", "field_size_limit",
    "register_dialect", "unregister_dialect", "purge",
])  # fmt: skip
# Those of them that are usually plain data in a string.
COMMON_WORDS = frozenset(["help", "input", "open", "modules", "signal", "ref", "gc", "mro", "purge", "compile"])
PLAIN_SYS_NAMES = frozenset([
    "argv", "byteorder", "exit", "float_info", "getsizeof", "hash_info", "int_info", "intern", "maxsize",
    "maxunicode", "platform", "version", "version_info",
])  # fmt: skip

# --- methods and decorators ---------------------------------------------------------------------------------------

# Methods that change nothing.
PURE_METHODS = frozenset([
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
# Methods that change a container and nothing else.
CONTAINER_MUTATORS = frozenset([
    "append", "add", "extend", "insert", "update", "pop", "remove", "discard", "sort", "reverse", "setdefault",
    "clear", "popleft", "appendleft", "popitem",
])  # fmt: skip
# Methods that change their receiver.
MUTATORS = CONTAINER_MUTATORS | frozenset([
    "extendleft", "rotate", "subtract", "difference_update", "intersection_update", "symmetric_difference_update",
    "move_to_end", "write", "writelines", "put", "put_nowait", "send", "__setitem__", "__delitem__", "__iadd__",
])  # fmt: skip
# Methods that read the clock, of the classes of `datetime`.
CLOCK_METHODS = frozenset(["now", "today", "utcnow"])
# Methods that Python calls when it makes an object or a class.
MAKERS = frozenset(["__init__", "__post_init__", "__new__", "__init_subclass__", "__set_name__"])
# Methods that Python calls implicitly, in ways that an analysis does not follow.
HOOKS = frozenset([
    "__class_getitem__", "__copy__", "__deepcopy__", "__del__", "__delattr__", "__delete__", "__dir__", "__get__",
    "__getattr__", "__getattribute__", "__getnewargs__", "__getstate__", "__init_subclass__", "__instancecheck__",
    "__mro_entries__", "__prepare__", "__reduce__", "__reduce_ex__", "__set__", "__set_name__", "__setattr__",
    "__setstate__", "__subclasscheck__", "__subclasshook__",
])  # fmt: skip
# Methods of protocols in which an error can be a normal result.
PROTOCOL_METHODS = frozenset([
    "__getitem__", "__getattr__", "__getattribute__", "__missing__", "__contains__", "__iter__", "__next__",
    "__anext__", "__eq__", "__hash__", "__len__", "__bool__", "__repr__", "__str__", "__del__", "__get__",
])  # fmt: skip
# Special names that may be read; others expose code, or how a class was built.
PLAIN_SPECIAL_NAMES = frozenset(["__class__", "__debug__", "__dict__", "__name__", "__version__"])
PROPERTY_DECORATORS = frozenset(["property", "cached_property", "setter", "getter", "deleter"])
# Decorators of functions that are empty on purpose.
EMPTY_FUNCTION_DECORATORS = frozenset([
    "abstractmethod", "abstractproperty", "overload", "singledispatch", "singledispatchmethod", "setter",
    "deleter", "getter", "fixture",
])  # fmt: skip
# Context managers that let every error through.
PLAIN_MANAGERS = frozenset([
    "open", "redirect_stdout", "localcontext", "Lock", "Pool", "ThreadPoolExecutor", "nullcontext",
])  # fmt: skip

# --- modules ------------------------------------------------------------------------------------------------------

# Modules whose functions depend on their arguments only, and change nothing else.
FOLLOWED_MODULES = frozenset([
    "__future__", "abc", "array", "base64", "binascii", "bisect", "calendar", "cmath", "collections", "colorsys",
    "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "enum", "fnmatch", "fractions",
    "functools", "graphlib", "hashlib", "heapq", "hmac", "html", "io", "itertools", "json", "keyword", "math",
    "numbers", "operator", "pprint", "re", "reprlib", "shlex", "statistics", "string", "struct", "sys", "textwrap",
    "types", "typing", "unicodedata", "zlib", "zoneinfo",
])  # fmt: skip
# Modules that keep no references to objects of the program.
STATELESS_MODULES = frozenset([
    "abc", "base64", "bisect", "builtins", "calendar", "cmath", "collections", "copy", "dataclasses", "datetime",
    "decimal", "difflib", "enum", "fractions", "functools", "hashlib", "heapq", "html", "itertools", "json",
    "keyword", "math", "numbers", "operator", "pprint", "re", "statistics", "string", "struct", "textwrap", "time",
    "types", "typing", "unicodedata", "zlib",
])  # fmt: skip
# Modules whose functions share state: each call reads and changes it.
SHARED_STATE_MODULES = frozenset(["random", "secrets", "time", "uuid"])
# Modules with functions that change their arguments.
MUTATING_MODULES = frozenset(["heapq", "bisect", "random", "copy", "operator"])
NOISY_MODULES = frozenset(["antigravity", "this"])  # importing them has side effects
# Modules that programs commonly use without importing them.
COMMON_MODULES = (
    "math", "collections", "itertools", "functools", "datetime", "statistics", "random", "re", "string", "fractions",
    "decimal", "heapq", "bisect", "operator", "copy", "json", "dataclasses", "enum", "typing", "abc", "contextlib",
    "textwrap", "collections.abc", "pprint", "calendar", "time", "io", "pathlib", "graphlib", "zoneinfo", "uuid",
)  # fmt: skip
# Words that these modules export, but that programs far more often use as names of holes.
AMBIGUOUS_EXPORTS = frozenset([
    "call", "concat", "contains", "dump", "index", "load", "match", "member", "merge", "nonmember", "property",
    "search", "split", "sub", "template", "truth", "unique", "verify",
])  # fmt: skip
MODULE_ALIASES = {
    "np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "sp": "sympy", "sns": "seaborn", "dt": "datetime",
    "nx": "networkx", "tf": "tensorflow", "Path": "pathlib",
}  # fmt: skip
# Packages that exist even where they are not installed: a model must not emulate what they compute.
KNOWN_PACKAGES = frozenset([
    "PIL", "bs4", "cv2", "dateutil", "duckdb", "httpx", "matplotlib", "networkx", "numpy", "openpyxl", "pandas",
    "plotly", "polars", "pyarrow", "pytz", "requests", "scipy", "seaborn", "sklearn", "sqlalchemy", "statsmodels",
    "sympy", "tensorflow", "torch", "yaml",
])  # fmt: skip

# --- types of arguments and results -------------------------------------------------------------------------------

# The type of the argument; empty or absent if a function accepts values of several types.
ARGUMENT_TYPES = {
    "sum": "list[number]", "any": "list", "all": "list", "sorted": "list", "list": "list", "enumerate": "list",
    "Counter": "list", "int": "", "float": "number", "round": "number", "abs": "number", "range": "int",
    "bool": "truth", "sqrt": "number", "timedelta": "number", "Decimal": "number", "Fraction": "number",
    "len": "sized", "join": "list[str]", "fromisoformat": "str", "strptime": "str", "chr": "int", "ord": "str",
}  # fmt: skip
ELEMENT_TYPES = {"any": "truth", "all": "truth", "sum": "number", "join": "str"}  # of the elements of the argument
RESULT_TYPES = {"timedelta": "span"}
RESULT_TYPES |= dict.fromkeys(["date", "today", "fromisoformat", "strptime", "fromtimestamp", "fromordinal"], "date")
RESULT_TYPES |= dict.fromkeys(
    ["len", "sum", "int", "float", "round", "abs", "count", "sqrt", "floor", "ceil", "Decimal", "Fraction"], "number"
)
RESULT_TYPES |= dict.fromkeys(["str", "join", "lower", "upper", "strip", "format", "title"], "str")
