# exec, eval and compile on strings, in every kind of scope.

import sys
import types

# at module level exec shares the program's globals
exec("made = 1\nmade += 1")
assert made == 2
assert eval("made * 10") == 20
seen = []
exec("for k in range(3):\n    seen.append(k)")
assert seen == [0, 1, 2] and k == 2

# a function defined by exec sees and changes the program's globals
exec("def bump():\n    global made\n    made += 1\n    return made")
assert bump() == 3 and made == 3
assert bump.__module__ == __name__ and bump.__globals__ is globals()


# in a function, exec cannot create locals but can read them and write a given dict
def inside(x):
    namespace = {}
    exec("y = x + 1", {"x": x}, namespace)
    same = eval("x * 2")
    exec("x = 99")
    return namespace, same, x


assert inside(5) == ({"y": 6}, 10, 5)


def unseen():
    exec("made_in_function = 1")
    try:
        return made_in_function
    except NameError:
        return "not visible"


assert unseen() == "not visible" and "made_in_function" not in globals()


# in a class body exec writes class attributes
class Built:
    base = 3
    exec("derived = base * 2")
    exec("def method(self):\n    return self.derived")
    total = eval("base + derived")


assert Built.derived == 6 and Built().method() == 6 and Built.total == 9

# separate globals: only what was made, and __builtins__
space = {"a": 1}
exec("b = a + 1\ndef f():\n    return a, b", space)
assert sorted(space) == ["__builtins__", "a", "b", "f"]
space["a"] = 50
assert space["f"]() == (50, 2)

# separate globals and locals
g, l = {"v": "global"}, {"v": "local"}
exec("w = v\nglobal z\nz = v", g, l)
assert l == {"v": "local", "w": "local"} and g["z"] == "local" and "w" not in g

# restricted builtins
try:
    eval("len('x')", {"__builtins__": {}})
except NameError as error:
    assert "len" in str(error)
else:
    raise AssertionError
assert eval("twice(4)", {"__builtins__": {"twice": lambda n: 2 * n}}) == 8


# a mapping as locals
class Log(dict):
    def __missing__(self, key):
        asked.append(key)
        if key == "magic":
            return 7
        raise KeyError(key)


asked = []
assert eval("magic + len('ab')", {}, Log()) == 9
assert asked == ["magic", "len"]

# compile: modes, file names, and running a code object several times
expression = compile("a * b", "<expr>", "eval")
assert [eval(expression, {"a": n, "b": 3}) for n in range(3)] == [0, 3, 6]
assert expression.co_filename == "<expr>" and isinstance(expression, types.CodeType)
body = compile("total = total + 1; doubled = total * 2", "<body>", "exec")
state = {"total": 0}
for _ in range(3):
    exec(body, state)
assert (state["total"], state["doubled"]) == (3, 6)
assert eval(body, {"total": 1}) is None

shown = []
old_hook = sys.displayhook
sys.displayhook = shown.append
try:
    exec(compile("1 + 1", "<single>", "single"))
    exec(compile("'not shown'", "<exec>", "exec"))
finally:
    sys.displayhook = old_hook
assert shown == [2]

# errors: syntax, and lines of the text
try:
    compile("x = = 1", "<bad>", "exec")
except SyntaxError as error:
    assert error.filename == "<bad>" and error.lineno == 1
else:
    raise AssertionError
try:
    exec(compile("a = 1\nb = 2\nc = a / 0\n", "<three>", "exec"), {})
except ZeroDivisionError as error:
    inner = error.__traceback__.tb_next
    assert inner.tb_lineno == 3 and inner.tb_frame.f_code.co_filename == "<three>"
    assert inner.tb_next is None
for wrong in ("a = 1", "import sys", ""):
    try:
        eval(wrong)
    except SyntaxError:
        continue
    raise AssertionError(wrong)

# nested exec, closures made in exec, leading blanks in eval
exec("exec('deep = [n for n in range(3)]')")
assert deep == [0, 1, 2] and eval("  \t made") == 3
ns = {}
exec("def make(n):\n    def get():\n        return n\n    return get", ns)
assert [ns["make"](n)() for n in (1, 2)] == [1, 2]

# a program made module by exec
module = types.ModuleType("made_module", "doc")
exec("value = 1\ndef name():\n    return __name__", module.__dict__)
assert module.name() == "made_module" and module.value == 1

if sys.version_info >= (3, 12):
    newer = {}
    exec("type Pair[T] = tuple[T, T]\ndef first[T](p: Pair[T]) -> T:\n    return p[0]", newer)
    assert newer["first"]((1, 2)) == 1 and newer["Pair"].__name__ == "Pair"

answer = "ok"
