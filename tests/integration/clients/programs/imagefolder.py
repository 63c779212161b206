"""Typical PyTorch: an ImageFolder-style dataset, DataLoader with 4 workers, shuffled, two epochs.

Run by Debian's Python, which has PyTorch. Prints a digest of every decoded image with its class, and of the batches.
"""

import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class ImageFolder(Dataset):
    """(pixels as a tensor, class number): a folder for each class."""

    def __init__(self, root: Path) -> None:
        self.classes = sorted(path.name for path in root.iterdir() if path.is_dir())
        self.samples = [
            (path, number) for number, name in enumerate(self.classes) for path in sorted((root / name).glob("*.jpg"))
        ]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, number = self.samples[index]
        with Image.open(path) as image:
            return torch.from_numpy(numpy.asarray(image.convert("RGB")).copy()), number


def main() -> None:
    """Read the dataset twice."""
    torch.manual_seed(5)
    images = ImageFolder(Path(sys.argv[1]))
    loader = DataLoader(images, batch_size=16, shuffle=True, num_workers=4)
    digest = hashlib.sha256()
    seen = 0
    for _ in range(2):
        for pixels, numbers in loader:
            digest.update(pixels.numpy().tobytes() + numbers.numpy().tobytes())
            seen += len(numbers)
    print(len(images.classes), len(images), seen, digest.hexdigest())


if __name__ == "__main__":
    main()
