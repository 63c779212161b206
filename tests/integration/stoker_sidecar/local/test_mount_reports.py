"""A plain Python program with stoker-client and a real mount: its order is known and prefetched."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from stoker_sidecar.local.mounts.mounted import all_mounted
from tests.support.s3 import S3Server
from tests.support.stoker_mount import SECONDS, StokerMount
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
COUNT, SOME = 500, 150
FILES = {f"set/train/{n % 5}/{n:03}.jpg": os.urandom(1000) for n in range(COUNT)}
NOBODY = 65534
# Reports its order and activity. Then, for each input line, it reads that number of further files.
_TRAINING = """
import itertools, pathlib, sys, time
from stoker_client import GlobalShuffleSampler, TrainingReport
names = sorted(pathlib.Path(sys.argv[1]).glob("train/*/*"))
sampler = GlobalShuffleSampler(len(names), seed=3, rank=0, world_size=1)
report = TrainingReport(framework="plain")
def samples():
    for epoch in range(40):
        sampler.set_epoch(epoch)
        report.order(sampler, batch_size=1, files={"path": "train"})
        report.say(phase="Training", epoch=epoch, epochs=40)
        report.flush()
        yield from sampler
read = samples()
names[next(read)].read_bytes()
for line in sys.stdin:
    for sample in itertools.islice(read, int(line)):
        names[sample].read_bytes()
        time.sleep(0.004)
"""


class Training:
    """The program, which reads on request."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def read(self, files: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{files}\n")
        self._process.stdin.flush()


@contextmanager
def training(stoker: StokerMount, socket: str) -> Iterator[Training]:
    command = stoker.as_user(sys.executable, "-c", _TRAINING, str(stoker.data))
    environment = {**os.environ, "STOKER_REPORT_SOCKET": socket}
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield Training(process)
        finally:
            process.kill()


def mounted(stoker: StokerMount, *options: str) -> str:
    """Mount. Return the socket that the last row names."""
    said = stoker.mount("--observe", "-o", "json", *options)
    last = [line for line in said.splitlines() if line.startswith("{")][-1]
    return str(json.loads(last)["reportSocket"])


@pytest.mark.usefixtures("fuse_for_all")
def test_the_order_of_a_program_is_known_and_what_comes_next_is_fetched(server: S3Server) -> None:
    with StokerMount(server, uid=NOBODY) as stoker, training(stoker, mounted(stoker)) as program:
        wait_until(lambda: stoker.report().order.source == "Report", SECONDS)
        program.read(SOME)
        wait_until(lambda: stoker.report().order.state == "Known", SECONDS)

        def fetched() -> int:
            row = stoker.report().row
            return row.warm_files if row is not None else 0

        wait_until(lambda: fetched() == COUNT, SECONDS)


@pytest.mark.usefixtures("fuse_for_all")
def test_of_a_mount_that_is_whole_it_is_read_into_memory_and_shown(server: S3Server) -> None:
    with StokerMount(server) as stoker:
        with training(stoker, mounted(stoker, "--warm")) as program:
            wait_until(lambda: stoker.report().order.source == "Report", SECONDS)
            program.read(30 * COUNT)
            wait_until(lambda: stoker.report().order.message.endswith("read ahead from the disk into memory"), SECONDS)
            wait_until(lambda: [row.get("order") for row in stoker.top()] == ["Known"], SECONDS)
            (row,) = stoker.top()
            assert (row["orderSource"], row["phase"], row["epochs"], row["framework"]) == (
                "Report",
                "Training",
                40,
                "plain",
            )
        stoker.umount()
        assert not stoker.leftovers()


def test_a_mount_that_nobody_looks_at_has_no_socket(stoker: StokerMount) -> None:
    stoker.mount()
    assert stoker.report().report_socket == ""
    (mount,) = all_mounted(stoker.runs)
    assert not mount.run.reports.exists()
