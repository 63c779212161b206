"""NumPy: a mapped array, a raw memmap read at random, and an archive."""

import hashlib
import sys
from pathlib import Path

import numpy

folder = Path(sys.argv[1])
mapped = numpy.load(folder / "array.npy", mmap_mode="r")
raw = numpy.memmap(folder / "raw.f32", dtype=numpy.float32, mode="r").reshape(-1, 64)
rows = numpy.random.default_rng(1).permutation(len(raw))[:2000]
with numpy.load(folder / "archive.npz") as archive:
    parts = [mapped, mapped[::-7].copy(), raw[rows], numpy.asarray(raw), archive["a"], archive["b"]]
print([part.shape for part in parts])
print([hashlib.sha256(numpy.ascontiguousarray(part).tobytes()).hexdigest() for part in parts])
