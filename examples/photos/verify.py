"""Reads all photos in a loop and compares each with the SHA-256 in its name, until /tmp/stop exists.

The last line is JSON: reads, files with wrong bytes, failed reads, and the longest read in milliseconds.
"""

import hashlib
import itertools
import json
import sys
import time
from pathlib import Path

STOP = Path("/tmp/stop")
PAUSE_SECONDS = 0.01  # between reads: the machine has other work


def verify(paths, stopped):
    """Read files in a loop until ``stopped``. Return the figures."""
    reads = wrong = errors = 0
    worst = 0.0
    for path in itertools.cycle(paths):
        began = time.monotonic()
        try:
            wrong += hashlib.sha256(path.read_bytes()).hexdigest()[: len(path.stem)] != path.stem
        except OSError as error:
            errors += 1
            print(f"{path}: {error}", flush=True)
        reads, worst = reads + 1, max(worst, time.monotonic() - began)
        if stopped():
            break
        time.sleep(PAUSE_SECONDS)
    return {"reads": reads, "wrong": wrong, "errors": errors, "worst_ms": worst * 1000}


if __name__ == "__main__":
    print(json.dumps(verify(sorted(Path(sys.argv[1]).glob("*/*.jpg")), STOP.exists)), flush=True)
