"""The kernel's memory figures, from its files."""

import os
from pathlib import Path

import pytest

from stoker_sidecar.fetcher.pages import memory_figures
from stoker_sidecar.fetcher.pages.memory_figures import cgroup_memory, machine_memory, memory_pressure

PRESSURE = "some avg10=1.50 avg60=0.00 avg300=0.00 total=34163\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=8544\n"


def test_the_memory_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:       100 kB\nMemFree:    1 kB\nMemAvailable:   60 kB\nHugePages: 0\n")
    assert machine_memory(tmp_path / "meminfo") == (102400, 61440)


def test_this_machine_says_it_too() -> None:
    total, available = machine_memory()
    assert 0 < available < total


def test_a_limit_and_what_of_it_is_bound(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.stat").write_text("anon 100\nfile 700\nkernel_stack 1\nshmem 10\nslab 20\n")
    assert cgroup_memory(tmp_path) == (1000, 131)


@pytest.mark.parametrize("limit", ["max", None])
def test_without_a_limit_there_is_none(tmp_path: Path, limit: str | None) -> None:
    if limit is not None:
        (tmp_path / "memory.max").write_text(limit)
    assert cgroup_memory(tmp_path) is None


@pytest.mark.parametrize(("text", "share"), [(PRESSURE, 1.5), ("", None), (None, None)])
def test_how_long_some_process_waited_for_memory(tmp_path: Path, text: str | None, share: float | None) -> None:
    if text is not None:
        (tmp_path / "memory").write_text(text)
    assert memory_pressure(tmp_path / "memory") == share


def test_what_is_held_is_read_anew_though_its_name_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pressure = tmp_path / "memory"
    pressure.write_text("some avg10=1.00 avg60=0.00 avg300=0.00 total=0\n")
    monkeypatch.setattr(memory_figures, "FACTS", (str(pressure), str(tmp_path / "missing")))
    held: dict[Path, int] = {}
    monkeypatch.setattr(memory_figures, "_held", held)
    memory_figures.hold()
    with pressure.open("r+") as file:
        file.write("some avg10=2.00")
    pressure.unlink()
    assert memory_figures.memory_pressure(pressure) == 2.0
    os.close(held[pressure])
