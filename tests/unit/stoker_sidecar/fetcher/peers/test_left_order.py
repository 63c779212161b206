"""The order of the remaining files of a version: by rank or by path, only marked and missing ones."""

import zlib

from stoker_sidecar.fetcher.peers.pieces_left import left_of
from stoker_sidecar.wire.fetcher_hints import FileKnobs, Tune
from tests.support.cache_node import UID
from tests.support.divided_version import DividedVersion
from tests.support.waiting import eventually

PATHS = [f"{folder}/{number}" for folder in "abc" for number in range(3)]
CONTENT = {path: path.encode() for path in PATHS}


def left(version: DividedVersion, marked: list[str], begin: float = 0.0) -> list[str]:
    found = left_of(version.fetching, version.files(marked), begin)
    return [version.fetching.version.manifest.path_of(entry) for entry in found]


def rank_last(version: DividedVersion, paths: list[str]) -> None:
    """Move these files behind all other files."""
    version.node.node.tune(
        Tune(UID, version.digest, (FileKnobs(), FileKnobs(warm_rank=3)), zlib.compress(version.files(paths)))
    )


async def test_all_that_is_marked_comes_in_order(version: DividedVersion) -> None:
    assert left(version, PATHS) == PATHS
    assert left(version, ["c/0", "a/1"]) == ["a/1", "c/0"]
    assert left(version, []) == []


async def test_what_is_here_is_left_out_and_so_is_what_comes_meanwhile(version: DividedVersion) -> None:
    await version.node.read(version.digest, version.entry("a/1").ino, 0, 3)
    assert left(version, ["a/0", "a/1", "a/2"]) == ["a/0", "a/2"]
    order = left_of(version.fetching, version.files(["a/0", "a/2"]))
    assert next(order).ino == version.entry("a/0").ino
    await version.node.read(version.digest, version.entry("a/2").ino, 0, 3)
    assert next(order, None) is None


async def test_files_of_a_later_rank_come_last(version: DividedVersion) -> None:
    rank_last(version, ["a/0", "b/1"])
    assert left(version, ["a/0", "a/1", "b/1", "c/0"]) == ["a/1", "c/0", "a/0", "b/1"]


async def test_it_may_begin_elsewhere_and_goes_round(version: DividedVersion) -> None:
    at = version.entry("b/0").ino / len(version.files([]))
    assert left(version, PATHS, at) == PATHS[3:] + PATHS[:3]


async def test_each_rank_begins_there(version: DividedVersion) -> None:
    rank_last(version, ["a/0", "b/1", "c/0"])
    at = version.entry("b/0").ino / len(version.files([]))
    early = ["b/0", "b/2", "c/1", "c/2", "a/1", "a/2"]
    assert left(version, PATHS, at) == [*early, "b/1", "c/0", "a/0"]


async def test_of_a_chosen_part_they_come_path_by_path_wherever_others_begin(version: DividedVersion) -> None:
    await version.node.configure(listingId="1", version=version.digest, warmPaths=["c/", "a/1"])
    await eventually(lambda: version.fetching.version.chosen.selection is not None)
    assert left(version, PATHS, 0.5) == ["c/0", "c/1", "c/2", "a/1"]
    assert left(version, ["a/0", "a/1", "c/2"]) == ["c/2", "a/1"]
