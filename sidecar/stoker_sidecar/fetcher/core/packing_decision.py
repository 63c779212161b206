"""Whether compressed copies pay for one kind of files of a version, by what a trial on some of them measured. Pure.

What is reckoned is the time that one reader's epoch takes. Without: what does not fit comes from the source each time.
With: more fits, all that is kept goes through FUSE and is unpacked, and packing is paid for once in some epochs.
"""

from dataclasses import dataclass

from stoker_api.meta import format_bytes

# Enough to know a kind of files by: so many bytes, or so many files where they are small.
SAMPLE_BYTES = 2 * 1024**2
SAMPLE_FILES = 16
# Epochs that share what packing costs: few, since nobody says how long a job will train.
_EPOCHS = 3
# Bytes a second that one core brings through FUSE, where the kernel alone would have read the file.
_FUSE_SPEED = 1e9
# Seconds over which the source is measured: requests have to be on their way first.
_WINDOW = 1.0
# An epoch has to become so much shorter: trials are short, and speeds of sources change.
_MARGIN = 0.9


@dataclass(frozen=True)
class PackingTrial:
    """What was measured on some files of one kind: bytes before and after, and seconds of a core."""

    files: int = 0
    raw: int = 0
    packed: int = 0
    pack_seconds: float = 0.0
    unpack_seconds: float = 0.0

    def __add__(self, other: "PackingTrial") -> "PackingTrial":
        return PackingTrial(
            self.files + other.files,
            self.raw + other.raw,
            self.packed + other.packed,
            self.pack_seconds + other.pack_seconds,
            self.unpack_seconds + other.unpack_seconds,
        )

    @property
    def is_enough(self) -> bool:
        """Return whether enough was seen."""
        return self.files >= SAMPLE_FILES or self.raw >= SAMPLE_BYTES

    @property
    def ratio(self) -> float:
        """Return how many times as large the files are as their copies."""
        return self.raw / max(1, self.packed)


@dataclass
class SourceMeter:
    """How fast the source is at its best: who packs slows down what comes, and that says nothing of the source.

    ``began``: seconds of the caller's clock; ``fetched``: bytes that had come by then.
    """

    began: float
    fetched: int
    fastest: float = 0.0

    def read(self, now: float, fetched: int) -> float:
        """Return bytes a second, 0 in the first second; ``fetched``: that have come by now."""
        if now - self.began >= _WINDOW:
            self.fastest = max(self.fastest, (fetched - self.fetched) / (now - self.began))
            self.began, self.fetched = now, fetched
        return self.fastest


@dataclass(frozen=True)
class Shortage:
    """How far a version is from fitting. ``size``: of its files; ``room``: bytes that may lie on the disk.

    ``source_speed``: bytes a second that the source brings; 0: not known.
    """

    size: int
    room: int
    source_speed: float

    @property
    def fits(self) -> bool:
        """Return whether all of the version fits."""
        return self.size <= self.room


@dataclass(frozen=True)
class PackingVerdict:
    """Whether it pays, and why: a sentence for people."""

    pays: bool
    why: str


def judge_packing(trial: PackingTrial, shortage: Shortage, least_ratio: float) -> PackingVerdict:
    """Decide for one kind of files, as if all files of the version were of it."""
    if trial.ratio < least_ratio:
        return PackingVerdict(False, f"{trial.ratio:.1f} times smaller, and {least_ratio:g} are asked for")
    if shortage.fits:
        return PackingVerdict(False, "all fits as it is")
    if shortage.source_speed <= 0:
        return PackingVerdict(False, "how fast the source is is not known yet")
    without, packed = _epoch(shortage), _packed_epoch(trial, shortage)
    words = f"{trial.ratio:.1f} times smaller, an epoch's reads take {packed:.1f} s in place of {without:.1f} s"
    speeds = (
        f"packing {format_bytes(round(trial.raw / max(trial.pack_seconds, 1e-9)))}/s, "
        f"unpacking {format_bytes(round(trial.raw / max(trial.unpack_seconds, 1e-9)))}/s, "
        f"source {format_bytes(round(shortage.source_speed))}/s"
    )
    return PackingVerdict(packed < without * _MARGIN, f"{words} ({speeds})")


def _epoch(shortage: Shortage) -> float:
    """Return the seconds that reads of an epoch take beside what the disk needs, which is no more with copies."""
    return (shortage.size - shortage.room) / shortage.source_speed


def _packed_epoch(trial: PackingTrial, shortage: Shortage) -> float:
    kept = min(float(shortage.size), shortage.room * trial.ratio)
    unpacking = kept * trial.unpack_seconds / trial.raw
    packing = kept * trial.pack_seconds / trial.raw / _EPOCHS
    return (shortage.size - kept) / shortage.source_speed + kept / _FUSE_SPEED + unpacking + packing
