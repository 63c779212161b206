"""Where the files of a dataset are: below which mount, and by which paths."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def mount_of(path: str) -> tuple[Path, str]:
    """Return the mount point that a path lies below, and the path from there; empty: the mount point itself."""
    mount = whole = Path(path).resolve()
    while not mount.is_mount():
        mount = mount.parent
    below = str(whole.relative_to(mount))
    return mount, "" if below == os.curdir else below


def folder_of(data: Any) -> str:
    """Return the folder of a dataset as torchvision's ImageFolder is one; empty: it is none."""
    root, samples = getattr(data, "root", None), getattr(data, "samples", None)
    if not isinstance(root, (str, os.PathLike)) or not isinstance(samples, list) or not samples:
        return ""
    first = samples[0]
    return os.fspath(root) if isinstance(first, tuple) and first and isinstance(first[0], str) else ""
