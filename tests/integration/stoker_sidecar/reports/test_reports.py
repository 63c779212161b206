"""A pod reports over the socket that only it reaches: real CSI calls, mounts, sockets, and the keeper's listener."""

import array
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stoker_api import names
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_sidecar.agent.csi.pb import csi_pb2
from stoker_sidecar.agent.orders.reported_plans import ReportedOrder
from stoker_sidecar.agent.pods.report_link import ReportedWorkloads, ReportLink
from stoker_sidecar.volumes.synchronization import Changes
from tests.support.csi_driver import FILES, RunningDriver, node_folder, running_driver, write_version
from tests.support.keeper import Keeper
from tests.support.waiting import eventually, wait_until

pytestmark = [pytest.mark.root]
SECONDS = 30.0
EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "report.py"
_MODE = csi_pb2.VolumeCapability.AccessMode.SINGLE_NODE_WRITER
_ANYONE = 12345  # a user without an account


@dataclass
class ReportingNode:
    """A node with its keeper, listener, driver and the agent's link between them."""

    driver: RunningDriver
    keeper: Keeper
    workloads: ReportedWorkloads
    orders: dict[str, ReportedOrder]

    async def publish(self, uid: str = "u1", namespace: str = "vision", **attributes: str) -> Path:
        """Publish a report volume, as the kubelet does for the webhook's volume. Return its target."""
        pod = {names.CSI_POD_NAMESPACE: namespace, names.CSI_POD_NAME: f"pod-{uid}", names.CSI_POD_UID: uid}
        context = pod | {names.CSI_EPHEMERAL: "true", "dataset": "imagenet", "report": "true"} | attributes
        target = self.driver.pods / uid / "report"
        request = csi_pb2.NodePublishVolumeRequest(
            volume_id=f"csi-{uid}",
            target_path=str(target),
            volume_capability={"mount": {}, "access_mode": {"mode": _MODE}},
            volume_context=context,
            readonly=True,
        )
        await self.driver.call("csi.v1.Node/NodePublishVolume", request, csi_pb2.NodePublishVolumeResponse)
        return target

    async def publish_heard(self, uid: str = "u1", namespace: str = "vision") -> Path:
        """Publish one. Return the path of its socket when it has a listener."""
        path = await self.publish(uid, namespace) / "report.sock"
        await eventually(lambda: listens(path), SECONDS)
        return path

    async def unpublish(self, uid: str = "u1") -> None:
        target = str(self.driver.pods / uid / "report")
        request = csi_pb2.NodeUnpublishVolumeRequest(volume_id=f"csi-{uid}", target_path=target)
        await self.driver.call("csi.v1.Node/NodeUnpublishVolume", request, csi_pb2.NodeUnpublishVolumeResponse)

    async def until(self, uid: str = "u1", **fields: Any) -> NodeWorkload:
        """Return the row of a pod when it has this value."""
        await eventually(lambda: any(says(row, uid, fields) for row in self.rows()), SECONDS)
        return next(row for row in self.rows() if row.uid == uid)

    def rows(self) -> tuple[NodeWorkload, ...]:
        """Return the known state of the pods."""
        return self.workloads.rows()

    @property
    def listener(self) -> int:
        rows = self.keeper.call(op="list")["children"]
        return next(int(row["pid"] or 0) for row in rows if row["name"] == "report listener")


def says(row: NodeWorkload, uid: str, fields: dict[str, Any]) -> bool:
    return row.uid == uid and all(getattr(row, name) == value for name, value in fields.items())


def send(path: Path, **said: Any) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.sendto(json.dumps(said).encode(), str(path))


def listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one, suppress(OSError):
        one.connect(str(path))
        return True
    return False


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def run_example(then: str, environment: dict[str, str], *, user: int = 0) -> str:
    """Run the example with some further lines, as its pod's user. Return its output."""
    become = f"import json, os, socket; os.setgroups([]); os.setgid({user}); os.setuid({user})"
    program = "\n".join((become if user else "", EXAMPLE.read_text(), then))
    command = [sys.executable, "-I", "-c", program]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


@pytest.fixture
async def node() -> AsyncIterator[ReportingNode]:
    with node_folder() as folder:
        folder.chmod(0o755)  # the test's own; a pod sees only its volume, wherever that is
        info = write_version(folder / "cache")
        keeper = Keeper(folder / "k", node=folder, options=["--reports", "On"])
        with keeper:
            async with running_driver(folder, info) as driver:
                orders: dict[str, ReportedOrder] = {}
                rows = driver.publisher.rows
                workloads = ReportedWorkloads(driver.reports, rows, on_orders=orders.update)
                path = keeper.run_dir / "reports.sock"
                link = ReportLink(path, driver.reports, workloads, driver.changes, Changes())
                linking = asyncio.create_task(link.run())
                yield ReportingNode(driver, keeper, workloads, orders)
                linking.cancel()
                with suppress(asyncio.CancelledError):
                    await linking


async def test_what_a_pod_says_is_told_of_it(node: ReportingNode) -> None:
    path = await node.publish_heard()
    send(path, epoch=3, epochs=90, phase="Training", loss=0.71)
    row = await node.until(epoch=3)
    assert (row.pod, row.phase, row.epochs, row.loss) == ("vision/pod-u1", "Training", 90, "0.71")


async def test_the_last_line_of_a_pod_counts_though_its_volume_is_unmounted_at_once(node: ReportingNode) -> None:
    path = await node.publish_heard()
    send(path, epoch=3, wait_seconds=1.0, compute_seconds=3.0)
    await node.until(epoch=3)
    send(path, epoch=3, loss=0.25, wait_seconds=1.0, compute_seconds=3.0)
    await node.unpublish()
    await eventually(lambda: node.workloads.summaries()["u1"].loss == "0.25", SECONDS)
    last = node.workloads.summaries()["u1"]
    assert (last.waited, last.watched, node.rows()) == (2.0, 8.0, ())


async def test_a_pod_speaks_for_itself_and_for_no_other(node: ReportingNode) -> None:
    mine, others = await node.publish_heard("u1"), await node.publish_heard("u2", "other")
    send(mine, epoch=1)
    send(others, epoch=2)
    assert (await node.until("u1", epoch=1)).pod == "vision/pod-u1"
    assert (await node.until("u2", epoch=2)).pod == "other/pod-u2"


async def test_the_order_that_a_pod_says_is_its_own(node: ReportingNode) -> None:
    mine, others = await node.publish_heard("u1"), await node.publish_heard("u2", "other")
    send(mine, sampling='{"seed": 1}', rank=3, world_size=4)
    send(others, sampling='{"seed": 2}')
    await node.until("u1", refused=0)
    await node.until("u2", refused=0)
    assert node.orders == {"u1": ReportedOrder('{"seed": 1}', 3, 1, 4), "u2": ReportedOrder('{"seed": 2}')}


async def test_the_folder_is_read_only_and_holds_nothing_but_the_socket(node: ReportingNode) -> None:
    path = await node.publish_heard()
    assert names_in(path.parent) == ["report.sock"]
    with pytest.raises(OSError, match="Read-only file system"):
        path.unlink()


async def test_the_example_reports_as_whatever_user_the_pod_runs(node: ReportingNode) -> None:
    path = await node.publish_heard()
    loop = "for epoch in range(1, 4): report(epoch=epoch, epochs=3, loss=1 / epoch)"
    await asyncio.to_thread(run_example, loop, {"STOKER_REPORT_SOCKET": str(path)}, user=_ANYONE)
    assert (await node.until(epoch=3)).loss == "0.3333"


def test_the_example_goes_on_where_nobody_listens(tmp_path: Path) -> None:
    for environment in ({}, {"STOKER_REPORT_SOCKET": str(tmp_path / "report.sock")}):
        assert run_example("report(epoch=1); print('trained on')", environment) == "trained on\n"


async def test_a_listener_that_was_killed_is_replaced_behind_the_same_path(node: ReportingNode) -> None:
    path = await node.publish_heard()
    before = node.listener
    os.kill(before, signal.SIGKILL)
    await asyncio.to_thread(wait_until, lambda: node.listener not in (0, before))

    await eventually(lambda: listens(path), SECONDS)
    send(path, epoch=7)
    await node.until(epoch=7)


async def test_a_keeper_that_follows_another_serves_the_pods_that_run(node: ReportingNode) -> None:
    path = await node.publish_heard()
    await asyncio.to_thread(node.keeper.stop)
    with pytest.raises(ConnectionRefusedError):
        send(path, epoch=1)
    await asyncio.to_thread(node.keeper.start)
    await eventually(lambda: listens(path), SECONDS)
    send(path, epoch=2)
    await node.until(epoch=2)


async def test_a_line_that_does_not_count_is_counted_and_told(node: ReportingNode) -> None:
    path = await node.publish_heard()
    send(path, epoch=1)
    send(path, epoch=-1)
    row = await node.until(refused=1)
    assert (row.epoch, row.problem[:13]) == (1, "'epoch' is -1")


async def test_a_pod_that_shouts_is_not_waited_for_and_another_is_heard(node: ReportingNode) -> None:
    loud, quiet = await node.publish_heard("u1"), await node.publish_heard("u2")
    refused = 0
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as shouting:
        shouting.setblocking(False)
        for _ in range(20_000):
            try:
                shouting.sendto(b'{"epoch": 1}', str(loud))
            except BlockingIOError:
                refused += 1
    assert refused > 10_000
    send(quiet, epoch=5)
    await node.until("u2", epoch=5)


async def test_descriptors_that_come_along_are_closed(node: ReportingNode) -> None:
    path = await node.publish_heard()
    send(path, epoch=1)
    await node.until(epoch=1)
    held = len(names_in(Path(f"/proc/{node.listener}/fd")))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.connect(str(path))
        numbers = array.array("i", [one.fileno()] * 50)
        one.sendmsg([b'{"epoch": 2}'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
    await node.until(epoch=2)
    assert len(names_in(Path(f"/proc/{node.listener}/fd"))) == held


async def test_a_pod_that_ends_leaves_no_row_no_folder_and_no_mount(node: ReportingNode) -> None:
    path = await node.publish_heard()
    send(path, epoch=1)
    await node.until(epoch=1)
    await node.unpublish()
    assert node.rows() == ()
    assert names_in(node.driver.pods / "u1") == []
    assert names_in(node.keeper.folder.parent / "state" / "reports") == []


async def test_a_dataset_that_an_older_sidecar_mounted_there_goes_with_its_pod(node: ReportingNode) -> None:
    target = await node.publish(report="")  # such a sidecar does not know the attribute
    assert sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()) == sorted(FILES)
    await node.publish()
    await node.unpublish()
    assert (node.driver.mounted.all(), names_in(node.driver.pods / "u1")) == ((), [])


async def test_statistics_of_a_report_volume_are_answered(node: ReportingNode) -> None:
    path = await node.publish_heard()
    request = csi_pb2.NodeGetVolumeStatsRequest(volume_id="csi-u1", volume_path=str(path.parent))
    answer = await node.driver.call("csi.v1.Node/NodeGetVolumeStats", request, csi_pb2.NodeGetVolumeStatsResponse)
    assert isinstance(answer, csi_pb2.NodeGetVolumeStatsResponse)
    assert not answer.volume_condition.abnormal
