"""Measured runs -> the parts of an epoch's time: compute, preparation stall, fetch stall. Pure.

After DS-Analyzer (Mohan et al., Analyzing and Mitigating Data Stalls in DNN Training, VLDB 2021): what a run waits for
more than one that has less to wait for is what it waits for that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class ProfiledRun(StrEnum):
    """One way to run the same epoch: with how much of its input at hand."""

    SYNTHETIC = "synthetic"  # no data at all
    CACHED = "cached"  # all data in memory, or on this disk where memory is too small
    COLD = "cold"  # nothing of the data here


@dataclass(frozen=True, slots=True)
class RunFigures:
    """What one epoch of a run came to.

    ``seconds``: of its whole, by the clock of who looked on. ``waited`` and ``computed``: by the program's own word;
    None: it says nothing. ``first``: waited for the first batch, as far as that is known. ``items``: None: not counted.
    ``cpu_seconds``: of all its processes; None: not measured. ``progress``: shares of its items, each with the seconds
    after which it was done; empty: not known.
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
        """Whether the program says what it waits for."""
        return self.waited is not None and self.computed is not None


@dataclass(frozen=True, slots=True)
class EpochSplit:
    """The parts of an epoch's ``seconds``.

    ``preparation``: None: it is in ``compute``, as nothing tells them apart. ``fetch``: None: nothing was cold.
    ``by_difference``: the parts are differences of whole runs, which sum up to the epoch by their making.
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
        """How far the parts are from the whole, as a share of it: below 0, something is in none of them."""
        return self.parts_sum / self.seconds - 1 if self.seconds > 0 else 0.0


def epoch_split(runs: Mapping[ProfiledRun, RunFigures]) -> EpochSplit:
    """Return the parts of the cold epoch, or of the cached one where nothing was cold. Raises ValueError.

    A stall that comes out below 0 is none: two runs of the same differ by chance.
    """
    if ProfiledRun.CACHED not in runs:
        raise ValueError("a split needs the cached run: by what it waits for, the others are told apart")
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
    """Return the seconds that computing takes; None where nothing tells it apart from preparation."""
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
    """What a node says of a workload at one moment.

    ``stall``: share of the time that it waits for data. ``read_wait``: share of the time that its reads wait, of the
    process that waits longest; None: nothing tells it. ``whole``: all of its data is on the node's disk.
    """

    items_per_second: float
    stall: float
    read_wait: float | None = None
    whole: bool = False


def live_split(looks: Sequence[LiveLook], seconds: float) -> EpochSplit:
    """Return the parts of ``seconds`` of a job that goes on. Raises ValueError without a look.

    A loader that is waited for is never idle: were reads to take no time, it would be done sooner by their share of its
    time. So of the stall at most that share goes away by fetching sooner, and preparation is the rest. Where nothing
    tells how long reads wait, all of the stall of a job whose data is whole here is preparation, and else it is all
    fetch: the most that it can be.
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
