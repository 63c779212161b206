"""With a warm list in a file of the version, a node fetches that file first, then its lines in order."""

from pathlib import Path

import pytest

from stoker_api.datasets import warm_list
from stoker_api.datasets.warm_paths import paths_digest, told_as_list
from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_sidecar.errors import ServerError
from stoker_sidecar.wire.fetcher_hints import FileKnobs, PackingKnobs, Tune
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, inode, open_cache_node
from tests.support.cases import cases

FOLDERS, EACH, SIZE = 4, 30, 100
FILES = {f"f{folder}/{number:03}": bytes([folder, number]) * 50 for folder in range(FOLDERS) for number in range(EACH)}
NAME = "lists/mine.txt"
TOLD = told_as_list(NAME)
LINES = ["f3/017", "f1/", "f3/002", "f0/00[12]", "f3/017", "f2/029"]
NAMED = ["f3/017", *(f"f1/{n:03}" for n in range(EACH)), "f3/002", "f0/001", "f0/002", "f2/029"]


async def _listed(cache_node: CacheNodeUnderTest, content: bytes | None = None, name: str = NAME) -> str:
    content = "\n".join(["# of mine", *LINES]).encode() if content is None else content
    fill(cache_node.store, FILES | {name: content})
    return await cache_node.list()


async def _warm(cache_node: CacheNodeUnderTest, digest: str, name: str = NAME) -> NodeDatasetStatus:
    await cache_node.configure(listingId="1", version=digest, eager=True, warmPaths=[f"/{name}"])
    return await cache_node.reach(lambda s: s.phase in (NodePhase.PATHS_WARM, NodePhase.FAILED))


def _came(cache_node: CacheNodeUnderTest) -> list[str]:
    return [get.path for get in cache_node.store.gets]


async def test_the_list_comes_first_and_then_what_it_names_in_its_order(cache_node: CacheNodeUnderTest) -> None:
    digest = await _listed(cache_node)
    status = await _warm(cache_node, digest)
    came = _came(cache_node)
    assert (came[0], sorted(came[1:])) == (NAME, sorted(NAMED))
    assert sorted(cache_node.tree(digest)) == sorted([NAME, *NAMED])
    part = status.warm_paths
    assert part is not None
    assert (part.files, part.bytes, part.warm_files, part.unmatched) == (len(NAMED), len(NAMED) * SIZE, len(NAMED), 0)
    assert part.digest == paths_digest(TOLD)


async def test_lines_that_name_nothing_are_counted_and_hold_up_nothing(cache_node: CacheNodeUnderTest) -> None:
    digest = await _listed(cache_node, "\n".join(["f1/003", *(f"gone/{n}" for n in range(500))]).encode())
    part = (await _warm(cache_node, digest)).warm_paths
    assert part is not None
    assert (part.files, part.warm_files, part.unmatched) == (1, 1, 500)
    assert part.unmatched_paths == ("gone/0", "gone/1", "gone/2")


@pytest.mark.expected_logs("WarmListInvalid")
@cases(
    "content, name, sentence",
    (b"f1/\n/f2\n", NAME, f"warm.list '{NAME}': line 2 of the list: the path '/f2' must be below"),
    (b"f1/\n\xff\n", NAME, f"warm.list '{NAME}': line 2 of the list is not UTF-8: save it as UTF-8"),
    (b"", NAME, "the list has no path"),
    (b"f1/", "lists/his.txt", "warm.list 'lists/his.txt': this version has no such file: put it there"),
    (b"f1/", "lists", "warm.list 'lists': it is a folder: name a text file"),
    (b"f1/" * 100, NAME, "the list has 300 B, and 200 B are the most"),
)
async def test_a_list_that_cannot_be_followed_is_refused_with_a_sentence_and_nothing_is_warmed(
    cache_node: CacheNodeUnderTest, content: bytes, name: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_list, "MOST_LIST_BYTES", 200)
    digest = await _listed(cache_node, content)
    status = await _warm(cache_node, digest, name)
    assert status.error is not None
    assert (status.phase, status.error.reason, status.error.temporary) == (
        NodePhase.FAILED,
        Reason.WARM_LIST_INVALID,
        False,
    )
    assert sentence in status.error.message
    assert set(_came(cache_node)) <= {NAME}
    assert await cache_node.read(digest, inode(cache_node, digest, "f2/005"), 0, SIZE) == FILES["f2/005"]


@pytest.mark.expected_logs("WarmListInvalid")
async def test_another_list_is_followed_after_one_that_was_refused(cache_node: CacheNodeUnderTest) -> None:
    fill(cache_node.store, {"wrong": b"/f1", "right": b"f1/007"})
    digest = await _listed(cache_node)
    assert (await _warm(cache_node, digest, "wrong")).phase is NodePhase.FAILED
    status = await _warm(cache_node, digest, "right")
    assert (status.phase, status.error) == (NodePhase.PATHS_WARM, None)


@pytest.mark.expected_logs("ServerError")
async def test_a_list_that_does_not_come_is_asked_for_again(cache_node: CacheNodeUnderTest) -> None:
    digest = await _listed(cache_node)
    cache_node.store.fail(ServerError("the server fails"), 20)
    await cache_node.configure(listingId="1", version=digest, eager=True, warmPaths=list(TOLD))
    status = await cache_node.reach(lambda s: s.phase is NodePhase.PATHS_WARM)
    assert status.error is None
    assert sorted(cache_node.tree(digest)) == sorted([NAME, *NAMED])


async def test_what_it_names_is_known_before_it_is_to_be_warmed(cache_node: CacheNodeUnderTest) -> None:
    digest = await _listed(cache_node)
    await cache_node.configure(listingId="1", version=digest, warmPaths=list(TOLD))
    status = await cache_node.reach(lambda s: s.warm_paths is not None)
    assert status.warm_paths is not None
    assert (status.phase, status.warm_paths.bytes, _came(cache_node)) == (NodePhase.IDLE, len(NAMED) * SIZE, [NAME])


async def test_of_a_new_version_its_own_list_is_read(cache_node: CacheNodeUnderTest) -> None:
    await _warm(cache_node, await _listed(cache_node))
    cache_node.store.put(NAME, b"f2/")
    digest = await cache_node.list("2")
    await cache_node.configure(listingId="2", version=digest, eager=True, warmPaths=list(TOLD))
    status = await cache_node.reach(lambda s: s.version == digest and s.phase is NodePhase.PATHS_WARM)
    assert status.warm_paths is not None
    assert (status.warm_paths.files, status.warm_paths.warm_files) == (EACH, EACH)


async def test_a_node_that_starts_anew_reads_the_list_that_it_has(tmp_path: Path) -> None:
    async with open_cache_node(tmp_path / "cache") as first:
        digest = await _listed(first)
        await _warm(first, digest)
        stores = first.stores
    stores["bucket"].gets.clear()
    async with open_cache_node(tmp_path / "cache", stores) as second:
        status = await _warm(second, digest)
        assert (status.phase, _came(second)) == (NodePhase.PATHS_WARM, [])


async def test_a_list_of_which_only_a_compressed_copy_is_kept_is_read_from_that(cache_node: CacheNodeUnderTest) -> None:
    content = "\n".join([f"f1/{n:03}" for n in range(EACH)] * 200).encode()
    fill(cache_node.store, {f"tables/{n}.csv": content for n in range(9)})
    digest = await _listed(cache_node, content)
    cache_node.node.tune(Tune(UID, digest, (FileKnobs(packing=PackingKnobs(3, 2.0, tried=False)),)))
    quota = 4 * len(content)
    await cache_node.configure(listingId="1", version=digest, eager=True, quotaBytes=quota)
    await cache_node.reach(lambda s: s.phase in (NodePhase.FULL, NodePhase.WARM))
    assert inode(cache_node, digest, NAME) in cache_node.copies(digest)
    await cache_node.configure(listingId="1", version=digest, eager=True, quotaBytes=quota, warmPaths=list(TOLD))
    status = await cache_node.reach(lambda s: s.warm_paths is not None)
    assert status.warm_paths is not None
    assert (status.warm_paths.files, _came(cache_node).count(NAME)) == (EACH, 1)
