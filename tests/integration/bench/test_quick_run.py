"""The benchmarks run from start to end on a tenth of the data, and the bars that are no matter of speed hold there."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.report import Report, from_json

# Seconds are not measured here, so a loaded machine may take its time.
pytestmark = [pytest.mark.root, pytest.mark.timeout(400)]
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def cache_disk() -> Iterator[Path]:
    """A short name: those of unix sockets end at 107 characters."""
    with tempfile.TemporaryDirectory(prefix="skt") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, cache_disk: Path) -> Report:
    result = tmp_path_factory.mktemp("bench") / "result.json"
    options = ["--quick", "--json", str(result), "--cache-dir", str(cache_disk)]
    command = [sys.executable, "-m", "bench", "run", "B6", "memory", *options]
    subprocess.run(command, cwd=ROOT, check=True)
    return from_json(result.read_text())


def figure(report: Report, unit: str, subject: str = "") -> float:
    (row,) = (row for row in report.rows if row.unit == unit and subject in ("", row.subject))
    return row.median


def test_a_killed_fetcher_fetches_no_finished_file_again(report: Report) -> None:
    assert figure(report, "finished files fetched again") == 0


def test_a_warm_up_asks_for_each_object_once(report: Report) -> None:
    (note,) = (row.note for row in report.rows if row.unit == "s" and row.subject == "Stoker")
    assert note == "2,000 GETs, 2 LISTs"


def test_lookups_list_nothing(report: Report) -> None:
    assert figure(report, "LISTs") == 0


def test_reads_of_missing_files_cost_one_get_each(report: Report) -> None:
    assert figure(report, "GETs") == 2_000


def test_a_whole_sidecar_stays_within_its_memory(report: Report) -> None:
    assert figure(report, "MB PSS", "all processes") < 300


@pytest.mark.usefixtures("report")
def test_a_run_leaves_neither_files_nor_mounts(cache_disk: Path) -> None:
    assert (list(cache_disk.iterdir()), str(cache_disk) in Path("/proc/self/mounts").read_text()) == ([], False)
