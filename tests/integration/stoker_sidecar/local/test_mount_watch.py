"""Readers of a real mount in `stoker top --mount`: native as root, through FUSE as a user."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.s3 import S3Server
from tests.support.stoker_mount import SECONDS, StokerMount
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
FILES = {f"set/train/{number:03}.jpg": os.urandom(1000) for number in range(300)}
NOBODY = 65534
_READER = """
import os, random, sys, time
paths = [os.path.join(sys.argv[1], "train", name) for name in os.listdir(sys.argv[1] + "/train")]
while True:
    random.shuffle(paths)
    for path in paths:
        with open(path, "rb") as file:
            file.read()
        time.sleep(0.01)
"""


@contextmanager
def reading(stoker: StokerMount) -> Iterator[None]:
    """Read the mount as a training does: shuffled, one epoch after the other."""
    with subprocess.Popen(stoker.as_user(sys.executable, "-c", _READER, str(stoker.data))) as process:
        try:
            yield
        finally:
            process.kill()


def top(stoker: StokerMount) -> list[dict[str, Any]]:
    shown = stoker.run("top", "--mount", str(stoker.data), "-o", "json")
    assert shown.returncode == 0, shown.stderr
    rows: list[dict[str, Any]] = json.loads(shown.stdout)
    return rows


def phases_in_history(stoker: StokerMount) -> list[str]:
    shown = stoker.run("tuning", "history", "--mount", str(stoker.data), "--kind", "phase", "-o", "json")
    return [change["new"] for change in json.loads(shown.stdout)]


def trains(row: dict[str, Any]) -> bool:
    """Return True when the phase and its speed are known, which takes some seconds in the phase."""
    return bool(row.get("phase") == "Training" and row.get("itemsPerSecond"))


@pytest.mark.usefixtures("fuse_for_all")
@pytest.mark.parametrize(("user", "source"), [(0, "fanotify"), (NOBODY, "fuse")])
def test_a_program_that_reads_shuffled_files_is_shown_to_train(server: S3Server, user: int, source: str) -> None:
    with StokerMount(server, uid=user) as stoker:
        stoker.mount("--observe", "--warm")
        with reading(stoker):
            wait_until(lambda: any(trains(row) for row in top(stoker)), SECONDS)
            (row,) = top(stoker)
            assert (row["pod"], row["node"], row["observedBy"]) == (str(stoker.data), "here", source)
            # History and explanation are updated every ten seconds, later than `top`.
            wait_until(lambda: "Training" in phases_in_history(stoker), SECONDS)
            explained = stoker.run("tuning", "explain", "--mount", str(stoker.data), "-o", "json")
            assert json.loads(explained.stdout)["workload"]["phase"] == "Training"
        stoker.umount()
        assert not stoker.leftovers()
