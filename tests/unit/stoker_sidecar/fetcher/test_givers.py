"""Who gave wrong bytes, or nothing, is asked no more; of those that have something, who is near is asked first."""

import pytest

from stoker_sidecar.fetcher.core.givers import MOST_FAILURES, MOST_WRONG, AbleGiver, Givers, nearest_giver


def test_a_node_that_was_wrong_a_few_times_is_asked_no_more_in_any_pass() -> None:
    givers = Givers()
    for _ in range(MOST_WRONG):
        assert givers.may_ask("a")
        givers.was_wrong("a")
        givers.gave("a")
    givers.begin()
    assert (givers.may_ask("a"), givers.may_ask("b")) == (False, True)


def test_a_node_that_fails_in_a_row_is_asked_again_in_the_next_pass() -> None:
    givers = Givers()
    for _ in range(MOST_FAILURES):
        assert givers.may_ask("a")
        givers.failed("a")
    assert not givers.may_ask("a")
    givers.begin()
    assert givers.may_ask("a")


def test_failures_between_which_something_came_are_forgiven() -> None:
    givers = Givers()
    for _ in range(3 * MOST_FAILURES):
        givers.failed("a")
        givers.gave("a")
    assert givers.may_ask("a")


def test_a_node_that_is_seldom_wrong_is_asked_on_for_files_and_no_more_for_pieces() -> None:
    givers = Givers()
    for _ in range(100):
        givers.gave("a")
    for _ in range(MOST_WRONG):
        givers.was_wrong("a")
    assert givers.may_ask_pieces("a")
    givers.gave_wrong_piece("a")
    assert (givers.may_ask("a"), givers.may_ask_pieces("a")) == (True, False)


def test_who_was_wrong_before_is_doubted_before_who_gave_most() -> None:
    givers = Givers()
    assert givers.most_suspect(["a", "b", "b"]) == "b"
    givers.gave_wrong_piece("a")
    assert givers.most_suspect(["a", "b", "b"]) == "a"


NEAR, FAR = AbleGiver("near", distance=0), AbleGiver("far", distance=2)


@pytest.mark.parametrize(
    ("able", "asked"),
    [
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
    ],
)
def test_the_nearest_that_is_not_busy_is_asked(able: list[AbleGiver], asked: str | None) -> None:
    assert nearest_giver(able, most=4) == asked
