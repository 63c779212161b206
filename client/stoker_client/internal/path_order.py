"""The file of each sample of a dataset, and a check that all nodes share the order of these files."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any


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
