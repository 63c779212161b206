"""The demo's photos, and the program that verifies them."""

import runpy
from pathlib import Path

import pytest

from examples.demo import photos
from examples.demo.place import ROOT

COUNT = 11


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("demo")
    photos.write(root, COUNT)
    return root / "photos" / "train"


def test_photos_are_jpegs_of_about_100_kib_in_class_folders(train: Path) -> None:
    files = list(train.glob("*/*.jpg"))
    assert (len(files), len(list(train.iterdir()))) == (COUNT, photos.CLASSES)
    assert all(80 * 1024 < path.stat().st_size < 120 * 1024 for path in files)
    assert {path.read_bytes()[:2] for path in files} == {b"\xff\xd8"}  # the start of a JPEG


def test_photos_are_the_same_each_time(train: Path, tmp_path: Path) -> None:
    photos.write(tmp_path, COUNT)
    assert {path.name for path in tmp_path.rglob("*.jpg")} == {path.name for path in train.rglob("*.jpg")}


def test_verification_counts_changed_bytes_and_failed_reads(train: Path, tmp_path: Path) -> None:
    right, *_ = train.glob("*/*.jpg")
    changed, missing = tmp_path / right.name, tmp_path / "missing.jpg"
    changed.write_bytes(right.read_bytes()[:-1] + b"!")
    verify = runpy.run_path(str(ROOT / "examples/photos/verify.py"))["verify"]
    stops = iter([False, False, False, True])
    report = verify([right, changed, missing], lambda: next(stops))
    assert (report["reads"], report["wrong"], report["errors"]) == (4, 1, 1)
    assert report["worst_ms"] > 0
