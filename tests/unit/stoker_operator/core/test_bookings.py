"""Released pods book room for a while."""

from stoker_operator.core.gating.notices import BOOKED_SECONDS, ReleaseBook


def test_a_release_is_booked_for_a_while_and_then_forgotten() -> None:
    book = ReleaseBook()
    book.note("u", ["a", "b"], 100.0)
    assert book.current(100.0 + BOOKED_SECONDS - 1) == {"u": ("a", "b")}
    assert book.current(100.0 + BOOKED_SECONDS) == {}
    assert book.current(100.0) == {}


def test_a_pod_that_has_its_node_is_booked_no_more() -> None:
    book = ReleaseBook()
    book.note("u", ["a"], 100.0)
    book.forget("u")
    assert book.current(100.0) == {}
