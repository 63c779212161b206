"""Formats that releases exchange: this release and d853cc78 read each other's, and this one reads a later one's."""

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from stoker_sidecar.volumes.mount_table import MountTable
from tests.golden import samples

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden"
PREVIOUS = "d853cc78"
SOURCES = ("orders", "tuning", "crds", "kube", "operator", "sidecar")
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())
# Today's modules of the samples' imports, and those of the previous release.
MODULES_BEFORE = {
    "from stoker_api.node_caches.node_dataset_status import": "from stoker_api.nodecache import",
    "from stoker_api.node_caches.nodecache_status import": "from stoker_api.nodecache import",
    "from stoker_api.datasets.": "from stoker_api.",
    "from stoker_api.node_caches.": "from stoker_api.",
    "from stoker_operator.core.views.node_cache_reader": "from stoker_operator.core.node_cache_reader",
    "from stoker_sidecar.agent.kube import": "from stoker_sidecar.agent import",
    "from stoker_sidecar.agent.planning.plan import": "from stoker_sidecar.agent.plan import",
    "from stoker_sidecar.agent.pods import": "from stoker_sidecar.agent import",
}
# From a later release: the status of a second Dataset has a phase that this one does not know.
LATER = EXPECTED | {"plan": [3, ["imagenet"], {samples.UID: "Warm", "u2": "Pending"}]}


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Extract the previous release's code from the repository."""
    found = subprocess.run(["git", "-C", ROOT, "cat-file", "-e", PREVIOUS], check=False, capture_output=True)
    if found.returncode:
        pytest.fail(f"commit {PREVIOUS} is not in this clone: fetch the full history (git fetch --unshallow)")
    archive = subprocess.run(["git", "-C", ROOT, "archive", PREVIOUS, *SOURCES], check=True, capture_output=True)
    folder = tmp_path_factory.mktemp("previous")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    return folder


def samples_for_previous(previous: Path) -> Path:
    """Write the samples' program with imports of the previous release's modules. Return its path."""
    text = (GOLDEN / "samples.py").read_text()
    for today, before in MODULES_BEFORE.items():
        assert today in text, "it is not imported any more"
        text = text.replace(today, before)
    program = previous / "samples.py"
    program.write_text(text)
    return program


def run_previous(previous: Path, action: str, folder: Path) -> str:
    """Let the previous release write or read the samples. Its log is shown on failure."""
    code = os.pathsep.join(str(previous / source) for source in SOURCES)
    command = [sys.executable, str(samples_for_previous(previous)), action, str(folder)]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": code}, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "cannot be read" not in done.stderr
    return str(done.stdout)


def read(folder: Path, name: str) -> Any:
    """Return this release's reading of one sample, as JSON."""
    return json.loads(json.dumps(samples.READERS[name](folder)))


@pytest.mark.parametrize("name", EXPECTED)
def test_each_golden_file_of_the_previous_release_is_read(tmp_path: Path, name: str) -> None:
    shutil.copytree(GOLDEN / PREVIOUS, tmp_path / "files")
    assert read(tmp_path / "files", name) == EXPECTED[name]


@pytest.mark.parametrize("name", LATER)
def test_each_file_of_a_later_release_is_read(tmp_path: Path, name: str) -> None:
    shutil.copytree(GOLDEN / "future", tmp_path / "files")
    assert read(tmp_path / "files", name) == LATER[name]


def test_the_previous_release_reads_what_this_one_writes(tmp_path: Path, previous: Path) -> None:
    samples.write(tmp_path)
    assert json.loads(run_previous(previous, "read", tmp_path)) == EXPECTED


def test_the_golden_files_are_what_the_previous_release_writes(tmp_path: Path, previous: Path) -> None:
    run_previous(previous, "write", tmp_path)
    written = {path.name: path.read_text() for path in tmp_path.glob("*.json*")}
    assert written == {path.name: path.read_text() for path in (GOLDEN / PREVIOUS).glob("*.json*")}


def test_the_previous_release_still_reads_files_after_this_one_has_changed_them(tmp_path: Path, previous: Path) -> None:
    run_previous(previous, "write", tmp_path)
    record, *_ = MountTable(tmp_path / "mounts.json").all()
    MountTable(tmp_path / "mounts.json").put(record)
    assert json.loads(run_previous(previous, "read", tmp_path)) == EXPECTED
