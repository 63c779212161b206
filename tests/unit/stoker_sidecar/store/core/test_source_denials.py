"""Requests to a source that denies one object after another, over all Datasets of a node."""

import pytest

from stoker_api.datasets.dataset_source import Source
from stoker_sidecar.errors import AccessDenied, DeniedEarlier, ObjectGone
from stoker_sidecar.store.core.source_refusal import FEW, MANY, MOST_PACE, PACE, DenialsOfNode, SourceDenials, Turn
from stoker_sidecar.wire.credentials import AmbientCredentials

DENIED = AccessDenied("s3://bucket/p/a answers AccessDenied")


def denied(times: int, denials: SourceDenials | None = None) -> SourceDenials:
    denials = denials or SourceDenials()
    for _ in range(times):
        denials.answered(DENIED, 0.0)
    return denials


def test_a_few_denials_in_a_row_make_a_suspect() -> None:
    assert not denied(FEW - 1).suspects(0.0)
    assert denied(FEW).suspects(0.0)


def test_other_answers_do_not_count() -> None:
    denials = denied(FEW - 1)
    denials.answered(ObjectGone("s3://bucket/p/b was deleted"), 0.0)
    assert not denials.suspects(0.0)


def test_an_object_that_is_read_ends_the_suspicion() -> None:
    denials = denied(FEW)
    denials.answered(None, 0.0)
    assert not denials.suspects(0.0)


def test_after_a_check_that_worked_more_denials_may_follow() -> None:
    denials = denied(FEW)
    denials.checked(0.0)
    assert not denied(MANY - 1, denials).suspects(1.0)
    assert denied(1, denials).suspects(1.0)


def test_checks_and_requests_take_turns_with_growing_pauses() -> None:
    denials, now, turns, pauses = denied(FEW), 0.0, [], []
    for _ in range(5):
        turns.append(denials.turn(now))
        with pytest.raises(DeniedEarlier) as waiting:
            denials.turn(now)
        pauses.append(waiting.value.retry_after)
        now += waiting.value.retry_after
    assert turns == [Turn.CHECK, Turn.SEND, Turn.CHECK, Turn.SEND, Turn.CHECK]
    assert pauses == [PACE, 2 * PACE, MOST_PACE, MOST_PACE, MOST_PACE]


def test_datasets_of_one_source_share_denials_and_those_of_one_bucket_the_turns() -> None:
    node, nobody = DenialsOfNode(), AmbientCredentials()
    first = denied(FEW, node.of(Source(uri="s3://bucket/p"), nobody))
    same = node.of(Source(uri="s3://bucket/p"), nobody)
    sister = node.of(Source(uri="s3://bucket/q"), nobody)
    other = node.of(Source(uri="s3://elsewhere/p"), nobody)
    assert (same.suspects(0.0), sister.suspects(0.0)) == (True, False)
    first.turn(0.0)
    with pytest.raises(DeniedEarlier):
        sister.turn(0.0)
    assert other.turn(0.0) is Turn.CHECK
