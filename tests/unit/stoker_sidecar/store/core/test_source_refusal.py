"""A source that rejects everything gets a probe every few seconds, and no other request."""

import itertools

import pytest

from stoker_api.datasets.dataset_source import Source
from stoker_sidecar.errors import (
    AccessDenied,
    BucketNotFound,
    EndpointUnreachable,
    InvalidCredentials,
    ObjectGone,
    SourceError,
    Throttled,
)
from stoker_sidecar.store.core.source_refusal import FIRST, MOST, SourceRefusal, SourceRefusals
from stoker_sidecar.wire.credentials import StaticCredentials

REFUSED = InvalidCredentials("s3://bucket/a refused the credentials (InvalidAccessKeyId)")
SOURCE = Source.model_validate({"uri": "s3://bucket/p", "endpoint": "http://store"})


def refused(at: float = 0.0) -> SourceRefusal:
    """Return a refusal whose first request was rejected at ``at``."""
    refusal = SourceRefusal()
    refusal.answered(refusal.admit(at), REFUSED, at)
    return refusal


def probes(refusal: SourceRefusal, seconds: int) -> list[int]:
    """Ask ten times per second. Every request is rejected. Return the seconds of the admitted requests."""
    went = []
    for tenth in range(seconds * 10):
        now = tenth / 10
        try:
            ticket = refusal.admit(now)
        except InvalidCredentials:
            continue
        refusal.answered(ticket, REFUSED, now)
        went.append(int(now))
    return went


def test_requests_between_two_probes_get_the_remembered_sentence() -> None:
    refusal = refused()
    with pytest.raises(InvalidCredentials, match="InvalidAccessKeyId"):
        refusal.admit(FIRST / 2)


def test_probes_are_rarer_each_time_and_never_stop() -> None:
    went = probes(SourceRefusal(), 100)
    waits = [after - before for before, after in itertools.pairwise(went)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (FIRST, MOST)


def test_a_probe_that_works_ends_it_at_once() -> None:
    refusal = refused()
    refusal.answered(refusal.admit(FIRST), None, FIRST)
    assert not refusal.refuses
    refusal.admit(FIRST)


def test_requests_that_were_on_their_way_count_as_one_refusal() -> None:
    refusal = SourceRefusal()
    tickets = [refusal.admit(0.0) for _ in range(100)]
    for ticket in tickets:
        refusal.answered(ticket, REFUSED, 0.0)
    refusal.admit(FIRST)


def test_a_body_that_began_before_the_refusal_does_not_end_it() -> None:
    refusal = SourceRefusal()
    before = refusal.admit(0.0)
    refusal.answered(refusal.admit(0.0), REFUSED, 0.0)
    refusal.answered(before, None, 1.0)
    assert refusal.refuses


@pytest.mark.parametrize(
    ("error", "refuses"),
    [
        (REFUSED, True),
        (InvalidCredentials("the session token has expired", temporary=True), True),
        (BucketNotFound("there is no bucket"), True),
        (AccessDenied("s3://bucket/m/1 answers AccessDenied"), False),
        (ObjectGone("s3://bucket/a was deleted"), False),
        (EndpointUnreachable("does not answer"), False),
        (Throttled("asks for fewer"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_what_holds_for_every_object_is_remembered(error: SourceError, refuses: bool) -> None:
    refusal = SourceRefusal()
    refusal.answered(refusal.admit(0.0), error, 0.0)
    assert refusal.refuses is refuses


def test_an_object_that_is_refused_alone_shows_that_the_identity_is_taken() -> None:
    refusal = refused()
    refusal.answered(refusal.admit(FIRST), AccessDenied("s3://bucket/m/1 answers AccessDenied"), FIRST)
    assert not refusal.refuses


def test_datasets_with_the_same_bucket_and_keys_share_their_probes() -> None:
    refusals, keys = SourceRefusals(), StaticCredentials("key", "secret")
    one = refusals.of(SOURCE, keys)
    assert refusals.of(SOURCE.model_copy(update={"uri": "s3://bucket/other"}), keys) is one
    assert refusals.of(SOURCE, StaticCredentials("key", "corrected")) is not one
    assert refusals.of(SOURCE.model_copy(update={"uri": "s3://other/p"}), keys) is not one
