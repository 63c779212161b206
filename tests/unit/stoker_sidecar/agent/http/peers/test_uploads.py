"""Uploads to peers stay within their rate."""

import pytest

from stoker_sidecar.agent.http.peers.file_response import UploadLimits, Uploads


def test_without_a_limit_nothing_waits() -> None:
    assert Uploads(UploadLimits()).pause(10**12, now=0.0) == 0.0


def test_bytes_are_sent_at_their_rate() -> None:
    uploads, now = Uploads(UploadLimits(bytes_per_second=1_000_000)), 100.0
    for _ in range(100):
        now += uploads.pause(100_000, now)
    assert 100.0 + 8.5 <= now <= 100.0 + 10.0


@pytest.mark.parametrize(("limits", "served"), [((16, 0), 16), ((16, 20_000_000), 5), ((16, 1), 1), ((0, 0), 1)])
def test_a_low_rate_is_shared_by_few(limits: tuple[int, int], served: int) -> None:
    assert UploadLimits(*limits).served == served
