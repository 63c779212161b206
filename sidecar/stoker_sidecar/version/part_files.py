"""Files in the making as the fetcher leaves them on the disk, and agents give pieces of them to other nodes."""

import re
from pathlib import Path

# Bytes of a piece. A GET of 8 MiB runs at nearly the speed of a long one, and a random read waits for 8 MiB at most.
PIECE = 8 * 1024 * 1024
MAP_SUFFIX = ".map"
_HELD_SUFFIX = ".held"
_NAME = re.compile(r"[0-9]{1,10}\.[0-9a-f]{8}")


def is_part_name(name: str) -> bool:
    """Tell whether a file in the making may have this name: its inode, a dot and eight digits of chance."""
    return _NAME.fullmatch(name) is not None


def map_of(path: Path) -> Path:
    """Return the file of a byte a piece: 1 where it came from the source."""
    return path.with_name(path.name + MAP_SUFFIX)


def held_of(path: Path) -> Path:
    """Return the file of a byte a piece: 1 where another node gave it, and nothing proves it yet."""
    return path.with_name(path.name + _HELD_SUFFIX)
