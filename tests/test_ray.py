"""An evaluation on a cluster of several nodes, one of which is lost in the middle."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from chainofcode.engine import Given
from chainofcode.evals import Job, Sample
from chainofcode.methods import Ways

COUNT = 30


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ray") / "script.jsonl"
    program = "import time\ntime.sleep(0.2)\nanswer = sum(range({n} + 1)) - sum(range({n}))"
    replies = [{"when": f"question {n}?", "reply": f"```python\n{program.format(n=n)}\n```"} for n in range(COUNT)]
    path.write_text("\n".join(map(json.dumps, replies)))
    return path


def test_a_lost_node_loses_nothing(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    from chainofcode.evals.ray import Plan, run_on_ray

    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    monkeypatch.setitem(os.environ, "RAY_DEDUP_LOGS", "0")
    cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    node = cluster.add_node(num_cpus=2)
    jobs = [
        Job(Sample(f"q-{n}", f"What is question {n}?", targets=[n]), "coc", Ways(method="coc")) for n in range(COUNT)
    ]
    seen: list[str] = []
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        cluster.wait_for_nodes()
        for score, trace in run_on_ray(jobs, Plan(f"scripted:{script}"), Given(), workers=3):
            assert score.verdict == "right", score
            assert trace is not None
            seen.append(score.id)
            if len(seen) == 6:
                cluster.remove_node(node, allow_graceful=False)
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert sorted(seen) == sorted(f"q-{n}" for n in range(COUNT))
