"""Maps samples to bytes of files, and back."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple, Protocol, Self

from stoker_orders.sample_index import NoSamplesError, listed_names, record_spans, shard_counts
from stoker_orders.sampling_plan import SampleFiles, SampleLayout
from stoker_tuning.rules.globs import PatternError, parse_glob


class ListedFile(NamedTuple):
    """A file of the Dataset: its number (inode), its path in bytes of UTF-8, its size in bytes."""

    number: int
    path: bytes
    size: int


class SamplePiece(NamedTuple):
    """Bytes of a file. ``length`` 0 means the whole file."""

    file: int
    offset: int = 0
    length: int = 0


class SampleMap(Protocol):
    """Samples by number, in the sampler's order.

    With ``by_offset``, the offset in a file identifies the sample, not the file. ``spread`` is the number of samples in
    a file, since its reads may seem that far from the position.
    """

    by_offset: bool
    spread: int

    def __len__(self) -> int:
        """Count the samples."""
        ...

    def piece(self, sample: int) -> SamplePiece:
        """Return the bytes of a sample."""
        ...

    def sample(self, file: int, offset: int) -> int | None:
        """Return the sample at this offset, or None."""
        ...


class NumberedFiles:
    """Files by position, and the first position of each file.

    ``numbers`` is a range, or an array with 4 bytes per file. ``ascending`` has the distinct numbers, sorted, and
    ``places`` their first positions. Both are empty for a range.
    """

    def __init__(self, numbers: "range | array[int]", ascending: "array[int]", places: "array[int]") -> None:
        self.numbers, self.ascending, self.places = numbers, ascending, places

    @classmethod
    def of(cls, files: Sequence[int]) -> Self:
        """Build it from file numbers below 2**32."""
        numbers = _compact(files)
        if isinstance(numbers, range):
            return cls(numbers, array("I"), array("I"))
        return cls(numbers, *_first_places(numbers))

    def __len__(self) -> int:
        return len(self.numbers)

    def place(self, file: int) -> int | None:
        """Return the first position of a file, or None if it is not listed."""
        if isinstance(self.numbers, range):
            return file - self.numbers.start if file in self.numbers else None
        index = bisect_left(self.ascending, file)
        return self.places[index] if index < len(self.ascending) and self.ascending[index] == file else None


class FileMap:
    """One sample per file."""

    by_offset, spread = False, 1

    def __init__(self, files: Sequence[int] | NumberedFiles) -> None:
        self.files = files if isinstance(files, NumberedFiles) else NumberedFiles.of(files)

    def __len__(self) -> int:
        return len(self.files)

    def piece(self, sample: int) -> SamplePiece:
        """Return the file."""
        return SamplePiece(self.files.numbers[sample])

    def sample(self, file: int, offset: int) -> int | None:
        """Return the sample of this file."""
        return self.files.place(file)


class ShardMap:
    """Files of many samples each, in file order.

    ``starts`` has the first sample of each file, then the number of all samples. ``spread`` is the size of the largest.
    """

    by_offset = False

    def __init__(self, files: NumberedFiles, starts: "array[int]", spread: int) -> None:
        self.files, self.starts, self.spread = files, starts, spread

    @classmethod
    def of(cls, files: Sequence[int], counts: Sequence[int]) -> Self:
        """Build it from the number of samples of each file."""
        return cls(NumberedFiles.of(files), array("Q", accumulate(counts, initial=0)), max(counts, default=1))

    def __len__(self) -> int:
        return self.starts[-1]

    def piece(self, sample: int) -> SamplePiece:
        """Return the shard of a sample."""
        return SamplePiece(self.files.numbers[bisect_right(self.starts, sample) - 1])

    def sample(self, file: int, offset: int) -> int | None:
        """Return the first sample of a shard."""
        place = self.files.place(file)
        return None if place is None else self.starts[place]


class RecordMap:
    """One file of samples of one size, after a header. Sizes in bytes."""

    by_offset, spread = True, 1

    def __init__(self, file: ListedFile, record: int, header: int) -> None:
        self._file, self._record, self._header = file.number, record, header
        self._count = max(0, file.size - header) // record
        self.shape = (file.number, file.size, record, header)

    def __len__(self) -> int:
        return self._count

    def piece(self, sample: int) -> SamplePiece:
        """Return the bytes of a sample."""
        return SamplePiece(self._file, self._header + sample * self._record, self._record)

    def sample(self, file: int, offset: int) -> int | None:
        """Return the sample of a byte."""
        number = (offset - self._header) // self._record
        return number if file == self._file and 0 <= number < self._count else None


class IndexedRecordMap:
    """One file of samples of any size. ``starts`` (ascending) and ``lengths`` of the samples, in bytes."""

    by_offset, spread = True, 1

    def __init__(self, file: int, starts: Sequence[int], lengths: Sequence[int]) -> None:
        self.file, self.starts, self.lengths = file, starts, lengths

    def __len__(self) -> int:
        return len(self.starts)

    def piece(self, sample: int) -> SamplePiece:
        """Return the bytes of a sample."""
        return SamplePiece(self.file, self.starts[sample], self.lengths[sample])

    def sample(self, file: int, offset: int) -> int | None:
        """Return the sample of a byte."""
        number = bisect_right(self.starts, offset) - 1
        if file != self.file or number < 0 or offset >= self.starts[number] + self.lengths[number]:
            return None
        return number


def _compact(files: Sequence[int]) -> "range | array[int]":
    """Return the same numbers, as a range if they are consecutive, else with 4 bytes each."""
    if files and all(after == before + 1 for before, after in pairwise(files)):
        return range(files[0], files[0] + len(files))
    return files if isinstance(files, array) else array("I", files)


def _first_places(numbers: "array[int]") -> "tuple[array[int], array[int]]":
    """Return the distinct numbers, sorted, and the first place of each."""
    ascending, places = array("I"), array("I")
    # One integer for each pair needs half the memory of a sort by key.
    for pair in sorted(array("Q", (number << 32 | place for place, number in enumerate(numbers)))):
        if not ascending or ascending[-1] != pair >> 32:
            ascending.append(pair >> 32)
            places.append(pair & 0xFFFFFFFF)
    return ascending, places


def make_map(said: SampleFiles, files: Iterable[ListedFile], listed: bytes = b"") -> SampleMap:
    """Find the samples in a Dataset's files, which come folder by folder. Raises NoSamplesError.

    ``listed`` is the content of the file ``said.described_by``, if there is one.
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
    """Return the shards by name, without empty ones. Raises NoSamplesError."""
    matched = sorted((one.path, one.number) for one in _matching(said.path, files))
    if not said.index:
        numbers = array("I", (number for _, number in matched))
        return FileMap(numbers) if said.per_shard == 1 else ShardMap.of(numbers, [said.per_shard] * len(numbers))
    named = {name for path, _ in matched for name in (path, _beside(said.index, path)) if name}
    counts = shard_counts(said.index, listed, named)
    found = [(path, number, counts.get(_beside(said.index, path), counts.get(path))) for path, number in matched]
    if said.path and (unknown := next((path for path, _, count in found if count is None), None)) is not None:
        raise NoSamplesError(f"the index {said.index!r} does not say how many samples {_decoded(unknown)!r} has")
    known = [(number, count) for _, number, count in found if count]
    return ShardMap.of([number for number, _ in known], [count for _, count in known])


def _records(said: SampleFiles, files: Iterable[ListedFile], listed: bytes) -> SampleMap:
    """Return the records of a file. Raises NoSamplesError."""
    file = next((one for one in files if one.path == said.path.encode()), None)
    if file is None:
        raise NoSamplesError(f"the Dataset has no file {said.path!r}, in which the samples should lie")
    if not said.index:
        return RecordMap(file, said.record_bytes, said.header_bytes)
    return IndexedRecordMap(file.number, *record_spans(said.index, listed, file.size))


def _beside(listing: str, path: bytes) -> bytes:
    """Return a path relative to the listing's folder. Empty if it lies elsewhere."""
    folder = listing.rpartition("/")[0].encode()
    return path[len(folder) + 1 :] if folder and path.startswith(folder + b"/") else b""


_MISSING = -1  # number of a listed file that the Dataset does not have
# The image suffixes of torchvision's ImageFolder.
_IMAGES = (b".jpg", b".jpeg", b".png", b".ppm", b".bmp", b".pgm", b".tif", b".tiff", b".webp")


def _image_folder(root: str, files: Iterable[ListedFile]) -> "array[int]":
    """Return the images in ImageFolder's order: classes by name, then folder by folder, each by file name."""
    prefix = root.strip("/").encode()
    prefix += b"/" if prefix else b""
    found = array("I")
    images = (one for one in files if one.path.startswith(prefix) and one.path.lower().endswith(_IMAGES))
    in_class = ((one.path[len(prefix) :].rpartition(b"/"), one.number) for one in images)
    # Files of a folder come by name, with subfolders in between.
    folders = [
        (_decoded(folder), array("I", (number for _, number in group)))
        for folder, group in groupby(in_class, key=lambda each: each[0][0])
        if folder
    ]
    # Within a class, sort folders by their whole paths.
    for _, numbers in sorted(folders, key=lambda each: (each[0].partition("/")[0], each[0])):
        found.extend(numbers)
    return found


def _decoded(name: bytes) -> str:
    return name.decode(errors="surrogateescape")


def _from_list(path: str, files: Iterable[ListedFile], listed: bytes) -> "array[int]":
    """Return the files in list order: one path per line, relative to the list's folder or the Dataset's root."""
    here = dict.fromkeys(listed_names(path, listed), _MISSING)
    for one in files:
        for name in (one.path, _beside(path, one.path)):
            if name in here:
                here[name] = one.number
    missing = next((name for name, number in here.items() if number == _MISSING), None)
    if missing is not None:
        raise NoSamplesError(f"the list {path!r} names {_decoded(missing)!r}, which the Dataset does not have")
    return array("I", (here[name] for name in listed_names(path, listed)))


def _matching(pattern: str, files: Iterable[ListedFile]) -> Iterable[ListedFile]:
    """Return the files that match a glob of the tuning documents. Empty: all. Raises NoSamplesError."""
    if not pattern:
        return files
    try:
        glob = parse_glob(pattern)
    except PatternError as error:
        raise NoSamplesError(f"the pattern {pattern!r} is wrong: {error}") from error
    return (one for one in files if glob.holds(one.path.decode(errors="replace")))
