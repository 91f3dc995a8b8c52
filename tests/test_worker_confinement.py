"""Confinement of workers, which parse untrusted data outside guests, as root and as another user."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import ROOT, has_tier
from guest_servers import guest_server
from processes import children, command_of
from worker_attacks import ALWAYS_REFUSED, ATTACKS

from chainofcode import run
from chainofcode.emulator.types import Misfit
from chainofcode.engine import RunOptions
from chainofcode.errors import ChainOfCodeError, InputError, SandboxError
from chainofcode.methods import answer_type_of, files_of, sql
from chainofcode.program import Program
from chainofcode.sandbox import Jail
from chainofcode.sandbox.remote_sandbox import RemoteSandbox
from chainofcode.sandbox.worker_confinement import can_import_later
from chainofcode.server.workers import Workers
from chainofcode.values.codec import encode

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can confine workers")
TESTS = Path(__file__).parent
USER = 20_000 + os.getpid() % 10_000  # an ordinary user, without processes of other tests
KEY = "sk-in-the-environment"
IS_USABLE = "import os, sys, chainofcode.methods.isolated; sys.exit(not os.access(sys.executable, os.X_OK))"
WITHOUT_LANDLOCK = [str(TESTS / "deny.py"), "-landlock_create_ruleset"]


@functools.cache
def ordinary() -> tuple[list[str], dict[str, str]]:
    """The command that runs Python as an ordinary user, outside any namespace, and its environment."""
    places = [ROOT / "src", *(path for path in sys.path if path.endswith("-packages"))]
    variables = {"PYTHONPATH": os.pathsep.join(map(str, places)), "PATH": "/usr/bin:/bin", "OPENAI_API_KEY": KEY}
    prefix = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"] if os.geteuid() == 0 else []
    if prefix and shutil.which("setpriv") is None:
        pytest.skip("there is no command `setpriv`")
    for python in (sys.executable, "/usr/bin/python3"):
        command = [*prefix, python]
        with contextlib.suppress(FileNotFoundError):
            tried = [*command, "-c", IS_USABLE]
            if subprocess.run(tried, env=variables, capture_output=True, check=False, cwd="/").returncode == 0:
                return command, variables
    pytest.skip("no Python with the packages of this one that an ordinary user can run")


def launcher(user: str) -> tuple[list[str], dict[str, str]]:
    if user == "ordinary":
        return ordinary()
    return [sys.executable], {**os.environ, "OPENAI_API_KEY": KEY}


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory that other users can enter: pytest's own is closed again whenever another pytest starts."""
    with tempfile.TemporaryDirectory(prefix="coc-walls-") as place:
        os.chmod(place, 0o711)
        yield Path(place)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A private key of each user, in a directory that others cannot enter."""
    home = tmp_path / ".ssh"
    home.mkdir(0o700)
    (home / "id_ed25519").write_text("a private key")
    return home / "id_ed25519"


def give(path: Path, user: str) -> None:
    """Make a file and its directory those of the user, with a way to them."""
    if user == "ordinary" and os.geteuid() == 0:
        for place in (path, path.parent):
            os.chown(place, USER, USER)
        for place in path.parent.parents:
            if os.stat(place).st_uid == 0 and place != Path("/"):
                place.chmod(place.stat().st_mode | 0o011)


def results(user: str, how: str, key: Path, *, denied: tuple[str, ...] = ()) -> dict[str, str]:
    give(key, user)
    command, variables = launcher(user)
    attack = [str(TESTS / "worker_attacks.py"), "host", how, str(key)]
    host = [*denied, command[-1], *attack] if denied else attack
    done = subprocess.run([*command, *host], env=variables, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    assert found.keys() == ATTACKS.keys()
    return found


@pytest.mark.parametrize("landlock", [True, False], ids=["landlock", "no landlock"])
@pytest.mark.parametrize("user", ["own", "ordinary"])
def test_a_hostile_worker_can_do_nothing(user: str, landlock: bool, key: Path) -> None:
    """Keys, files, the parent, the network, programs: all are out of reach, with every layer and without Landlock."""
    found = results(user, "confined", key, denied=() if landlock else tuple(WITHOUT_LANDLOCK))
    assert [name for name, how in found.items() if how == "done"] == []


@pytest.mark.parametrize("user", ["own", "ordinary"])
def test_the_attacks_work_in_a_worker_that_is_not_confined(user: str, key: Path) -> None:
    found = results(user, "bare", key)
    assert [name for name, how in found.items() if how != "done"] == list(ALWAYS_REFUSED)


COST = """
import sys, time
from chainofcode import boot
boot._declare_packages()
import json, os, subprocess
started = time.process_time()
from chainofcode.sandbox import worker_confinement
worker_confinement.confine_worker()
print(time.process_time() - started)
"""


def test_confinement_takes_milliseconds() -> None:
    """With its imports; the fastest of five counts, because the machine may be busy."""
    seconds = [
        float(subprocess.run([sys.executable, "-c", COST], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    ]
    assert min(seconds) < 0.02


# --- the workers of the package -----------------------------------------------------------------------------------


def rights_of(module: str, work: Callable[[], object]) -> dict[str, str]:
    """The lines of /proc/PID/status of the process that does the work, confined if it ever is."""
    found: dict[str, str] = {}
    thread = threading.Thread(target=work)
    thread.start()
    try:
        while thread.is_alive() and found.get("Seccomp") != "2":
            for pid in children(os.getpid(), module):
                with contextlib.suppress(OSError):
                    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                    found = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)} or found
                    found["data"] = Path(f"/proc/{pid}/limits").read_text().partition("Max data size")[2].split()[0]
            time.sleep(0.001)
    finally:
        thread.join()
    return found


def parse(tmp_path: Path) -> None:
    Program.parse("\n".join(f"x{number} = f({number})" for number in range(1500)))


def inspect(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n" * 300_000)
    asyncio.run(files_of([tmp_path / "a.csv"], RunOptions()))


def check_schema(tmp_path: Path) -> None:
    pytest.importorskip("jsonschema")
    wanted = answer_type_of({"type": "string", "pattern": "^(x+x+)+y$"})
    assert wanted is not None
    with pytest.raises(Misfit, match="it took over"):
        wanted.read("x" * 40)


def decode(tmp_path: Path) -> None:
    values = [encode([[number] for number in range(20_000)])]
    asyncio.run(Workers(["ann"], 0).check_values("ann", [json.dumps(value).encode() for value in values]))  # type: ignore[misc]


def check_query(tmp_path: Path) -> None:
    sql.Query(None).read("SELECT " + " + ".join(["1"] * 900) + " AS " + "a" * 15_000)


def audited(audit: str, **more: Any) -> Callable[[Path], None]:
    def audit_trace(tmp_path: Path) -> None:
        trace = run("n = 0\nfor i in range(300):\n    n += len(str(f(i)))\nanswer = n", lambda pause: "x" * 100).trace
        job = {"audit": audit, "text": "\n".join(trace.lines()), "limits": {}, "scratch": False, **more}
        asyncio.run(Workers(["ann"], 0).audited("ann", job))

    return audit_trace


WORKERS: dict[str, Callable[[Path], None]] = {
    "sandbox.parser_process": parse,
    "methods.file_inspection": inspect,
    "methods.conforming": check_schema,
    "methods.decoding": decode,
    "methods.querying": check_query,
}


@pytest.mark.parametrize("module", WORKERS)
def test_every_worker_gives_up_its_rights(module: str, tmp_path: Path) -> None:
    rights = rights_of(module, lambda: WORKERS[module](tmp_path))
    assert (rights.get("NoNewPrivs"), rights.get("Seccomp")) == ("1", "2"), rights
    assert rights["data"] != "unlimited"
    assert "0" not in rights["Uid"].split()
    keeps_reading = int(rights["CapEff"], 16) == 1 << 2  # only root may read this Python: Landlock limits the files
    assert int(rights["CapEff"], 16) == 0 or (keeps_reading and can_import_later())
    assert os.geteuid() != 0 or rights["Uid"].split()[0] != str(os.getuid())


def test_a_page_of_a_foreign_trace_is_made_without_rights(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    rights = rights_of("chainofcode.server.auditor", lambda: audited("page", title="x")(tmp_path))
    assert (rights.get("NoNewPrivs"), rights.get("Seccomp")) == ("1", "2"), rights
    assert "0" not in rights["Uid"].split()


@pytest.mark.parametrize("audit", ["verify", "why"])
def test_an_audit_that_starts_guests_has_no_network(audit: str, tmp_path: Path) -> None:
    """It keeps its user and its files, because the zygotes that it starts need them."""
    pytest.importorskip("starlette")
    rights = rights_of("chainofcode.server.auditor", lambda: audited(audit)(tmp_path))
    assert (rights.get("NoNewPrivs"), rights.get("Seccomp")) == ("1", "2"), rights
    assert not int(rights["CapEff"], 16) & 1 << 19  # SYS_PTRACE


@pytest.mark.parametrize("tier", ["A", "A-", "B", "C"])
def test_a_confined_audit_builds_every_tier(tier: str) -> None:
    """Also for programs whose guests need a zygote that is started later."""
    pytest.importorskip("starlette")
    for language, program in (("python", "answer = 6 * 7"), ("sql", "SELECT 42 AS n")):
        trace = run(program, language=language).trace
        job = {"audit": "verify", "text": "\n".join(trace.lines()), "limits": {}, "scratch": False}
        found = msgspec.json.decode(asyncio.run(Workers(["ann"], 0, sandbox=tier).audited("ann", job)))
        assert found["replays"], found


REFUSED_TO_HOSTS = """
import ctypes, errno, os, socket
from chainofcode.sandbox.worker_confinement import confine_host
libc = ctypes.CDLL(None, use_errno=True)
def reach(): socket.create_connection(("127.0.0.1", {port}))
def reach_unix(): socket.socket(socket.AF_UNIX).connect("{place}/s")
def send(): socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", {port}))
def serve(): socket.socket(socket.AF_UNIX).bind("{place}/t")
def trace():
    if libc.ptrace(0x4206, os.getppid(), None, None): raise OSError(ctypes.get_errno(), "ptrace")
{before}
for act in (reach, reach_unix, send, serve, trace):
    try: act(); print("done")
    except OSError as error: print(errno.errorcode[error.errno])
"""


@pytest.mark.parametrize("is_confined", [True, False])
def test_a_confined_host_reaches_nothing(is_confined: bool, tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as other:
        other.bind(f"{tmp_path}/s")
        other.listen()
        before = "confine_host()" if is_confined else ""
        script = REFUSED_TO_HOSTS.format(port=server.getsockname()[1], place=tmp_path, before=before)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.split() == (["EPERM"] * 5 if is_confined else ["done"] * 5), done.stderr


HIDDEN = """
import os, subprocess, sys
from chainofcode.sandbox.worker_confinement import hide_from_others
{hide}
child = "{confine}; import os; print(b'sk-in-the' in open(f'/proc/{{os.getppid()}}/environ', 'rb').read())"
variables = {{"PYTHONPATH": os.pathsep.join(sys.path)}}
done = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, env=variables)
print(done.stdout, done.stderr[-200:])
"""


@pytest.mark.parametrize("is_protected", [True, False])
def test_a_confined_host_cannot_read_the_keys_of_its_parent(is_protected: bool) -> None:
    """If both are of an ordinary user. Root, which builds the tiers, may read all processes."""
    command, variables = ordinary()
    confine = (
        "from chainofcode.sandbox.worker_confinement import confine_host; confine_host()" if is_protected else "pass"
    )
    script = HIDDEN.format(hide="hide_from_others()" if is_protected else "", confine=confine)
    done = subprocess.run([*command, "-c", script], capture_output=True, text=True, check=True, env=variables, cwd="/")
    assert ("PermissionError" if is_protected else "True") in done.stdout, done


# --- processes that hold keys -------------------------------------------------------------------------------------


@contextlib.contextmanager
def serving(tmp_path: Path) -> Iterator[int]:
    """A server of an ordinary user, with a key."""
    command, variables = ordinary()
    arguments = ["-m", "chainofcode", "serve", "--port", "0", "--data", str(tmp_path / "data")]
    give(tmp_path / "data", "none")
    tmp_path.chmod(0o777)
    for place in tmp_path.parents:
        if os.stat(place).st_uid == os.getuid() and place != Path("/"):
            place.chmod(place.stat().st_mode | 0o011)
    process = subprocess.Popen([*command, *arguments], env=variables, stderr=subprocess.PIPE, text=True, cwd="/")
    try:
        assert process.stderr is not None
        lines = list(itertools.takewhile(lambda line: "http://" not in line, process.stderr))
        assert process.poll() is None, "".join(lines)
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)


def test_processes_of_the_same_user_cannot_read_the_keys_of_a_server(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    command, variables = ordinary()
    with serving(tmp_path) as pid:
        assert "chainofcode" in command_of(pid)
        for name in ("environ", "mem", "maps", "fd"):
            reading = (
                f"import os; p = '/proc/{pid}/{name}'; os.listdir(p) if p.endswith('fd') else open(p, 'rb').read(9)"
            )
            done = subprocess.run([*command, "-c", reading], env=variables, capture_output=True, text=True, check=False)
            refusals = ("PermissionError", "FileNotFoundError")  # the latter with the mount option hidepid
            assert any(refusal in done.stderr for refusal in refusals), f"{name} can be read"


def test_an_ordinary_user_runs_programs_although_the_command_is_hidden(tmp_path: Path) -> None:
    """A process that cannot be inspected can still start a sandbox, whose first process can write its id maps."""
    command, variables = ordinary()
    (tmp_path / "p.py").write_text("answer = 6 * 7")
    give(tmp_path / "p.py", "ordinary")
    program = ["-m", "chainofcode", "run", str(tmp_path / "p.py"), "--json"]
    done = subprocess.run([*command, *program], env=variables, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["value"] == 42


# --- databases ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def jail() -> Iterator[Jail]:
    with Jail(spares=1) as jail:
        yield jail


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        """CREATE TABLE items (name TEXT, price REAL); INSERT INTO items VALUES ('cup', 2.5), ('lamp', 30);
        CREATE TABLE others (text);
        CREATE VIEW leaking AS SELECT hex(fts3_tokenizer('simple')) AS pointer;
        CREATE VIEW listing AS SELECT * FROM pragma_database_list;
        CREATE VIEW loading AS SELECT load_extension('/tmp/x') AS x;
        CREATE TRIGGER t AFTER INSERT ON items BEGIN SELECT load_extension('/tmp/x'); END;"""
    )
    connection.close()
    return path


HOSTILE = [
    "SELECT fts3_tokenizer('simple')",
    "SELECT FTS3_Tokenizer('simple')",
    "SELECT hex(\"fts3_tokenizer\"('simple')) AS x",
    "SELECT fts3_tokenizer('simple', x'4141414141414141')",
    "SELECT name FROM items WHERE fts3_tokenizer('simple') IS NOT NULL",
    "SELECT load_extension('/tmp/x')",
    "SELECT sqlite_compileoption_get(0)",
    "SELECT sqlite_log(1, 'x')",
    "SELECT fts5(NULL)",
    "SELECT rtreenode(2, x'00')",
    "SELECT * FROM leaking",
    "SELECT * FROM listing",
    "SELECT * FROM loading",
    "SELECT * FROM pragma_function_list",
    "ATTACH '/etc/passwd' AS x",
    "SELECT readfile('/etc/passwd')",
    "VACUUM INTO '/tmp/copy.db'",
]


@pytest.mark.parametrize("query", HOSTILE)
def test_hostile_queries_are_refused(query: str, shop: Path, jail: Jail) -> None:
    before = shop.read_bytes()
    with pytest.raises(Misfit):
        sql.Query(shop, jail).read(query)
    if "(" in query and "items" not in query and "readfile" not in query:  # SQLite has no such function
        with pytest.raises(Misfit):
            sql.Query(None).read(query)
    assert shop.read_bytes() == before


@pytest.mark.parametrize("query", [query for query in HOSTILE if query.startswith("SELECT")])
def test_hostile_queries_are_refused_in_the_sql_language(query: str, shop: Path, jail: Jail) -> None:
    from chainofcode.methods.queries import asql

    result = asyncio.run(asql(query, lambda pause: None, database=shop, engine="sqlite", sandbox=jail))
    assert not result.is_answered or "readfile" in query  # SQLite has no such function: it is a hole


def test_useful_functions_still_work(shop: Path, jail: Jail) -> None:
    query = (
        "SELECT upper(name) AS n, round(price, 1) AS p, date('2024-01-02', '+1 day') AS d, json_extract('[7]', '$[0]') "
        "AS j, rank() OVER (ORDER BY price) AS r, name LIKE 'c%' AS l, coalesce(NULL, hex(x'01')) AS h, iif(1, 2, 3) "
        "AS i, printf('%d', 4) AS f FROM items ORDER BY price"
    )
    assert sql.Query(shop, jail).read(query)[0] == {
        "n": "CUP", "p": 2.5, "d": "2024-01-03", "j": 7, "r": 1, "l": 1, "h": "01", "i": 2, "f": "4",
    }  # fmt: skip


def test_no_process_outside_the_sandbox_reads_a_database(shop: Path) -> None:
    """Neither the tables for the prompt nor the query: only guests of zygotes do."""
    started: list[str] = []

    def audit(event: str, given: Any) -> None:
        if event == "subprocess.Popen":
            started.append(" ".join(map(str, given[1])))

    sys.addaudithook(audit)
    assert sql.Query(shop).read("SELECT name FROM items LIMIT 1") == [{"name": "cup"}]
    asyncio.run(files_of([shop], RunOptions()))
    assert started
    assert all("sandbox.zygote" in command for command in started), started


def test_damaged_databases_do_no_harm(shop: Path, jail: Jail) -> None:
    """Random bytes in all pages: an error, or rows, within the limits."""
    clean = shop.read_bytes()
    chance = random.Random(32)
    outcomes, messages = set(), [""]
    for _ in range(25):
        damaged = bytearray(clean)
        for _ in range(chance.randrange(1, 200)):
            damaged[chance.randrange(16, len(damaged))] = chance.randrange(256)
        shop.write_bytes(damaged)
        try:
            sql.Query(shop, jail).read("SELECT * FROM items ORDER BY price")
            asyncio.run(files_of([shop], RunOptions(), jail))
            outcomes.add("rows")
        except (ChainOfCodeError, Misfit) as error:
            outcomes.add(type(error).__name__)
            messages.append(str(error))
    assert max(map(len, messages)) < 2000
    assert outcomes <= {"rows", "InputError", "Misfit"} and "InputError" in outcomes


def test_a_database_that_keeps_changing_is_refused(shop: Path, jail: Jail) -> None:
    stopped = threading.Event()

    def write() -> None:
        nanoseconds = shop.stat().st_mtime_ns
        while not stopped.wait(0.0005):
            nanoseconds += 1  # the kernel's own time of a change advances only every few milliseconds
            os.utime(shop, ns=(nanoseconds, nanoseconds))

    thread = threading.Thread(target=write)
    query = sql.Query(shop, jail)
    thread.start()
    try:
        with pytest.raises(InputError, match="it keeps changing"):
            query.read("SELECT name FROM items")
    finally:
        stopped.set()
        thread.join()
    assert query.read("SELECT count(*) AS n FROM items") == [{"n": 2}]


def test_named_pipes_are_no_databases(shop: Path, jail: Jail) -> None:
    """The host reads the beginning of a database and of its journal, and does not wait for a pipe."""
    os.mkfifo(f"{shop}-journal")
    with pytest.raises(InputError, match="not a regular file"):
        sql.Query(shop, jail).read("SELECT name FROM items")
    os.unlink(f"{shop}-journal")
    shop.unlink()
    os.mkfifo(shop)
    with pytest.raises(InputError, match="not a regular file"):
        sql.Query(shop, jail)


def test_unfinished_changes_are_refused(shop: Path, jail: Jail) -> None:
    writing = sqlite3.connect(shop, isolation_level=None)
    writing.execute("PRAGMA cache_size = 1")  # the changes do not fit into memory: some are in the file already
    writing.execute("BEGIN IMMEDIATE")
    for number in range(2000):
        writing.execute("INSERT INTO others VALUES (?)", ["x" * 1000 + str(number)])
    with pytest.raises(InputError, match="unfinished changes"):
        sql.Query(shop, jail).read("SELECT name FROM items")
    writing.execute("ROLLBACK")
    assert len(sql.Query(shop, jail).read("SELECT name FROM items")) == 2
    writing.close()


def test_a_query_ends_when_its_question_is_cancelled(shop: Path, jail: Jail) -> None:
    from chainofcode.methods.isolated import in_thread

    query = sql.Query(shop, jail)
    endless = "SELECT count(*) FROM items " + " ".join(f", items AS t{n}" for n in range(40))

    async def cancel() -> None:
        task = asyncio.create_task(in_thread(query.read, endless))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    before = time.monotonic()
    asyncio.run(cancel())
    assert time.monotonic() - before < sql.MAX_SECONDS / 2  # `asyncio.run` waits for the thread


@pytest.mark.parametrize("tier", ["A", "A-", "B"])
def test_databases_are_queried_in_every_tier_with_files(tier: str, shop: Path) -> None:
    """DuckDB reads the limits of its control group when it starts, and aborts if their files exist but stay closed."""
    from chainofcode.methods.queries import asql

    duckdb = pytest.importorskip("duckdb")
    other = shop.with_suffix(".duckdb")
    with duckdb.connect(str(other)) as connection:
        connection.execute("CREATE TABLE items AS SELECT 'cup' AS name")
    query = "SELECT name FROM items LIMIT 1"
    with Jail(tier) as jail:
        for path in (shop, other):
            assert sql.Query(path, jail).read(query) == [{"name": "cup"}]
            assert asyncio.run(asql(query, None, database=path, sandbox=jail)).rows == [{"name": "cup"}]


def test_no_database_is_read_where_files_cannot_be_granted(shop: Path) -> None:
    with Jail("C") as jail, pytest.raises(SandboxError, match="granting files needs tier A or B"):
        sql.Query(shop, jail)


def test_a_remote_sandbox_reads_the_database(shop: Path) -> None:
    if not has_tier("A"):
        pytest.skip("files for a remote guest need tier A on the server")
    with guest_server() as server:
        query = sql.Query(shop, RemoteSandbox(server.url, server.token))
        assert query.read("SELECT name FROM items LIMIT 1") == [{"name": "cup"}]
        with pytest.raises(Misfit):
            query.read(HOSTILE[0])


DUCKDB = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/proc/self/environ')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM '/etc/passwd'",
    "COPY items TO '/tmp/copied.csv'",
    "ATTACH '/etc/passwd' AS x",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SELECT * FROM read_csv('https://example.com/x.csv')",
    "SET enable_external_access = true",
    "SELECT * FROM sqlite_scan('/etc/passwd', 'x')",
    "EXPORT DATABASE '/tmp/exported'",
    "SELECT * FROM pragma_storage_info('items'); COPY items TO '/tmp/copied.csv'",
]


def test_hostile_duckdb_queries_are_refused(tmp_path: Path, jail: Jail) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE items AS SELECT 'cup' AS name")
    query = sql.Query(path, jail)
    assert query.read("SELECT name FROM items") == [{"name": "cup"}]
    for hostile in DUCKDB:
        with pytest.raises(Misfit):
            query.read(hostile)
    assert not Path("/tmp/copied.csv").exists() and not Path("/tmp/exported").exists()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


WITHOUT_PROC = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--", "/bin/sh", "-c"]
UNREADABLE = "a worker process could not give up its rights: No such file or directory: /proc/self/task"
WORK_WITHOUT_PROC = """
from chainofcode.errors import ChainOfCodeError
from chainofcode.methods import answer_type_of, files_of
from chainofcode.engine import RunOptions
from chainofcode.program import Program
from chainofcode.sandbox.tier_checks import _workers
import asyncio, sys
for work in (
    lambda: asyncio.run(files_of([sys.argv[1]], RunOptions(), "none")),
    lambda: answer_type_of({"type": "string", "pattern": "^a+$"}),
    lambda: Program.parse("answer = 1"),
):
    try:
        work()
    except ChainOfCodeError as error:
        print(type(error).__name__, error)
print(_workers().detail)
"""


def test_a_worker_says_what_its_confinement_could_not_do(tmp_path: Path) -> None:
    """On a system without /proc, where this was taken for a lack of memory, or for a program nested too deeply."""
    hide = f'mount -t tmpfs none /proc && exec {sys.executable} -c "$0" "$1"'
    if subprocess.run([*WITHOUT_PROC, "mount -t tmpfs none /proc"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces here")
    table = tmp_path / "t.csv"
    table.write_text("a,b\n1,2\n")
    done = subprocess.run(
        [*WITHOUT_PROC, hide, WORK_WITHOUT_PROC, str(table)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.splitlines() == [
        f"InputError cannot read {table}: {UNREADABLE}",
        f"InputError schema cannot be used: {UNREADABLE}",
        f"SandboxError cannot parse a program: {UNREADABLE}",
        UNREADABLE,
    ], done.stderr
