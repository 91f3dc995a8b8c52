# Threads: start and join, locks, queues, events, thread-local data, exceptions, pools.

import queue
import threading
from concurrent.futures import ThreadPoolExecutor

results = []


def work(n, scale=1):
    results.append(n * scale)


threads = [threading.Thread(target=work, args=(n,), kwargs={"scale": 10}) for n in range(5)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert sorted(results) == [0, 10, 20, 30, 40] and not any(t.is_alive() for t in threads)
assert threading.current_thread() is threading.main_thread()

# a counter under a lock
lock = threading.Lock()
total = 0


def add_many():
    global total
    for _ in range(500):
        with lock:
            total += 1


threads = [threading.Thread(target=add_many) for _ in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert total == 2000 and not lock.locked()

# producer and consumer
q = queue.Queue(maxsize=2)
received = []


def consumer():
    while (item := q.get()) is not None:
        received.append(item)


c = threading.Thread(target=consumer)
c.start()
for item in range(10):
    q.put(item)
q.put(None)
c.join()
assert received == list(range(10))

# strict alternation by events
ping, pong = threading.Event(), threading.Event()
trail = []


def ponger():
    for k in range(3):
        ping.wait()
        ping.clear()
        trail.append(("pong", k))
        pong.set()


t = threading.Thread(target=ponger)
t.start()
for k in range(3):
    trail.append(("ping", k))
    ping.set()
    pong.wait()
    pong.clear()
t.join()
assert trail == [(w, k) for k in range(3) for w in ("ping", "pong")]

# thread-local data
local = threading.local()
local.value = "main"
seen = {}


def use_local(name):
    seen[name] = hasattr(local, "value")
    local.value = name
    seen[name + " value"] = local.value


t = threading.Thread(target=use_local, args=("t",), name="named")
t.start()
t.join()
assert seen == {"t": False, "t value": "t"} and local.value == "main" and t.name == "named"

# an exception in a thread goes to the hook and ends only that thread
caught = []
old_hook = threading.excepthook
threading.excepthook = lambda args: caught.append((args.exc_type, str(args.exc_value), args.exc_traceback.tb_next is not None))


def fails():
    raise ValueError("in thread")


try:
    t = threading.Thread(target=fails)
    t.start()
    t.join()
finally:
    threading.excepthook = old_hook
assert caught == [(ValueError, "in thread", True)]


# a subclass, a condition, a barrier
class Worker(threading.Thread):
    def __init__(self, n):
        super().__init__()
        self.n = n
        self.result = None

    def run(self):
        barrier.wait()
        self.result = self.n ** 2


barrier = threading.Barrier(3)
workers = [Worker(n) for n in (1, 2, 3)]
for w in workers:
    w.start()
for w in workers:
    w.join()
assert [w.result for w in workers] == [1, 4, 9]

condition = threading.Condition()
ready = []


def waiter():
    with condition:
        condition.wait_for(lambda: ready)
        ready.append("seen")


t = threading.Thread(target=waiter)
t.start()
with condition:
    ready.append("set")
    condition.notify_all()
t.join()
assert ready == ["set", "seen"]

# a pool: results in order, exceptions delivered to the caller
with ThreadPoolExecutor(max_workers=3) as pool:
    assert list(pool.map(lambda n: n * n, range(6))) == [0, 1, 4, 9, 16, 25]
    good = pool.submit(pow, 2, 10)
    bad = pool.submit(lambda: {}["missing"])
    assert good.result() == 1024 and isinstance(bad.exception(), KeyError)
    try:
        bad.result()
    except KeyError as error:
        assert error.args == ("missing",)

# reentrant lock, semaphore
r = threading.RLock()
with r:
    with r:
        trail.append("twice")
s = threading.Semaphore(1)
assert s.acquire(blocking=False) and not s.acquire(blocking=False)
s.release()
assert trail[-1] == "twice" and threading.active_count() >= 1

answer = "ok"
