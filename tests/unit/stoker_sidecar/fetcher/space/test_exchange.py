"""Files of a version that does not fit are swapped for other files."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.space import partial_eviction as module
from stoker_sidecar.fetcher.space.partial_eviction import Swap, SwapCandidate, exchange
from tests.support.cases import cases


def _exchange(wanted: list[tuple[int, int]], kept: list[tuple[int, int]], spare: int = 0) -> Swap:
    """Swap files given as (size, rank). Inodes of kept files start at 100."""
    here = [SwapCandidate(100 + number, *each) for number, each in enumerate(kept)]
    sizes: Counter[int] = Counter()
    for file in here:
        sizes[file.rank] += file.size
    coming = [SwapCandidate(1 + number, *each) for number, each in enumerate(wanted)]
    return exchange(coming, sorted(here, key=lambda file: file.rank), sizes, spare)


@cases(
    "wanted, kept, spare, coming, leaving",
    ([(10, 3)], [(6, 1), (6, 1), (6, 1)], 0, [1], [100, 101]),
    ([(10, 3)], [(6, 2), (6, 1)], 0, [1], [101, 100]),
    ([(10, 3)], [(6, 1)], 4, [1], [100]),
    ([(10, 3)], [(6, 1)], 3, [], []),
    ([(10, 2)], [(20, 2)], 0, [], []),
    ([(10, 1)], [(20, 2)], 0, [], []),
    ([(50, 3), (10, 3)], [(20, 1)], 0, [2], [100]),
    ([(10, 3), (10, 3)], [(20, 1)], 0, [1, 2], [100]),
    ([(10, 3)], [(6, 1), (6, 1)], -2, [1], [100, 101]),
    ([(10, 3)], [], 10, [1], []),
    ([], [(20, 0)], 0, [], []),
)
def test_files_make_way_for_those_of_a_higher_rank_that_then_fit(
    wanted: list[tuple[int, int]], kept: list[tuple[int, int]], spare: int, coming: list[int], leaving: list[int]
) -> None:
    found = _exchange(wanted, kept, spare)
    assert (found.coming, [file.ino for file in found.leaving]) == (coming, leaving)


_FILES = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 4)), max_size=20)


@given(_FILES, _FILES, st.integers(-50, 50))
def test_whatever_is_asked_for_what_comes_fits_and_nobody_makes_way_for_less(
    wanted: list[tuple[int, int]], kept: list[tuple[int, int]], spare: int
) -> None:
    found = _exchange(sorted(wanted, key=lambda each: -each[1]), kept, spare)
    by_rank = sorted(wanted, key=lambda each: -each[1])
    coming = [by_rank[ino - 1] for ino in found.coming]
    assert sum(size for size, _ in coming) <= max(0, spare + sum(file.size for file in found.leaving))
    assert len({file.ino for file in found.leaving}) == len(found.leaving)
    if found.leaving:
        assert min(file.rank for file in found.leaving) < max(rank for _, rank in coming)
        assert max(file.rank for file in found.leaving) < max(rank for _, rank in coming)


def test_a_file_for_which_too_many_would_have_to_leave_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LEAVING", 3)
    assert _exchange([(10, 3)], [(2, 1)] * 9) == Swap()
