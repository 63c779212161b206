"""The locked requirements have a hash for every file, and include the requirements of pyproject.toml.

`make lock` creates them.
"""

import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
GROUPS: dict[str, list[str]] = PROJECT["dependency-groups"]
RUNTIME = [*PROJECT["project"]["dependencies"], *EXTRAS["operator"], *EXTRAS["sidecar"], *EXTRAS["tracing"]]
ASKED_FOR = {
    "build": [*PROJECT["build-system"]["requires"], *GROUPS["build"]],
    "cli": [*PROJECT["project"]["dependencies"], *EXTRAS["dashboard"]],
    "clients": GROUPS["clients"],
    "dev": [*RUNTIME, *EXTRAS["dashboard"], *GROUPS["dev"], *GROUPS["demo"], *GROUPS["bench"], *GROUPS["docs"]],
    "image": [*RUNTIME, *EXTRAS["dashboard"]],
    "trainer": GROUPS["trainer"],
}
PINNED = re.compile(r"([A-Za-z0-9._-]+)(?:\[([a-z0-9, -]+)\])?==([A-Za-z0-9.!+]+)((?: --hash=sha256:[0-9a-f]{64})+)")


def requirements(path: Path) -> list[str]:
    """Return a lock's requirements, each on one line, without comments."""
    kept = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    return re.sub(r" \\\n +", " ", "\n".join(kept)).splitlines()


def versions(path: Path) -> dict[str, str]:
    """Return the version of each package in a lock."""
    found = filter(None, map(PINNED.fullmatch, requirements(path)))
    return {canonicalize_name(line[1]): line[3] for line in found}


def extras(path: Path) -> dict[str, set[str]]:
    """Return the extras of each package in a lock."""
    found = filter(None, map(PINNED.fullmatch, requirements(path)))
    return {
        canonicalize_name(line[1]): set(filter(None, (line[2] or "").replace(" ", "").split(","))) for line in found
    }


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_every_package_has_one_version_and_hashes_and_no_address(path: Path) -> None:
    assert not [line for line in requirements(path) if not PINNED.fullmatch(line)]


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_no_line_of_a_lock_names_a_server(path: Path) -> None:
    assert "://" not in path.read_text()


@pytest.mark.parametrize(("name", "asked_for"), ASKED_FOR.items())
def test_a_lock_satisfies_what_the_project_asks_for(name: str, asked_for: list[str]) -> None:
    locked = versions(ROOT / "requirements" / f"{name}.txt")
    wanted = map(Requirement, asked_for)
    stale = [str(each) for each in wanted if locked.get(canonicalize_name(each.name), "") not in each.specifier]
    assert not stale, "stale: run `make lock`"


def test_extras_that_packages_ask_for_are_named_in_the_lock() -> None:
    """pip 23 resolves `coverage[toml]` apart from `coverage`, finds its newest release, and refuses the whole lock."""
    locked = extras(ROOT / "requirements" / "dev.txt")
    asked = [Requirement(text) for name in locked for text in metadata.requires(name) or ()]
    wanted = [one for one in asked if one.extras and (one.marker is None or one.marker.evaluate({"extra": ""}))]
    assert wanted
    assert not [str(one) for one in wanted if not one.extras <= locked[canonicalize_name(one.name)]]


def test_a_package_has_the_same_version_in_every_lock() -> None:
    seen: dict[str, set[str]] = {}
    together = [path for path in LOCKS if path.stem != "trainer"]  # it has a separate environment
    for name, version in (pair for path in together for pair in versions(path).items()):
        seen.setdefault(name, set()).add(version)
    assert not {name: found for name, found in seen.items() if len(found) > 1}


def test_every_lock_is_made_by_the_script() -> None:
    made = re.findall(r"^lock (\w+)", (ROOT / "tools" / "lock.sh").read_text(), re.MULTILINE)
    assert sorted(made) == [path.stem for path in LOCKS] == sorted(ASKED_FOR)
