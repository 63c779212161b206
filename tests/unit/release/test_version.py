"""One version, in pyproject.toml; the other files repeat it."""

import shutil
from pathlib import Path

import pytest

from tools.release.errors import ReleaseError
from tools.release.version import CHANGELOG, PLACES, current, write

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in {CHANGELOG, *(file for file, _ in PLACES)}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def title(tree: Path, version: str) -> None:
    changelog = tree / CHANGELOG
    changelog.write_text(changelog.read_text().replace(f"[{current(ROOT)}]", f"[{version}]", 1))


def test_a_new_version_is_written_to_every_place(tree: Path) -> None:
    write(tree, "12.0.3")
    title(tree, "12.0.3")
    assert current(tree) == "12.0.3"


def test_a_version_without_its_section_in_the_changelog_is_refused(tree: Path) -> None:
    write(tree, "12.0.3")
    with pytest.raises(ReleaseError, match=r"has version 12\.0\.3, but CHANGELOG\.md has 0\."):
        current(tree)


@pytest.mark.parametrize("file", sorted({file for file, _ in PLACES} - {"pyproject.toml"}))
def test_a_file_with_another_version_is_named(tree: Path, file: str) -> None:
    path = tree / file
    path.write_text(path.read_text().replace(current(ROOT), "7.7.7"))
    with pytest.raises(ReleaseError, match=rf"{file} has 7\.7\.7.*tools\.release version"):
        current(tree)


@pytest.mark.parametrize("version", ["", "1.2", "1.2.3rc1", "v1.2.3", "01.2.3", "1.2.3\n"])
def test_a_version_that_helm_or_pip_would_change_is_refused(tree: Path, version: str) -> None:
    with pytest.raises(ReleaseError, match="three numbers"):
        write(tree, version)
