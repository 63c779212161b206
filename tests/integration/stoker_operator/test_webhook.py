"""The webhook behind a real API server, with the chart's own configuration: calls, injections, refusals."""

import re
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from stoker_api import names
from stoker_api.jobs.pod_hints import read_hints
from stoker_kube.api import Kube
from stoker_kube.errors import Invalid
from stoker_kube.resources import DATASETS, MUTATING_WEBHOOKS, PODS, SERVICE_ACCOUNTS, TUNING_PROFILES, Kind
from stoker_operator.core.views.catalog import CatalogEntry
from stoker_operator.processes.webhook_process import publish_bundle
from stoker_operator.webhook.calling_path import WEBHOOK_KINDS, CallingPath
from stoker_operator.webhook.late_datasets import LateDatasets
from stoker_operator.webhook.review import Result
from stoker_operator.webhook.rotation import (
    CertifiedServer,
    OwnCertificateNames,
    OwnCertificates,
    load_certificate,
    new_tls_context,
)
from stoker_operator.webhook.server import REQUESTS, WebhookServer
from stoker_tuning.frameworks.pod_hints import FrameworkSource, PodHints
from tests.integration.stoker_operator.conftest import SECONDS
from tests.support.apiserver import ApiServer
from tests.support.chart import of_kind, render
from tests.support.waiting import all_sockets_closed, eventually_async
from tests.unit.stoker_operator.profiles import BAD, GOOD

CURRENT, OLDER = "2c" * 32, "1a" * 32


@dataclass
class Admission:
    """A webhook that the API server calls for one namespace."""

    kube: Kube
    namespace: str

    async def create(
        self,
        datasets: str = "",
        name: str = "pod",
        container: dict[str, Any] | None = None,
        annotations: dict[str, str] | None = None,
        **spec: Any,
    ) -> dict[str, Any]:
        annotations = ({names.ANNOTATION_DATASETS: datasets} if datasets else {}) | (annotations or {})
        container = {"name": "main", "image": "busybox"} | (container or {})
        body = {"metadata": {"name": name, "annotations": annotations}, "spec": {"containers": [container]} | spec}
        return await self.kube.create(PODS, body, self.namespace)


@pytest.fixture
async def admission(apiserver: ApiServer, namespace: str) -> AsyncIterator[Admission]:
    tls = new_tls_context()
    catalog = {f"{namespace}/imagenet": CatalogEntry(namespace, "imagenet", version=CURRENT, older=(OLDER,))}
    async with await apiserver.client() as kube:
        name = f"stoker-{uuid.uuid4().hex[:8]}"
        path = CallingPath(kube, name)
        find = LateDatasets(kube).find
        server = WebhookServer(lambda: catalog, find, tls, "127.0.0.1", 0, is_called_by=path.is_called_by, reports=True)
        # No controller makes ServiceAccounts for pods here: make the one that admission requires.
        apiserver.create(SERVICE_ACCOUNTS, "default", namespace)
        # The webhook is not called before it has a certificate, so the port may be published first.
        certified = CertifiedServer(partial(load_certificate, tls), partial(publish_bundle, kube, name))
        names_in = OwnCertificateNames(namespace, "tls", ("127.0.0.1",))
        certificates = OwnCertificates(kube, names_in, certified, lambda: datetime.now(UTC))
        await certificates.ensure()
        await server.start()
        for kind in WEBHOOK_KINDS:
            await kube.create(kind, configuration(kind, name, namespace, server.port))
        await certificates.ensure()
        await path.ensure()
        admission = Admission(kube, namespace)
        await until_called(admission)
        yield admission
        called_at = (await kube.get(MUTATING_WEBHOOKS, name))["webhooks"][0]["clientConfig"]["url"]
        assert len(called_at) > len("https://127.0.0.1:1/mutate/") + 64
        for kind in WEBHOOK_KINDS:
            await kube.delete(kind, name)
    await server.stop()
    await all_sockets_closed()


def configuration(kind: Kind, name: str, namespace: str, port: int) -> dict[str, Any]:
    """Return the chart's configuration with the test's address, limited to the test's own objects."""
    (body,) = of_kind(render({}), kind.kind)
    body["metadata"] = {"name": name}
    for webhook in body["webhooks"]:
        webhook["clientConfig"] = {"url": f"https://127.0.0.1:{port}/mutate"}
        if kind is MUTATING_WEBHOOKS:
            webhook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        else:  # of a cluster-scoped kind
            webhook["objectSelector"] = {"matchLabels": {"test": namespace}}
        webhook["failurePolicy"] = "Ignore"
    return dict(body)


async def until_called(admission: Admission) -> None:
    """Send requests until the API server uses a new configuration, shortly after its creation."""

    async def is_injected() -> bool | None:
        pod = await admission.create("imagenet:/data", name=f"probe-{uuid.uuid4().hex[:8]}")
        return True if names.LABEL_MANAGED in pod["metadata"].get("labels", {}) else None

    await eventually_async(is_injected, SECONDS)


def called() -> float:
    return float(sum(REQUESTS.labels(result.value)._value.get() for result in Result))


async def test_an_annotated_pod_is_injected_and_the_api_server_takes_it(admission: Admission) -> None:
    pod = await admission.create("imagenet:/data")
    assert pod["spec"]["schedulingGates"] == [{"name": names.GATE_WARM}]
    mounts = pod["spec"]["containers"][0]["volumeMounts"]
    assert [one["mountPropagation"] for one in mounts if one["mountPath"] == "/data"] == ["HostToContainer"]


@pytest.mark.parametrize(("datasets", "version"), [("imagenet:/d", CURRENT), (f"imagenet@{OLDER[:12]}:/d", OLDER)])
async def test_a_pods_volume_carries_its_version(admission: Admission, datasets: str, version: str) -> None:
    pod = await admission.create(datasets)
    attributes = [one["csi"]["volumeAttributes"] for one in pod["spec"]["volumes"] if "csi" in one]
    assert [one["version"] for one in attributes if "report" not in one] == [version]


async def test_a_pod_gets_a_way_to_report_that_the_api_server_takes(admission: Admission) -> None:
    container = (await admission.create("imagenet:/data"))["spec"]["containers"][0]
    assert [one["mountPath"] for one in container["volumeMounts"] if one["name"] == "stoker-report"] == ["/run/stoker"]
    assert {"name": "STOKER_REPORT_SOCKET", "value": "/run/stoker/report.sock"} in container["env"]


async def test_a_pods_volumes_tell_its_node_what_the_spec_hints_at(admission: Admission) -> None:
    gpus = {"resources": {"limits": {"nvidia.com/gpu": 8}}}
    trains = {"command": ["torchrun"], "args": ["train.py", "--batch-size=256"], "image": "tensorflow/tensorflow"}
    pod = await admission.create("imagenet:/data", container=trains | gpus)
    attributes = [one["csi"]["volumeAttributes"] for one in pod["spec"]["volumes"] if "csi" in one]
    hints = PodHints("pytorch", FrameworkSource.COMMAND, batch_size=256, gpus=8)
    assert [read_hints(one) for one in attributes] == [hints, hints]


async def test_a_pod_without_the_annotation_never_reaches_the_webhook(admission: Admission) -> None:
    before = called()
    await admission.create()
    assert called() == before
    await admission.create("imagenet:/data", name="annotated")
    assert called() > before


async def test_a_pod_with_its_node_set_is_taken_without_gate(admission: Admission) -> None:
    pod = await admission.create("imagenet:/data", nodeName="node-a")
    assert "schedulingGates" not in pod["spec"]


@pytest.mark.parametrize(
    ("datasets", "sentence"),
    [
        ("imagnet:/data", "does not exist: create it"),
        ("imagenet=/data", "imagenet=/data"),
        ("imagenet:data", "needs an absolute path"),
        ("imagenet:/a, imagenet:/a", "give each Dataset its own path"),
        ("imagenet@000000000000:/a", "has no version 000000000000: name one of 2c2c2c2c2c2c, 1a1a1a1a1a1a"),
    ],
)
async def test_a_refusal_reaches_the_user_as_a_sentence(admission: Admission, datasets: str, sentence: str) -> None:
    with pytest.raises(Invalid, match=sentence):
        await admission.create(datasets)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (names.ANNOTATION_SCHEDULING, "Always"),
        (names.ANNOTATION_MAX_WAIT, "soon"),
        (names.ANNOTATION_CONTAINERS, "trainer"),
    ],
)
async def test_the_refusal_of_another_annotation_quotes_it(admission: Admission, annotation: str, value: str) -> None:
    with pytest.raises(Invalid, match=value):
        await admission.create("imagenet:/data", annotations={annotation: value})


async def test_a_path_with_another_mount_is_refused(admission: Admission) -> None:
    own = {"volumeMounts": [{"name": "own", "mountPath": "/taken"}]}
    with pytest.raises(Invalid, match="at /taken in container 'main': the volume 'own' is mounted there already"):
        await admission.create("imagenet:/taken", container=own, volumes=[{"name": "own", "emptyDir": {}}])


async def test_a_pod_may_be_made_right_behind_its_dataset(admission: Admission) -> None:
    body = {"metadata": {"name": "late"}, "spec": {"source": {"uri": "s3://bucket/"}}}
    await admission.kube.create(DATASETS, body, admission.namespace)
    assert (await admission.create("late:/late"))["spec"]["schedulingGates"] == [{"name": names.GATE_WARM}]


async def write_profile(admission: Admission, spec: Any, **annotations: str) -> None:
    metadata = {"name": admission.namespace, "labels": {"test": admission.namespace}, "annotations": annotations}
    await admission.kube.apply(TUNING_PROFILES, {"metadata": metadata, "spec": spec}, field_manager="admin")


async def test_a_wrong_profile_is_refused_with_its_path_and_what_may_be_meant(admission: Admission) -> None:
    refused = r"spec.rules\[0\].actions\[0\].type: .*did you mean prefetch\?"

    async def is_refused() -> bool | None:
        try:
            await write_profile(admission, BAD)  # accepted until the API server uses the new configuration
        except Invalid as error:
            return re.search(refused, str(error)) is not None
        await admission.kube.delete(TUNING_PROFILES, admission.namespace)
        return None

    assert await eventually_async(is_refused, SECONDS)


async def test_a_good_profile_is_taken_as_it_was_written(admission: Admission) -> None:
    await write_profile(admission, GOOD)
    assert (await admission.kube.get(TUNING_PROFILES, admission.namespace))["spec"] == GOOD
    await admission.kube.delete(TUNING_PROFILES, admission.namespace)
