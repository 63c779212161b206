"""Where the files of a dataset are: below which mount, and by which paths."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

_ESCAPED = re.compile(rb"\\([0-3][0-7][0-7])")  # spaces and the like in the kernel's list of mounts


def mount_of(path: str) -> tuple[Path, str]:
    """Return the mount point that a path lies below, and the path from there; empty: the mount point itself."""
    mount = whole = Path(path).resolve()
    points = _mount_points()
    while str(mount) not in points and mount != mount.parent:
        mount = mount.parent
    below = str(whole.relative_to(mount))
    return mount, "" if below == os.curdir else below


def _mount_points() -> frozenset[str]:
    """Return where something is mounted, also from the same disk; nothing where there is no /proc."""
    try:
        return _parsed(Path("/proc/self/mountinfo").read_bytes())
    except OSError:
        return frozenset()


@lru_cache(maxsize=1)
def _parsed(text: bytes) -> frozenset[str]:
    points = (line.split(b" ")[4] for line in text.splitlines() if line.count(b" ") > 4)
    return frozenset(os.fsdecode(_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), point)) for point in points)


def folder_of(data: Any) -> str:
    """Return the folder of a dataset as torchvision's ImageFolder is one; empty: it is none."""
    root, samples = getattr(data, "root", None), getattr(data, "samples", None)
    if not isinstance(root, (str, os.PathLike)) or not isinstance(samples, list) or not samples:
        return ""
    first = samples[0]
    return os.fspath(root) if isinstance(first, tuple) and first and isinstance(first[0], str) else ""
