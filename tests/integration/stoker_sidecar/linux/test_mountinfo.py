"""The kernel's mountinfo, as seen by a process with an odd mount."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.mount_namespace import own_mounts_with

pytestmark = pytest.mark.root
_PROGRAM = "import os, sys\nfrom stoker_sidecar.linux.mounts import mountinfo\n"
_ODD = [b"caf\xe9", b"two words", b"one\nline", b"one\rline", b"\xc2\x85", rb"back\134slash"]


def _runs(folder: Path, program: str) -> str:
    command = [*own_mounts_with(folder), sys.executable, "-c", _PROGRAM + program, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", _ODD)
def test_a_mount_is_found_at_any_path(tmp_path: Path, name: bytes) -> None:
    program = "print([row.source for row in mountinfo.layers(mountinfo.read(), sys.argv[1])])"
    assert _runs(tmp_path / os.fsdecode(name), program) == "['stoker-test']\n"


def test_clearing_dead_mounts_is_not_stopped_by_a_path_that_is_not_utf_8(tmp_path: Path) -> None:
    program = (
        "from stoker_sidecar.linux.mounts.fuse_device import clear_dead_mounts\nprint(clear_dead_mounts(sys.argv[1]))"
    )
    assert _runs(tmp_path / os.fsdecode(b"caf\xe9"), program) == "[]\n"
