"""The file in which a pod reads what is warm of one Dataset; docs/REPORTS.md says its format. Standard library only."""

import json
from collections.abc import Iterable

MOST_BYTES = 4 * 1024**2  # of a file; a bit for each of 1.3 million files is 160 KB, the rest are names of folders
_SUFFIX, _MOST_NAME = ".warm", 200


def file_name(dataset: str) -> str | None:
    """Return what the file of a Dataset is called; None: its name cannot be one of a file."""
    return dataset + _SUFFIX if dataset and len(dataset) <= _MOST_NAME and "/" not in dataset else None


def encode(folders: Iterable[tuple[str, int]], bits: bytes) -> bytes:
    """Write it: ``folders`` with the number of files in each, and a bit for each of those files in turn.

    Empty where it would be too large.
    """
    header = json.dumps({"v": 1, "folders": list(folders)}, ensure_ascii=False, separators=(",", ":")).encode()
    return header + b"\n" + bits if len(header) + len(bits) < MOST_BYTES else b""
