"""Whether compressed copies pay for one kind of files of a version, by measurements of a trial. Pure.

The model is the time of one reader's epoch. Without copies, files that do not fit come from the source each time. With
copies, more files fit, kept files go through FUSE and are unpacked, and a few epochs share the cost of packing.
"""

from dataclasses import dataclass

from stoker_api.meta import format_bytes

# Enough for every magic number below.
MOST_HEAD = 16
_MAGIC = (
    b"\xff\xd8\xff",  # JPEG
    b"\x89PNG\r\n\x1a\n",
    b"GIF8",
    b"\xff\x0a",  # JPEG XL, also as a box:
    b"\x00\x00\x00\x0cJXL ",
    b"\x00\x00\x00\x0cjP  ",  # JPEG 2000
    b"ID3",  # MP3 with tags
    b"OggS",
    b"fLaC",
    b"\x1aE\xdf\xa3",  # Matroska, WebM
    b"\x1f\x8b",  # gzip
    b"BZh",
    b"\xfd7zXZ\x00",
    b"\x28\xb5\x2f\xfd",  # zstd
    b"\x04\x22\x4d\x18",  # LZ4
    b"\xff\x06\x00\x00sNaPpY",
    b"7z\xbc\xaf\x27\x1c",
    b"Rar!",
)
_ZIP, _STORED = b"PK\x03\x04", b"\x00\x00"


def is_compressed(head: bytes) -> bool:
    """Return True if a file with this head is compressed. ``head``: its first MOST_HEAD bytes, or all it has.

    A file for which this returns False may still not shrink. The trial shows it.
    """
    if head.startswith(_MAGIC) or head[4:8] == b"ftyp":  # MP4, HEIC, AVIF
        return True
    if head.startswith(_ZIP):  # PyTorch and NumPy store their data uncompressed
        return head[8:10] != _STORED
    if head.startswith(b"RIFF"):
        return head[8:12] == b"WEBP"
    return _is_mpeg_audio(head)


def _is_mpeg_audio(head: bytes) -> bool:
    """Recognize a frame header of MP3 or AAC. Reserved values do not count."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return False
    if head[1] & 0xF6 == 0xF0:  # AAC in ADTS
        return head[2] >> 2 & 0xF < 13
    layer_3, known_version = head[1] & 0x06 == 0x02, head[1] & 0x18 != 0x08
    return layer_3 and known_version and head[2] >> 4 != 0xF and head[2] & 0x0C != 0x0C


# Size of a sample of a kind of files: bytes, or a number of small files.
SAMPLE_BYTES = 2 * 1024**2
SAMPLE_FILES = 16
# Epochs that share the cost of packing. They are few, since the length of a job is unknown.
_EPOCHS = 3
# Bytes a second that one core reads through FUSE. The kernel reads files of the tree without it.
_FUSE_SPEED = 1e9
# Seconds over which the source is measured: requests have to be on their way first.
_WINDOW = 1.0
# An epoch has to become so much shorter: trials are short, and speeds of sources change.
_MARGIN = 0.9


@dataclass(frozen=True)
class PackingTrial:
    """Measurements of some files of one kind: bytes before and after, and seconds of a core."""

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
        """Return the size of the files divided by the size of their copies."""
        return self.raw / max(1, self.packed)


@dataclass
class SourceMeter:
    """Measures the best speed of the source. Packing slows arrivals down, which is no sign of a slow source.

    ``began``: seconds of the caller's clock; ``fetched``: bytes received by then.
    """

    began: float
    fetched: int
    fastest: float = 0.0

    def read(self, now: float, fetched: int) -> float:
        """Return bytes a second, 0 in the first second. ``fetched``: bytes received by now."""
        if now - self.began >= _WINDOW:
            self.fastest = max(self.fastest, (fetched - self.fetched) / (now - self.began))
            self.began, self.fetched = now, fetched
        return self.fastest


@dataclass(frozen=True)
class Shortage:
    """The shortage of room for a version. ``size``: of its files; ``room``: bytes that may lie on the disk.

    ``source_speed``: bytes a second of the source; 0: unknown.
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
    """Return the seconds that an epoch's reads from the source take.

    Reads from the disk take equally long with copies.
    """
    return (shortage.size - shortage.room) / shortage.source_speed


def _packed_epoch(trial: PackingTrial, shortage: Shortage) -> float:
    kept = min(float(shortage.size), shortage.room * trial.ratio)
    unpacking = kept * trial.unpack_seconds / trial.raw
    packing = kept * trial.pack_seconds / trial.raw / _EPOCHS
    return (shortage.size - kept) / shortage.source_speed + kept / _FUSE_SPEED + unpacking + packing
