"""Memory of the whole sidecar, agent included, with one large dataset: listed, walked and read through FUSE, then warmed."""

import os
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grpc

from bench.apistub import NODE, ApiStub
from bench.bed import Bed
from bench.errors import BenchError
from bench.measure import MIB, MemoryWatch, Peak, wait_until
from bench.objects import paths
from bench.report import Row
from bench.scale import Corpus
from bench.server import BUCKET, REGION
from bench.sidecar import Sidecar
from stoker_api import names
from stoker_api.dataset import Source
from stoker_api.nodecache import NodeDataset
from stoker_sidecar.csi.pb import csi_pb2

_NAME = "big"
_SECRET = "keys"
_READS = 2_000
_SECONDS = 300.0


@dataclass(frozen=True)
class _Node:
    """A running sidecar and the API server that it obeys."""

    sidecar: Sidecar
    api: ApiStub
    wish: dict[str, Any]

    def plan(self, **changes: Any) -> None:
        """As the operator writes it."""
        source = Source.model_validate(self.wish["source"])
        fields = {"namespace": "bench", "name": _NAME, "uid": "big-1", "source": source} | changes
        self.api.plan(NodeDataset(**fields).wire())

    @property
    def row(self) -> dict[str, Any]:
        """What the node says of the dataset."""
        return next(iter(self.api.status.get("datasets", [])), {})

    @property
    def kubelet_dir(self) -> Path:
        return self.sidecar.folder / "kubelet"


def measure(bed: Bed) -> Iterator[Row]:
    """Peaks of every process, and what reached the server."""
    corpus = bed.scale.memory
    with bed.corpus("memory", corpus) as prefix, ExitStack() as stack:
        node = _start(bed, prefix, stack)
        with MemoryWatch(node.sidecar.pids) as watch:
            yield from _live(bed, corpus, node)
        yield from _peaks(corpus, watch.peak)


def _start(bed: Bed, prefix: str, stack: ExitStack) -> _Node:
    server = bed.server
    keys = {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
    api = stack.enter_context(ApiStub(keys))
    kubeconfig = bed.scratch / "kubeconfig"
    api.write_kubeconfig(kubeconfig)
    sidecar = bed.sidecar(agent_options=_agent_options(bed.scratch, kubeconfig))
    stack.enter_context(sidecar)
    credentials = {"secretRef": {"name": _SECRET}}
    source = {"uri": f"s3://{BUCKET}/{prefix}/", "endpoint": server.endpoint, "region": REGION}
    return _Node(sidecar, api, {"source": source | {"credentials": credentials}})


def _agent_options(scratch: Path, kubeconfig: Path) -> list[str]:
    folder = scratch / "sidecar"
    folders = {
        "kubelet-dir": "kubelet",
        "cache-root": "cache",
        "mount-root": "mnt",
        "state-dir": "state",
        "run-dir": "run",
    }
    options = [f"--{name}={folder / where}" for name, where in folders.items()]
    return [f"--node-name={NODE}", "--pod-ip=127.0.0.1", f"--kubeconfig={kubeconfig}", "--http-port=0", *options]


def _live(bed: Bed, corpus: Corpus, node: _Node) -> Iterator[Row]:
    case = f"{corpus.files:,} objects"
    start = bed.server.position()
    bed.say(f"memory: listing {case}")
    digest = _listed(node)
    after_list = bed.server.position()
    yield Row("memory", case, "Stoker", "LISTs to list it", (float(bed.server.asked(start).lists),))
    manifest = node.sidecar.cache.dataset("big-1").version(digest).manifest
    yield Row("memory", case, "Stoker", "MiB of manifest", (manifest.stat().st_size / MIB,))
    bed.say("memory: a pod mounts it, walks it and reads some of it")
    node.plan(version=digest)
    root = _publish(node)
    walked = sum(len(files) for _, _, files in os.walk(root))
    if walked != corpus.files:
        raise BenchError(f"{walked} files were found below {root} where {corpus.files} are right")
    reads = random.Random(1).sample(list(paths(corpus)), min(_READS, corpus.files))
    for path in reads:
        if len((root / path).read_bytes()) != corpus.size:
            raise BenchError(f"{path} was read short through FUSE")
    asked = bed.server.asked(after_list)
    case_read = f"{walked:,} lookups and {len(reads):,} reads of missing files"
    yield Row("memory", case_read, "Stoker FUSE", "LISTs", (float(asked.lists),))
    yield Row("memory", case_read, "Stoker FUSE", "GETs", (float(asked.gets),))
    yield _warmed(bed, corpus, node, digest)


def _listed(node: _Node) -> str:
    node.plan(listing_id="1")
    wait_until("the listing in the NodeCache", lambda: "listing" in node.row, _SECONDS)
    listing = node.row["listing"]
    if not listing.get("version"):
        raise BenchError(f"the source could not be listed: {listing}")
    return str(listing["version"])


def _publish(node: _Node) -> Path:
    """As the kubelet does for a pod with an inline volume."""
    target = node.kubelet_dir / "pods" / "pod-1" / "volumes" / "mount"
    pod = {names.CSI_POD_NAMESPACE: "bench", names.CSI_POD_NAME: "pod", names.CSI_POD_UID: "pod-1"}
    attributes = {names.CSI_EPHEMERAL: "true", names.CSI_ATTRIBUTE_DATASET: _NAME}
    mode = csi_pb2.VolumeCapability.AccessMode.SINGLE_NODE_WRITER
    request = csi_pb2.NodePublishVolumeRequest(
        volume_id="volume-1",
        target_path=str(target),
        volume_capability={"mount": {}, "access_mode": {"mode": mode}},
        volume_context=pod | attributes,
    )
    socket = node.kubelet_dir / "plugins" / names.CSI_DRIVER / "csi.sock"
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        ask = channel.unary_unary(
            "/csi.v1.Node/NodePublishVolume",
            request_serializer=csi_pb2.NodePublishVolumeRequest.SerializeToString,
            response_deserializer=csi_pb2.NodePublishVolumeResponse.FromString,
        )
        try:
            ask(request, timeout=_SECONDS)
        except grpc.RpcError as error:
            raise BenchError(f"the dataset could not be mounted: {error}") from error
    return target


def _warmed(bed: Bed, corpus: Corpus, node: _Node, digest: str) -> Row:
    """Warm while the mount is in use, for as long as the scale gives."""
    bed.say(f"memory: warming, at most {bed.scale.warm_seconds:.0f} s")
    position, start = bed.server.position(), time.monotonic()
    node.plan(version=digest, eager=True)
    over = partial(_over, node, start, bed.scale.warm_seconds)
    wait_until("warming", over, bed.scale.warm_seconds + _SECONDS)
    seconds = time.monotonic() - start
    gets = bed.server.asked(position).gets
    note = f"{gets:,} GETs in {seconds:.0f} s"
    return Row("memory", f"{corpus.files:,} objects", "Stoker", "objects/s warmed", (gets / seconds,), note=note)


def _over(node: _Node, start: float, seconds: float) -> bool:
    return node.row.get("phase") == "Warm" or time.monotonic() - start > seconds


def _peaks(corpus: Corpus, peak: Peak) -> Iterator[Row]:
    case = f"{corpus.files:,} objects, at the peak"
    for name, one in [*sorted(peak.processes.items()), ("all processes", peak.total)]:
        yield Row("memory", case, name, "MB PSS", (one.pss / 1e6,), note=f"RSS {one.rss / 1e6:.0f} MB")
