"""Sample maps as numbers and arrays, so that one process can parse a tenant's index for another."""

from array import array
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from stoker_orders.sample_map import (
    FileMap,
    IndexedRecordMap,
    ListedFile,
    NumberedFiles,
    RecordMap,
    SampleMap,
    ShardMap,
)

MOST_BYTES_PER_SAMPLE = 24  # of all arrays together
_SLICE = 1 << 16  # numbers to check while other threads wait
_MOST_NUMBER = 2**63


class MapKind(StrEnum):
    """The type of a map."""

    FILES = "files"
    SHARDS = "shards"
    RECORDS = "records"
    INDEXED = "indexed"


class PackedMap(NamedTuple):
    """A map's kind, its numbers, and its arrays with 4 bytes ("I") or 8 bytes ("Q") per number."""

    kind: MapKind
    numbers: tuple[int, ...]
    arrays: "tuple[array[int], ...]"


def pack_map(samples: SampleMap) -> PackedMap:
    """Pack a map from ``make_map``. Raises TypeError for other maps."""
    match samples:
        case FileMap():
            numbers, arrays = _packed(samples.files)
            return PackedMap(MapKind.FILES, numbers, arrays)
        case ShardMap():
            numbers, arrays = _packed(samples.files)
            return PackedMap(MapKind.SHARDS, (*numbers, samples.spread), (*arrays, samples.starts))
        case RecordMap():
            return PackedMap(MapKind.RECORDS, samples.shape, ())
        case IndexedRecordMap():
            arrays = array("Q", samples.starts), array("Q", samples.lengths)
            return PackedMap(MapKind.INDEXED, (samples.file,), arrays)
    raise TypeError(f"a {type(samples).__name__} is not packed")


def unpack_map(packed: PackedMap, most: int) -> SampleMap:
    """Rebuild a map with at most ``most`` samples. Blocks. Raises ValueError.

    The packer is not trusted: bounds are checked for all arrays. The identity of samples is not checked.
    """
    kind, numbers, arrays = packed
    if any(not 0 <= number < _MOST_NUMBER for number in numbers):
        raise ValueError("a sample map has an invalid number")
    match kind:
        case MapKind.FILES:
            samples: SampleMap = FileMap(_unpacked(_exactly(numbers, 2), _typed(arrays, "III")))
        case MapKind.SHARDS:
            samples = _shards(_exactly(numbers, 3), _typed(arrays, "IIIQ"))
        case MapKind.RECORDS:
            number, size, record, header = _exactly(numbers, 4)
            samples = RecordMap(ListedFile(number, b"", size), max(1, record), header)
        case MapKind.INDEXED:
            starts, lengths = _typed(arrays, "QQ")
            if len(starts) != len(lengths):
                raise ValueError("a sample map has records without a length")
            samples = IndexedRecordMap(_exactly(numbers, 1)[0], starts, lengths)
    if not 0 < len(samples) <= most:
        raise ValueError(f"a sample map has {len(samples)} samples, and {most} are allowed")
    return samples


def _shards(numbers: Sequence[int], arrays: "Sequence[array[int]]") -> ShardMap:
    files, starts = _unpacked(numbers[:2], arrays[:3]), arrays[3]
    if len(starts) != len(files) + 1 or starts[0] != 0 or _largest(starts[:-1]) >= starts[-1]:
        raise ValueError("a sample map has shards without samples")
    return ShardMap(files, starts, numbers[2])


def _packed(files: NumberedFiles) -> "tuple[tuple[int, ...], tuple[array[int], ...]]":
    numbers = files.numbers
    if isinstance(numbers, range):
        return (numbers.start, len(numbers)), (array("I"), files.ascending, files.places)
    return (0, 0), (numbers, files.ascending, files.places)


def _unpacked(ends: Sequence[int], arrays: "Sequence[array[int]]") -> NumberedFiles:
    """Return files from a range (first, count), or from arrays if the count is 0. Raises ValueError."""
    numbers, ascending, places = arrays
    if ends[1]:
        return NumberedFiles(range(ends[0], ends[0] + ends[1]), array("I"), array("I"))
    if len(ascending) != len(places) or len(places) > len(numbers) or _largest(places) >= max(1, len(numbers)):
        raise ValueError("a sample map has places beyond its files")
    return NumberedFiles(numbers, ascending, places)


def _largest(numbers: "array[int]") -> int:
    return max((max(numbers[start : start + _SLICE]) for start in range(0, len(numbers), _SLICE)), default=0)


def _exactly(numbers: Sequence[int], count: int) -> Sequence[int]:
    if len(numbers) != count:
        raise ValueError(f"a sample map has {len(numbers)} numbers in place of {count}")
    return numbers


def _typed(arrays: "Sequence[array[int]]", codes: str) -> "Sequence[array[int]]":
    if "".join(one.typecode for one in arrays) != codes:
        raise ValueError("a sample map has other arrays than its kind")
    return arrays
