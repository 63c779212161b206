"""Programs report to a mount over a socket like that of a pod: stoker-client to the agent."""

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stoker_api.datasets.dataset_source import Source
from stoker_api.node_caches.node_workload import EvidenceSource
from stoker_client import GlobalShuffleSampler, TrainingReport
from stoker_sidecar.agent.orders.reported_plans import ReportedOrder
from stoker_sidecar.helpers.reports.listener import ReportListener
from stoker_sidecar.local.agent.mount_watch import MountReports
from stoker_sidecar.local.mounts.mount_paths import UID, RunPaths
from stoker_sidecar.local.mounts.mount_spec import MountSpec
from stoker_sidecar.local.reports.report import Report, heard_line, progress_event
from stoker_sidecar.volumes.synchronization import Changes
from tests.support.waiting import eventually

SPEC = MountSpec(source=Source(uri="s3://data/set"), folder=Path("/data"), home=Path("/home"))


@dataclass
class Mount:
    """The component of a mount that receives reports, and the last reported orders."""

    run: RunPaths
    reports: MountReports
    orders: dict[str, ReportedOrder] = field(default_factory=dict)


@pytest.fixture
def mount(tmp_path: Path) -> Mount:
    orders: dict[str, ReportedOrder] = {}
    run = RunPaths(tmp_path)
    return Mount(run, MountReports(SPEC, run, Changes(), orders.update), orders)


@asynccontextmanager
async def heard(mount: Mount) -> AsyncIterator[None]:
    """Run it next to the listener that the keeper starts."""
    listener = ReportListener(mount.run.reports)
    server = await listener.serve(mount.run.listener_socket)
    running = asyncio.create_task(mount.reports.run())
    await mount.reports.until_heard()
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        server.close()
        listener.close()


@pytest.fixture
async def report(mount: Mount, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TrainingReport]:
    """Report like a program with the mount's socket."""
    async with heard(mount):
        monkeypatch.setenv("STOKER_REPORT_SOCKET", mount.reports.socket)
        yield TrainingReport(framework="pytorch")


async def test_what_a_program_says_is_a_row_of_the_mount(mount: Mount, report: TrainingReport) -> None:
    report.say(phase="Training", epoch=3, epochs=90, loss=0.5)
    report.flush()
    await eventually(lambda: bool(mount.reports.rows()))
    (row,) = mount.reports.rows()
    assert (row.pod, row.uid, row.datasets) == ("mount/data", UID, ("mount/s3://data/set",))
    assert (row.source, row.phase, row.epoch, row.loss) == (EvidenceSource.REPORT, "Training", 3, "0.5")


async def test_the_order_that_its_sampler_says_is_handed_on(mount: Mount, report: TrainingReport) -> None:
    sampler = GlobalShuffleSampler(100, seed=7, rank=0, world_size=1)
    report.order(sampler, batch_size=4, files={"path": "train"})
    report.flush()
    await eventually(lambda: UID in mount.orders)
    said = json.loads(mount.orders[UID].text)
    assert (said["sampler"], said["seed"], said["files"]) == ("stoker-shuffle", 7, {"path": "train"})


async def test_only_who_mounts_has_a_way_to_the_socket(mount: Mount) -> None:
    async with heard(mount):
        folder = mount.run.report_socket.parent.stat()
        assert stat.S_IMODE(folder.st_mode) == 0o700


async def test_a_socket_is_told_of_once_somebody_listens(mount: Mount) -> None:
    assert mount.reports.socket == ""
    async with heard(mount):
        assert mount.reports.socket == str(mount.run.report_socket)


async def test_a_listener_that_does_not_come_is_not_waited_for(mount: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker_sidecar.local.agent.mount_watch._LOOKS", 2)
    await mount.reports.until_heard()
    assert mount.reports.socket == ""


def test_where_programs_are_heard_is_told_in_words_and_in_json() -> None:
    told = Report(report_socket="/run/report.sock")
    assert heard_line(told) == "its readers can report at STOKER_REPORT_SOCKET=/run/report.sock"
    assert progress_event(told)["reportSocket"] == "/run/report.sock"
    assert (heard_line(Report()), progress_event(Report()).get("reportSocket")) == ("", None)
