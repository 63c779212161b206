"""Locates the files of a dataset: their mount point, and their paths below it."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

_ESCAPED = re.compile(rb"\\([0-3][0-7][0-7])")  # such as spaces in the kernel's list of mounts


def mount_of(path: str) -> tuple[Path, str]:
    """Return the mount point of a path, and the path below it. Empty: the mount point itself."""
    mount = whole = Path(path).resolve()
    points = _mount_points()
    while str(mount) not in points and mount != mount.parent:
        mount = mount.parent
    below = str(whole.relative_to(mount))
    return mount, "" if below == os.curdir else below


def _mount_points() -> frozenset[str]:
    """Return all mount points, including bind mounts. Empty without /proc."""
    try:
        return _parsed(Path("/proc/self/mountinfo").read_bytes())
    except OSError:
        return frozenset()


@lru_cache(maxsize=1)
def _parsed(text: bytes) -> frozenset[str]:
    points = (line.split(b" ")[4] for line in text.splitlines() if line.count(b" ") > 4)
    return frozenset(os.fsdecode(_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), point)) for point in points)


def folder_of(data: Any) -> str:
    """Return the folder of a dataset like torchvision's ImageFolder. Empty for other datasets."""
    root, samples = getattr(data, "root", None), getattr(data, "samples", None)
    if not isinstance(root, (str, os.PathLike)) or not isinstance(samples, list) or not samples:
        return ""
    first = samples[0]
    return os.fspath(root) if isinstance(first, tuple) and first and isinstance(first[0], str) else ""
