"""Sources of pod figures by the permissions of the user."""

from typing import Any

import pytest

from stoker_cli.access.cluster import Cluster
from stoker_cli.errors import CliError
from stoker_kube.api import Listing
from stoker_kube.errors import Forbidden, KubeError, NotFound, Unavailable
from stoker_kube.resources import NODE_CACHES, POD_FIGURES, Kind
from tests.support.cases import cases

ROW = {"pod": "vision/resnet-0", "uid": "u1", "phase": "Training"}
MOUNT = {"volumeId": "v", "datasetNamespace": "vision", "dataset": "d", "podUid": "u1", "mode": "overlay"}
FIGURES = {
    "metadata": {"name": "resnet-0", "namespace": "vision"},
    "node": "node-1",
    "ageSeconds": 0.4,
    "workload": ROW,
    "mounts": [MOUNT],
}
CACHE = {"metadata": {"name": "node-1"}, "status": {"workloads": [ROW | {"phase": "Validation"}]}}
POD = {"metadata": {"name": "resnet-0", "namespace": "vision"}, "spec": {"nodeName": "node-1"}}
NO = Forbidden(403, "Forbidden", "no")


class Client:
    """An API server that serves or refuses two kinds."""

    def __init__(self, figures: object, caches: object) -> None:
        self._kinds = {POD_FIGURES: figures, NODE_CACHES: caches}

    async def list(self, kind: Kind, namespace: str = "", **_: str) -> Listing:
        return Listing([self._one(kind)], "1")

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Any:
        return self._one(kind)

    def _one(self, kind: Kind) -> Any:
        found = self._kinds[kind]
        if isinstance(found, KubeError):
            raise found
        return found


def cluster(figures: object = NO, caches: object = NO) -> Cluster:
    return Cluster(Client(figures, caches), "vision")  # type: ignore[arg-type]


@cases(
    "figures, phase, dated",
    (FIGURES, "Training", True),
    (NotFound(404, "NotFound", "an older chart"), "Validation", False),
    (NO, "Validation", False),
    (Unavailable(503, "ServiceUnavailable", "no replica"), "Validation", False),
)
async def test_figures_come_from_the_operator_or_from_nodecaches(figures: object, phase: str, dated: bool) -> None:
    (node,) = await cluster(figures, CACHE).workload_caches("vision")
    (row,) = node.status.workloads
    assert (node.metadata.name, row.phase, row.figures_at is not None) == ("node-1", phase, dated)


async def test_without_any_access_the_error_names_the_role() -> None:
    with pytest.raises(CliError, match=r"in namespace vision.*stoker-figures"):
        await cluster().workload_caches("vision")
    with pytest.raises(CliError, match="in all namespaces"):
        await cluster().workload_caches("")


async def test_nodes_without_access_name_the_role() -> None:
    with pytest.raises(CliError, match="ClusterRole stoker-node-view"):
        await cluster().node_caches()
    assert await cluster().readable_node_caches() == []


@pytest.mark.parametrize(("figures", "modes", "refused"), [(FIGURES, ["overlay"], False), (NO, [], True)])
async def test_mounts_of_a_tenant_come_from_pod_figures(figures: object, modes: list[str], refused: bool) -> None:
    found = cluster(figures)
    assert await found.cache_of(POD) is None
    assert [mount.mode for mount in await found.shown_mounts(POD)] == modes
    assert found.node_caches_refused is refused
