# ExceptionGroup and except*.

log = []


def group(*errors, message="g"):
    return ExceptionGroup(message, list(errors))


def handle(error):
    log.clear()
    try:
        raise error
    except* ValueError as eg:
        log.append(("value", [str(e) for e in eg.exceptions]))
    except* (KeyError, IndexError) as eg:
        log.append(("lookup", sorted(type(e).__name__ for e in eg.exceptions)))
    else:
        log.append("else")
    finally:
        log.append("finally")
    return list(log)


assert handle(group(ValueError("a"), KeyError("b"), ValueError("c"))) == [
    ("value", ["a", "c"]), ("lookup", ["KeyError"]), "finally",
]
assert handle(group(IndexError(), KeyError())) == [("lookup", ["IndexError", "KeyError"]), "finally"]
assert handle(ValueError("bare")) == [("value", ["bare"]), "finally"], "a bare exception is wrapped"

# exceptions that no clause handles are raised again
try:
    handle(group(ValueError("v"), TypeError("t"), message="mixed"))
except ExceptionGroup as rest:
    assert rest.message == "mixed" and [type(e) for e in rest.exceptions] == [TypeError]
else:
    raise AssertionError
assert log == [("value", ["v"]), "finally"]

try:
    handle(OSError("alone"))
except OSError as error:
    assert str(error) == "alone", "an unmatched bare exception stays bare"

# no exception: else
log.clear()
try:
    log.append("body")
except* ValueError:
    log.append("wrong")
else:
    log.append("else")
assert log == ["body", "else"] and "eg" not in globals()

# nested groups keep their shape
nested = group(ValueError(1), group(ValueError(2), TypeError(3), message="inner"), message="outer")
try:
    try:
        raise nested
    except* TypeError as taken:
        assert [type(e) for e in taken.exceptions] == [ExceptionGroup]
        assert taken.exceptions[0].message == "inner" and taken.exceptions[0].exceptions[0].args == (3,)
        log.append("took")
except ExceptionGroup as left:
    assert left.message == "outer"
    assert left.exceptions[0].args == (1,)
    assert left.exceptions[1].message == "inner" and left.exceptions[1].exceptions[0].args == (2,)
assert log[-1] == "took"

# raising inside except* gathers the new errors
try:
    try:
        raise group(ValueError("v"), KeyError("k"))
    except* ValueError:
        raise RuntimeError("new one")
    except* KeyError as eg:
        raise LookupError("new two") from eg
except ExceptionGroup as both:
    assert [str(e) for e in both.exceptions] == ["new one", "new two"]
    assert isinstance(both.exceptions[0].__context__, ExceptionGroup)
    assert isinstance(both.exceptions[1].__cause__, ExceptionGroup)
else:
    raise AssertionError

# a bare raise inside except* puts the part back
try:
    try:
        raise group(ValueError("v"), KeyError("k"))
    except* ValueError:
        raise
    except* KeyError:
        log.append("swallowed")
except ExceptionGroup as back:
    assert [type(e) for e in back.exceptions] == [ValueError]
assert log[-1] == "swallowed"

# split, subgroup, derive
whole = group(ValueError(1), group(KeyError(2)))
matched, rest = whole.split(KeyError)
assert matched.exceptions[0].exceptions[0].args == (2,) and rest.exceptions[0].args == (1,)
assert whole.subgroup(lambda e: isinstance(e, OSError)) is None
assert whole.subgroup(ValueError).exceptions[0].args == (1,)


class Tagged(ExceptionGroup):
    def __new__(cls, message, errors, tag="none"):
        self = super().__new__(cls, message, errors)
        self.tag = tag
        return self

    def derive(self, errors):
        return Tagged(self.message, errors, self.tag)


try:
    try:
        raise Tagged("m", [ValueError(), KeyError()], "T")
    except* ValueError as eg:
        assert eg.tag == "T"
except Tagged as left:
    assert left.tag == "T"

assert isinstance(BaseExceptionGroup("b", [ValueError()]), ExceptionGroup)
assert not isinstance(BaseExceptionGroup("b", [KeyboardInterrupt()]), Exception)
try:
    ExceptionGroup("e", [])
except ValueError:
    log.append("empty refused")
assert log[-1] == "empty refused"


# except* in a loop inside a function
def collect():
    out = []
    for errors in ([ValueError("x")], [KeyError("y"), ValueError("z")], []):
        try:
            if errors:
                raise ExceptionGroup("loop", errors)
            out.append("none")
        except* ValueError as eg:
            out += [str(e) for e in eg.exceptions]
        except* KeyError as eg:
            out += [e.args[0] for e in eg.exceptions]
    return out


assert collect() == ["x", "z", "y", "none"]

answer = "ok"
