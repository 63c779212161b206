"""Worker processes that are killed, stopped or cannot start, under the fetcher and a real S3 server."""

import asyncio
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.wire.fetcher_protocol import Read, ReadDone
from tests.support.fetcher_node import UID, FetcherNode, fetcher_node
from tests.support.processes import is_running
from tests.support.s3 import S3Server
from tests.support.storm import kind_of
from tests.support.waiting import eventually

FILES = {f"d{index % 10}/f{index:04}": b"%d " % index * 2000 for index in range(1500)}


def _workers(node: FetcherNode) -> list[int]:
    pid = node.process.process.pid
    children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [child for child in children if kind_of(child) == "stoker-worker"]


async def _read_all(node: FetcherNode, failed: list[Any]) -> None:
    wanted = node.inodes()
    for path in sorted(wanted, reverse=True):  # from the other end than the warm-up
        reply = await node.process.ask(Read(UID, node.digest, wanted[path], 0, len(FILES[path])))
        if not (isinstance(reply, ReadDone) and node.content(reply) == FILES[path]):
            failed.append((path, reply))


async def test_killed_workers_cost_readers_no_error_and_no_finished_file_is_fetched_again(
    s3: S3Server, tmp_path: Path
) -> None:
    bucket = await s3.bucket(FILES)
    async with fetcher_node(tmp_path / "cache", s3.source(bucket)) as node:
        await node.warm()
        failed: list[Any] = []
        reading = asyncio.create_task(_read_all(node, failed))
        finished: set[str] = set()
        asked = 0
        for share in (0.1, 0.3, 0.5):
            await eventually(partial(_has_more_than, node, share * len(FILES)), 60.0)
            finished, asked = node.paths(), len(s3.gets(bucket))
            killed = _workers(node)
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
            await eventually(partial(_has_others_than, node, killed), 60.0)
        await node.reach(NodePhase.WARM)
        await reading
        assert failed == []
        assert node.tree() == FILES
        assert node.unfinished() == []
    assert finished.isdisjoint(s3.gets(bucket)[asked:])


async def test_workers_end_with_a_killed_fetcher(tmp_path: Path) -> None:
    async with fetcher_node(tmp_path / "cache", {}) as node:
        workers = _workers(node)
        assert workers
        await node.process.kill()
        await eventually(lambda: not any(map(is_running, workers)))


def _has_more_than(node: FetcherNode, count: float) -> bool:
    return len(node.paths()) > count


def _has_others_than(node: FetcherNode, killed: list[int]) -> bool:
    return len(set(_workers(node)) - set(killed)) == len(killed)
