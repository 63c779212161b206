"""What a warm-up will ask of its source, before it starts: bytes, requests, time and money, as docs/ORIGINS.md says."""

from collections.abc import Sequence
from dataclasses import dataclass

from stoker_api.dataset_status import WarmForecast
from stoker_api.meta import format_bytes, format_duration
from stoker_operator.core.int64 import clamp

CHUNK = 8 * 1024**2  # bytes that one GET brings at most, as the sidecar asks for large files
_GB = 10**9
_DIGITS = 2  # of figures in sentences and statuses: more would be others at each report, and are not known anyway


@dataclass(frozen=True, slots=True)
class WarmWork:
    """What is to be warmed. ``size`` and ``files``: of the version, or of what ``warm.paths`` or ``warm.list`` names.

    ``here``: bytes of it on each node that is to hold it. ``peers``: nodes take from each other what one of them has.
    ``given``: all of it, by nodes that are not to have it.
    """

    size: int
    files: int
    here: Sequence[int]
    peers: bool = False
    given: bool = False


@dataclass(frozen=True, slots=True)
class OriginTerms:
    """What its source allows and costs; None and 0: no cap, no price.

    ``node_rate``: bytes a second that a node was measured to bring of it at the best; None: nobody has measured it.
    ``price_per_gb`` and ``price_per_1000_requests``: in ``currency``.
    """

    bytes_per_second: float | None = None
    requests_per_second: float | None = None
    node_rate: float | None = None
    price_per_gb: float = 0.0
    price_per_1000_requests: float = 0.0
    currency: str = ""


NO_TERMS = OriginTerms()


def forecast(work: WarmWork, terms: OriginTerms = NO_TERMS) -> WarmForecast:
    """Return what is left to do of a warm-up, rounded up to two digits; of one that is done all is 0.

    Bytes: what each node lacks, summed; with ``peers`` what the node with most of it lacks, since others give the rest.
    Requests: a GET for each file and for each whole chunk, at the most. Seconds: the slowest of the source's two caps,
    and of the node that lacks most at the measured rate; None where none of them is known, or others give all of it at
    a rate that is not.
    """
    lacking = [max(0, work.size - here) for here in work.here]
    most = max(lacking, default=0)
    bytes_left = _from_source(work, lacking)
    requests = _requests(work, bytes_left)
    seconds = _seconds(terms, bytes_left, requests, most)
    cost = bytes_left / _GB * terms.price_per_gb + requests / 1000 * terms.price_per_1000_requests
    priced = terms.price_per_gb > 0 or terms.price_per_1000_requests > 0
    found = WarmForecast(
        origin_bytes=_rounded(bytes_left),
        origin_requests=_rounded(requests),
        seconds=None if seconds is None else _rounded(seconds),
        cost=f"{cost:.2f} {terms.currency}".strip() if priced else "",
    )
    return found.model_copy(update={"message": _sentence(found) if most else "nothing is left to fetch"})


def _from_source(work: WarmWork, lacking: Sequence[int]) -> int:
    if work.given:
        return 0
    return min(lacking, default=0) if work.peers else sum(lacking)


def _sentence(found: WarmForecast) -> str:
    """Write ``12.0 GiB from the source in about 1,600 requests, about 3m20s, about 1.08 USD``."""
    parts = [f"{format_bytes(found.origin_bytes)} from the source in about {found.origin_requests:,} requests"]
    if not found.origin_bytes:
        parts = ["nothing from the source, as neighbours have all of it"]
    time = "for a time that no rate is known for yet"
    parts.append(time if found.seconds is None else f"about {format_duration(found.seconds)}")
    if found.cost:
        parts.append(f"about {found.cost}")
    return ", ".join(parts)


def _requests(work: WarmWork, bytes_left: int) -> int:
    """Return GETs at the most for ``bytes_left``, with as many files to a byte as there are in all."""
    if not bytes_left:
        return 0
    return -(-work.files * bytes_left // work.size) + bytes_left // CHUNK


def _seconds(terms: OriginTerms, bytes_left: int, requests: int, lacking_most: int) -> float | None:
    limits = (
        (bytes_left, terms.bytes_per_second),
        (requests, terms.requests_per_second),
        (lacking_most, terms.node_rate),
    )
    if lacking_most and not bytes_left and not terms.node_rate:
        return None
    times = [amount / rate for amount, rate in limits if rate]
    return max(times, default=None)


def _rounded(value: float) -> int:
    """Round up to two digits."""
    whole = clamp(int(-(-value // 1)))
    step = 10 ** max(0, len(str(whole)) - _DIGITS)
    return clamp(-(-whole // step) * step)
