"""Hugging Face datasets, from a folder that save_to_disk wrote.

Arrow files that are mapped, read in order and at random.
"""

import hashlib
import sys

import datasets

datasets.disable_caching()  # otherwise it writes the order of a shuffle next to the data
table = datasets.load_from_disk(sys.argv[1], keep_in_memory=False)
digest = hashlib.sha256()
for row in table.shuffle(seed=3).select(range(500)):
    digest.update(repr(row).encode())
for batch in table.iter(batch_size=256):
    digest.update(repr(batch).encode())
print(len(table), len(table.cache_files), digest.hexdigest())
