"""The distributions: what they contain, and that the wheel works in a fresh environment."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytest.importorskip("build", reason="build is not installed: pip install 'chainofcode[dev]'")
pytest.importorskip("hatchling", reason="hatchling is not installed: pip install 'chainofcode[dev]'")


def run_command(*command: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, cwd=cwd, env=clean)


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel and a source distribution, built without a network."""
    folder = tmp_path_factory.mktemp("dist")
    built = run_command(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_the_metadata_is_accepted_by_pypi(distributions: Path) -> None:
    pytest.importorskip("twine", reason="twine is not installed: pip install 'chainofcode[dev]'")
    checked = run_command(sys.executable, "-m", "twine", "check", "--strict", *sorted(distributions.iterdir()))
    assert checked.returncode == 0, checked.stdout


def test_the_wheel_has_everything_that_the_package_reads(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    listed = run_command("git", "ls-files", "src/chainofcode").stdout.split()
    if not listed:
        pytest.skip("this is not a git checkout")
    assert {name.removeprefix("src/") for name in listed if (ROOT / name).exists()} <= names
    assert "chainofcode/py.typed" in names
    assert {"chainofcode/examples/README.md", "chainofcode/examples/fruit.py"} <= names


def test_the_source_distribution_has_the_documents_and_the_tests(distributions: Path) -> None:
    (source,) = distributions.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "docs/start.md", "tests/test_distribution.py"} <= names
    assert not any(name.startswith((".venv", "site/", "dist/")) for name in names)


def test_the_wheel_works_in_a_fresh_environment(distributions: Path, tmp_path: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    home = tmp_path / "fresh"
    assert run_command(sys.executable, "-m", "venv", home).returncode == 0
    pip = run_command(home / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    if pip.returncode != 0 and "No matching distribution found for msgspec" in pip.stderr:
        pytest.skip("no package index can be reached, so the wheel's dependency cannot be installed")
    assert pip.returncode == 0, pip.stderr

    for name in ("fruit.py", "fruit.jsonl"):
        shutil.copy(ROOT / "examples" / name, tmp_path / name)
    ran = run_command(home / "bin" / "coc", "run", "fruit.py", "--values", "fruit.jsonl", cwd=tmp_path)
    assert ran.stdout.startswith("answer: '2 of 4 are fruit'"), ran.stderr
    ran = run_command(home / "bin" / "coc", "examples", "fruit", cwd=tmp_path)
    assert ran.stdout.startswith("answer: '2 of 4 are fruit'"), ran.stderr
    version = run_command(home / "bin" / "chainofcode", "--version", cwd=tmp_path).stdout
    assert version.split()[1] in wheel.name

    freeze = run_command(home / "bin" / "pip", "list", "--format=freeze").stdout.lower().split()
    installed = {line.partition("==")[0] for line in freeze} - {"pip", "setuptools", "chainofcode"}
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    assert len(installed) == len(declared), installed


def test_the_wheel_has_the_licences_of_all_its_parts(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name.partition(".dist-info/")[2] for name in archive.namelist()}
        (metadata,) = [
            archive.read(name).decode() for name in archive.namelist() if name.endswith(".dist-info/METADATA")
        ]
    acorn = "licenses/src/chainofcode/languages/javascript/acorn"
    assert {"licenses/LICENSE", f"{acorn}/LICENSE", f"{acorn}/LICENSE-acorn-typescript"} <= names
    assert "License-Expression: Apache-2.0 AND MIT" in metadata


def test_workflows_pin_every_action_and_hide_no_failure() -> None:
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        assert "|| true" not in text
        for use in re.findall(r"uses: (.+)", text):
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+\b.*", use), use
        for command in re.findall(r"run: (?:.*&& )?(pip install.*)", text):
            assert "--require-hashes" in command, command


@pytest.mark.parametrize("name", ["image", "release"])
def test_tools_of_a_release_and_packages_of_the_image_have_hashes(name: str) -> None:
    """And the versions with which everything is tested."""
    text = (ROOT / "deploy" / f"{name}.txt").read_text(encoding="utf-8")
    tested = set(re.findall(r"(?m)^([\w.-]+==\S+)", (ROOT / "requirements.txt").read_text(encoding="utf-8")))
    entries = re.findall(r"(?m)^([\w.-]+==\S+)((?:.*\\\n)*.*)", text)
    assert len(entries) > 30
    for requirement, rest in entries:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", rest), requirement
        assert requirement in tested
    wanted = {line for line in (ROOT / "deploy" / f"{name}.in").read_text().splitlines() if not line.startswith("#")}
    assert wanted <= {requirement.partition("==")[0] for requirement, _ in entries}
    assert "://" not in text  # no index


@pytest.mark.parametrize("name", ["image", "release"])
@pytest.mark.nightly
def test_locked_files_can_be_installed(name: str) -> None:
    """On this platform, from the index of this machine: pip finds a file with one of the hashes for each package."""
    options = ["--dry-run", "--quiet", "--no-deps", "--ignore-installed", "--require-hashes", "--only-binary=:all:"]
    run_command(sys.executable, "-m", "pip", "install", *options, "--requirement", str(ROOT / "deploy" / f"{name}.txt"))


def test_the_hooks_update_the_lock_files() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install 'chainofcode[dev]'")
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = [(repo["rev"], hook) for repo in config["repos"] for hook in repo["hooks"]]
    compiled = [hook for _, hook in hooks if hook["id"] == "pip-compile"]
    locks = [hook["args"][-1] for hook in compiled]
    assert locks == ["requirements.txt", "deploy/image.txt", "deploy/release.txt"]
    for hook, lock in zip(compiled, locks, strict=True):
        sources = [word for word in hook["args"] if word.endswith((".in", ".toml"))]
        for name in (*sources, lock):  # the hook's own default matches only requirements.txt and .in
            assert (ROOT / name).is_file() and re.search(hook["files"], name), name
        assert lock.endswith((".txt", ".in")), "dependabot reads no other files of pip"
    (ruff,) = (rev for rev, hook in hooks if hook["id"] == "ruff-format")
    assert f"ruff=={ruff.removeprefix('v')}" in (ROOT / locks[0]).read_text(encoding="utf-8").splitlines()
    dependabot = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text(encoding="utf-8"))
    assert {"pip", "docker", "pre-commit", "github-actions"} == {
        one["package-ecosystem"] for one in dependabot["updates"]
    }


def test_workflows_and_metadata_are_well_formed() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install 'chainofcode[dev]'")
    workflows = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").glob("*.yml")}
    assert {"lint", "tests", "docs", "build"} <= workflows["ci"]["jobs"].keys()
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    for version in workflows["ci"]["jobs"]["tests"]["strategy"]["matrix"]["python"]:
        assert f"Programming Language :: Python :: {version}" in classifiers
    publish = workflows["publish"]["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}, "trusted publishing needs no secret"
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == version_of_package()


def version_of_package() -> str:
    return run_command(sys.executable, "-c", "import chainofcode; print(chainofcode.__version__)").stdout.strip()


def test_the_lock_file_has_a_version_for_every_requirement() -> None:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    locked = [Requirement(line) for line in lines if not line.startswith("#")]
    versions = {
        canonicalize_name(requirement.name): next(iter(requirement.specifier)).version for requirement in locked
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for text in [*project["dependencies"], *project["optional-dependencies"]["dev"]]:
        required = Requirement(text)
        assert required.specifier.contains(versions[canonicalize_name(required.name)]), text
