"""Which bytes of which file each sample is, and the other way round."""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple, Protocol

from stoker_orders.sample_index import NoSamplesError, record_spans, shard_counts
from stoker_orders.sampling_plan import SampleFiles, SampleLayout
from stoker_tuning.rules.globs import parse_glob
from stoker_tuning.rules.regex_syntax import PatternError


class ListedFile(NamedTuple):
    """A file of the Dataset: its number (inode), its path in bytes of UTF-8, its size in bytes."""

    number: int
    path: bytes
    size: int


class SamplePiece(NamedTuple):
    """Bytes of a file; ``length`` 0: all of it."""

    file: int
    offset: int = 0
    length: int = 0


class SampleMap(Protocol):
    """Samples by number, as the sampler counts them.

    ``by_offset``: the sample is told by where in a file is read, not by which file is opened. ``spread``: samples that
    one file stands for, so that its reads may seem to be as far from the place.
    """

    by_offset: bool
    spread: int

    def __len__(self) -> int:
        """Count the samples."""
        ...

    def piece(self, sample: int) -> SamplePiece:
        """Return where a sample lies."""
        ...

    def sample(self, file: int, offset: int) -> int | None:
        """Return the sample that lies there; None: none does."""
        ...


class FileMap:
    """A file a sample."""

    by_offset, spread = False, 1

    def __init__(self, files: Sequence[int]) -> None:
        self._files = _compact(files)
        self._samples = None if isinstance(self._files, range) else _inverse(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def piece(self, sample: int) -> SamplePiece:
        """Return the file."""
        return SamplePiece(self._files[sample])

    def sample(self, file: int, offset: int) -> int | None:
        """Return the sample that is this file."""
        if self._samples is None:
            return file - self._files[0] if self._files and file in self._files else None
        number = self._samples[file] if 0 <= file < len(self._samples) else _NONE
        return None if number == _NONE else number


class ShardMap:
    """Files of many samples each, in the order of the files. ``counts``: samples of each."""

    by_offset = False

    def __init__(self, files: Sequence[int], counts: Sequence[int]) -> None:
        self._files = _compact(files)
        self._starts = array("Q", accumulate(counts, initial=0))
        self._numbers = {file: number for number, file in enumerate(files)}
        self.spread = max(counts, default=1)

    def __len__(self) -> int:
        return self._starts[-1]

    def piece(self, sample: int) -> SamplePiece:
        """Return the shard that a sample lies in."""
        return SamplePiece(self._files[bisect_right(self._starts, sample) - 1])

    def sample(self, file: int, offset: int) -> int | None:
        """Return the first sample of a shard."""
        number = self._numbers.get(file)
        return None if number is None else self._starts[number]


class RecordMap:
    """One file of samples of one size, behind a header. Sizes in bytes."""

    by_offset, spread = True, 1

    def __init__(self, file: ListedFile, record: int, header: int) -> None:
        self._file, self._record, self._header = file.number, record, header
        self._count = max(0, file.size - header) // record

    def __len__(self) -> int:
        return self._count

    def piece(self, sample: int) -> SamplePiece:
        """Return the bytes of a sample."""
        return SamplePiece(self._file, self._header + sample * self._record, self._record)

    def sample(self, file: int, offset: int) -> int | None:
        """Return the sample that a byte belongs to."""
        number = (offset - self._header) // self._record
        return number if file == self._file and 0 <= number < self._count else None


class IndexedRecordMap:
    """One file of samples of any size. ``starts``, which grow, and ``lengths``: of the samples, in bytes."""

    by_offset, spread = True, 1

    def __init__(self, file: int, starts: Sequence[int], lengths: Sequence[int]) -> None:
        self._file, self._starts, self._lengths = file, starts, lengths

    def __len__(self) -> int:
        return len(self._starts)

    def piece(self, sample: int) -> SamplePiece:
        """Return the bytes of a sample."""
        return SamplePiece(self._file, self._starts[sample], self._lengths[sample])

    def sample(self, file: int, offset: int) -> int | None:
        """Return the sample that a byte belongs to."""
        number = bisect_right(self._starts, offset) - 1
        if file != self._file or number < 0 or offset >= self._starts[number] + self._lengths[number]:
            return None
        return number


_NONE = 2**32 - 1


def _compact(files: Sequence[int]) -> Sequence[int]:
    """Return the same numbers: as a range where they follow one another, else 4 bytes each."""
    if files and all(after == before + 1 for before, after in pairwise(files)):
        return range(files[0], files[0] + len(files))
    return files if isinstance(files, array) else array("I", files)


def _inverse(numbers: Sequence[int]) -> "array[int]":
    inverse = array("I", [_NONE]) * (max(numbers, default=-1) + 1)
    for place, number in enumerate(numbers):
        if inverse[number] == _NONE:
            inverse[number] = place
    return inverse


def make_map(said: SampleFiles, files: Iterable[ListedFile], listed: bytes = b"") -> SampleMap:
    """Find the samples among a Dataset's files, which come folder by folder. Raises NoSamplesError.

    ``listed``: the content of the file ``said.described_by``, where there is one.
    """
    match said.layout:
        case SampleLayout.IMAGE_FOLDER:
            found: SampleMap = FileMap(_image_folder(said.path, files))
        case SampleLayout.FILE_LIST:
            found = FileMap(_from_list(said.path, files, listed))
        case SampleLayout.SHARDS:
            found = _shards(said, files, listed)
        case SampleLayout.RECORDS:
            found = _records(said, files, listed)
    if not len(found):
        raise NoSamplesError(f"no sample is found at {said.path or '/'!r} ({said.layout}): look at sampling.files")
    return found


def _shards(said: SampleFiles, files: Iterable[ListedFile], listed: bytes) -> SampleMap:
    """Return the shards by name, with the samples of each. Raises NoSamplesError."""
    matched = sorted(_matching(said.path, files), key=lambda one: one.path)
    if not said.index:
        numbers = [one.number for one in matched]
        return FileMap(numbers) if said.per_shard == 1 else ShardMap(numbers, [said.per_shard] * len(numbers))
    counts = shard_counts(said.index, listed)
    found = [(one, counts.get(_beside(said.index, one.path), counts.get(one.path))) for one in matched]
    if said.path and (unknown := next((one.path for one, count in found if count is None), None)) is not None:
        raise NoSamplesError(f"the index {said.index!r} does not say how many samples {_decoded(unknown)!r} has")
    known = [(one.number, count) for one, count in found if count is not None]
    return ShardMap([number for number, _ in known], [count for _, count in known])


def _records(said: SampleFiles, files: Iterable[ListedFile], listed: bytes) -> SampleMap:
    """Return the records of a file. Raises NoSamplesError."""
    file = next((one for one in files if one.path == said.path.encode()), None)
    if file is None:
        raise NoSamplesError(f"the Dataset has no file {said.path!r}, in which the samples should lie")
    if not said.index:
        return RecordMap(file, said.record_bytes, said.header_bytes)
    return IndexedRecordMap(file.number, *record_spans(said.index, listed, file.size))


def _beside(listing: str, path: bytes) -> bytes:
    """Return a path as one of a listing's own folder; empty where it lies elsewhere."""
    folder = listing.rpartition("/")[0].encode()
    return path[len(folder) + 1 :] if folder and path.startswith(folder + b"/") else b""


# What torchvision's ImageFolder takes for an image.
_IMAGES = (b".jpg", b".jpeg", b".png", b".ppm", b".bmp", b".pgm", b".tif", b".tiff", b".webp")


def _image_folder(root: str, files: Iterable[ListedFile]) -> "array[int]":
    """Return the images as ImageFolder sorts them: classes by name, then folder by folder, each by file name."""
    prefix = root.strip("/").encode()
    prefix += b"/" if prefix else b""
    found = array("I")
    images = (one for one in files if one.path.startswith(prefix) and one.path.lower().endswith(_IMAGES))
    in_class = ((one.path[len(prefix) :].rpartition(b"/"), one.number) for one in images)
    # Files of a folder come by name, but its folders may come between them.
    folders = [
        (_decoded(folder), array("I", (number for _, number in group)))
        for folder, group in groupby(in_class, key=lambda each: each[0][0])
        if folder
    ]
    # Within a class, folders are sorted by their paths as a whole.
    for _, numbers in sorted(folders, key=lambda each: (each[0].partition("/")[0], each[0])):
        found.extend(numbers)
    return found


def _decoded(name: bytes) -> str:
    return name.decode(errors="surrogateescape")


def _from_list(path: str, files: Iterable[ListedFile], listed: bytes) -> "array[int]":
    """Return the files in the order of a list: a path a line, from the list's own folder or the Dataset's root."""
    wanted = [line.strip() for line in listed.splitlines()]
    names = {name for name in wanted if name}
    here: dict[bytes, int] = {}
    for one in files:
        for name in (one.path, _beside(path, one.path)):
            if name in names:
                here[name] = one.number
    missing = next((name for name in wanted if name and name not in here), None)
    if missing is not None:
        raise NoSamplesError(f"the list {path!r} names {_decoded(missing)!r}, which the Dataset does not have")
    return array("I", (here[name] for name in wanted if name))


def _matching(pattern: str, files: Iterable[ListedFile]) -> Iterable[ListedFile]:
    """Yield the files that a glob of the tuning documents matches; empty: all. Raises NoSamplesError."""
    if not pattern:
        return files
    try:
        glob = parse_glob(pattern)
    except PatternError as error:
        raise NoSamplesError(f"the pattern {pattern!r} is wrong: {error}") from error
    return (one for one in files if glob.holds(one.path.decode(errors="replace")))
