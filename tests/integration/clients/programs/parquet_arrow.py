"""pyarrow: a Parquet dataset with a filter and chosen columns, whole files read and mapped, and a random row group."""

import hashlib
import sys
from pathlib import Path

import pyarrow
import pyarrow.compute
import pyarrow.dataset
import pyarrow.parquet


def digest(table: pyarrow.Table) -> str:
    """Return the digest of all values."""
    return hashlib.sha256(repr(table.to_pydict()).encode()).hexdigest()


folder = Path(sys.argv[1])
found = pyarrow.dataset.dataset(str(folder), format="parquet")
print(digest(found.to_table(columns=["id"], filter=pyarrow.compute.field("class") == 3).sort_by("id")))
for path in sorted(folder.glob("*.parquet")):
    for mapped in (False, True):
        print(path.name, mapped, digest(pyarrow.parquet.read_table(path, memory_map=mapped)))
    print(digest(pyarrow.parquet.ParquetFile(path).read_row_group(1)))
