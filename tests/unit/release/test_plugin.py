"""krew's manifest names the archives of each platform by their sums."""

import pytest
import yaml

from tools.release.errors import ReleaseError
from tools.release.plugin import PLATFORMS, manifest, merge


def test_the_manifest_has_an_entry_with_sum_and_address_for_each_platform() -> None:
    sums = {platform: f"{number:064x}" for number, platform in enumerate(PLATFORMS)}
    document = yaml.safe_load(manifest("1.2.3", "https://files.example/v1.2.3", sums))
    assert (document["kind"], document["metadata"]["name"], document["spec"]["version"]) == (
        "Plugin",
        "stoker",
        "v1.2.3",
    )
    assert len(document["spec"]["shortDescription"]) <= 50  # krew's limit
    (arm,) = (entry for entry in document["spec"]["platforms"] if entry["sha256"] == sums["linux/arm64"])
    assert arm == {
        "selector": {"matchLabels": {"os": "linux", "arch": "arm64"}},
        "uri": "https://files.example/v1.2.3/kubectl-stoker-1.2.3-linux-arm64.tar.gz",
        "sha256": sums["linux/arm64"],
        "bin": "kubectl-stoker",
    }


def test_compiled_modules_of_two_pythons_lie_side_by_side() -> None:
    libraries: dict[str, bytes] = {}
    for python in ("311", "312"):
        merge(
            libraries,
            {f"re2/_re2.cpython-{python}.so": b"", "re2/__init__.py": b"", "re2.dist-info/RECORD": b""},
            python,
        )
    assert sorted(libraries) == ["re2/__init__.py", "re2/_re2.cpython-311.so", "re2/_re2.cpython-312.so"]


def test_a_file_that_differs_between_pythons_is_refused() -> None:
    libraries = {"typing.py": b"old"}
    with pytest.raises(ReleaseError, match=r"typing\.py differs for 3\.12"):
        merge(libraries, {"typing.py": b"new"}, "3.12")
