"""webdataset: samples from tar shards, with decoded images."""

import hashlib
import sys
from pathlib import Path

import webdataset

shards = sorted(str(path) for path in Path(sys.argv[1]).glob("*.tar"))
digest = hashlib.sha256()
samples = 0
for key, image, number in (
    webdataset.WebDataset(shards, shardshuffle=False).decode("pil").to_tuple("__key__", "jpg", "cls")
):
    digest.update(key.encode() + image.tobytes() + bytes([number]))
    samples += 1
print(len(shards), samples, digest.hexdigest())
