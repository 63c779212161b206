"""The command `stoker cache drop` makes a mount cold in memory, according to the kernel's page data."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from stoker_sidecar.linux.kernel_caches import cached_bytes
from tests.support.stoker_mount import StokerMount

pytestmark = pytest.mark.root
FILES = {f"set/{n}.bin": bytes([n]) * 300_000 for n in range(5)}


def _in_memory(files: Iterable[Path]) -> int:
    total = 0
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            total += cached_bytes(descriptor) or 0
        finally:
            os.close(descriptor)
    return total


def _read(stoker: StokerMount) -> dict[str, bytes]:
    return {f"set/{path.name}": path.read_bytes() for path in stoker.data.iterdir()}


@pytest.mark.parametrize("options", [("--warm",), ()])
def test_pages_are_given_back_and_files_stay(stoker: StokerMount, options: tuple[str, ...]) -> None:
    stoker.mount(*options)
    assert _read(stoker) == FILES
    trees = [path for path in stoker.cache.rglob("tree/*") if path.is_file()]
    assert _in_memory(trees) >= 1_500_000
    done = stoker.run("cache", "drop", "--pages", "--mount", str(stoker.data))
    assert done.returncode == 0, done.stderr
    assert "were given back" in done.stdout
    assert _in_memory(trees) == 0
    assert _read(stoker) == FILES


def test_names_of_a_mount_that_is_not_native_are_given_back(stoker: StokerMount) -> None:
    stoker.mount()
    assert _read(stoker) == FILES
    before = stoker.mode()
    done = stoker.run("cache", "drop", "--names", "--mount", str(stoker.data))
    # After a full read it may be native, which is refused with a message.
    assert done.returncode == 0 or "is native" in done.stderr, done.stderr
    assert before
    assert _read(stoker) == FILES


def test_names_of_a_native_mount_are_refused_with_what_helps(stoker: StokerMount) -> None:
    stoker.mount("--warm")
    done = stoker.run("cache", "drop", "--names", "--mount", str(stoker.data))
    assert done.returncode == 1
    assert "--system" in done.stderr


def test_a_folder_that_is_not_mounted_is_refused(stoker: StokerMount) -> None:
    done = stoker.run("cache", "drop", "--pages", "--mount", str(stoker.data))
    assert (done.returncode, "is not mounted by a stoker mount" in done.stderr) == (1, True)
