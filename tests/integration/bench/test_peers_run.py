"""Nodes with one line each share cold data: the benchmark runs, and the bucket sends one copy."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bench.report import Report, from_json
from bench.systems import STOKER
from bench.workloads.peers import EACH, SENT, SENT_READING

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("tc") is None, reason="iproute2 is not installed"),
]
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    result = tmp_path_factory.mktemp("bench") / "result.json"
    # Paths of unix sockets have at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="skt") as folder:
        options = ["--quick", "--json", str(result), "--cache-dir", folder]
        subprocess.run([sys.executable, "-m", "bench", "run", "peers", *options], cwd=ROOT, check=True)
    return from_json(result.read_text())


def sent(report: Report, system: str, unit: str = SENT) -> float:
    (row,) = (row for row in report.rows if (row.unit, row.system) == (unit, system))
    return row.median


def test_peers_have_the_bucket_send_one_copy(report: Report) -> None:
    assert sent(report, STOKER) < 1.3  # 1.05 is the bar, on a less busy machine


def test_without_peers_the_bucket_sends_one_to_each(report: Report) -> None:
    assert sent(report, EACH) == pytest.approx(2.0, abs=0.05)


def test_pods_that_read_what_is_cold_on_all_nodes_have_the_bucket_send_less_than_one_copy_each(report: Report) -> None:
    assert sent(report, STOKER, SENT_READING) < 0.8 * sent(report, EACH, SENT_READING)


@pytest.mark.usefixtures("report")
def test_a_run_leaves_no_network() -> None:
    links = subprocess.run(["ip", "-o", "link"], check=True, capture_output=True, text=True).stdout
    spaces = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
    assert ("skb" in links, "skb" in spaces) == (False, False)
