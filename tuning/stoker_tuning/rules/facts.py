"""The facts that conditions test: a file, its reads, the workload that reads it, and the node. None: unknown."""

from dataclasses import dataclass, field

from stoker_tuning.vocabulary import AccessPattern, ModelFileKind, Split, TrainingPhase


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file of a Dataset: its path below the Dataset's folder, its size in bytes, its model kind, its split."""

    path: str
    size: int | None = None
    type: ModelFileKind | None = None
    split: Split | None = None

    @property
    def folder(self) -> str:
        """The path up to and including its last '/'."""
        return self.path[: self.path.rfind("/") + 1]

    @property
    def name(self) -> str:
        """The path after its last '/'."""
        return self.path[self.path.rfind("/") + 1 :]

    @property
    def written_extension(self) -> str:
        """The name from its last dot, in its own case; empty without a dot."""
        dot = self.path.rfind(".")
        return self.path[dot:] if dot > self.path.rfind("/") else ""

    @property
    def extension(self) -> str:
        """The name from its last dot in lower case, such as ``.jpg``; empty without a dot."""
        return self.written_extension.lower()


@dataclass(frozen=True, slots=True)
class AccessFacts:
    """How a workload reads a Dataset; ``items_per_second``: files, or records if a report counts them."""

    pattern: AccessPattern | None = None
    items_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class WorkloadFacts:
    """One training session: a pod, or the pods of a TrainingJob; ``job`` is that job's name."""

    framework: str | None = None
    phase: TrainingPhase | None = None
    batch_size: float | None = None
    job: str | None = None
    namespace: str | None = None
    model_kind: ModelFileKind | None = None


@dataclass(frozen=True, slots=True)
class SystemFacts:
    """The node: its memory and the cache's capacity in bytes, ``bandwidth`` from the store in bytes per second."""

    memory: float | None = None
    gpu_count: float | None = None
    bandwidth: float | None = None
    disk: float | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """All facts except those of a file."""

    access: AccessFacts = field(default_factory=AccessFacts)
    workload: WorkloadFacts = field(default_factory=WorkloadFacts)
    system: SystemFacts = field(default_factory=SystemFacts)
