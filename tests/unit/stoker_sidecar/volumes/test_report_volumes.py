"""The report volumes: one folder per pod, remembered. Their failures never block a pod."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from stoker_sidecar.errors import VolumeCode, VolumeError
from stoker_sidecar.volumes.core.report_volume import ReportVolume
from stoker_sidecar.volumes.mount_table import StateFile
from stoker_sidecar.volumes.mounter import Mounter
from stoker_sidecar.volumes.report_volumes import ReportVolumes
from stoker_tuning.frameworks.pod_hints import FrameworkSource, PodHints
from tests.fakes.volumes import FakeMounts


class Node:
    """Report volumes of a node in a folder, with the kernel's mounts in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "reports"
        self.root.mkdir()
        self.mounts = FakeMounts()
        self.restart()

    def restart(self) -> None:
        self.volumes = ReportVolumes(self.root, self.folder / "state" / "report-volumes.json", Mounter(self.mounts))

    def volume(self, uid: str = "u1", name: str = "report") -> ReportVolume:
        return ReportVolume("csi-1", self.folder / "pods" / uid / name, "vision", "trainer", uid)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def test_a_pod_is_shown_its_own_folder_and_no_other(node: Node) -> None:
    await node.volumes.publish(node.volume("u1"))
    await node.volumes.publish(node.volume("u2"))
    assert node.mounts.stacks == {node.volume(uid).target: [node.root / uid] for uid in ("u1", "u2")}


async def test_a_volume_is_told_of_once_its_folder_is_there_and_not_before(node: Node) -> None:
    publishing = asyncio.create_task(node.volumes.publish(node.volume()))
    told: list[bool] = []
    while not publishing.done():
        told += [(node.root / one.pod_uid).is_dir() for one in node.volumes.all()]
        await asyncio.sleep(0)
    assert all(told)
    assert node.volumes.all() == (node.volume(),)


async def test_a_volume_whose_folder_was_lost_is_told_of_when_it_is_made_again(node: Node) -> None:
    await node.volumes.publish(node.volume())
    node.mounts.stacks.clear()
    (node.root / "u1").rmdir()
    node.restart()
    assert node.volumes.all() == ()
    await node.volumes.restore()
    assert node.volumes.all() == (node.volume(),)


async def test_volumes_are_known_to_the_next_agent(node: Node) -> None:
    await node.volumes.publish(node.volume())
    node.restart()
    assert node.volumes.all() == (node.volume(),)


@pytest.mark.expected_logs("starts without a way to report")
async def test_a_mount_that_is_refused_leaves_an_empty_folder_and_the_pod_starts(node: Node) -> None:
    node.mounts.refuses = True
    await node.volumes.publish(node.volume())
    assert list(node.volume().target.iterdir()) == []


@pytest.mark.expected_logs("starts without a way to report")
async def test_without_a_folder_for_reports_the_pod_starts(node: Node) -> None:
    node.root.rmdir()
    await node.volumes.publish(node.volume())
    assert node.volume().target.is_dir()


async def test_what_is_unpublished_leaves_nothing(node: Node) -> None:
    await node.volumes.publish(node.volume())
    (node.root / "u1" / "report.sock").touch()
    assert await node.volumes.unpublish(node.volume().target)
    assert (node.volumes.all(), node.mounts.stacks, list(node.root.iterdir())) == ((), {}, [])
    assert not node.volume().target.exists()


async def test_another_volumes_target_is_not_its_business(node: Node) -> None:
    assert not await node.volumes.unpublish(node.folder / "pods" / "u1" / "dataset")


async def test_a_second_volume_of_a_pod_is_refused_and_the_first_one_stays(node: Node) -> None:
    await node.volumes.publish(node.volume())
    with pytest.raises(VolumeError, match="has a report volume already") as caught:
        await node.volumes.publish(node.volume(name="second"))
    assert caught.value.code is VolumeCode.INVALID_ARGUMENT
    await node.volumes.publish(node.volume())
    assert node.volumes.all() == (node.volume(),)


async def test_of_thousands_of_volumes_at_once_one_is_taken(node: Node) -> None:
    asked = (node.volumes.publish(node.volume(name=f"v{number}")) for number in range(5000))
    ended = await asyncio.gather(*asked, return_exceptions=True)
    assert (ended.count(None), len(node.mounts.stacks), len(node.volumes.all())) == (1, 1, 1)


async def test_pods_that_come_together_share_writes_of_the_table(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = []
    save = StateFile.save

    def counted(file: StateFile[ReportVolume], volumes: tuple[ReportVolume, ...]) -> None:
        writes.append(len(volumes))
        save(file, volumes)

    monkeypatch.setattr(StateFile, "save", counted)
    await asyncio.gather(*(node.volumes.publish(node.volume(f"u{number}")) for number in range(100)))
    assert len(writes) <= 3
    node.restart()
    assert len(node.volumes.all()) == 100


async def test_several_volumes_of_a_pod_from_an_earlier_release_keep_its_folder(node: Node) -> None:
    for name, uid in (("one", "u1"), ("two", "u2")):
        await node.volumes.publish(node.volume(uid, name))
    table = node.folder / "state" / "report-volumes.json"
    table.write_text(table.read_text().replace('"u2"', '"u1"'))
    node.restart()
    await node.volumes.unpublish(node.volume("u1", "one").target)
    assert "u1" in [folder.name for folder in node.root.iterdir()]


async def test_a_mount_that_was_lost_is_made_again_and_folders_of_nobody_go(node: Node) -> None:
    await node.volumes.publish(node.volume())
    node.mounts.stacks.clear()
    (node.root / "left-over").mkdir()
    node.restart()
    await node.volumes.restore()
    assert node.mounts.stacks == {node.volume().target: [node.root / "u1"]}
    assert [folder.name for folder in node.root.iterdir()] == ["u1"]


async def test_a_volume_whose_pod_went_without_a_word_is_forgotten(node: Node) -> None:
    await node.volumes.publish(node.volume())
    node.mounts.stacks.clear()
    node.volume().target.rmdir()
    node.restart()
    await node.volumes.restore()
    assert node.volumes.all() == ()


@pytest.mark.expected_logs("cannot be read")
async def test_a_table_that_cannot_be_read_keeps_no_agent_from_starting(node: Node) -> None:
    await node.volumes.publish(node.volume())
    (node.folder / "state" / "report-volumes.json").write_text("{")
    node.restart()
    assert node.volumes.all() == ()


async def test_a_pods_hints_survive_a_restart(node: Node) -> None:
    hinted = replace(node.volume(), hints=PodHints("jax", FrameworkSource.COMMAND, gpus=8))
    await node.volumes.publish(hinted)
    node.restart()
    assert node.volumes.all() == (hinted,)
