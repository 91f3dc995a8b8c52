# contextlib: suppress, ExitStack, contextmanager, nullcontext, ContextDecorator.

import contextlib
import io
from contextlib import ExitStack, contextmanager, nullcontext, suppress

log = []

with suppress(KeyError, IndexError):
    log.append("before")
    {}["x"]
    log.append("never")
assert log == ["before"]

try:
    with suppress(KeyError):
        raise ValueError("not suppressed")
except ValueError as error:
    log.append(str(error))
assert log == ["before", "not suppressed"]


@contextmanager
def tag(name):
    """Tag doc."""
    log.append(f"<{name}>")
    try:
        yield name
    finally:
        log.append(f"</{name}>")


log.clear()
with tag("a") as a:
    with tag("b"):
        log.append(a)
assert log == ["<a>", "<b>", "a", "</b>", "</a>"]
assert tag.__name__ == "tag" and tag.__doc__ == "Tag doc."


@contextmanager
def translate(old, new):
    try:
        yield
    except old as error:
        raise new(*error.args) from error


try:
    with translate(KeyError, ValueError):
        raise KeyError("k")
except ValueError as error:
    assert error.args == ("k",) and isinstance(error.__cause__, KeyError)
else:
    raise AssertionError


@contextmanager
def never():
    if log is None:
        yield


try:
    with never():
        log.append("never")
except RuntimeError as error:
    assert "didn't yield" in str(error)


# as a decorator: a new context for each call
@tag("call")
def work(n):
    log.append(n)
    return n * 2


log.clear()
assert [work(1), work(2)] == [2, 4]
assert log == ["<call>", 1, "</call>", "<call>", 2, "</call>"]

# ExitStack unwinds in reverse, and may be emptied elsewhere
log.clear()
with ExitStack() as stack:
    names = [stack.enter_context(tag(n)) for n in "xyz"]
    stack.callback(log.append, "callback")
    stack.push(lambda kind, value, tb: log.append(kind) or True)
    raise LookupError
assert names == ["x", "y", "z"]
assert log == ["<x>", "<y>", "<z>", LookupError, "callback", "</z>", "</y>", "</x>"]

log.clear()
with ExitStack() as stack:
    stack.enter_context(tag("kept"))
    later = stack.pop_all()
assert log == ["<kept>"]
later.close()
assert log == ["<kept>", "</kept>"]

with nullcontext(5) as five:
    assert five == 5

out = io.StringIO()
with contextlib.redirect_stdout(out), suppress(ZeroDivisionError):
    print("one")
    print(1 / 0)
    print("two")
assert out.getvalue() == "one\n"


class Timer(contextlib.ContextDecorator):
    entered = 0

    def __enter__(self):
        Timer.entered += 1
        return self

    def __exit__(self, *exc):
        return False


@Timer()
def timed(x):
    return x + 1


assert [timed(k) for k in range(3)] == [1, 2, 3] and Timer.entered == 3


class Closable:
    closed = False

    def close(self):
        self.closed = True


with contextlib.closing(Closable()) as c:
    assert not c.closed
assert c.closed


# one-shot: a generator context cannot be entered twice
once = tag("once")
with once:
    log.append("first use")
try:
    with once:
        log.append("second use")
except (RuntimeError, AttributeError):
    log.append("refused")
assert "second use" not in log and log[-1] == "refused"

answer = "ok"
