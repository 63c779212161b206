"""A mount that is read in --sampling's order: known, prefetched, shown. A wrong seed is detected."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from stoker_orders.predictors.samplers import SAMPLERS, SamplerName
from stoker_sidecar.local.reports.report_parts import OrderReport
from tests.support.s3 import S3Server
from tests.support.stoker_mount import SECONDS, StokerMount
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
COUNT, SEED, EPOCHS = 500, 3, 40
FILES = {f"set/train/{n % 5}/{n:03}.jpg": os.urandom(1000) for n in range(COUNT)}
SHARDS = {f"{n:02}.tar": 5 + 10 * (n % 3) for n in range(80)}  # samples of each
FILES |= {f"set/shards/{name}": os.urandom(1000) for name in SHARDS}
FILES["set/shards/sizes.json"] = json.dumps(SHARDS).encode()
FILES["set/old.txt"] = b"train/0/000.jpg\ntrain/0/999.jpg\n"
NOBODY = 65534
# Reads the files with the numbers on standard input, by folder and name.
_READER = """
import json, pathlib, sys, time
names = sorted(pathlib.Path(sys.argv[1]).glob(sys.argv[2]))
for sample in json.load(sys.stdin):
    names[sample].read_bytes()
    time.sleep(0.004)
time.sleep(600)
"""


def sampling(seed: int = SEED) -> str:
    return json.dumps({"sampler": "torch-distributed", "seed": seed, "epochs": EPOCHS, "files": {"path": "train"}})


def order(epochs: int = EPOCHS) -> list[int]:
    sampler = SAMPLERS[SamplerName.TORCH_DISTRIBUTED]
    return [sample for epoch in range(epochs) for sample in sampler.order(COUNT, SEED + epoch, epoch)]


def agrees(order: OrderReport) -> bool:
    """Return True if all of the last reads came in this order. At a new epoch this may change for a moment."""
    return (order.state, order.agreement) == ("Known", 100)


def is_read_ahead(order: OrderReport) -> bool:
    return agrees(order) and order.message.endswith("read ahead from the disk into memory")


@contextmanager
def reading(stoker: StokerMount, samples: list[int], pattern: str = "train/*/*") -> Iterator[None]:
    """Read the matching files in this order."""
    command = stoker.as_user(sys.executable, "-c", _READER, str(stoker.data), pattern)
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        json.dump(samples, process.stdin)
        process.stdin.close()
        try:
            yield
        finally:
            process.kill()


@pytest.mark.usefixtures("fuse_for_all")
@pytest.mark.parametrize("user", [0, NOBODY])
def test_of_a_mount_that_is_whole_what_comes_next_is_read_into_memory(server: S3Server, user: int) -> None:
    with StokerMount(server, uid=user) as stoker:
        stoker.mount("--warm", "--sampling", sampling())
        with reading(stoker, order()):
            wait_until(lambda: is_read_ahead(stoker.report().order), SECONDS)
            if not user:  # a row appears within 10 s, for any mount
                wait_until(lambda: [row.get("order") for row in stoker.top()] == ["Known"], SECONDS)
        stoker.umount()
        assert not stoker.leftovers()


@pytest.mark.usefixtures("fuse_for_all")
def test_of_a_cold_mount_what_comes_next_is_fetched_before_it_is_asked_for(server: S3Server) -> None:
    with StokerMount(server, uid=NOBODY) as stoker:
        stoker.mount("--sampling", sampling())
        with reading(stoker, order()[:150]):
            wait_until(lambda: stoker.report().order.state == "Known", SECONDS)

            def fetched() -> int:
                row = stoker.report().row
                return row.warm_files if row is not None else 0

            wait_until(lambda: fetched() == COUNT, SECONDS)
        stoker.umount()


@pytest.mark.usefixtures("fuse_for_all")
def test_another_seed_is_found_wrong_and_said_in_the_foreground(server: S3Server) -> None:
    with StokerMount(server, uid=NOBODY) as stoker:
        command = stoker.start("mount", "s3://data/set", str(stoker.data), "-f", "--warm", "--sampling", sampling(99))
        wait_until(lambda: stoker.mode() != "" and stoker.report().known, SECONDS)
        with reading(stoker, order()):
            wait_until(lambda: stoker.report().order.state == "Wrong", SECONDS)
        assert "look at sampler, seed" in stoker.report().order.message
        assert command.stderr is not None
        assert any("order: Wrong: read " in line for line in command.stderr)


@pytest.mark.usefixtures("fuse_for_all")
def test_shards_of_unequal_counts_are_known_by_their_index(server: S3Server) -> None:
    shards = [number for number, count in enumerate(SHARDS.values()) for _ in range(count)]
    files = {"layout": "Shards", "path": "shards/*.tar", "index": "shards/sizes.json"}
    said = {"sampler": "torch-sequential", "epochs": EPOCHS, "files": files}
    with StokerMount(server, uid=NOBODY) as stoker:
        stoker.mount("--sampling", json.dumps(said))
        with reading(stoker, shards * EPOCHS, "shards/*.tar"):
            wait_until(lambda: agrees(stoker.report().order), SECONDS)
        assert stoker.run("umount", str(stoker.data)).returncode == 0


@pytest.mark.usefixtures("fuse_for_all")
@pytest.mark.parametrize("user", [0, NOBODY])
@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"path": "trian"}, "no sample is found at 'trian' (ImageFolder)"),
        ({"layout": "FileList", "path": "list.txt"}, "the source has no file 'list.txt', which should"),
        ({"layout": "FileList", "path": "old.txt"}, "the list 'old.txt' names 'train/0/999.jpg', which the"),
    ],
)
def test_files_that_are_not_there_are_told_before_anything_is_mounted(
    server: S3Server, user: int, files: dict[str, str], sentence: str
) -> None:
    with StokerMount(server, uid=user) as stoker:
        done = stoker.run("mount", "s3://data/set", str(stoker.data), "--sampling", json.dumps({"files": files}))
        assert (done.returncode, stoker.mode(), stoker.leftovers()) == (1, "", [])
        assert f"stoker: --sampling does not fit s3://data/set: {sentence}" in done.stderr
