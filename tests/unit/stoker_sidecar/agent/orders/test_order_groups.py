"""Pods of one job on one version form a group. Reads of other pods do not count."""

from pathlib import Path

from stoker_api.datasets.dataset import MountMode
from stoker_api.node_caches.node_workload import EvidenceSource
from stoker_sidecar.agent.orders.order_groups import order_groups, read_samples
from stoker_sidecar.agent.questions.reading.reading import ObservedTree, ReaderBatch
from stoker_sidecar.volumes.core.publish import Published
from stoker_sidecar.wire.access_protocol import AccessRow
from tests.fakes.volumes import DIGEST, UID, publish_request

FUSE = ObservedTree(UID, DIGEST, EvidenceSource.FUSE)
SEEN = ObservedTree(UID, DIGEST, EvidenceSource.FANOTIFY)


def pod(name: str, sampling: str = "", mode: MountMode = MountMode.FUSE) -> Published:
    request = publish_request(name, sampling=sampling)
    return Published(request, UID, DIGEST, Path("/cache/v"), 10, 100, mode, mode is MountMode.FUSE)


def ranked(rank: int, seed: int = 3) -> str:
    return f'{{"seed": {seed}, "ranks": 4, "rank": {rank}}}'


def test_workers_of_one_job_are_followed_together_each_with_its_rank() -> None:
    [group] = order_groups([pod("a", ranked(0)), pod("b", ranked(2))])
    assert (group.ranks, group.alone) == ((0, 2), True)


def test_another_seed_is_another_group() -> None:
    one, other = order_groups([pod("a", ranked(0)), pod("b", ranked(0, seed=9))])
    assert [one.alone, other.alone] == [False, False]
    assert (one.reads(FUSE, "uid-a"), one.reads(FUSE, "uid-b")) == (True, False)


def test_reads_that_may_be_anyones_count_where_all_are_of_the_job() -> None:
    [alone] = order_groups([pod("a", ranked(0)), pod("b", ranked(1))])
    [beside] = order_groups([pod("a", ranked(0)), pod("stranger")])
    assert (alone.reads(FUSE, ""), beside.reads(FUSE, "")) == (True, False)


def test_an_overlays_reads_are_not_counted_by_its_fuse_server_once_more() -> None:
    [group] = order_groups([pod("a", ranked(0), MountMode.OVERLAY)])
    assert (group.reads(SEEN, "uid-a"), group.reads(FUSE, "uid-a")) == (True, False)


def test_what_an_agent_of_another_version_wrote_harms_nothing() -> None:
    assert order_groups([pod("a", '{"sampler": "of tomorrow"}'), pod("b")]) == ()


def test_opens_tell_which_file_and_reads_where_in_it() -> None:
    rows = [AccessRow(1.0, 7, 0, 0, 1), AccessRow(1.0, 7, 300, 100, 0)]
    batch = ReaderBatch(0.0, 1.0, 10, 1.0, 20, 1.0, rows)
    files, unseen = read_samples(batch, EvidenceSource.FUSE, by_offset=False)
    assert ([one.offset for one in files], unseen) == ([0], 9)
    places, unseen = read_samples(batch, EvidenceSource.FUSE, by_offset=True)
    assert ([one.offset for one in places], unseen) == ([300], 19)


def test_where_no_reads_are_seen_the_opening_of_one_large_file_tells_nothing() -> None:
    rows = [AccessRow(1.0, 7, 0, 0, 1)]
    batch = ReaderBatch(0.0, 1.0, 10, 0.5, 0, 1.0, rows)
    assert read_samples(batch, EvidenceSource.FANOTIFY, by_offset=True) == ([], 0.0)
