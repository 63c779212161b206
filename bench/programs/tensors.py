"""A process that loads every tensor of safetensors files, one file after the other, as a model server does."""

import json
import sys
import time
from collections.abc import Callable, Sequence

from safetensors import safe_open

from bench.children import receive_job
from bench.readers import Job


def run(load: Callable[[Sequence[str]], int]) -> None:
    """Run a loader process. It gets the job and the start signal on stdin, and prints the end time.

    ``load`` loads the files and returns the bytes of their tensors.
    """
    job = Job(**receive_job())
    total = load([f"{sys.argv[1]}/{path}" for path in job.paths])
    print(json.dumps({"at": time.monotonic(), "bytes": total}), flush=True)


def _load(paths: Sequence[str]) -> int:
    return sum(_load_file(path) for path in paths)


def _load_file(path: str) -> int:
    """Copy each tensor from the mapped file into memory, in the order of the header. Return the bytes."""
    with safe_open(path, framework="numpy") as file:
        return sum(file.get_tensor(name).nbytes for name in file.offset_keys())


if __name__ == "__main__":
    run(_load)
