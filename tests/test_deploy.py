"""Deployment files (Dockerfile, compose.yaml, systemd unit, Kubernetes manifests, Grafana dashboard), and backups as
docs/deploy.md describes them."""

from __future__ import annotations

import concurrent.futures
import configparser
import itertools
import json
import os
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import ROOT
from serving import FRUIT, Serving, served

from chainofcode.cli import _parser as command_parser

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
# Without comments; a line that ends with a backslash is joined with the next.
INSTRUCTIONS = [
    line.split(None, 1)
    for line in re.sub(r"\\\n\s*", " ", re.sub(r"(?m)^#.*\n", "", DOCKERFILE)).splitlines()
    if line.strip()
]


def arguments_of(name: str) -> list[str]:
    return [rest for instruction, rest in INSTRUCTIONS if instruction == name]


def test_dockerfile_instructions_are_known() -> None:
    known = {
        "FROM",
        "ARG",
        "ENV",
        "RUN",
        "WORKDIR",
        "COPY",
        "USER",
        "VOLUME",
        "EXPOSE",
        "STOPSIGNAL",
        "HEALTHCHECK",
        "CMD",
    }
    assert {name for name, _ in INSTRUCTIONS} <= known


def test_copied_files_exist_and_are_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = [word for rest in arguments_of("COPY") if not rest.startswith("--from") for word in rest.split()[:-1]]
    assert copied
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignored, name


def test_the_image_copies_what_the_wheel_contains() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]
    needed = [*wheel["packages"], *wheel["force-include"]]
    copied = [word for rest in arguments_of("COPY") if not rest.startswith("--from") for word in rest.split()[:-1]]
    assert all(any(name == place or name.startswith(f"{place}/") for place in copied) for name in needed), needed
    for rest in arguments_of("COPY"):  # a directory keeps its name
        *sources, target = rest.split()
        assert rest.startswith("--from") or target == "./" or sources == [target.removeprefix("./")]


def test_container_runs_as_unprivileged_user() -> None:
    stages = DOCKERFILE.split("\nFROM ")
    assert len(stages) == 3
    assert arguments_of("USER") == ["10001:10001"]
    last = [name for name, _ in INSTRUCTIONS]
    assert last.index("USER") > max(place for place, name in enumerate(last) if name == "RUN")
    assert all(":" in rest.split()[0] and "latest" not in rest for rest in arguments_of("FROM"))


def test_only_known_images_are_used() -> None:
    """RELEASING.md pins them by digest, which needs a registry. A syntax line would be another image."""
    digest = r"(@sha256:[0-9a-f]{64})?"
    compose = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    images = [rest.split()[0] for rest in arguments_of("FROM")] + re.findall(
        r"image: \$\{OLLAMA_IMAGE:-(.*?)\}", compose
    )
    assert len(images) == 2 + len(re.findall(r"(?m)^\s+image:", compose))
    for image in images:
        assert re.fullmatch(rf"(python:3\.12-slim-bookworm|ollama/ollama:\w[\w.-]*){digest}", image), image
    assert "# syntax" not in DOCKERFILE
    releasing = (ROOT / "RELEASING.md").read_text(encoding="utf-8")
    for image in images:
        assert f"imagetools inspect {image.partition('@')[0]} " in releasing


def test_the_image_installs_by_hash() -> None:
    first, second = (rest for rest in arguments_of("RUN") if "pip install" in rest)
    assert "--require-hashes --requirement deploy/image.txt" in first
    assert "--no-build-isolation --constraint requirements.txt" in second
    locked = (ROOT / "deploy" / "image.txt").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (extras,) = re.findall(r'"\.\[([\w,]+)\$', second)
    wanted = [
        *project["dependencies"],
        *(one for extra in extras.split(",") for one in project["optional-dependencies"][extra]),
    ]
    for requirement in wanted:
        name = re.match(r"[\w.-]+", requirement)
        assert name is not None and (name[0] == "chainofcode" or f"\n{name[0].lower()}==" in locked), requirement


def test_commands_use_no_shell() -> None:
    (command,) = arguments_of("CMD")
    assert json.loads(command)[:2] == ["coc", "serve"]
    (check,) = arguments_of("HEALTHCHECK")
    words = json.loads(check.partition("CMD ")[2])
    assert "/healthz" in words[-1]
    compile(words[-1], "healthcheck", "exec")
    port = json.loads(command)[json.loads(command).index("--port") + 1]
    assert arguments_of("EXPOSE") == [port]
    assert f":{port}/" in words[-1]


def test_extras_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (named,) = re.findall(r'"\.\[([\w,]+)\$\{EXTRAS:\+,\$EXTRAS\}\]"', DOCKERFILE)
    assert {"server", "telemetry"} <= set(named.split(",")) <= set(project["optional-dependencies"])


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
    assert arguments_of("VOLUME") == [ours["volumes"][0].partition(":")[2]]


def test_the_command_for_compose_behind_a_proxy() -> None:
    yaml = pytest.importorskip("yaml")
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    overrides = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(# compose.override.yaml\n.*?)```", page, re.S)]
    (command,) = [one["services"]["coc"]["command"] for one in overrides if "command" in one["services"]["coc"]]
    (usual,) = arguments_of("CMD")
    assert command[: len(json.loads(usual))] == json.loads(usual)
    options = options_of(command)
    assert options.proxy and options.allow_host


def options_of(command: list[str]) -> Any:
    """A `coc serve` command, parsed as `coc` parses it."""
    return command_parser().parse_args(command[command.index("serve") :])


# --- systemd ------------------------------------------------------------------------------------------------------


def test_the_systemd_unit() -> None:
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string((ROOT / "deploy" / "systemd" / "coc.service").read_text(encoding="utf-8"))
    assert unit["Install"]["WantedBy"] == "multi-user.target"
    service = unit["Service"]
    options = options_of(shlex.split(service["ExecStart"]))
    assert str(options.data) == f"/var/lib/{service['StateDirectory']}"
    assert int(service["TimeoutStopSec"]) >= options.drain + 10
    assert options.proxy and options.allow_host, "the proxy passes on the client's Host, which would be refused"
    assert not {"RestrictNamespaces", "SystemCallFilter"} & set(service), "they prevent tier A of the sandbox"


# --- Kubernetes ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def manifests() -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml")
    found: list[dict[str, Any]] = []
    for path in sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml")):
        found += yaml.safe_load_all(path.read_text(encoding="utf-8"))
    return found


def manifest_of_kind(manifests: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = [manifest for manifest in manifests if manifest["kind"] == name]
    return found


def test_manifests_fit_the_schemas_of_kubernetes(manifests: list[dict[str, Any]]) -> None:
    validate = pytest.importorskip("kubernetes_validate")
    assert len(manifests) == 4
    for manifest in manifests:
        for version in ("1.30", validate.latest_version()):
            validate.validate(manifest, version, strict=True)
    broken = json.loads(json.dumps(manifest_of_kind(manifests, "Deployment")).replace("containerPort", "containerport"))
    with pytest.raises(validate.ValidationError):
        validate.validate(broken, "1.30", strict=True)


def test_manifests_agree_with_each_other(manifests: list[dict[str, Any]]) -> None:
    deployment = manifest_of_kind(manifests, "Deployment")["spec"]
    pod = deployment["template"]
    labels = pod["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"].items() <= labels.items()
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    service = manifest_of_kind(manifests, "Service")["spec"]
    assert service["selector"].items() <= labels.items()
    assert [port["targetPort"] for port in service["ports"]] == ["http"], (
        "the service does not expose the port for operators"
    )
    policy = manifest_of_kind(manifests, "NetworkPolicy")["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == set(ports)
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
    claim = volumes["data"]["persistentVolumeClaim"]["claimName"]
    assert claim == manifest_of_kind(manifests, "PersistentVolumeClaim")["metadata"]["name"]
    assert (
        f"{pod['spec']['securityContext']['runAsUser']}:{pod['spec']['securityContext']['runAsGroup']}"
        == arguments_of("USER")[0]
    )


def test_manifests_agree_with_the_server(manifests: list[dict[str, Any]], tmp_path: Path) -> None:
    deployment = manifest_of_kind(manifests, "Deployment")["spec"]
    assert (deployment["replicas"], deployment["strategy"]["type"]) == (1, "Recreate")
    pod = deployment["template"]
    (container,) = pod["spec"]["containers"]
    options = options_of(container["command"])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert (
        ports == {"http": options.port, "admin": options.admin_port} and options.host == options.admin_host == "0.0.0.0"
    )
    (mounted,) = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "data"]
    assert str(options.data).startswith(f"{mounted}/") and arguments_of("VOLUME") == [mounted]
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["spec"]["terminationGracePeriodSeconds"] >= pause + options.drain + 10
    scraped = pod["metadata"]["annotations"]
    assert scraped["prometheus.io/port"] == str(options.admin_port)
    probes = [container[f"{name}Probe"] for name in ("startup", "liveness", "readiness")]
    assert {probe["httpGet"]["port"] for probe in probes} == {"admin"}
    with served(tmp_path, "--admin-port", "0", "--token", "t" * 20) as server:
        (admin,) = [line["admin"] for line in server.log if line["event"] == "serving"]
        for path in (*(probe["httpGet"]["path"] for probe in probes), scraped["prometheus.io/path"]):
            assert httpx.get(admin + path, timeout=30).status_code == 200, path


# --- Grafana ------------------------------------------------------------------------------------------------------


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "dashboard.json").read_text(encoding="utf-8"))
    return found


def test_dashboard_panels_do_not_overlap() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in itertools.combinations(places, 2):
        is_apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert is_apart or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]


def test_the_dashboard_shows_metrics_that_exist(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        server.over(server.begin())
        assert server.client.get("/api/info", headers={"host": "evil.example"}).status_code == 421
        text = server.client.get("/metrics").text
    labels: dict[str, set[str]] = {}
    for line in text.splitlines():
        if sample := re.match(r"(\w+)(?:\{(.*)\})? ", line):
            labels.setdefault(sample[1], set()).update(re.findall(r'(\w+)="', sample[2] or ""))
    expressions = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    assert len(expressions) >= 10
    shown = set()
    for expression in expressions:
        (name,) = re.findall(r"\b(coc_\w+)", expression)
        assert name in labels, f"{name} is not in /metrics"
        (selected,) = re.findall(r"\{(.*?)\}", expression)
        grouped = re.findall(r"by \((.*?)\)", expression)
        used = {label for group in grouped for label in group.split(", ")} | set(re.findall(r"(\w+)=~", selected))
        assert used <= labels[name] | {"job"}, expression
        shown.add(re.sub("_bucket$", "", name))
    assert shown == set(re.findall(r"# TYPE (\w+)", text)), "every metric has a panel"


# --- backup -------------------------------------------------------------------------------------------------------


def documented(heading: str) -> list[str]:
    """The bash blocks below a heading of docs/deploy.md."""
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"```bash\n(.*?)```", section, re.DOTALL)


def steps_of(server: Serving, id: str) -> list[dict[str, Any]]:
    return [event for event in server.events(id) if event["event"] not in ("waiting", "draft")]


def test_a_backup_of_a_running_server_can_be_restored(tmp_path: Path) -> None:
    old, new, kept = (tmp_path / name for name in ("old", "new", "kept"))
    for directory in (old, new, kept):
        directory.mkdir()
    backup, restore = documented("Backup")[:2]
    places = {"DATA": str(old / "data"), "BACKUP": str(kept), "RESTORED": str(new / "data")}
    variables = {"PATH": os.environ["PATH"], **places}
    with served(old) as server, concurrent.futures.ThreadPoolExecutor() as pool:
        file = server.client.post("/api/files?name=sales.csv", content=b"n\n3\n4\n").json()["id"]
        before = [server.begin(), server.begin("Sum the table", files=[file])]
        done = {id: (server.over(id), steps_of(server, id)) for id in before}
        under_way = server.begin("Sleep")
        server.until(under_way, "running")
        meanwhile = pool.submit(lambda: [server.over(server.begin()) for _ in range(5)])
        subprocess.run(["bash", "-euc", backup], env=variables, check=True, timeout=60)
        meanwhile.result()
    subprocess.run(["bash", "-euc", restore], env=variables, check=True, timeout=60)
    with served(new) as server:
        for id, (run, events) in done.items():
            assert server.run(id) == run and run["state"] == "done"
            assert steps_of(server, id) == events and len(events) > 3
            assert server.client.post(f"/api/runs/{id}/replay", json={}).status_code == 202
        assert server.run(under_way)["state"] == "interrupted"
        assert [event["event"] for event in server.events(under_way)][-1] == "end"
        assert server.over(server.begin("Sum the table", files=[file]))["answer"] == "7"
        for run in server.client.get("/api/runs").json()["runs"]:
            assert run["state"] != "done" or run["method"] == "replay" or steps_of(server, run["id"])
        assert server.over(server.begin(FRUIT))["answer"] == "1"
