"""What a pod received of its Datasets, from the node's state at each look."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api.datasets.dataset import MountMode
from stoker_api.goodput import LastReport
from stoker_sidecar.agent.core.stall import StallSeconds
from stoker_sidecar.agent.pods.followed_pods import FollowedPod, NodeLook, ended, followed
from stoker_sidecar.volumes.core.publish import Published
from stoker_tuning.frameworks.pod_hints import PodHints
from tests.fakes.volumes import DIGEST, UID, publish_request

POD = "uid-trainer-0"
WALL = 1_800_000_000.0


def mounted(pod: str = "trainer-0", uid: str = UID, size: int = 100) -> Published:
    return Published(publish_request(pod), uid, DIGEST, Path("/cache/v"), 10, size, MountMode.NATIVE, False)


def look(at: float, *rows: Published, **fields: Any) -> NodeLook:
    known: dict[str, Any] = {"warm": {(UID, DIGEST): 60}, "origin": {UID: 1000}, "peers": {UID: 10}}
    return NodeLook(at, WALL + at, rows, **(known | fields))


def run(*looks: NodeLook, late: bool = False) -> dict[str, FollowedPod]:
    """Apply the looks in sequence, from an empty state."""
    known: dict[str, FollowedPod] = {}
    last = None
    for now in looks:
        known, last = followed(known, last, now, late=late), now
    return known


def test_what_lay_on_the_disk_when_it_mounted_is_warm() -> None:
    told = ended(run(look(0, mounted()), look(5, mounted(), warm={(UID, DIGEST): 100}))[POD], WALL + 5, {})
    assert (told.data_bytes, told.warm_bytes, told.mounted_seconds) == (100, 60, 5.0)


def test_bytes_that_come_meanwhile_are_its_own() -> None:
    later = look(5, mounted(), origin={UID: 1030}, peers={UID: 20})
    told = ended(run(look(0, mounted()), later)[POD], WALL, {})
    assert (told.origin_bytes, told.peer_bytes) == (30, 10)


def test_pods_that_have_the_same_mounted_share_what_comes() -> None:
    both = mounted(), mounted("trainer-1")
    known = run(look(0, *both), look(5, *both, origin={UID: 1100}))
    assert [ended(pod, WALL, {}).origin_bytes for pod in known.values()] == [50, 50]


def test_what_comes_between_the_last_look_and_the_end_counts() -> None:
    told = ended(run(look(0, mounted()), look(1, origin={UID: 1007}))[POD], WALL, {})
    assert told.origin_bytes == 7


def test_a_fetcher_that_began_anew_counts_from_nothing() -> None:
    assert ended(run(look(0, mounted()), look(5, mounted(), origin={UID: 40}))[POD], WALL, {}).origin_bytes == 40


def test_while_the_fetcher_says_nothing_bytes_are_not_measured() -> None:
    silent = look(0, mounted(), origin=None, peers=None, warm={})
    told = ended(run(silent, look(5, mounted()))[POD], WALL, {UID: 1.0})
    assert (told.warm_bytes, told.origin_bytes, told.peer_bytes, told.saved_seconds) == (None,) * 4


def counted(**sources: tuple[float, ...]) -> dict[str, dict[str, StallSeconds]]:
    """Make the pod's counters by source: waited seconds, watched seconds, and the number of parts."""
    return {POD: {source: StallSeconds(*told) for source, told in sources.items()}}  # type: ignore[arg-type]


def test_a_pod_that_was_found_mounted_has_no_warm_share_but_its_own_count_of_its_waits() -> None:
    known = run(look(0, mounted()), look(5, mounted(), stalls=counted(report=(2.5, 5.0))), late=True)
    told = ended(known[POD], WALL, {UID: 1.0})
    assert (told.warm_bytes, told.origin_bytes, told.stalled_seconds, told.watched_seconds) == (None, None, 2.5, 5.0)


@pytest.mark.parametrize(
    ("looks", "waits"),
    [
        ([{"report": (2.0, 10.0)}, {"report": (8.0, 40.0)}], (8.0, 40.0, "report")),
        ([{"report": (80.0, 320.0, 8)}], (10.0, 40.0, "report")),
        ([{"fuse": (5.0, 10.0)}, {"fuse": (5.0, 10.0), "report": (9.0, 30.0)}], (9.0, 30.0, "report")),
        ([{"taskDelay": (9.0, 10.0)}, {"taskDelay": (9.0, 20.0), "consumer": (3.0, 15.0)}], (3.0, 15.0, "consumer")),
        ([{"pressure": (1.0, 10.0)}, {"pressure": (1.0, 10.0), "fuse": (2.0, 20.0)}], (3.0, 30.0, "fuse")),
        ([{"report": (6.0, 10.0)}, {}, {"report": (9.0, 20.0)}], (9.0, 20.0, "report")),
        ([{"report": (6.0, 10.0)}, {"report": (1.0, 2.0)}, {"report": (2.0, 9.0)}], (8.0, 19.0, "report")),
    ],
    ids=[
        "its own word is added up",
        "its ranks wait side by side",
        "its own word counts alone",
        "the consumer counts before its workers",
        "what the kernel counts of each interval adds up",
        "a look without a word loses nothing",
        "a counter that was restarted",
    ],
)
def test_stall_is_the_sum_of_seconds(looks: list[Any], waits: tuple[float, float, str]) -> None:
    seen = [look(10.0 * number, mounted(), stalls=counted(**each)) for number, each in enumerate(looks, 1)]
    told = ended(run(look(0, mounted()), *seen)[POD], WALL, {})
    assert (told.stalled_seconds, told.watched_seconds, told.stall_source) == waits


def test_a_stall_that_nobody_knows_is_not_0_and_its_cause_is_told() -> None:
    told = ended(run(look(0, mounted()), look(10, mounted()))[POD], WALL, {}, "no stall source on node-1: cgroup v1")
    assert (told.watched_seconds, told.stalled_seconds, told.stall_source) == (None, None, "")
    assert told.stall_missing == "no stall source on node-1: cgroup v1"


def test_a_stall_that_is_known_needs_no_cause() -> None:
    known = run(look(0, mounted()), look(10, mounted(), stalls=counted(fuse=(1.0, 10.0))))
    assert ended(known[POD], WALL, {}, "no stall source").stall_missing is None


@pytest.mark.parametrize(
    ("known", "cause"),
    [
        (run(look(0, mounted())), "the source's best rate is not known yet"),
        (run(look(0, mounted()), late=True), "the sidecar did not see the pod mount its data"),
    ],
)
def test_why_savings_were_not_measured_is_told(known: dict[str, FollowedPod], cause: str) -> None:
    assert ended(known[POD], WALL, {}).saved_missing == cause


def test_what_a_pod_reported_last_outlives_its_report() -> None:
    said = LastReport(phase="Validation", epoch=3, loss="0.2")
    known = run(look(0, mounted()), look(5, mounted(), reports={POD: said}), look(10))
    assert ended(known[POD], WALL, {}).last == said


def test_what_was_saved_is_what_was_warm_by_the_best_rate() -> None:
    assert ended(run(look(0, mounted()))[POD], WALL, {UID: 20.0}).saved_seconds == 3.0


def test_files_that_were_not_opened_saved_nothing() -> None:
    known = run(look(0, mounted()), look(5, mounted(), opened={POD: 5.0}))
    assert ended(known[POD], WALL, {UID: 20.0}).saved_seconds == 1.5


def test_without_a_rate_what_was_saved_is_not_measured() -> None:
    assert ended(run(look(0, mounted()))[POD], WALL, {}).saved_seconds is None


def test_a_second_dataset_that_is_mounted_a_moment_later_is_its_own_too() -> None:
    other = replace(mounted(), uid="uid-other")
    known = run(look(0, mounted()), look(1, mounted(), other, warm={("uid-other", DIGEST): 100}))
    assert (ended(known[POD], WALL, {}).data_bytes, ended(known[POD], WALL, {}).warm_bytes) == (200, 160)


def test_its_spec_tells_its_job_and_its_gpus() -> None:
    known = run(look(0, mounted(), hints={POD: PodHints(gpus=8, job="resnet")}))
    told = ended(known[POD], WALL, {})
    assert (told.pod, told.job, told.gpus) == ("vision/trainer-0", "resnet", 8)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=6), st.integers(1, 3))
def test_shares_add_up_to_what_came(steps: list[int], pods: int) -> None:
    rows = [mounted(f"trainer-{number}") for number in range(pods)]
    looks, came = [look(0, *rows, origin={UID: 0})], 0
    for number, step in enumerate(steps):
        came += step
        looks.append(look(number + 1, *rows, origin={UID: came}))
    shares = [pod.datasets[0].origin_bytes for pod in run(*looks).values()]
    assert sum(share or 0.0 for share in shares) == pytest.approx(came)
