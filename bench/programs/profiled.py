"""PyTorch with worker processes for `stoker profile`. It reports its waits through stoker-client.

Run by Debian's Python with stoker-client on its path: profiled.py DATA [WORD=VALUE...], or profiled.py synthetic=COUNT.

workers=N   processes of the loader (2)
batch=N     items of a batch (16)
step=S      seconds of a batch on the accelerator, as a sleep without CPU time (0.05)
decode=S    seconds of a worker per item, besides the read (0.004)
spin=1      decoding computes; without it, decoding sleeps
epochs=N    number of epochs (1)
ratio=R     share of the items per epoch, by QualityRatioSampler (1); all of them use torch-distributed's order
"""

import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from stoker_client import QualityRatioSampler, TrainingReport

SEED = 7
OPTIONS = {"workers": 2, "batch": 16, "step": 0.05, "decode": 0.004, "spin": 0, "epochs": 1, "ratio": 1, "synthetic": 0}


class Items:
    """The files of a folder and its subfolders. With ``count``, that number of items without files."""

    def __init__(self, root: "Path | None", count: int, seconds: float, spin: bool) -> None:
        self.paths = [] if root is None else sorted(path for path in root.rglob("*") if path.is_file())
        self.count = count or len(self.paths)
        self.seconds = seconds
        self.spin = spin

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        if not self.paths:
            return 0
        size = len(self.paths[index].read_bytes())
        until = time.monotonic() + self.seconds
        while self.spin and time.monotonic() < until:
            pass
        time.sleep(max(0.0, until - time.monotonic()))
        return size


def main() -> None:
    """Train."""
    folder = next((Path(word) for word in sys.argv[1:] if "=" not in word), None)
    said = dict(word.split("=") for word in sys.argv[1:] if "=" in word)
    values = OPTIONS | {name: float(value) for name, value in said.items()}
    items = Items(folder, int(values["synthetic"]), values["decode"], bool(values["spin"]))
    if values["ratio"] < 1:
        sampler: Any = QualityRatioSampler(items, values["ratio"], seed=SEED, rank=0, world_size=1)
    else:
        sampler = DistributedSampler(items, num_replicas=1, rank=0, seed=SEED)
    torch.set_num_threads(1)
    loader = DataLoader(items, batch_size=int(values["batch"]), sampler=sampler, num_workers=int(values["workers"]))
    report = TrainingReport(framework="pytorch", rank=0, world_size=1)
    for epoch in range(int(values["epochs"])):
        sampler.set_epoch(epoch)
        report.say(epoch=epoch)
        for batch in report.loader(loader):
            time.sleep(values["step"] * len(batch) / values["batch"])
    report.flush()


if __name__ == "__main__":
    main()
