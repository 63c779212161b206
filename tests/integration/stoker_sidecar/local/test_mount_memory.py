"""With `stoker mount --memory-bytes --memory-names` files stay in memory, according to the kernel."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from stoker_sidecar.linux.kernel_caches import cached_bytes
from tests.support.stoker_mount import StokerMount
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
SIZE, COUNT = 300_000, 8
FILES = {f"set/{n}.bin": bytes([n]) * SIZE for n in range(COUNT)}
NAMES = COUNT + 1  # and the root


def _memory(stoker: StokerMount) -> dict[str, Any]:
    found = [json.loads(path.read_text()) for path in stoker.runs.glob("*/report.json")]
    return dict(found[0]["row"].get("memory") or {}) if found and found[0].get("row") else {}


def _in_memory(files: Iterable[Path]) -> int:
    total = 0
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            total += min(SIZE, cached_bytes(descriptor) or 0)
        finally:
            os.close(descriptor)
    return total


def _trees(stoker: StokerMount) -> list[Path]:
    return [path for path in stoker.cache.rglob("tree/*") if path.is_file()]


def _drop(stoker: StokerMount) -> None:
    done = stoker.run("cache", "drop", "--pages", "--mount", str(stoker.data))
    assert done.returncode == 0, done.stderr


def test_what_was_asked_for_stays_when_the_mounts_pages_are_dropped(stoker: StokerMount) -> None:
    stoker.mount("--warm", "--memory-bytes", "1Gi", "--memory-names")
    wait_until(lambda: (_memory(stoker).get("bytes"), _memory(stoker).get("names")) == (COUNT * SIZE, NAMES))
    assert _memory(stoker)["lockedBytes"] == COUNT * SIZE
    _drop(stoker)
    assert _in_memory(_trees(stoker)) == COUNT * SIZE
    assert {f"set/{path.name}": path.read_bytes() for path in stoker.data.iterdir()} == FILES
    trees = _trees(stoker)
    stoker.umount()
    for path in trees:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
    assert _in_memory(trees) == 0


def test_no_more_stays_than_was_asked_for(stoker: StokerMount) -> None:
    stoker.mount("--warm", "--memory-bytes", str(2 * SIZE))
    wait_until(lambda: _memory(stoker).get("bytes") == 2 * SIZE)
    _drop(stoker)
    assert 2 * SIZE <= _in_memory(_trees(stoker)) < 3 * SIZE


def test_a_mount_that_asks_for_nothing_has_no_such_figures(stoker: StokerMount) -> None:
    stoker.mount("--warm")
    assert _memory(stoker) == {}


def test_what_is_no_amount_is_refused(stoker: StokerMount) -> None:
    done = stoker.run("mount", "s3://data/set", str(stoker.data), "--memory-bytes", "much")
    assert (done.returncode, "is not a quantity of bytes" in done.stderr) == (2, True)
