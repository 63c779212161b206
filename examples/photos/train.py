"""Trains a classifier of photos: a folder per class, a DataLoader, and a loop over one epoch.

It does not know Stoker. Prints its progress, and a last line of JSON.
"""

import json
import sys
import time
from pathlib import Path

import numpy
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

SEED, BATCH, LOADERS, PIXELS = 42, 32, 2, 32
STEP_SECONDS = 0.2  # of a batch on the accelerator that this machine does not have
LINE_EVERY = 8  # batches


class Photos(Dataset):
    """(image tensor 3 x 32 x 32 in 0..1, class number), read and decoded at each access."""

    def __init__(self, root):
        self.paths = sorted(root.glob("*/*.jpg"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        image = Image.open(path)
        image.draft("RGB", (2 * PIXELS, 2 * PIXELS))
        pixels = numpy.asarray(image.resize((PIXELS, PIXELS)), dtype=numpy.float32) / 255
        return torch.from_numpy(pixels).permute(2, 0, 1), int(path.parent.name)


def main():
    """Train one epoch, and measure the time spent waiting for batches."""
    torch.set_num_threads(1)
    photos = Photos(Path(sys.argv[1]))
    sampler = DistributedSampler(photos, num_replicas=1, rank=0, seed=SEED)
    model = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(3 * 64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    done, waited, began = 0, 0.0, time.monotonic()
    asked = began
    for number, (images, classes) in enumerate(DataLoader(photos, BATCH, sampler=sampler, num_workers=LOADERS), 1):
        came = time.monotonic()
        waited += came - asked
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
        time.sleep(max(0, STEP_SECONDS - (time.monotonic() - came)))
        done, asked = done + len(images), time.monotonic()
        if number % LINE_EVERY == 0:
            line = f"{done:5} of {len(photos)} photos {done / (asked - began):6.1f}/s"
            print(f"{line} {waited / (asked - began):5.0%} waiting for data, loss {loss.item():.2f}", flush=True)
    print(json.dumps({"photos": done, "seconds": asked - began, "waited": waited}), flush=True)


if __name__ == "__main__":
    main()
