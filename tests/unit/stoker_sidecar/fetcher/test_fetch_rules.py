"""The small decisions of the fetcher: quota, slots, limits, speed, waits, phases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api.backoff import BackoffPolicy
from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.fetcher.node.status import DatasetState, node_phase
from stoker_sidecar.fetcher.ondisk.telemetry import ArrivalSpeeds, Speed, eta_seconds
from stoker_sidecar.fetcher.sources.core.bandwidth import TokenBucket
from stoker_sidecar.fetcher.sources.core.lanes import WarmShare, warm_slots
from stoker_sidecar.fetcher.space.room import Room


@pytest.mark.parametrize(
    ("room", "size", "admitted"),
    [
        (Room(used=0, quota=None, free=10), 10, True),
        (Room(used=0, quota=None, free=10), 11, False),
        (Room(used=90, quota=100, free=1000), 10, True),
        (Room(used=91, quota=100, free=1000), 10, False),
        (Room(used=0, quota=None, free=10, inodes=0), 10, False),
    ],
)
def test_a_file_is_kept_when_it_fits_both_quota_and_disk(room: Room, size: int, admitted: bool) -> None:
    assert room.admits(size) is admitted


@given(
    st.dictionaries(
        st.text(max_size=3),
        st.builds(WarmShare, st.integers(-5, 5), st.booleans(), st.floats(0.01, 1)),
        max_size=40,
    ),
    st.integers(1, 300),
)
def test_every_dataset_gets_a_slot_whatever_the_others_do(datasets: dict[str, WarmShare], total: int) -> None:
    slots = warm_slots(datasets, total)
    assert slots.keys() == datasets.keys()
    assert all(count >= 1 for count in slots.values())
    assert sum(slots.values()) <= max(total, len(datasets))


def test_the_highest_priority_gets_what_the_others_leave() -> None:
    assert warm_slots({"a": WarmShare(5), "b": WarmShare(0), "c": WarmShare(0)}, 32) == {"a": 30, "b": 1, "c": 1}


def test_equal_priorities_share() -> None:
    assert warm_slots({"a": WarmShare(0), "b": WarmShare(0)}, 32) == {"a": 16, "b": 16}


def test_a_failing_dataset_of_high_priority_leaves_the_slots_to_the_others() -> None:
    assert warm_slots({"a": WarmShare(5, failing=True), "b": WarmShare(0)}, 32) == {"a": 1, "b": 31}


def test_of_one_priority_who_is_due_first_goes_first() -> None:
    datasets = {"a": WarmShare(0), "b": WarmShare(0, due=20.0), "c": WarmShare(0, due=10.0)}
    datasets["d"] = WarmShare(-1, due=1.0)
    assert warm_slots(datasets, 32) == {"a": 1, "b": 1, "c": 29, "d": 1}


@pytest.mark.parametrize(
    ("shares", "slots"),
    [((0.25, 1.0), (8, 24)), ((0.25,), (32,)), ((0.2, 0.6), (8, 24)), ((0.01, 1.0), (1, 31)), ((0.9, 1.0), (16, 16))],
)
def test_a_dataset_with_a_share_of_the_bandwidth_has_no_more_of_the_slots(
    shares: tuple[float, ...], slots: tuple[int, ...]
) -> None:
    warming = {str(number): WarmShare(0, bandwidth=share) for number, share in enumerate(shares)}
    assert tuple(warm_slots(warming, 32).values()) == slots


@given(st.lists(st.tuples(st.floats(0, 2), st.integers(1, 5000)), min_size=1, max_size=60))
def test_a_limit_holds_over_any_sequence_of_requests(requests: list[tuple[float, int]]) -> None:
    bucket, now, asked = TokenBucket(rate=1000.0, updated=0.0), 0.0, 0
    for idle, size in requests:
        now += idle
        now += bucket.take(size, now)
        assert asked <= 1000.0 * (now + 1) + 1e-6  # earlier requests, at the rate plus one second's burst
        asked += size


def test_speed_settles_at_what_arrives() -> None:
    speed = Speed(updated=0.0)
    for second in range(1, 100):
        speed.add(500)
        speed.tick(float(second))
    assert speed.value == pytest.approx(500, rel=0.01)


def test_speed_falls_when_nothing_arrives() -> None:
    speed = Speed(updated=0.0)
    speed.add(1000)
    speed.tick(1.0)
    assert speed.tick(61.0) == 0


def test_bytes_of_other_nodes_are_none_of_the_source() -> None:
    speeds = ArrivalSpeeds(0.0)
    speeds.source.add(300)
    speeds.peers.add(700)
    assert (speeds.tick(1.0), speeds.source.value, speeds.of_source_alone) == (1000.0, 300.0, None)


def test_the_speed_of_the_source_alone_is_known_when_others_have_given_nothing_for_a_while() -> None:
    speeds = ArrivalSpeeds(0.0)
    speeds.peers.add(700)
    for second in range(1, 13):
        speeds.source.add(300)
        speeds.tick(float(second))
    assert speeds.of_source_alone == 300.0


def test_there_is_no_eta_when_nothing_moves() -> None:
    assert eta_seconds(100, 0.0) is None
    assert eta_seconds(100, 30.0) == 4


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_no_wait_is_longer_than_the_cap(attempt: int, uniform: float) -> None:
    assert 0 <= BackoffPolicy(base=1.0, cap=60.0).delay(attempt, uniform) <= 60.0


def test_waits_double() -> None:
    backoff = BackoffPolicy(base=1.0, cap=60.0)
    assert [backoff.delay(attempt, 0.5) for attempt in range(4)] == [0.5, 1.0, 2.0, 4.0]


_WARMING = {
    "has_version": True,
    "has_manifest": True,
    "listing": False,
    "complete": False,
    "eager": True,
    "paused": False,
    "settled": False,
    "failed": False,
}


@pytest.mark.parametrize(
    ("changes", "phase"),
    [
        ({}, NodePhase.WARMING),
        ({"complete": True, "failed": True}, NodePhase.WARM),
        ({"failed": True}, NodePhase.FAILED),
        ({"has_version": False}, NodePhase.PENDING),
        ({"has_version": False, "listing": True}, NodePhase.LISTING),
        ({"has_manifest": False}, NodePhase.PENDING),
        ({"paused": True}, NodePhase.IDLE),
        ({"eager": False}, NodePhase.IDLE),
        ({"settled": True}, NodePhase.FULL),
    ],
)
def test_the_phase_says_what_the_node_does(changes: dict[str, bool], phase: NodePhase) -> None:
    assert node_phase(DatasetState(**(_WARMING | changes))) is phase
