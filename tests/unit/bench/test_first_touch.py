"""The program that shows what memory costs which the host of a virtual machine took back."""

from pathlib import Path

import pytest

from bench.first_touch import main


def test_each_round_shows_the_three_states_of_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cache-dir", str(tmp_path), "--mib", "16", "--pause", "0", "--rounds", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "in memory that was freed just now",
        "in memory that has been free for 0 s",
        "the same, but touched just before",
    ]
    assert list(tmp_path.iterdir()) == []
