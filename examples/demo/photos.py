"""Makes the demo's photos: seeded JPEGs of about 100 KiB in class folders, each named after its SHA-256."""

import hashlib
import io
import shutil
from pathlib import Path

import numpy
from PIL import Image

COUNT, CLASSES = 2000, 10
NAME_LENGTH = 32  # hexadecimal digits of the SHA-256 in a name
_PIXELS, _QUALITY = 400, 92
_NOISE = 96  # levels of grey: they make the size
_FORM = 1  # of the content: a new number makes the photos again


def photo(number: int, noise: "numpy.typing.NDArray[numpy.uint8]") -> bytes:
    """Return a JPEG: a part of the noise in a colour of its class."""
    rng = numpy.random.default_rng(number)
    x, y = rng.integers(0, len(noise) - _PIXELS, 2)
    colour = numpy.random.default_rng(number % CLASSES).integers(0, 256 - _NOISE, 3, dtype=numpy.uint8)
    out = io.BytesIO()
    Image.fromarray(noise[x : x + _PIXELS, y : y + _PIXELS] + colour).save(out, "JPEG", quality=_QUALITY)
    return out.getvalue()


def write(root: Path, count: int = COUNT) -> None:
    """Write the photos to ``root``/photos/train/<class>/<sha256>.jpg."""
    noise = numpy.random.default_rng(0).integers(0, _NOISE, (2 * _PIXELS, 2 * _PIXELS, 3), dtype=numpy.uint8)
    for number in range(count):
        body = photo(number, noise)
        folder = root / "photos" / "train" / str(number % CLASSES)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{hashlib.sha256(body).hexdigest()[:NAME_LENGTH]}.jpg").write_bytes(body)


def kept(cache: Path) -> Path:
    """Return a folder with the photos. It is made once, and appears by rename."""
    folder = cache / f"demo-photos-{COUNT}-{_FORM}"
    if not folder.exists():
        draft = folder.with_suffix(".new")
        shutil.rmtree(draft, ignore_errors=True)
        write(draft)
        draft.rename(folder)
    return folder
