"""The files that deploy it: what the Dockerfile copies exists and is sent along, compose.yaml says what it means to."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from conftest import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
# Lines that end with a backslash go on, comments are none.
INSTRUCTIONS = [
    line.split(None, 1)
    for line in re.sub(r"\\\n\s*", " ", re.sub(r"(?m)^#.*\n", "", DOCKERFILE)).splitlines()
    if line.strip()
]


def of(name: str) -> list[str]:
    return [rest for instruction, rest in INSTRUCTIONS if instruction == name]


def test_instructions_are_known() -> None:
    known = {"FROM", "ENV", "RUN", "WORKDIR", "COPY", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "CMD"}
    assert {name for name, _ in INSTRUCTIONS} <= known


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = [word for rest in of("COPY") if not rest.startswith("--from") for word in rest.split()[:-1]]
    assert copied
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignored, name


def test_it_runs_without_rights() -> None:
    stages = DOCKERFILE.split("\nFROM ")
    assert len(stages) == 3
    assert of("USER") == ["10001:10001"]
    last = [name for name, _ in INSTRUCTIONS]
    assert last.index("USER") > max(place for place, name in enumerate(last) if name == "RUN")
    assert all(":" in rest.split()[0] and "latest" not in rest for rest in of("FROM"))


def test_commands_are_lists_that_shells_never_see() -> None:
    (command,) = of("CMD")
    assert json.loads(command)[:2] == ["coc", "serve"]
    (check,) = of("HEALTHCHECK")
    words = json.loads(check.partition("CMD ")[2])
    assert "/healthz" in words[-1]
    compile(words[-1], "healthcheck", "exec")
    port = json.loads(command)[json.loads(command).index("--port") + 1]
    assert of("EXPOSE") == [port]
    assert f":{port}/" in words[-1]


def test_extras_exist() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (named,) = re.findall(r"'\.\[([\w,]+)\]'", DOCKERFILE)
    assert set(named.split(",")) <= set(project["optional-dependencies"])


def test_compose() -> None:
    yaml = pytest.importorskip("yaml")
    compose: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    services = compose["services"]
    assert set(services) == {"coc", "ollama", "pull"}
    ours = services["coc"]
    assert (ROOT / ours["build"] / "Dockerfile").is_file()
    assert ours["ports"] == ["127.0.0.1:8321:8321"]
    assert ours["read_only"] is True and ours["cap_drop"] == ["ALL"]
    assert "privileged" not in ours and not any("docker.sock" in volume for volume in ours["volumes"])
    assert ours["environment"]["COC_TOKEN"].startswith("${COC_TOKEN:?")
    for service in services.values():
        for other in service.get("depends_on", {}):
            assert other in services
        for volume in service.get("volumes", []):
            assert volume.partition(":")[0] in compose["volumes"]
    assert of("VOLUME") == [ours["volumes"][0].partition(":")[2]]
