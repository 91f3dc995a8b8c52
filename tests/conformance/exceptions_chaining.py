# Exceptions: __cause__, __context__, suppression, notes, args, handler scoping, hierarchies.

log = []


class AppError(Exception):
    def __init__(self, code, message="app"):
        super().__init__(code, message)
        self.code = code

    def __str__(self):
        return f"{self.code}:{self.args[1]}"


try:
    try:
        {}["key"]
    except KeyError as inner:
        raise AppError(7) from inner
except AppError as outer:
    assert str(outer) == "7:app" and outer.args == (7, "app")
    assert isinstance(outer.__cause__, KeyError) and outer.__context__ is outer.__cause__
    assert outer.__suppress_context__ is True

assert "inner" not in globals() and "outer" not in globals(), "handler names are deleted"

try:
    try:
        [][0]
    except IndexError:
        int("z")
except ValueError as error:
    assert error.__cause__ is None and isinstance(error.__context__, IndexError)
    assert error.__suppress_context__ is False

try:
    try:
        [][0]
    except IndexError:
        raise ValueError("hidden") from None
except ValueError as error:
    assert error.__cause__ is None and error.__suppress_context__ is True
    assert isinstance(error.__context__, IndexError)

# raising a class makes an instance; a bare raise keeps the object
try:
    raise AppError.__base__
except Exception as error:
    assert type(error) is Exception and error.args == ()
try:
    try:
        raise AppError(1)
    except AppError as error:
        kept = error
        raise
except AppError as again:
    assert again is kept
try:
    raise
except RuntimeError as error:
    log.append("no active exception")
assert log == ["no active exception"]


# the first fitting clause wins, the expressions are evaluated only while needed
def kind(tag, value):
    log.append(tag)
    return value


def sort_out(error):
    try:
        raise error
    except kind("first", KeyError):
        return "key"
    except kind("second", (ValueError, LookupError)) as e:
        return type(e).__name__
    except kind("third", Exception):
        return "other"
    finally:
        log.append("finally")


log.clear()
assert sort_out(KeyError()) == "key" and log == ["first", "finally"]
log.clear()
assert sort_out(IndexError()) == "IndexError" and log == ["first", "second", "finally"]
log.clear()
assert sort_out(OSError()) == "other" and log == ["first", "second", "third", "finally"]

# else runs only without an exception; its own errors are not handled here
log.clear()
try:
    try:
        log.append("try")
    except ValueError:
        log.append("wrong")
    else:
        log.append("else")
        raise ValueError("from else")
    finally:
        log.append("finally")
except ValueError as error:
    log.append(str(error))
assert log == ["try", "else", "finally", "from else"]

# contexts chain through several levels
def ladder(n):
    try:
        if n == 0:
            raise KeyError(n)
        ladder(n - 1)
    except Exception as error:
        raise AppError(n)


try:
    ladder(3)
except AppError as error:
    codes = []
    while error is not None:
        codes.append(error.args[0])
        error = error.__context__
    assert codes == [3, 2, 1, 0, 0]

# notes, with_traceback, BaseException
noted = ValueError("n")
noted.add_note("one")
noted.add_note("two")
assert noted.__notes__ == ["one", "two"] and noted.with_traceback(None).__traceback__ is None
try:
    raise SystemExit(3)
except Exception:
    raise AssertionError
except BaseException as error:
    assert error.code == 3

# what is not an exception
for thing in (1, "text", int):
    try:
        raise thing
    except TypeError as error:
        assert "BaseException" in str(error)
try:
    try:
        raise ValueError
    except "not a class":
        log.append("wrong")
except TypeError as error:
    assert isinstance(error.__context__, ValueError)

# StopIteration.value, KeyError.args, UnicodeError and OSError fields
assert StopIteration(5).value == 5 and KeyError("k").args == ("k",) and str(KeyError("k")) == "'k'"
assert OSError(2, "missing", "name").errno == 2 and type(OSError(2, "m")) is FileNotFoundError
try:
    b"\xff".decode("ascii")
except UnicodeDecodeError as error:
    assert (error.start, error.end, error.encoding) == (0, 1, "ascii")
try:
    (0).missing
except AttributeError as error:
    assert error.name == "missing" and error.obj == 0

answer = "ok"
