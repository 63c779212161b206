"""Who gave wrong bytes, or nothing, is asked no more."""

from stoker_sidecar.fetcher.core.givers import MOST_FAILURES, MOST_WRONG, Givers


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
