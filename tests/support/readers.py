"""Readers that check every byte, for tests that kill processes during reads."""

import hashlib
import os
import random
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support.waiting import SECONDS_OF_PROCESSES, wait_until

_READERS = 4


class VerifyingReaders:
    """A context manager: threads that read every file repeatedly, bypass the page cache, and count errors.

    ``reads`` counts whole files, ``wrong`` errors and wrong bytes. ``longest`` is the seconds of the slowest read.
    """

    def __init__(self, mountpoint: Path, files: Mapping[str, bytes]) -> None:
        """Make readers of a mount that must show ``files``, by path."""
        self.reads = 0
        self.wrong: list[str] = []
        self.longest = 0.0
        self._mountpoint = mountpoint
        self._hashes = {path: hashlib.sha256(data).digest() for path, data in files.items()}
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(seed,)) for seed in range(_READERS)]

    def __enter__(self) -> "VerifyingReaders":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(SECONDS_OF_PROCESSES)

    def wait_for(self, count: int, since: int) -> None:
        """Wait until more than ``count`` files were read since ``reads`` was ``since``. Raises TimeoutError."""
        wait_until(lambda: self.reads > since + count)

    def _run(self, seed: int) -> None:
        source = random.Random(seed)
        paths = list(self._hashes)
        while not self._stop.is_set():
            path = source.choice(paths)
            begin = time.monotonic()
            try:
                with (self._mountpoint / path).open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                    right = hashlib.sha256(file.read()).digest() == self._hashes[path]
            except OSError as error:
                self.wrong.append(f"{path}: {error}")
            else:
                self.reads += 1
                if not right:
                    self.wrong.append(f"{path}: wrong bytes")
            self.longest = max(self.longest, time.monotonic() - begin)
