"""A release has the files of a commit, and no others."""

import subprocess
from pathlib import Path

import pytest

from tools.release.errors import ReleaseError
from tools.release.sources import commit_of, copy_sources


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "code").mkdir(parents=True)
    (root / "code" / "main.py").write_text("pass")
    (root / ".gitignore").write_text("*.pyc\n")
    git(root, "init", "--quiet")
    git(root, "add", ".")
    dated = ("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "a", "--date=@0 +0000")
    git(root, *dated)
    return root


def git(root: Path, *words: str) -> None:
    environment = {"PATH": "/usr/bin:/bin", "GIT_COMMITTER_DATE": "@86400 +0000", "HOME": "/nonexistent"}
    subprocess.run(["git", "-C", root, *words], check=True, env=environment)


def test_a_commit_has_its_name_and_time(tree: Path) -> None:
    commit = commit_of(tree, allow_dirty=False)
    assert len(commit.name) == 40
    assert commit.created == "1970-01-02T00:00:00Z"


def test_a_dirty_tree_is_refused_with_a_file(tree: Path) -> None:
    (tree / "new.py").touch()
    with pytest.raises(ReleaseError, match=r"1 files are not committed, such as new\.py.*--allow-dirty"):
        commit_of(tree, allow_dirty=False)
    assert commit_of(tree, allow_dirty=True).name.endswith("-dirty")


def test_ignored_files_stay_behind_and_modes_are_gits(tree: Path, tmp_path: Path) -> None:
    (tree / "code" / "main.pyc").touch()
    (tree / "code" / "main.py").chmod(0o640)
    (tree / ".gitignore").chmod(0o700)
    copy_sources(tree, tmp_path / "copy")
    modes = {str(path.relative_to(tmp_path)): path.stat().st_mode & 0o777 for path in (tmp_path / "copy").rglob("*")}
    assert modes == {"copy/.gitignore": 0o755, "copy/code": 0o755, "copy/code/main.py": 0o644}
