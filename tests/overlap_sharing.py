"""Programs with resources that processes share: pipes, sockets, shared memory, signals, threads, event loops.

If a copy of the program in another process read the pipe or sent the signal, it would affect the program itself.
"""

from __future__ import annotations

SHARING = {
    "pipe": """
import os
r, w = os.pipe()
os.write(w, b'abc')
a = weigh(1)
read = os.read
b = kind_of(read(r, 1))
c = kind_of(read(r, 1))
os.close(w)
answer = (a, b, c, read(r, 5))
""",
    "socket_pair": """
import socket
left, right = socket.socketpair()
left.sendall(b'abc')
a = weigh(1)
b = kind_of(right.recv(1))
c = kind_of(right.recv(1))
left.close()
answer = (a, b, c, right.recv(9))
""",
    "shared_memory": """
import mmap
page = mmap.mmap(-1, 64)
a = weigh(1)
page[0] += 1
b = weigh(page[0])
page[0] += 1
c = weigh(page[0])
answer = (a, b, c, page[0])
""",
    "signal_to_itself": """
import os, signal
log = []
signal.signal(signal.SIGUSR2, lambda number, frame: log.append(number == signal.SIGUSR2))
me = os.getpid()
a = weigh(1)
os.kill(me, signal.SIGUSR2)
b = weigh(len(log))
os.kill(me, signal.SIGUSR2)
c = weigh(len(log))
answer = (a, b, c, log)
""",
    "thread_across_calls": """
import threading
log, go = [], threading.Event()
t = threading.Thread(target=lambda: go.wait() and log.append('ran'))
t.start()
a = weigh(1)
b = weigh(2)
go.set()
t.join()
c = weigh(len(log))
answer = (a, b, c, log)
""",
    "lock_across_calls": """
import threading
lock = threading.RLock()
with lock:
    a = weigh(1)
    b = weigh(2)
    with lock:
        c = weigh(a + b)
answer = (a, b, c, lock.acquire(blocking=False))
""",
    "executor": """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(1) as pool:
    jobs = [pool.submit(pow, v, 2) for v in (2, 3)]
    a = weigh(1)
    b = weigh(jobs[0].result())
    c = weigh(sum(pool.map(abs, [1, -2])))
answer = (a, b, c, jobs[1].result())
""",
    "event_loop_and_threads": """
import asyncio
log = []
async def main():
    loop = asyncio.get_running_loop()
    x = await fetch(1)
    loop.call_soon_threadsafe(log.append, x)
    y = await asyncio.to_thread(abs, -3)
    z = await fetch(y)
    return x, y, z
a = weigh(1)
answer = (a, asyncio.run(main()), log)
""",
    "loop_across_calls": """
import asyncio
loop = asyncio.new_event_loop()
async def step(v):
    return await fetch(v)
a = weigh(1)
b = loop.run_until_complete(step(a))
c = weigh(b)
d = loop.run_until_complete(step(c))
loop.close()
answer = (a, b, c, d)
""",
    "recursion_limit": """
import sys
put = sys.setrecursionlimit
a = weigh(1)
put(3000)
b = weigh(sys.getrecursionlimit())
c = weigh(2)
answer = (a, b, c)
""",
    "descriptor_closed": """
import os
r, w = os.pipe()
a = weigh(1)
shut = os.close
b = kind_of(shut(w))
c = kind_of(os.read(r, 1))
answer = (a, b, c)
""",
    "readiness": """
import os, select
r, w = os.pipe()
a = weigh(1)
os.write(w, b'x')
b = weigh(len(select.select([r], [], [], 0)[0]))
c = kind_of(os.read(r, 9))
answer = (a, b, c, len(select.select([r], [], [], 0)[0]))
""",
    "resource_limit": """
import resource
get, put = resource.getrlimit, resource.setrlimit
a = weigh(1)
put(resource.RLIMIT_CORE, (0, 0))
b = kind_of(get(resource.RLIMIT_CORE))
answer = (a, b)
""",
}

# Programs that write into their scratch directory; nothing may be written twice.
SCRATCH = {
    "appending": """
with open('out.txt', 'a') as file:
    file.write('start\\n')
put = lambda text: open('out.txt', 'a').write(text)
a = weigh(1)
b = weigh(put('one\\n'))
c = weigh(put('two\\n'))
answer = (a, b, c, open('out.txt').read())
""",
    "open_across_calls": """
file = open('out.txt', 'w+')
a = weigh(1)
b = weigh(file.write('one\\n'))
c = weigh(file.tell())
file.flush()
d = weigh(file.write('two\\n'))
file.seek(0)
e = shout(file.read())
file.close()
answer = (a, b, c, d, e)
""",
    "buffered_across_calls": """
file = open('out.txt', 'w')
file.write('in the buffer\\n')
a = weigh(1)
b = weigh(2)
file.close()
answer = (a, b, open('out.txt').read())
""",
    "removing": """
import os
for name in 'abc':
    open(name, 'w').close()
drop = os.remove
a = weigh(1)
b = kind_of(drop('a'))
c = kind_of(sorted(os.listdir('.')))
os.rename('b', 'd')
d = kind_of(os.path.exists('b'))
answer = (a, b, c, d, sorted(os.listdir('.')))
""",
    "reading_on": """
with open('in.txt', 'w') as file:
    file.write('one\\ntwo\\nthree\\n')
lines = open('in.txt')
a = weigh(1)
b = shout(next(lines))
c = shout(lines.readline())
lines.close()
answer = (a, b, c)
""",
    "descriptor": """
import os
fd = os.open('out.bin', os.O_RDWR | os.O_CREAT)
a = weigh(1)
b = weigh(os.write(fd, b'abc'))
c = weigh(os.lseek(fd, 0, os.SEEK_CUR))
os.lseek(fd, 0, os.SEEK_SET)
d = kind_of(os.read(fd, 9))
os.close(fd)
answer = (a, b, c, d)
""",
    "new_only": """
a = weigh(1)
try:
    open('lock', 'x').close()
    b = 'made'
except FileExistsError:
    b = 'was there'
c = shout(b)
answer = (a, b, c)
""",
    "work_directory": """
import os
os.mkdir('inner')
go = os.chdir
a = weigh(1)
go('inner')
b = weigh(len(os.listdir('.')))
open('out.txt', 'w').close()
go('..')
c = weigh(len(os.listdir('inner')))
answer = (a, b, c)
""",
}

# Programs that call a granted tool, `send`: it must run exactly as often as the program calls it.
TOOLS = {
    "after_a_call": "a = weigh(1)\nb = send(a)\nc = weigh(b)\nanswer = (a, b, c)",
    "alias": "f = send\na = weigh(1)\nb = weigh(sum(map(f, [1, 2])))\nanswer = (a, b)",
    "in_a_loop": "out = []\nfor v in range(4):\n    out.append(weigh(v))\n    send(v)\nanswer = out",
    "as_key": "a = weigh(1)\nb = weigh(max([1, 2, 3], key=send))\nanswer = (a, b)",
    "behind_a_condition": "a = weigh(1)\nif a > 20:\n    send(1)\nb = weigh(2)\nif is_lucky(b):\n    send(2)\nanswer = (a, b)",
    "behind_an_exit": "import sys\nanswer = weigh(1)\nif answer:\n    sys.exit()\nsend(1)\nanswer = weigh(2)",
    "in_finally": "try:\n    a = 1 // (weigh(1) - 10)\nexcept ZeroDivisionError:\n    a = send(5)\nfinally:\n    b = send(6)\nanswer = (a, b, weigh(a))",
    "in_an_argument": "a = weigh(1)\nb = weigh(send(weigh(2)))\nc = weigh(send(weigh(2)))\nanswer = (a, b, c)",
    "in_a_class": "class Box:\n    v = weigh(1)\n    w = send(v)\n    @property\n    def sent(self):\n        return send(weigh(self.w))\nanswer = (Box().sent, Box().sent, weigh(3))",
    "in_a_short_circuit": "answer = [v for v in range(6) if is_lucky(v) and send(v)] + [weigh(1)]",
}
