"""Rows of pods that report: the trusted rows, their number, and how often they change."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from stoker_api.datasets.dataset import MountMode
from stoker_api.node_caches.node_storage import NodeMount
from stoker_api.node_caches.node_workload import Attribution, EvidenceSource, NodeWorkload, StallSource
from stoker_sidecar.agent.core.stall import Stall
from stoker_sidecar.agent.core.workload_rows import (
    CALM_SECONDS,
    MOST_PHASES,
    NEWS_SECONDS,
    PHASE_SECONDS,
    PhasePace,
    PodReport,
    due_in,
    fair_share,
    merged,
    observed_row,
    reported_workloads,
)
from stoker_sidecar.agent.pods.node_workloads import NodeWorkloads, hinted, hints_of_pods
from stoker_sidecar.agent.pods.report_link import MOST_LEFT, ReportedWorkloads
from stoker_sidecar.volumes.core.publish import Published, PublishRequest
from stoker_sidecar.volumes.core.report_volume import ReportVolume
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.wire.reports_protocol import Heard
from stoker_tuning.frameworks.pod_hints import FrameworkSource, PodHints
from stoker_tuning.reports.figures import ReportSummary
from tests.fakes.volumes import publish_request
from tests.support.cases import cases

SUMMARY = ReportSummary(phase="Training", epoch=3, stall_percent=4, lines=9, age=2.0)
MOUNT = NodeMount(volume_id="v", dataset_namespace="team-b", dataset="coco", pod_namespace="vision", pod_uid="u1")


def volume(uid: str = "u1", namespace: str = "vision") -> ReportVolume:
    return ReportVolume("csi-1", Path(f"/pods/{uid}"), namespace, f"pod-{uid}", uid)


def workload(uid: str = "u1", namespace: str = "vision", **fields: Any) -> NodeWorkload:
    return NodeWorkload(pod=f"{namespace}/pod-{uid}", uid=uid, **fields)


def test_a_row_has_the_name_that_the_kubelet_gave_and_what_the_pod_said() -> None:
    (row,) = reported_workloads([volume()], [MOUNT], {"u1": PodReport(SUMMARY, 1000.0)})
    assert (row.pod, row.datasets, row.phase, row.epoch) == ("vision/pod-u1", ("team-b/coco",), "Training", 3)
    assert (row.stall_percent, row.stall_source, row.reported_at) == (4, "report", "1970-01-01T00:16:38Z")


def test_a_pod_that_said_nothing_has_no_row() -> None:
    silent = {"u1": PodReport(ReportSummary(), 1000.0)}
    assert (reported_workloads([volume()], [], {}), reported_workloads([volume()], [], silent)) == ((), ())


@cases(
    "stall, percent",
    (Stall(0.4567, StallSource.FUSE), 46),
    (Stall(0.9, StallSource.CONSUMER, reads=0.3), 30),
    (Stall(0.9, StallSource.CONSUMER), None),
)
def test_how_long_reads_wait_is_what_the_kernel_or_fuse_counts(stall: Stall, percent: int | None) -> None:
    assert observed(stall=stall).read_wait_percent == percent


def test_how_long_reads_wait_is_shown_beside_the_pods_own_stall() -> None:
    told = workload(stall_percent=40, stall_source=StallSource.REPORT)
    (row,) = merged([told], [observed(stall=Stall(0.3, StallSource.TASK_DELAY))])
    assert (row.stall_percent, row.read_wait_percent) == (40, 30)


def observed(items: float = 123.4, stall: Stall | None = None, **fields: Any) -> NodeWorkload:
    """Make the row of pod u1 from its reads."""
    seen = observed_row(
        publish_request(pod_uid="u1"),
        source=EvidenceSource.FANOTIFY,
        attribution=Attribution.ONLY_POD,
        datasets=["vision/imagenet"],
        items_per_second=items,
        reads=1234.0,
        sampled=0.256,
        stall=stall,
    )
    return seen.model_copy(update=fields)


def test_figures_of_observation_are_no_finer_than_a_person_looks() -> None:
    row = observed(stall=Stall(0.4567, StallSource.PRESSURE))
    assert (row.items_per_second, row.reads, row.sampled) == (120.0, 1200, 0.26)
    assert (row.stall_percent, row.stall_source) == (46, StallSource.PRESSURE)


def test_a_pods_own_word_comes_before_what_is_seen_of_it() -> None:
    told = workload(phase="Training", items_per_second=5.0, stall_percent=4, stall_source=StallSource.REPORT)
    (row,) = merged([told], [observed(stall=Stall(0.5, StallSource.PRESSURE))])
    assert (row.source, row.items_per_second) == (EvidenceSource.REPORT, 5.0)
    assert (row.stall_percent, row.stall_source) == (4, StallSource.REPORT)


def test_what_a_pod_leaves_open_is_filled_by_what_is_seen_of_it() -> None:
    (row,) = merged([workload(phase="Training")], [observed(stall=Stall(0.5, StallSource.TASK_DELAY))])
    assert (row.source, row.phase) == (EvidenceSource.REPORT, "Training")
    assert (row.observed_by, row.attribution) == (EvidenceSource.FANOTIFY, Attribution.ONLY_POD)
    assert (row.items_per_second, row.stall_percent, row.stall_source) == (120.0, 50, StallSource.TASK_DELAY)
    assert row.datasets == ("vision/imagenet",)


def test_a_pod_that_says_nothing_is_shown_by_its_reads() -> None:
    assert merged([workload("u2")], [observed()]) == (workload("u2"), observed())


def test_ten_rows_are_shared_between_namespaces_however_many_pods_one_has() -> None:
    crowd = [workload(f"a{number}", "crowd") for number in range(30)]
    chosen = fair_share([*crowd, workload("b1", "vision"), workload("b2", "vision")])
    assert len(chosen) == 10
    assert [row.uid for row in chosen][:4] == ["a0", "b1", "a1", "b2"]


@cases(
    "now, since, due",
    (workload(epoch=1), 0.0, None),
    (workload(epoch=2), 0.1, 0.0),
    (workload(epoch=1, phase="Validation"), 0.1, 0.0),
    (workload(epoch=1, checkpoint="saved"), 3.0, NEWS_SECONDS - 3.0),
    (workload(epoch=1, checkpoint="saved"), NEWS_SECONDS + 1, 0.0),
    (workload(epoch=1, step=7), 3.0, CALM_SECONDS - 3.0),
    (workload("u2"), 0.0, 0.0),
)
def test_a_phase_is_shown_at_once_other_news_waits_a_little_and_figures_longer(
    now: NodeWorkload, since: float, due: float | None
) -> None:
    assert due_in([workload(epoch=1)], [now], since) == due


def test_phases_are_shown_at_once_and_in_the_long_run_at_a_pace() -> None:
    pace, now, shown = PhasePace(), 0.0, 0
    while now < 600.0:
        if pace.due_in(now) <= 0:
            pace.spend(now)
            shown += 1
        now += 0.25
    assert shown == MOST_PHASES + 600 / PHASE_SECONDS - 1  # none at the very end


class FakeVolumes:
    """The report volumes of a node, with the methods in use."""

    def __init__(self, *volumes: ReportVolume) -> None:
        self.volumes = volumes

    def all(self) -> tuple[ReportVolume, ...]:
        return self.volumes


class Told:
    """The rows that a node shows, with a manual clock in seconds."""

    def __init__(self, *volumes: ReportVolume) -> None:
        self.now = 100.0
        self.volumes = FakeVolumes(*volumes)
        self.reported = ReportedWorkloads(self.volumes, lambda: (), lambda: self.now)
        self.workloads = NodeWorkloads(
            self.reported.rows, lambda: (), Changes(), Changes(), lambda: self.now, wall=lambda: self.now
        )

    def hear(self, uid: str = "u1", **changes: Any) -> None:
        self.reported.take(Heard({uid: replace(SUMMARY, **changes)}))

    @property
    def phases(self) -> list[str]:
        return [row.phase for row in self.workloads.rows()]


def test_a_phase_that_flaps_changes_what_is_shown_at_a_pace() -> None:
    told = Told(volume())
    told.hear()
    shown = [told.phases]
    for second in range(100):
        told.now += 1.0
        told.hear(phase=("Training", "Validation")[second % 2])
        if told.phases != shown[-1]:
            shown.append(told.phases)
    assert len(shown) <= 1 + MOST_PHASES + 100 / PHASE_SECONDS


def test_it_says_when_it_will_have_something_else_to_say() -> None:
    told = Told(volume())
    told.hear()
    assert told.phases == ["Training"]
    told.now += 4.0
    told.hear(phase="Training", checkpoint="saved a.pt")
    assert told.workloads.due_in() == NEWS_SECONDS - 4.0
    assert [row.checkpoint for row in told.workloads.rows()] == [""]
    told.now += NEWS_SECONDS
    assert [row.checkpoint for row in told.workloads.rows()] == ["saved a.pt"]


def test_a_row_says_when_its_figures_were_taken() -> None:
    told = Told(volume())
    told.hear()
    (first,) = told.workloads.rows()
    told.now += 30.0
    told.hear(step=7)
    assert first.figures_at == "1970-01-01T00:01:40Z"
    assert told.workloads.rows() == (first,)
    told.now += CALM_SECONDS
    assert [row.figures_at for row in told.workloads.rows()] == ["1970-01-01T00:03:10Z"]
    assert [row.figures_at for row in told.workloads.everything()] == [None]


def test_a_pod_that_is_gone_leaves_at_once() -> None:
    told = Told(volume())
    told.hear()
    assert told.phases == ["Training"]
    told.volumes.volumes = ()
    assert told.phases == []


def test_a_pod_that_ends_keeps_its_report_until_its_last_volume_is_gone() -> None:
    mounts = [
        NodeMount(volume_id="v", dataset_namespace="n", dataset="d", pod_namespace="vision", pod="p", pod_uid="u1")
    ]
    volumes = FakeVolumes(volume())
    reported = ReportedWorkloads(volumes, lambda: tuple(mounts))
    reported.take(Heard({"u1": SUMMARY}))
    volumes.volumes = ()
    reported.take(Heard({"u1": replace(SUMMARY, loss="0.1")}))
    assert [(row.pod, row.source, row.phase, row.loss) for row in reported.rows()] == [
        ("vision/p", EvidenceSource.REPORT, "Training", "0.1")
    ]
    mounts.clear()
    assert (reported.rows(), reported.summaries()["u1"].loss) == ((), "0.1")


def test_reports_of_pods_that_have_left_are_bounded() -> None:
    volumes = FakeVolumes(*(volume(f"u{number}") for number in range(3 * MOST_LEFT)))
    reported = ReportedWorkloads(volumes, lambda: ())
    reported.take(Heard({one.pod_uid: SUMMARY for one in volumes.volumes}))
    volumes.volumes = ()
    reported.take(Heard({}))
    assert list(reported.summaries()) == [f"u{number}" for number in range(2 * MOST_LEFT, 3 * MOST_LEFT)]


async def test_what_is_seen_first_is_told_at_once() -> None:
    rows: list[NodeWorkload] = []
    news, changes = Changes(), Changes()
    told = NodeWorkloads(lambda: (), lambda: rows, news, changes)
    token, telling = changes.token(), asyncio.create_task(told.run())
    rows.append(observed())
    news.mark()
    assert await changes.wait(token, timeout=30)
    assert [row.model_copy(update={"figures_at": None}) for row in told.rows()] == [observed()]
    telling.cancel()


def test_nobody_speaks_for_a_pod_that_has_no_report_volume_here() -> None:
    told = Told(volume())
    told.hear("another")
    assert told.phases == []


HINTS = PodHints("jax", FrameworkSource.COMMAND, batch_size=256, gpus=8, job="resnet")


def test_a_specs_hints_tell_what_report_and_reads_leave_open() -> None:
    row = hinted(workload(), {"u1": HINTS})
    assert (row.framework, row.framework_source, row.batch_size, row.gpus, row.job) == (
        "jax",
        "command",
        256,
        8,
        "resnet",
    )
    assert hinted(workload("u2"), {"u1": HINTS}) == workload("u2")


def test_a_pods_own_word_comes_before_its_libraries_and_these_before_its_spec() -> None:
    said = PodReport(replace(SUMMARY, framework="tensorflow", batch_size=32), 1000.0)
    (told,) = reported_workloads([volume()], [], {"u1": said})
    seen = observed(framework="pytorch", framework_source="libraries")
    (both,) = merged([told], [seen])
    assert (both.framework, both.framework_source) == ("tensorflow", "report")
    (silent,) = merged([told.model_copy(update={"framework": "", "framework_source": None})], [seen])
    assert (silent.framework, silent.framework_source) == ("pytorch", "libraries")
    row = hinted(silent, {"u1": HINTS})
    assert (row.framework, row.framework_source, row.batch_size) == ("pytorch", "libraries", 32)


def test_hints_come_by_the_first_volume_that_tells_any() -> None:
    plain = published_volume(publish_request(pod_uid="u1"))
    telling = published_volume(publish_request(pod_uid="u1", hints=HINTS))
    later = replace(volume(), hints=replace(HINTS, gpus=1))
    assert hints_of_pods([plain, telling], [later]) == {"u1": HINTS}
    assert hints_of_pods([plain], [later]) == {"u1": later.hints}


def test_a_node_tells_hints_with_what_it_knows_of_its_pods() -> None:
    told = NodeWorkloads(lambda: [workload()], lambda: (), Changes(), Changes(), hints=lambda: {"u1": HINTS})
    assert [row.job for row in told.rows()] == ["resnet"]


def published_volume(request: PublishRequest) -> Published:
    return Published(request, "d1", "v1", Path("/v"), 1, 1, MountMode.FUSE, fuse=True)
