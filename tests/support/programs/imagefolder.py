"""Typical PyTorch: an ImageFolder with validation and checkpoints, worker processes, a small network.

Run by Debian's Python, which has PyTorch: imagefolder.py DATA CHECKPOINTS TRUTH [PHASE [SEED]]. TRUTH gets a JSON line
at each change of phase. PHASE is the name of its training phase (HyperparamTuning for a sweep). Environment variables:
EPOCHS is the number of training epochs, STEP and SAVING are the minimum seconds of a step and a checkpoint.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

TRUTH = Path(sys.argv[3])
EPOCHS = int(os.environ.get("EPOCHS", "3"))
STEP = float(os.environ.get("STEP", "0.4"))  # seconds, as on a busy accelerator
SAVING = float(os.environ.get("SAVING", "3"))  # seconds, as for a model of some gigabytes
BATCH = 16


def say(phase: "str | None", epoch: "int | None" = None) -> None:
    """Log the new phase."""
    with TRUTH.open("a") as out:
        out.write(json.dumps({"t": time.monotonic(), "truth": {"phase": phase, "epoch": epoch}}) + "\n")


say("Initialization")

import numpy  # noqa: E402 - importing takes seconds, which are part of the phase
import torch  # noqa: E402
from PIL import Image  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402


class ImageFolder:
    """(pixels as a tensor, class number): a folder for each class, sorted, as torchvision's."""

    def __init__(self, root: Path) -> None:
        classes = sorted(path.name for path in root.iterdir() if path.is_dir())
        self.samples = [
            (path, number) for number, name in enumerate(classes) for path in sorted((root / name).iterdir())
        ]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> "tuple[Any, int]":
        path, number = self.samples[index]
        with Image.open(path) as image:
            pixels = numpy.asarray(image.convert("RGB"), dtype=numpy.float32) / 255
        return torch.from_numpy(pixels.transpose(2, 0, 1).copy()), number


def step(started: float) -> None:
    """Wait until the step has taken as long as on an accelerator."""
    time.sleep(max(0.0, started + STEP - time.monotonic()))


def main() -> None:
    """Train, validate and save in each epoch. Then evaluate on the test split."""
    torch.manual_seed(int(sys.argv[5]) if len(sys.argv) > 5 else 0)
    torch.set_num_threads(1)
    root, checkpoints = Path(sys.argv[1]), Path(sys.argv[2])
    training = sys.argv[4] if len(sys.argv) > 4 else "Training"
    workers = 4 if training == "Training" else 2
    loaders = {
        name: DataLoader(ImageFolder(root / name), batch_size=BATCH, shuffle=name == "train", num_workers=workers)
        for name in ("train", "val", "test")
    }
    layers = (torch.nn.Conv2d(3, 8, 3, 2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten())
    model = torch.nn.Sequential(*layers, torch.nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters())
    for epoch in range(EPOCHS):
        say(training, epoch)
        for pixels, numbers in loaders["train"]:
            started = time.monotonic()
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(pixels), numbers).backward()
            optimizer.step()
            step(started)
        say("Validation", epoch)
        evaluate(model, loaders["val"])
        say("SaveCheckpoint", epoch)
        save(model, optimizer, epoch, checkpoints)
    if training == "Training":
        say("Evaluation")
        evaluate(model, loaders["test"])
    say(None)


def evaluate(model: Any, loader: Any) -> None:
    """Read a split once."""
    with torch.no_grad():
        for pixels, _ in loader:
            started = time.monotonic()
            model(pixels)
            step(started)


def save(model: Any, optimizer: Any, epoch: int, folder: Path) -> None:
    """Write a checkpoint, with the duration of a larger model's."""
    state = {"epoch": epoch, "model_state_dict": model.state_dict(), "optimizer_state_dict": optimizer.state_dict()}
    with (folder / f"checkpoint-epoch{epoch}.pt").open("wb") as out:
        torch.save(state, out)
        time.sleep(SAVING)
        out.flush()


if __name__ == "__main__":
    main()
