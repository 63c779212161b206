"""A machine's hardware from /proc, /sys and /dev: memory, processors, GPUs, network speed, kinds of disks, boot id.

The kernel shows these to every container; only network interfaces depend on the network namespace. Unreadable values
are unknown (None). Only ``boot_id`` raises.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from stoker_sidecar.linux.mounts.mountinfo import Mount, parse

# PCI classes of GPUs: VGA, 3D, other display, accelerator. VGA chips of server boards come from vendors without GPUs.
# Intel's VGA devices are part of its processors.
_VGA, _CLASSES = 0x0300, (0x0300, 0x0302, 0x0380, 0x1200)
_NVIDIA, _AMD, _INTEL, _HABANA = 0x10DE, 0x1002, 0x8086, 0x1DA3
_MAKERS = (_NVIDIA, _AMD, _INTEL, _HABANA)
_NVIDIA_NODE = re.compile(r"nvidia[0-9]+")
_MEGABIT = 125_000  # bytes
_MEMORY_SYSTEMS = ("tmpfs", "ramfs")
_MOST_DEPTH = 4  # levels of stacked devices, such as LVM on a RAID


class DiskKind(StrEnum):
    """The medium of a folder. A virtual disk has the kind that its hypervisor reports."""

    NVME = "NVMe"
    SSD = "SSD"
    HDD = "HDD"  # it rotates
    MEMORY = "Memory"
    UNKNOWN = "Unknown"  # a network file system, or several disks


class PciDevice(NamedTuple):
    """A PCI device: class and subclass, vendor, and whether it is a virtual function of another listed device."""

    kind: int
    maker: int
    virtual: bool = False


@dataclass(frozen=True)
class Machine:
    """A machine's hardware, in bytes and bytes per second. None: unknown.

    ``network`` is the speed of its fastest interface. ``disks`` has the kind of each cache folder's disk.
    """

    memory: int | None = None
    cpus: int | None = None
    gpus: int | None = None
    network: int | None = None
    disks: tuple[tuple[str, DiskKind], ...] = ()


def read_machine(folders: Iterable[Path], root: Path = Path("/")) -> Machine:
    """Inspect this process's machine, with the disks of ``folders``. Blocks for milliseconds.

    ``root`` is the folder with /proc, /sys and /dev.
    """
    proc, sys = root / "proc", root / "sys"
    devices = read_pci(sys / "bus/pci/devices")
    nodes = sum(_NVIDIA_NODE.fullmatch(path.name) is not None for path in _entries(root / "dev"))
    # Through the root folder of process 1, which is the node's if the sidecar sees the node's processes.
    interfaces = (proc.joinpath("1", "root", "sys", "class", "net"), sys / "class/net")
    mounts = read_mounts(proc / "self/mountinfo")
    return Machine(
        memory=parse_memory(_text(proc / "meminfo")),
        cpus=os.cpu_count(),
        gpus=None if devices is None else max(count_gpus(devices), nodes),
        network=max(filter(None, map(network_speed, interfaces)), default=None),
        disks=tuple((str(folder), disk_kind(str(folder), mounts, sys)) for folder in folders),
    )


def parse_memory(meminfo: str) -> int | None:
    """Parse the bytes of memory from /proc/meminfo. Pure."""
    found = re.search(r"^MemTotal:\s+([0-9]{1,15}) kB$", meminfo, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def read_pci(root: Path) -> list[PciDevice] | None:
    """Return the PCI devices of the machine, or None if it shows none."""
    if not root.is_dir():
        return None
    return [
        PciDevice(_hexadecimal(path / "class") >> 8, _hexadecimal(path / "vendor"), (path / "physfn").exists())
        for path in _entries(root)
    ]


def count_gpus(devices: Iterable[PciDevice]) -> int:
    """Return the number of GPUs and training accelerators. Pure."""
    return sum(_is_gpu(one) for one in devices)


def _is_gpu(device: PciDevice) -> bool:
    if device.virtual or device.kind not in _CLASSES or device.maker not in _MAKERS:
        return False
    return not (device.maker == _INTEL and device.kind == _VGA)


def network_speed(root: Path) -> int | None:
    """Return the speed of the fastest active hardware interface in bytes per second; None: unknown.

    Pod interfaces and bridges report a nominal speed. They have no ``device``.
    """
    speeds = [
        _decimal(path / "speed")
        for path in _entries(root)
        if (path / "device").exists() and _text(path / "operstate").strip() == "up"
    ]
    return max(speeds, default=0) * _MEGABIT or None


def disk_kind(folder: str, mounts: Iterable[Mount], sys: Path = Path("/sys")) -> DiskKind:
    """Return the kind of a folder's disk without accessing the disk. ``mounts`` are this process's."""
    mount = _mount_of(folder, mounts)
    if mount is None:
        return DiskKind.UNKNOWN
    if mount.fs_type in _MEMORY_SYSTEMS:
        return DiskKind.MEMORY
    device = _block_device(mount, sys)
    return _kind_of(device) if device is not None else DiskKind.UNKNOWN


def block_device_of(folder: str, mounts: Iterable[Mount], sys: Path = Path("/sys")) -> Path | None:
    """Return the /sys folder of a folder's block device, or None."""
    mount = _mount_of(folder, mounts)
    return _block_device(mount, sys) if mount is not None and mount.fs_type not in _MEMORY_SYSTEMS else None


def _mount_of(folder: str, mounts: Iterable[Mount]) -> Mount | None:
    path = folder.rstrip("/") + "/"
    above = [mount for mount in mounts if path.startswith(mount.target.rstrip("/") + "/")]
    if not above:
        return None
    return max(enumerate(above), key=lambda one: (len(one[1].target.rstrip("/")), one[0]))[1]


def read_mounts(path: Path) -> tuple[Mount, ...]:
    """Return a process's mounts from its mountinfo file. Empty if it cannot be read."""
    try:
        return parse(os.fsdecode(path.read_bytes()))
    except (OSError, ValueError):
        return ()


def _block_device(mount: Mount, sys: Path) -> Path | None:
    by_number = sys / "dev/block" / mount.device
    # btrfs has a separate device number, and names one of its disks as the source.
    by_name = sys / "class/block" / Path(mount.source).name if mount.source.startswith("/dev/") else by_number
    return next((path.resolve() for path in (by_number, by_name) if path.exists()), None)


def _kind_of(device: Path, depth: int = 0) -> DiskKind:
    disk = device.parent if (device / "partition").exists() else device
    parts = _entries(disk / "slaves")
    if parts and depth < _MOST_DEPTH:
        return _kind_of(parts[0].resolve(), depth + 1)
    rotational = _text(disk / "queue/rotational").strip()
    if rotational == "1":
        return DiskKind.HDD
    if rotational != "0":
        return DiskKind.UNKNOWN
    return DiskKind.NVME if disk.name.startswith("nvme") else DiskKind.SSD


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:  # the speed of an inactive interface fails with EINVAL
        return ""


def _hexadecimal(path: Path) -> int:
    text = _text(path).strip()
    return int(text, 16) if re.fullmatch(r"0x[0-9a-f]{1,8}", text) else 0


def _decimal(path: Path) -> int:
    text = _text(path).strip()
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0


_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return the kernel's boot id, which changes at each start: a UUID of 36 characters. Raises OSError."""
    return _BOOT_ID.read_text().strip()
