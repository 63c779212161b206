"""A whole sidecar, as on a node.

Keeper, agent, fetcher and FUSE server as processes, a real API server, and gRPC as from the kubelet. The test acts as
the operator (it writes NodeCache.spec) and as the kubelet (it calls the CSI socket). The source is a folder.
"""

import hashlib
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import grpc
import pytest
from google.protobuf.message import Message

from stoker_api import names
from stoker_api.jobs.pod_hints import hint_attributes
from stoker_kube.api import Kube, Object
from stoker_kube.resources import NODE_CACHES
from stoker_sidecar.agent.csi.pb import csi_pb2
from stoker_tuning.frameworks.pod_hints import FrameworkSource, PodHints
from tests.support.apiserver import ApiServer
from tests.support.asked_plugins import install_example, write_plugin
from tests.support.csi_driver import node_folder
from tests.support.keeper import Keeper, mounts_below
from tests.support.peers import certify, new_authority
from tests.support.ports import free_ports
from tests.support.processes import is_running
from tests.support.waiting import eventually_async

pytestmark = pytest.mark.root
SECONDS = 30.0
FILES = {f"class-{n % 4}/{n}.bin": bytes([n]) * (1000 + 37 * n) for n in range(40)}
MODE = csi_pb2.VolumeCapability.AccessMode.SINGLE_NODE_WRITER


@dataclass
class SidecarNode:
    """A node whose sidecar runs."""

    name: str
    kube: Kube
    keeper: Keeper
    folder: Path
    source: Path
    learning_port: int

    def dataset(self, **fields: object) -> Object:
        source = {"uri": f"file://{self.source}"}
        return {"namespace": "vision", "name": "digits", "uid": "u1", "generation": 1, "source": source} | fields

    async def plan(self, *datasets: Object, **spec: object) -> None:
        body = {"metadata": {"name": self.name}, "spec": {"datasets": list(datasets)} | spec}
        await self.kube.apply(NODE_CACHES, body, field_manager="operator")

    async def status(self) -> Object:
        return dict((await self.kube.get(NODE_CACHES, self.name)).get("status", {}))

    async def until(self, condition: Callable[[Object], bool]) -> Object:
        """Return the status of the dataset when it fulfills ``condition``."""

        async def look() -> Object | None:
            rows = (await self.status()).get("datasets", [])
            return next((row for row in rows if row["uid"] == "u1" and condition(row)), None)

        return await eventually_async(look, SECONDS)

    async def listed(self) -> str:
        """List the source. Return the version's digest."""
        await self.plan(self.dataset(listingId="one"))
        row = await self.until(lambda row: row.get("listing", {}).get("id") == "one")
        assert "error" not in row["listing"], row["listing"]
        return str(row["listing"]["version"])

    async def warm(self) -> str:
        """Fetch everything. Return the version's digest."""
        digest = await self.listed()
        await self.plan(self.dataset(listingId="one", version=digest, eager=True))
        await self.until(lambda row: row["phase"] == "Warm")
        return digest

    def target(self, pod: str) -> Path:
        return self.folder / "kubelet" / "pods" / pod / "mount"

    async def publish(self, pod: str, **attributes: str) -> Path:
        """Publish as the kubelet does for an inline volume. Return the pod's path."""
        who = {names.CSI_POD_NAMESPACE: "vision", names.CSI_POD_NAME: pod, names.CSI_POD_UID: pod}
        message = csi_pb2.NodePublishVolumeRequest(
            volume_id=f"csi-{pod}",
            target_path=str(self.target(pod)),
            volume_capability={"mount": {}, "access_mode": {"mode": MODE}},
            readonly=True,
            volume_context=who | {names.CSI_EPHEMERAL: "true", "dataset": "digits"} | attributes,
        )
        await self._call("NodePublishVolume", message, csi_pb2.NodePublishVolumeResponse)
        return self.target(pod)

    async def unpublish(self, pod: str) -> None:
        message = csi_pb2.NodeUnpublishVolumeRequest(volume_id=f"csi-{pod}", target_path=str(self.target(pod)))
        await self._call("NodeUnpublishVolume", message, csi_pb2.NodeUnpublishVolumeResponse)

    async def _call(self, method: str, message: Message, answer: type[Message]) -> None:
        socket = self.folder / "kubelet" / "plugins" / names.CSI_DRIVER / "csi.sock"
        async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
            call = channel.unary_unary(
                f"/csi.v1.Node/{method}",
                request_serializer=lambda request: request.SerializeToString(),
                response_deserializer=answer.FromString,
            )
            await call(message, timeout=SECONDS, wait_for_ready=True)


def agent_arguments(name: str, folder: Path, kubeconfig: Path, namespace: str) -> list[str]:
    paths = {
        "kubelet-dir": "kubelet",
        "cache-root": "k/cache",
        "mount-root": "k/mnt",
        "state-dir": "state",
        "run-dir": "k/run",
    }
    http, peers, learning = free_ports(3)
    flags = {"node-name": name, "kubeconfig": kubeconfig, "pod-ip": "127.0.0.1", "http-port": http, "peer-port": peers}
    flags |= {"namespace": namespace, "learning-port": learning, "floor-bytes": 0}
    everywhere = [{"path": tempfile.gettempdir(), "namespaces": ["*"]}]
    flags |= {"host-folder-grants": json.dumps(everywhere)}
    flags |= {flag: folder / path for flag, path in paths.items()}
    return ["--", *(f"--{flag}={value}" for flag, value in flags.items())]


@pytest.fixture
def folder() -> Iterator[Path]:
    with node_folder() as short:
        yield short


@asynccontextmanager
async def running(apiserver: ApiServer, folder: Path, namespace: str = "") -> AsyncIterator[SidecarNode]:
    python = shlex.quote(sys.executable)
    name = f"node-{uuid4().hex[:8]}"
    source = folder / "source"
    for path, data in FILES.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_bytes(data)
    options = agent_arguments(name, folder, apiserver.kubeconfig, namespace)
    port = next(int(word.partition("=")[2]) for word in options if word.startswith("--learning-port="))
    keeper = Keeper(
        folder / "k",
        agent=f"{python} -m stoker_sidecar.agent",
        fetcher=f"{python} -m stoker_sidecar.fetcher.main --floor-bytes=0 --host-folder {tempfile.gettempdir()}",
        options=options,
    )
    async with await apiserver.client() as kube:
        with keeper:
            yield SidecarNode(name, kube, keeper, folder, source, port)


@pytest.fixture
async def node(apiserver: ApiServer, folder: Path) -> AsyncIterator[SidecarNode]:
    async with running(apiserver, folder) as one:
        yield one


def resident_megabytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def hashes(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


async def test_a_dataset_is_listed_warmed_mounted_natively_and_cleaned(node: SidecarNode) -> None:
    await node.warm()
    row = await node.until(lambda row: row["warmFiles"] == len(FILES))
    assert row["warmBytes"] == sum(map(len, FILES.values()))
    seen = await node.publish("pod-1")
    assert hashes(seen) == hashes(node.source)
    assert await mode_of(node, "pod-1") == "native"
    await node.unpublish("pod-1")
    await node.plan()

    async def clean() -> bool:
        return not (await node.status())["datasets"]

    assert await eventually_async(clean, SECONDS)
    assert not list((node.folder / "k" / "cache" / "datasets").iterdir())


async def test_a_cold_dataset_is_read_through_and_its_pod_ends_native(node: SidecarNode) -> None:
    digest = await node.listed()
    await node.plan(node.dataset(listingId="one", version=digest))
    seen = await node.publish("pod-1")
    await mode_becomes(node, "overlay")
    assert (seen / "class-0" / "0.bin").read_bytes() == FILES["class-0/0.bin"]
    await node.plan(node.dataset(listingId="one", version=digest, eager=True))
    await mode_becomes(node, "native")
    assert hashes(seen) == hashes(node.source)


async def mode_of(node: SidecarNode, pod: str) -> str:
    async def look() -> str | None:
        rows = (await node.status()).get("mounts", [])
        return next((row["mode"] for row in rows if row["pod"] == pod and row.get("mode")), None)

    return await eventually_async(look, SECONDS)


async def mode_becomes(node: SidecarNode, wanted: str) -> None:
    async def look() -> bool:
        return await mode_of(node, "pod-1") == wanted

    assert await eventually_async(look, SECONDS)


async def test_another_node_takes_the_manifest_from_the_one_that_listed(
    apiserver: ApiServer, folder: Path, namespace: str
) -> None:
    with node_folder() as elsewhere:
        async with running(apiserver, folder, namespace) as node, running(apiserver, elsewhere, namespace) as other:
            digest = await node.warm()
            await other.plan()
            authority = new_authority()
            for one in (node, other):
                await certify(one.kube, one.name, authority)
            host = (await node.status())["address"]
            source = {"uri": f"file://{node.source}"}
            await other.plan(other.dataset(source=source, version=digest, eager=True, manifestHosts=[host]))
            await other.until(lambda row: row["phase"] == "Warm")
            assert hashes(await other.publish("pod-2")) == hashes(node.source)


async def test_a_killed_fetcher_comes_back_and_goes_on(node: SidecarNode) -> None:
    digest = await node.listed()
    fetcher = next(row for row in node.keeper.call(op="list")["children"] if row["name"] == "fetcher")
    os.kill(fetcher["pid"], signal.SIGKILL)
    await node.plan(node.dataset(listingId="one", version=digest, eager=True))
    await node.until(lambda row: row["phase"] == "Warm")
    assert (await node.status())["conditions"][0]["status"] == "True"


async def test_a_pod_mounts_the_version_that_its_volume_names(node: SidecarNode) -> None:
    old, before = await node.warm(), hashes(node.source)
    (node.source / "class-0" / "0.bin").write_bytes(b"changed")
    fields: dict[str, object] = {"listingId": "two", "eager": True, "older": [{"version": old}]}
    await node.plan(node.dataset(version=old, **fields))
    row = await node.until(lambda row: row.get("listing", {}).get("id") == "two")
    await node.plan(node.dataset(version=row["listing"]["version"], **fields))
    await node.until(lambda row: row["version"] != old and row["phase"] == "Warm")
    assert hashes(await node.publish("pod-1", version=old)) == before
    assert hashes(await node.publish("pod-2")) == hashes(node.source)


async def test_a_node_says_what_the_webhook_read_in_a_pods_spec_and_what_it_is_itself(node: SidecarNode) -> None:
    await node.warm()
    hints = PodHints("jax", FrameworkSource.COMMAND, batch_size=256, gpus=8, job="resnet")
    await node.publish("pod-1", **hint_attributes(hints))

    async def row() -> Object | None:
        return next(iter((await node.status()).get("workloads", [])), None)

    told = await eventually_async(row, SECONDS)
    assert {"framework": "jax", "frameworkSource": "command", "batchSize": 256, "gpus": 8, "job": "resnet"}.items() <= (
        told.items()
    )
    hardware = (await node.status())["hardware"]
    assert hardware["memoryBytes"] > 0
    assert [disk["path"] for disk in hardware["disks"]] == [str(node.folder / "k" / "cache")]


def layers_of_rules(node: SidecarNode) -> dict[str, str]:
    """Return the layers of the active rules on a node, by ID."""
    with urllib.request.urlopen(f"http://127.0.0.1:{node.learning_port}/ml/rules", timeout=SECONDS) as answer:
        return {rule["id"]: rule["layer"] for rule in json.loads(answer.read())["rules"]}


async def test_plug_ins_tell_the_framework_of_a_pod_by_its_files_and_their_rules_are_in_force(
    apiserver: ApiServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = folder / "site"
    site.mkdir()
    install_example(site)
    write_plugin(site, "odd", "def default_rules(self): return 7")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("STOKER_PLUGINS", "pytorch,paddle,odd")
    monkeypatch.setenv("STOKER_PLUGINS_RUN_AS", "")
    async with running(apiserver, folder) as node:
        for name in ("last.pdparams", "last.pdopt"):
            (node.source / name).write_bytes(b"x" * 1000)
        digest = await node.listed()
        await node.plan(node.dataset(listingId="one", version=digest))
        seen = await node.publish("pod-1")

        async def row() -> Object | None:
            (seen / "last.pdparams").read_bytes()
            rows = (await node.status()).get("workloads", [])
            return next((row for row in rows if row.get("framework")), None)

        told = await eventually_async(row, 3 * SECONDS)
        assert (told["framework"], told["frameworkSource"]) == ("paddle", "files")
        plugins = {row["name"]: row for row in (await node.status())["plugins"]}
        assert {"package": "stoker-paddle 0.1.0", "rules": 1}.items() <= plugins["paddle"].items()
        assert plugins["odd"]["message"].startswith("it failed: TypeError")

        assert layers_of_rules(node)["paddle-checkpoints"] == "framework"


async def test_a_new_node_on_an_old_disk_tells_what_is_there_and_fetches_nothing_again(
    apiserver: ApiServer, folder: Path
) -> None:
    async with running(apiserver, folder) as before:
        digest = await before.warm()
    async with running(apiserver, folder) as node:
        await node.plan(keepUnlisted=True)
        row = await node.until(lambda row: digest in row.get("retained", ()))
        assert row["phase"] == "Pending"
        shutil.rmtree(node.source)
        await node.plan(node.dataset(version=digest))
        warm = await node.until(lambda row: row["phase"] == "Warm")
        assert warm["warmFiles"] == len(FILES)


async def test_a_killed_agent_comes_back_with_its_plan_and_its_mounts(node: SidecarNode) -> None:
    await node.warm()
    seen = await node.publish("pod-1")
    agent = next(row for row in node.keeper.call(op="list")["children"] if row["name"] == "agent")
    os.kill(agent["pid"], signal.SIGKILL)
    assert hashes(seen) == hashes(node.source)
    again = await node.publish("pod-1")
    assert len(mounts_below(again)) == 1
    await node.unpublish("pod-1")
    assert not mounts_below(again)


async def test_a_stopped_sidecar_leaves_nothing_running(node: SidecarNode) -> None:
    await node.warm()
    pids = node.keeper.pids()
    assert node.keeper.stop() == 0
    assert not any(map(is_running, pids))


async def test_the_agent_stays_small(node: SidecarNode) -> None:
    await node.warm()
    await node.publish("pod-1")
    agent = next(row for row in node.keeper.call(op="list")["children"] if row["name"] == "agent")
    assert resident_megabytes(agent["pid"]) < 120  # the agent's share of the sidecar's 300


async def test_what_a_pod_has_mounted_stays_in_memory_and_the_node_tells_so(
    apiserver: ApiServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu = min(os.sched_getaffinity(0))
    monkeypatch.setenv("STOKER_PINNED_MEMORY", "64Mi")
    monkeypatch.setenv("STOKER_CPUS", f"{cpu},8000")
    total = sum(map(len, FILES.values()))
    async with running(apiserver, folder) as node:
        digest = await node.warm()
        asked: dict[str, object] = {"memoryBytes": total, "memoryNames": True, "pages": "now"}
        await node.plan(node.dataset(listingId="one", version=digest, eager=True, **asked))
        pages = (await node.until(lambda row: row.get("pages", {}).get("done")))["pages"]
        assert pages == {"request": "now", "bytes": total, "readBytes": total, "done": True}
        await node.publish("pod-1")
        row = await node.until(lambda row: row["memory"]["bytes"] == total and row["memory"]["names"] > len(FILES))
        assert row["memory"]["message"] == ""
        status = await node.status()
        assert status["memory"]["allowedBytes"] == 64 * 2**20
        assert status["memory"]["pinnedBytes"] > total
        assert status["cpus"] == f"CPUs {cpu}, of those that were asked for; CPUs 8000 cannot be used here"
        await node.unpublish("pod-1")
        await node.until(lambda row: not row["memory"]["bytes"] and not row["memory"]["names"])
