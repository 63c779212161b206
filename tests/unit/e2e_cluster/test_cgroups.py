"""Cgroups are created and removed in every hierarchy of cgroup v1 and v2."""

from pathlib import Path

import pytest

from e2e.cluster import cgroups
from e2e.cluster.errors import NotReadyError


@pytest.fixture
def v1(tmp_path: Path) -> Path:
    for controller in ("memory", "cpuset"):
        (tmp_path / controller).mkdir()
    (tmp_path / "cpuset/cpuset.cpus").write_text("0-1")
    (tmp_path / "cpu").symlink_to("cpuset")
    return tmp_path


def test_a_v1_machine_has_one_hierarchy_for_each_controller(v1: Path) -> None:
    assert cgroups.hierarchies(v1) == [v1 / "cpuset", v1 / "memory"]


def test_a_v2_machine_has_one_hierarchy(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory")
    assert cgroups.hierarchies(tmp_path) == [tmp_path]


def test_removing_takes_the_groups_below_too(v1: Path) -> None:
    (v1 / "memory/stoker-e2e.demo.node-1/kubepods/pod1").mkdir(parents=True)
    cgroups.remove("stoker-e2e.demo.", v1)
    assert list((v1 / "memory").iterdir()) == []


def test_removing_one_clusters_groups_leaves_those_of_another(v1: Path) -> None:
    names = [cgroups.group_name(cluster, "node-1") for cluster in ("demo", "demo-2")]
    for name in names:
        (v1 / "memory" / name).mkdir()
    cgroups.remove(cgroups.group_name("demo", "node-"), v1)
    assert [group.name for group in (v1 / "memory").iterdir()] == [names[1]]


def test_a_group_that_stays_busy_is_named(v1: Path) -> None:
    busy = v1 / "memory/stoker-e2e.demo.node-1"
    busy.mkdir()
    (busy / "a-file-that-rmdir-does-not-take").touch()
    with pytest.raises(NotReadyError, match="still hold processes"):
        cgroups.remove("stoker-e2e.demo.", v1, seconds=0)
