"""State that processes share, or that a copied process would break: pipes, shared memory, signals, threads, locks."""

from __future__ import annotations

from .registry import feature
from .writer import Writer


@feature("module", "function")
def pipe(w: Writer) -> None:
    r, end = w.fresh("r"), w.fresh("w")
    w.need("import os")
    w.put(f"{r}, {end} = os.pipe()\nos.write({end}, b'abcdef')")
    w.keep(f"(os.read({r}, 1), {w.call()}, os.read({r}, 2))")
    w.ask()
    w.put(f"os.close({end})")
    w.keep(f"(os.read({r}, 9), {w.call()})")
    w.put(f"os.close({r})")


@feature("module", "function")
def socket_pair(w: Writer) -> None:
    left, right = w.fresh("left"), w.fresh("right")
    w.need("import socket")
    w.put(f"{left}, {right} = socket.socketpair()")
    w.put(f"{left}.sendall(bytes([{w.call()}, {w.digit()}, 3]))")
    w.keep(f"({w.call()}, {right}.recv(1), {w.call()}, {right}.recv(1))")
    w.put(f"{left}.close()")
    w.keep(f"({right}.recv(9), {w.call()})")
    w.put(f"{right}.close()")


@feature("module", "function")
def shared_page(w: Writer) -> None:
    page = w.fresh("page")
    w.need("import mmap")
    w.put(f"{page} = mmap.mmap(-1, 64)\n{page}[0] += {w.digit()}")
    w.ask()
    w.put(f"{page}[0] += {w.call()}\n{page}.write(bytes([{w.call()}]))")
    w.keep(f"({page}[0], {w.call()}, {page}.tell(), weigh({page}[0]))")


@feature("module")
def signals(w: Writer) -> None:
    me, fn = w.fresh("me"), w.fresh("on_signal")
    w.need("import os", "import signal")
    w.put(f"""
    def {fn}(number, frame):
        {w.choose("log.append('signal')", "print('signal')", "state['signals'] = state.get('signals', 0) + 1")}
    signal.signal(signal.SIGUSR2, {fn})
    {me} = os.getpid()
    """)
    w.ask()
    w.put(w.choose(f"os.kill({me}, signal.SIGUSR2)", "signal.raise_signal(signal.SIGUSR2)"))
    w.keep(f"(len(log), {w.call()}, state.get('signals'))")


@feature("module", "function")
def thread_across_calls(w: Writer) -> None:
    go, job = w.fresh("go"), w.fresh("job")
    w.need("import threading")
    w.put(f"""
    {go} = threading.Event()
    {job} = threading.Thread(target=lambda: {go}.wait() and {w.sink()}('ran'))
    {job}.start()
    """)
    w.ask()
    w.ask()
    w.put(f"{go}.set()\n{job}.join()")
    w.keep(f"(len(log), {w.call()})")


@feature("module", "function")
def lock_across_calls(w: Writer) -> None:
    lock = w.fresh("lock")
    w.need("import threading")
    w.put(f"{lock} = threading.{w.choose('Lock', 'RLock', 'Semaphore', 'Condition')}()\nwith {lock}:")
    with w.indented():
        w.ask()
        w.ask()
    w.keep(f"({lock}.acquire(False), {w.call()}, {lock}.release())")


@feature("module", "function")
def thread_pool(w: Writer) -> None:
    pool, jobs = w.fresh("pool"), w.fresh("jobs")
    w.need("from concurrent.futures import ThreadPoolExecutor")
    w.put(f"with ThreadPoolExecutor(1) as {pool}:")
    with w.indented():
        w.put(f"{jobs} = [{pool}.submit(pow, v, 2) for v in {w.sequence()} + [3]]")
        w.ask()
        w.keep(f"([job.result() for job in {jobs}], {w.call()}, list({pool}.map(abs, {w.sequence()})))")
