"""Trains a classifier of handwritten digits from a folder of PNG files.

One folder per class, as torchvision's ImageFolder.

Alone, or as one of several workers (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT from the environment, as torchrun sets
them). Knows nothing of Stoker: it reads files. Prints one JSON line at the end.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy
import torch
from PIL import Image
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

HELD_BACK = 5  # every fifth file is for the test of what was learned


class Digits(Dataset):
    """(image tensor 1 x 8 x 8 in 0..1, class number), read from disk at each access."""

    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        pixels = numpy.asarray(Image.open(path), dtype=numpy.float32) / 255.0
        return torch.from_numpy(pixels)[None], int(path.parent.name)


def network():
    """Make a small convolutional network: enough for 8 x 8 pixels."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 16, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def read_everything(root):
    """Read every file below ``root`` once. Returns (files, bytes, seconds)."""
    start, files, size = time.perf_counter(), 0, 0
    for path in sorted(root.rglob("*")):
        if path.is_file():
            size += len(path.read_bytes())
            files += 1
    return files, size, time.perf_counter() - start


def train(model, loader, sampler, epochs):
    """Train with plain cross-entropy and Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(epochs):
        if sampler:
            sampler.set_epoch(epoch)
        for images, classes in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), classes)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}/{epochs}: loss {loss.item():.4f}", flush=True)


def accuracy(model, paths):
    """Share of held-back files whose class the model finds."""
    model.eval()
    with torch.no_grad():
        found = [
            (model(images).argmax(1) == classes).sum().item() for images, classes in DataLoader(Digits(paths), 256)
        ]
    return sum(found) / len(paths)


def main():
    """Read, train, test, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("/data"))
    parser.add_argument("--also-read", type=Path, action="append", default=[], help="more folders to read once")
    parser.add_argument("--epochs", type=int, default=6)
    options = parser.parse_args()
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        distributed.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    reads = [read_everything(root) for root in [options.data, *options.also_read]]
    files, size, seconds = (sum(column) for column in zip(*reads, strict=True))
    paths = sorted(path for path in options.data.rglob("*.png"))
    learned = Digits([path for index, path in enumerate(paths) if index % HELD_BACK])
    sampler = DistributedSampler(learned, world, rank, seed=0) if world > 1 else None
    loader = DataLoader(learned, batch_size=64, sampler=sampler, shuffle=sampler is None, num_workers=1)
    model = network()
    train(DistributedDataParallel(model) if world > 1 else model, loader, sampler, options.epochs)
    report = {
        "rank": rank, "world": world, "files": files, "bytes": size, "readSeconds": round(seconds, 3),
        "accuracy": round(accuracy(model, paths[::HELD_BACK]), 4),
    }  # fmt: skip
    print(json.dumps(report), flush=True)
    if world > 1:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
