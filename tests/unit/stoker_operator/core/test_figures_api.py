"""The API group figures.stoker.dev: its paths, and the output of kubectl."""

import pytest

from stoker_api.jobs.pod_figures import PodFigures
from stoker_api.meta import ObjectMeta
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_operator.core.pod_figures.figures_api import Asked, ProxyTrust, asked, discovery, proxy_trust, table
from tests.support.cases import cases
from tests.support.present import present

BASE = "/apis/figures.stoker.dev/v1alpha1"


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        (f"{BASE}/podfigures", Asked("", "")),
        (f"{BASE}/namespaces/vision/podfigures", Asked("vision", "")),
        (f"{BASE}/namespaces/vision/podfigures/resnet-0.a", Asked("vision", "resnet-0.a")),
        (f"{BASE}/podfigures/resnet-0", None),  # authorized for no namespace
        (f"{BASE}/namespaces/own/../victim/podfigures", None),
        (f"{BASE}/namespaces/own/podfigures/../../victim/podfigures", None),
        (f"{BASE}/namespaces/own%2f..%2fvictim/podfigures", None),
        (f"{BASE}//podfigures", None),
        (f"{BASE}/namespaces/vision/podfigures/", None),
        (f"{BASE}/namespaces/vision/podfigures/..", None),
        (f"{BASE}/namespaces/vision/podfigures\n", None),
    ],
)
def test_a_path_is_read_by_its_parts_as_the_api_server_authorized_them(path: str, wanted: Asked | None) -> None:
    assert asked(path) == wanted


def test_discovery_names_a_resource_that_can_only_be_read() -> None:
    found = present(discovery(BASE))
    (resource,) = found["resources"]
    assert (resource["name"], resource["namespaced"], resource["verbs"]) == ("podfigures", True, ["get", "list"])


@pytest.mark.parametrize(("age", "progress"), [(0.8, "4/90, 52%"), (40.0, "4/90, ~52%")])
def test_a_table_counts_epochs_from_one_and_marks_old_progress(age: float, progress: str) -> None:
    work = NodeWorkload(pod="vision/a", phase="Training", epoch=3, epochs=90, epoch_progress=0.52)
    row = PodFigures(metadata=ObjectMeta(name="a", namespace="vision"), node="n", age_seconds=age, workload=work)
    (printed,) = table([row])["rows"]
    assert printed["cells"][:6] == ["a", "n", "Training", progress, "-", "-"]


def trust(names: str) -> ProxyTrust | None:
    return proxy_trust({"data": {"requestheader-client-ca-file": "PEM", "requestheader-allowed-names": names}})


def certificate(name: str) -> dict[str, object]:
    return {"subject": ((("commonName", name),),)}


@cases(
    "names, shown, is_proxy",
    ('["front-proxy-client"]', certificate("front-proxy-client"), True),
    ('["front-proxy-client"]', certificate("somebody"), False),
    ("[]", certificate("anybody"), True),
    ("[]", None, False),
)
def test_the_proxy_is_known_by_its_certificate(names: str, shown: dict[str, object] | None, is_proxy: bool) -> None:
    known = present(trust(names))
    assert known.is_proxy(shown) is is_proxy


def test_a_cluster_without_an_aggregation_layer_trusts_nobody() -> None:
    assert proxy_trust({"data": {}}) is None
    with pytest.raises(ValueError, match="list"):
        trust('"front-proxy-client"')
