"""When the reason of a gated pod is written again."""

from stoker_api.names import Reason
from stoker_operator.core.gating.explain import Explanation
from stoker_operator.core.gating.notices import HoldNotice, NoticeBook


def why(detail_key: str, coarse_key: str = "m") -> Explanation:
    return Explanation(Reason.WAITING_FOR_DATA, f"sentence {detail_key}", detail_key, coarse_key)


def announced() -> NoticeBook:
    """Return a book in which pod u was announced at second 0."""
    book = NoticeBook()
    book.consider("u", "", why("a"), 0.0)
    return book


def test_a_pod_seen_first_gets_annotation_and_event() -> None:
    assert NoticeBook().consider("u", "", why("a"), 0.0) == HoldNotice(annotate=True, event=True)


def test_a_pod_announced_before_a_restart_gets_no_second_event() -> None:
    assert NoticeBook().consider("u", "sentence b", why("a"), 0.0) == HoldNotice(annotate=True)


def test_nothing_is_written_while_the_gist_stays() -> None:
    book = announced()
    assert book.consider("u", "sentence a", why("a"), 100.0) == HoldNotice()


def test_moving_numbers_wait_for_the_interval() -> None:
    book = announced()
    assert book.consider("u", "sentence a", why("b"), 4.0) == HoldNotice(again=6.0)
    assert book.consider("u", "sentence a", why("b"), 10.0) == HoldNotice(annotate=True)


def test_another_truth_is_written_at_once_with_an_event() -> None:
    book = announced()
    assert book.consider("u", "sentence a", why("b", "other"), 1.0) == HoldNotice(annotate=True, event=True)


def test_a_pod_that_left_is_forgotten() -> None:
    book = announced()
    book.forget("u")
    assert book.consider("u", "", why("a"), 1.0) == HoldNotice(annotate=True, event=True)


def test_an_annotation_that_could_not_be_written_is_written_the_next_time_and_no_second_event() -> None:
    book = announced()
    book.failed("u")
    assert book.consider("u", "", why("a"), 1.0) == HoldNotice(annotate=True)
    assert book.consider("u", "", why("a"), 2.0) == HoldNotice()
