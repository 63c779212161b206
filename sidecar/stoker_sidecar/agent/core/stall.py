"""Which share of its time a workload waits for data, from two samples of what the node counts. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from stoker_api.node_workload import StallSource

# Shorter spans say little: delays are counted in ticks of 10 ms.
_SHORTEST = 0.5


@dataclass(frozen=True)
class StallSample:
    """Seconds of waiting so far, by who waits, at ``at`` seconds of the monotonic clock."""

    source: StallSource
    at: float
    waited: Mapping[str, float]


class FuseWaits(NamedTuple):
    """Seconds, until ``at``, in which a version's FUSE server was asked for data and had not answered."""

    at: float
    seconds: float


@dataclass(frozen=True)
class Stall:
    """How much of its time a workload waited for data: ``share``, 0 to 1, and what counted it.

    ``reads``: where its consumer was looked at, how much of its time a worker waited for its reads meanwhile, as far as
    that is known.
    """

    share: float
    source: StallSource
    reads: float | None = None

    @property
    def read_wait(self) -> float | None:
        """Share of the time in which its reads waited; None: nothing tells it."""
        return self.reads if self.source is StallSource.CONSUMER else self.share


def stall_between(before: StallSample | None, after: StallSample | None) -> Stall | None:
    """Return the stall between two samples: of those who wait, that of the one who waited longest.

    None where the samples do not belong together: another source, a span that is too short, nobody who is in both.
    """
    if before is None or after is None or before.source is not after.source or after.at - before.at < _SHORTEST:
        return None
    both = before.waited.keys() & after.waited.keys()
    waited = [after.waited[one] - before.waited[one] for one in both]
    if not waited or min(waited) < 0:  # a counter that began anew
        return None
    return Stall(min(1.0, max(waited) / (after.at - before.at)), after.source)
