"""The folders at the top are source roots.

A package there would shadow the standard library (operator) or split in two.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize(
    "root", ["operator", "sidecar", "crds", "cli", "kube", "tuning", "plugins", "client", "orders"]
)
def test_a_source_root_is_never_a_package(root: str) -> None:
    assert not (ROOT / root / "__init__.py").exists()


def test_the_standard_library_survives_the_repository_on_the_path() -> None:
    code = "import collections, operator; assert operator.add(1, 1) == 2"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize("package", _PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
def test_the_image_is_built_with_every_package_of_the_wheel(package: str) -> None:
    places = {package, package.split("/")[0]}
    copied = {line.split()[1] for line in (ROOT / "Dockerfile").read_text().splitlines() if line.startswith("COPY ")}
    allowed = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines()}
    assert places & copied
    assert places & allowed
