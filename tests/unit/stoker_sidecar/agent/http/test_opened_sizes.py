"""The size of opened files is a counter that never falls."""

from stoker_sidecar.agent.http.observation_metrics import OpenedSizes


def test_a_version_with_smaller_files_changes_only_later_opens() -> None:
    sizes = OpenedSizes()
    assert sizes.add("d", 10, 100) == 1000
    assert sizes.add("d", 12, 10) == 1020


def test_a_count_that_restarts_adds_all_of_it() -> None:
    sizes = OpenedSizes()
    sizes.add("d", 10, 100)
    assert sizes.add("d", 2, 100) == 1200
