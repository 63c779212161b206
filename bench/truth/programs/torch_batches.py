"""Reads epochs of files by PyTorch's own DataLoader, and prints how long each batch took: `torch_batches.py JOB`.

JOB is JSON: ``root``, ``files`` by sample, ``seed``, ``epochs``, ``batch``, ``loaders``, ``step`` (seconds of each
batch's computing). Prints JSON: for each epoch the seconds from asking for each batch to the end of its step.
"""

import json
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Files(Dataset):
    def __init__(self, root: str, files: list[str]) -> None:
        self.root, self.files = root, files

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> torch.Tensor:
        with Path(self.root, self.files[index]).open("rb", buffering=0) as file:
            return torch.frombuffer(bytearray(file.readall()), dtype=torch.uint8)[:1024]


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
        times, began = [], time.monotonic()
        for _ in loader:
            time.sleep(job["step"])
            now = time.monotonic()
            times.append(now - began)
            began = now
        epochs.append(times)
    print(json.dumps(epochs), flush=True)


if __name__ == "__main__":
    main()
