"""A reader with a damaged file open, native or by overlay, gets the right bytes, or EOF without damaged bytes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.root
SIGBUS = 7

# In a separate process: it has its own mounts, and its child dies of SIGBUS.
_PROGRAM = """
import json, mmap, os, subprocess, sys
from pathlib import Path
from stoker_sidecar.fetcher.ondisk.recovery.repairs import DamagedFile
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Entry

folder, kind, outcome = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
size, shown, file = 7000, folder / "shown", folder / "tree" / "f"
for name in ("tree", "other", "shown"):
    (folder / name).mkdir()
file.write_bytes(b"damaged" * 1000)
layers = f"lowerdir={folder}/other:{folder}/tree"
options = {"native": ["--bind", str(folder / "tree")], "overlay": ["-t", "overlay", "-o", layers, "overlay"]}
subprocess.run(["mount", *options[kind], str(shown)], check=True)
opened = os.open(shown / "f", os.O_RDONLY)
mapped = mmap.mmap(opened, size, prot=mmap.PROT_READ)
before = mapped[:7].decode()
with DamagedFile(VersionPaths(folder), file, Entry(2, 1, b"f", False, size, 0, "", "")) as damaged:
    file.unlink()
    if outcome == "mended":
        file.write_bytes(b"correct" * 1000)
        assert damaged.heal()
    else:
        damaged.empty()
child = os.fork()
if child == 0:
    os._exit(0 if mapped[:7] == b"correct" else 1)
status = os.waitpid(child, 0)[1]
print(json.dumps([before, os.pread(opened, 7, 0).decode(), os.WTERMSIG(status), os.WEXITSTATUS(status)]))
"""


def _seen(folder: Path, *words: str) -> Any:
    """Return a reader's earlier mapped bytes, its read(2) now, and signal and exit code of its mapping."""
    command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", _PROGRAM, str(folder), *words]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)


@pytest.mark.parametrize("kind", ["native", "overlay"])
def test_a_reader_gets_the_right_bytes_by_what_it_had_open_and_mapped(tmp_path: Path, kind: str) -> None:
    assert _seen(tmp_path, kind, "mended") == ["damaged", "correct", 0, 0]


@pytest.mark.parametrize("kind", ["native", "overlay"])
def test_where_none_come_it_reads_the_end_and_its_mapping_is_sigbus(tmp_path: Path, kind: str) -> None:
    assert _seen(tmp_path, kind, "emptied") == ["damaged", "", SIGBUS, 0]
