"""How much is measured: the sizes of the workloads for a quick, a usual and a full run. Pure."""

from dataclasses import dataclass

# A JPEG of ImageNet in the MLPerf storage benchmark, and a small object of data-path measurements.
IMAGE_BYTES = 114_660
SMALL_BYTES = 100 * 1024
TINY_BYTES = 4 * 1024
ENTRY_BYTES = 16
OBJECT_BYTES = 1024


@dataclass(frozen=True)
class Corpus:
    """Objects of one size, spread evenly over folders."""

    files: int
    size: int
    folders: int

    @property
    def total_bytes(self) -> int:
        """Sum of the objects' sizes."""
        return self.files * self.size


@dataclass(frozen=True)
class Scale:
    """One run. ``repeats``: times that each figure is taken, unless ``case_seconds`` are over before."""

    repeats: int
    case_seconds: float
    epochs: Corpus  # B1
    entries: tuple[Corpus, ...]  # B5
    warmups: tuple[Corpus, ...]  # B6
    killed: Corpus  # B6, after a kill -9: a count, so that fewer objects tell as much
    memory: Corpus
    profiles: tuple[str, ...]  # B6
    warm_seconds: float  # memory: longest that warming is watched; the figures say how far it got


def scale(name: str) -> Scale:
    """``quick`` (a tenth, a smoke test), ``default`` or ``full``. Raises KeyError."""
    return _SCALES[name]


_SCALES = {
    "quick": Scale(
        repeats=1,
        case_seconds=60.0,
        epochs=Corpus(2_000, IMAGE_BYTES, 20),
        entries=(Corpus(10_000, ENTRY_BYTES, 1), Corpus(10_000, ENTRY_BYTES, 100)),
        warmups=(Corpus(2_000, SMALL_BYTES, 20),),
        killed=Corpus(1_000, SMALL_BYTES, 10),
        memory=Corpus(20_000, OBJECT_BYTES, 20),
        profiles=("P0",),
        warm_seconds=5.0,
    ),
    "default": Scale(
        repeats=3,
        case_seconds=25.0,  # so that the whole run ends within 8 minutes on two cores
        epochs=Corpus(20_000, IMAGE_BYTES, 200),
        entries=(Corpus(100_000, ENTRY_BYTES, 1), Corpus(100_000, ENTRY_BYTES, 1_000)),
        warmups=(Corpus(20_000, SMALL_BYTES, 200),),
        killed=Corpus(4_000, SMALL_BYTES, 40),
        memory=Corpus(200_000, OBJECT_BYTES, 200),
        profiles=("P0",),
        warm_seconds=40.0,
    ),
    "full": Scale(
        repeats=5,
        case_seconds=float("inf"),
        epochs=Corpus(20_000, IMAGE_BYTES, 200),
        entries=(
            Corpus(100_000, ENTRY_BYTES, 1),
            Corpus(100_000, ENTRY_BYTES, 1_000),
            Corpus(1_000_000, ENTRY_BYTES, 1_000),
        ),
        warmups=(
            Corpus(20_000, SMALL_BYTES, 200),
            Corpus(24, 146_600_000, 1),
            Corpus(200_000, TINY_BYTES, 200),
        ),
        killed=Corpus(20_000, SMALL_BYTES, 200),
        memory=Corpus(200_000, OBJECT_BYTES, 200),
        profiles=("P0", "P20", "PBW"),
        warm_seconds=600.0,
    ),
}
