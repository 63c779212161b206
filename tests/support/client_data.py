"""Small datasets in the formats of training code. Each function fills one folder."""

import io
import json
import random
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import datasets
import numpy
import pyarrow
import pyarrow.parquet
from PIL import Image

FIO_VERIFY = ("--name=image", "--bs=64k", "--size=24m", "--verify=crc32c", "--verify_state_save=0", "--minimal")


def images(folder: Path) -> None:
    """Write JPEG files, with a folder for each class."""
    for number in range(240):
        path = folder / f"class {number % 6}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_jpeg(number))


def shards(folder: Path) -> None:
    """Write tar files of images with their classes, in webdataset's format."""
    folder.mkdir()
    for shard in range(3):
        with tarfile.open(folder / f"shard-{shard}.tar", "w") as archive:
            for number in range(shard * 50, shard * 50 + 50):
                _add(archive, f"{number:06}.jpg", _jpeg(number))
                _add(archive, f"{number:06}.cls", str(number % 6).encode())


def arrow(folder: Path) -> None:
    """Write a dataset as ``save_to_disk`` does, in three files."""
    noise = random.Random(2)
    rows = [{"id": n, "text": noise.randbytes(200).hex(), "tokens": list(range(n % 40))} for n in range(4000)]
    datasets.Dataset.from_list(rows).save_to_disk(folder, num_shards=3)


def parquet(folder: Path) -> None:
    """Write three Parquet files of several row groups."""
    folder.mkdir()
    noise = numpy.random.default_rng(3)
    for part in range(3):
        ids = numpy.arange(part * 1500, part * 1500 + 1500)
        columns = {"id": ids, "class": ids % 10, "value": noise.standard_normal(1500)}
        pyarrow.parquet.write_table(pyarrow.table(columns), folder / f"part-{part}.parquet", row_group_size=500)


def arrays(folder: Path) -> None:
    """Write arrays of NumPy, with and without a header, and an archive."""
    folder.mkdir()
    noise = numpy.random.default_rng(4)
    numpy.save(folder / "array.npy", noise.standard_normal((1000, 700)))
    noise.standard_normal((40_000, 64), dtype=numpy.float32).tofile(folder / "raw.f32")
    numpy.savez(folder / "archive.npz", a=noise.integers(0, 9, 1000), b=noise.standard_normal((30, 30)))


def fio(folder: Path) -> None:
    """Write an image of blocks that contain their own checksum and position."""
    folder.mkdir()
    image = f"--filename={folder / 'image'}"
    subprocess.run(["fio", *FIO_VERIFY, "--rw=write", "--do_verify=0", image], check=True, stdout=subprocess.DEVNULL)


def tree(folder: Path) -> None:
    """Write files of many sizes with names that often break tools."""
    noise = random.Random(6)
    names = [
        " leading",
        "tab\tand  blanks",
        "-rf",
        'it\'s "quoted"',
        "caf\u00e9 \u65e5\u672c",
        "back\\slash",
        "x" * 255,
        "*?[a]",
    ]
    for number, name in enumerate(names * 5):
        path = folder / f"level {number % 5}" / name / f"{number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(noise.randbytes(number**3))
    (folder / "empty").touch()
    (folder / "meta.json").write_text(json.dumps(names))


FORMATS: dict[str, Callable[[Path], None]] = {
    "images": images,
    "shards": shards,
    "arrow": arrow,
    "parquet": parquet,
    "arrays": arrays,
    "fio": fio,
    "tree": tree,
}


def _jpeg(number: int) -> bytes:
    pixels = numpy.random.default_rng(number).integers(0, 255, (16, 16, 3), dtype=numpy.uint8)
    written = io.BytesIO()
    Image.fromarray(pixels).resize((96, 96)).save(written, "JPEG", quality=90)
    return written.getvalue()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))
