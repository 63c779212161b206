"""Two builds of one commit have the same bytes, whatever the user, place and time of the build are."""

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from tests.integration.release import cheap_parts

pytestmark = pytest.mark.timeout(900)  # each build fetches packages


def built(folder: Path, umask: int, **environment: str) -> dict[str, str]:
    """Build the parts without an image. Return the SHA-256 of each file."""
    command = [sys.executable, "-m", cheap_parts.__name__, str(folder)]
    subprocess.run(command, cwd=cheap_parts.ROOT, env={**os.environ, **environment}, umask=umask, check=True)
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in (folder / "out").iterdir()}


def test_wheels_chart_plugin_and_bill_are_the_same_in_each_build(tmp_path: Path) -> None:
    first = built(tmp_path / "a", 0o022, PYTHONHASHSEED="1", TZ="UTC", LC_ALL="C.UTF-8")
    second = built(tmp_path / "longer" / "path", 0o077, PYTHONHASHSEED="2", TZ="Asia/Tokyo", LC_ALL="C")
    assert len(first) == 6
    assert first == second
