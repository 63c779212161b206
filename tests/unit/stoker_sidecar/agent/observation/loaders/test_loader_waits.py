"""The stall of a loader's consumer, from samples."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api.node_caches.node_workload import StallSource
from stoker_sidecar.agent.observation.loaders.loader_waits import (
    FEWEST,
    SECONDS,
    ConsumerWait,
    LoaderStyle,
    LoaderTally,
    stall_of,
    wait_of,
)
from stoker_sidecar.agent.observation.loaders.thread_calls import OTHER, RUNS, CallSeen, ThreadCall
from tests.support.cases import cases

QUEUE, LOCK, JOIN, NONE = ConsumerWait.QUEUE, ConsumerWait.LOCK, ConsumerWait.JOIN, ConsumerWait.NONE
PIPE, FILE, TIMED = ConsumerWait.PIPE, ConsumerWait.FILE, ConsumerWait.TIMED


def polls(seconds: float | None, polled: int = 1, *, bounded: bool = True) -> CallSeen:
    return CallSeen(ThreadCall.POLL, 16, polled, seconds, bounded)


@pytest.mark.parametrize(
    ("seen", "target", "wait"),
    [
        (RUNS, "", NONE),
        (OTHER, "", NONE),
        (polls(5.0), "", QUEUE),
        (polls(None), "", QUEUE),  # ppoll: its timeout is not visible
        (polls(60.0), "", TIMED),
        (polls(0.1), "", NONE),  # as of a driver
        (polls(None, bounded=False), "", NONE),  # waits for the end of processes
        (polls(5.0, polled=2), "", NONE),
        (CallSeen(ThreadCall.LOCK, bounded=True), "", LOCK),
        (CallSeen(ThreadCall.LOCK), "", JOIN),
        (CallSeen(ThreadCall.READ, 9), "pipe:[7]", PIPE),
        (CallSeen(ThreadCall.READ, 9), "/data/0001.jpg", FILE),
        (CallSeen(ThreadCall.READ, 9), "/dev/nvidia0", NONE),
        (CallSeen(ThreadCall.READ, 9), "socket:[7]", ConsumerWait.SOCKET),
        (CallSeen(ThreadCall.READ, 9), "", NONE),
        (CallSeen(ThreadCall.OPEN), "", FILE),
        (CallSeen(ThreadCall.FAULT), "", FILE),
    ],
)
def test_a_call_is_a_kind_of_waiting(seen: CallSeen, target: str, wait: ConsumerWait) -> None:
    assert wait_of(seen, target) is wait


def tally(counts: Mapping[ConsumerWait, int], at: float = 0.0, **style: bool) -> LoaderTally:
    one = LoaderTally(LoaderStyle(**style))
    for wait, number in counts.items():
        for _ in range(number):
            one.add(wait, at)
    return one


def share(*tallies: LoaderTally, now: float = 1.0) -> float | None:
    stall = stall_of(tallies, now)
    assert stall is None or stall.source is StallSource.CONSUMER
    return None if stall is None else stall.share


def test_the_stall_is_the_share_of_samples_in_a_wait_for_data() -> None:
    assert share(tally({QUEUE: 20, PIPE: 5, FILE: 5, NONE: 70})) == 0.3


def test_a_loader_whose_workers_idle_stalls_nobody() -> None:
    assert share(tally({NONE: 100}, checks=True, idles=True)) == 0.0


def test_who_was_never_seen_to_be_a_loaders_consumer_has_no_figure() -> None:
    assert share(tally({NONE: 50, LOCK: 50, TIMED: 50})) is None


def test_few_samples_are_no_figure() -> None:
    assert share(tally({QUEUE: FEWEST - 1})) is None
    assert share(tally({QUEUE: FEWEST})) == 1.0


def test_a_wait_for_another_thread_is_one_for_data_where_that_one_pins_memory() -> None:
    waits = {LOCK: 30, NONE: 70}
    assert share(tally(waits, checks=True, pins=True)) == 0.3
    assert share(tally(waits, checks=True)) == 0.0


def test_computing_gradients_in_another_thread_is_no_stall() -> None:
    assert share(tally({LOCK: 20, JOIN: 60, NONE: 20}, checks=True, pins=True)) == 0.2
    assert share(tally({JOIN: 60, NONE: 40}, checks=True, pins=True, idles=True)) == 0.0


def test_a_thread_of_the_programs_own_that_hands_data_over_is_doubtful() -> None:
    assert share(tally({JOIN: 60, NONE: 40}, checks=True, pins=True)) is None


def test_polls_for_other_seconds_are_doubtful_where_they_are_many() -> None:
    assert share(tally({TIMED: 20, NONE: 80}, checks=True)) is None
    assert share(tally({TIMED: 4, QUEUE: 46, NONE: 50})) == 0.46


def test_a_reader_of_its_workers_pipe_is_known_by_that() -> None:
    assert share(tally({PIPE: 30, NONE: 70}, reads=True)) == 0.3


def test_memory_that_pytorchs_workers_hand_over_is_waited_for() -> None:
    assert share(tally({ConsumerWait.SOCKET: 10, NONE: 90}, checks=True)) == 0.1
    assert share(tally({ConsumerWait.SOCKET: 10, NONE: 90}, reads=True)) == 0.0


def test_consumers_of_a_pod_count_together_and_strangers_do_not_count() -> None:
    assert share(tally({QUEUE: 40, NONE: 60}), tally({QUEUE: 20, NONE: 80}), tally({NONE: 100})) == 0.3


def test_what_is_older_than_a_minute_counts_no_more() -> None:
    one = tally({QUEUE: 100})
    for _ in range(100):
        one.add(NONE, SECONDS + 1.0)
    assert share(one, now=SECONDS + 1.0) == 0.0


@given(
    st.lists(st.tuples(st.sampled_from(ConsumerWait), st.floats(0.0, 90.0)), max_size=300),
    st.builds(LoaderStyle, st.booleans(), st.booleans(), st.booleans(), st.booleans()),
)
def test_a_figure_is_a_share_whatever_was_seen(samples: list[tuple[ConsumerWait, float]], style: LoaderStyle) -> None:
    one = LoaderTally(style)
    for wait, at in sorted(samples, key=lambda sample: sample[1]):
        one.add(wait, at)
    found = share(one, now=90.0)
    assert found is None or 0.0 <= found <= 1.0


def watched(*waits: ConsumerWait, **style: bool) -> LoaderTally:
    """Sample a consumer every second."""
    one = LoaderTally(LoaderStyle(**style))
    for second, wait in enumerate(waits):
        one.add(wait, float(second))
    return one


@cases(
    "tally, counted",
    the_beginning_counts_once=(watched(*[QUEUE] * 31, *[NONE] * 270), (30.0, 300.0)),
    no_waits=(watched(*[NONE] * 61, checks=True), (0.0, 60.0)),
    no_loader_is_known=(watched(*[PIPE] * 61), (0.0, 0.0)),
    waits_for_something_unknown=(watched(*[NONE] * 30, *[ConsumerWait.TIMED] * 30, checks=True), (0.0, 0.0)),
)
def test_waits_add_up_over_the_whole_run(tally: LoaderTally, counted: tuple[float, float]) -> None:
    assert tally.so_far()[:2] == counted


def test_a_consumer_that_stood_still_for_a_while_was_not_watched() -> None:
    one = watched(NONE, NONE, checks=True)
    one.add(QUEUE, 1000.0)
    assert one.so_far()[:2] == (5.0, 6.0)
