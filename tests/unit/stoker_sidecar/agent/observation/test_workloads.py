"""Accesses become figures of the pods that made them."""

from dataclasses import replace
from pathlib import Path

from stoker_api.datasets.dataset import MountMode
from stoker_api.node_caches.node_workload import Attribution, EvidenceSource, StallSource
from stoker_sidecar.agent.core.stall import Stall
from stoker_sidecar.agent.observation.readers import OURS
from stoker_sidecar.agent.observation.tree_watching import MOST_WATCHES, TreeWatch, wanted_watches
from stoker_sidecar.agent.observation.workloads import Workloads
from stoker_sidecar.agent.questions.reading.reading import ObservedTree
from stoker_sidecar.volumes.core.publish import Published
from stoker_sidecar.wire.access_protocol import AccessBatch, AccessRow
from tests.fakes.volumes import DIGEST, UID, Clock, publish_request
from tests.support.cases import cases
from tests.unit.stoker_sidecar.agent.builders import KnownReaders

TREE = ObservedTree(UID, DIGEST, EvidenceSource.FANOTIFY)


def mounted(pod: str = "trainer-0", mode: MountMode = MountMode.NATIVE, uid: str = UID) -> Published:
    return Published(publish_request(pod), uid, DIGEST, Path("/cache/v"), 10, 100, mode, mode is not MountMode.NATIVE)


def opens(count: int, pid: int = 0) -> list[AccessRow]:
    return [AccessRow(1000.0, 2 + number, 0, 0, pid) for number in range(count)]


def batch(rows: list[AccessRow], share: float = 1.0, until: float = 1000.0) -> AccessBatch:
    return AccessBatch(1, until - 1.0, until, share, len(rows), rows=rows)


def workloads(*records: Published, readers: dict[int, str] | None = None) -> tuple[Workloads, Clock]:
    clock = Clock()
    return Workloads(lambda: records, KnownReaders(readers or {}), clock), clock


def test_the_only_pod_that_has_a_version_is_who_reads_it() -> None:
    seen, _ = workloads(mounted())
    seen.take(TREE, batch(opens(40)))
    (row,) = seen.rows()
    assert (row.pod, row.uid, row.attribution) == ("vision/trainer-0", "uid-trainer-0", Attribution.ONLY_POD)
    assert (row.items_per_second, row.reads, row.sampled) == (40.0, 40, 1.0)


def test_a_sample_stands_for_what_it_is_a_share_of() -> None:
    seen, _ = workloads(mounted())
    seen.take(TREE, batch(opens(40), share=0.25))
    (row,) = seen.rows()
    assert (row.items_per_second, row.reads, row.sampled) == (160.0, 160, 0.25)


def test_a_second_in_which_nobody_looked_says_nothing_of_the_speed() -> None:
    seen, _ = workloads(mounted())
    seen.take(TREE, batch(opens(40), until=999.0))
    seen.take(TREE, batch([], share=0.0))
    (row,) = seen.rows()
    assert (row.items_per_second, row.sampled) == (40.0, 0.5)


def test_pods_are_told_apart_by_their_processes() -> None:
    readers = {7: "uid-trainer-0", 8: "uid-trainer-1"}
    seen, _ = workloads(mounted("trainer-0"), mounted("trainer-1"), readers=readers)
    seen.take(TREE, batch(opens(30, pid=7) + opens(10, pid=8)))
    assert {(row.pod, row.items_per_second, row.attribution) for row in seen.rows()} == {
        ("vision/trainer-0", 30.0, Attribution.PROCESS),
        ("vision/trainer-1", 10.0, Attribution.PROCESS),
    }


def test_pods_that_cannot_be_told_apart_share_what_was_seen_and_say_so() -> None:
    seen, _ = workloads(mounted("trainer-0"), mounted("trainer-1"))
    seen.take(TREE, batch(opens(40)))
    assert [(row.pod, row.items_per_second, row.reads, row.attribution) for row in seen.rows()] == [
        ("vision/trainer-0", 20.0, 20, Attribution.VERSION),
        ("vision/trainer-1", 20.0, 20, Attribution.VERSION),
    ]


def test_a_read_is_of_the_process_that_opened_the_file() -> None:
    readers = {7: "uid-trainer-0", 8: "uid-trainer-1"}
    records = [mounted("trainer-0", MountMode.FUSE), mounted("trainer-1", MountMode.FUSE)]
    seen, _ = workloads(*records, readers=readers)
    seen.take(TREE._replace(source=EvidenceSource.FUSE), batch([*opens(1, pid=7), *opens(1, pid=8)]))
    seen.take(TREE._replace(source=EvidenceSource.FUSE), batch([AccessRow(1001.0, 2, 0, 100, 0)], until=1001.0))
    assert {row.pod for row in seen.rows()} == {"vision/trainer-0", "vision/trainer-1"}


def test_what_the_sidecar_itself_reads_is_nobodys() -> None:
    seen, _ = workloads(mounted(), readers={9: OURS})
    seen.take(TREE, batch(opens(30, pid=9) + opens(10)))
    (row,) = seen.rows()
    assert row.items_per_second == 10.0
    assert seen.counts[UID, EvidenceSource.FANOTIFY].opens == 10.0


def test_opens_of_an_overlay_are_not_counted_a_second_time_below_it() -> None:
    seen, _ = workloads(mounted(mode=MountMode.OVERLAY))
    seen.take(TREE, batch(opens(10)))
    seen.take(ObservedTree(UID, DIGEST, EvidenceSource.FUSE), batch(opens(10)))
    (row,) = seen.rows()
    assert (row.reads, row.source) == (10, EvidenceSource.FANOTIFY)


def test_what_nobody_has_mounted_is_not_remembered() -> None:
    seen, _ = workloads(mounted())
    for number in range(10):
        seen.take(ObservedTree(f"made-up-{number}", DIGEST, EvidenceSource.FUSE), batch(opens(10)))
    assert seen.counts == {}
    assert seen.waited == {}


def test_who_reads_no_more_is_forgotten() -> None:
    seen, clock = workloads(mounted())
    seen.take(TREE, batch(opens(10)))
    clock.now += 121.0
    assert seen.rows() == ()


def test_a_stall_is_shown_with_what_counted_it() -> None:
    seen, _ = workloads(mounted())
    seen.take(TREE, batch(opens(10)))
    seen.stalls = {"uid-trainer-0": Stall(0.4567, StallSource.PRESSURE)}
    (row,) = seen.rows()
    assert (row.stall_percent, row.stall_source) == (46, StallSource.PRESSURE)


@cases(
    "records, version",
    ([mounted(mode=MountMode.FUSE)], (UID, DIGEST)),
    ([mounted(mode=MountMode.NATIVE)], None),
    ([mounted("a", MountMode.FUSE), mounted("b", MountMode.FUSE)], None),
)
def test_fuse_counts_the_waits_of_a_pod_that_reads_alone(
    records: list[Published], version: tuple[str, str] | None
) -> None:
    seen, _ = workloads(*records)
    assert set(seen.alone_by_fuse().values()) == {version}


def test_what_pods_see_without_fuse_is_watched_unless_it_is_off() -> None:
    records = [mounted("a"), mounted("b"), mounted("c", MountMode.FUSE), replace(mounted("d"), uid="off")]
    assert wanted_watches(records, {"off"}) == {TreeWatch(UID, DIGEST, MountMode.NATIVE, Path("/cache/v"))}


def test_watches_are_bounded() -> None:
    records = [mounted(uid=f"u{number}") for number in range(MOST_WATCHES + 5)]
    assert len(wanted_watches(records, ())) == MOST_WATCHES


def test_the_framework_that_its_libraries_tell_is_shown() -> None:
    seen, _ = workloads(mounted())
    seen.frameworks = {"uid-trainer-0": "pytorch"}
    seen.take(TREE, batch(opens(1)))
    (row,) = seen.rows()
    assert row.framework == "pytorch"
