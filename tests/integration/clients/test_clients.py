"""Real programs read the same from a mount as from the plain folder that was uploaded.

Cold through FUSE, and native.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.integration.clients.conftest import Cluster, Show
from tests.support.client_data import FIO_VERIFY

pytestmark = pytest.mark.root
_PROGRAMS = Path(__file__).parent / "programs"
_DEBIANS_PYTHON = "/usr/bin/python3"  # PyPI's PyTorch for Linux is CUDA's, thirty times as large
# No hub is reachable here, and none is needed.
_OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
_SECONDS = 60.0

_IN_PYTHON = {
    "imagefolder": ("images", _DEBIANS_PYTHON),
    "arrow": ("arrow", sys.executable),
    "parquet_datasets": ("parquet", sys.executable),
    "parquet_arrow": ("parquet", sys.executable),
    "shards": ("shards", sys.executable),
    "arrays": ("arrays", sys.executable),
}
_IN_SHELL = {
    "find": "find . -printf '%y %P %s\\n' | sed 's/^d \\(.*\\) [0-9]*$/d \\1/' | LC_ALL=C sort",
    "find empty ones": "find . -empty -o -maxdepth 2 -name '*rf' -type d | LC_ALL=C sort",
    "tar": "tar --sort=name --mtime=@0 --owner=0 --group=0 --mode=0444 -c . | sha256sum",
    "sha256sum": "find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum",
    "grep": "LC_ALL=C grep -rc a . | LC_ALL=C sort",
}
_FIO = {
    "read": ("--ioengine=psync", "--rw=read"),
    "at random": ("--ioengine=psync", "--rw=randread"),
    "mapped": ("--ioengine=mmap", "--rw=randread"),
    "direct and asynchronous": ("--ioengine=libaio", "--rw=randread", "--direct=1", "--iodepth=8"),
}


def _run(words: Sequence[str], folder: Path, home: Path) -> str:
    """Run a program in the folder. Return its output."""
    environment = os.environ | _OFFLINE | {"HOME": str(home), "HF_HOME": str(home)}
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@cache
def _truth(words: tuple[str, ...], folder: Path) -> str:
    """Return the program's output for the plain folder."""
    return _run(words, folder, folder.parent)


@pytest.mark.parametrize("program", _IN_PYTHON)
def test_a_library_reads_what_was_uploaded(program: str, cluster: Cluster, show: Show, tmp_path: Path) -> None:
    form, python = _IN_PYTHON[program]
    words = (python, str(_PROGRAMS / f"{program}.py"), ".")
    assert _run(words, show(form), tmp_path) == _truth(words, cluster.truth / form)


def test_tools_read_what_was_uploaded(cluster: Cluster, show: Show, tmp_path: Path) -> None:
    mounted = show("tree")
    commands = {tool: ("bash", "-o", "pipefail", "-c", script) for tool, script in _IN_SHELL.items()}
    seen = {tool: _run(words, mounted, tmp_path) for tool, words in commands.items()}
    assert seen == {tool: _truth(words, cluster.truth / "tree") for tool, words in commands.items()}


def test_rsync_by_checksum_finds_the_one_file_that_differs(cluster: Cluster, show: Show, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(cluster.truth / "tree"), str(copy)], check=True)
    damaged = next(copy.rglob("39.bin"))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    words = ["rsync", "--recursive", "--checksum", "--out-format=%n", f"{show('tree')}/", f"{copy}/"]
    assert _run(words, tmp_path, tmp_path).strip().endswith("/39.bin")
    _run(["diff", "-r", str(cluster.truth / "tree"), str(copy)], tmp_path, tmp_path)


@pytest.mark.parametrize("how", _FIO)
def test_fio_verifies_every_block(how: str, show: Show, tmp_path: Path) -> None:
    image = f"--filename={show('fio') / 'image'}"
    _run(["fio", *FIO_VERIFY, *_FIO[how], "--readonly", image], tmp_path, tmp_path)
