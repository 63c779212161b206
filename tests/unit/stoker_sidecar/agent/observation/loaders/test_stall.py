"""The kernel's counters of waits for disks, as text and as folders."""

from pathlib import Path

import pytest

from stoker_sidecar.agent.observation.loaders.stall_meter import (
    disk_pressure,
    find_pod_cgroup,
    parse_delay,
    parse_pressure,
)
from tests.support.cases import cases

UID = "0b7b6c9e-1111-4222-8333-444455556666"
PRESSURE = (
    "some avg10=1.46 avg60=6.34 avg300=5.07 total=3078143843\nfull avg10=0.24 avg60=1.32 avg300=1.91 total=1500000\n"
)


def test_pressure_is_the_time_in_which_nothing_went_on() -> None:
    assert parse_pressure(PRESSURE) == 1.5


@pytest.mark.parametrize("text", ["", "full\n", "full total=x\n", "some avg10=0 total=3\n"])
def test_a_kernel_without_that_line_counts_nothing(text: str) -> None:
    assert parse_pressure(text) is None


def test_the_delay_stands_behind_a_name_that_may_hold_anything() -> None:
    fields = " ".join(str(number) for number in range(4, 53))
    assert parse_delay(f"123 (a) b ( 7) R {fields}") == pytest.approx(0.42)


@cases(
    "path",
    f"kubepods/burstable/pod{UID}",
    f"kubepods/pod{UID}",
    f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UID.replace('-', '_')}.slice",
    f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UID.replace('-', '_')}.slice",
)
def test_a_pods_cgroup_is_found_with_every_driver(path: str, tmp_path: Path) -> None:
    (tmp_path / path).mkdir(parents=True)
    assert find_pod_cgroup(tmp_path, UID) == tmp_path / path


def test_a_cgroup_elsewhere_is_not_taken_for_a_pods(tmp_path: Path) -> None:
    (tmp_path / "system.slice" / f"pod{UID}").mkdir(parents=True)
    assert find_pod_cgroup(tmp_path, UID) is None
    assert find_pod_cgroup(tmp_path, "") is None


def test_a_kernel_without_pressure_files_counts_nothing(tmp_path: Path) -> None:
    assert disk_pressure(tmp_path) is None
