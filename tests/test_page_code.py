"""The code of the page: TypeScript checks the types, oxlint the style. Users need neither; there is no build step."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from npm_packages import installed, node

from chainofcode.server.sharing import PAGE

TOOLS = ("typescript@5.9.3", "oxlint@1.93.0")
OPTIONS = {
    "allowJs": True,
    "checkJs": True,
    "noEmit": True,
    "target": "es2023",
    "module": "es2022",
    "moduleResolution": "bundler",
    "lib": ["es2023", "dom", "dom.iterable", "dom.asynciterable"],
    "types": [],
}


def checked(tools: Path, pages: Path, directory: Path) -> str:
    """Return the type errors of all modules in a directory."""
    settings = directory / "tsconfig.json"
    settings.write_text(json.dumps({"compilerOptions": OPTIONS, "include": [f"{pages}/*.js"]}))
    command = [node(), tools / "node_modules" / "typescript" / "bin" / "tsc", "--project", settings]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False).stdout


def linted(tools: Path, pages: Path) -> str:
    # `visible` searches for control characters.
    command = [
        node(),
        tools / "node_modules" / "oxlint" / "bin" / "oxlint",
        "--deny-warnings",
        "-A",
        "no-control-regex",
    ]
    done = subprocess.run([*command, str(pages)], capture_output=True, text=True, timeout=300, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_every_module_enables_type_checks_in_editors() -> None:
    modules = sorted(PAGE.glob("*.js"))
    assert len(modules) > 15
    assert [path.name for path in modules if not path.read_text().startswith("// @ts-check\n")] == []


def test_types_and_lint(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    tools = installed(pytestconfig.cache, *TOOLS)  # type: ignore[arg-type]
    assert checked(tools, PAGE, tmp_path) == ""
    assert linted(tools, PAGE) == ""
    wrong = Path(shutil.copytree(PAGE, tmp_path / "page"))
    with (wrong / "dom.js").open("a") as file:
        file.write('\nexport function wrong() {\n  byId("home").nothing = 1;\n  if (1) debugger;\n}\n')
    assert "Property 'nothing' does not exist on type 'Part'" in checked(tools, wrong, tmp_path)
    assert "debugger" in linted(tools, wrong)
