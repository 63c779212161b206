"""With `stoker mount --warm PATH... --pages`, these paths are in the page cache when the command returns."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from stoker_sidecar.linux.kernel_caches import cached_bytes, drop_pages
from tests.support.brought_pages import brought_bytes
from tests.support.stoker_mount import StokerMount
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
SIZE = 300_000
FILES = {f"set/f{folder}/{n}.bin": bytes([folder, n]) * (SIZE // 2) for folder in range(2) for n in range(4)}


def _trees(stoker: StokerMount) -> dict[str, Path]:
    files = [path for path in stoker.cache.rglob("tree/*/*") if path.is_file()]
    return {f"{path.parent.name}/{path.name}": path for path in files}


def _cached(path: Path, *, drop: bool = False) -> int:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if drop:
            os.fsync(descriptor)
            drop_pages(descriptor)
        return min(SIZE, cached_bytes(descriptor) or 0)
    finally:
        os.close(descriptor)


def _last(said: str) -> dict[str, Any]:
    return dict([json.loads(line) for line in said.splitlines() if line.startswith("{")][-1])


def _dropped() -> int:
    """Return how often a process made the kernel drop the pages of the whole machine."""
    rows = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return int(rows.get("drop_pagecache", 0))


def _mounted_with_pages(stoker: StokerMount) -> dict[str, int]:
    """Mount with these paths in memory. Return the resident share of each of their files."""
    stoker.umount()
    # A page whose write has just ended may be in use briefly, and stays then.
    wait_until(lambda: sum(_cached(path, drop=True) for path in _trees(stoker).values()) == 0)
    last = _last(stoker.mount("-o", "json", "--warm", "f1/", "--pages"))
    assert last["pages"] == {"request": "mount", "bytes": 4 * SIZE, "readBytes": 4 * SIZE, "done": True}
    return {name: min(SIZE, brought_bytes(path)) for name, path in _trees(stoker).items() if name.startswith("f1/")}


def test_what_is_named_is_in_memory_when_the_command_returns(stoker: StokerMount) -> None:
    stoker.mount("--warm")
    before, brought = _dropped(), _mounted_with_pages(stoker)
    if _dropped() != before:  # by a benchmark test that runs in parallel
        brought = _mounted_with_pages(stoker)
    assert brought == {f"f1/{n}.bin": SIZE for n in range(4)}


def test_pages_without_warm_are_refused_with_what_to_do(stoker: StokerMount) -> None:
    done = stoker.run("mount", "s3://data/set", str(stoker.data), "--pages")
    assert (done.returncode, "give --warm as well" in done.stderr) == (2, True)
