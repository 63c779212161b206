"""What it gains to hold names in memory: a stat of every file, before and after the kernel was told to drop names."""

import json
import os
import random
import resource
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench.errors import UsageError
from stoker_sidecar.linux.kernel_caches import DROP_CACHES
from stoker_sidecar.linux.memory_locks import hold_name, raise_limits

NAME_FILES, NAME_ROUNDS = 15_000, 5
_FOLDER_FILES = 500
_SPARE = 200  # descriptors of this process itself


@dataclass(frozen=True)
class NameCost:
    """Seconds of one stat of each file, medians; and bytes of the kernel's memory for each name that is held."""

    files: int
    kept: float
    dropped: float
    dropped_held: float
    bytes_each: float


def measure_names(files: int, folder: Path) -> NameCost:
    """Measure on the file system of ``folder``. Raises UsageError."""
    if os.geteuid():
        raise UsageError("names are dropped by root alone: run it as root")
    raise_limits()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE
    if files > most:
        raise UsageError(f"this process may hold {most} names: --files {most} is the most")
    root = Path(tempfile.mkdtemp(prefix="stoker-names-", dir=folder))
    try:
        return _measured(_made(root, files))
    finally:
        shutil.rmtree(root)


def _measured(paths: Sequence[str]) -> NameCost:
    kept = [_storm(paths) for _ in range(NAME_ROUNDS)]
    dropped = [_storm(paths) for _ in range(NAME_ROUNDS) if _drop()]
    _drop()
    before = _slab()
    descriptors = [hold_name(path) for path in paths]
    each = (_slab() - before) / len(paths)
    held = [_storm(paths) for _ in range(NAME_ROUNDS) if _drop()]
    for descriptor in descriptors:
        os.close(descriptor)
    return NameCost(len(paths), median(kept), median(dropped), median(held), each)


def _made(root: Path, files: int) -> list[str]:
    paths = []
    for number in range(files):
        path = root / f"{number // _FOLDER_FILES:04}" / f"{number:07}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.touch()
        paths.append(str(path))
    os.sync()
    random.Random(1).shuffle(paths)
    return paths


def _storm(paths: Sequence[str]) -> float:
    began = time.perf_counter()
    for path in paths:
        os.stat(path)  # noqa: PTH116 -- a Path for each would cost more than the stat
    return time.perf_counter() - began


def _drop() -> bool:
    DROP_CACHES.write_text("2\n")
    return True


def _slab() -> int:
    rows = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return int(rows["Slab"].split()[0]) * 1024


def show_names(cost: NameCost, result: Path) -> str:
    """Write the figures as JSON, and return them as text."""
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_text(json.dumps(asdict(cost), indent=1))
    rows = [("kept", cost.kept), ("dropped", cost.dropped), ("dropped, but held", cost.dropped_held)]
    lines = [f"a stat of each of {cost.files:,} files, median of {NAME_ROUNDS}:"]
    lines += [
        f"  {name:<20}{seconds * 1000:>8.1f} ms{seconds / cost.files * 1e6:>8.2f} us each" for name, seconds in rows
    ]
    return "\n".join([*lines, f"  memory of the kernel for each name that is held: {cost.bytes_each:,.0f} bytes"])
