"""The program that tells what a cold small file costs in CPU, by process."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.root, pytest.mark.timeout(200)]
ROOT = Path(__file__).resolve().parents[3]


def test_a_cold_read_is_told_by_process_beside_a_copy_by_s5cmd() -> None:
    case = "read, order known"
    with tempfile.TemporaryDirectory(prefix="skt") as disk:  # a short name: paths of unix sockets end at 107 characters
        options = ["--files", "60", "--bytes", "4096", "--rounds", "1", "--case", case, "--cache-dir", disk]
        command = [sys.executable, "-m", "bench.cold_files", *options]
        said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    medians = [line for line in said.splitlines() if line.endswith("median")]
    assert [line.split("P0")[1].split("  ")[0].strip() for line in medians] == ["s5cmd", case]
    assert re.search(r"\bworker \d", medians[1])
