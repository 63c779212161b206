"""The benchmarks run from start to end on little data, and the targets that do not measure speed hold there."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.report import Report, from_json

# Seconds are not measured here, so a busy machine may be slow.
pytestmark = [pytest.mark.root, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def cache_disk() -> Iterator[Path]:
    """Make a folder with a short name: paths of unix sockets have at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="skt") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, cache_disk: Path) -> Report:
    result = tmp_path_factory.mktemp("bench") / "result.json"
    options = ["--quick", "--json", str(result), "--cache-dir", str(cache_disk)]
    command = [sys.executable, "-m", "bench", "run", "B6", "B9", "memory", *options]
    subprocess.run(command, cwd=ROOT, check=True)
    return from_json(result.read_text())


def figures(report: Report, unit: str, system: str = "") -> list[float]:
    return [row.median for row in report.rows if row.unit == unit and system in ("", row.system)]


def test_a_warm_up_asks_for_each_object_once(report: Report) -> None:
    (row,) = (row for row in report.rows if row.workload == "B6" and row.unit == "s" and row.system == "Stoker")
    assert [cost.gets for cost in row.costs] == [500]


def test_a_known_order_fetches_each_object_once(report: Report) -> None:
    assert figures(report, "over-fetch, % of the epoch", "Stoker, order known") == [0]


def test_lookups_list_nothing(report: Report) -> None:
    assert figures(report, "LISTs") == [0]


def test_a_whole_sidecar_stays_within_its_memory(report: Report) -> None:
    assert figures(report, "MB PSS", "all processes")[0] < 300


@pytest.mark.usefixtures("report")
def test_a_run_leaves_neither_files_nor_mounts(cache_disk: Path) -> None:
    assert (list(cache_disk.iterdir()), str(cache_disk) in Path("/proc/self/mounts").read_text()) == ([], False)
