"""Reports of failing reads: which failures, since when, and their end."""

import pytest

from stoker_sidecar.errors import (
    AccessDenied,
    CacheDiskFailed,
    EndpointUnreachable,
    InvalidCredentials,
    NotYetConfigured,
    SidecarError,
)
from stoker_sidecar.fetcher.download.core.failing_reads import CALM, LASTING, OLD, FailingReadTimer

REFUSED = InvalidCredentials("s3://bucket/a refused the credentials (SignatureDoesNotMatch)")
DENIED = AccessDenied("s3://bucket/m/1 answers AccessDenied")
AWAY = EndpointUnreachable("http://store does not answer")
BEGAN = 1_700_000_000.0


def fail(reads: FailingReadTimer, error: SidecarError, now: float, ino: int = 7) -> None:
    reads.failed(error, ("digest", ino), lambda: f"train/{ino}", now, BEGAN + now)


def test_a_refusal_is_told_at_once_with_an_example_and_its_time() -> None:
    reads = FailingReadTimer()
    fail(reads, REFUSED, 3.0)
    fail(reads, REFUSED, 4.0, ino=8)
    told = reads.current(4.0)
    assert told is not None
    assert (told.reason, told.path, told.digest, told.since) == (REFUSED.reason, "train/7", "digest", BEGAN + 3.0)


@pytest.mark.parametrize("error", [AWAY, CacheDiskFailed("the cache disk fails")])
def test_what_may_heal_is_told_once_it_lasts(error: SidecarError) -> None:
    reads = FailingReadTimer()
    fail(reads, error, 0.0)
    assert reads.current(LASTING - 1) is None
    assert reads.current(LASTING) is not None


@pytest.mark.parametrize("error", [AWAY, CacheDiskFailed("the cache disk fails")])
def test_an_error_that_a_reader_got_is_told_at_once(error: SidecarError) -> None:
    reads = FailingReadTimer()
    fail(reads, error, 0.0)
    reads.failed(error, ("digest", 7), lambda: "train/7", 1.0, BEGAN, waits=False)
    reads.worked(7, 1.5)
    assert reads.current(1.5 + CALM - 1) is not None


def test_a_moment_that_passed_is_never_told() -> None:
    reads = FailingReadTimer()
    for now in range(100):
        fail(reads, AWAY, float(now))
        reads.worked(7, now + 0.5)
        assert reads.current(now + 0.9) is None


def test_it_is_over_a_while_after_reads_work_again() -> None:
    reads = FailingReadTimer()
    fail(reads, REFUSED, 0.0)
    reads.worked(99, 1.0)
    assert reads.current(1.0 + CALM - 1) is not None
    assert reads.current(1.0 + CALM) is None
    assert not reads


def test_a_source_that_comes_and_goes_is_one_failure() -> None:
    reads, told = FailingReadTimer(), set()
    for now in range(0, 60, 2):
        fail(reads, REFUSED, float(now))
        reads.worked(99, now + 1.0)
        told.add(reads.current(now + 1.0))
    assert len(told) == 1


def test_other_objects_that_come_say_nothing_of_a_refused_one() -> None:
    reads = FailingReadTimer()
    fail(reads, DENIED, 0.0)
    reads.worked(99, 1.0)
    assert reads.current(CALM + 2) is not None
    reads.worked(7, 20.0)
    assert reads.current(20.0 + CALM) is None


def test_it_is_forgotten_when_nobody_reads_any_more() -> None:
    reads = FailingReadTimer()
    fail(reads, REFUSED, 0.0)
    assert reads.current(OLD - 1) is not None
    assert reads.current(OLD) is None


def test_the_oldest_of_several_is_told_so_that_the_sentence_stays() -> None:
    reads = FailingReadTimer()
    fail(reads, DENIED, 0.0)
    for now in range(1, 10):
        fail(reads, REFUSED, float(now))
        told = reads.current(float(now))
        assert told is not None
        assert told.reason == DENIED.reason


def test_a_version_that_is_not_open_yet_is_no_failure() -> None:
    reads = FailingReadTimer()
    fail(reads, NotYetConfigured("ask again"), 0.0)
    assert not reads


def test_texts_of_a_store_are_bounded() -> None:
    reads = FailingReadTimer()
    reads.failed(InvalidCredentials("x" * 10_000), ("digest", 1), lambda: "y" * 4000, 0.0, BEGAN)
    told = reads.current(0.0)
    assert told is not None
    assert len(told.message) + len(told.path) <= 1000
