# Control flow through try/except/else/finally.

log = []


def returns():
    try:
        log.append("try")
        return log.append("value") or "from try"
    finally:
        log.append("finally")


assert returns() == "from try" and log == ["try", "value", "finally"]


def finally_wins():
    try:
        return "try"
    finally:
        return "finally"


def finally_swallows():
    try:
        raise ValueError
    finally:
        return "swallowed"


assert finally_wins() == "finally" and finally_swallows() == "swallowed"


def value_fixed_before_finally():
    x = 1
    try:
        return x
    finally:
        x = 2


def object_changed_in_finally():
    x = [1]
    try:
        return x
    finally:
        x.append(2)


assert value_fixed_before_finally() == 1 and object_changed_in_finally() == [1, 2]


def loop(action):
    trail = []
    for k in range(3):
        try:
            trail.append(k)
            if k == 1:
                if action == "break":
                    break
                elif action == "continue":
                    continue
                elif action == "return":
                    return trail
                elif action == "raise":
                    raise KeyError
            trail.append("end")
        except KeyError:
            trail.append("except")
        else:
            trail.append("else")
        finally:
            trail.append("finally")
    else:
        trail.append("loop else")
    return trail


turn = ["end", "else", "finally"]
assert loop("none") == [0, *turn, 1, *turn, 2, *turn, "loop else"]
assert loop("break") == [0, *turn, 1, "finally"]
assert loop("continue") == [0, *turn, 1, "finally", 2, *turn, "loop else"]
assert loop("return") == [0, *turn, 1, "finally"]
assert loop("raise") == [0, *turn, 1, "except", "finally", 2, *turn, "loop else"]


def break_in_finally():
    for k in range(3):
        try:
            raise ValueError(k)
        finally:
            break
    return k


def continue_in_finally():
    seen = []
    for k in range(3):
        try:
            seen.append(k)
            raise ValueError(k)
        finally:
            continue
    return seen


assert break_in_finally() == 0 and continue_in_finally() == [0, 1, 2]


def nested():
    trail = []
    try:
        try:
            try:
                raise KeyError("a")
            finally:
                trail.append("f1")
        except ValueError:
            trail.append("wrong")
        finally:
            trail.append("f2")
            try:
                trail.append("f2 try")
            finally:
                trail.append("f2 finally")
    except KeyError as error:
        trail.append(error.args[0])
    finally:
        trail.append("f3")
    return trail


assert nested() == ["f1", "f2", "f2 try", "f2 finally", "a", "f3"]


def replaced():
    try:
        try:
            raise KeyError("old")
        finally:
            raise ValueError("new")
    except ValueError as error:
        return error.args[0], error.__context__.args[0]


assert replaced() == ("new", "old")


def except_returns_else_skipped():
    try:
        int("no")
    except ValueError:
        return "handler"
    else:
        return "else"
    finally:
        log.append("after handler")


assert except_returns_else_skipped() == "handler" and log[-1] == "after handler"


# while with finally, an iterator's state is kept
def drain(items):
    it = iter(items)
    out = []
    while True:
        try:
            item = next(it)
        except StopIteration:
            break
        else:
            if item % 2:
                continue
            out.append(item)
        finally:
            out.append("|")
    return out


assert drain([1, 2, 3, 4]) == ["|", 2, "|", "|", 4, "|", "|"]


# the handler's name is removed even when the handler deletes or rebinds it
def handler_name():
    try:
        raise ValueError
    except ValueError as e:
        e = "rebound"
    try:
        return e
    except NameError:
        return "gone"


assert handler_name() == "gone"

# at module level
trail = []
for n in (1, 0):
    try:
        trail.append(1 // n)
    except ZeroDivisionError:
        trail.append("zero")
        continue
    finally:
        trail.append("f")
    trail.append("tail")
assert trail == [1, "f", "tail", "zero", "f"]

answer = "ok"
