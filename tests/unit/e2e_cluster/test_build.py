"""Programs are rebuilt only if their inputs changed."""

import shutil
from pathlib import Path

import pytest

from e2e.cluster.build import CLUSTER_PROGRAMS, TOOLS, Programs, recipe_hash
from e2e.cluster.errors import UsageError


def test_a_changed_module_changes_its_own_folder_only(tmp_path: Path) -> None:
    tools = shutil.copytree(TOOLS, tmp_path / "tools")
    with (tools / "companions/go.mod").open("a") as file:
        file.write("// changed\n")
    assert recipe_hash("companions", tools) != recipe_hash("companions")
    assert recipe_hash("kubernetes", tools) == recipe_hash("kubernetes")


def test_a_program_that_is_there_is_not_built(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    target = programs.folders["companions"] / "helm"
    target.parent.mkdir()
    target.touch()
    assert programs.path("helm") == target


def test_an_unknown_program_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no 'minikube'; it builds .*helm"):
        Programs().path("minikube")


def test_what_only_a_test_or_a_benchmark_needs_is_not_built_with_the_cluster() -> None:
    assert not {"csi-sanity", "kueue", "kwok"} & set(CLUSTER_PROGRAMS)
