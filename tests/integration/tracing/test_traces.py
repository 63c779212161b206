"""Traces of a pod from operator and node, as a collector receives them."""

import socket
import time
from collections.abc import Iterator

import pytest

from stoker_api import names
from stoker_api.node_caches.node_workload import EvidenceSource
from stoker_kube.tracing.spans import GateSpans, MountSpans, PodSpan, SpanSink, open_tracing
from stoker_sidecar.agent.csi.pb import csi_pb2
from stoker_sidecar.agent.main import read_by
from stoker_sidecar.agent.observation.workloads import ignore_reads
from stoker_sidecar.agent.questions.reading.reading import ObservedTree, ReaderBatch
from tests.support.csi_driver import node_folder, running_driver, write_version
from tests.support.otlp_collector import OtlpCollector, otlp_collector
from tests.support.present import present
from tests.unit.stoker_operator.gate_world import World

HELD = 40.0  # seconds that the operator's clock moves
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
UID = "5e8b1c2d-0000-4000-8000-00000000002a"
TREE = ObservedTree("u", "d", EvidenceSource.FANOTIFY)


@pytest.fixture
def collector() -> Iterator[OtlpCollector]:
    with otlp_collector() as running:
        yield running


def sink_of(service: str, url: str, monkeypatch: pytest.MonkeyPatch) -> SpanSink:
    monkeypatch.setenv(ENDPOINT, url)  # the exporter reads the process's environment
    return present(open_tracing(service, {ENDPOINT: url}))


async def release_pod(world: World) -> str:
    """Hold a pod until its node is warm, and return its UID."""
    await world.add_pod()
    world.warm(0.5)
    await world.step()
    world.now += HELD
    world.warm()
    await world.step()
    return str((await world.pod())["metadata"]["uid"])


async def mount(sink: SpanSink, uid: str) -> None:
    """Mount a Dataset for a pod on a node, and have its first read observed."""
    spans = MountSpans(sink, "node-1", lambda: time.time() + HELD)
    with node_folder() as folder:
        async with running_driver(folder, write_version(folder / "cache"), spans=spans) as driver:
            pod = {names.CSI_POD_NAMESPACE: "vision", names.CSI_POD_UID: uid, names.CSI_EPHEMERAL: "true"}
            mode = csi_pb2.VolumeCapability.AccessMode.SINGLE_NODE_WRITER
            request = csi_pb2.NodePublishVolumeRequest(
                volume_id="csi-1",
                target_path=str(driver.pods / uid / "mount"),
                volume_capability={"mount": {}, "access_mode": {"mode": mode}},
                readonly=True,
                volume_context=pod | {"dataset": "imagenet"},
            )
            await driver.call("csi.v1.Node/NodePublishVolume", request, csi_pb2.NodePublishVolumeResponse)
    now = time.monotonic()
    batch = ReaderBatch(now, now, opens=1.0, share=1.0, reads=0.0, files=1.0, rows=())
    read_by(ignore_reads, spans)(TREE, uid, batch)


@pytest.mark.root
async def test_operator_and_node_send_one_trace_in_order(
    collector: OtlpCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker_kube.tracing.otlp._CLOSE_SECONDS", 60.0)  # a busy machine loses no span
    operator, agent = (sink_of(name, collector.url, monkeypatch) for name in ("stoker-operator", "stoker-agent"))
    world = World(GateSpans(operator))
    uid = await release_pod(world)
    await mount(agent, uid)
    operator.close()
    agent.close()
    assert collector.services == {"stoker-operator", "stoker-agent"}
    steps = ["pod gated", "placement decided", "node warmed", "released", "mounted", "first byte"]
    assert collector.names(uid.replace("-", "")) == steps
    roots = [span for span in collector.spans if not span.parent_span_id]
    assert [root.name for root in roots] == ["pod gated"]
    assert {span.parent_span_id for span in collector.spans} == {b"", roots[0].span_id}


def silent_port() -> socket.socket:
    """Return a listener that accepts connections and never answers."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(8)
    return listener


@pytest.mark.parametrize("listens", [True, False])
async def test_a_dead_collector_delays_nothing(listens: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = silent_port()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    if not listens:
        listener.close()
    sink = sink_of("stoker-operator", url, monkeypatch)
    for _ in range(5_000):  # more than the queue
        sink.emit(UID, [PodSpan("released", 0.0, 1.0, {"k8s.pod.name": "p"})])
    world = World(GateSpans(sink))
    uid = await release_pod(world)
    began = time.monotonic()
    sink.close()
    assert time.monotonic() - began < 8.0  # 2 s; OpenTelemetry's own limits are 10 s per try, and 30 s at the end
    assert uid
    assert (await world.pod())["spec"]["schedulingGates"] == []
    listener.close()
