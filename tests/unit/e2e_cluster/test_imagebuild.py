"""An image is rebuilt only if something in it changed."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.cluster.imagebuild import Request, context_files, inputs_hash, source_lines


@pytest.fixture
def request_of_a_clone(tmp_path: Path) -> Request:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("1")
    (tmp_path / "src/junk.pyc").write_text("x")
    (tmp_path / "other.txt").write_text("o")
    (tmp_path / ".gitignore").write_text("*.pyc\n")
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY src /src\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return Request(tmp_path / "Dockerfile", "t:dev", tmp_path / "out.tar", tmp_path)


def current_hash(request: Request) -> str:
    return inputs_hash(request, context_files(request.context, ["src"]))


def test_only_copied_files_that_git_does_not_ignore_count(request_of_a_clone: Request) -> None:
    context = request_of_a_clone.context
    assert context_files(context, ["src/"]) == [context / "src/a.py"]


def test_a_pattern_takes_what_it_matches(request_of_a_clone: Request) -> None:
    context = request_of_a_clone.context
    assert context_files(context, ["*.txt", "src/*.py"]) == [context / "other.txt", context / "src/a.py"]


def test_copying_the_whole_context_takes_everything_known(request_of_a_clone: Request) -> None:
    names = {path.name for path in context_files(request_of_a_clone.context, ["."])}
    assert names == {".gitignore", "Dockerfile", "a.py", "other.txt"}


def test_a_changed_file_changes_the_hash(request_of_a_clone: Request) -> None:
    before = current_hash(request_of_a_clone)
    (request_of_a_clone.context / "src/a.py").write_text("2")
    assert current_hash(request_of_a_clone) != before


def test_a_file_that_is_not_copied_does_not_change_the_hash(request_of_a_clone: Request) -> None:
    before = current_hash(request_of_a_clone)
    (request_of_a_clone.context / "other.txt").write_text("changed")
    assert current_hash(request_of_a_clone) == before


def test_another_build_argument_changes_the_hash(request_of_a_clone: Request) -> None:
    other = replace(request_of_a_clone, build_args={"A": "1"})
    assert current_hash(other) != current_hash(request_of_a_clone)


def test_a_base_uses_the_machines_mirrors_for_its_own_suite() -> None:
    known = [
        "http://m/debian-security/ bookworm-security",
        "http://m/debian/ bookworm-updates",
        "http://m/debian/ bookworm",
    ]
    assert source_lines("trixie", known) == [
        "deb http://m/debian/ trixie main",
        "deb http://m/debian/ trixie-updates main",
        "deb http://m/debian-security/ trixie-security main",
    ]


def test_without_a_debian_mirror_there_are_no_lines() -> None:
    assert source_lines("bookworm", ["http://m/ubuntu/ noble"]) == []
