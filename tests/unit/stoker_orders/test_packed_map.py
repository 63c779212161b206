"""Sample maps cross a process boundary as numbers and arrays. A compromised process cannot make them harmful."""

from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_orders.packed_map import MOST_BYTES_PER_SAMPLE, MapKind, PackedMap, pack_map, unpack_map
from stoker_orders.sample_map import FileMap, IndexedRecordMap, ListedFile, RecordMap, SampleMap, ShardMap

files = st.lists(st.integers(0, 40), min_size=1, max_size=20) | st.integers(0, 9).map(lambda n: range(n, n + 5))
counts = st.lists(st.integers(1, 4), min_size=20, max_size=20)
maps = (
    files.map(FileMap)
    | st.builds(lambda some, of: ShardMap.of(some, of[: len(some)]), files, counts)
    | st.builds(lambda size: RecordMap(ListedFile(3, b"", size), 10, 4), st.integers(14, 100))
    | st.lists(st.integers(0, 99), min_size=1, unique=True).map(
        lambda starts: IndexedRecordMap(7, array("Q", sorted(starts)), array("Q", [1] * len(starts)))
    )
)


@given(maps)
def test_a_map_is_the_same_on_the_other_side(samples: SampleMap) -> None:
    packed = pack_map(samples)
    other = unpack_map(packed, most=1000)
    assert [other.piece(one) for one in range(len(other))] == [samples.piece(one) for one in range(len(samples))]
    places = [(file, offset) for file in range(42) for offset in (0, 5, 50)]
    assert [other.sample(*place) for place in places] == [samples.sample(*place) for place in places]
    assert (other.spread, other.by_offset) == (samples.spread, samples.by_offset)
    assert sum(len(one) * one.itemsize for one in packed.arrays) <= MOST_BYTES_PER_SAMPLE * len(samples) + 8


numbers = st.lists(st.integers(-1, 2**63) | st.integers(0, 50), max_size=5).map(tuple)
arrays = st.lists(
    st.builds(array, st.sampled_from("IQ"), st.lists(st.integers(0, 9) | st.integers(0, 2**32 - 1), max_size=6)),
    max_size=5,
).map(tuple)


@given(st.sampled_from(MapKind), numbers, arrays)
def test_whatever_a_taken_reader_packs_no_sample_beyond_the_map_is_ever_named(
    kind: MapKind, some: tuple[int, ...], rows: "tuple[array[int], ...]"
) -> None:
    try:
        samples = unpack_map(PackedMap(kind, some, rows), most=100)
    except ValueError:
        return
    assert 0 < len(samples) <= 100
    named: Sequence[int | None] = [samples.sample(file, offset) for file in range(60) for offset in (0, 7)]
    assert all(one is None or 0 <= one < len(samples) for one in named)


@pytest.mark.parametrize("most", [0, 2])
def test_a_map_of_more_samples_than_there_is_room_for_is_refused(most: int) -> None:
    with pytest.raises(ValueError, match=f"has 3 samples, and {most} are allowed"):
        unpack_map(pack_map(FileMap(range(3))), most)
