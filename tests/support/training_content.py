"""The data of the training programs: small images in splits and classes, and a model in safetensors."""

import json
import random
import struct
from pathlib import Path

_SPLITS = {"train": 720, "val": 240, "test": 160}  # images of each
_CLASSES = 10
_WIDTH = 32  # pixels
_LAYERS = 4
_NEURONS = 256


def images(folder: Path, noise: random.Random) -> None:
    """Write bitmaps of noise, below a folder for each split and class."""
    for split, count in _SPLITS.items():
        for number in range(count):
            path = folder / split / f"class{number % _CLASSES}" / f"{number:05}.ppm"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"P6 %d %d 255\n" % (_WIDTH, _WIDTH) + noise.randbytes(3 * _WIDTH * _WIDTH))


def model(folder: Path, noise: random.Random) -> None:
    """Write a model as in Hugging Face's hub: config.json and model.safetensors, in the format's layout."""
    folder.mkdir(parents=True)
    size = 4 * _NEURONS * _NEURONS
    header = {
        f"layers.{layer}.weight": {
            "dtype": "F32",
            "shape": [_NEURONS, _NEURONS],
            "data_offsets": [layer * size, (layer + 1) * size],
        }
        for layer in range(_LAYERS)
    }
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    values = (noise.gauss(0, 0.05) for _ in range(_LAYERS * _NEURONS * _NEURONS))
    tensors = b"".join(struct.pack("<f", value) for value in values)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + tensors)
    (folder / "config.json").write_text(json.dumps({"model_type": "example", "hidden_size": _NEURONS}))
