"""Pods of one tenant that would exhaust the operator's memory: each is refused, without effect on other tenants.

The canary is that of ``test_attacks.py``: its round after the last pod must end within 20 seconds.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from e2e.support.attacked import is_followed_by_a_variant, restarts
from e2e.support.tenant import Canary, Tenant
from e2e.support.world import World

DATASETS = 20
ROUNDS = 6  # attempts per pod; the operator has two replicas
MOST_RSS = 300 * 1024 * 1024  # peak bytes of a replica
PATHS = {f"d{index}": f"/d{index:02}" + "/p" * 790 for index in range(DATASETS)}
LONG = ",".join(f"{name}:{path}" for name, path in PATHS.items())
SHORT = "d0:/data"


@pytest.fixture(scope="module", autouse=True)
def datasets(tenant: Tenant) -> None:
    """Give the tenant Datasets, up to the limit of a pod's references."""
    tenant.create(*(tenant.dataset(name, source={"uri": "s3://no-such-bucket/"}) for name in PATHS))


def containers(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": f"c{index}", "image": "x"} | fields for index in range(count)]


def mounts(count: int) -> list[dict[str, Any]]:
    return [{"name": "v", "mountPath": f"/m/{index}"} for index in range(count)]


@pytest.mark.parametrize(
    ("annotation", "spec", "words"),
    [
        (LONG, {"containers": containers(4000)}, "4000 containers"),
        (LONG, {"containers": containers(50), "initContainers": containers(51)}, "101 containers"),
        (LONG, {"containers": containers(100)}, "2000 mounts"),
        (LONG, {"containers": containers(25)}, "larger than 750 kB"),
        (SHORT, {"containers": containers(1, volumeMounts=mounts(3000))}, "mounts, and a pod with"),
        (SHORT, {"containers": containers(1, env=[{"name": f"A{n}"} for n in range(12_000)])}, "12000 variables"),
        (
            SHORT,
            {"containers": containers(1), "volumes": [{"name": f"v{n}"} for n in range(1000)]},
            "volumes, and a pod with",
        ),
    ],
    ids=["containers", "init containers", "mounts to make", "long paths", "mounts", "variables", "volumes"],
)
def test_a_pod_that_would_cost_the_operator_its_memory_is_refused(
    tenant: Tenant,
    world: World,
    canary: Canary,
    request: pytest.FixtureRequest,
    annotation: str,
    spec: dict[str, Any],
    words: str,
) -> None:
    pod = tenant.pod("bomb", annotation)
    text = json.dumps(pod | {"spec": spec})
    before = restarts(world)
    for _ in range(ROUNDS):
        sentence = refusal(tenant, text)
        assert (words in sentence, len(sentence) < 1000) == (True, True), sentence
    if not is_followed_by_a_variant(request.node):
        canary.check()
    assert restarts(world) == before
    peaks = most_memory(world)
    print(f"most memory of a replica: {max(peaks.values()) / 2**20:.0f} MiB")
    assert max(peaks.values()) <= MOST_RSS, peaks


def refusal(tenant: Tenant, text: str) -> str:
    """Return the answer to a tenant who creates this, in one request, without kubectl's own checks."""
    with pytest.raises(Exception, match="admission webhook") as refused:
        tenant.kubectl("create", "--validate=false", "-f", "-", stdin=text)
    return re.sub(r".*admission webhook", "admission webhook", str(refused.value), flags=re.DOTALL)


def most_memory(world: World) -> dict[str, int]:
    """Return the peak memory in bytes of each operator replica so far, by pod name."""
    pods = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in world.system_pods("operator")}
    peaks = dict[str, int]()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            group, status = (process / "cgroup").read_text(), (process / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        pod = next((name for uid, name in pods.items() if uid in group.replace("_", "-")), "")
        found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        if pod and found:
            peaks[pod] = max(peaks.get(pod, 0), int(found[1]) * 1024)
    assert peaks.keys() == set(pods.values())
    return peaks
