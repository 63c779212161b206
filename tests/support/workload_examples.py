"""The manifests in examples/workloads, and small image folders that their scripts can train on."""

import io
from pathlib import Path
from typing import Any

import numpy
import yaml
from PIL import Image

Object = dict[str, Any]
FOLDER = Path(__file__).resolve().parents[2] / "examples" / "workloads"
WORKLOADS = sorted(path.stem for path in FOLDER.glob("*.yaml"))
_PIXELS = 8


def documents(name: str) -> list[Object]:
    """Read the documents of an example."""
    return list(yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text(encoding="utf-8")))


def scripts() -> dict[str, str]:
    """Return the Python files in the examples' ConfigMaps by name, which is unique."""
    maps = [one for name in WORKLOADS for one in documents(name) if one["kind"] == "ConfigMap"]
    return {file: text for one in maps for file, text in one["data"].items()}


def image_folder(classes: int, each: int) -> dict[str, bytes]:
    """Return noisy PNG files by path, with a folder for each class below ``train``."""
    noise = numpy.random.default_rng(0)
    pixels = noise.integers(0, 256, (classes, each, _PIXELS, _PIXELS, 3), dtype=numpy.uint8)
    return {f"train/{at}/{n:04}.png": _png(pixels[at, n]) for at in range(classes) for n in range(each)}


def _png(pixels: Any) -> bytes:
    written = io.BytesIO()
    Image.fromarray(pixels).save(written, "PNG")
    return written.getvalue()
