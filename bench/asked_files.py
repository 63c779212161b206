"""What a disk gives when files are asked for before anybody reads them, some at once: the limit of reading ahead.

Nobody copies what comes, so that it costs the least CPU. What reads ahead of readers can bring no more than that.
"""

import os
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path


def asked_rate(root: Path, paths: Iterable[str], size: int, at_once: int) -> float:
    """Have the kernel read files of ``size`` bytes below ``root``, so many at a time; return files a second.

    Raises OSError.
    """
    began, count, asked = time.monotonic(), 0, deque[int]()
    try:
        for path in paths:
            asked.append(os.open(f"{root}/{path}", os.O_RDONLY))
            os.posix_fadvise(asked[-1], 0, size, os.POSIX_FADV_WILLNEED)
            count += 1
            if len(asked) >= at_once:
                _come(asked.popleft(), size)
        while asked:
            _come(asked.popleft(), size)
    finally:
        for descriptor in asked:
            os.close(descriptor)
    return count / (time.monotonic() - began)


def _come(descriptor: int, size: int) -> None:
    """Wait for a file: the byte that is read last is there when the rest is."""
    try:
        os.pread(descriptor, 1, size - 1)
    finally:
        os.close(descriptor)
