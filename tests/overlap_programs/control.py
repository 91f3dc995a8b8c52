"""Statements: branches and loops on values, exceptions, unpacking, aliasing, deletion, ends."""

from __future__ import annotations

from .registry import feature
from .writer import ANSWER, Writer

ERRORS = ("ZeroDivisionError", "IndexError", "ValueError", "KeyError")


@feature()
def branch(w: Writer) -> None:
    w.put(f"if {w.condition()}:")
    w.body()
    if w.chance(0.5):
        w.put(f"elif {w.condition()}:")
        w.body(1)
    if w.chance(0.6):
        w.put("else:")
        w.body(1)


@feature()
def for_loop(w: Writer) -> None:
    n = w.fresh("n")
    w.put(f"for {n} in {w.sequence()}:")
    with w.indented():
        w.scope.numbers += [n, n]
        for _ in range(w.random.randint(1, 3)):
            w.statement()
        if w.chance(0.4):
            w.put(f"if {w.condition()}:\n    {w.choose('break', 'continue')}")
            w.ask()
    if w.chance(0.3):
        w.put("else:")
        w.body(1)


@feature()
def sweep(w: Writer) -> None:
    """A loop of mostly independent calls."""
    n = w.fresh("m")
    w.put(
        w.choose(
            f"for {n} in range({w.random.randint(3, 7)}):",
            f"for k, {n} in enumerate({w.sequence()} + [3, 8]):",
            f"for {n}, k in zip((8, 9, 2), {w.sequence()}):",
            f"for {n} in sorted([9, 2, 5], key={w.function()}):",
            f"for {n} in {{3: 'x', 6: 'y', 7: 'z'}}:",
            f"for {n} in map({w.function()}, [2, 3, 4]):",
            f"for {n} in iter({w.sequence()}):",
        )
    )
    with w.indented():
        w.scope.numbers = [n, n, n, "a", "b"]
        for _ in range(w.random.randint(1, 3)):
            w.ask()
        if w.chance(0.3):
            w.put(f"if {w.condition()}:\n    {w.choose('break', 'continue', 'xs.append(0)')}")


@feature()
def while_on_a_value(w: Writer) -> None:
    k = w.fresh("k")
    w.put(f"{k} = {w.call()}")
    bound = w.random.randint(3, 6)
    w.put(
        w.choose(
            f"while {k} < 90 and not is_lucky({k}) and len(log) % {bound + 20} < {bound + 19}:",
            f"while {k} % {bound}:",
        )
    )
    with w.indented():
        w.scope.numbers.append(k)
        w.put(f"{k} += 1")
        w.ask()
        if w.chance(0.3):
            w.put(f"if weigh({k}) > 8:\n    break")
    if w.chance(0.3):
        w.put("else:")
        w.body(1)


@feature()
def walrus(w: Writer) -> None:
    y, n = w.fresh("y"), w.fresh("n")
    w.put(f"{n} = 0")
    w.put(f"while ({y} := weigh({n} + {w.name()})) < 8 and {n} < 5:\n    {n} += 1\n    log.append({y})")
    w.keep(f"({y}, {n}, [{y} for v in {w.sequence()} if ({y} := {w.function()}(v)) > 3], {y})")


@feature()
def matching(w: Writer) -> None:
    v = w.fresh("v")
    w.put(f"""
    for {v} in [{w.number()}, [{w.digit()}, {w.call()}], {{'k': {w.number()}}}, {w.text()}, None]:
        match {v}:
            case int(n) if {w.choose("is_lucky(n)", "n > 3", "note(n)")}:
                log.append(('int', n))
            case [p, q]:
                log.append(weigh(p) + {w.choose("q", "weigh(q)", "note(q)")})
            case {{'k': z}}:
                {w.choose("print('k', z)", "log.append(name_of(z))")}
            case str():
                log.append(shout({v}))
            case _:
                log.append('none')
    """)


@feature()
def attempt(w: Writer) -> None:
    w.put("try:")
    w.body()
    with w.indented():
        w.put(
            w.choose(
                f"log.append(10 // ({w.number()} - {w.digit()}))",
                f"log.append(xs[{w.number()}])",
                f"log.append(int({w.text()}))",
                f"log.append(state[{w.text()}])",
                f"raise {w.random.choice(ERRORS)}({w.text()})",
                f"assert {w.condition()}, {w.text()}",
            )
        )
        w.ask()
    w.put("except (ZeroDivisionError, IndexError, ValueError, KeyError, AssertionError) as error:")
    with w.indented():
        w.put(w.choose("log.append(type(error).__name__)", "print('caught', error)", "log.append(error.args)"))
        w.ask()
    if w.chance(0.3):
        w.put("else:")
        w.body(1)
    if w.chance(0.4):
        w.put("finally:")
        w.body(1)


@feature()
def error_through_functions(w: Writer) -> None:
    broken, inner, outer = w.fresh("Broken"), w.fresh("inner"), w.fresh("outer")
    w.put(f"""
    class {broken}(Exception):
        pass
    def {inner}(v):
        if {w.choose("is_lucky(v)", "weigh(v) > 4", "v % 2")}:
            raise {broken}(v, {w.choose("weigh(v)", "note(v)", "name_of(v)")})
        return weigh(v)
    def {outer}(v):
        try:
            return {inner}(v)
        finally:
            {w.choose("log.append('left')", "print('left', v)", "state['left'] = weigh(v)")}
    for v in [{w.number()}, {w.digit()}, {w.digit()}]:
        try:
            log.append({outer}(v))
        except {broken} as error:
            log.append(error.args)
    """)


@feature()
def error_chain(w: Writer) -> None:
    w.put(f"""
    try:
        try:
            raise KeyError({w.text()})
        except KeyError as error:
            {w.choose("raise ValueError(weigh(3)) from error", "raise ValueError(note(3))", "raise ValueError(error.args[0]) from None")}
    except ValueError as error:
        log.append((error.args, type(error.__cause__).__name__, error.__suppress_context__, {w.call()}))
    """)


@feature("module", "function")
def error_group(w: Writer) -> None:
    w.put(f"""
    try:
        raise ExceptionGroup('many', [ValueError({w.call()}), KeyError({w.text()}), ValueError({w.digit()})])
    except* ValueError as group:
        log.append([error.args for error in group.exceptions])
    except* KeyError as group:
        log.append({w.call()})
    """)


@feature()
def comprehension_nest(w: Writer) -> None:
    w.keep(
        w.choose(
            f"[[{w.function()}(u + v) for u in {w.sequence()}] for v in {w.sequence()}]",
            f"{{name_of(v): [weigh(u) for u in pieces(v)] for v in {w.sequence()}}}",
            f"[u for v in {w.sequence()} for u in pieces(v) if is_lucky(u)]",
            f"sorted({{weigh(v) for v in {w.sequence()}}})",
            f"list((v, w) for v in {w.sequence()} if is_lucky(v) for w in {w.sequence()})",
            f"[f(v) for f in ({w.function()}, {w.function()}) for v in {w.sequence()}]",
        )
    )


@feature()
def dict_and_set_order(w: Writer) -> None:
    groups, seen, v = w.fresh("groups"), w.fresh("seen"), w.fresh("v")
    w.put(f"""
    {groups}, {seen} = {{}}, set()
    for {v} in {w.sequence()} + [4, 1, 4]:
        {groups}.setdefault(name_of({v}), []).append({w.choose(v, f"weigh({v})", f"note({v})")})
        {seen}.add({w.choose(f"name_of({v})", v, f"weigh({v})")})
    """)
    w.keep(f"({groups}, list({seen}), {groups}.pop({w.text()}, None), list({groups}))")


@feature()
def unpacking(w: Writer) -> None:
    p, q, r = w.fresh("p"), w.fresh("q"), w.fresh("r")
    w.put(
        w.choose(
            f"{p}, *{q}, {r} = {w.call()}, *{w.sequence()}, {w.call()}",
            f"({p}, {q}), {r} = ({w.call()}, {w.number()}), {w.call()}",
            f"{p} = {q} = {w.sequence()}\n{r} = {w.call()}\n{p}.append({r})",
            f"{p}, {r} = {w.call()}, {w.call()}\n{p}, {r} = {r}, {p}\n{q} = [{p}]",
        )
    )
    w.keep(f"({p}, {q}, {r})")


@feature()
def aliased_lists(w: Writer) -> None:
    p, q = w.fresh("p"), w.fresh("q")
    w.put(f"{p} = {q} = [{w.digit()}, {w.number()}]")
    w.put(
        w.choose(
            f"{p} += [{w.call()}]", f"{p} = {p} + [{w.call()}]", f"{p}[:1] = {w.sequence()}", f"{p}[0] += {w.call()}"
        )
    )
    w.put(w.choose(f"{q}.append({w.call()})", f"{q}.sort(key={w.function()})", f"{q}.insert(0, {w.number()})"))
    w.keep(f"({p}, {q}, {p} is {q}, total_of({q}))")


@feature()
def fresh_values(w: Writer) -> None:
    """A repeated call returns a new list each time; a changed argument makes it another call."""
    p, q, n = w.fresh("p"), w.fresh("q"), w.digit()
    w.put(f"""
    {p} = pieces({n})
    {p}.append({w.call()})
    {q} = pieces({n})
    {q}.append(total_of({p}))
    {p}.append(total_of({p}))
    """)
    w.keep(f"({p}, {q}, total_of({p}), pieces({n}))")


@feature()
def growing_while_iterated(w: Writer) -> None:
    work, v = w.fresh("work"), w.fresh("v")
    w.put(f"""
    {work} = [{w.digit()}, {w.digit()}]
    for {v} in {work}:
        if len({work}) < {w.random.randint(4, 7)}:
            {work}.append({w.choose(f"weigh({v}) + 20", f"note({v}) + 1", f"weigh({v} + 1)")})
        log.append({w.choose(v, f"weigh({v})", f"is_lucky({v})")})
    """)


@feature()
def short_circuit(w: Writer) -> None:
    w.keep(f"({w.condition()} and {w.function()}({w.number()}), {w.condition()} or {w.sink()}({w.digit()}))")
    w.keep(f"(any({w.function()}(v) > 5 for v in {w.sequence()}), all(map(is_lucky, {w.sequence()})))")


@feature()
def formatting(w: Writer) -> None:
    w.keep(
        w.choose(
            f'f"""{{{w.number()}!r:>{{3 + 1}}}}|{{{w.call()}:04d}}|{{name_of({w.call()}):^7}}"""',  # may hold quotes
            f"'{{}} {{x:>3}}'.format({w.text()}, x={w.function()}({w.digit()}))",
            f"'%s and %(k)s' % ({w.text()},) if False else '%d-%s' % ({w.call()}, {w.text()})",
            f"'{{0[0]}}{{1}}'.format({w.sequence()} + [5], {w.text()})",
        )
    )


@feature("module", "function")
def deletion(w: Writer) -> None:
    p = w.fresh("gone")
    w.put(f"{p} = {w.number()}\nlog.append({p})\ndel {p}")
    w.put(f"""
    try:
        log.append({p} + {w.call()})
    except NameError:
        log.append('gone')
    """)
    w.put(w.choose("state.pop('k', None)", "del xs[:1]", "state.setdefault('k', weigh(1))\ndel state['k']"))
    w.ask()


@feature()
def suppression(w: Writer) -> None:
    w.need("import contextlib")
    w.put("with contextlib.suppress(ZeroDivisionError, IndexError, LookupError):")
    with w.indented():
        w.ask()
        w.put(f"log.append({w.choose('1 // ' + w.call(), 'xs[' + w.call() + ']', 'state[' + w.text() + ']')})")
        w.ask()
    w.ask()


@feature("module")
def exit_behind_a_condition(w: Writer) -> None:
    stop = w.fresh("stop")
    w.need("import sys")
    w.put(f"{stop} = {w.choose('sys.exit', 'exit', 'lambda: sys.exit(0)')}")
    w.put(f"if {w.condition()}:")
    with w.indented():
        w.put(f"answer = ('early', {ANSWER})\n{stop}()")
    w.ask()


@feature("module")
def work_behind_an_exit(w: Writer) -> None:
    """Endless work that the program never reaches."""
    w.need("import sys")
    w.put(
        f"if weigh({w.name()}) > 10:\n    {w.choose('sum(range(10**10))', 'list(range(10**9))', 'x = 10 ** 10 ** 7')}"
    )
    w.ask()


@feature("module")
def uncaught_error(w: Writer) -> None:
    w.put(f"if {w.condition()}:\n    raise RuntimeError({w.text()}, {w.call()})")
    w.ask()


@feature()
def printing(w: Writer) -> None:
    w.put(f"print({w.call()}, {w.text()}, sep={w.choose(repr(' '), repr('/'))}, end={w.choose(repr('.'), 'chr(10)')})")
    w.put(f"print(*{w.sequence()}, {w.call()})")


@feature()
def same_call_in_other_types(w: Writer) -> None:
    w.keep("[kind_of(v) for v in (1, True, 1.0, '1', [1], (1,), 0.0, -0.0, None)]")
    w.keep(f"(lucky_number(), {w.call()}, lucky_number())")


@feature()
def argument_order(w: Writer) -> None:
    w.keep(f"blend({w.function()}({w.digit()}), {w.function()}({w.number()}), scale={w.function()}({w.digit()}))")
    w.keep(f"[{w.function()}({w.digit()}), *{w.sequence()}, {w.number()}][{w.call()} % 2]")
