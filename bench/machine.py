"""The context of the figures: the machine, the commit of this checkout, and the time."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from bench.measure import MIB
from bench.report import Machine, Origin

_ROOT = Path(__file__).resolve().parents[1]


def describe(cache_folder: Path) -> Machine:
    """Describe this machine now. Call it before any measurement."""
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
    """Return the file system type of ``folder`` according to /proc/self/mounts. Pure."""
    best, kind = "", "unknown"
    for line in mounts.splitlines():
        _, target, this, *_ = line.split()
        if folder.is_relative_to(target) and len(target) >= len(best):
            best, kind = target, this
    return kind


def origin(command: str, scale: str, now: datetime | None = None) -> Origin:
    """Describe a run that starts now. Without git or outside a checkout, the commit is empty."""
    date = (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")
    # Pages written by earlier runs do not change figures.
    changed = _git("status", "--porcelain", "--", ".", ":!docs/performance", ":!docs/img")
    return Origin(command, _git("rev-parse", "HEAD").strip(), bool(changed), date, scale)


def _git(*words: str) -> str:
    try:
        return subprocess.run(["git", *words], cwd=_ROOT, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
