"""What a scrub makes of a file that it has read again, and when a version is due. Pure."""

from enum import Enum

from stoker_sidecar.version.etag_trust import looks_like_md5

# The first pass takes the checksums that later ones compare with, so it comes sooner; not at once, since a pod that
# has just been waiting for its data should have the disk for itself.
_FIRST = 1 / 7


class Verdict(Enum):
    """Of one file."""

    GOOD = "good"
    DAMAGED = "damaged"
    UNSURE = "unsure"  # its MD5 is not its ETag, and nothing yet shows whether this source's ETags are MD5s


def judge(etag: str, md5: str, crc: int, noted: int | None, *, proven: bool) -> Verdict:
    """``noted``: CRC-32 that an earlier pass took, None when there was none; ``proven``: ETags of this source are MD5s."""
    if noted is not None:
        return Verdict.GOOD if crc == noted else Verdict.DAMAGED
    if not looks_like_md5(etag) or md5 == etag:
        return Verdict.GOOD
    return Verdict.DAMAGED if proven else Verdict.UNSURE


def is_due(now: float, scrubbed_at: float | None, complete_at: float, interval: float) -> bool:
    """Seconds since 1970. ``scrubbed_at``: end of the last pass, None when there was none; ``interval``: 0 for never.

    A date that lies in the future was written before the clock was put back, and tells nothing.
    """
    if interval <= 0:
        return False
    age, patience = (now - complete_at, interval * _FIRST) if scrubbed_at is None else (now - scrubbed_at, interval)
    return not 0 <= age < patience
