"""A peer that gave wrong bytes is never asked again. A peer that failed is asked less often. Near peers come first."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.download.core.peer_scores import (
    MOST_FAILURES,
    MOST_WRONG,
    AbleGiver,
    PeerScores,
    nearest_giver,
)
from stoker_sidecar.fetcher.ondisk.piece_maps import Gift
from tests.support.cases import cases


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_node_that_was_wrong_a_few_times_is_asked_no_more_in_any_pass() -> None:
    givers = PeerScores(Clock())
    for _ in range(MOST_WRONG):
        assert givers.may_ask("a")
        givers.was_wrong("a")
        givers.gave("a")
    givers.begin()
    assert (givers.may_ask("a"), givers.may_ask("b")) == (False, True)


def test_a_node_that_fails_in_a_row_is_asked_again_in_the_next_pass() -> None:
    givers = PeerScores(Clock())
    for _ in range(MOST_FAILURES):
        assert givers.may_ask("a")
        givers.failed("a")
    assert not givers.may_ask("a")
    givers.begin()
    assert givers.may_ask("a")


def fail(givers: PeerScores, times: int, *, late: bool = False) -> None:
    for _ in range(times):
        givers.failed("a", late=late)


def test_a_node_that_fails_in_a_row_rests_for_longer_each_time_and_is_asked_again() -> None:
    clock = Clock()
    givers = PeerScores(clock)
    rests = []
    for _ in range(8):
        fail(givers, MOST_FAILURES)
        begun = clock.now
        while not givers.may_ask("a"):
            clock.now += 1.0
        rests.append(clock.now - begun)
    assert rests == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0, 60.0, 60.0]


def test_what_was_under_way_when_a_rest_began_makes_it_no_longer() -> None:
    clock = Clock()
    givers = PeerScores(clock)
    fail(givers, 3 * MOST_FAILURES)
    clock.now = 5.0
    assert givers.may_ask("a")


@cases("failures, late, doubt", (0, 0, 0), (2, 0, 0), (3, 0, 1), (0, 1, 1), (0, 2, 2), (9, 0, 2))
def test_doubt_grows_with_failures_and_faster_with_late_ones(failures: int, late: int, doubt: int) -> None:
    givers = PeerScores(Clock())
    fail(givers, failures)
    fail(givers, late, late=True)
    assert givers.doubt("a") == doubt


def test_doubt_goes_with_what_comes() -> None:
    givers = PeerScores(Clock())
    fail(givers, 10)
    for _ in range(40):
        givers.gave("a")
    assert givers.doubt("a") == 0


def test_a_node_that_only_says_what_is_not_so_is_doubted_and_not_much() -> None:
    givers = PeerScores(Clock())
    for _ in range(100):
        givers.contradicted("a")
    assert (givers.doubt("a"), givers.may_ask("a")) == (1, True)


def test_the_word_of_who_was_contradicted_once_is_not_enough_in_that_pass() -> None:
    givers = PeerScores(Clock())
    assert givers.is_believed("a")
    givers.contradicted("a")
    assert (givers.is_believed("a"), givers.doubt("a")) == (False, 0)
    givers.begin()
    assert givers.is_believed("a")


def test_a_pass_begins_without_doubts() -> None:
    givers = PeerScores(Clock())
    fail(givers, MOST_FAILURES)
    givers.begin()
    assert (givers.doubt("a"), givers.may_ask("a")) == (0, True)


@given(events=st.lists(st.sampled_from(["gave", "failed", "late", "contradicted"]), max_size=200))
def test_whatever_a_node_did_without_lies_it_is_asked_again_within_a_minute(events: list[str]) -> None:
    clock = Clock()
    givers = PeerScores(clock)
    for event in events:
        if event in ("gave", "contradicted"):
            getattr(givers, event)("a")
        else:
            givers.failed("a", late=event == "late")
        assert 0 <= givers.doubt("a") <= 2
    clock.now += 60.0
    assert givers.may_ask("a")


def test_failures_between_which_something_came_are_forgiven() -> None:
    givers = PeerScores(Clock())
    for _ in range(3 * MOST_FAILURES):
        givers.failed("a")
        givers.gave("a")
    assert givers.may_ask("a")


def test_a_node_that_is_seldom_wrong_is_asked_on_for_files_and_no_more_for_pieces() -> None:
    givers = PeerScores(Clock())
    for _ in range(100):
        givers.gave("a")
    for _ in range(MOST_WRONG):
        givers.was_wrong("a")
    assert givers.may_ask_pieces("a")
    givers.gave_wrong_piece("a")
    assert (givers.may_ask("a"), givers.may_ask_pieces("a")) == (True, False)


def test_who_was_wrong_before_is_doubted_before_who_gave_most() -> None:
    givers = PeerScores(Clock())
    assert givers.most_suspect([Gift("a"), Gift("b"), Gift("b")]) == Gift("b")
    givers.gave_wrong_piece("a")
    assert givers.most_suspect([Gift("a"), Gift("b"), Gift("b")]) == Gift("a")


def test_who_failed_is_doubted_before_who_gave_most() -> None:
    givers = PeerScores(Clock())
    fail(givers, 3)
    assert givers.most_suspect([Gift("a"), Gift("b"), Gift("b"), Gift("b", passed_on=True)]) == Gift("a")


def test_what_was_passed_on_is_doubted_before_who_gave_most_and_whose_that_was_is_asked_on() -> None:
    givers = PeerScores(Clock())
    assert givers.most_suspect([Gift("a", passed_on=True), Gift("b"), Gift("b")]) == Gift("a", passed_on=True)
    givers.passed_on_wrong_piece("a")
    assert (givers.may_ask_pieces("a"), givers.doubt("a")) == (True, 1)


NEAR, FAR = AbleGiver("near", distance=0), AbleGiver("far", distance=2)


@cases(
    "able, asked",
    ([FAR, NEAR], "near"),
    ([FAR, NEAR._replace(asked=3)], "near"),
    ([FAR, NEAR._replace(asked=4)], "far"),
    ([FAR, NEAR._replace(busy=True)], "far"),
    ([NEAR._replace(busy=True)], "near"),
    ([FAR._replace(asked=4), NEAR._replace(asked=4)], None),
    ([NEAR._replace(asked=2), AbleGiver("as near", asked=1)], "as near"),
    ([NEAR._replace(linked=True), AbleGiver("as near", asked=3)], "as near"),
    ([NEAR._replace(linked=True), AbleGiver("as near", asked=4)], "near"),
    ([FAR, NEAR._replace(linked=True)], "near"),
    ([FAR, NEAR._replace(doubt=1)], "far"),
    ([FAR._replace(doubt=2), NEAR._replace(doubt=1)], "near"),
    ([FAR._replace(asked=4), NEAR._replace(doubt=2)], "near"),
)
def test_the_nearest_that_is_not_busy_is_asked(able: list[AbleGiver], asked: str | None) -> None:
    assert nearest_giver(able, most=4) == asked
