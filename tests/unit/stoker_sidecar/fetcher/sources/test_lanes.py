"""Turns of readers, readahead and warm-up."""

from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.sources.core.bandwidth import BandwidthShares, Sharer
from stoker_sidecar.fetcher.sources.core.lanes import Bounds, Lane, Lanes, QueuedRequest

MIB = 1024**2


class Queue:
    """Lanes, and their decisions in order."""

    def __init__(self, limit: int = 2, **bounds: int) -> None:
        self.lanes = Lanes(Bounds(**bounds), limit, BandwidthShares(lambda: 0.0))
        self.went: list[QueuedRequest] = []
        self.dropped: list[QueuedRequest] = []

    def ask(self, lane: Lane, size: int = 1, owner: str = "", weight: int = 4) -> QueuedRequest:
        def decided(wanted: bool) -> None:
            (self.went if wanted else self.dropped).append(request)

        request = QueuedRequest(lane, size, decided, Sharer(owner), weight)
        self.lanes.ask(request)
        return request


def test_when_a_place_is_free_readers_go_first_then_readahead_then_warm_up() -> None:
    queue = Queue(limit=1)
    first = queue.ask(Lane.WARM)
    warm, ahead = queue.ask(Lane.WARM), queue.ask(Lane.READAHEAD)
    queue.lanes.done(first)
    queue.lanes.done(ahead)
    assert queue.went == [first, ahead, warm]


def test_a_reader_does_not_wait_for_warm_up() -> None:
    queue = Queue(limit=1)
    queue.ask(Lane.WARM)
    reader = queue.ask(Lane.DEMAND)
    assert reader in queue.went


def test_a_limit_that_half_is_left_of_beside_a_waiting_reader_holds_requests_back() -> None:
    queue = Queue(limit=8)
    queue.ask(Lane.DEMAND)
    for _ in range(4):
        assert not queue.lanes.held_back
        queue.ask(Lane.READAHEAD)
    assert queue.lanes.held_back
    assert not queue.lanes.busy


def test_a_limit_that_nobody_comes_near_holds_nothing_back() -> None:
    queue = Queue(limit=8)
    for _ in range(4):
        queue.ask(Lane.DEMAND)
    queue.ask(Lane.READAHEAD)
    assert not queue.lanes.held_back


def test_readahead_that_was_given_up_takes_nothing_of_the_budget() -> None:
    queue = Queue(limit=1, readahead_bytes=10)
    queue.ask(Lane.WARM)
    for _ in range(5):
        queue.lanes.withdraw(queue.ask(Lane.READAHEAD, size=5))
    kept = [queue.ask(Lane.READAHEAD, size=5) for _ in range(2)]
    assert queue.dropped == []
    queue.ask(Lane.READAHEAD, size=5)
    assert queue.dropped == kept[:1]


def test_readahead_goes_at_once_while_only_warm_up_waits() -> None:
    queue = Queue(limit=2, background_bytes=10)
    queue.ask(Lane.WARM, size=4)
    queue.ask(Lane.WARM, size=10)
    ahead = queue.ask(Lane.READAHEAD, size=4)
    assert ahead in queue.went


def test_while_a_reader_waits_background_work_keeps_half() -> None:
    queue = Queue(limit=8)
    reader = queue.ask(Lane.DEMAND)
    warm = [queue.ask(Lane.WARM) for _ in range(8)]
    assert queue.went == [reader, *warm[:4]]
    queue.lanes.done(reader)
    assert queue.went == [reader, *warm]


def test_a_piece_that_a_reader_comes_to_wait_for_overtakes() -> None:
    queue = Queue(limit=1)
    queue.ask(Lane.WARM)
    waiting = queue.ask(Lane.WARM)
    queue.lanes.promote(waiting, Lane.DEMAND)
    assert waiting in queue.went


def test_a_piece_between_two_attempts_is_promoted_without_going() -> None:
    queue = Queue(limit=1)
    request = queue.ask(Lane.WARM)
    queue.lanes.done(request)
    other = queue.ask(Lane.WARM)
    queue.lanes.promote(request, Lane.DEMAND)
    queue.lanes.done(other)
    assert queue.lanes.in_flight == 0


def test_bytes_in_flight_are_bounded_for_background_work() -> None:
    queue = Queue(limit=100, background_bytes=20 * MIB)
    large = [queue.ask(Lane.WARM, 8 * MIB) for _ in range(4)]
    assert queue.went == large[:2]


def test_a_piece_that_is_larger_than_the_bound_goes_alone() -> None:
    queue = Queue(limit=100, background_bytes=MIB)
    assert queue.ask(Lane.WARM, 8 * MIB) in queue.went


def test_readahead_beyond_its_budget_pushes_out_what_waits_longest() -> None:
    queue = Queue(limit=1, readahead_bytes=20 * MIB)
    flying, oldest, newer, newest = (queue.ask(Lane.READAHEAD, 8 * MIB) for _ in range(4))
    assert queue.went == [flying]
    assert queue.dropped == [oldest, newer]
    assert newest not in queue.dropped


def test_readahead_that_a_reader_waits_for_is_not_pushed_out() -> None:
    queue = Queue(limit=1, readahead_bytes=20 * MIB)
    queue.ask(Lane.WARM)
    wanted = queue.ask(Lane.READAHEAD, 8 * MIB)
    queue.lanes.promote(wanted, Lane.DEMAND)
    for _ in range(4):
        queue.ask(Lane.READAHEAD, 8 * MIB)
    assert wanted not in queue.dropped


def test_who_asks_for_much_ahead_pushes_out_nothing_of_others() -> None:
    queue = Queue(limit=1, readahead_bytes=64 * MIB)
    queue.ask(Lane.DEMAND)
    others = [queue.ask(Lane.READAHEAD, 8 * MIB, "modest") for _ in range(3)]
    greedy = [queue.ask(Lane.READAHEAD, 8 * MIB, "greedy") for _ in range(20)]
    assert not set(map(id, others)) & set(map(id, queue.dropped))
    assert queue.dropped == greedy[: len(queue.dropped)]


def gone_one_by_one(queue: Queue, count: int) -> list[QueuedRequest]:
    """Return the next requests that start, each after the one before has finished."""
    for _ in range(count):
        queue.lanes.done(queue.went[-1])
    return queue.went[-count:]


def test_of_one_owners_requests_the_heavier_get_more_turns_by_their_weights() -> None:
    queue = Queue(limit=1)
    queue.ask(Lane.WARM)
    light, heavy = ([queue.ask(Lane.WARM, 1, "a", weight) for _ in range(60)] for weight in (1, 4))
    went = gone_one_by_one(queue, 50)
    assert [request for request in went if request.weight == 4] == heavy[:40]
    assert [request for request in went if request.weight == 1] == light[:10]


def test_weights_that_nobody_waited_with_earn_no_turns() -> None:
    queue = Queue(limit=1)
    queue.ask(Lane.WARM)
    for _ in range(40):
        queue.ask(Lane.WARM, 1, "a", 1)
        queue.ask(Lane.WARM, 1, "a", 2)
    gone_one_by_one(queue, 30)
    late = [queue.ask(Lane.WARM, 1, "a", 4) for _ in range(20)]
    assert sum(request in late for request in gone_one_by_one(queue, 14)) in (8, 9)  # 4 in 7


OWNED = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from((1, 4, 100))), min_size=2, max_size=60)


@given(OWNED)
def test_weights_of_one_owner_never_move_a_turn_of_another(asked: list[tuple[str, int]]) -> None:
    queue = Queue(limit=1)
    queue.ask(Lane.WARM)
    for owner, weight in asked:
        queue.ask(Lane.WARM, 1, owner, weight)
    assert [request.owner for request in gone_one_by_one(queue, len(asked))] == [owner for owner, _ in asked]


def test_of_readahead_beyond_its_budget_the_lightest_is_given_up_first() -> None:
    queue = Queue(limit=1, readahead_bytes=16 * MIB)
    queue.ask(Lane.WARM)
    heavy, light, newest = (queue.ask(Lane.READAHEAD, 8 * MIB, "a", weight) for weight in (16, 4, 16))
    assert (queue.dropped, heavy in queue.dropped, newest in queue.dropped) == ([light], False, False)


STEPS = st.lists(
    st.tuples(st.sampled_from(Lane), st.integers(0, 9 * MIB), st.sampled_from("adpw"), st.sampled_from((1, 4, 16))),
    max_size=80,
)


@given(STEPS, st.integers(1, 20))
def test_every_piece_goes_or_is_dropped_once_and_nothing_is_left_over(
    steps: list[tuple[Lane, int, str, int]], limit: int
) -> None:
    queue = Queue(limit, background_bytes=32 * MIB, readahead_bytes=16 * MIB, demand=3)
    asked: list[QueuedRequest] = []
    withdrawn: list[QueuedRequest] = []
    landed = 0
    for lane, size, step, weight in steps:
        if step == "a" or not asked:
            asked.append(queue.ask(lane, size, str(size % 3), weight))
        elif step == "p":
            queue.lanes.promote(asked[size % len(asked)], lane)
        elif step == "w" and (request := asked[size % len(asked)]) not in queue.went + queue.dropped + withdrawn:
            queue.lanes.withdraw(request)
            withdrawn.append(request)
        elif landed < len(queue.went):
            queue.lanes.done(queue.went[landed])
            landed += 1
    while landed < len(queue.went):
        queue.lanes.done(queue.went[landed])
        landed += 1
    assert sorted(map(id, queue.went + queue.dropped + withdrawn)) == sorted(map(id, asked))
    assert queue.lanes.in_flight == 0
