"""Share of time in which a workload waits for data, from two samples of the node's counters. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from stoker_api.node_caches.node_workload import StallSource

# Usable span between two samples, in seconds. Delays are counted in ticks of 10 ms; a longer span means a node asleep.
_SHORTEST, _LONGEST = 0.5, 60.0


class StallSeconds(NamedTuple):
    """A counter of one source: seconds ``waited``, out of seconds ``watched``; both summed over ``parts``.

    Parts are the reporting ranks or the sampled consumers.
    """

    waited: float = 0.0
    watched: float = 0.0
    parts: int = 1


# Counters of one pod, by source.
PodStalls = Mapping[str, StallSeconds]


@dataclass(frozen=True)
class StallSample:
    """Total seconds of waiting, by waiting task or pod, at ``at`` seconds of the monotonic clock."""

    source: StallSource
    at: float
    waited: Mapping[str, float]


class FuseWaits(NamedTuple):
    """Seconds until ``at`` in which a version's FUSE server had unanswered read requests."""

    at: float
    seconds: float


@dataclass(frozen=True)
class Stall:
    """Share of its time in which a workload waited for data (``share``, 0 to 1), and the source of the figure.

    ``reads``: for a sampled consumer, the share of time in which a loader's worker waited for reads. None if unknown.
    """

    share: float
    source: StallSource
    reads: float | None = None

    @property
    def read_wait(self) -> float | None:
        """Share of the time in which reads waited; None if unknown."""
        return self.reads if self.source is StallSource.CONSUMER else self.share


def stall_between(before: StallSample | None, after: StallSample | None) -> Stall | None:
    """Return the stall between two samples: the longest wait of any task or pod.

    None if the samples do not match: different sources, a span that is too short, or no common task or pod.
    """
    if before is None or after is None or before.source is not after.source or after.at - before.at < _SHORTEST:
        return None
    both = before.waited.keys() & after.waited.keys()
    waited = [after.waited[one] - before.waited[one] for one in both]
    if not waited or min(waited) < 0:  # a counter that restarted
        return None
    return Stall(min(1.0, max(waited) / (after.at - before.at)), after.source)


def with_interval(
    totals: PodStalls, before: StallSample | None, after: StallSample, stall: Stall | None
) -> dict[str, StallSeconds]:
    """Add the interval between two samples, with its ``stall``, to a pod's counters."""
    if before is None or stall is None or after.at - before.at > _LONGEST:
        return dict(totals)
    known, passed = totals.get(stall.source, StallSeconds()), after.at - before.at
    return {
        **totals,
        stall.source: StallSeconds(known.waited + passed * stall.share, known.watched + passed),
    }
