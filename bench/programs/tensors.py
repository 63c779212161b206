"""A process that loads every tensor of safetensors files, one file after the other, as a model server does."""

import json
import sys
import time

from safetensors import safe_open

from bench.children import receive_job
from bench.readers import Job


def _load(path: str) -> int:
    """Copy each tensor from the mapped file into memory, in the order of the header. Return the bytes."""
    with safe_open(path, framework="numpy") as file:
        return sum(file.get_tensor(name).nbytes for name in file.offset_keys())


def main() -> None:
    """Run a loader process. It gets the job and the start signal on stdin, and prints the end time."""
    job = Job(**receive_job())
    total = sum(_load(f"{sys.argv[1]}/{path}") for path in job.paths)
    print(json.dumps({"at": time.monotonic(), "bytes": total}), flush=True)


if __name__ == "__main__":
    main()
