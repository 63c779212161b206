"""The hardware of a machine, from small trees in place of /proc, /sys and /dev."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.linux.hardware import (
    DiskKind,
    Machine,
    PciDevice,
    count_gpus,
    disk_kind,
    network_speed,
    parse_memory,
    read_machine,
)
from stoker_sidecar.linux.mounts.mountinfo import Mount
from tests.support.cases import cases

NVIDIA, AMD, INTEL, ASPEED = 0x10DE, 0x1002, 0x8086, 0x1A03


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def pci(root: Path, name: str, kind: str, vendor: str) -> None:
    write(root / "sys/bus/pci/devices" / name / "class", kind)
    write(root / "sys/bus/pci/devices" / name / "vendor", vendor)


def interface(root: Path, name: str, speed: str, state: str = "up", *, device: bool = True) -> None:
    write(root / name / "speed", speed)
    write(root / name / "operstate", state)
    if device:
        (root / name / "device").mkdir()


def mount(target: str, device: str = "8:1", fs_type: str = "ext4", source: str = "/dev/sda1") -> Mount:
    return Mount(1, 0, device, "/", target, (), False, fs_type, source)


def block(sys: Path, device: str, name: str, rotational: str, partition: str = "") -> None:
    disk = sys / "devices" / name
    write(disk / "queue/rotational", rotational)
    (sys / "dev/block").mkdir(parents=True, exist_ok=True)
    if partition:
        write(disk / partition / "partition", "1\n")
    (sys / "dev/block" / device).symlink_to(disk / partition)


def test_memory_is_what_the_kernel_has() -> None:
    assert parse_memory("MemTotal:       16384000 kB\nMemFree:          100 kB\n") == 16384000 * 1024


@given(st.text(max_size=200))
def test_memory_is_not_known_by_another_text(text: str) -> None:
    assert parse_memory(text) is None


@pytest.mark.parametrize(
    ("device", "gpus"),
    [
        (PciDevice(0x0302, NVIDIA), 1),
        (PciDevice(0x0300, NVIDIA), 1),
        (PciDevice(0x0380, AMD), 1),
        (PciDevice(0x1200, AMD), 1),
        (PciDevice(0x0380, INTEL), 1),
        (PciDevice(0x0300, INTEL), 0),  # part of the processor
        (PciDevice(0x0300, ASPEED), 0),  # part of the board
        (PciDevice(0x0403, NVIDIA), 0),  # the sound device of the GPU
        (PciDevice(0x0680, NVIDIA), 0),  # a bridge between GPUs
        (PciDevice(0x0302, NVIDIA, virtual=True), 0),
    ],
)
def test_a_gpu_is_known_by_class_and_maker(device: PciDevice, gpus: int) -> None:
    assert count_gpus([device]) == gpus


def test_the_fastest_interface_of_hardware_that_is_up_counts(tmp_path: Path) -> None:
    interface(tmp_path, "eno1", "1000\n")
    interface(tmp_path, "eno2", "25000\n")
    interface(tmp_path, "eno3", "100000\n", "down")
    interface(tmp_path, "eno4", "-1\n")
    interface(tmp_path, "veth0", "10000\n", device=False)
    assert network_speed(tmp_path) == 25000 * 125_000


def test_of_a_pods_own_interface_no_speed_is_known(tmp_path: Path) -> None:
    interface(tmp_path, "eth0", "10000\n", device=False)
    assert network_speed(tmp_path) is None


@cases(
    "name, rotational, kind",
    ("nvme0n1", "0\n", DiskKind.NVME),
    ("sda", "0\n", DiskKind.SSD),
    ("sda", "1\n", DiskKind.HDD),
    ("sda", "", "Unknown"),
)
def test_a_partition_is_of_the_kind_of_its_disk(tmp_path: Path, name: str, rotational: str, kind: str) -> None:
    block(tmp_path, "8:1", name, rotational, f"{name}p1")
    assert disk_kind("/var/lib/stoker/cache", [mount("/"), mount("/var/lib")], tmp_path) == kind


def test_a_logical_volume_is_of_the_kind_of_what_it_lies_on(tmp_path: Path) -> None:
    block(tmp_path, "253:0", "dm-0", "0\n")
    block(tmp_path, "259:0", "nvme0n1", "0\n")
    (tmp_path / "devices/dm-0/slaves").mkdir()
    (tmp_path / "devices/dm-0/slaves/nvme0n1").symlink_to(tmp_path / "devices/nvme0n1")
    assert disk_kind("/cache", [mount("/", "253:0")], tmp_path) is DiskKind.NVME


def test_a_file_system_with_a_number_of_its_own_is_known_by_its_disk(tmp_path: Path) -> None:
    write(tmp_path / "class/block/sdb1/partition", "1\n")
    write(tmp_path / "class/block/queue/rotational", "1\n")
    assert disk_kind("/cache", [mount("/", "0:40", "btrfs", "/dev/sdb1")], tmp_path) is DiskKind.HDD


def test_the_mount_that_is_above_all_others_counts(tmp_path: Path) -> None:
    mounts = [mount("/"), mount("/cache", fs_type="ext4"), mount("/cache", "0:50", "tmpfs", "tmpfs"), mount("/cache2")]
    assert disk_kind("/cache/", mounts, tmp_path) is DiskKind.MEMORY


def test_a_network_file_system_is_of_no_kind(tmp_path: Path) -> None:
    assert disk_kind("/cache", [mount("/cache", "0:60", "nfs4", "server:/x")], tmp_path) is DiskKind.UNKNOWN
    assert disk_kind("/cache", [], tmp_path) is DiskKind.UNKNOWN


def test_a_whole_machine_is_read(tmp_path: Path) -> None:
    write(tmp_path / "proc/meminfo", "MemTotal: 1024 kB\n")
    write(tmp_path / "proc/self/mountinfo", "1 0 0:50 / /mem rw - tmpfs tmpfs rw\n")
    for number in range(2):
        pci(tmp_path, f"0000:0{number}:00.0", "0x030200\n", "0x10de\n")
    pci(tmp_path, "0000:09:00.0", "0x030000\n", "0x1a03\n")
    interface(tmp_path.joinpath("proc", "1", "root", "sys", "class", "net"), "eno1", "10000\n")
    found = read_machine([Path("/mem/cache")], tmp_path)
    assert (found.memory, found.gpus, found.network) == (1 << 20, 2, 1_250_000_000)
    assert found.disks == (("/mem/cache", DiskKind.MEMORY),)


def test_gpus_are_also_known_by_their_driver(tmp_path: Path) -> None:
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        write(tmp_path / "dev" / name, "")
    assert read_machine([], tmp_path).gpus == 2


def test_of_a_machine_that_shows_nothing_nothing_is_known(tmp_path: Path) -> None:
    found = read_machine([Path("/cache")], tmp_path)
    assert found == Machine(cpus=found.cpus, disks=(("/cache", DiskKind.UNKNOWN),))


def test_this_machine_can_be_read() -> None:
    assert (read_machine([Path("/tmp")]).memory or 0) > 0
