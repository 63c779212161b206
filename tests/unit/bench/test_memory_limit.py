"""A group with little memory is read as the kernel of either version of control groups writes it."""

from pathlib import Path

import pytest

from bench.memory_limit import MemoryLimit, limited_memory
from bench.page_order import physical_place

MIB = 2**20


@pytest.mark.parametrize(
    ("name", "stat"),
    [
        ("memory.max", f"anon {3 * MIB}\nfile {90 * MIB}\nshmem {MIB}\n"),
        ("memory.limit_in_bytes", f"cache {90 * MIB}\ntotal_rss {3 * MIB}\ntotal_shmem {MIB}\n"),
    ],
)
def test_a_fetcher_sees_the_limit_and_what_is_no_page_cache(tmp_path: Path, name: str, stat: str) -> None:
    (tmp_path / name).write_text(f"{200 * MIB}\n")
    (tmp_path / "memory.stat").write_text(stat)
    figures = limited_memory(tmp_path)
    assert (figures.limit, figures.bound, figures.total) == (200 * MIB, 4 * MIB, 200 * MIB)
    assert figures.available <= 200 * MIB


def test_a_command_is_run_as_a_part_of_the_group(tmp_path: Path) -> None:
    command = MemoryLimit(tmp_path).command(["program", "argument"])
    assert command[-3:] == [str(tmp_path / "cgroup.procs"), "program", "argument"]


def test_a_file_without_blocks_lies_nowhere(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    try:
        assert physical_place(str(tmp_path / "f")) == 0
    except OSError as error:
        pytest.skip(f"a file system without FIEMAP: {error}")
