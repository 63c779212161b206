"""A real mount with a quota of a fraction of its data, and a rule that stores compressed copies."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.s3 import S3Server
from tests.support.stoker_mount import SECONDS, StokerMount
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
LINES = [json.dumps({"id": number, "text": "a token and another token " * 4}) + "\n" for number in range(400)]
TEXT = {f"set/text/{number:02}.jsonl": "".join(LINES[number:] + LINES[:number]).encode() for number in range(40)}
LARGE = {"set/large/shard.jsonl": "".join(LINES * 250).encode()}  # 12 MiB: two chunks
IMAGES = {f"set/images/{number}.jpg": b"\xff\xd8\xff\xe0" + b"as it is" * 5000 for number in range(4)}
FILES = TEXT | LARGE | IMAGES
RULES = """
apiVersion: stoker.dev/v1alpha1
kind: TuningProfile
metadata: {name: mine}
spec:
  rules:
    - id: packed
      conditions: []
      actions: [{type: compress, parameters: {compression: "on", min_ratio: 2}}]
"""


def mount(stoker: StokerMount, *options: str, quota: str = "13Mi") -> dict[str, object]:
    """Mount it and wait until the cache is full. Return the last event."""
    rules = stoker.folder / "rules.yaml"
    rules.write_text(RULES)
    said = stoker.mount("--warm", "--quota", quota, "--tuning", str(rules), "-o", "json", *options)
    event: dict[str, object] = json.loads(said.splitlines()[-1])
    return event


def copies(stoker: StokerMount) -> list[Path]:
    return sorted(stoker.cache.glob("*/cache/datasets/*/versions/*/packed/*.zst"))


def check_all(stoker: StokerMount) -> None:
    for key, body in FILES.items():
        assert (stoker.data / key.removeprefix("set/")).read_bytes() == body


@pytest.fixture(scope="module")
def packed(server: S3Server) -> Iterator[StokerMount]:
    """Mount with copies, for tests that only read."""
    with StokerMount(server) as stoker:
        assert mount(stoker)["warmFiles"] == len(FILES)
        yield stoker


def test_more_fits_the_quota_and_every_file_reads_as_it_is(packed: StokerMount, server: S3Server) -> None:
    assert len(copies(packed)) == len(TEXT | LARGE)
    before = len(server.gets("data"))
    check_all(packed)
    assert len(server.gets("data")) == before
    kept = packed.cache.glob("*/cache/datasets/*/versions/*/[tp]*/**/*")
    assert sum(path.stat().st_size for path in kept if path.is_file()) < sum(map(len, FILES.values())) / 4


def test_what_is_compressed_already_is_left_as_it_is(packed: StokerMount) -> None:
    trees = {path.name for path in packed.cache.glob("*/cache/datasets/*/versions/*/tree/*/*")}
    assert trees == {f"{number}.jpg" for number in range(4)}


def test_reads_from_anywhere_in_a_large_file_are_right(packed: StokerMount) -> None:
    body = LARGE["set/large/shard.jsonl"]
    with (packed.data / "large" / "shard.jsonl").open("rb", buffering=0) as file:
        for offset in (0, 1, 131_071, 131_072, len(body) // 2 + 5, len(body) - 3):
            for length in (1, 4096, 300_000):
                assert os.pread(file.fileno(), length, offset) == body[offset : offset + length]


def test_what_fits_as_it_is_has_no_copies(stoker: StokerMount) -> None:
    event = mount(stoker, quota="1Gi")
    assert event["warm"] is True
    assert event["mode"] == "native"
    assert not copies(stoker)


def test_a_damaged_copy_is_fetched_again_and_never_read(stoker: StokerMount, server: S3Server) -> None:
    mount(stoker)
    for path in copies(stoker):
        path.chmod(0o644)
        with path.open("r+b") as file:
            file.seek(path.stat().st_size // 3)
            file.write(b"other bytes")
    before = len(server.gets("data"))
    check_all(stoker)
    assert len(server.gets("data")) - before >= len(TEXT | LARGE)


def test_a_new_mount_of_the_same_cache_reads_the_copies(stoker: StokerMount, server: S3Server) -> None:
    mount(stoker)
    stoker.umount()
    before = len(server.gets("data"))
    event = mount(stoker)
    assert event["warmFiles"] == len(FILES)
    check_all(stoker)
    assert len(server.gets("data")) == before


def test_with_room_for_all_the_files_take_the_place_of_their_copies(stoker: StokerMount) -> None:
    mount(stoker)
    stoker.umount()
    mount(stoker, quota="1Gi")
    wait_until(lambda: not copies(stoker), SECONDS)
    check_all(stoker)
