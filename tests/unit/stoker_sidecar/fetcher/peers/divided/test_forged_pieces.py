"""A lying node fits its bytes to the CRC of the right ones. Only a cryptographic hash of the source proves them."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from e2e.support.forgery import EVIL, crc64nvme, forged
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.fetcher.peers.peer_client import Ask
from stoker_sidecar.store.core.object_checksum import Checksum
from stoker_sidecar.wire.fetcher_protocol import PEER_BYTES, PEER_WRONG
from tests.fakes.object_store import MemoryStore, multipart_etag
from tests.support.divided_nodes import NAMES, Linked, Taken, begin, count_of, nodes, whole, whole_in_time

PART = 5 * 2**20  # bytes, not aligned with pieces
BY_CHECKSUM: dict[str, Any] = {"groups": {"proof": "Checksum"}}


def of_parts(**more: Any) -> MemoryStore:
    """Return a store of multipart objects as S3 keeps them, with the CRC-64/NVME of the whole object."""
    return MemoryStore(etag=multipart_etag(PART), states=_crc64nvme, **more)


def _crc64nvme(content: bytes) -> Checksum:
    return Checksum("crc64nvme", crc64nvme(content).to_bytes(8, "big"))


def model(chunks: int = 2) -> dict[str, bytes]:
    return {"model.pt": os.urandom(chunks * CHUNK + 5)}


def forge_the_first(ask: Ask, piece: bytes) -> bytes:
    return forged(piece) if ask.offset == 0 else piece


async def test_a_forged_piece_with_the_right_crc_is_not_kept(tmp_path: Path) -> None:
    content = model()
    taken = Taken(content, forge_the_first)
    async with nodes(tmp_path, taken, content, count=1, store=of_parts(part_size=PART)) as ((node,), digest):
        await begin(node, digest, 1)
        await whole_in_time(node)
        assert taken.asked
        assert node.tree(digest) == content
        assert node.store.gets


async def test_a_peer_with_a_forged_piece_gets_no_more_requests(tmp_path: Path) -> None:
    content = {f"shard-{number}": os.urandom(CHUNK + 5) for number in range(4)}
    taken = Taken(content, lambda ask, piece: forged(piece))
    async with nodes(tmp_path, taken, content, count=1, store=of_parts(part_size=PART)) as ((node,), digest):
        await begin(node, digest, 1)
        await whole_in_time(node)
        wrong, asked = count_of(node, PEER_WRONG), len(taken.asked)
        content["new"] = os.urandom(CHUNK)
        node.store.put("new", content["new"])
        later = await node.list("2", version=digest)
        await begin(node, later, 1, listingId="2")
        await whole_in_time(node)
        assert wrong >= 1
        assert (len(taken.asked), node.tree(later)) == (asked, content)


@pytest.mark.parametrize("etag", ["d41d8cd98f00b204e9800998ecf8427e-3", "an-etag-that-says-nothing"])
async def test_an_object_with_only_a_crc_comes_whole_from_the_source(tmp_path: Path, etag: str) -> None:
    content, store = model(), of_parts()
    store.etag = lambda _: etag
    taken = Taken(content, forge_the_first)
    async with nodes(tmp_path, taken, content, count=1, store=store) as ((node,), digest):
        await begin(node, digest, 1)
        await whole_in_time(node)
        assert (taken.asked, node.tree(digest)) == ([], content)
        assert sum(get.length for get in store.gets) == len(content["model.pt"])


async def test_a_setting_makes_a_crc_sufficient(tmp_path: Path) -> None:
    content, store = model(), of_parts()
    taken = Taken(content, lambda ask, piece: piece)
    async with nodes(tmp_path, taken, content, count=1, store=store) as ((node,), digest):
        await begin(node, digest, 1, **BY_CHECKSUM)
        await whole(node)  # in real time: with a fast clock, a working peer would seem to have stopped
        assert (store.gets, node.tree(digest)) == ([], content)


async def test_the_forgery_of_these_tests_would_pass_for_a_crc(tmp_path: Path) -> None:
    content, store = model(), of_parts()
    taken = Taken(content, forge_the_first)
    async with nodes(tmp_path, taken, content, count=1, store=store) as ((node,), digest):
        await begin(node, digest, 1, **BY_CHECKSUM)
        await whole(node)  # in real time: with a fast clock, a working peer would seem to have stopped
        assert node.tree(digest)["model.pt"].startswith(EVIL)


async def test_multipart_objects_come_from_peers_with_one_head_each(tmp_path: Path) -> None:
    content = {f"shard-{number}": os.urandom(CHUNK + 5) for number in range(3)}
    store, linked = of_parts(part_size=PART), Linked()
    async with nodes(tmp_path, linked, content, store=store) as (found, digest):
        linked.nodes = dict(zip(NAMES, found, strict=False))
        await asyncio.gather(*(begin(node, digest, at) for at, node in enumerate(found)))
        await asyncio.gather(*map(whole, found))
        assert [node.tree(digest) for node in found] == [content, content]
        assert sum(get.length for get in store.gets) == sum(map(len, content.values()))
        assert max(store.heads.count(path) for path in content) <= len(found)
        assert [count_of(node, PEER_WRONG) for node in found] == [0, 0]


async def test_multipart_etags_without_md5_blame_no_peer(tmp_path: Path) -> None:
    content = {f"shard-{number}": os.urandom(CHUNK + 5) for number in range(3)}
    store = of_parts(part_size=PART)
    store.etag = lambda whole: multipart_etag(PART)(whole[::-1])  # such as SSE-KMS without its header
    taken = Taken(content, lambda ask, piece: piece)
    async with nodes(tmp_path, taken, content, count=1, store=store) as ((node,), digest):
        await begin(node, digest, 1)
        await whole_in_time(node)
        assert node.tree(digest) == content
        assert (count_of(node, PEER_WRONG), count_of(node, PEER_BYTES) > 0) == (0, True)
