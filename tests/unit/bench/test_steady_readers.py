"""Readers that go on and on say how many files they have read, and when one of them is no more."""

from pathlib import Path

import pytest

from bench.errors import BenchError
from bench.steady_readers import SteadyReaders
from tests.support.waiting import wait_until


def test_files_are_counted_again_and_again(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(b"1")
    with SteadyReaders(tmp_path, ["a", "b", "c"], readers=2) as readers:
        wait_until(lambda: readers.files() > 100)


def test_a_reader_that_finds_no_file_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with SteadyReaders(tmp_path, ["absent"], readers=1) as readers, pytest.raises(BenchError, match="ended"):
        wait_until(lambda: readers.files() > 0)
    assert "absent" in capfd.readouterr().err
