"""Trust in a cached file after a restart, from its stat result alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.ondisk.recovery.quarantine import Belief, FileStatus, believe

EXPECTED = FileStatus(100, 5, 0)
TIMES = st.integers(0, 2**40)


@pytest.mark.parametrize("in_doubt", [False, True])
@pytest.mark.parametrize("found", [FileStatus(99, 5, 1), FileStatus(0, 5, 1), FileStatus(100, 6, 1)])
def test_another_size_or_date_is_wrong_even_if_it_was_synced(found: FileStatus, in_doubt: bool) -> None:
    assert believe(found, EXPECTED, in_doubt=in_doubt, synced_ns=2) is Belief.WRONG


@given(TIMES, TIMES)
def test_without_doubt_size_and_date_suffice(ctime: int, synced: int) -> None:
    assert believe(FileStatus(100, 5, ctime), EXPECTED, in_doubt=False, synced_ns=synced) is Belief.RIGHT


@given(TIMES, TIMES)
def test_in_doubt_only_a_file_from_before_the_last_sync_is_right(ctime: int, synced: int) -> None:
    found = believe(FileStatus(100, 5, ctime), EXPECTED, in_doubt=True, synced_ns=synced)
    assert (found is Belief.RIGHT) is (ctime < synced)
    assert found is not Belief.WRONG
