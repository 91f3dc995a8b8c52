"""The rules of the project as tests: the order of modules, sizes, no globals, a fast import."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from chainofcode.languages import LANGUAGES

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "chainofcode"
FILES = sorted(SOURCE.rglob("*.py"))
# A module imports only from those before it.
ORDER = [
    "boot",
    "interrupts",
    "platforms",
    "reasons",
    "errors",
    "credentials",
    "lm",
    "values",
    "languages",
    "program",
    "sandbox",
    "seals",
    "trace",
    "render",
    "markup",
    "emulator",
    "engine",
    "explain",
    "methods",
    "audit",
    "evals",
    "server",
    "notebook",
    "cli",
]


def part(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> list[str]:
    """The modules of this package that a file imports, as dotted names below the package."""
    found = []
    depth = len(path.relative_to(SOURCE).parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            if node.level == depth:  # relative to the package itself
                found += [f"{node.module}.{a.name}" if node.module else a.name for a in node.names]
            else:
                found += [f"{part(path)}.{node.module or a.name}" for a in node.names]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_only_what_comes_before(path: Path) -> None:
    own = part(path)
    if own in ("__init__", "__main__"):
        return
    for name in imports(path):
        other = name.partition(".")[0]
        if other in ORDER and other != own:
            assert ORDER.index(other) < ORDER.index(own), f"{own} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_size_and_style(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "a module needs a docstring"
    assert text.count("\n") <= 500
    limit = 40 if path == SOURCE / "engine" / "loop.py" else 70
    for node in ast.walk(tree):
        assert not isinstance(node, ast.Global), f"global at line {node.lineno}"
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert (node.end_lineno or 0) - node.lineno < limit, node.name
    assert not re.search(r"\b(pickle|marshal|shelve)\b.*import|import.*\b(pickle|marshal|shelve)\b", text)


# Files that run in the zygote and in guests, and so may need only the standard library.
ZYGOTE = [
    SOURCE / "sandbox" / f"{name}.py"
    for name in ("kernel", "seccomp", "tiers", "jail", "cgroup_limits", "witness", "zygote")
]


@pytest.mark.parametrize(
    "path", [p for p in FILES if part(p) in ("values", "languages")] + ZYGOTE, ids=lambda p: p.name
)
def test_guest_files_use_the_standard_library_only(path: Path) -> None:
    """And the packages that the language declares, because its guest is granted these."""
    folder = path.relative_to(SOURCE).parts[1] if part(path) == "languages" else ""
    granted = LANGUAGES[folder].packages if folder in LANGUAGES else ()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        for name in names:
            assert name.partition(".")[0] in {*sys.stdlib_module_names, "chainofcode", *granted}, name


def test_no_vague_module_names() -> None:
    assert not {path.name for path in FILES} & {"utils.py", "base.py", "config.py", "helpers.py", "common.py"}


def test_public_names() -> None:
    import chainofcode

    assert len(chainofcode.__all__) <= 30
    for name in chainofcode.__all__:
        assert getattr(chainofcode, name) is not None


def test_import_is_light() -> None:
    """It takes under 200 ms of CPU time; the fastest of five counts, because the machine may be busy."""
    timing = "import time; t = time.process_time(); import chainofcode; print(time.process_time() - t)"
    seconds = [
        float(subprocess.run([sys.executable, "-c", timing], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    ]
    assert min(seconds) < 0.2


def test_public_names_exist() -> None:
    import chainofcode

    homes = [name for names in chainofcode._HOMES.values() for name in names]
    assert sorted(homes) == sorted(chainofcode.__all__) == dir(chainofcode)
    for name in chainofcode.__all__:
        assert getattr(chainofcode, name) is not None


def test_few_dependencies() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert len(project["dependencies"]) <= 15


def test_files_contain_no_local_paths() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    for name in listed or [str(path.relative_to(ROOT)) for path in FILES]:
        text = (ROOT / name).read_text(encoding="utf-8", errors="replace") if (ROOT / name).is_file() else ""
        assert str(ROOT) not in text and f"{ROOT.parent}/shared" not in text, name


# --- structure ----------------------------------------------------------------------------------------------------


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in FILES if path.parent != SOURCE or path.name != "__init__.py"}


def imported_modules(path: Path) -> set[str]:
    """The modules of this package that a file imports, also late, but not those for type checkers only."""
    package = list(path.relative_to(SOURCE).parts[:-1])
    found = set()
    for node in ast.walk(_without_type_checking(ast.parse(path.read_text(encoding="utf-8")))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            module = ".".join([*base, *((node.module or "").split(".") if node.module else [])])
            names = [f"{module}.{alias.name}".lstrip(".") for alias in node.names]
            found |= {name if name in MODULES else module for name in names}
    return found & MODULES.keys()


def _without_type_checking(tree: ast.Module) -> ast.Module:
    kept = [node for node in tree.body if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")]
    return ast.Module(kept, [])


def test_no_import_cycles() -> None:
    """Modules that import no remaining module can be removed, again and again, until none remains."""
    left = {name: imported_modules(path) - {name} for name, path in MODULES.items()}
    while ready := [name for name, needs in left.items() if not needs & left.keys()]:
        for name in ready:
            del left[name]
    assert not left, f"these modules import each other: {', '.join(sorted(left))}"


def test_one_word_has_one_meaning() -> None:
    """No two public classes and no two modules have the same name.

    A command's module is named after the command; each language has the same modules.
    """
    homes: dict[str, list[str]] = {}
    for name, path in MODULES.items():
        is_named_by_folder = path.parent == SOURCE / "cli" / "commands" or name.endswith(".guest.main")
        if not is_named_by_folder and path.name != "__init__.py":
            homes.setdefault(path.stem, []).append(name)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(name)
    assert not {word: places for word, places in homes.items() if len(places) > 1}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_nested_conditionals_and_few_parameters(path: Path) -> None:
    """No conditional expression inside another, and at most five positional parameters."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.IfExp):
            inside = [part for child in ast.iter_child_nodes(node) for part in ast.walk(child)]
            assert not any(isinstance(part, ast.IfExp) for part in inside), f"line {node.lineno}"
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
            assert len([name for name in names if name not in ("self", "cls")]) <= 5, node.name
