"""Observations of a workload: its accesses, its model files, and its pod's reports."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from stoker_tuning.vocabulary import AccessSource, ModelFileKind, Split, TrainingPhase

# Items that close a window, so that a change is noticed within two windows, 16 items. Slow reads close it by time.
ITEMS = 8
SECONDS = 1.0


@dataclass(slots=True)
class EvidenceWindow:
    """Counts since ``begun``; None: nothing was observed yet. ``count``: the total."""

    begun: float | None = None
    count: int = 0
    items: dict[Split, int] = field(default_factory=dict)
    model_reads: int = 0
    model_small_reads: int = 0
    other_reads: int = 0

    def begin(self, seconds: float) -> None:
        """Note the time of the first observation."""
        if self.begun is None:
            self.begun = seconds

    def due(self, seconds: float) -> bool:
        """Return True if an observation at that time belongs to the next window."""
        return self.begun is not None and seconds - self.begun >= SECONDS

    def item(self, split: Split) -> None:
        """Count a unit of data."""
        self.count += 1
        self.items[split] = self.items.get(split, 0) + 1

    def model(self, *, small: bool) -> None:
        """Count a read of a model file; ``small``: a small read that does not continue the last one."""
        self.count += 1
        self.model_reads += 1
        self.model_small_reads += small

    def other(self) -> None:
        """Count a read of a file that the version lacks."""
        self.count += 1
        self.other_reads += 1


class SeenAccess(NamedTuple):
    """One read, or one open if only opens are observed (``length`` 0). Times are monotonic seconds.

    ``file``: its number in the manifest; ``offset`` and ``length`` in bytes; ``reader``: the id of a process.
    """

    seconds: float
    file: int
    offset: int
    length: int
    reader: int
    source: AccessSource


class ModelFileAction(StrEnum):
    """The use of a model file by a workload."""

    LOADED = "loaded"
    SAVING = "saving"  # the write is under way
    SAVED = "saved"


class ModelFileUse(NamedTuple):
    """One load or save of a model file, inside or outside a Dataset."""

    seconds: float
    name: str
    kind: ModelFileKind
    action: ModelFileAction


class SelfReport(NamedTuple):
    """A pod's report; None: not reported. ``epoch`` counts from 0; ``ranks``: processes that train together."""

    seconds: float
    phase: TrainingPhase | None = None
    epoch: int | None = None
    ranks: int | None = None


class SamplingMethod(StrEnum):
    """The accesses that are observed."""

    COMPLETE = "complete"
    FILES = "files"  # all accesses of some files
    TIME = "time"  # all files, some of the time


@dataclass(frozen=True)
class AccessSampling:
    """The observed part of a workload's accesses.

    ``share``: of the files or of the time, above 0 and at most 1. ``cycle``: seconds from one observed interval to the
    next; 0: single accesses are sampled at random.
    """

    method: SamplingMethod = SamplingMethod.COMPLETE
    share: float = 1.0
    cycle: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"the share of what is seen must be above 0 and at most 1, not {self.share}")

    @property
    def touches(self) -> float:
        """Observed share of all accesses to the observed files."""
        return self.share if self.method is SamplingMethod.TIME else 1.0
