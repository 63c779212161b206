"""A mount finds how much to fetch ahead by itself: from a bad beginning, with what its own readers come to."""

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.objects import write_zeros
from bench.proxy import DelayingProxy
from tests.support.s3 import running_s3
from tests.support.stoker_mount import StokerMount
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.root, pytest.mark.timeout(400)]
FILES, SIZE = 8, 512 * 2**20
SECONDS = 240.0  # it takes 60 where nothing else runs
RULES = """
apiVersion: stoker.dev/v1alpha1
kind: TuningProfile
metadata: {name: mine}
spec:
  settings: {auto_tuning: %s}
  rules:
    - id: little-ahead
      conditions: [{type: file_pattern, value: "*.bin"}]
      actions: [{type: prefetch, parameters: {prefetch_size: 64Ki, kernel_read_ahead: 128Ki, strategy: Adaptive}}]
"""


@pytest.fixture
def stoker(tmp_path: Path) -> Iterator[StokerMount]:
    """Serve files that take no room from half a second away."""
    with ExitStack() as stack:
        server = stack.enter_context(running_s3(tmp_path))
        folder = tmp_path / "data" / "data" / "set"
        folder.mkdir(parents=True)
        write_zeros(folder / "0.bin", SIZE)
        for number in range(1, FILES):
            (folder / f"{number}.bin").hardlink_to(folder / "0.bin")
        port = int(server.endpoint.rpartition(":")[2])
        proxy = stack.enter_context(DelayingProxy(port, "P500"))
        yield stack.enter_context(StokerMount(replace(server, endpoint=proxy.endpoint)))


class Reader(threading.Thread):
    """Reads all files from start to end, each once, until it is stopped."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._stopped = threading.Event()

    def run(self) -> None:
        buffer = bytearray(2**20)
        for number in range(FILES):
            with (self._folder / f"{number}.bin").open("rb", buffering=0) as file:
                while not self._stopped.is_set() and file.readinto(buffer):
                    pass

    def __enter__(self) -> "Reader":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        self.join()


def report(stoker: StokerMount) -> dict[str, Any]:
    (path,) = stoker.runs.glob("*/report.json")
    found: dict[str, Any] = json.loads(path.read_text())["tuning"]
    return found


def changes(stoker: StokerMount) -> list[dict[str, Any]]:
    """Return the changes in the mount's history, the oldest first."""
    (path,) = stoker.cache.glob("*/tuning-history.db")
    with sqlite3.connect(path) as file:
        return [json.loads(body) for (body,) in file.execute("SELECT body FROM history ORDER BY id")]


def mount(stoker: StokerMount, *, on: bool) -> None:
    path = stoker.folder / "rules.yaml"
    path.write_text(RULES % str(on).lower())
    stoker.mount("--tuning", str(path), "--tuning-window", "3.6")


def test_a_mount_adopts_what_is_faster_than_a_bad_beginning_and_knows_it_when_it_is_mounted_again(
    stoker: StokerMount,
) -> None:
    mount(stoker, on=True)
    with Reader(stoker.data):
        wait_until(lambda: "helped" in report(stoker).get("tuned", ""), SECONDS)
    stoker.umount()

    (helped,) = (each for each in changes(stoker) if each["verdict"] == "helped")
    knob, old, new = (helped["change"][name] for name in ("knob", "old", "new"))
    assert (knob, old, helped["change"]["origin"]) == ("prefetch_size", 8 * 2**20, "Adaptive")
    assert new > old
    known = len(changes(stoker))

    mount(stoker, on=True)
    with Reader(stoker.data):
        wait_until(lambda: report(stoker).get("numbers") == {"prefetch_size": new}, SECONDS)
    assert len(changes(stoker)) == known  # it was not looked for again
