"""PyTorch's DataLoader with worker processes. It reports its wait for each batch.

Run by Debian's Python: loader.py DATA OUT WORKERS STEP SECONDS [WORD...]. Each step takes STEP seconds after its batch
of 4 files arrived. OUT gets a JSON line for each step: the start and end of its wait, by the monotonic clock. Words:

pin         the loader pins memory, in a separate thread, as it does with a GPU (which is not needed)
persistent  workers are kept from epoch to epoch
spin        a step computes; without it, it sleeps, as a program does that waits for an accelerator
decode=S    each item takes S seconds more of a worker
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

BATCH = 4


class Files:
    """The files of a folder and its subfolders, as tensors of bytes."""

    def __init__(self, root: Path, seconds: float) -> None:
        self.paths = sorted(path for path in root.rglob("*") if path.is_file())
        self.seconds = seconds

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        data = bytearray(self.paths[index].read_bytes())
        time.sleep(self.seconds)
        return torch.frombuffer(data, dtype=torch.uint8)


def pretend_to_have_a_gpu() -> None:
    """Let the loader start its thread that pins memory, and return batches unchanged."""
    from torch.utils.data._utils import pin_memory

    torch.cuda.is_available = lambda: True
    torch.cuda.current_device = lambda: 0
    torch.cuda.set_device = lambda _: None
    pin_memory.pin_memory = lambda data, _device=None: data


def step(seconds: float, *, spin: bool) -> None:
    """Process a batch as a training does."""
    until = time.monotonic() + seconds
    while spin and time.monotonic() < until:
        pass
    time.sleep(max(0.0, until - time.monotonic()))


def main() -> None:
    """Read the files, epoch by epoch, until the time is over."""
    root, out, workers, seconds, whole = Path(sys.argv[1]), Path(sys.argv[2]), *map(float, sys.argv[3:6])
    words = sys.argv[6:]
    decode = next((float(word.removeprefix("decode=")) for word in words if word.startswith("decode=")), 0.0)
    torch.set_num_threads(1)
    if "pin" in words:
        pretend_to_have_a_gpu()
    loader = DataLoader(
        Files(root, decode),
        batch_size=BATCH,
        shuffle=True,
        num_workers=int(workers),
        pin_memory="pin" in words,
        persistent_workers="persistent" in words,
    )
    end = time.monotonic() + whole
    with out.open("a", buffering=1) as log:
        while time.monotonic() < end:
            before = time.monotonic()
            for _ in loader:
                log.write(json.dumps([before, time.monotonic()]) + "\n")
                step(seconds, spin="spin" in words)
                before = time.monotonic()
                if before > end:
                    return


if __name__ == "__main__":
    main()
