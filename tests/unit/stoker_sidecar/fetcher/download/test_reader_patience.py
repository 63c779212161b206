"""How long a reader waits for a source with a temporary failure."""

import pytest

from stoker_sidecar.errors import (
    AccessDenied,
    CorruptBody,
    DiskFull,
    EndpointUnreachable,
    InvalidCredentials,
    ServerError,
    SidecarError,
    Throttled,
)
from stoker_sidecar.fetcher.download.core.reader_patience import PATIENCE, ReaderPatience

AWAY = EndpointUnreachable("http://store does not answer")
FUSE_WAITS = 120.0  # seconds, in fuse/fetch_client.py


def test_it_asks_again_until_its_time_is_over_and_before_the_kernel_gives_up() -> None:
    patience, now, pauses = ReaderPatience(PATIENCE, 1000.0), 1000.0, []
    while (pause := patience.pause(AWAY, now, 0.5)) is not None:
        pauses.append(pause)
        now += pause + 1.0  # an attempt takes a second
    assert max(pauses) <= 5.0
    assert FUSE_WAITS - 20 <= now - 1000.0 <= FUSE_WAITS


def test_attempts_that_hang_count_too() -> None:
    patience = ReaderPatience(PATIENCE, 0.0)
    assert patience.pause(AWAY, PATIENCE, 0.5) is None


def test_no_pause_is_empty() -> None:
    patience = ReaderPatience(PATIENCE, 0.0)
    pause = patience.pause(AWAY, 0.0, 0.0)
    assert pause is not None
    assert pause > 0.0


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (AWAY, True),
        (ServerError("500 InternalError"), True),
        (Throttled("503 SlowDown"), True),
        (InvalidCredentials("the session token has expired", temporary=True), True),
        (InvalidCredentials("the access key is unknown"), False),
        (ServerError("501 NotImplemented", temporary=False), False),
        (AccessDenied("AccessDenied"), False),
        (CorruptBody("spoilt again and again"), False),
        (DiskFull("the cache disk is full"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_what_the_source_may_get_over_is_waited_for(error: SidecarError, waits: bool) -> None:
    assert (ReaderPatience(PATIENCE, 0.0).pause(error, 0.0, 0.5) is not None) is waits
