"""Hugging Face datasets, from Parquet files."""

import hashlib
import sys
import tempfile
from pathlib import Path

import datasets

with tempfile.TemporaryDirectory() as cache:
    files = sorted(str(path) for path in Path(sys.argv[1]).glob("*.parquet"))
    for streaming in (False, True):
        table = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=cache, streaming=streaming)
        digest = hashlib.sha256()
        rows = 0
        for row in table:
            digest.update(repr(sorted(row.items())).encode())
            rows += 1
        print(streaming, rows, digest.hexdigest())
