"""The folders at the top are source roots.

A package there would shadow the standard library (operator) or split in two.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("root", ["operator", "sidecar", "crds", "cli", "kube", "tuning", "client", "orders"])
def test_a_source_root_is_never_a_package(root: str) -> None:
    assert not (ROOT / root / "__init__.py").exists()


def test_the_standard_library_survives_the_repository_on_the_path() -> None:
    code = "import collections, operator; assert operator.add(1, 1) == 2"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
