"""An agent whose mount table is damaged, while pods have real mounts."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stoker_api.node_caches.node_storage import MountPhase, NodeMount
from stoker_kube.api import Object
from stoker_kube.resources import NODE_CACHES
from stoker_sidecar.linux.mounts import target_mounts
from stoker_sidecar.wire.fetcher_protocol import Progress
from tests.fakes.fetcher import GIB
from tests.fakes.kube import FakeKube
from tests.fakes.volumes import UID
from tests.support.agent_node import RunningAgent, agent_node
from tests.support.csi_driver import node_folder, write_version

pytestmark = pytest.mark.root
OTHER = "0" * 64
UNREADABLE = [
    "",
    '{"format": 1, "mou',
    '{"format": 9, "mounts": []}',
    '{"format": 1, "mounts": [{}]}',
    '{"format": 1, "mounts": [7]}',
]


@dataclass
class LostTable:
    """A node with a pod's mount of a version, and the facts about it."""

    folder: Path
    digest: str

    @property
    def target(self) -> Path:
        return self.folder / "kubelet-dir" / "pods" / "uid-a" / "volumes" / "kubernetes.io~csi" / "data" / "mount"

    @property
    def version(self) -> Path:
        return self.folder / "cache-root" / "datasets" / UID / "versions" / self.digest

    def mount(self, source: Path) -> None:
        self.target.mkdir(parents=True)
        target_mounts.bind(source, self.target)
        note = {"driverName": "csi.stoker.dev", "volumeHandle": "csi-1", "volumeLifecycleMode": "Ephemeral"}
        (self.target.parent / "vol_data.json").write_text(json.dumps(note))

    def lose(self, content: str) -> None:
        (self.folder / "state-dir").mkdir()
        (self.folder / "state-dir" / "mounts.json").write_text(content)

    async def api_server(self, *datasets: Object) -> FakeKube:
        kube = FakeKube()
        await kube.create(NODE_CACHES, {"metadata": {"name": "node-1"}, "spec": {"datasets": list(datasets)}})
        await kube.patch(NODE_CACHES, "node-1", {"status": {"mounts": [self._told()]}}, subresource="status")
        return kube

    def _told(self) -> Object:
        told = NodeMount(
            volume_id="csi-1",
            dataset_namespace="vision",
            dataset="imagenet",
            version=self.digest,
            pod_namespace="vision",
            pod="trainer",
            pod_uid="uid-a",
            phase=MountPhase.MOUNTED,
        )
        return dict(told.wire())

    def planned(self) -> Object:
        # It has another version now: only the mount keeps the old one.
        source = {"uri": "s3://bucket/"}
        return {"namespace": "vision", "name": "imagenet", "uid": UID, "version": OTHER, "source": source}


@pytest.fixture
async def lost() -> AsyncIterator[LostTable]:
    with node_folder() as folder:
        yield LostTable(folder, write_version(folder / "cache-root").digest)


def told(node: RunningAgent) -> list[tuple[Any, ...]]:
    return [(row["pod"], row["dataset"], row["version"], row["mode"]) for row in node.status.get("mounts", [])]


@pytest.mark.parametrize("content", UNREADABLE)
async def test_what_pods_have_mounted_is_told_and_held_although_the_table_is_lost(
    lost: LostTable, content: str
) -> None:
    lost.mount(lost.version / "tree")
    lost.lose(content)
    kube = await lost.api_server(lost.planned())
    async with agent_node(kube, lost.folder) as node:
        await node.until(lambda: UID in node.fetcher.configured and bool(node.status.get("address")))
        assert node.fetcher.configured[UID].held == (lost.digest,)
        assert told(node) == [("trainer", "imagenet", lost.digest, "native")]


async def test_a_dataset_in_no_plan_is_not_removed_while_a_mount_of_the_lost_table_shows_it(lost: LostTable) -> None:
    lost.mount(lost.version / "tree")
    lost.lose("")
    kube = await lost.api_server()
    async with agent_node(kube, lost.folder) as node:
        node.fetcher.say(Progress((), GIB, 100 * GIB, 50 * GIB, {UID: (lost.digest,), "old": (OTHER,)}))
        await node.until(lambda: node.fetcher.removed == ["old"] and bool(node.status.get("address")))
        assert told(node) == [("trainer", "imagenet", lost.digest, "native")]


async def test_nothing_is_removed_while_a_mount_does_not_tell_its_version(lost: LostTable) -> None:
    lost.mount(lost.folder)
    lost.lose("")
    kube = await lost.api_server()
    async with agent_node(kube, lost.folder) as node:
        node.fetcher.say(Progress((), GIB, 100 * GIB, 50 * GIB, {UID: (lost.digest,), "later": (OTHER,)}))
        await node.until(lambda: node.fetcher.removed == ["later"])
        await node.plan(lost.planned())
        await node.until(lambda: UID in node.fetcher.configured)
        assert node.fetcher.configured[UID].held == (lost.digest,)


async def test_a_rebuilt_row_is_there_for_the_next_agent(lost: LostTable) -> None:
    lost.mount(lost.version / "tree")
    lost.lose("")
    kube = await lost.api_server()
    async with agent_node(kube, lost.folder) as node:
        await node.until(lambda: bool(node.status.get("address")))
    kept = json.loads((lost.folder / "state-dir" / "mounts.json").read_text())["mounts"]
    assert [(row["request"]["pod"], row["version"], row["files"]) for row in kept] == [("trainer", lost.digest, 3)]
