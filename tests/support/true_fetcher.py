"""A fetcher as its own process that brings exactly the asked bytes from a folder which holds the truth.

Its own process, since a program that faults on a mapping stands still until it is answered, and with it all its
threads.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.wire.fetcher_protocol import Read, ReadDone
from tests.fakes.read_fetcher import Answer, FetcherForReads
from tests.support.waiting import wait_until


@contextmanager
def true_fetcher(socket: Path, version: Path, truth: Path) -> Iterator[None]:
    """Run one on ``socket`` for the version folder ``version``. ``truth`` has its complete files."""
    words = [sys.executable, "-m", __name__, str(socket), str(version), str(truth)]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(words, cwd=root, stdin=subprocess.PIPE) as process:
        try:
            wait_until(socket.exists)
            yield
        finally:
            process.kill()


def bringing(version: Path, truth: Path) -> Answer:
    """Answer a read by putting exactly its bytes into a partial file."""
    manifest = Manifest.open(version / "manifest.sqlite")

    def bring(request: Read) -> ReadDone:
        path, name = truth / manifest.path(request.ino), f"parts/{request.ino}"
        data = path.read_bytes()
        fd = os.open(version / name, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.ftruncate(fd, len(data))
            os.pwrite(fd, data[request.offset : request.offset + request.length], request.offset)
        finally:
            os.close(fd)
        return ReadDone("parts", name)

    return bring


def main() -> None:
    """Serve until standard input ends, which happens when the parent exits."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("socket", "version", "truth"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args()
    with FetcherForReads(options.socket, bringing(options.version, options.truth)):
        sys.stdin.read()


if __name__ == "__main__":
    main()
