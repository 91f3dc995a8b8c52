"""The sandbox as its users see it: which tier is chosen, what is granted, what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import has_tier
from forked import COC
from processes import descendants, is_alive, wait_for

from chainofcode import InputError, Limits, SandboxError, arun, run
from chainofcode.sandbox import Jail, kernel, open_sandbox
from chainofcode.sandbox.pool import TIERS

DENY = [sys.executable, str(Path(__file__).parent / "deny.py")]
ONE_ID = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]  # as in a rootless container
NO_NAMESPACES = [*DENY, "unshare,mount,pivot_root,setns"]
NO_LANDLOCK = [*DENY, "unshare,mount,pivot_root,setns,-landlock_create_ruleset"]
LANDLOCK_ONLY_MISSING = [*DENY, "-landlock_create_ruleset"]
NO_SECCOMP = [*DENY, "prctl:22"]


def coc(*arguments: str, within: list[str] | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [*(within or []), *COC, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


def tier_here() -> str:
    return next((tier for tier in TIERS if has_tier(tier)), "none")


def in_tier_a(function: Any) -> Any:
    return pytest.mark.skipif(tier_here() != "A", reason="tier A of the sandbox is not available on this machine")(
        function
    )


# --- which tier, and refusal --------------------------------------------------------------------------------------


@in_tier_a
@pytest.mark.parametrize(
    ("within", "tier"),
    [([], "A"), (ONE_ID, "A"), (NO_NAMESPACES, "B"), ([*ONE_ID, *NO_NAMESPACES], "B"), (NO_LANDLOCK, "C")],
    ids=["as it is", "one user id", "as in docker", "one user id in docker", "no Landlock"],
)
def test_the_best_tier_is_chosen(within: list[str], tier: str, tmp_path: Path) -> None:
    if within[:1] == ["unshare"] and subprocess.run([*ONE_ID, "true"], capture_output=True, check=False).returncode:
        pytest.skip("ordinary users cannot create namespaces on this machine")
    done = coc("doctor", "--json", within=within)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["tier"] == tier
    for finding in report["tiers"]:
        assert finding["holds"] == (finding["name"][0] >= tier)
        assert finding["holds"] or (finding["detail"] and finding["remedy"])
    program = tmp_path / "p.py"
    program.write_text("import os\ntry:\n    os.listdir('/etc')\nexcept OSError as e:\n    answer = 'refused'")
    done = coc("run", str(program), "--json", within=within)
    assert json.loads(done.stdout)["answer"] == "'refused'"
    assert json.loads(done.stdout)["sandbox"] == tier
    weaker = f"the program ran in sandbox tier {tier}, because tier A does not work here: see coc doctor"
    assert (weaker in coc("run", str(program), within=within).stderr) == (tier != "A")
    assert weaker not in coc("run", str(program), f"--sandbox={tier}", within=within).stderr  # as the user chose


def test_every_user_gets_tier_a_if_the_kernel_has_its_layers() -> None:
    """Also an ordinary user: ordinary_user.py runs this file as one."""
    namespaces = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--net", "--fork", "true"]
    if subprocess.run(namespaces, capture_output=True, check=False).returncode != 0:
        pytest.skip("this user cannot create namespaces on this machine")
    with contextlib.suppress(OSError):
        kernel.landlock_abi()
        assert has_tier("A")


def test_programs_are_refused_without_a_sandbox(tmp_path: Path) -> None:
    program = tmp_path / "p.py"
    program.write_text("answer = 42")
    done = coc("run", str(program), within=NO_SECCOMP)
    assert done.returncode == 2
    assert done.stdout == ""
    for word in (
        "no sandbox can be built",
        "tier A",
        "tier B",
        "tier C",
        "PR_SET_SECCOMP",
        "coc doctor",
        "--sandbox none",
    ):
        assert word in done.stderr
    assert coc("doctor", within=NO_SECCOMP).returncode == 2
    done = coc("run", str(program), "--sandbox=none", within=NO_SECCOMP)
    assert done.returncode == 0
    assert "no sandbox" in done.stderr


def test_doctor_is_readable() -> None:
    done = coc("doctor")
    assert done.returncode == 0
    assert done.stdout.startswith("programs run in tier ")
    for word in ("namespaces", "Landlock", "seccomp", "rlimits", "docker", "podman", "workers"):
        assert word in done.stdout
    done = coc("doctor", within=NO_NAMESPACES)
    assert "to enable it: ordinary users cannot create namespaces here" in done.stdout


@in_tier_a
def test_a_tier_without_landlock_has_its_own_name(tmp_path: Path) -> None:
    program = tmp_path / "p.py"
    program.write_text("open('x', 'w').write('kept')\nanswer = open('x').read()")
    done = coc("run", str(program), "--scratch", "--json", within=LANDLOCK_ONLY_MISSING)
    assert (json.loads(done.stdout)["sandbox"], json.loads(done.stdout)["answer"]) == ("A-", "'kept'")
    report = json.loads(coc("doctor", "--json", within=LANDLOCK_ONLY_MISSING).stdout)
    assert report["tier"] == "A-"
    assert [finding["name"].split()[0] for finding in report["tiers"] if finding["holds"]] == ["A-", "C"]


@in_tier_a
@pytest.mark.parametrize(
    ("within", "least", "runs"),
    [([], "A", True), (LANDLOCK_ONLY_MISSING, "A", False), (LANDLOCK_ONLY_MISSING, "A-", True), (NO_NAMESPACES, "A-", False),
     (NO_NAMESPACES, "B", True), (NO_LANDLOCK, "B", False), (NO_LANDLOCK, "C", True)],
)  # fmt: skip
def test_a_tier_below_the_minimum_is_refused(within: list[str], least: str, runs: bool, tmp_path: Path) -> None:
    program = tmp_path / "p.py"
    program.write_text("answer = 42")
    done = coc("run", str(program), "--sandbox-at-least", least, within=within)
    assert (done.returncode, "42" in done.stdout) == ((0, True) if runs else (2, False)), done.stderr
    if not runs:
        for word in (
            f"  tier {least}: ",
            "not permitted" if within is NO_NAMESPACES else "landlock",
            "coc doctor",
            "to run in a lower tier",
        ):
            assert word in done.stderr
        assert "--sandbox none" not in done.stderr


@in_tier_a
def test_a_server_and_the_library_refuse_a_tier_below_the_minimum(tmp_path: Path) -> None:
    serving = ["serve", "--port", "0", "--data", str(tmp_path / "data"), "--model", "scripted:/dev/null"]
    done = coc(*serving, "--sandbox-at-least", "A", within=NO_NAMESPACES)
    assert done.returncode == 2
    assert "tier A: unshare" in done.stderr
    code = "from chainofcode import Jail, run\nfor sandbox in ('A+', Jail(at_least='A')): print(run('answer = 1', sandbox=sandbox))"
    done = subprocess.run([*NO_NAMESPACES, sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "SandboxError" in done.stderr and "tier A: unshare" in done.stderr
    assert run("answer = 1", sandbox="A+").trace.answer.sandbox == "A"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "word"),
    [(["--sandbox-at-least", "Z"], "unknown sandbox tier 'Z' (expected one of: A, A-, B, C)"),
     (["--sandbox-at-least", "A", "--sandbox", "none"], "not allowed with argument"),
     (["--sandbox", "none", "--sandbox-at-least", "A"], "not allowed with argument")],
)  # fmt: skip
def test_contradictory_options_are_refused(options: list[str], word: str, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("answer = 1")
    done = coc("run", str(tmp_path / "p.py"), *options)
    assert done.returncode == 2 and word in done.stderr
    with pytest.raises(InputError, match="below tier A"):
        Jail("B", at_least="A")


def test_unknown_sandbox_is_refused() -> None:
    with pytest.raises(InputError, match="expected one of: auto, A, B, C"):
        run("answer = 1", sandbox="Z")


def test_result_names_its_tier() -> None:
    assert run("answer = 1").trace.answer.sandbox == tier_here()  # type: ignore[union-attr]
    assert run("answer = 1", sandbox="none").trace.answer.sandbox == "none"  # type: ignore[union-attr]


# --- grants -------------------------------------------------------------------------------------------------------

TIERS_WITH_FILES = ["A", "B"]


@pytest.mark.parametrize("tier", TIERS_WITH_FILES)
def test_only_granted_files_can_be_read(tier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    granted, outside = tmp_path / "granted dir", tmp_path / "beside.txt"
    granted.mkdir()
    (granted / "in it.txt").write_text("yes")
    (tmp_path / "one.csv").write_text("1,2")
    (tmp_path / "link.csv").symlink_to("one.csv")
    outside.write_text("no")
    monkeypatch.chdir(tmp_path)
    program = """
def attempt(path, mode="r"):
    try:
        with open(path, mode) as file:
            return file.read() if mode == "r" else "written"
    except OSError as error:
        return "refused"
answer = [attempt(path) for path in paths] + [attempt(paths[0], "w"), attempt(paths[0], "a")]
"""
    paths = [
        f"{granted}/in it.txt",
        "granted dir/in it.txt",
        f"{tmp_path}/one.csv",
        "one.csv",
        "link.csv",
        str(outside),
    ]
    result = run(
        program, sandbox=tier, inputs={"paths": paths}, reads=(str(granted), "granted dir", "one.csv", "link.csv")
    )
    assert result.answer == ["yes", "yes", "1,2", "1,2", "1,2", "refused", "refused", "refused"], result
    assert (granted / "in it.txt").read_text() == "yes"
    result = run(program, sandbox=tier, inputs={"paths": ["one.csv", str(outside)]}, reads=(".",))
    assert result.answer == ["1,2", "no", "refused", "refused"]
    assert run(program, sandbox=tier, inputs={"paths": ["one.csv"]}).answer == ["refused"] * 3


@pytest.mark.parametrize("path", ["nowhere.txt", "/", "/proc/self", "/dev"])
def test_impossible_grants_are_refused(path: str) -> None:
    with pytest.raises(InputError, match="cannot grant"):
        run("answer = 1", reads=(path,))


def test_command_grants_reading_but_not_writing(tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_text("seven")
    (tmp_path / "p.py").write_text("answer = open('d.txt').read()\nopen('new.txt', 'w').write(answer)")
    done = coc("run", "p.py", "--allow-read", "d.txt", cwd=tmp_path)
    assert done.returncode == 1
    if tier_here() == "A":
        done = coc("run", "p.py", "--allow-read", "d.txt", "--scratch", "--limit", "scratch=100000", cwd=tmp_path)
        assert "answer: 'seven'" in done.stdout
    assert not (tmp_path / "new.txt").exists()


@in_tier_a
def test_scratch_is_the_programs_own(tmp_path: Path) -> None:
    leave = "import os\nfound = os.listdir('.')\nopen('left.txt', 'w').write('here')\nx = f(1)\nanswer = (found, os.listdir('.'))"

    async def both() -> list[Any]:
        gate = asyncio.Event()

        async def meet(pause: Any) -> int:
            """Wait until both programs have written."""
            waiting.append(pause)
            if len(waiting) == 2:
                gate.set()
            await gate.wait()
            return 1

        waiting: list[Any] = []
        with Jail("A") as jail:
            results = await asyncio.gather(*[arun(leave, meet, sandbox=jail, scratch=True) for _ in range(2)])
            gate.set()
            results.append(await arun(leave, meet, sandbox=jail, scratch=True))
            return [result.answer for result in results]

    assert asyncio.run(both()) == [([], ["left.txt"])] * 3


@in_tier_a
def test_scratch_is_bounded() -> None:
    program = """
written = 0
try:
    for number in range(50):
        with open(f"{number}.bin", "wb") as file:
            written += file.write(bytes(100_000))
except OSError as error:
    answer = (written, error.errno)
"""
    written, error = run(program, scratch=True, limits=Limits(scratch_bytes=1_000_000)).answer
    assert error in (27, 28)  # too large, no space left
    assert written <= 1_000_000
    many = "import os\ntry:\n    for n in range(10_000): open(str(n), 'w').close()\nexcept OSError as e:\n    answer = e.errno"
    assert run(many, scratch=True, limits=Limits(scratch_bytes=1_000_000)).answer == 28


@pytest.mark.parametrize("tier", ["B", "C", "none"])
def test_scratch_needs_tier_a(tier: str) -> None:
    with pytest.raises(SandboxError, match="scratch"):
        run("answer = 1", scratch=True, sandbox=tier)


NUMBERS = """
import io
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import sympy

frame = pd.read_csv(io.StringIO("a,b\\n1,2\\n3,4"))
plt.plot(frame.a, frame.b)
picture = io.BytesIO()
plt.savefig(picture, format="png")
x = sympy.symbols("x")
answer = (int(frame.b.sum()), str(sympy.diff(x**3)), float(np.linalg.det(np.eye(2))), picture.getvalue()[1:4])
"""


@pytest.mark.parametrize("tier", TIERS_WITH_FILES)
def test_scientific_packages_work(tier: str) -> None:
    result = run(NUMBERS, sandbox=tier, packages=("numpy", "pandas", "sympy", "matplotlib"))
    assert result.answer == (6, "3*x**2", 1.0, b"PNG"), result


def test_packages_in_a_tier_without_files() -> None:
    program = "import numpy as np, pandas as pd\nanswer = (int(np.arange(5).sum()), int(pd.Series([1, 2]).sum()))"
    assert run(program, sandbox="C", packages=("numpy", "pandas")).answer == (10, 3)


def test_packages_that_are_not_granted_are_not_there() -> None:
    hidden = "import os, sys, sysconfig\nanswer = [p for p in paths if os.path.exists(p)]"
    site = str(Path(pytest.__file__).parent.parent)
    result = run(hidden, inputs={"paths": [f"{site}/pytest", f"{site}/numpy"]}, packages=("numpy",))
    assert result.answer == [f"{site}/numpy"]


def test_environment_of_the_host_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    with Jail() as jail:  # a new one, started with this environment
        result = run("import os\nanswer = dict(os.environ)", sandbox=jail)
    assert "SECRET_TOKEN" not in result.answer
    assert "hunter2" not in str(result.answer)
    assert result.answer["PYTHONHASHSEED"] == "0"


def test_a_sandbox_that_was_opened_by_name_is_closed() -> None:
    before = descendants(os.getpid())
    assert run("answer = 1", sandbox="C+").answer == 1
    wait_for(lambda: descendants(os.getpid()) == before)


# --- a sandbox that is used again ---------------------------------------------------------------------------------


def test_one_jail_for_threads_and_event_loops() -> None:
    answers: list[Any] = []
    with Jail(spares=2) as jail:

        def work(n: int) -> None:
            answers.append(run(f"answer = {n} + f({n})", lambda pause: 1, sandbox=jail).answer)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(answers) == list(range(1, 13))


def test_grants_do_not_leak_between_programs(tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text("secret")
    program = "try:\n    answer = open(path).read()\nexcept OSError:\n    answer = 'refused'"
    with Jail() as jail:
        inputs = {"path": str(tmp_path / "s.txt")}
        assert run(program, inputs=inputs, reads=(str(tmp_path),), sandbox=jail).answer == "secret"
        assert run(program, inputs=inputs, sandbox=jail).answer == "refused"


def test_a_jail_outlives_its_zygote() -> None:
    with Jail() as jail:
        assert run("answer = 1", sandbox=jail).answer == 1
        (zygote,) = jail._zygotes.values()
        zygote._process.kill()
        zygote._process.wait()
        for _ in range(20):  # its death may be noticed late; spare guests die with it
            with contextlib.suppress(SandboxError):
                if run("answer = 2", sandbox=jail).answer == 2:
                    return
        pytest.fail("no zygote came back")


def test_forked_host_gets_its_own_zygotes() -> None:
    with Jail() as jail:
        assert run("answer = 1", sandbox=jail).answer == 1
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if run("answer = 2", sandbox=jail).answer == 2 else 1
                jail.close()
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert run("answer = 3", sandbox=jail).answer == 3


def test_nothing_outlives_its_host(tmp_path: Path) -> None:
    """When the host is killed, its keeper, zygotes and guests die with it."""
    code = "import chainofcode as c; c.run('import time\\ntime.sleep(91)')"
    host = subprocess.Popen([sys.executable, "-c", code])
    count = 3 if tier_here() == "A" else 2
    children = wait_for(lambda: found if len(found := descendants(host.pid)) >= count else [])
    host.kill()
    host.wait()
    wait_for(lambda: not any(map(is_alive, children)))


# --- containers ---------------------------------------------------------------------------------------------------


@pytest.fixture
def podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed here")
    if shutil.which("runc"):  # crun refuses machines with both kinds of cgroups mounted
        (tmp_path / "containers.conf").write_text('[engine]\nruntime = "runc"\n')
        monkeypatch.setenv("CONTAINERS_CONF", str(tmp_path / "containers.conf"))
    try:
        works = run("answer = 1", sandbox="podman").answer == 1
    except SandboxError:
        if os.geteuid() == 0:
            raise
        works = False  # a user without subordinate ids
    if not works:
        pytest.skip("podman cannot run containers here")
    return "podman"


def test_container(podman: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.txt").write_text("seven")
    (tmp_path / "secret.txt").write_text("no")
    program = """
import os, socket
def attempt(what, *args):
    try:
        return bool(what(*args)) or True
    except OSError:
        return False
tried = [
    attempt(open, secret), attempt(open, "/etc/shadow"), attempt(open, "/new", "w"), attempt(open, "d.txt", "w"),
    attempt(socket.create_connection, ("192.0.2.1", 80), 1), attempt(os.setuid, 0),
]
open("made.txt", "w").write(open("d.txt").read())
answer = (f(open("made.txt").read()), tried)
"""
    result = run(
        program, lambda pause: pause.args[0] * 2, sandbox=podman, inputs={"secret": str(tmp_path / "secret.txt")},
        reads=("d.txt",), scratch=True,
    )  # fmt: skip
    assert result.answer == ("sevenseven", [False] * 6), result
    assert result.trace.answer.sandbox == "podman"  # type: ignore[union-attr]
    assert not (tmp_path / "made.txt").exists()
    assert run("while True: pass", sandbox=podman, limits=Limits(run_seconds=1)).reason == "limit:run"
    assert run("x = 'x' * 10**10", sandbox=podman).reason == "limit:memory"
    listed = subprocess.run([podman, "ps", "-aq"], capture_output=True, text=True, check=True).stdout
    assert listed == ""


def test_missing_container_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match="no command `docker`"):
        run("answer = 1", sandbox="docker")
    assert open_sandbox("podman:python:3.12-slim") is not None


@pytest.mark.parametrize(
    ("package", "why"),
    [
        ("sys", "it is part of Python and needs no grant"),
        ("PyYAML", "did you mean yaml?"),
        ("", "the name is empty"),
        ("not_here", "no such package is installed here (pip install not_here)"),
        ("cv2", "no such package is installed here (pip install opencv-python)"),
    ],
)
def test_a_package_that_cannot_be_granted(package: str, why: str) -> None:
    with pytest.raises(InputError, match=f"cannot grant '{package}': .*{re.escape(why)}"):
        run("answer = 1", packages=[package])


def test_all_missing_packages_are_named() -> None:
    words = "cannot grant 'not_here', 'nor_this': no such packages are installed here (pip install not_here nor_this)"
    with pytest.raises(InputError, match=f"^{re.escape(words)}$"):
        run("answer = 1", packages=["not_here", "msgspec", "nor_this"])


def test_a_file_without_a_name_cannot_be_granted() -> None:
    with pytest.raises(InputError, match="cannot grant '' for reading: name a file or a directory"):
        run("answer = 1", reads=[""])
