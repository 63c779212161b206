"""The last files of a version are fetched unasked if few are missing and no file has arrived for a while."""

from stoker_sidecar.fetcher.datasets.completion_pass import AGAIN_SECONDS, QUIET_SECONDS, FileSet, IdleTimer, is_little
from tests.support.cases import cases

WHOLE = FileSet(10_000, 1_000_000)


@cases(
    "missing, little",
    (FileSet(1, 1), True),
    (FileSet(100, 10_000), True),
    (FileSet(101, 1), False),
    (FileSet(1, 10_001), False),
    (FileSet(10_000, 0), False),
)
def test_a_hundredth_of_the_files_and_of_the_bytes_is_little(missing: FileSet, little: bool) -> None:
    assert is_little(missing, WHOLE) is little


def test_of_few_files_a_handful_is_little_where_they_are_small() -> None:
    model = FileSet(18, 10_000_000)
    assert is_little(FileSet(16, 100_000), model)
    assert not is_little(FileSet(17, 100_000), model)
    assert not is_little(FileSet(1, 100_001), model)


def test_a_state_is_over_when_it_has_stayed_long_enough_and_again_minutes_later() -> None:
    watch = IdleTimer()
    assert not watch.is_over("a", 5.0)
    assert not watch.is_over("a", 4.9 + QUIET_SECONDS)
    assert watch.is_over("a", 5.0 + QUIET_SECONDS)
    assert not watch.is_over("a", 4.9 + QUIET_SECONDS + AGAIN_SECONDS)
    assert watch.is_over("a", 5.0 + QUIET_SECONDS + AGAIN_SECONDS)


def test_every_change_begins_the_wait_anew() -> None:
    watch = IdleTimer()
    watch.is_over("a", 0.0)
    assert not watch.is_over("b", QUIET_SECONDS)
    assert watch.is_over("b", 2 * QUIET_SECONDS)
    assert not watch.is_over("a", 2 * QUIET_SECONDS)
    assert watch.is_over("a", 3 * QUIET_SECONDS)
