"""The files of a dataset: their mount point, their paths, and a check that all nodes share their order."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
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


def paths_of(data: Any) -> list[str]:
    """Return the file of each sample of a dataset like torchvision's ImageFolder; empty for other datasets."""
    samples = getattr(data, "samples", None)
    if not isinstance(samples, list) or not samples or not isinstance(samples[0], tuple):
        return []
    return [sample[0] for sample in samples] if isinstance(samples[0][0], str) else []


def warn_if_unsorted(paths: Sequence[str]) -> None:
    """Warn when the paths are in the order of a folder listing, which differs between nodes and mounts."""
    pair = unsorted_pair(paths)
    if pair is not None:
        warnings.warn(
            f"the samples' paths are not sorted ({pair[0]!r} comes before {pair[1]!r}): os.listdir and glob list files "
            "in another order on each node, so ranks would read different samples. Sort the paths.",
            stacklevel=3,
        )


def unsorted_pair(paths: Sequence[str]) -> tuple[str, str] | None:
    """Return the first two neighbors in descending order; None if the paths are sorted.

    The order may be that of the strings or that of the folders' names. A folder's files may come before its subfolders,
    as sorted(os.walk()) returns them.
    """
    descents = (pair for pair in zip(paths, islice(paths, 1, None)) if pair[0] > pair[1])
    return next((pair for pair in descents if _descends(*pair)), None)


def _descends(first: str, second: str) -> bool:
    one, other = Path(first).parts, Path(second).parts
    depth = next((place for place, names in enumerate(zip(one, other)) if names[0] != names[1]), 0)
    file_before_folder = depth == len(one) - 1 and depth < len(other) - 1
    return one[depth] > other[depth] and not file_before_folder
