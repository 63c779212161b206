"""Reads epochs of files by PyTorch's own DataLoader, and prints how long each batch took: `torch_batches.py JOB`.

JOB is JSON: ``root``, ``files`` by sample, ``seed``, ``epochs``, ``batch``, ``loaders``, ``step`` (seconds of each
batch's computing). Prints JSON: for each epoch and batch the seconds from asking for it to the end of its step, and
which share of its files was in memory when they were opened, by those that were looked at.
"""

import ctypes
import json
import mmap
import os
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler

_LOOKED_AT = 8  # of so many files, one is looked at: it costs more than opening it
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


class Files(Dataset):
    def __init__(self, root: str, files: list[str]) -> None:
        self.root, self.files = root, files

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, float]:
        with Path(self.root, self.files[index]).open("rb", buffering=0) as file:
            there = float("nan") if index % _LOOKED_AT else in_memory(file.fileno())
            return torch.frombuffer(bytearray(file.readall()), dtype=torch.uint8)[:1024], there


def in_memory(descriptor: int) -> float:
    """Return which share of an open file's pages can be read without the disk, and read none of them."""
    size = os.fstat(descriptor).st_size
    address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap")
    pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    try:
        if _libc.mincore(address, size, pages):
            raise OSError(ctypes.get_errno(), "mincore")
    finally:
        _libc.munmap(address, size)
    return sum(page & 1 for page in pages) / len(pages)


def main() -> None:
    job = json.loads(sys.stdin.readline())
    torch.set_num_threads(1)
    data = Files(job["root"], job["files"])
    sampler = DistributedSampler(data, num_replicas=1, rank=0, seed=job["seed"])
    loader = DataLoader(
        data, batch_size=job["batch"], sampler=sampler, num_workers=job["loaders"], persistent_workers=True
    )
    epochs = []
    for epoch in range(job["epochs"]):
        sampler.set_epoch(epoch)
        batches, began = [], time.monotonic()
        for _, there in loader:
            time.sleep(job["step"])
            now = time.monotonic()
            batches.append((now - began, there[~there.isnan()].mean().item()))
            began = now
        epochs.append(batches)
    print(json.dumps(epochs), flush=True)


if __name__ == "__main__":
    main()
