"""What the figures depend on."""

import os
import platform
from pathlib import Path

from bench.measure import MIB
from bench.report import Machine


def describe(cache_folder: Path) -> Machine:
    """Describe this machine as it is now; call it before anything is measured."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        kernel=platform.release().split("-")[0],
        cores=os.cpu_count() or 1,
        memory_gib=round(memory / MIB / 1024),
        python=platform.python_version(),
        cache_disk=file_system(cache_folder, Path("/proc/self/mounts").read_text()),
        load_before=os.getloadavg()[0],
    )


def file_system(folder: Path, mounts: str) -> str:
    """Return the type of the file system that ``folder`` lies on, by /proc/self/mounts. Pure."""
    best, kind = "", "unknown"
    for line in mounts.splitlines():
        _, target, this, *_ = line.split()
        if folder.is_relative_to(target) and len(target) >= len(best):
            best, kind = target, this
    return kind
