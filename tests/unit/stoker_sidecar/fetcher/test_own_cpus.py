"""The fetcher runs on the requested CPUs, or near its cache disks. On failure it reports that and keeps running."""

import errno
from collections.abc import Iterable
from pathlib import Path

import pytest

from stoker_sidecar.fetcher.confinement import CpuMachine, checked_cpus, take_cpus
from stoker_sidecar.wire.config.folders import FolderSpec
from tests.support.cases import cases

USABLE, NEAR = frozenset(range(8)), frozenset(range(4, 8))
FOLDERS = (FolderSpec("/cache"),)


class Recorded:
    """A machine that records the requests."""

    def __init__(self, error: OSError | None = None) -> None:
        self.taken: list[frozenset[int]] = []
        self._error = error
        self.machine = CpuMachine(lambda: USABLE, lambda folders: [NEAR for _ in folders], self._run_on)

    def _run_on(self, cpus: frozenset[int]) -> None:
        self.taken.append(cpus)
        if self._error:
            raise self._error


@cases("asked, taken", ("Auto", [NEAR]), ("All", []), ("0-1", [frozenset({0, 1})]), ("0-7", []))
def test_it_runs_where_it_is_meant_to(asked: str, taken: list[frozenset[int]]) -> None:
    recorded = Recorded()
    take_cpus(asked, FOLDERS, recorded.machine)
    assert recorded.taken == taken


def test_a_cache_in_memory_is_near_nothing() -> None:
    recorded = Recorded()
    take_cpus("Auto", (FolderSpec("/cache", memory=True),), recorded.machine)
    assert recorded.taken == []


@pytest.mark.expected_logs("CPUs 90 cannot be used here")
def test_cpus_that_the_machine_lacks_are_told_and_it_runs_all_the_same() -> None:
    recorded = Recorded()
    assert "CPUs 90 cannot be used here" in take_cpus("90", FOLDERS, recorded.machine).sentence
    assert recorded.taken == []


@pytest.mark.expected_logs("the kernel refused other CPUs")
def test_a_kernel_that_refuses_is_told_and_it_runs_all_the_same() -> None:
    recorded = Recorded(OSError(errno.EINVAL, "Invalid argument"))
    assert "the kernel refused other CPUs: Invalid argument" in take_cpus("0", FOLDERS, recorded.machine).sentence


@pytest.mark.parametrize(("text", "word"), [("", "Auto"), ("auto", "Auto"), ("ALL", "All"), ("0-3", "0-3")])
def test_words_are_read_in_any_case(text: str, word: str) -> None:
    assert checked_cpus(text) == word


def test_what_is_no_list_is_refused() -> None:
    with pytest.raises(ValueError, match="such as 0-3,8"):
        checked_cpus("first")


def test_near_is_asked_for_folders_on_disks_alone() -> None:
    asked: list[Path] = []

    def near(folders: Iterable[Path]) -> list[frozenset[int]]:
        asked.extend(folders)
        return []

    folders = (FolderSpec("/disk"), FolderSpec("/memory", memory=True))
    take_cpus("Auto", folders, CpuMachine(lambda: USABLE, near, lambda _: None))
    assert asked == [Path("/disk")]
