# global and nonlocal declarations.

level = "module"


def read_global():
    return level


def shadow():
    level = "local"
    return level


def write_global():
    global level
    old = level
    level = "changed"
    return old


assert shadow() == "local" and level == "module"
assert write_global() == "module"
assert level == "changed" and read_global() == "changed"


def create_global():
    global made_here, also_here
    made_here = [1]
    also_here = made_here


assert "made_here" not in globals()
create_global()
assert made_here == [1] and also_here is made_here


def delete_global():
    global also_here
    del also_here


delete_global()
assert "also_here" not in globals()


def outer():
    x = 1
    trail = []

    def middle():
        x = 2

        def inner():
            nonlocal x
            x += 10
            trail.append(x)

        inner()
        inner()
        return x

    return middle(), x, trail


assert outer() == (22, 1, [12, 22])


def skips_a_level():
    value = "outer"

    def middle():
        def inner():
            nonlocal value
            value = "from inner"
        inner()

    middle()
    return value


assert skips_a_level() == "from inner"

x = "module x"


def global_in_nested():
    x = "enclosing x"

    def inner():
        global x
        x = "set by inner"
        return x

    inner()
    return x


assert global_in_nested() == "enclosing x"
assert x == "set by inner"


# global targets in for, with, import, def, class, except
def many_targets():
    global loop_name, math_alias, made_def, MadeClass, caught_name
    for loop_name in range(3):
        continue
    import math as math_alias

    def made_def():
        return "def"

    class MadeClass:
        kind = "class"

    try:
        raise KeyError("k")
    except KeyError as caught_name:
        inside = caught_name.args
    return inside


assert many_targets() == ("k",)
assert loop_name == 2 and math_alias.floor(2.5) == 2
assert made_def() == "def" and MadeClass.kind == "class"
assert "caught_name" not in globals()
assert made_def.__qualname__ == "made_def"


# nonlocal deletion and class bodies
def class_and_nonlocal():
    count = 0

    class Tally:
        nonlocal count
        count = 5
        own = count

    return count, Tally.own, hasattr(Tally, "count")


assert class_and_nonlocal() == (5, 5, False)


class UsesGlobal:
    global set_by_class
    set_by_class = "from class body"
    kept = 1


assert set_by_class == "from class body" and not hasattr(UsesGlobal, "set_by_class")


# a local read before assignment
def unbound(flag):
    if flag:
        local_name = 1
    try:
        return local_name
    except UnboundLocalError:
        return "unbound"


assert [unbound(True), unbound(False)] == [1, "unbound"]

for source in ("def f():\n  nonlocal q\n", "nonlocal q\n", "def f(a):\n  global a\n"):
    try:
        compile(source, "<text>", "exec")
    except SyntaxError:
        continue
    raise AssertionError(source)

answer = "ok"
