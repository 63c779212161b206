"""What is seen of a workload: its accesses, its model files, and what its pod says of itself."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from stoker_tuning.vocabulary import AccessSource, ModelFileKind, TrainingPhase


class SeenAccess(NamedTuple):
    """One read, or one open where only these are seen (``length`` 0). Times are monotonic seconds.

    ``file``: its number in the manifest; ``offset`` and ``length`` in bytes; ``reader``: a process, as its id.
    """

    seconds: float
    file: int
    offset: int
    length: int
    reader: int
    source: AccessSource


class ModelFileAction(StrEnum):
    """What a workload did with a model file."""

    LOADED = "loaded"
    SAVING = "saving"  # it is being written
    SAVED = "saved"


class ModelFileUse(NamedTuple):
    """One load or save of a model file, in a Dataset or beside it."""

    seconds: float
    name: str
    kind: ModelFileKind
    action: ModelFileAction


class SelfReport(NamedTuple):
    """What a pod said of itself; None: not said. ``epoch`` counts from 0; ``ranks``: processes that train together."""

    seconds: float
    phase: TrainingPhase | None = None
    epoch: int | None = None
    ranks: int | None = None


class SamplingMethod(StrEnum):
    """Which accesses are seen."""

    COMPLETE = "complete"
    FILES = "files"  # all accesses of some files
    TIME = "time"  # all files, some of the time


@dataclass(frozen=True)
class AccessSampling:
    """How much of a workload's accesses is seen.

    ``share``: of the files or of the time, above 0 and at most 1. ``cycle``: seconds from one watched spell to the
    next; 0: single accesses are taken at random.
    """

    method: SamplingMethod = SamplingMethod.COMPLETE
    share: float = 1.0
    cycle: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"the share of what is seen must be above 0 and at most 1, not {self.share}")

    @property
    def touches(self) -> float:
        """Share of all accesses of the watched files that is seen."""
        return self.share if self.method is SamplingMethod.TIME else 1.0
