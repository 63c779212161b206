"""Lists of CPUs, CPUs near a disk, and CPUs of processes."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.linux.cpu_sets import (
    MOST_CPU,
    choose_cpus,
    cpus_near,
    format_cpus,
    numa_node_of,
    parse_cpus,
    usable_cpus,
)

_SETS = st.frozensets(st.integers(0, 64), min_size=1)


@given(st.frozensets(st.integers(0, MOST_CPU), min_size=1, max_size=200))
def test_a_list_that_is_written_reads_as_it_was(cpus: frozenset[int]) -> None:
    assert parse_cpus(format_cpus(cpus)) == cpus


@pytest.mark.parametrize(("text", "cpus"), [("0-3,8", {0, 1, 2, 3, 8}), (" 1 , 3-4\n", {1, 3, 4}), ("2,1-2", {1, 2})])
def test_lists_are_read_as_the_kernel_writes_them(text: str, cpus: set[int]) -> None:
    assert parse_cpus(text) == cpus


@pytest.mark.parametrize("text", ["", "a", "3-1", "1,", "-1", "0x1", "1-2-3", "8192", "0-99999", "1," * 5000 + "1"])
def test_what_is_no_list_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="such as 0-3,8"):
        parse_cpus(text)


@given(text=st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ValueError):
        assert all(0 <= cpu <= MOST_CPU for cpu in parse_cpus(text))


@given(wanted=st.none() | _SETS, allowed=_SETS, near=st.lists(st.frozensets(st.integers(0, 64)), max_size=3))
def test_there_are_always_some_and_all_of_them_are_allowed(
    wanted: frozenset[int] | None, allowed: frozenset[int], near: list[frozenset[int]]
) -> None:
    choice = choose_cpus(wanted, allowed, near)
    assert choice.cpus
    assert choice.cpus <= allowed


@given(wanted=_SETS, allowed=_SETS)
def test_what_was_asked_for_and_is_allowed_is_what_is_taken_and_the_rest_is_told(
    wanted: frozenset[int], allowed: frozenset[int]
) -> None:
    choice = choose_cpus(wanted, allowed, [])
    assert choice.cpus == (wanted & allowed or allowed)
    assert bool(choice.trouble) == bool(wanted - allowed)


ALL = frozenset(range(8))
NODES = [frozenset(range(4)), frozenset(range(4, 8))]


@pytest.mark.parametrize(
    ("near", "cpus"),
    [
        ([], ALL),
        ([frozenset()], ALL),
        ([NODES[1]], NODES[1]),
        (NODES, ALL),
        ([NODES[0], frozenset()], ALL),  # one of the disks is near no CPU
        ([frozenset({90})], ALL),  # none of those may be used
        ([ALL, ALL], ALL),  # a machine of one node
    ],
)
def test_by_default_those_near_every_cache_disk_are_taken(near: list[frozenset[int]], cpus: frozenset[int]) -> None:
    assert choose_cpus(None, ALL, near).cpus == cpus


def test_cpus_that_are_not_there_are_told_in_a_sentence() -> None:
    assert choose_cpus(frozenset({1, 90}), ALL, []).sentence == (
        "CPUs 1, of those that were asked for; CPUs 90 cannot be used here"
    )
    assert "name some of these" in choose_cpus(frozenset({90}), ALL, []).sentence


def _machine(root: Path, numa_node: str = "1\n") -> Path:
    """Make /proc and /sys of a machine with an NVMe disk at a NUMA node. /cache is a partition of that disk."""
    disk = root / "sys/devices/pci0000:00/0000:00:04.0/nvme/nvme0/nvme0n1"
    (disk / "nvme0n1p1").mkdir(parents=True)
    (disk / "nvme0n1p1/partition").write_text("1\n")
    (root / "sys/devices/pci0000:00/0000:00:04.0/numa_node").write_text(numa_node)
    (root / "sys/dev/block").mkdir(parents=True)
    (root / "sys/dev/block/259:1").symlink_to(disk / "nvme0n1p1")
    for node, cpus in enumerate(("0-3", "4-7")):
        (root / f"sys/devices/system/node/node{node}").mkdir(parents=True)
        (root / f"sys/devices/system/node/node{node}/cpulist").write_text(f"{cpus}\n")
    (root / "proc/self").mkdir(parents=True)
    row = "30 1 259:1 / /cache rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw\n"
    row += "31 1 0:40 / /memory rw - tmpfs tmpfs rw\n"
    (root / "proc/self/mountinfo").write_text(row)
    return disk


def test_the_numa_node_of_a_partitions_disk_is_found(tmp_path: Path) -> None:
    _machine(tmp_path)
    assert cpus_near([Path("/cache/datasets")], tmp_path) == [NODES[1]]


@pytest.mark.parametrize("numa_node", ["-1\n", "", "x\n", "99\n"])
def test_a_machine_that_does_not_say_has_none_near(tmp_path: Path, numa_node: str) -> None:
    _machine(tmp_path, numa_node)
    assert cpus_near([Path("/cache")], tmp_path) == [frozenset()]


def test_a_folder_in_memory_is_near_none(tmp_path: Path) -> None:
    _machine(tmp_path)
    assert cpus_near([Path("/memory"), Path("/elsewhere")], tmp_path) == [frozenset(), frozenset()]


def test_a_disk_that_is_made_of_others_is_where_all_of_them_are(tmp_path: Path) -> None:
    disk = _machine(tmp_path)
    raid = tmp_path / "sys/devices/virtual/block/md0"
    (raid / "slaves").mkdir(parents=True)
    (raid / "slaves/nvme0n1").symlink_to(disk)
    assert numa_node_of(raid, tmp_path / "sys") == 1
    other = tmp_path / "sys/devices/other"
    other.mkdir()
    (raid / "slaves/other").symlink_to(other)
    assert numa_node_of(raid, tmp_path / "sys") is None


def test_by_default_nothing_is_left_out_on_a_machine_of_one_node() -> None:
    if len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) > 1:
        pytest.skip("this machine has several")
    choice = choose_cpus(None, usable_cpus(), cpus_near([Path("/var/tmp"), Path("/")]))
    assert (choice.cpus, choice.why, choice.trouble) == (usable_cpus(), "all that can be used", "")


def test_this_machine_can_be_looked_at() -> None:
    assert all(near <= frozenset(range(MOST_CPU)) for near in cpus_near([Path("/var/tmp")]))
    assert usable_cpus()
