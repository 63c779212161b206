"""Splits an epoch's measured time into compute, preparation stall and fetch stall. Pure.

The method is DS-Analyzer's (Mohan et al., Analyzing and Mitigating Data Stalls in DNN Training, VLDB 2021): a run with
one more stage takes longer by the stall of that stage.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class ProfiledRun(StrEnum):
    """One way to run the same epoch: with no, cached or cold input."""

    SYNTHETIC = "synthetic"  # no data at all
    CACHED = "cached"  # all data in memory, or on this disk if memory is too small
    COLD = "cold"  # no data on this node


@dataclass(frozen=True, slots=True)
class RunFigures:
    """The figures of one epoch of a run.

    ``seconds``: the whole epoch, by the observer's clock. ``waited`` and ``computed``: reported by the program; None:
    not reported. ``first``: waited for the first batch, if known. ``items``: None: not counted. ``cpu_seconds``: of all
    its processes; None: not measured. ``progress``: shares of its items, each with the seconds after which it was done;
    empty: unknown.
    """

    seconds: float
    waited: float | None = None
    computed: float | None = None
    first: float = 0.0
    items: int | None = None
    cpu_seconds: float | None = None
    progress: tuple[tuple[float, float], ...] = ()

    @property
    def reported(self) -> bool:
        """True if the program reports its waiting time."""
        return self.waited is not None and self.computed is not None


@dataclass(frozen=True, slots=True)
class EpochSplit:
    """The parts of an epoch's ``seconds``.

    ``preparation``: None: it is part of ``compute``, because no figure separates them. ``fetch``: None: there was no
    cold run. ``by_difference``: the parts are differences of whole runs, so their sum is the epoch by construction.
    """

    seconds: float
    compute: float
    preparation: float | None
    fetch: float | None
    by_difference: bool = False

    @property
    def parts_sum(self) -> float:
        """Sum of the parts, in seconds."""
        return self.compute + (self.preparation or 0.0) + (self.fetch or 0.0)

    @property
    def sum_error(self) -> float:
        """Difference between the parts' sum and the epoch, as a share of it: below 0, some time is in no part."""
        return self.parts_sum / self.seconds - 1 if self.seconds > 0 else 0.0


def epoch_split(runs: Mapping[ProfiledRun, RunFigures]) -> EpochSplit:
    """Return the parts of the cold epoch, or of the cached one without a cold run. Raises ValueError.

    A negative stall counts as 0: two equal runs differ by chance.
    """
    if ProfiledRun.CACHED not in runs:
        raise ValueError("a split needs the cached run, to separate the other waits")
    cached, cold = runs[ProfiledRun.CACHED], runs.get(ProfiledRun.COLD)
    whole, compute = cold or cached, _compute(runs)
    if compute is None:
        split = EpochSplit(whole.seconds, cached.seconds, None, _fetch(cached, cold), by_difference=True)
    else:
        by_difference = not (cached.reported and whole.reported)
        split = EpochSplit(
            whole.seconds, compute, _preparation(cached, compute), _fetch(cached, cold), by_difference=by_difference
        )
    return split


def _compute(runs: Mapping[ProfiledRun, RunFigures]) -> float | None:
    """Return the seconds of computing; None if no figure separates it from preparation."""
    synthetic = runs.get(ProfiledRun.SYNTHETIC)
    if synthetic is not None:
        return synthetic.seconds if synthetic.computed is None else synthetic.computed
    return runs[ProfiledRun.CACHED].computed


def _preparation(cached: RunFigures, compute: float) -> float:
    return max(0.0, cached.seconds - compute) if cached.waited is None else cached.waited


def _fetch(cached: RunFigures, cold: RunFigures | None) -> float | None:
    if cold is None:
        return None
    if cold.waited is not None and cached.waited is not None:
        return max(0.0, cold.waited - cached.waited)
    return max(0.0, cold.seconds - cached.seconds)


@dataclass(frozen=True, slots=True)
class LiveLook:
    """A node's figures of a workload at one moment.

    ``stall``: share of the time that it waits for data. ``read_wait``: share of the time that its reads wait, of the
    process that waits longest; None: unknown. ``whole``: all of its data is on the node's disk.
    """

    items_per_second: float
    stall: float
    read_wait: float | None = None
    whole: bool = False


def live_split(looks: Sequence[LiveLook], seconds: float) -> EpochSplit:
    """Return the parts of ``seconds`` of a running job. Raises ValueError without a look.

    During a stall the loader is never idle. Reads without delay would shorten its work by their share of its time. So a
    faster fetch removes at most that share of the stall, and preparation is the rest. If the share is unknown, the
    whole stall is preparation when the data is complete on the node. Otherwise it all counts as fetch, as an upper
    bound.
    """
    if not looks:
        raise ValueError("a split needs a look")
    stall = sum(look.stall for look in looks) / len(looks)
    fetch = sum(_fetch_share(look) for look in looks) / len(looks)
    return EpochSplit(seconds, (1 - stall) * seconds, (stall - fetch) * seconds, fetch * seconds, by_difference=True)


def _fetch_share(look: LiveLook) -> float:
    if look.read_wait is not None:
        return min(look.stall, look.read_wait)
    return 0.0 if look.whole else look.stall
