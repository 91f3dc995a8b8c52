"""The witness notices missing layers: in a copy of the package without one layer, the tier with that layer is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_sandbox import in_tier_a

import chainofcode

SOURCE = Path(chainofcode.__file__).parent
# tier, file, code that is removed, its replacement, words of the witness's report
MUTATIONS = {
    "no seccomp": ("A", "jail.py", "kernel.install_filter(", "len(", "start a process"),
    "no seccomp in C": ("C", "jail.py", "kernel.install_filter(", "len(", "read /etc/passwd"),
    "no Landlock": ("A", "jail.py", "kernel.restrict_files(", "len(", "read /.canary"),
    "no Landlock in B": ("B", "jail.py", "kernel.restrict_files(", "len(", "write /tmp/chainofcode-canary"),
    "capabilities kept": ("A", "jail.py", "kernel.drop_capabilities(but=self.capabilities)", "pass", "use capabilities"),
    "can be looked into": ("A", "jail.py", "kernel.set_dumpable(False)", "pass", "gain privileges"),
    "no limits": ("A", "jail.py", "resource.setrlimit(which, (most, most))", "pass", "exceed limit"),
    "the host's network": ("A", "jail.py", " | kernel.NEWNET", "", "reach a network"),
    "the host's processes": ("A", "jail.py", "if self._own_pids is None:", "if True:", "see other processes"),
    "writable root": ("A", "jail.py", "kernel.restrict_mount(_NEW_ROOT, _READ_ONLY)", "pass", "write in /"),
    "writable cache": ("A", "jail.py", "kernel.restrict_mount(KEPT, _READ_ONLY)", "pass", "write in /.kept"),
    "root in B": ("B", "jail.py", "            self._leave_root()", "            pass", "be root"),
    "root in C": ("C", "jail.py", "            self._leave_root()", "            pass", "be root"),
    "descriptors kept": ("A", "zygote.py", "kernel.close_from(len(fds))", "pass", "use descriptor"),
    "descriptors kept in C": ("C", "zygote.py", "kernel.close_from(len(fds))", "pass", "use descriptor"),
    "any clone": ("A", "seccomp.py", "yield _CLONE, _one_of(", "yield _CLONE, _step(_RETURN, _ALLOW) and [_step(_RETURN, _ALLOW)] or _one_of(", "start a process"),
    "any fcntl": ("A", "seccomp.py", "_FCNTLS, _LOCKS = (0, 1, 2, 3, 4,", "_FCNTLS, _LOCKS = (0, 1, 2, 3, 4, 8,", "have signals sent"),
    "io_uring": ("A", "seccomp.py", '"brk": (12, 214),', '"brk": (12, 214), "io_uring_setup": (425, 425),', "io_uring_setup"),
    "the host's files": ("A", "jail.py", "self._show_paths(owners)", 'self._show_paths(owners); _show("/etc", _READ_ONLY, owners)', "see /etc"),
}  # fmt: skip


@pytest.mark.sampled(2)
@in_tier_a
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_missing_layer_is_noticed(name: str, tmp_path: Path) -> None:
    tier, file, old, new, word = MUTATIONS[name]
    if name.startswith("root") and os.geteuid() != 0:
        pytest.skip("guests can be root only where their host is")
    shutil.copytree(SOURCE, tmp_path / "chainofcode")  # including bytecode
    path = tmp_path / "chainofcode" / "sandbox" / file
    text = path.read_text()
    assert old in text, "the code of this layer has changed; update MUTATIONS"
    path.write_text(text.replace(old, new))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-P", "-m", "chainofcode", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False, cwd="/")
    found = {finding["name"][0]: finding for finding in json.loads(done.stdout)["tiers"]}[tier]
    assert not found["holds"]
    assert "the witness could" in found["detail"]
    assert word in found["detail"]
