"""Writes the 1,797 handwritten digits of scikit-learn as PNG files in class folders, and the same data as large shards.

``python -m examples.digits.dataset DIR`` makes DIR/digits/<class>/<number>.png and DIR/digits-shards/<number>.npy.
"""

import sys
from pathlib import Path

import numpy
from PIL import Image
from sklearn.datasets import load_digits

SHARDS = 3
# The shards hold each image 16 times as large in both directions: 8 x 8 pixels would make files too small to watch.
SCALE = 16
LEVELS = 16  # scikit-learn's digits have values 0 to 16


def write(root: Path) -> int:
    """Write both forms below ``root``; returns the number of files."""
    digits = load_digits()
    pixels = (digits.images * (255 / LEVELS)).astype(numpy.uint8)
    for index, (image, number) in enumerate(zip(pixels, digits.target, strict=True)):
        folder = root / "digits" / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{index:04d}.png")
    shards = root / "digits-shards"
    shards.mkdir(parents=True, exist_ok=True)
    large = pixels.repeat(SCALE, axis=1).repeat(SCALE, axis=2)
    for index, shard in enumerate(numpy.array_split(large, SHARDS)):
        numpy.save(shards / f"{index:05d}.npy", shard)
    return len(pixels) + SHARDS


if __name__ == "__main__":
    print(f"{write(Path(sys.argv[1]))} files written")
